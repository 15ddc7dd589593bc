//! Parses property values into constraints.
//!
//! `olm.constraint` is read strictly, as OLM Classic does: an unknown member is an error at every
//! level. Its keys match exactly, which is stricter than Go. The two older properties are read as
//! the rest of a catalog is.

use olm_api::keys::property;

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

/// Parses a property that declares a constraint; returns `None` for other properties.
pub(in crate::catalog) fn property(kind: &str, value: &str) -> Option<Result<Constraint>> {
    let demand = match kind {
        property::PACKAGE_REQUIRED => {
            Fields::parse(value).map_err(Into::into).and_then(|fields| package_of(&fields))
        }
        property::GVK_REQUIRED => self::kind(value).map(Demand::Kind),
        property::CONSTRAINT => return Some(constraint_property(value)),
        _ => return None,
    };
    Some(demand.map(|demand| Constraint { message: None, demand }))
}

/// Reads a kind: the value of `olm.gvk` or `olm.gvk.required`.
pub(super) fn kind(json: &str) -> Result<GroupVersionKind> {
    kind_of(&Fields::parse(json)?)
}

fn kind_of(fields: &Fields<'_>) -> Result<GroupVersionKind> {
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

fn package_of(fields: &Fields<'_>) -> Result<Demand> {
    let (package, text) = (fields.text("packageName")?, fields.text("versionRange")?);
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
    let fields = strict(json, &known)?;
    let message = fields.text("failureMessage")?;
    let mut demands = Vec::new();
    if let Some(gvk) = fields.raw("gvk") {
        demands.push(Demand::Kind(kind_of(&strict(gvk, &["group", "version", "kind"])?)?));
    }
    if let Some(package) = fields.raw("package") {
        demands.push(package_of(&strict(package, &["packageName", "versionRange"])?)?);
    }
    let compound = |name: &str| {
        fields.raw(name).map(|children| self::children(children, depth + 1)).transpose()
    };
    demands.extend(compound("all")?.map(Demand::All));
    demands.extend(compound("any")?.map(Demand::Any));
    demands.extend(compound("not")?.map(Demand::Not));
    if let Some(cel) = fields.raw("cel") {
        demands.push(Demand::Cel(Rule::compile(&strict(cel, &["rule"])?.text("rule")?)?));
    }
    let demand = demands.into_iter().next();
    Ok(Constraint {
        message: Some(one_line(&message)).filter(|message| !message.is_empty()),
        demand: demand.ok_or_else(|| wrong("constraint is empty"))?,
    })
}

fn children(json: &str, depth: usize) -> Result<Vec<Constraint>> {
    let list = strict(json, &["constraints"])?.list("constraints")?;
    list.into_iter().map(|json| constraint(json, depth)).collect()
}

/// Reads the members of an object; an unknown one is an error.
fn strict<'a>(json: &'a str, known: &[&str]) -> Result<Fields<'a>> {
    let fields = Fields::parse(json)?;
    if let Some(key) = fields.names().find(|key| !known.contains(key)) {
        return Err(wrong(format_args!("unknown field {}", quote(key))));
    }
    Ok(fields)
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
