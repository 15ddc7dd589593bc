//! `kubectl olm cluster check`: may the cluster be updated, and what lifts what is in the way?
//!
//! Source: plugin.md 1.4, applying.md 9.

mod apis;
pub(super) mod report;

use olm_core::extension::{Lift, counting};
use olm_core::gate::{
    Bundle, MaxVersion, MinorRelease, closing, current_version, max_declared, strictest,
};
use olm_core::revision::bundle_version;
use olm_core::rights::OPENSHIFT;

use crate::cluster::ClusterState;
use crate::commands::prelude::*;
use crate::output::UsageError;
use apis::RemovedApi;

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

#[derive(Debug, Default)]
struct Findings {
    /// The version of the cluster, and the release it is to go to; nothing where no release is known.
    platform: Option<(String, MinorRelease)>,
    /// Whether the release that runs could not be read.
    is_release_unknown: bool,
    /// Minor version of the Kubernetes 1 that runs.
    current: u64,
    /// Minor version of the Kubernetes 1 that is gone to.
    kubernetes: u64,
    /// The installed extensions, by name.
    extensions: Vec<Extension>,
    /// Uses of API versions that the update removes.
    removed: Vec<RemovedApi>,
    /// Data that could not be read.
    unknown: Vec<Unknown>,
}

/// An extension, and what its bundles support.
#[derive(Debug)]
struct Extension {
    name: String,
    version: String,
    bundle: String,
    /// The text is why that is not known.
    supports: Result<MaxVersion, String>,
    /// The change that releases its hold, if it has one.
    lift: Option<Lift>,
}

impl Findings {
    fn blocking(&self) -> impl Iterator<Item = &Extension> {
        let target = self.platform.as_ref().map(|(_, target)| *target);
        self.extensions.iter().filter(move |one| target.is_some_and(|target| !one.allows(target)))
    }

    /// Returns the release after the one that is gone to, and the extensions that are in its way
    /// even when what is in the way now was lifted.
    fn afterwards(&self) -> Option<(MinorRelease, Vec<&Extension>)> {
        let after = self.platform.as_ref()?.1.next();
        let blocks = |one: &&Extension| match &one.lift {
            Some(Lift::Version { supports, .. }) => !supports.supports(after),
            Some(Lift::Removal | Lift::Unknown(_)) => false,
            None => !one.allows(after),
        };
        Some((after, self.extensions.iter().filter(blocks).collect()))
    }

    fn outcome(&self) -> Outcome {
        let is_blocked = self.blocking().next().is_some() || !self.removed.is_empty();
        Outcome::of(is_blocked, !self.unknown.is_empty())
    }
}

impl Extension {
    /// Returns the relevant data of an extension; nothing if it has no bundle yet.
    fn of(name: &str, revisions: &[ClusterObjectSet]) -> Option<Self> {
        let (bundle, supports) = strictest(counting(name, revisions))?;
        let states = states(revisions);
        let shown = states.installed.or(states.rolling.last().copied())?;
        Some(Self {
            name: name.to_owned(),
            version: bundle_version(shown).to_owned(),
            bundle: bundle.name.to_owned(),
            supports: supports.map_err(|error| Chain(&error).to_string()),
            lift: None,
        })
    }

    fn allows(&self, target: MinorRelease) -> bool {
        let supports = self.supports.as_ref();
        supports.is_ok_and(|supports| supports.supports(target))
    }
}

pub(crate) async fn run(args: ClusterCheckArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let cluster = args.on.connect(global).await?;
    let found = match find(&args, &cluster).await {
        Ok(found) => found,
        Err(error) if error.is::<UsageError>() => return Err(error),
        Err(error) => {
            return Err(Failure { outcome: Outcome::Unknown, ..Failure::of(&error) }.into());
        }
    };
    match args.output {
        format @ (Format::Json | Format::Yaml) => report::document(&found).write(format, out)?,
        _ => report::text(&found, out)?,
    }
    Ok(found.outcome())
}

async fn find(args: &ClusterCheckArgs, cluster: &Cluster) -> anyhow::Result<Findings> {
    let state = cluster.state().await?;
    let kubernetes = state.environment.kube_version.as_ref().context(
        "the version of the API server is unknown, so the next one is too: kubectl version",
    )?;
    let kubernetes = kubernetes.minor;
    let (version, is_openshift, unknown) = match version(cluster).await {
        Ok((version, is_openshift)) => (version, is_openshift, None),
        Err(error) => (told(state), false, Some(unknown_release(&error))),
    };
    let current = version.as_ref().map(|(_, release)| *release);
    let target = match (args.to, current) {
        (Some(to), Some(current)) if to <= current => {
            return usage(format!("the cluster is {current} already: {to} is not an update"));
        }
        (to, current) => to.or(current.map(MinorRelease::next)),
    };
    let mut found = Findings {
        current: kubernetes,
        kubernetes: next_kubernetes(kubernetes, target, is_openshift),
        platform: target.map(|target| {
            let plain = || format!("Kubernetes 1.{kubernetes}");
            (version.map_or_else(plain, |(version, _)| version), target)
        }),
        is_release_unknown: unknown.is_some(),
        unknown: unknown.into_iter().collect(),
        ..Findings::default()
    };
    let mut stored = Vec::new();
    let extensions = cluster.extensions().await.or_else(|error| match error.downcast_ref() {
        Some(kube::Error::Api(status)) if status.code == 404 => {
            notice("note: ClusterExtensions are not served: none is installed");
            Ok(Vec::new())
        }
        _ => Err(error),
    })?;
    for extension in extensions {
        let name = extension.name_any();
        let revisions = cluster.revisions(&name).await?;
        match (Extension::of(&name, &revisions), Bundle::not_taken_over(&extension)) {
            (Some(one), _) => found.extensions.push(one),
            (None, Some(bundle)) => found.unknown.push(not_taken_over(bundle)),
            (None, None) => {}
        }
        stored.extend(revisions);
    }
    lift(cluster, &mut found).await;
    apis::find(cluster, &stored, &mut found).await?;
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
    declared(state).map(|release| (release.to_string(), release))
}

fn declared(state: &ClusterState) -> Option<MinorRelease> {
    let settings = state.controller();
    let inferred = || {
        let version = state.environment.kube_version.as_ref();
        MinorRelease::of_kubernetes(version.filter(|_| settings.infer_platform_version)?)
    };
    settings.platform_version.or_else(inferred)
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

async fn lift(cluster: &Cluster, found: &mut Findings) {
    let Some((_, target)) = found.platform else { return };
    for extension in &mut found.extensions {
        if extension.allows(target) {
            continue;
        }
        let name = &extension.name;
        match cluster.snapshot(name).await {
            Ok(snapshot) => {
                let (question, options) = (&snapshot.question, &snapshot.options);
                let catalogs = snapshot.catalogs();
                let environment = question.environment(&catalogs, options, &snapshot.environment);
                extension.lift = Some(question.lift(&catalogs, &environment, *options, target));
            }
            Err(error) => found.unknown.push(Unknown {
                what: format!("how to release the hold of {name}"),
                why: one_line(&error),
                hint: Some(format!("kubectl olm why {name}")),
            }),
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
    ) -> Findings {
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
        assert_eq!((found.kubernetes, found.outcome()), (32, Outcome::Done));
    }

    // plugin.md 1.4
    #[rstest]
    #[case::without_olm(404, 404, Outcome::Done)]
    #[case::not_allowed(200, 403, Outcome::Unknown)]
    #[tokio::test]
    async fn what_is_not_there_or_not_readable_hides_nothing_else(
        #[case] extensions: u16,
        #[case] release: u16,
        #[case] want: Outcome,
    ) {
        let found = found_on("", move |path| match path {
            _ if path.ends_with("/clusterversions/version") => Err(release),
            _ if path.contains("/olm.operatorframework.io/") && extensions == 200 => {
                Ok(json!({"metadata": {}, "items": []}))
            }
            _ => Err(404),
        })
        .await;
        assert_eq!((found.kubernetes, found.outcome()), (32, want));
        let mut text = Vec::new();
        report::text(&found, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let want = match want {
            Outcome::Done => "Kubernetes 1.31 -> 1.32: this is not OpenShift",
            _ => "Kubernetes 1.31 -> 1.32: which OpenShift release runs is not known",
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
