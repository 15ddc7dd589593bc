//! `kubectl olm catalog list`: which catalogs are served.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_core::revision::{self, Origin};

use crate::cluster::CatalogAccess;
use crate::commands::prelude::*;
use crate::offers::Listed;
use crate::output::age;

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

pub(crate) async fn run(args: &ListArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let on = OnCluster { access: args.access.clone(), ..OnCluster::default() };
    let cluster = on.connect(global).await?;
    let catalogs = cluster.all_catalogs().await?;
    let now = Timestamp::now();
    match args.output {
        format @ (Format::Json | Format::Yaml) => document(catalogs).write(format, out)?,
        Format::Name => {
            for catalog in catalogs {
                writeln!(out, "clustercatalog.{}/{}", olm_api::GROUP, catalog.name_any())?;
            }
        }
        Format::Wide => {
            let more = More::read(&cluster, catalogs).await?;
            table(catalogs, Some(&more), now).write(out)?;
        }
        _ => table(catalogs, None, now).write(out)?,
    }
    Ok(Outcome::Done)
}

struct More {
    /// The number of packages of each catalog, if known.
    packages: BTreeMap<String, usize>,
    /// The number of extensions by the catalog of their installed bundle, if revisions may be read.
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
            Ok(listed) => Some(origins(&listed.items)),
            Err(error) => {
                let why = failure(&error);
                notice(&format!("note: the number of extensions per catalog is not known: {why}"));
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
        [packages, extensions].map(cell)
    }
}

/// Counts the extensions by the catalog that what they run came from.
fn origins(sets: &[ClusterObjectSet]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for set in revision::installed(sets).values() {
        if let Some(catalog) = Origin::of(set).catalog {
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
        let ago = |time: Option<Time>| cell(time.map(|time| age(time.0, now)));
        let listed = row(catalog);
        let further = more.map(|more| more.cells(&listed.name));
        let cells = [
            listed.name,
            listed.serving,
            listed.priority.to_string(),
            cell(listed.findings),
            cell(listed.digest.map(|digest| digest.chars().take(DIGEST).collect::<String>())),
            ago(listed.last_unpacked),
            ago(catalog.creation_timestamp()),
            cell(listed.image),
        ];
        table.row(cells.into_iter().chain(further.into_iter().flatten()).collect());
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
    Catalogs { catalogs: catalogs.iter().map(row).collect() }
}

fn row(catalog: &ClusterCatalog) -> Listed {
    let seen = catalog.status.as_ref();
    let digest = catalog.resolved_reference().and_then(|it| it.split_once("@sha256:"));
    Listed {
        name: catalog.name_any(),
        serving: serving(catalog),
        image: catalog.spec.source.image.as_ref().map(|image| image.ref_.clone()),
        priority: catalog.spec.priority,
        findings: findings(catalog).map(Into::into),
        digest: digest.map(|(_, digest)| digest.to_owned()),
        last_unpacked: seen.and_then(|status| status.last_unpacked.clone()),
    }
}

/// Returns whether the content is served, or the reason why not.
fn serving(catalog: &ClusterCatalog) -> String {
    if catalog.spec.availability() == AvailabilityMode::Unavailable {
        return "Unavailable".to_owned();
    }
    match (catalog.condition(types::SERVING), catalog.condition(types::PROGRESSING)) {
        (Some(serving), _) if serving.status == status::TRUE => status::TRUE.to_owned(),
        (_, Some(progressing)) => progressing.reason.clone(),
        _ => "Unknown".to_owned(),
    }
}

/// Returns the number of errors and warnings that the controller found in the content.
fn findings(catalog: &ClusterCatalog) -> Option<&str> {
    let valid = catalog.condition(types::CONTENT_VALID)?;
    match valid.status.as_str() {
        status::TRUE => Some("none"),
        status::FALSE => valid.message.split([';', '\n']).next()?.split(" in ").next(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    // plugin.md U72
    #[test]
    fn a_row_says_what_is_served_or_why_not() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let condition =
            |type_: &str, status: &str, reason: &str| fixture::condition(type_, status, reason, "");
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
                fixture::condition("ContentValid", "False", "Findings",
                    "2 errors, 1 warning in 3 packages; a.yaml:1: x in y")]});
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
