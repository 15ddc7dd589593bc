//! The health scripts for Argo CD answer what their test files say, run by a Lua interpreter
//! (deploying.md P63). Argo CD's own follows Lua 5.1.

use std::path::PathBuf;

use mlua::{Lua, LuaOptions, StdLib, Table, Value as LuaValue};
use olm_api::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use olm_test::paths;
use serde_json::Value;

const KINDS: [&str; 3] = ["ClusterCatalog", "ClusterExtension", "ClusterObjectSet"];
/// What Argo CD knows of health.
const STATUSES: [&str; 5] = ["Healthy", "Progressing", "Degraded", "Suspended", "Missing"];

fn folder(kind: &str) -> PathBuf {
    paths::repository()
        .join("config/argocd/resource_customizations/olm.operatorframework.io")
        .join(kind)
}

/// Brings JSON into Lua as Argo CD does: null is absent, lists begin at 1.
fn into_lua(lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
    Ok(match value {
        Value::Null => LuaValue::Nil,
        Value::Bool(value) => LuaValue::Boolean(*value),
        Value::Number(number) => LuaValue::Number(number.as_f64().expect("a finite number")),
        Value::String(text) => LuaValue::String(lua.create_string(text)?),
        Value::Array(items) => {
            let table = lua.create_table()?;
            for item in items {
                table.push(into_lua(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
        Value::Object(members) => {
            let table = lua.create_table()?;
            for (name, member) in members {
                table.set(name.as_str(), into_lua(lua, member)?)?;
            }
            LuaValue::Table(table)
        }
    })
}

/// Runs a script on an object; returns status and message. Argo CD gives a script no files, no
/// modules and no other programs.
fn health(script: &str, object: &Value) -> mlua::Result<(String, String)> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    lua.globals().set("obj", into_lua(&lua, object)?)?;
    let answer: Table = lua.load(script).eval()?;
    Ok((answer.get("status")?, answer.get("message")?))
}

fn script(kind: &str) -> String {
    std::fs::read_to_string(folder(kind).join("health.lua")).unwrap()
}

// deploying.md P63
#[test]
fn argo_cd_is_told_the_state_of_each_object() {
    for kind in KINDS {
        let tests = paths::yaml(folder(kind).join("health_test.yaml"));
        let tests = tests["tests"].as_array().unwrap();
        let mut read = Vec::new();
        for test in tests {
            let input = test["inputPath"].as_str().unwrap();
            let object = paths::yaml(folder(kind).join(input));
            assert_eq!(object["kind"], kind, "{input}");
            let (status, message) = health(&script(kind), &object)
                .unwrap_or_else(|error| panic!("{kind} {input}: {error}"));
            let expected = &test["healthStatus"];
            assert_eq!(expected["status"], status.as_str(), "{kind} {input}");
            assert_eq!(expected["message"], message.as_str(), "{kind} {input}");
            assert!(STATUSES.contains(&status.as_str()), "{status}");
            read.push(input.to_owned());
        }
        read.sort();
        let files = paths::inside(&folder(kind).join("testdata")).into_iter();
        let files: Vec<_> =
            files.map(|file| format!("testdata/{}", file.file_name().unwrap().display())).collect();
        assert_eq!(read, files, "{kind}: every object is expected to be something");
    }
}

/// An object of the tests is one the program could have written.
#[test]
fn the_objects_of_the_tests_follow_their_schema() {
    for kind in KINDS {
        for file in paths::inside(&folder(kind).join("testdata")) {
            let object = paths::yaml(&file);
            let read = match kind {
                "ClusterCatalog" => serde_json::from_value::<ClusterCatalog>(object).map(drop),
                "ClusterExtension" => serde_json::from_value::<ClusterExtension>(object).map(drop),
                _ => serde_json::from_value::<ClusterObjectSet>(object).map(drop),
            };
            read.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
    }
}

/// Objects as anybody may write them, before and while the program sees them, end no script.
#[test]
fn a_script_takes_objects_without_anything() {
    for kind in KINDS {
        for object in [
            serde_json::json!({"metadata": {"name": "x"}}),
            serde_json::json!({"metadata": {"name": "x", "generation": 1}, "status": {}}),
            serde_json::json!({"metadata": {"name": "x"}, "status": {"conditions": []}}),
            serde_json::json!({"metadata": {"name": "x"}, "status": {"conditions": null}}),
            serde_json::json!({"metadata": {"name": "x", "generation": 1},
                "status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
        ] {
            let (status, _) = health(&script(kind), &object).unwrap();
            assert_eq!(status, "Progressing", "{kind} {object}");
        }
    }
}
