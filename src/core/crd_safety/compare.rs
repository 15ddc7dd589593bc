//! Compares two custom resource definitions.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

use itertools::Itertools as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::access;
use super::check::{Check, KEYWORD_CHECKS, changed};
use super::definition::{Definition, Version};
use super::finding::{Finding, SchemaPlace};
use super::loosening::{OF_EVERY_OBJECT, is_harmless, is_open, narrowed_fields};
use super::schema::{KEYWORDS, Kind, MAX_PATH, Position, Schema, children, longest_path};
use crate::error::quote;

/// Most served versions that are compared, each with each.
const MAX_SERVED: usize = 16;

/// Most bytes of the findings of a CRD: each names a path, and each pair of versions has as many as
/// there are fields.
const MAX_BYTES: usize = 4 << 20;

/// Which changes are let pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Those that keep every stored object valid, readable and writable, and no others.
    Loosenings,
    /// Those that upstream lets pass.
    Upstream,
    /// All that the API server accepts.
    ApiServer,
}

/// Returns what keeps `new` from following `old`, sorted as text.
pub fn compare(old: &Definition, new: &Definition, rules: Rules) -> Vec<Finding> {
    let mut findings = definition(old, new);
    if rules != Rules::Upstream {
        findings.extend(access::lost(old, new));
    }
    if rules == Rules::ApiServer {
        // Where no check is made, people look for the words of the API server.
        findings.retain_mut(|finding| {
            let refusal = finding.check.refusal();
            finding.text.extend(refusal.map(|answer| format!("; {answer}")));
            refusal.is_some()
        });
    } else {
        findings.extend(schemas(old, new, rules));
    }
    findings.sort_by_cached_key(Finding::to_string);
    findings
}

/// Compares the schemas of all versions.
fn schemas(old: &Definition, new: &Definition, rules: Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    if rules == Rules::Loosenings && old.preserves_unknown && !new.preserves_unknown {
        let text = "preserveUnknownFields true -> false".to_owned();
        findings.push(Finding::of_definition(Check::Unhandled, text));
    }
    let is_too_much = |versions: &[Version]| {
        versions.iter().filter(|version| version.served).count() > MAX_SERVED
            || versions.iter().any(|version| longest_path(&version.schema) > MAX_PATH)
    };
    if is_too_much(&old.versions) || is_too_much(&new.versions) {
        let text = format!(
            "not compared: more than {MAX_SERVED} served versions, or a path in a schema of more \
             than {MAX_PATH} bytes"
        );
        findings.push(Finding::of_definition(Check::Unhandled, text));
        return findings;
    }
    let upgrades = new.versions.iter().filter_map(|new| {
        let old = old.version(&new.name)?;
        Some(versions(&new.name, old, new, rules))
    });
    let mut bytes = 0;
    for found in upgrades.chain(served_pairs(old, new, rules)) {
        bytes += bytes_of(&found);
        findings.extend(found);
        if bytes > MAX_BYTES {
            let text =
                format!("not compared further: the findings have more than {MAX_BYTES} bytes");
            findings.push(Finding::of_definition(Check::Unhandled, text));
            break;
        }
    }
    findings
}

fn bytes_of(findings: &[Finding]) -> usize {
    findings.iter().map(Finding::bytes).sum()
}

/// Compares what concerns all versions.
fn definition(old: &Definition, new: &Definition) -> Vec<Finding> {
    let mut findings = Vec::new();
    if old.scope != new.scope {
        let text = changed("scope changed", &old.scope, &new.scope);
        findings.push(Finding::of_definition(Check::Scope, text));
    }
    let stored = old.stored.iter().map(String::as_str);
    let removed: Vec<_> = stored.filter(|name| !new.has(name)).collect();
    if !removed.is_empty() {
        let text = format!("stored versions removed : [{}]", removed.join(" "));
        findings.push(Finding::of_definition(Check::StoredVersionRemoval, text));
    }
    findings
}

/// Compares every served version of a new CRD with every later one, as if that were an upgrade, unless
/// a webhook converts them; the old CRD may have the same findings.
fn served_pairs(
    old: &Definition,
    new: &Definition,
    rules: Rules,
) -> impl Iterator<Item = Vec<Finding>> {
    let served = new.versions.iter().filter(|version| version.served && !new.converted);
    let served = served.sorted_by(|a, b| by_priority(&a.name, &b.name));
    let before = move |name: &str| old.version(name).filter(|version| version.served);
    served.tuple_combinations().map(move |(one, other)| {
        let pair = format!("{} -> {}", one.name, other.name);
        let compare = |one, other| versions(&pair, one, other, rules);
        let mut found = compare(one, other);
        // Of more findings than fit, those that are new may be missing.
        if let Some((one, other)) = before(&one.name).zip(before(&other.name))
            && bytes_of(&found) <= MAX_BYTES
        {
            let known: HashSet<_> = compare(one, other).into_iter().collect();
            found.retain(|it| !known.contains(it));
        }
        found
    })
}

/// Compares the schemas of two versions; fields that only the new one has count where objects may
/// have them already.
fn versions(label: &str, old: &Version, new: &Version, rules: Rules) -> Vec<Finding> {
    let mut comparison = Comparison {
        label,
        rules,
        is_upgrade: label == new.name,
        preserves_all: old.preserves_unknown,
        path: "^".to_owned(),
        findings: Vec::new(),
        bytes: 0,
    };
    comparison.visit(&old.schema, Some(&new.schema), Position::Field);
    comparison.findings
}

/// Two versions that are compared.
struct Comparison<'a> {
    label: &'a str,
    rules: Rules,
    /// Whether they are one version, of which it is told what is gone.
    is_upgrade: bool,
    preserves_all: bool,
    /// Where the schemas stand that are looked at.
    path: String,
    findings: Vec<Finding>,
    /// What they have, beyond [`MAX_BYTES`] only once.
    bytes: usize,
}

impl Comparison<'_> {
    /// Compares the schemas at a path and all below them.
    fn visit(&mut self, old: &Schema, new: Option<&Schema>, position: Position) {
        let is_field = self.rules == Rules::Loosenings && position == Position::Field;
        // Upstream also counts those that describe no field.
        if new.is_none() && self.is_upgrade && (is_field || self.rules == Rules::Upstream) {
            let text = format!("removed field : {}.{}", self.label, self.path);
            self.push(Finding::of_definition(Check::ExistingFieldRemoval, text));
        }
        let nothing = Schema::new();
        let new = new.unwrap_or(&nothing);
        self.keywords(old, new, position);
        if is_field && (self.preserves_all || is_open(old)) {
            let fields = narrowed_fields(old, new).into_iter();
            let is_root = self.path == "^";
            for field in fields.filter(|field| !is_root || !OF_EVERY_OBJECT.contains(field)) {
                let text = "field added where unknown fields are preserved".to_owned();
                let path = format!("{}.{field}", self.path);
                self.add(path, Check::Unhandled, text, None);
            }
        }
        // Where a whole condition may change as it does, its parts are not looked at.
        let harmless: Vec<_> = ["allOf", "anyOf", "oneOf", "not"]
            .into_iter()
            .filter(|key| is_field && is_harmless(key, old, new, position))
            .collect();
        let news = children(new).into_iter().map(|(key, part, child)| ((key, part), child));
        let news: BTreeMap<_, _> = news.collect();
        for (key, part, child) in children(old) {
            if !harmless.contains(&key) {
                let length = self.path.len();
                self.path.push('.');
                self.path.push_str(&part);
                self.visit(child, news.get(&(key, part)).copied(), position.below(key));
                self.path.truncate(length);
            }
        }
    }

    /// Compares two schemas without the properties and items in them.
    fn keywords(&mut self, old: &Schema, new: &Schema, position: Position) {
        let mut unhandled = Vec::new();
        for keyword in KEYWORDS.iter() {
            let key = keyword.key;
            let before = old.get(key).unwrap_or(&Value::Null);
            let after = new.get(key).unwrap_or(&Value::Null);
            let apart = ["description", "properties", "items"].contains(&key);
            if apart || before == after {
                continue;
            }
            if self.rules == Rules::Loosenings && is_harmless(key, old, new, position) {
                continue;
            }
            match KEYWORD_CHECKS.iter().find(|(check, _)| key == <&str>::from(check)) {
                Some((check, compare)) => {
                    if let Some(text) = compare(before, after) {
                        self.add(self.path.clone(), *check, text, None);
                    }
                }
                None => unhandled.push((keyword, before, after)),
            }
        }
        if !unhandled.is_empty() {
            let details = unhandled
                .iter()
                .map(|(keyword, before, after)| detail(keyword.field, keyword.kind, before, after))
                .format("; ");
            let text = format!("unhandled changes found ({details})");
            let values = unhandled.iter().map(|(keyword, old, new)| json!([keyword.key, old, new]));
            let values = Sha256::digest(values.collect::<Value>().to_string());
            self.add(self.path.clone(), Check::Unhandled, text, Some(values.0));
        }
    }

    fn add(&mut self, path: String, check: Check, text: String, unhandled: Option<[u8; 32]>) {
        let place = SchemaPlace::Schema { versions: self.label.to_owned(), path };
        self.push(Finding { place, check, text, unhandled });
    }

    fn push(&mut self, finding: Finding) {
        if self.bytes <= MAX_BYTES {
            self.bytes += finding.bytes();
            self.findings.push(finding);
        }
    }
}

/// Says what became of a keyword, as upstream's summary of a difference does.
fn detail(field: &str, kind: Kind, before: &Value, after: &Value) -> String {
    let pointer = matches!(kind, Kind::Number | Kind::TextPointer | Kind::FlagPointer);
    let shown = |value: &Value| match (kind, value) {
        (Kind::Text, Value::Null) => quote(""),
        (Kind::Flag, Value::Null) => false.to_string(),
        (_, Value::Null) => "nil".to_owned(),
        (_, Value::String(text)) if pointer => format!("&{}", quote(text)),
        (_, Value::String(text)) if kind == Kind::Text => quote(text),
        (_, Value::Bool(_) | Value::Number(_)) if pointer => format!("&{value}"),
        (Kind::Flag | Kind::SchemaOrFlag, Value::Bool(_)) => value.to_string(),
        _ => "<complex value>".to_owned(),
    };
    let (before, after) = (shown(before), shown(after));
    let same = if before == after { " (changed)" } else { "" };
    format!("{field} {before} -> {after}{same}")
}

/// Compares names of versions as Kubernetes ranks them: `v1alpha1`, `v1beta1`, `v1`, `v2`; names of
/// any other form come first.
fn by_priority(one: &str, other: &str) -> Ordering {
    match (rank(one), rank(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        // The name that comes first in the alphabet has the higher priority.
        (None, None) => other.cmp(one),
        (one, other) => one.is_some().cmp(&other.is_some()),
    }
}

/// Returns stability, major and minor of a version such as `v2beta1`.
fn rank(name: &str) -> Option<(u8, u64, u64)> {
    let name = name.strip_prefix('v')?;
    let end = name.find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len());
    let (major, rest) = name.split_at(end);
    let (stability, minor) = if rest.is_empty() {
        (2, "0")
    } else if let Some(minor) = rest.strip_prefix("beta") {
        (1, minor)
    } else {
        (0, rest.strip_prefix("alpha")?)
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let number = |text: &str| text.parse().ok().filter(|_| digits(text) && !text.is_empty());
    Some((stability, number(major)?, number(minor)?))
}
