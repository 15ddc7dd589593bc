//! Parses property values into constraints.
//!
//! `olm.constraint` is read strictly, as OLM Classic does: an unknown member is an error at every
//! level. Its keys match exactly, which is stricter than Go. The two older properties are read as
//! the rest of a catalog is.

use std::collections::BTreeMap;

use olm_api::keys::property;
use serde_json::value::RawValue;

use super::{Constraint, ConstraintError, Demand, GroupVersionKind, Rule};
use crate::catalog::fields::{FieldError, Fields};
use crate::error::{Chain, plain, quote};
use crate::version::{SkipRange, Version};

/// The longest `olm.constraint` that is read, in bytes.
const MAX_BYTES: usize = 2 << 16;
/// How deep constraints may be nested.
const MAX_DEPTH: usize = 100;
/// How much of a `failureMessage` is kept, in characters.
const MAX_MESSAGE: usize = 512;

type Result<T> = std::result::Result<T, ConstraintError>;
type Members<'a> = BTreeMap<String, &'a RawValue>;

/// Parses a property that declares a constraint; returns `None` for other properties.
pub(in crate::catalog) fn property(kind: &str, value: &str) -> Option<Result<Constraint>> {
    let demand = match kind {
        property::PACKAGE_REQUIRED => package_required(value),
        property::GVK_REQUIRED => self::kind(value).map(Demand::Kind),
        property::CONSTRAINT => return Some(constraint_property(value)),
        _ => return None,
    };
    Some(demand.map(|demand| Constraint { message: None, demand }))
}

/// Reads a kind: the value of `olm.gvk` or `olm.gvk.required`.
pub(super) fn kind(json: &str) -> Result<GroupVersionKind> {
    let fields = Fields::parse(json)?;
    Ok(GroupVersionKind {
        group: fields.text("group")?,
        version: fields.text("version")?,
        kind: fields.text("kind")?,
    })
}

/// Reads the value of `olm.package`.
pub(super) fn package_version(json: &str) -> Option<(String, Version)> {
    let fields = Fields::parse(json).ok()?;
    let version = fields.text("version").ok()?.parse().ok()?;
    Some((fields.text("packageName").ok()?, version))
}

fn package_required(json: &str) -> Result<Demand> {
    let fields = Fields::parse(json)?;
    package(fields.text("packageName")?, fields.text("versionRange")?)
}

fn package(package: String, text: String) -> Result<Demand> {
    if text.is_empty() {
        return Err(wrong("versionRange is missing"));
    }
    let range: SkipRange = text.parse().map_err(|error| wrong(Chain(&error)))?;
    Ok(Demand::Package { package, text, range })
}

fn constraint_property(json: &str) -> Result<Constraint> {
    if json.len() > MAX_BYTES {
        return Err(wrong(format_args!(
            "olm.constraint value is greater than max constraint size {MAX_BYTES} bytes"
        )));
    }
    constraint(json, 1)
}

/// Reads a constraint at a nesting depth; the first of several members counts, all are checked.
fn constraint(json: &str, depth: usize) -> Result<Constraint> {
    if depth > MAX_DEPTH {
        return Err(wrong(format_args!("constraint is nested deeper than {MAX_DEPTH} levels")));
    }
    let known = ["failureMessage", "gvk", "package", "all", "any", "not", "cel"];
    let mut members = members(json, &known)?;
    let message = text(&mut members, "failureMessage")?;
    let mut demands = Vec::new();
    if let Some(gvk) = members.remove("gvk") {
        let mut members = self::members(gvk.get(), &["group", "version", "kind"])?;
        demands.push(Demand::Kind(GroupVersionKind {
            group: text(&mut members, "group")?,
            version: text(&mut members, "version")?,
            kind: text(&mut members, "kind")?,
        }));
    }
    if let Some(package) = members.remove("package") {
        let mut members = self::members(package.get(), &["packageName", "versionRange"])?;
        let name = text(&mut members, "packageName")?;
        demands.push(self::package(name, text(&mut members, "versionRange")?)?);
    }
    let mut compound = |name: &str| {
        let children = members.remove(name);
        children.map(|children| self::children(children.get(), depth + 1)).transpose()
    };
    demands.extend(compound("all")?.map(Demand::All));
    demands.extend(compound("any")?.map(Demand::Any));
    demands.extend(compound("not")?.map(Demand::Not));
    if let Some(cel) = members.remove("cel") {
        let mut members = self::members(cel.get(), &["rule"])?;
        demands.push(Demand::Cel(Rule::compile(&text(&mut members, "rule")?)?));
    }
    let demand = demands.into_iter().next();
    Ok(Constraint {
        message: Some(one_line(&message)).filter(|message| !message.is_empty()),
        demand: demand.ok_or_else(|| wrong("constraint is empty"))?,
    })
}

fn children(json: &str, depth: usize) -> Result<Vec<Constraint>> {
    let mut members = members(json, &["constraints"])?;
    let Some(list) = members.remove("constraints") else { return Ok(Vec::new()) };
    let list: Vec<&RawValue> = serde_json::from_str(list.get())
        .map_err(|_| wrong("field \"constraints\" is not a list"))?;
    let child = |json: &&RawValue| constraint(json.get(), depth);
    list.iter().map(child).collect()
}

/// Returns the members of an object that are not null; an unknown one is an error.
fn members<'a>(json: &'a str, known: &[&str]) -> Result<Members<'a>> {
    let mut members: Members<'a> =
        serde_json::from_str(json).map_err(|_| wrong("not a JSON object"))?;
    if let Some(key) = members.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(wrong(format_args!("unknown field {}", quote(key))));
    }
    members.retain(|_, value| value.get() != "null");
    Ok(members)
}

/// Takes a text out of an object; an absent one is empty.
fn text(members: &mut Members<'_>, name: &str) -> Result<String> {
    let Some(value) = members.remove(name) else { return Ok(String::new()) };
    serde_json::from_str(value.get())
        .map_err(|_| wrong(format_args!("field {} is not a string", quote(name))))
}

/// Returns a message from a catalog in the form in which a condition may show it.
fn one_line(message: &str) -> String {
    plain(message).chars().take(MAX_MESSAGE).collect()
}

impl From<FieldError> for ConstraintError {
    fn from(error: FieldError) -> Self {
        wrong(Chain(&error))
    }
}

fn wrong(text: impl std::fmt::Display) -> ConstraintError {
    ConstraintError(text.to_string())
}
