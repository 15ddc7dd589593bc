//! The settings of a cluster's controller: published by it, read from a file, or else the defaults.
//!
//! Source: plugin.md 5.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use olm_api::keys::name;
use olm_core::settings::{ControllerSettings, KEY};

use crate::managed::failure;
use crate::output::{self, Failure, UsageError, one_line};
use crate::prelude::*;

/// The namespaces on OpenShift: of the process for extensions, and of the one for catalogs.
const OPENSHIFT: [&str; 2] = ["openshift-operator-controller", "openshift-catalogd"];
/// Namespaces the controller is looked for in: those of the manifests.
const NAMESPACES: [&str; 2] = [name::SYSTEM_NAMESPACE, OPENSHIFT[0]];
/// Labels of the Deployment of whoever acts on extensions: ours, and upstream's.
const DEPLOYMENT: &str = "app.kubernetes.io/part-of=olm,app.kubernetes.io/name=operator-controller";
/// An argument that only our Deployments have.
const OURS: &str = "--components";

/// Flags for the settings of the controller.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SettingsFlags {
    /// File with the controller's settings, in the format of key settings.yaml of
    /// its ConfigMap olm-controller-config; by default that ConfigMap
    #[arg(long, value_name = "FILE", help_heading = "Controller")]
    controller_settings: Option<PathBuf>,
    /// Namespace of the controller; by default olmv1-system, else openshift-operator-controller
    #[arg(long, value_name = "NAMESPACE", help_heading = "Controller")]
    system_namespace: Option<String>,
}

/// Where settings may be that are not where they are expected.
const ELSEWHERE: &str = "--controller-settings FILE or --system-namespace NAMESPACE";

/// The settings of a controller, and whether they are known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) controller: ControllerSettings,
    /// The namespace in which it published them.
    pub(crate) namespace: Option<String>,
    /// The assumption about settings that could not be read, a sentence.
    pub(crate) assumed: Option<String>,
    /// Whether the controller of the cluster is upstream's.
    pub(crate) upstream: bool,
}

impl Settings {
    /// Warns on standard error if the answer may differ from the controller's.
    pub(crate) fn say(&self) {
        if let Some(assumed) = &self.assumed {
            output::notice(&format!("note: {assumed}"));
            if !self.upstream {
                let hint = Failure::way_out(assumed).unwrap_or_else(|| ELSEWHERE.to_owned());
                output::notice(&format!("hint: {hint}"));
            }
        }
        if let Some(other) = other_minor(&self.controller.version) {
            output::notice(&format!(
                "note: the controller is {other}, the plugin {}: the output shows what the plugin's \
                 version would do",
                env!("CARGO_PKG_VERSION")
            ));
        }
    }
}

impl SettingsFlags {
    /// Fails if one of the flags is given, which only counts where `counts` holds.
    pub(crate) fn refuse(&self, counts: &str) -> Result<(), UsageError> {
        let flag = match self {
            Self { controller_settings: Some(_), .. } => "--controller-settings",
            Self { system_namespace: Some(_), .. } => "--system-namespace",
            Self { .. } => return Ok(()),
        };
        Err(UsageError(format!("{flag} counts only where {counts}")))
    }

    /// Returns the settings of the file, or those of a controller without flags; fails if a namespace
    /// of a cluster is given.
    pub(crate) fn offline(&self) -> anyhow::Result<ControllerSettings> {
        Self { controller_settings: None, ..self.clone() }.refuse("no --from is given")?;
        Ok(self.file()?.unwrap_or_default())
    }

    /// Returns the settings of the file, else those that the controller of the cluster publishes,
    /// else those of one without flags.
    pub(crate) async fn on_cluster(&self, client: &Client) -> anyhow::Result<Settings> {
        if let Some(controller) = self.file()? {
            return Ok(Settings { controller, ..Settings::default() });
        }
        let error = match self.published(client).await {
            Ok(settings) => return Ok(settings),
            Err(error) => error,
        };
        // Where they may not be read, ours may have published them.
        let refused = error.downcast_ref::<kube::Error>();
        let why = refused
            .map_or_else(|| one_line(&error), |refused| format!("{error}: {}", failure(refused)));
        let upstream = refused.is_none() && upstream_runs(client).await;
        let assumed = if upstream {
            "this cluster runs upstream's controller; the output shows what olm-controller would do"
                .to_owned()
        } else {
            format!(
                "the controller's settings are not known ({why}); assuming those of a \
                 controller without flags"
            )
        };
        Ok(Settings { assumed: Some(assumed), upstream, ..Settings::default() })
    }

    fn file(&self) -> anyhow::Result<Option<ControllerSettings>> {
        let Some(path) = &self.controller_settings else { return Ok(None) };
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {shown}"))?;
        let settings = ControllerSettings::from_yaml(&text);
        settings
            .map(Some)
            .map_err(|error| anyhow::anyhow!("--controller-settings {shown}: {}", Chain(&error)))
    }

    /// Returns the namespaces in which the controller may be.
    pub(crate) fn namespaces(&self) -> Vec<&str> {
        match &self.system_namespace {
            Some(namespace) => vec![namespace.as_str()],
            None => NAMESPACES.to_vec(),
        }
    }

    /// Returns the namespaces of all processes of the controller, for each in which it may be.
    pub(crate) fn installations(&self) -> Vec<Vec<&str>> {
        let whole = |one| if one == OPENSHIFT[0] { OPENSHIFT.to_vec() } else { vec![one] };
        self.namespaces().into_iter().map(whole).collect()
    }

    /// Reads the ConfigMap of the first namespace in which that is possible.
    async fn published(&self, client: &Client) -> anyhow::Result<Settings> {
        let namespaces = self.namespaces();
        let mut failure = None;
        for namespace in &namespaces {
            match published_in(client, namespace).await {
                Ok(Some(settings)) => return Ok(settings),
                Ok(None) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| {
            let namespaces = namespaces.join(" or ");
            anyhow::anyhow!("no ConfigMap {} in namespace {namespaces}", name::CONTROLLER_CONFIG)
        }))
    }
}

/// Reads the ConfigMap of a namespace, if it is there.
async fn published_in(client: &Client, namespace: &str) -> anyhow::Result<Option<Settings>> {
    let place = format!("ConfigMap {namespace}/{}", name::CONTROLLER_CONFIG);
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let found = api.get_opt(name::CONTROLLER_CONFIG).await;
    let Some(found) = found.with_context(|| format!("reading {place}"))? else { return Ok(None) };
    let data = found.data.unwrap_or_default();
    let text = data.get(KEY).with_context(|| format!("{place} has no key {KEY} yet"))?;
    let controller = ControllerSettings::from_yaml(text)
        .map_err(|error| anyhow::anyhow!("{place}: {}", Chain(&error)))?;
    let namespace = Some(namespace.to_owned());
    Ok(Some(Settings { controller, namespace, ..Settings::default() }))
}

/// Returns whether the controller of the cluster is upstream's, if none of ours has published its
/// settings: its Deployment has the same labels, but not an argument that ours always have. Returns
/// false if the user may not list Deployments.
async fn upstream_runs(client: &Client) -> bool {
    let params = ListParams::default().labels(DEPLOYMENT);
    let listed = Api::<Deployment>::all(client.clone()).list(&params).await;
    let found = listed.map(|listed| listed.items).unwrap_or_default();
    !found.is_empty() && !found.iter().any(is_ours)
}

fn is_ours(deployment: &Deployment) -> bool {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let containers = pod.into_iter().flat_map(|pod| &pod.containers);
    containers.flat_map(|it| it.args.iter().flatten()).any(|arg| arg.starts_with(OURS))
}

/// Returns the version of a controller whose major or minor number is not that of the plugin.
fn other_minor(version: &str) -> Option<&str> {
    let own = env!("CARGO_PKG_VERSION").split('.').take(2);
    let differs = !version.is_empty() && own.ne(version.split('.').take(2));
    differs.then_some(version)
}
