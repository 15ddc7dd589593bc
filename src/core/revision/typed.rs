//! What server-side apply refuses of an object although a POST of the same object succeeds: fields that
//! the kind does not have, and list entries with the same key.
//!
//! Bundles have both, and their objects exist already when the next version is applied. The answer of
//! the API server names each by its path, so that fields which only a newer API server knows are kept
//! where they are known. Entries with the same key are put back into what the apply gives: of two names
//! for one port of a container, each may be used. Source: applying.md 3.6; structured-merge-diff,
//! `typed/validate.go`.

use serde_json::Value;

use crate::object::Object;

const REFUSAL: &str = "failed to create typed patch object (";

/// Most entries of a list that is written whole: each is compared with each.
const MOST: usize = 500;

/// Which item of a list a path leads to.
enum Element<'a> {
    Index(usize),
    /// Values of its keys; the key of a list of scalars is empty.
    Keys(Vec<(&'a str, Value)>),
}

/// A list with several entries of one key, as it is wanted.
#[derive(Debug)]
pub struct WholeList {
    path: String,
    /// The fields that are the key of an entry.
    key: Vec<String>,
    entries: Vec<Value>,
}

/// Returns the object without what an answer to its server-side apply refuses in this way: without
/// unknown fields, and with the last of equal entries, which is the one that counts where only one can.
/// `None` if the answer names nothing like that. Lists that lose entries are added to `lists`.
pub fn without_refused(
    object: &Object,
    answer: &str,
    lists: &mut Vec<WholeList>,
) -> Option<Object> {
    let (_, errors) = answer.strip_prefix(REFUSAL)?.split_once("): ")?;
    let mut value = object.clone().into_value();
    let changed = errors.lines().filter(|line| mend(&mut value, line.trim(), lists)).count();
    Object::from_value(value).filter(|_| changed > 0)
}

/// Gives what an apply has made of an object the entries again that were left out. What others have
/// added to these lists stays behind them.
pub fn put_back(object: &mut Object, lists: &[WholeList]) {
    let mut value = Value::Object(std::mem::take(&mut object.0));
    for list in lists {
        at(&mut value, &list.path, &mut |value, rest| {
            let found = value.as_array_mut().filter(|_| rest.is_empty());
            found.map(|found| *found = list.with(found)).is_some()
        });
    }
    if let Value::Object(map) = value {
        object.0 = map;
    }
}

impl WholeList {
    /// Returns all entries, as they were `found` those that were not left out.
    fn with(&self, found: &[Value]) -> Vec<Value> {
        let all = self.entries.iter().enumerate().map(|(index, entry)| {
            let mut later = self.entries.iter().skip(index + 1);
            let is_left_out = later.any(|later| self.is_same(entry, later));
            match found.iter().find(|it| self.is_same(entry, it)) {
                Some(found) if !is_left_out => found.clone(),
                found => self.with_key(entry, found.unwrap_or(entry)),
            }
        });
        let is_of_others = |it: &&Value| !self.entries.iter().any(|entry| self.is_same(entry, it));
        all.chain(found.iter().filter(is_of_others).cloned()).collect()
    }

    /// Returns an entry with the defaults of its key, which `same` has.
    fn with_key(&self, entry: &Value, same: &Value) -> Value {
        let mut whole = entry.clone();
        for key in &self.key {
            if let (None, Some(value)) = (entry.get(key), same.get(key)) {
                whole[key] = value.clone();
            }
        }
        whole
    }

    fn is_same(&self, one: &Value, other: &Value) -> bool {
        self.key.iter().all(|key| match one.get(key) {
            Some(value) => is_key(other, key, value),
            None => other.get(key).is_none_or(|value| is_key(one, key, value)),
        })
    }
}

fn mend(object: &mut Value, error: &str, lists: &mut Vec<WholeList>) -> bool {
    if let Some(path) = error.strip_suffix(": field not declared in schema") {
        return at(object, path, &mut |value, rest| {
            let field = rest.strip_prefix('.');
            value.as_object_mut().zip(field).is_some_and(|(map, field)| map.remove(field).is_some())
        });
    }
    let Some((path, key)) = error.rsplit_once(": duplicate entries for key ") else { return false };
    let Some((key, _)) = Element::read(key) else { return false };
    at(object, path, &mut |value, rest| {
        let Some(items) = value.as_array_mut().filter(|_| rest.is_empty()) else { return false };
        let (before, fields) = (items.len(), key.fields());
        let is_new = !fields.is_empty() && lists.iter().all(|list| list.path != path);
        let whole = (is_new && before <= MOST).then(|| items.clone());
        let is = |(index, item): (usize, &Value)| key.is(index, item);
        let mut equal: Vec<bool> = items.iter().enumerate().map(is).collect();
        if let Some(last) = equal.iter_mut().rev().find(|equal| **equal) {
            *last = false;
        }
        let mut equal = equal.into_iter();
        items.retain(|_| !equal.next().unwrap_or_default());
        let is_less = items.len() < before;
        if is_less && let Some(entries) = whole {
            lists.push(WholeList { path: path.to_owned(), key: fields, entries });
        }
        is_less
    })
}

/// Says whether an entry has this value as part of its key. What is missing has its default, which of
/// a protocol is TCP.
fn is_key(entry: &Value, key: &str, value: &Value) -> bool {
    let is_default = || key != "protocol" || value == "TCP";
    entry.get(key).map_or_else(is_default, |found| found == value)
}

/// Goes down a path, and says whether `change` did something to a value on the way; it also gets the
/// rest of the path. A key may contain points itself.
fn at(value: &mut Value, path: &str, change: &mut dyn FnMut(&mut Value, &str) -> bool) -> bool {
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
                key => is_key(item, key, wanted),
            }),
        }
    }

    /// Returns the fields of the keys; items that are scalars have none.
    fn fields(&self) -> Vec<String> {
        match self {
            Self::Index(_) => Vec::new(),
            Self::Keys(keys) => {
                let names = keys.iter().map(|(key, _)| *key).filter(|key| !key.is_empty());
                names.map(str::to_owned).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{rows, text};

    const OBJECT: &str = "failed to create typed patch object (n/d; apps/v1, Kind=Deployment): ";

    // applying.md 3.6
    #[test]
    fn what_only_an_apply_refuses_is_left_out() {
        for row in rows(include_str!("../testdata/revision/typed.yaml")) {
            let object = Object::from_value(row["object"].clone()).unwrap();
            let (errors, mut lists) = (text(&row, "errors"), Vec::new());
            assert_eq!(without_refused(&object, errors, &mut lists), None, "another answer: {row}");
            let left = without_refused(&object, &format!("{OBJECT}{errors}"), &mut lists);
            assert_eq!(left.map(Object::into_value).as_ref(), row.get("left"), "{row}");
            let Some(answer) = row.get("answer") else { continue };
            let mut answer = Object::from_value(answer.clone()).unwrap();
            put_back(&mut answer, &lists);
            assert_eq!(Some(&answer.into_value()), row.get("whole"), "{row}");
        }
    }

    // applying.md 3.6
    #[test]
    fn of_a_long_list_the_last_of_equal_entries_stays() {
        let mut env: Vec<_> = (0..MOST).map(|n| json!({"name": n.to_string()})).collect();
        env.push(json!({"name": "0", "value": "last"}));
        let object = Object::from_value(json!({"env": env})).unwrap();
        let answer = format!("{OBJECT}.env: duplicate entries for key [name=\"0\"]");
        let mut lists = Vec::new();
        let mut left = without_refused(&object, &answer, &mut lists).unwrap();
        let wanted = left.clone();
        assert_eq!(wanted.0["env"].as_array().unwrap().len(), MOST);
        put_back(&mut left, &lists);
        assert_eq!(left, wanted);
    }
}
