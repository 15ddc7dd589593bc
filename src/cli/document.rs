//! Documents: what verbs print for programs, each described by a JSON Schema in `docs/schemas`.
//!
//! Source: plugin.md 1.3 (U10).

use std::io::Write;

use olm_core::yaml::to_yaml;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Value, json};

use crate::output::{Format, write_json};

/// The version of all of them: members are only ever added.
const VERSION: u8 = 1;

/// What a verb prints with `-o json` and `-o yaml`.
pub(crate) trait Document: Serialize {
    /// What its member `schema` says, and the title of its schema.
    const SCHEMA: &'static str;

    /// Returns its members behind schema and version.
    fn headed(&self) -> anyhow::Result<Headed> {
        Ok(Headed { schema: Self::SCHEMA, schema_version: VERSION, members: self.value()? })
    }

    /// Returns it as pages take it.
    fn value(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(self)?)
    }

    /// Prints it.
    fn write(&self, format: Format, out: &mut dyn Write) -> anyhow::Result<()> {
        let document = self.headed()?;
        match format {
            Format::Yaml => {
                let Headed { schema, members, .. } = document;
                let head = format!("schema: {schema}\nschemaVersion: {VERSION}\n");
                Ok(write!(out, "{head}{}", to_yaml(&members))?)
            }
            _ => write_json(out, &document),
        }
    }
}

/// A document with its head.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Headed {
    schema: &'static str,
    schema_version: u8,
    #[serde(flatten)]
    members: Value,
}

/// Something that is not known.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Unknown {
    /// What is not known.
    pub(crate) what: String,
    /// Why.
    pub(crate) why: String,
    /// The way out, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl Unknown {
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), hint: None }
    }
}

/// A schema with its title first.
#[derive(Serialize)]
struct Titled {
    title: &'static str,
    #[serde(flatten)]
    rest: Value,
}

/// Returns the schema of a document: its name, and its text.
pub(crate) fn schema<D: Document + JsonSchema>() -> (&'static str, String) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with_transform(RecursiveTransform(close));
    let mut schema = settings.into_generator().into_root_schema_for::<D>().to_value();
    let name = D::SCHEMA;
    if let Some(members) = schema.as_object_mut() {
        members.remove("title");
    }
    schema["properties"]["schema"] = json!({"const": name});
    schema["properties"]["schemaVersion"] = json!({"const": VERSION});
    if let Some(required) = schema["required"].as_array_mut() {
        required.splice(0..0, [json!("schema"), json!("schemaVersion")]);
    }
    let titled = Titled { title: name, rest: schema };
    let text = serde_json::to_string_pretty(&titled).unwrap_or_default();
    (name, text + "\n")
}

/// Leaves no room for members that no type names, and leaves out what only a CRD needs.
fn close(schema: &mut Schema) {
    let Some(members) = schema.as_object_mut() else {
        return;
    };
    members.retain(|key, _| !key.starts_with("x-kubernetes-"));
    if let Some(Value::String(text)) = members.get_mut("description") {
        *text = text.replace('\n', " ").replace("[`", "`").replace("`]", "`");
    }
    let Some(named) = members.get("properties").and_then(Value::as_object) else {
        return;
    };
    let named: Vec<String> = named.keys().cloned().collect();
    if let Some(variants) = members.get_mut("oneOf").and_then(Value::as_array_mut) {
        // What is flattened into it: each variant is closed by itself.
        for variant in variants {
            for name in &named {
                variant["properties"][name] = Value::Bool(true);
            }
        }
    } else {
        let closed = members.entry("additionalProperties");
        closed.or_insert(Value::Bool(false));
    }
}
