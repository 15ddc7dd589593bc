//! The types a configuration may hold below `deploymentConfig`, as a table.
//!
//! The table is text, `core_v1.txt`, because it is data: a newer Kubernetes adds words to it and no
//! code. Upstream freezes the same types as a JSON schema. Source: rendering.md 3.2.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Name of the type of `deploymentConfig` itself.
pub(super) const DEPLOYMENT_CONFIG: &str = "DeploymentConfig";

/// The type a value must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Boolean,
    Int32,
    Int64,
    /// A string or a number, such as `500m` or 1.
    Quantity,
    /// Anything but null.
    Any,
    /// A list of items of one type.
    List(Box<Self>),
    /// A map from any string to values of one type.
    Map(Box<Self>),
    /// An object with the fields of a type of the table.
    Named(&'static str),
}

/// One field of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) type_: Type,
    pub(super) required: bool,
}

/// Fields by name.
pub(super) type Fields = BTreeMap<&'static str, Field>;

static TABLE: LazyLock<BTreeMap<&'static str, Fields>> =
    LazyLock::new(|| parse(include_str!("core_v1.txt")));

/// Returns the fields of a type of the table; empty when there is no such type.
pub(super) fn fields(name: &str) -> &'static Fields {
    static NONE: Fields = Fields::new();
    TABLE.get(name).unwrap_or(&NONE)
}

/// Reads the table; a test checks that every word of it is understood.
fn parse(text: &'static str) -> BTreeMap<&'static str, Fields> {
    let mut table: BTreeMap<&str, Fields> = BTreeMap::new();
    let mut current = "";
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    for word in lines.flat_map(str::split_whitespace) {
        if let Some(name) = word.strip_suffix(':') {
            current = name;
            table.insert(name, Fields::new());
        } else if let Some((name, type_)) = word.split_once('=') {
            let required = name.ends_with('!');
            let field = Field { type_: parse_type(type_), required };
            let name = name.trim_end_matches('!');
            table.entry(current).or_default().insert(name, field);
        }
    }
    table
}

fn parse_type(word: &'static str) -> Type {
    let inside = |open, close| word.strip_prefix(open)?.strip_suffix(close);
    if let Some(item) = inside('[', ']') {
        return Type::List(Box::new(parse_type(item)));
    }
    if let Some(item) = inside('{', '}') {
        return Type::Map(Box::new(parse_type(item)));
    }
    match word {
        "string" => Type::Text,
        "boolean" => Type::Boolean,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "quantity" => Type::Quantity,
        "any" => Type::Any,
        name => Type::Named(name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn names_in(type_: &Type) -> Option<&'static str> {
        match type_ {
            Type::Named(name) => Some(name),
            Type::List(item) | Type::Map(item) => names_in(item),
            _ => None,
        }
    }

    #[test]
    fn every_word_of_the_table_is_understood() {
        for line in include_str!("core_v1.txt").lines() {
            for word in line.split_whitespace() {
                let understood = line.starts_with('#') || word.ends_with(':') || word.contains('=');
                assert!(understood, "{word}");
            }
        }
        // Upstream's 78 components without the three that are not objects, and the root.
        assert_eq!(TABLE.len(), 76);
        for (name, fields) in &*TABLE {
            assert!(!fields.is_empty(), "{name}");
            for named in fields.values().filter_map(|field| names_in(&field.type_)) {
                assert!(TABLE.contains_key(named), "{name} has a field of {named}");
            }
        }
    }

    /// Names the type of a schema that the crate k8s-openapi wrote, in the words of the table.
    fn word(schema: &Value) -> String {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('.').next().unwrap();
            return match name {
                "Quantity" => "quantity".to_owned(),
                "Time" => "string".to_owned(),
                "FieldsV1" => "any".to_owned(),
                name => name.to_owned(),
            };
        }
        match schema["type"].as_str().unwrap() {
            "array" => format!("[{}]", word(&schema["items"])),
            "object" => format!("{{{}}}", word(&schema["additionalProperties"])),
            "integer" => schema["format"].as_str().unwrap().to_owned(),
            scalar => scalar.to_owned(),
        }
    }

    // rendering.md 3.2: nothing of an older Kubernetes is missing or different; newer fields are in
    // the table alone.
    #[test]
    fn the_table_says_what_kubernetes_says() {
        use k8s_openapi::api::core::v1;
        let mut generator = schemars::SchemaGenerator::default();
        generator.subschema_for::<v1::Affinity>();
        generator.subschema_for::<v1::EnvVar>();
        generator.subschema_for::<v1::EnvFromSource>();
        generator.subschema_for::<v1::ResourceRequirements>();
        generator.subschema_for::<v1::Toleration>();
        generator.subschema_for::<v1::Volume>();
        generator.subschema_for::<v1::VolumeMount>();
        let mut compared = 0;
        for (path, schema) in generator.take_definitions(true) {
            let name = path.rsplit('.').next().unwrap();
            let Some(properties) = schema["properties"].as_object() else { continue };
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let ours = fields(name);
            for (key, property) in properties {
                let field = ours.get(key.as_str()).unwrap_or_else(|| panic!("{name}.{key}"));
                let word: &'static str = word(property).leak();
                assert_eq!(field.type_, parse_type(word), "{name}.{key}");
                // The crate takes a name that defaults to the empty string for a required one.
                let required = required.contains(&key.as_str().into()) && field.required;
                assert_eq!(field.required, required, "{name}.{key}");
            }
            compared += 1;
        }
        assert!(compared > 70, "{compared}");
        assert!(fields("EnvVarSource").contains_key("fileKeyRef"));
    }
}
