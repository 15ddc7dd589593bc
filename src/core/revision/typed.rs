//! What server-side apply refuses of an object although a POST of the same object succeeds: fields that
//! the kind does not have, and list entries with the same key.
//!
//! Bundles have both, and their objects exist already when the next version is applied. The answer of
//! the API server names each by its path, so that fields which only a newer API server knows are kept
//! where they are known. Source: applying.md 3.6; structured-merge-diff, `typed/validate.go`.

use serde_json::Value;

use crate::object::Object;

const REFUSAL: &str = "failed to create typed patch object (";

/// Which item of a list a path leads to.
enum Element<'a> {
    Index(usize),
    /// Values of its keys; the key of a list of scalars is empty.
    Keys(Vec<(&'a str, Value)>),
}

/// Returns the object without what an answer to its server-side apply refuses in this way: without
/// unknown fields, and with the last of equal entries, which is the one that counts. `None` if the
/// answer names nothing like that.
pub fn without_refused(object: &Object, answer: &str) -> Option<Object> {
    let (_, errors) = answer.strip_prefix(REFUSAL)?.split_once("): ")?;
    let mut value = object.clone().into_value();
    let changed = errors.lines().filter(|line| mend(&mut value, line.trim())).count();
    Object::from_value(value).filter(|_| changed > 0)
}

fn mend(object: &mut Value, error: &str) -> bool {
    if let Some(path) = error.strip_suffix(": field not declared in schema") {
        return at(object, path, &|value, rest| {
            let field = rest.strip_prefix('.');
            value.as_object_mut().zip(field).is_some_and(|(map, field)| map.remove(field).is_some())
        });
    }
    let Some((path, key)) = error.rsplit_once(": duplicate entries for key ") else { return false };
    let Some((key, _)) = Element::read(key) else { return false };
    at(object, path, &|value, rest| {
        let Some(items) = value.as_array_mut().filter(|_| rest.is_empty()) else { return false };
        let is = |(index, item): (usize, &Value)| key.is(index, item);
        let mut equal: Vec<bool> = items.iter().enumerate().map(is).collect();
        if let Some(last) = equal.iter_mut().rev().find(|equal| **equal) {
            *last = false;
        }
        let before = items.len();
        let mut equal = equal.into_iter();
        items.retain(|_| !equal.next().unwrap_or_default());
        items.len() < before
    })
}

/// Goes down a path, and says whether `change` did something to a value on the way; it also gets the
/// rest of the path. A key may contain points itself.
fn at(value: &mut Value, path: &str, change: &dyn Fn(&mut Value, &str) -> bool) -> bool {
    if change(value, path) {
        return true;
    }
    match value {
        Value::Object(map) => map.iter_mut().any(|(key, below)| {
            let rest = path.strip_prefix('.').and_then(|path| path.strip_prefix(key.as_str()));
            let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
            rest.is_some_and(|rest| at(below, rest, change))
        }),
        Value::Array(items) => {
            let Some((element, rest)) = Element::read(path) else { return false };
            let mut items = items.iter_mut().enumerate();
            items.any(|(index, item)| element.is(index, item) && at(item, rest, change))
        }
        _ => false,
    }
}

impl<'a> Element<'a> {
    /// Reads `[0]`, `[="value"]` or `[name="a",port=1]`, and returns what follows.
    fn read(path: &'a str) -> Option<(Self, &'a str)> {
        let mut rest = path.strip_prefix('[')?;
        if let Some((index, behind)) = rest.split_once(']')
            && let Ok(index) = index.parse()
        {
            return Some((Self::Index(index), behind));
        }
        let mut keys = Vec::new();
        loop {
            let (key, text) = rest.split_once('=')?;
            let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
            keys.push((key, values.next()?.ok()?));
            rest = &text[values.byte_offset()..];
            if let Some(behind) = rest.strip_prefix(']') {
                return Some((Self::Keys(keys), behind));
            }
            rest = rest.strip_prefix(',')?;
        }
    }

    fn is(&self, index: usize, item: &Value) -> bool {
        match self {
            Self::Index(wanted) => index == *wanted,
            Self::Keys(keys) => keys.iter().all(|(key, wanted)| match *key {
                "" => item == wanted,
                // An absent key has its default, such as protocol TCP.
                key => item.get(key).is_none_or(|value| value == wanted),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{rows, text};

    const OBJECT: &str = "failed to create typed patch object (n/d; apps/v1, Kind=Deployment): ";

    // applying.md 3.6
    #[test]
    fn what_only_an_apply_refuses_is_left_out() {
        for row in rows(include_str!("../testdata/revision/typed.yaml")) {
            let object = Object::from_value(row["object"].clone()).unwrap();
            let errors = text(&row, "errors");
            let left = without_refused(&object, &format!("{OBJECT}{errors}"));
            assert_eq!(left.map(Object::into_value).as_ref(), row.get("left"), "{row}");
            assert_eq!(without_refused(&object, errors), None, "another answer: {row}");
        }
    }
}
