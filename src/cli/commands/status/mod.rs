//! `kubectl olm status`: the installed bundles, their state, and the updates that are available or held.
//!
//! Source: plugin.md 1.4.

mod columns;
mod details;
mod document;
mod watch;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ObjectList;
use olm_api::keys::{annotation, label};

pub(crate) use details::detailed;
pub(crate) use document::{Status, document};

use crate::commands::prelude::*;
use crate::commands::tree;
use crate::document::ExtensionRow;
use crate::verb;
use columns::{ready, table};
use details::sheet;
use watch::watch;

/// Flags of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Names of extensions; by default all of them. One name shows all details
    #[arg(value_name = "NAME", value_parser = verb::extension())]
    names: Vec<String>,
    /// Label selector
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
    selector: Option<String>,
    /// Exit with 1 unless all of them are ready
    #[arg(long)]
    check: bool,
    /// Watch, and print a row for each change
    #[arg(short, long, conflicts_with = "check")]
    watch: bool,
    /// Show only extensions whose operators watch this namespace
    #[arg(long, value_name = "NAMESPACE")]
    watching: Option<String>,
    /// Output format
    #[arg(short, long, value_parser = formats(&[Format::Name, Format::Tree]), default_value_t)]
    output: Format,
    #[command(flatten)]
    place: InNamespace,
}

/// Prints a row for each extension, or a sheet about one.
pub(crate) async fn run(args: StatusArgs, global: &Global, out: &mut dyn Write) -> Ended {
    if args.watch && !matches!(args.output, Format::Table | Format::Json) {
        return usage(format!("-o {}: with --watch only table and json are possible", args.output));
    }
    let cluster = OnCluster::default().connect(global).await?;
    let mut extensions = if args.names.is_empty() {
        list(cluster.own_client(), &args).await?.items
    } else {
        cluster.named(&args.names).await?
    };
    if args.watch {
        return watch(cluster.own_client(), &args, out).await;
    }
    extensions.sort_by_key(ClusterExtension::name_any);
    keep_wanted(cluster.own_client(), &args, &mut extensions).await?;
    let is_one = args.names.len() == 1 && !matches!(args.output, Format::Name | Format::Tree);
    let (status, revisions) = match extensions.as_slice() {
        [extension] if is_one => detailed(&cluster, extension).await?,
        extensions => (document(extensions), Vec::new()),
    };
    match (args.output, status.extensions.as_slice()) {
        (format @ (Format::Json | Format::Yaml), _) => status.write(format, out)?,
        (Format::Name, rows) => {
            for row in rows {
                writeln!(out, "clusterextension.{}/{}", olm_api::GROUP, row.name)?;
            }
        }
        (Format::Tree, _) => {
            for extension in &extensions {
                tree::write(&cluster, extension, out).await?;
            }
        }
        (_, [row]) if is_one => sheet(row, &status.unknown, &revisions).write(out)?,
        (_, []) if args.names.is_empty() => {
            let narrowed = [&args.selector, &args.watching, &args.place.namespace];
            output::notice(if narrowed.into_iter().all(Option::is_none) {
                "no ClusterExtensions: kubectl olm install creates one"
            } else {
                "no ClusterExtension matches"
            });
        }
        _ => table(&extensions, Timestamp::now()).write(out)?,
    }
    let left_out = left_out(&args.names, &status.extensions);
    for name in &left_out {
        notice(&format!("error: ClusterExtension {name} is left out by -n or --watching"));
    }
    let all_ready = status.extensions.iter().all(|row| ready(row) == status::TRUE);
    Ok(Outcome::of(!left_out.is_empty() || (args.check && !all_ready), false))
}

/// Returns the names that are asked for and have no row.
fn left_out<'a>(names: &'a [String], rows: &[ExtensionRow]) -> Vec<&'a String> {
    names.iter().filter(|name| rows.iter().all(|row| row.name != **name)).collect()
}

/// Lists the extensions that are asked for by their labels, or all.
async fn list(client: &Client, args: &StatusArgs) -> anyhow::Result<ObjectList<ClusterExtension>> {
    let mut params = ListParams::default();
    params.label_selector.clone_from(&args.selector);
    let api = Api::<ClusterExtension>::all(client.clone());
    api.list(&params).await.context("listing ClusterExtensions")
}

async fn keep_wanted(
    client: &Client,
    args: &StatusArgs,
    extensions: &mut Vec<ClusterExtension>,
) -> anyhow::Result<()> {
    let namespace = args.place.namespace.as_deref();
    extensions.retain(|extension| {
        let of = extension.spec.as_ref().map(|spec| spec.namespace.as_str());
        let is_named = args.names.is_empty() || args.names.contains(&extension.name_any());
        is_named && namespace.is_none_or(|namespace| of == Some(namespace))
    });
    // An upgrade may change what they watch.
    if let Some(namespace) = args.watching.as_ref().filter(|_| !extensions.is_empty()) {
        let watching = watching(client, namespace).await?;
        extensions.retain(|extension| watching.contains(&extension.name_any()));
    }
    Ok(())
}

/// Returns the extensions whose operators watch a namespace, by what their Deployments are told.
async fn watching(client: &Client, namespace: &str) -> anyhow::Result<BTreeSet<String>> {
    let api = Api::<Deployment>::all(client.clone());
    let listed = api.list(&ListParams::default().labels(label::OWNER_NAME)).await;
    let listed = listed.context("listing Deployments")?;
    let watch = listed.items.iter().filter(|one| {
        let template = one.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
        let annotations = template.and_then(|template| template.annotations.as_ref());
        let targets = annotations.and_then(|all| all.get(annotation::TARGET_NAMESPACES));
        // Without a name all namespaces are.
        targets.is_some_and(|targets| {
            targets.is_empty() || targets.split(',').any(|target| target == namespace)
        })
    });
    Ok(watch.filter_map(|one| one.labels().get(label::OWNER_NAME).cloned()).collect())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Event;

    use super::details::{LAST_EVENTS, PROVIDES, happened};
    use super::document::row;
    use super::*;
    use crate::fixture::condition;

    fn extension(value: &Value) -> ClusterExtension {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn all() -> Vec<ClusterExtension> {
        let spec = json!({"namespace": "ns", "serviceAccount": {"name": "sa"},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "quay"}}});
        let made = "2026-01-01T00:00:00Z";
        let installed = json!({"bundle": {"name": "quay.v1", "version": "1.0.0"}});
        let update = |reason: &str| {
            json!({"version": "2.0.0", "newest": "3.0.0", "catalog": "community",
                "reason": reason, "message": "held"})
        };
        [
            json!({"metadata": {"name": "well", "creationTimestamp": made}, "spec": spec,
                "status": {"install": installed,
                    "conditions": [condition("Ready", "True", "Succeeded", ""),
                        condition("Supported", "False", "SupportEnded", "over")]}}),
            json!({"metadata": {"name": "held", "creationTimestamp": made,
                    "annotations": {"policy.olm.operatorframework.io/paused": "true"}},
                "spec": spec, "status": {"install": installed, "update": update("NextMajorHeld"),
                    "conditions": [condition("Ready", "True", "Succeeded", ""),
                        condition("Supported", "True", "Supported", "1.0: Full until 2026-06-30")]}}),
            json!({"metadata": {"name": "poor", "creationTimestamp": made}, "spec": spec,
                "status": {"conditions": [
                    condition("Ready", "False", "PermissionsMissing", "lacks rights"),
                    condition("PermissionsSufficient", "False", "PermissionsMissing", "x")]}}),
            json!({"metadata": {"name": "new"}}),
            json!({"metadata": {"name": "moves", "creationTimestamp": made}, "spec": spec,
                "status": {"install": installed, "update": {"version": "1.1.0", "newest": "2.0.0",
                        "catalog": "c", "reason": "RollingOut", "message": "m"},
                    "conditions": [condition("Ready", "False", "RollingOut", ""),
                        condition("Deprecated", "True", "Deprecated", "old")]}}),
        ]
        .iter()
        .map(extension)
        .collect()
    }

    #[test]
    fn a_name_without_a_row_is_left_out() {
        let names = ["well", "elsewhere"].map(str::to_owned);
        assert_eq!(left_out(&names, &document(&all()).extensions), ["elsewhere"]);
    }

    // plugin.md U33
    #[test]
    fn a_row_says_what_is_installed_and_what_holds_it() {
        let mut out = Vec::new();
        table(&all(), "2026-03-01T00:00:00Z".parse().unwrap()).write(&mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    // applying.md 1.3
    #[test]
    fn a_sheet_says_all_that_is_to_be_known() {
        let message = "The bundle is installed and available.\ncatalog red was deleted";
        for (status, label, lines) in [("True", "Note ", 1), ("False", "Why ", 2)] {
            let ready = condition("Ready", status, "CatalogGone", message);
            let one = json!({"metadata": {"name": "one"}, "status": {"conditions": [ready]}});
            let text = text_of(&one);
            let mut said = text.lines().skip_while(|line| !line.starts_with(label)).take(lines);
            assert!(said.any(|line| line.ends_with(" catalog red was deleted")), "{text}");
            assert_eq!(text.contains("Why "), lines == 2, "{text}");
        }
    }

    fn text_of(one: &Value) -> String {
        let mut out = Vec::new();
        sheet(&row(&extension(one)), &[], &[]).write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_sheet_says_what_to_do() {
        let mut out = Vec::new();
        let set: ClusterObjectSet = serde_json::from_value(json!({
            "metadata": {"name": "held-1"},
            "spec": {"revision": 1, "lifecycleState": "Active", "collisionProtection": "Prevent"},
            "status": {"conditions": [condition("Succeeded", "True", "Succeeded", "")]},
        }))
        .unwrap();
        let event: Event = serde_json::from_value(json!({"metadata": {}, "involvedObject": {},
            "reason": "UpgradeAvailable", "message": "2.0.0\nis available",
            "eventTime": "2026-01-01T00:00:00.000000Z", "series": {"count": 3}}))
        .unwrap();
        let refused = [PROVIDES, LAST_EVENTS].map(|it| Unknown::new(it, "you may not list them"));
        sheet(&row(&all()[2]), &refused, &[]).write(&mut out).unwrap();
        let mut held = row(&all()[1]);
        held.provides = Some(vec!["Quay.a.io v1".to_owned()]);
        held.causes = vec!["Deployment.apps/v1 ns/quay: pod quay-1: it failed".to_owned()];
        held.events = Some(vec![happened(&event)]);
        sheet(&held, &[], &[set]).write(&mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }
}
