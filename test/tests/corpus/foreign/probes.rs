//! Whether an object is ready, as boxcutter says.

use olm_api::ProgressionProbe;
use olm_core::object::Object;
use olm_core::revision::{Readiness, evaluate};
use serde_json::{Value, json};

use super::table::{Table, rows, text, texts};

// applying.md 3.7
#[test]
fn probes_say_what_boxcutter_says() {
    let mut table = Table::new("probes.jsonl");
    for row in rows("probes.jsonl") {
        let ours = evaluate(&object(&row["object"]), &[probe(&row["probe"])]);
        table.judge(&row, compare(&row, ours));
    }
    table.conclude(22);
}

/// The object of a row, which has no kind, as one that [`probe`] selects.
fn object(row: &Value) -> Object {
    let mut value = row.clone();
    value["apiVersion"] = json!("v1");
    value["kind"] = json!("Kettle");
    Object::from_value(value).expect("an object")
}

/// The probe of a row; for rows about the generation, one that always passes.
fn probe(row: &Value) -> ProgressionProbe {
    let same = "metadata.generation";
    let passes = json!({"fieldsEqual": {"fieldA": same, "fieldB": same}});
    let mut assertion = if row.is_object() { row.clone() } else { passes };
    let member = assertion.as_object().and_then(|map| map.keys().next());
    let mut type_ = member.expect("a probe has one member").clone();
    type_[..1].make_ascii_uppercase();
    assertion["type"] = json!(type_);
    let kettles = json!({"type": "GroupKind", "groupKind": {"group": "", "kind": "Kettle"}});
    let probe = json!({"selector": kettles, "assertions": [assertion]});
    serde_json::from_value(probe).expect("the probe is one of our API")
}

/// Compares verdict and messages; ours has no message for an object that is ready.
fn compare(row: &Value, ours: Readiness) -> Result<(), String> {
    let want = text(row, "status");
    let messages = texts(row, "messages").join(" and ");
    let (same, ours) = match ours {
        Readiness::Ready => (want == "True", "True".to_owned()),
        Readiness::NotReady(message) => {
            (want == "False" && message == messages, format!("False: {message}"))
        }
        Readiness::Unknown(message) => {
            (want == "Unknown" && message == messages, format!("Unknown: {message}"))
        }
    };
    if same { Ok(()) } else { Err(ours) }
}
