//! Parses and validates one configuration file, before anything of it is used.
//!
//! What containers/image refuses is refused here too, and nothing else, so that a file means the
//! same to this program and to the node it is on; only what is about names without a registry is not
//! read, because nothing is pulled by one. Where that loader ignores an entry, such as a second
//! table with the same prefix, so does this one.
//!
//! Source: containers-registries.conf(5), `containers/image` (`system_registries_v2.go`),
//! `BurntSushi/toml` 1.6 (`decode.go`).

use std::collections::BTreeSet;

use olm_core::catalog::read::fold;
use olm_core::error::quote;
use serde::Deserialize;
use toml::{Table, Value};

use super::{Mirror, PullFromMirror, Registry};

/// The keys that count, at any depth.
const KEYS: [&str; 11] = [
    "block",
    "blocked",
    "insecure",
    "location",
    "mirror",
    "mirror-by-digest-only",
    "prefix",
    "pull-from-mirror",
    "registries",
    "registry",
    "search",
];

#[derive(Default, Deserialize)]
#[serde(default)]
struct File {
    registry: Vec<RegistryTable>,
    registries: Version1,
}

/// Lists of version 1; its tables without a list are unknown keys.
#[derive(Default, Deserialize)]
#[serde(default, expecting = "a table")]
struct Version1 {
    search: List,
    insecure: List,
    block: List,
}

#[derive(Default, Deserialize)]
#[serde(default, expecting = "a table")]
struct List {
    registries: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case", expecting = "a table")]
struct RegistryTable {
    prefix: String,
    location: String,
    blocked: bool,
    insecure: bool,
    mirror_by_digest_only: bool,
    /// Refused here unless it is empty.
    pull_from_mirror: String,
    mirror: Vec<MirrorTable>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case", expecting = "a table")]
struct MirrorTable {
    location: String,
    insecure: bool,
    pull_from_mirror: String,
}

/// Reads a file; the caller adds its path to the result. Of several tables with one prefix only the
/// first is returned.
pub(super) fn parse(text: &str) -> Result<Vec<Registry>, String> {
    let root: Table = text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.unwrap_or_default().matches('\n').count() + 1;
        format!("line {line}: not TOML: {}", error.message())
    })?;
    let file: File = spelled(root)?
        .try_into()
        .map_err(|error: toml::de::Error| error.to_string().trim_end().replace('\n', " "))?;
    let Version1 { search, insecure, block } = &file.registries;
    for (key, list) in [("search", search), ("insecure", insecure), ("block", block)] {
        if list.registries.is_some() {
            let name = format!("registries.{key}");
            return Err(format!("table {} is of version 1, which is not supported", quote(&name)));
        }
    }
    let tables = file.registry.into_iter();
    let mut registries = tables.map(registry).collect::<Result<Vec<_>, _>>()?;
    agree(&registries)?;
    let mut known = BTreeSet::new();
    registries.retain(|registry| known.insert(registry.prefix.clone()));
    Ok(registries)
}

/// Spells the keys that count as they are spelled here. They count in any case, as in the decoder
/// of containers/image: if `Blocked = true` were ignored, this program would allow what every other
/// tool on the machine refuses. Two spellings of one key are refused: which of them would count is
/// random.
fn spelled(table: Table) -> Result<Table, String> {
    let mut spelled = Table::new();
    for (key, value) in table {
        let folded = fold(&key);
        let name = if KEYS.contains(&folded.as_str()) { folded } else { key.clone() };
        if spelled.insert(name, spelled_within(value)?).is_some() {
            return Err(format!("key {} is there in two spellings", quote(&fold(&key))));
        }
    }
    Ok(spelled)
}

fn spelled_within(value: Value) -> Result<Value, String> {
    Ok(match value {
        Value::Table(table) => Value::Table(spelled(table)?),
        Value::Array(list) => {
            Value::Array(list.into_iter().map(spelled_within).collect::<Result<_, _>>()?)
        }
        other => other,
    })
}

fn registry(table: RegistryTable) -> Result<Registry, String> {
    let location = trimmed(&table.location)?;
    let mut prefix = trimmed(&table.prefix)?;
    if table.prefix.is_empty() {
        if location.is_empty() {
            return Err("a registry has neither prefix nor location".to_owned());
        }
        prefix.clone_from(&location);
    } else if location.is_empty() && !prefix.starts_with("*.") {
        let form = "has no location and its prefix is not of the form *.example.com";
        return Err(format!("registry {} {form}", quote(&prefix)));
    }
    if prefix.starts_with("*.") && prefix.contains(['/', '@', ':']) {
        return Err(format!(
            "prefix {} is not of the form *.example.com: a wildcard stands for subdomains of a host \
             and has no port, path or digest",
            quote(&prefix)
        ));
    }
    if !table.pull_from_mirror.is_empty() {
        let of = quote(&prefix);
        return Err(format!("pull-from-mirror is for mirrors, not for registry {of} itself"));
    }
    let mirror_by_digest_only = table.mirror_by_digest_only;
    let mirrors = table.mirror.iter().map(|table| mirror(table, &prefix, mirror_by_digest_only));
    Ok(Registry {
        mirrors: mirrors.collect::<Result<_, _>>()?,
        location,
        blocked: table.blocked,
        insecure: table.insecure,
        mirror_by_digest_only,
        prefix,
        ..Registry::default()
    })
}

/// Reads a `[[registry.mirror]]` table of the registry `prefix`.
fn mirror(table: &MirrorTable, prefix: &str, by_digest_only: bool) -> Result<Mirror, String> {
    let location = trimmed(&table.location)?;
    if location.is_empty() {
        return Err(format!("a mirror of {} has no location", quote(prefix)));
    }
    let (of, its) = (quote(prefix), quote(&location));
    if by_digest_only && !table.pull_from_mirror.is_empty() {
        return Err(format!(
            "mirror-by-digest-only of registry {of} and pull-from-mirror of its mirror {its} are both set"
        ));
    }
    let pull = match table.pull_from_mirror.as_str() {
        "" | "all" => PullFromMirror::All,
        "digest-only" => PullFromMirror::DigestOnly,
        "tag-only" => PullFromMirror::TagOnly,
        other => {
            let (found, known) = (quote(other), "is not one of all, digest-only, tag-only");
            return Err(format!("pull-from-mirror {found} of mirror {its} {known}"));
        }
    };
    Ok(Mirror { location, insecure: table.insecure, pull })
}

/// Refuses tables of one location that contradict each other about how it may be contacted: which
/// of them counts would depend on the reference. They are compared by location, as one location may
/// serve several prefixes.
fn agree(registries: &[Registry]) -> Result<(), String> {
    for (index, later) in registries.iter().enumerate() {
        for earlier in registries[..index].iter().filter(|it| it.place() == later.place()) {
            let differing = [
                ("insecure", earlier.insecure != later.insecure),
                ("blocked", earlier.blocked != later.blocked),
            ];
            if let Some((key, _)) = differing.iter().find(|(_, differs)| *differs) {
                let (name, key) = (quote(later.place()), quote(key));
                return Err(format!("tables of registry {name} differ in {key}"));
            }
        }
    }
    Ok(())
}

/// Removes trailing slashes of a location or prefix, and refuses one with a scheme.
fn trimmed(text: &str) -> Result<String, String> {
    let bare = text.trim_end_matches('/');
    if bare.starts_with("http://") || bare.starts_with("https://") {
        return Err(format!("location {} must not have a scheme", quote(text)));
    }
    Ok(bare.to_owned())
}
