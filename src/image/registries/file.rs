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
use serde::de::DeserializeOwned;
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
#[serde(default, rename_all = "kebab-case")]
struct RegistryTable {
    prefix: String,
    location: String,
    blocked: bool,
    insecure: bool,
    mirror_by_digest_only: bool,
    /// Refused here unless it is empty.
    pull_from_mirror: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
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
    let mut root = spelled(root)?;
    refuse_version_1(&root)?;
    let mut registries = Vec::new();
    for (index, table) in tables(&mut root, "registry", "registry")?.into_iter().enumerate() {
        registries.push(registry(index, table)?);
    }
    agree(&registries)?;
    let mut known = BTreeSet::new();
    registries.retain(|registry| known.insert(registry.prefix.clone()));
    Ok(registries)
}

/// Refuses the lists of version 1; its tables without a list are unknown keys.
fn refuse_version_1(root: &Table) -> Result<(), String> {
    let Some(value) = root.get("registries") else { return Ok(()) };
    let Value::Table(lists) = value else {
        return Err(format!("registries is of type {}, not a table", value.type_str()));
    };
    for key in ["search", "insecure", "block"] {
        let list = lists.get(key);
        if list.is_some_and(|it| it.as_table().is_none_or(|it| it.contains_key("registries"))) {
            let name = quote(&format!("registries.{key}"));
            return Err(format!("table {name} is of version 1, which is not supported"));
        }
    }
    Ok(())
}

/// Takes a list of tables, each of which is written below its name in two pairs of brackets.
fn tables(of: &mut Table, key: &str, name: &str) -> Result<Vec<Table>, String> {
    let tables = match of.remove(key) {
        None => Some(Vec::new()),
        Some(Value::Array(list)) => list.into_iter().map(table).collect(),
        Some(_) => None,
    };
    tables.ok_or_else(|| format!("{name} is not a list of tables: write [[{name}]] above each"))
}

fn table(value: Value) -> Option<Table> {
    match value {
        Value::Table(table) => Some(table),
        _ => None,
    }
}

/// Reads one of several tables; what is wrong with it is said with its location or prefix, or its
/// number.
fn read<T: DeserializeOwned>(what: &str, index: usize, table: Table) -> Result<T, String> {
    let text = |key| table.get(key)?.as_str().filter(|it| !it.is_empty());
    let name = text("location").or_else(|| text("prefix"));
    let name = name.map_or_else(|| (index + 1).to_string(), quote);
    table.try_into().map_err(|error: toml::de::Error| {
        format!("{what} {name}: {}", error.to_string().trim_end().replace('\n', " "))
    })
}

/// Keeps the keys that count, spelled as they are spelled here. They count in any case, as in the
/// decoder of containers/image: if `Blocked = true` were ignored, this program would allow what every
/// other tool on the machine refuses. Two spellings of one key are refused: which of them would count
/// is random.
fn spelled(table: Table) -> Result<Table, String> {
    let mut spelled = Table::new();
    for (key, value) in table {
        let name = fold(&key);
        if !KEYS.contains(&name.as_str()) {
            continue;
        }
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

fn registry(index: usize, mut table: Table) -> Result<Registry, String> {
    let mirrors = tables(&mut table, "mirror", "registry.mirror")?;
    let table: RegistryTable = read("registry", index, table)?;
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
    let mirrors = mirrors.into_iter().enumerate();
    let mirrors = mirrors.map(|at| mirror(at, &prefix, table.mirror_by_digest_only));
    Ok(Registry {
        mirrors: mirrors.collect::<Result<_, _>>()?,
        location,
        blocked: table.blocked,
        insecure: table.insecure,
        prefix,
        ..Registry::default()
    })
}

/// Reads a `[[registry.mirror]]` table of the registry `prefix`.
fn mirror(
    (index, table): (usize, Table),
    prefix: &str,
    by_digest_only: bool,
) -> Result<Mirror, String> {
    let table: MirrorTable = read(&format!("registry {}: mirror", quote(prefix)), index, table)?;
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
        "" if by_digest_only => PullFromMirror::DigestOnly,
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
