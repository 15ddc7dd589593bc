//! Intended differences from upstream while reading and rendering: what upstream makes of a bundle,
//! as data, and what we make of it. Source: rendering.md section 8.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::bundle::Files;
use crate::bundle::fixture::with;
use crate::error::Chain;
use crate::fixture::cases;
use crate::render::*;

/// Returns the first object of a kind, or why there is none.
fn ours(files: &Files, kind: &str) -> Result<Value, String> {
    let bundle = Bundle::from_files(files).map_err(|error| Chain(&error).to_string())?;
    let rendered =
        render(&bundle, &super::options("")).map_err(|error| Chain(&error).to_string())?;
    let found = rendered.objects.into_iter().find(|object| object.kind() == kind);
    Ok(found.map_or(Value::Null, Object::into_value))
}

#[test]
fn we_differ_from_upstream() {
    type Made = Result<Value, String>;
    let table = include_str!("../../testdata/render/differences.yaml");
    for (kind, changed, upstream, want) in
        cases::<(&str, BTreeMap<&str, &str>, Made, Made)>(table, "we_differ_from_upstream")
    {
        assert_eq!(ours(&with(&Vec::from_iter(changed)), kind), want);
        assert_ne!(want, upstream);
    }
}
