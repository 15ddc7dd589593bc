//! `kubectl olm cluster check`: may the cluster be updated, and what lifts what is in the way?
//!
//! Source: plugin.md 1.4, applying.md 9.

mod apis;
pub(super) mod report;

use olm_core::extension::{Lift, counting};
use olm_core::gate::{Bundle, MinorRelease, closing, current_version, max_declared, strictest};
use olm_core::revision::bundle_version;
use olm_core::rights::OPENSHIFT;

use crate::cluster::ClusterState;
use crate::commands::prelude::*;
use crate::output::UsageError;
use report::Verdict;

/// Flags of `cluster check`.
#[derive(Debug, Args)]
pub(crate) struct ClusterCheckArgs {
    /// The OpenShift release to go to, for example 4.20; by default the next one
    #[arg(value_name = "RELEASE")]
    to: Option<MinorRelease>,
    #[command(flatten)]
    on: OnCluster,
    /// Output format
    #[arg(short, long, value_parser = formats(&[]), default_value_t)]
    output: Format,
}

pub(crate) async fn run(args: ClusterCheckArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let cluster = args.on.connect(global).await?;
    let verdict = match find(&args, &cluster).await {
        Ok(verdict) => verdict,
        Err(error) if error.is::<UsageError>() => return Err(error),
        Err(error) => {
            return Err(Failure { outcome: Outcome::Unknown, ..Failure::of(&error) }.into());
        }
    };
    match args.output {
        format @ (Format::Json | Format::Yaml) => verdict.write(format, out)?,
        _ => report::text(&verdict, out)?,
    }
    Ok(Outcome::of(!verdict.upgradeable, !verdict.unknown.is_empty()))
}

async fn find(args: &ClusterCheckArgs, cluster: &Cluster) -> anyhow::Result<Verdict> {
    let state = cluster.state().await?;
    let kubernetes = state.environment.kube_version.as_ref().context(
        "the version of the API server is unknown, so the next one is too: kubectl version",
    )?;
    let current = kubernetes.minor;
    let (version, is_openshift, unknown) = match version(cluster).await {
        Ok((version, is_openshift)) => (version, is_openshift, None),
        Err(error) => (told(state), false, Some(unknown_release(&error))),
    };
    let (version, release) = version.unzip();
    let target = match (args.to, release) {
        (Some(to), Some(release)) if to <= release => {
            return usage(format!("the cluster is {release} already: {to} is not an update"));
        }
        (to, release) => to.or(release.map(MinorRelease::next)),
    };
    let kubernetes = next_kubernetes(current, target, is_openshift);
    let plain = || format!("Kubernetes 1.{current}");
    let mut found = Verdict {
        cluster: target.map(|_| version.unwrap_or_else(plain)),
        target: target.map(|target| target.to_string()),
        kubernetes: format!("1.{kubernetes}"),
        current: format!("1.{current}"),
        after: target.map(report::After::of),
        is_release_unknown: unknown.is_some(),
        unknown: unknown.into_iter().collect(),
        ..Verdict::default()
    };
    let extensions = cluster.extensions().await.or_else(|error| match error.downcast_ref() {
        Some(kube::Error::Api(status)) if status.code == 404 => {
            notice("note: ClusterExtensions are not served: none is installed");
            Ok(Vec::new())
        }
        _ => Err(error),
    })?;
    let mut stored = Vec::new();
    for extension in extensions {
        let name = extension.name_any();
        let revisions = cluster.revisions(&name).await?;
        if let Some((bundle, supports)) = strictest(counting(&name, &revisions)) {
            let supports = supports.map_err(|error| Chain(&error).to_string());
            let lift = match target.filter(|target| !report::allows(&supports, *target)) {
                Some(target) => lift(cluster, &name, target, &mut found.unknown).await,
                None => None,
            };
            let states = states(&revisions);
            let shown = states.installed.or(states.rolling.last().copied());
            let version = shown.map(bundle_version).unwrap_or_default();
            found.add((&name, version, bundle.name), supports, (target, lift));
        } else if let Some(bundle) = Bundle::not_taken_over(&extension) {
            found.unknown.push(not_taken_over(bundle));
        }
        stored.extend(revisions);
    }
    found.removed_apis = apis::find(cluster, &stored, kubernetes, &mut found.unknown).await?;
    found.upgradeable =
        found.removed_apis.is_empty() && found.extensions.iter().all(|one| !one.in_the_way);
    Ok(found)
}

/// Returns the minor version of Kubernetes that is gone to. A release that the controller is told may
/// be older than what runs: what the present Kubernetes lacks counts all the same.
fn next_kubernetes(current: u64, target: Option<MinorRelease>, is_openshift: bool) -> u64 {
    match target.map(MinorRelease::kubernetes_minor) {
        Some(minor) if is_openshift => minor,
        Some(minor) => minor.max(current + 1),
        None => current + 1,
    }
}

/// Returns the release of the platform, if it has one; that it is not known is only said.
pub(crate) async fn platform(cluster: &Cluster) -> Option<MinorRelease> {
    let current = version(cluster).await.map(|(version, _)| version);
    let current = current.unwrap_or_else(|error| {
        notice(&format!("note: the version of the platform is not known: {}", one_line(&error)));
        None
    });
    current.map(|(_, release)| release)
}

/// Warns if the bundle that a snapshot leads to will hold the next update of this platform,
/// according to its catalog.
pub(crate) fn warn_of_closing(platform: Option<MinorRelease>, snapshot: &ExtensionSnapshot) {
    let Some(current) = platform else { return };
    let catalogs = snapshot.catalogs();
    let Ok(selected) = snapshot.resolve(&catalogs).result else { return };
    let properties = selected.bundle.properties.iter();
    let max = max_declared(properties.map(|it| (it.kind.as_str(), it.value.as_str())));
    if let Some(warning) = closing(current, &selected.bundle.name, max) {
        notice(&format!("warning: {warning}"));
    }
}

/// Returns the version of the platform and its release, if it has one, and whether it is OpenShift.
async fn version(cluster: &Cluster) -> anyhow::Result<(Option<(String, MinorRelease)>, bool)> {
    let kind = GroupVersionKind::gvk(OPENSHIFT, "v1", "ClusterVersion");
    let client = cluster.own_client().clone();
    let versions = Api::<DynamicObject>::all_with(client, &ApiResource::from_gvk(&kind));
    let found = match versions.get_opt("version").await {
        // The kind is not served.
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        found => found.context("reading the ClusterVersion")?,
    };
    if let Some(found) = found {
        return Ok((Some(version_in(&found.data)?), true));
    }
    Ok((told(cluster.state().await?), false))
}

/// Returns the version that `ClusterVersion` names.
fn version_in(found: &Value) -> anyhow::Result<(String, MinorRelease)> {
    let version = current_version(None, Some(found)).context(
        "ClusterVersion version names no version in status.history and status.desired: \
         kubectl get clusterversion version -o yaml",
    )?;
    let unreadable = |_| anyhow::anyhow!("the version of the cluster cannot be read: {version:?}");
    Ok((version.to_owned(), version.parse().map_err(unreadable)?))
}

/// Returns the release of the platform that the controller is told, as the version that runs.
fn told(state: &ClusterState) -> Option<(String, MinorRelease)> {
    let settings = state.controller();
    let inferred = || {
        let version = state.environment.kube_version.as_ref();
        MinorRelease::of_kubernetes(version.filter(|_| settings.infer_platform_version)?)
    };
    let release = settings.platform_version.or_else(inferred)?;
    Some((release.to_string(), release))
}

fn unknown_release(error: &anyhow::Error) -> Unknown {
    let why = one_line(error);
    let look = || Some("kubectl get clusterversion version -o yaml".to_owned());
    let hint = Failure::way_out(&why).or_else(look);
    Unknown { what: "the OpenShift release that runs".to_owned(), why, hint }
}

/// Names what is not known of a bundle without revision.
fn not_taken_over(bundle: Bundle<'_>) -> Unknown {
    Unknown {
        what: format!(
            "what bundle {} of extension {} uses and supports",
            bundle.name, bundle.extension
        ),
        why: bundle.max().err().map(|why| why.to_string()).unwrap_or_default(),
        hint: Some(format!("kubectl olm status {}", bundle.extension)),
    }
}

/// Returns the change that releases the hold of an extension.
async fn lift(
    cluster: &Cluster,
    name: &str,
    target: MinorRelease,
    unknown: &mut Vec<Unknown>,
) -> Option<Lift> {
    match cluster.snapshot(name).await {
        Ok(snapshot) => {
            let (question, options) = (&snapshot.question, &snapshot.options);
            let catalogs = snapshot.catalogs();
            let environment = question.environment(&catalogs, options, &snapshot.environment);
            Some(question.lift(&catalogs, &environment, *options, target))
        }
        Err(error) => {
            unknown.push(Unknown {
                what: format!("how to release the hold of {name}"),
                why: one_line(&error),
                hint: Some(format!("kubectl olm why {name}")),
            });
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::cluster::CatalogAccess;
    use crate::fixture::{client, flags};

    /// Finds on a cluster of Kubernetes 1.31 that answers everything else like this.
    async fn found_on(
        args: &str,
        answer: impl Fn(&str) -> Result<Value, u16> + Clone + Send + 'static,
    ) -> Verdict {
        let client = client(move |_, path, _| match path {
            "/version" => Ok(json!({"major": "1", "minor": "31", "gitVersion": "v1.31.0",
                "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": "",
                "compiler": "", "platform": ""})),
            "/api" | "/apis" => Ok(json!({"kind": "APIGroupDiscoveryList",
                "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": []})),
            _ => answer(path),
        });
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let (access, settings) = (CatalogAccess::default(), SettingsFlags::default());
        let cluster = Cluster::over(client, &access, &settings).unwrap();
        find(&flags(args), &cluster).await.unwrap()
    }

    #[tokio::test]
    async fn where_catalogs_may_not_be_listed_the_rest_is_checked() {
        let found = found_on("4.19", |path| match path {
            _ if path.ends_with("/clustercatalogs") => Err(403),
            _ if path.contains("/olm.operatorframework.io/") => {
                Ok(json!({"metadata": {}, "items": []}))
            }
            _ => Err(404),
        })
        .await;
        assert_eq!(found.kubernetes, "1.32");
        assert!(found.upgradeable && found.unknown.is_empty());
    }

    // plugin.md 1.4
    #[rstest]
    #[case::without_olm(404, 404, true)]
    #[case::not_allowed(200, 403, false)]
    #[tokio::test]
    async fn what_is_not_there_or_not_readable_hides_nothing_else(
        #[case] extensions: u16,
        #[case] release: u16,
        #[case] is_known: bool,
    ) {
        let found = found_on("", move |path| match path {
            _ if path.ends_with("/clusterversions/version") => Err(release),
            _ if path.contains("/olm.operatorframework.io/") && extensions == 200 => {
                Ok(json!({"metadata": {}, "items": []}))
            }
            _ => Err(404),
        })
        .await;
        assert_eq!((found.upgradeable, found.unknown.is_empty()), (true, is_known));
        let mut text = Vec::new();
        report::text(&found, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let want = if is_known {
            "Kubernetes 1.31 -> 1.32: this is not OpenShift"
        } else {
            "Kubernetes 1.31 -> 1.32: which OpenShift release runs is not known"
        };
        assert!(text.starts_with(want), "{text}");
    }

    // plugin.md U57
    #[test]
    fn a_told_release_that_is_older_than_what_runs_hides_no_removed_version() {
        assert_eq!(next_kubernetes(36, "4.11".parse().ok(), false), 37);
        assert_eq!(next_kubernetes(31, "4.20".parse().ok(), false), 33);
        assert_eq!(next_kubernetes(31, "4.19".parse().ok(), true), 32);
        assert_eq!(next_kubernetes(36, None, false), 37);
    }

    // plugin.md U57
    #[test]
    fn a_cluster_version_without_a_version_is_not_taken_for_plain_kubernetes() {
        let said = version_in(&json!({"status": {"history": []}})).unwrap_err().to_string();
        assert!(said.starts_with("ClusterVersion version names no version"), "{said}");
        let desired = json!({"status": {"desired": {"version": "4.19.3"}}});
        assert_eq!(version_in(&desired).unwrap().0, "4.19.3");
    }
}
