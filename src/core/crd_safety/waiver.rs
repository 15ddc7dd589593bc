//! What an administrator lets pass although a check does not.
//!
//! Source: decision 36: `[<crd>:]<check>[@<date or time>]`, separated by commas.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use strum::VariantNames as _;

use super::check::Check;
use super::finding::Finding;
use crate::error::quote;

/// An entry of the annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiver {
    /// The CRD it is for; all of them if there is none.
    definition: Option<String>,
    check: Check,
    /// When it ceases to count.
    until: Option<Timestamp>,
    /// As it is written.
    entry: String,
}

/// The findings that are allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Waivers(Vec<Waiver>);

impl Waivers {
    /// Reads the value of the annotation, or returns which entry is not a waiver, and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        entries.map(Waiver::parse).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the entries that let findings about a CRD pass: none if the API server refuses one of
    /// them in any case.
    pub fn for_all(definition: &str, findings: &[Finding]) -> Vec<String> {
        if findings.iter().any(|finding| !finding.check.is_waivable()) {
            return Vec::new();
        }
        let checks: BTreeSet<_> = findings.iter().map(|it| <&str>::from(it.check)).collect();
        checks.iter().map(|check| format!("{definition}:{check}")).collect()
    }

    /// Returns the entries that count at a time, as they are written.
    pub fn entries(&self, now: Timestamp) -> impl Iterator<Item = String> {
        let counts = move |it: &&Waiver| it.until.is_none_or(|until| now < until);
        self.0.iter().filter(counts).map(|waiver| waiver.entry.clone())
    }

    /// Returns whether a finding about a CRD is allowed at a time.
    pub fn cover(&self, definition: &str, finding: &Finding, now: Timestamp) -> bool {
        self.0.iter().any(|waiver| {
            let named = waiver.definition.as_deref();
            waiver.check == finding.check
                && finding.check.is_waivable()
                && named.is_none_or(|named| named == definition)
                && waiver.until.is_none_or(|until| now < until)
        })
    }
}

impl Waiver {
    fn parse(entry: &str) -> Result<Self, String> {
        let (what, until) = match entry.split_once('@') {
            Some((what, until)) => (what.trim(), Some(until.trim())),
            None => (entry, None),
        };
        let (definition, check) = match what.rsplit_once(':') {
            Some((definition, check)) => (Some(definition.trim().to_owned()), check.trim()),
            None => (None, what),
        };
        let unknown = |_| {
            let (check, entry, known) = (quote(check), quote(entry), Check::VARIANTS.join(", "));
            format!("unknown check {check} in {entry}: must be one of {known}")
        };
        let unreadable = |until: &str| {
            let (until, entry) = (quote(until), quote(entry));
            format!("{until} in {entry} is not a date (2026-12-31) or time (2026-12-31T12:00:00Z)")
        };
        Ok(Self {
            entry: entry.to_owned(),
            check: check.parse().map_err(unknown)?,
            until: until.map(|until| end(until).ok_or_else(|| unreadable(until))).transpose()?,
            definition,
        })
    }
}

/// Returns when a waiver ends: at a time, or with a day, by UTC.
fn end(until: &str) -> Option<Timestamp> {
    if let Ok(time) = until.parse::<Timestamp>() {
        return Some(time);
    }
    let after = until.parse::<Date>().ok()?.tomorrow().ok()?;
    Some(after.to_zoned(TimeZone::UTC).ok()?.timestamp())
}
