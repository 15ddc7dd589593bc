//! Parses and validates one configuration file, before anything of it is used.
//!
//! What containers/image refuses is refused here too, and nothing else, so that a file means the
//! same to this program and to the node it is on. Where that loader ignores an entry, such as a
//! second table with the same prefix, so does this one.
//!
//! Source: containers-registries.conf(5), `containers/image` (`system_registries_v2.go`).

use std::collections::BTreeSet;

use olm_core::error::quote;

use super::alias;
use super::table::{Fault, Lined, Table, with_root};
use super::{Mirror, PullFromMirror, Registry};
use crate::reference::is_domain;

/// Reads a file; the caller adds its path to the result. Of several tables with one prefix only the
/// first is returned.
pub(super) fn parse(text: &str) -> Result<Vec<Registry>, Fault> {
    with_root(text, |root| {
        refuse_version_1(&root)?;
        let tables = root.tables("registry")?.unwrap_or_default();
        let mut registries = tables.into_iter().map(registry).collect::<Result<Vec<_>, _>>()?;
        agree(&registries)?;
        settings(&root)?;
        let mut known = BTreeSet::new();
        registries.retain(|registry| known.insert(registry.prefix.clone()));
        Ok(registries)
    })
}

/// Refuses lists of version 1, empty ones included; its tables without a list are unknown keys.
fn refuse_version_1(root: &Table<'_>) -> Result<(), Fault> {
    let Some(table) = root.table("registries")? else { return Ok(()) };
    for key in ["search", "insecure", "block"] {
        if let Some(inner) = table.table(key)?
            && inner.texts("registries")?.is_some()
        {
            let why = format!("table \"registries.{key}\" is of version 1, which is not supported");
            return Err(Fault::new(inner.line, why));
        }
    }
    Ok(())
}

/// Checks the keys that have no effect on pulling a full reference.
fn settings(root: &Table<'_>) -> Result<(), Fault> {
    let search = root.texts("unqualified-search-registries")?;
    for host in search.unwrap_or_default() {
        if !is_domain(&trimmed(&host)?) {
            let name = quote(&host.value);
            let why = format!("unqualified-search-registries: {name} is not a host");
            return Err(Fault::new(host.line, why));
        }
    }
    let mode = root.text("short-name-mode")?;
    if !matches!(mode.value.as_str(), "" | "disabled" | "enforcing" | "permissive") {
        let found = quote(&mode.value);
        let why = format!("short-name-mode {found} is not one of disabled, enforcing, permissive");
        return Err(Fault::new(mode.line, why));
    }
    root.texts("credential-helpers")?;
    root.text("additional-layer-store-auth-helper")?;
    for (name, value) in root.names("aliases")?.unwrap_or_default() {
        alias::check(&name, &value.value).map_err(|why| Fault::new(value.line, why))?;
    }
    Ok(())
}

fn registry(table: Table<'_>) -> Result<Registry, Fault> {
    let (written, place) = (table.text("prefix")?, table.text("location")?);
    let location = trimmed(&place)?;
    let mut prefix = trimmed(&written)?;
    let line = if written.value.is_empty() {
        if location.is_empty() {
            let why = "a registry has neither prefix nor location";
            return Err(Fault::new(table.line, why));
        }
        prefix.clone_from(&location);
        place.line
    } else if location.is_empty() && !prefix.starts_with("*.") {
        let name = quote(&prefix);
        let form = "has no location and its prefix is not of the form *.example.com";
        let why = format!("registry {name} {form}");
        return Err(Fault::new(table.line, why));
    } else {
        written.line
    };
    if prefix.starts_with("*.") && prefix.contains(['/', '@', ':']) {
        let why = format!(
            "prefix {} is not of the form *.example.com: a wildcard stands for subdomains of a host \
             and has no port, path or digest",
            quote(&prefix)
        );
        return Err(Fault::new(line, why));
    }
    let misplaced = table.text("pull-from-mirror")?;
    if !misplaced.value.is_empty() {
        let why =
            format!("pull-from-mirror is for mirrors, not for registry {} itself", quote(&prefix));
        return Err(Fault::new(misplaced.line, why));
    }
    let mirror_by_digest_only = table.flag("mirror-by-digest-only")?;
    let tables = table.tables("mirror")?.unwrap_or_default();
    let mirrors = tables.into_iter().map(|table| mirror(table, &prefix, mirror_by_digest_only));
    Ok(Registry {
        line: table.line,
        mirrors: mirrors.collect::<Result<_, _>>()?,
        location,
        blocked: table.flag("blocked")?,
        insecure: table.flag("insecure")?,
        mirror_by_digest_only,
        prefix,
        ..Registry::default()
    })
}

/// Reads a `[[registry.mirror]]` table of the registry `prefix`.
fn mirror(table: Table<'_>, prefix: &str, by_digest_only: bool) -> Result<Mirror, Fault> {
    let location = trimmed(&table.text("location")?)?;
    if location.is_empty() {
        let why = format!("a mirror of {} has no location", quote(prefix));
        return Err(Fault::new(table.line, why));
    }
    let asked = table.text("pull-from-mirror")?;
    if by_digest_only && !asked.value.is_empty() {
        let (of, its) = (quote(prefix), quote(&location));
        let why = format!(
            "mirror-by-digest-only of registry {of} and pull-from-mirror of its mirror {its} are both set"
        );
        return Err(Fault::new(asked.line, why));
    }
    let pull = match asked.value.as_str() {
        "" | "all" => PullFromMirror::All,
        "digest-only" => PullFromMirror::DigestOnly,
        "tag-only" => PullFromMirror::TagOnly,
        other => {
            let (found, of) = (quote(other), quote(&location));
            let known = "is not one of all, digest-only, tag-only";
            let why = format!("pull-from-mirror {found} of mirror {of} {known}");
            return Err(Fault::new(asked.line, why));
        }
    };
    Ok(Mirror { location, insecure: table.flag("insecure")?, pull })
}

/// Refuses tables of one location that contradict each other about how it may be contacted: which
/// of them counts would depend on the reference. They are compared by location, as one location may
/// serve several prefixes.
fn agree(registries: &[Registry]) -> Result<(), Fault> {
    for (index, later) in registries.iter().enumerate() {
        for earlier in &registries[..index] {
            if earlier.place() != later.place() {
                continue;
            }
            let differing = [
                ("insecure", earlier.insecure != later.insecure),
                ("blocked", earlier.blocked != later.blocked),
            ];
            if let Some((key, _)) = differing.iter().find(|(_, differs)| *differs) {
                let (name, key) = (quote(later.place()), quote(key));
                let (first, line) = (earlier.line, later.line);
                let why = format!(
                    "tables of registry {name} in lines {first} and {line} differ in {key}"
                );
                return Err(Fault::new(line, why));
            }
        }
    }
    Ok(())
}

/// Removes trailing slashes of a location or prefix, and refuses one with a scheme.
fn trimmed(text: &Lined<String>) -> Result<String, Fault> {
    let bare = text.value.trim_end_matches('/');
    if bare.starts_with("http://") || bare.starts_with("https://") {
        let why = format!("location {} must not have a scheme", quote(&text.value));
        return Err(Fault::new(text.line, why));
    }
    Ok(bare.to_owned())
}
