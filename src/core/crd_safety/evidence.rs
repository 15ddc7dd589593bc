//! What the objects of a CRD say about a change of it: how many there are, and whether those that
//! were looked at are valid under the new schema.
//!
//! Source: applying.md 6.5.

use std::collections::BTreeMap;
use std::fmt;

use itertools::Itertools as _;
use jsonschema::{Draft, PatternOptions};
use serde_json::{Map, Value, json};

use super::definition::Definition;
use super::schema::{MAX_PATH, longest_path};
use crate::error::first_of;
use crate::object::{Object, items};
use crate::uninstall::is_converted_by_webhook;

/// Objects of a kind that a text names.
const MAX_NAMED: usize = 3;
/// Most characters of what is wrong with an object.
const MAX_FAULT: usize = 200;
/// Most patterns of a schema, and most bytes that each may take: a short one can stand for megabytes.
const MAX_PATTERNS: usize = 500;
const MAX_PATTERN_BYTES: usize = 256 << 10;
/// Keywords that only the API server judges.
const ONLY_SERVER: [&str; 2] = ["x-kubernetes-validations", "x-kubernetes-list-type"];

/// What is known of the objects of a CRD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// They were looked at.
    Known {
        /// How many there are.
        count: u64,
        /// How many of them were judged by the new schema.
        judged: usize,
        /// Those of them that are invalid, and why.
        invalid: Vec<(String, String)>,
        /// Those of them that were written in a version that the new CRD does not serve, by version.
        written: BTreeMap<String, Vec<String>>,
        /// The new schema has rules that only the API server judges.
        has_rules: bool,
    },
    /// Nobody could look; why.
    Unknown(String),
}

/// Where the objects of a CRD are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource<'a> {
    /// Its API group.
    pub group: &'a str,
    /// The version that is stored, if that is served, else the first that is.
    pub version: &'a str,
    /// Its name in paths.
    pub plural: &'a str,
    pub kind: &'a str,
}

impl<'a> Resource<'a> {
    /// Returns where objects of a CRD of the cluster with this `spec` are read, or why nowhere.
    pub fn of(spec: &'a Value) -> Result<Self, &'static str> {
        let mut served = items(&spec["versions"]).filter(|one| one["served"] == true).peekable();
        let first = served.peek().copied();
        let stored = served.find(|one| one["storage"] == true);
        let version = stored.or(first).ok_or("no version is served")?;
        let names = &spec["names"];
        let of = |value: &'a Value| value.as_str().ok_or("the CRD on the cluster has no names");
        Ok(Self {
            group: of(&spec["group"])?,
            version: of(&version["name"])?,
            plural: of(&names["plural"])?,
            kind: of(&names["kind"])?,
        })
    }
}

/// Judges `objects`, the first of `count`, by the CRD `new` and the schema that it has for their
/// version.
pub fn evidence(
    (old, new): (&Value, &Object),
    version: &str,
    count: u64,
    objects: &[Object],
) -> Evidence {
    let written = written(old, new, objects);
    let unknown =
        |why: &str| Evidence::Unknown(format!("{count} exist{why}{}", text_of_written(&written)));
    let Some(schema) = schema_for(new, version) else {
        return unknown(&format!(", and the new CRD has no schema for version {version}"));
    };
    if schema.as_object().is_some_and(|schema| longest_path(schema) > MAX_PATH) {
        return unknown("; paths in the new schema are too long");
    }
    let mut met = Met::default();
    let schema = converted(&schema, &mut met);
    if met.patterns > MAX_PATTERNS {
        return unknown(&format!("; the new schema has more than {MAX_PATTERNS} patterns"));
    }
    let has_rules = met.has_rules;
    let patterns = PatternOptions::regex().size_limit(MAX_PATTERN_BYTES);
    let options = jsonschema::options().with_draft(Draft::Draft4).with_pattern_options(patterns);
    let validator = match options.build(&schema) {
        Ok(validator) => validator,
        Err(error) => return unknown(&format!("; the new schema cannot be read: {error}")),
    };
    let faults = objects.iter().filter_map(|object| {
        let value = Value::Object(object.0.clone());
        let error = validator.iter_errors(&value).next()?;
        let path = error.instance_path().to_string();
        let mut fault = format!("{path}: {}", error.masked());
        if let Some((end, _)) = fault.char_indices().nth(MAX_FAULT) {
            fault.truncate(end);
        }
        Some((object.place(), fault))
    });
    Evidence::Known { count, judged: objects.len(), invalid: faults.collect(), written, has_rules }
}

/// Returns which objects have fields that were written in a version that will not be served any more,
/// as their managed fields tell.
fn written(old: &Value, new: &Object, objects: &[Object]) -> BTreeMap<String, Vec<String>> {
    let group = old["spec"]["group"].as_str().unwrap_or_default();
    let (old, new) = (Definition::of(old), Definition::of_object(new));
    let unserved = old.unserved(&new).map(|version| {
        let api_version = format!("{group}/{version}");
        let by_it = |object: &&Object| {
            let mut entries = object.list_at("/metadata/managedFields");
            entries.any(|entry| entry["apiVersion"] == *api_version)
        };
        (version.to_owned(), objects.iter().filter(by_it).map(Object::place).collect())
    });
    unserved.collect()
}

fn text_of_written(written: &BTreeMap<String, Vec<String>>) -> String {
    let each = written.iter().map(|(version, objects)| match objects.len() {
        0 => format!("; none of them written in {version}"),
        count => {
            format!("; {count} of them written in {version} ({})", first_of(objects, MAX_NAMED))
        }
    });
    each.collect()
}

/// Returns what is known of the objects of CRDs, a sentence.
pub fn evidence_text(all: &BTreeMap<String, Evidence>) -> String {
    all.iter().map(|(crd, evidence)| format!("{crd}: {evidence}")).join("; ")
}

impl Evidence {
    /// Says whether the verdict is the same, and the same objects are named: not how many there are.
    pub fn is_like(&self, other: &Self) -> bool {
        fn first<T>(all: &[T]) -> &[T] {
            &all[..all.len().min(MAX_NAMED)]
        }
        match (self, other) {
            (
                Self::Known { count, invalid, written, has_rules, judged: _ },
                Self::Known { count: n, invalid: bad, written: old, has_rules: rules, judged: _ },
            ) => {
                let versions = written.iter().zip(old);
                (*count == 0, first(invalid), has_rules) == (*n == 0, first(bad), rules)
                    && written.len() == old.len()
                    && versions
                        .into_iter()
                        .all(|(one, other)| (one.0, first(one.1)) == (other.0, first(other.1)))
            }
            (Self::Unknown(why), Self::Unknown(other)) => {
                let words = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
                words(why) == words(other)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, judged, invalid, written, has_rules) = match self {
            Self::Known { count: 0, .. } => return f.write_str("no objects, so nothing is lost"),
            Self::Known { count, judged, invalid, written, has_rules } => {
                (*count, *judged, invalid, written, *has_rules)
            }
            Self::Unknown(why) => return write!(f, "its objects cannot be judged ({why})"),
        };
        let objects = if count == 1 { "object" } else { "objects" };
        write!(f, "{count} {objects}, {}", judged - invalid.len())?;
        if usize::try_from(count) != Ok(judged) {
            write!(f, " of {judged} checked")?;
        }
        f.write_str(" valid under the new schema")?;
        if has_rules {
            f.write_str(" but for rules that only the API server judges")?;
        }
        if !invalid.is_empty() {
            let named = invalid.iter().map(|(name, why)| format!("{name} ({why})"));
            write!(f, "; not {}", first_of(named, MAX_NAMED))?;
        }
        f.write_str(&text_of_written(written))
    }
}

/// Returns the schema by which objects of a version will be judged: that of the same version, or, as
/// nothing but their version changes without a webhook, that of the new storage version.
fn schema_for(new: &Object, version: &str) -> Option<Value> {
    let versions = new.pointer("/spec/versions")?.as_array()?;
    let same = versions.iter().find(|one| one["name"] == version);
    let stored = || versions.iter().find(|one| one["storage"] == true);
    let found = same.or_else(|| stored().filter(|_| !is_converted_by_webhook(new)))?;
    Some(found["schema"]["openAPIV3Schema"].clone())
}

/// What a schema has.
#[derive(Default)]
struct Met {
    /// Something that only the API server judges.
    has_rules: bool,
    patterns: usize,
}

/// Returns a structural schema as JSON Schema, draft 4, without what only the API server judges.
fn converted(schema: &Value, met: &mut Met) -> Value {
    let Some(schema) = schema.as_object() else { return schema.clone() };
    met.patterns += usize::from(schema.contains_key("pattern"));
    met.has_rules |= ONLY_SERVER.iter().any(|key| schema.contains_key(*key));
    let mut out = Map::new();
    for (key, value) in schema {
        let value = match key.as_str() {
            "properties" => match value.as_object() {
                Some(members) => members
                    .iter()
                    .map(|(name, value)| (name.clone(), converted(value, met)))
                    .collect(),
                None => continue,
            },
            "items" | "additionalProperties" | "not" => converted(value, met),
            "allOf" | "anyOf" | "oneOf" => {
                items(value).map(|value| converted(value, met)).collect()
            }
            "required" => {
                let required = required(value, schema);
                // Draft 4 has no empty list of them.
                if required.is_empty() {
                    continue;
                }
                json!(required)
            }
            "type" if schema.get("x-kubernetes-int-or-string") == Some(&json!(true)) => continue,
            "type" if schema.get("nullable") == Some(&json!(true)) => json!([value, "null"]),
            "enum" if schema.get("nullable") == Some(&json!(true)) => {
                let mut values = value.as_array().cloned().unwrap_or_default();
                values.push(Value::Null);
                json!(values)
            }
            "type" | "enum" | "format" | "pattern" | "minimum" | "maximum" | "exclusiveMinimum"
            | "exclusiveMaximum" | "multipleOf" | "minLength" | "maxLength" | "minItems"
            | "maxItems" | "uniqueItems" | "minProperties" | "maxProperties" => value.clone(),
            _ => continue,
        };
        out.insert(key.clone(), value);
    }
    Value::Object(out)
}

/// Returns the fields that are required of a stored object: defaults are filled in before.
fn required(names: &Value, schema: &Map<String, Value>) -> Vec<Value> {
    let properties = schema.get("properties");
    let has_default = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        properties.is_some_and(|all| all[name].get("default").is_some())
    };
    items(names).filter(|name| !has_default(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::fixture::{self, cases, rows};

    const CASES: &str = include_str!("../testdata/crd_safety/cases.yaml");

    #[test]
    fn objects_are_read_in_the_stored_version_if_it_is_served() {
        let version = |name: &str, served: bool, storage: bool| json!({"name": name, "served": served, "storage": storage});
        let spec = |versions: [Value; 3]| {
            json!({"group": "a.example.com", "versions": versions,
                "names": {"plural": "greens", "kind": "Green"}})
        };
        let off = version("v1alpha1", false, false);
        let stored = [off.clone(), version("v1beta1", true, false), version("v1", true, true)];
        let hidden = [off.clone(), version("v1beta1", true, false), version("v1", false, true)];
        for (versions, wanted) in [(stored, "v1"), (hidden, "v1beta1")] {
            let spec = spec(versions);
            let resource = Resource::of(&spec).unwrap();
            assert_eq!(resource.version, wanted);
            assert_eq!((resource.plural, resource.kind), ("greens", "Green"));
        }
        let none = spec([off.clone(), off.clone(), off]);
        assert_eq!(Resource::of(&none), Err("no version is served"));
    }

    fn crd(schema: &Value) -> Object {
        fixture::object(json!({"apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition", "metadata": {"name": "a.b"},
            "spec": {"versions": [{"name": "v2", "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}}}]}}))
    }

    fn object(spec: &Value) -> Object {
        fixture::object(json!({"apiVersion": "b/v1", "kind": "A",
            "metadata": {"name": "x", "namespace": "ns"}, "spec": spec}))
    }

    // applying.md 6.5
    #[test]
    fn objects_are_judged_by_the_new_schema() {
        for row in rows(include_str!("../testdata/crd_safety/objects.yaml")) {
            let crd = crd(&row["schema"]);
            let found = evidence((&Value::Null, &crd), "v1", 1, &[object(&row["spec"])]);
            let Evidence::Known { invalid, .. } = found else {
                panic!("{found:?}");
            };
            assert_eq!(row["valid"], invalid.is_empty(), "{invalid:?}: {row}");
        }
    }

    #[test]
    fn the_text_says_what_would_be_lost() {
        let schema = json!({"type": "integer", "maximum": 5, "x-kubernetes-validations": []});
        let objects = [object(&json!(3)), object(&json!(9))];
        let all = [
            ("a.b", evidence((&Value::Null, &crd(&schema)), "v1", 7, &objects)),
            ("c.d", evidence((&Value::Null, &crd(&json!({}))), "v2", 0, &[])),
            ("e.f", Evidence::Unknown("forbidden".to_owned())),
        ];
        let all = all.map(|(name, evidence)| (name.to_owned(), evidence));
        insta::assert_snapshot!(evidence_text(&all.into()));
    }

    // applying.md 6.5: objects of a version that goes are named
    #[test]
    fn objects_that_were_written_in_a_version_that_goes_are_named() {
        let rows = "objects_that_were_written_in_a_version_that_goes_are_named";
        for (objects, want) in cases::<(Vec<Vec<&str>>, &str)>(CASES, rows) {
            let version = |name: &str, served: bool| json!({"name": name, "served": served});
            let versions = [version("v0", false), version("v1", true), version("v2", true)];
            let old = json!({"spec": {"group": "b", "versions": versions}});
            let mut new = crd(&json!({}));
            new.0["spec"]["versions"][0]["served"] = json!(true);
            let written_in = |versions: Vec<&str>| {
                let mut object = object(&json!(1));
                let entries = versions.into_iter().map(|version| json!({"apiVersion": version}));
                object.0["metadata"]["managedFields"] = entries.collect();
                object
            };
            let objects: Vec<_> = objects.into_iter().map(written_in).collect();
            let count = u64::try_from(objects.len()).unwrap();
            assert_eq!(evidence((&old, &new), "v2", count, &objects).to_string(), want);
            // Without a schema that they could be judged by.
            new.0["spec"]["conversion"] = json!({"strategy": "Webhook"});
            let found = evidence((&old, &new), "v1", count, &objects).to_string();
            assert!(found.contains("has no schema for version v1; "), "{found}");
        }
    }

    // ours: a hold is not reported anew with every object that somebody creates
    #[test]
    fn a_number_of_objects_alone_is_the_same_verdict() {
        let schema = json!({"type": "string"});
        let of = |count, objects: &[Value]| {
            let objects: Vec<_> = objects.iter().map(object).collect();
            evidence((&Value::Null, &crd(&schema)), "v1", count, &objects)
        };
        let (valid, invalid) = (json!("x"), json!(1));
        let one = of(1, slice::from_ref(&valid));
        assert!(one.is_like(&of(7, &[valid.clone(), valid.clone()])));
        assert!(!one.is_like(&of(0, &[])) && !one.is_like(&of(1, slice::from_ref(&invalid))));
        let four = vec![invalid.clone(); 4];
        assert!(of(4, &four).is_like(&of(3, &four[1..])));
        assert!(!of(4, &four).is_like(&of(2, &four[2..])));
        let unknown = |why: &str| Evidence::Unknown(why.to_owned());
        assert!(unknown("7 exist, refused").is_like(&unknown("12 exist, refused")));
        assert!(!unknown("7 exist, refused").is_like(&unknown("refused")));
        assert!(!unknown("").is_like(&one));
    }

    // A bundle must not fill the memory.
    #[test]
    fn patterns_that_take_much_memory_are_not_used() {
        let schema = json!({"type": "string", "pattern": "[\\u0100-\\uffff]{900}"});
        let found = evidence((&Value::Null, &crd(&schema)), "v1", 1, &[object(&json!("x"))]);
        assert!(found.to_string().contains("cannot be read"), "{found}");
        let patterns = |count: usize| {
            let field = |at| (format!("f{at}"), json!({"type": "string", "pattern": "^a+$"}));
            let fields: Map<_, _> = (0..count).map(field).collect();
            let schema = crd(&json!({"type": "object", "properties": fields}));
            evidence((&Value::Null, &schema), "v1", 1, &[object(&json!({"f0": "b"}))]).to_string()
        };
        assert!(patterns(500).contains("0 valid"), "{}", patterns(500));
        assert!(patterns(501).contains("more than 500 patterns"), "{}", patterns(501));
    }

    // A schema that is none must not end the process.
    #[test]
    fn a_schema_that_cannot_be_read_is_said() {
        for schema in [json!({"pattern": "("}), json!({"type": 7}), json!([1])] {
            let found = evidence((&Value::Null, &crd(&schema)), "v1", 1, &[object(&json!("x"))]);
            assert!(matches!(found, Evidence::Unknown(_)), "{found:?}");
        }
    }
}
