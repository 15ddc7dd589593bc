//! `kubectl olm catalog list`: which catalogs are served.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use olm_api::conditions::{status, types};
use olm_api::{AvailabilityMode, ClusterCatalog, ClusterObjectSet};
use olm_core::revision::{self, Origin};
use olm_core::status::find;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cluster::{CatalogAccess, Cluster};
use crate::connection::Global;
use crate::document::Document as _;
use crate::managed::failure;
use crate::offers::Listed;
use crate::output::{Format, Outcome, Table, formats, notice};
use crate::settings::SettingsFlags;

/// Text of a cell without a value.
const NOTHING: &str = "-";
/// Characters of a digest that are shown, as other container tools do.
const DIGEST: usize = 12;

/// Flags of `catalog list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Output format
    #[arg(short, long, value_parser = formats(&[Format::Wide, Format::Name]), default_value_t)]
    output: Format,
    #[command(flatten)]
    access: CatalogAccess,
}

/// Prints a row for each catalog.
pub(crate) async fn run(
    args: &ListArgs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let cluster = Cluster::connect(global, &args.access, &SettingsFlags::default()).await?;
    let catalogs = Cluster::catalogs(cluster.own_client()).await?;
    let now = Timestamp::now();
    match args.output {
        format @ (Format::Json | Format::Yaml) => document(&catalogs).write(format, out)?,
        Format::Name => {
            for catalog in &catalogs {
                writeln!(out, "clustercatalog.{}/{}", olm_api::GROUP, catalog.name_any())?;
            }
        }
        Format::Wide => {
            let more = More::read(&cluster, &catalogs).await?;
            table(&catalogs, Some(&more), now).write(out)?;
        }
        _ => table(&catalogs, None, now).write(out)?,
    }
    Ok(Outcome::Done)
}

/// What is asked for besides the catalogs themselves.
struct More {
    /// How many packages each offers, if that is known.
    packages: BTreeMap<String, usize>,
    /// How many extensions have what they run from which, if revisions may be read.
    extensions: Option<BTreeMap<String, usize>>,
}

impl More {
    async fn read(cluster: &Cluster, catalogs: &[ClusterCatalog]) -> anyhow::Result<Self> {
        let (found, unread) = cluster.packages().await?;
        for (name, why) in &unread {
            notice(&format!("note: the packages of {name} are not known: {why}"));
        }
        let is_read = |catalog: &&ClusterCatalog| {
            let failed = unread.iter().any(|(name, _)| *name == catalog.name_any());
            catalog.spec.availability() == AvailabilityMode::Available && !failed
        };
        let count = |catalog: &ClusterCatalog| {
            let name = catalog.name_any();
            let packages = found.iter().filter(|(of, _)| *of == name).count();
            (name, packages)
        };
        let packages = catalogs.iter().filter(is_read).map(count).collect();
        let sets = Api::<ClusterObjectSet>::all(cluster.own_client().clone());
        let extensions = match sets.list(&ListParams::default()).await {
            Ok(listed) => Some(origins(listed.items)),
            Err(error) => {
                let why = failure(&error);
                notice(&format!("note: what came from which is not known: {why}"));
                None
            }
        };
        Ok(Self { packages, extensions })
    }

    /// Returns the cells about a catalog: its packages, and its extensions.
    fn cells(&self, catalog: &str) -> [String; 2] {
        let packages = self.packages.get(catalog).copied();
        let extensions = self.extensions.as_ref();
        let extensions = extensions.map(|all| all.get(catalog).copied().unwrap_or_default());
        [packages, extensions]
            .map(|count| count.map_or_else(|| NOTHING.to_owned(), |count| count.to_string()))
    }
}

/// Counts the extensions by the catalog that what they run came from.
fn origins(mut sets: Vec<ClusterObjectSet>) -> BTreeMap<String, usize> {
    let mut by_extension = BTreeMap::<String, Vec<ClusterObjectSet>>::new();
    revision::sort(&mut sets);
    for set in sets {
        if let Some(owner) = revision::extension_of(&set).map(|owner| owner.name.clone()) {
            by_extension.entry(owner).or_default().push(set);
        }
    }
    let mut counts = BTreeMap::new();
    for sets in by_extension.values() {
        let installed = revision::states(sets).installed;
        if let Some(catalog) = installed.and_then(|set| Origin::of(set).catalog) {
            *counts.entry(catalog).or_default() += 1;
        }
    }
    counts
}

fn table(catalogs: &[ClusterCatalog], more: Option<&More>, now: Timestamp) -> Table {
    let names = ["NAME", "SERVING", "PRIORITY", "FINDINGS", "DIGEST", "UNPACKED", "AGE", "IMAGE"];
    let further: &[&str] = more.map_or(&[], |_| &["PACKAGES", "EXTENSIONS"]);
    let mut table = Table::new(&[&names[..], further].concat());
    for catalog in catalogs {
        let ago = |time: Option<Timestamp>| time.map_or(NOTHING.to_owned(), |time| age(time, now));
        let seen = catalog.status.as_ref();
        let unpacked = seen.and_then(|status| status.last_unpacked.as_ref());
        let digest = digest(catalog).map(|digest| digest.chars().take(DIGEST).collect());
        let mut row = vec![
            catalog.name_any(),
            serving(catalog),
            catalog.spec.priority.to_string(),
            findings(catalog).unwrap_or(NOTHING).to_owned(),
            digest.unwrap_or_else(|| NOTHING.to_owned()),
            ago(unpacked.map(|time| time.0)),
            ago(catalog.creation_timestamp().map(|time| time.0)),
            image(catalog).unwrap_or(NOTHING).to_owned(),
        ];
        if let Some(more) = more {
            row.extend(more.cells(&catalog.name_any()));
        }
        table.row(row);
    }
    table
}

/// Which catalogs are served: `kubectl olm catalog list`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Catalogs {
    pub(crate) catalogs: Vec<Listed>,
}

/// Returns the answer for programs.
pub(crate) fn document(catalogs: &[ClusterCatalog]) -> Catalogs {
    let catalogs = catalogs.iter().map(row).collect();
    Catalogs { catalogs }
}

fn row(catalog: &ClusterCatalog) -> Listed {
    let seen = catalog.status.as_ref();
    Listed {
        name: catalog.name_any(),
        serving: serving(catalog),
        image: image(catalog).map(str::to_owned),
        priority: catalog.spec.priority,
        findings: findings(catalog).map(Into::into),
        digest: digest(catalog).map(str::to_owned),
        last_unpacked: seen.and_then(|status| status.last_unpacked.clone()),
    }
}

/// Says whether the content is served, or why not in one word.
fn serving(catalog: &ClusterCatalog) -> String {
    if catalog.spec.availability() == AvailabilityMode::Unavailable {
        return "Unavailable".to_owned();
    }
    let seen = catalog.status.as_ref();
    let found = |type_| seen.and_then(|status| find(&status.conditions, type_));
    match (found(types::SERVING), found(types::PROGRESSING)) {
        (Some(serving), _) if serving.status == status::TRUE => status::TRUE.to_owned(),
        (_, Some(progressing)) => progressing.reason.clone(),
        _ => "Unknown".to_owned(),
    }
}

/// Returns how many errors and warnings the content has, as the controller found them.
fn findings(catalog: &ClusterCatalog) -> Option<&str> {
    let seen = catalog.status.as_ref()?;
    let valid = find(&seen.conditions, types::CONTENT_VALID)?;
    match valid.status.as_str() {
        status::TRUE => Some("none"),
        status::FALSE => valid.message.split([';', '\n']).next()?.split(" in ").next(),
        _ => None,
    }
}

fn digest(catalog: &ClusterCatalog) -> Option<&str> {
    catalog.resolved_reference()?.split_once("@sha256:").map(|(_, digest)| digest)
}

fn image(catalog: &ClusterCatalog) -> Option<&str> {
    Some(catalog.spec.source.image.as_ref()?.ref_.as_str())
}

/// Returns how long ago something was, in its largest unit, as kubectl shows it.
fn age(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(time).as_secs().max(0);
    let (number, unit) = match seconds {
        0..120 => (seconds, 's'),
        120..7_200 => (seconds / 60, 'm'),
        7_200..172_800 => (seconds / 3600, 'h'),
        _ => (seconds / 86_400, 'd'),
    };
    format!("{number}{unit}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    // plugin.md U72
    #[test]
    fn a_row_says_what_is_served_or_why_not() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let condition = |type_: &str, status: &str, reason: &str| {
            json!({"type": type_, "status": status, "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let catalog = |name: &str, mode: &str, status: Value| {
            json!({"metadata": {"name": name, "creationTimestamp": "2026-01-01T12:00:00Z"},
                "spec": {"priority": 5, "availabilityMode": mode,
                    "source": {"type": "Image", "image": {"ref": format!("quay.io/x/{name}:1")}}},
                "status": status})
        };
        let served = json!({"lastUnpacked": "2026-01-01T23:57:00Z",
            "resolvedSource": {"type": "Image",
                "image": {"ref": format!("quay.io/x/a@sha256:{}", "0123456789abcdef".repeat(4))}},
            "conditions": [condition("Serving", "True", "Available"),
                {"type": "ContentValid", "status": "False", "reason": "Findings",
                    "message": "2 errors, 1 warning in 3 packages; a.yaml:1: x in y",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        let failing = json!({"conditions": [condition("Serving", "False", "Unavailable"),
            condition("ContentValid", "Unknown", "NotRead"),
            condition("Progressing", "True", "Retrying")]});
        let catalogs = json!([
            catalog("a", "Available", served),
            catalog("b", "Available", failing),
            catalog("c", "Unavailable", json!({})),
            catalog(
                "d",
                "Available",
                json!({"conditions": [
                condition("Serving", "True", "Available"),
                condition("ContentValid", "True", "NoFindings")]})
            )
        ]);
        let catalogs: Vec<ClusterCatalog> = serde_json::from_value(catalogs).unwrap();
        let mut out = Vec::new();
        table(&catalogs, None, now).write(&mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
        NAME  SERVING      PRIORITY  FINDINGS             DIGEST        UNPACKED  AGE  IMAGE
        a     True         5         2 errors, 1 warning  0123456789ab  3m        12h  quay.io/x/a:1
        b     Retrying     5         -                    -             -         12h  quay.io/x/b:1
        c     Unavailable  5         -                    -             -         12h  quay.io/x/c:1
        d     True         5         none                 -             -         12h  quay.io/x/d:1
        ");
    }
}
