//! The description of a bundle and its requirements, as text and as data.

use olm_api::keys::annotation;
use olm_core::bundle::{Bundle, Csv};
use olm_core::config::{Features, schema};
use olm_core::gate::max_openshift_text;
use olm_core::rbac::{self, Permissions, Powers};
use olm_core::render::api_service_bindings;
use olm_core::revision::is_optional_group;

use crate::output::KeyValues;
use crate::prelude::*;

/// Groups of manifests that every cluster serves.
const BUILT_IN_GROUPS: [&str; 7] = [
    "",
    "apiextensions.k8s.io",
    "apps",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
];

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Description {
    bundle: String,
    package: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    install_modes: Vec<String>,
    watch_namespace: WatchNamespace,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_kube_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_open_shift_version: Option<String>,
    /// By deployment, how many webhooks of each type and kinds of API services it serves; it needs a
    /// certificate for them.
    certificates: BTreeMap<String, BTreeMap<String, usize>>,
    accounts: BTreeMap<String, Rights>,
    /// Powers of the pods beyond the rules of roles, one sentence each.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    powers: BTreeSet<String>,
    /// Constraints as properties in the form of a catalog.
    constraints: Vec<Value>,
    kinds: BTreeSet<RequiredKind>,
}

/// Whether `watchNamespace` can be configured.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
enum WatchNamespace {
    None,
    Optional,
    Required,
}

/// The rights of a service account of the operator.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rights {
    cluster_rules: usize,
    namespaced_rules: usize,
    /// Powerful rights that an administrator should check.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    strong: BTreeSet<&'static str>,
}

/// A kind that the cluster has to serve.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
struct RequiredKind {
    kind: String,
    api_version: String,
    /// Whether its objects may wait until the kind is served.
    optional: bool,
}

impl Description {
    pub(crate) fn of(bundle: &Bundle, constraints: Vec<Value>) -> Self {
        let csv = &bundle.csv;
        let summary = csv.summary.clone();
        let properties = csv.annotations.get(annotation::PROPERTIES);
        Self {
            bundle: csv.name.clone(),
            package: bundle.package.clone(),
            display_name: summary.display_name,
            version: summary.version,
            provider: summary.provider,
            install_modes: csv.supported_modes().iter().map(ToString::to_string).collect(),
            watch_namespace: watch_namespace(csv),
            min_kube_version: summary.min_kube_version,
            max_open_shift_version: properties.and_then(|it| max_openshift_text(it)),
            certificates: certificates(csv),
            accounts: accounts(csv),
            powers: powers(bundle),
            constraints,
            kinds: kinds(bundle),
        }
    }

    /// Writes it for people; all of its text is the author's.
    pub(crate) fn write(&self, sheet: &mut KeyValues) {
        let named = |key: &str, value: &Option<String>| {
            let value = value.as_deref()?;
            Some(format!("{key}{value}"))
        };
        let about =
            [named("", &self.display_name), named("", &self.version), named("by ", &self.provider)];
        let about = about.into_iter().flatten().collect::<Vec<_>>().join(" ");
        sheet.line("Bundle", plain(&self.bundle));
        sheet.lines("", (!about.is_empty()).then(|| plain(&about)));
        sheet.line("Package", plain(&self.package));
        sheet.line("Install modes", or_none(&self.install_modes.join(", ")));
        let watch = match self.watch_namespace {
            WatchNamespace::None => "cannot be set",
            WatchNamespace::Optional => "may be set",
            WatchNamespace::Required => "must be set",
        };
        sheet.line("watchNamespace", watch.to_owned());
        let shown = |text: Option<String>| text.as_deref().map(plain);
        sheet.lines("Kubernetes", shown(named("at least ", &self.min_kube_version)));
        sheet.lines("OpenShift", shown(named("at most ", &self.max_open_shift_version)));
        sheet.lines("Certificates", self.certificates.iter().map(certificate_line));
        let rights = self.accounts.iter().map(rights_line);
        sheet.lines("Rights", rights.chain(self.powers.iter().map(|it| plain(it))));
        let constraint = |one: &Value| {
            plain(&format!("{} {}", one["type"].as_str().unwrap_or_default(), one["value"]))
        };
        sheet.lines("Constraints", self.constraints.iter().map(constraint));
        let kind = |it: &RequiredKind| {
            let optional = if it.optional { ", optional" } else { "" };
            plain(&format!("{} of {}{optional}", it.kind, it.api_version))
        };
        sheet.lines("Kinds", self.kinds.iter().map(kind));
    }
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "none" } else { text }.to_owned()
}

fn certificate_line((deployment, webhooks): (&String, &BTreeMap<String, usize>)) -> String {
    let webhooks = webhooks.iter().map(|(kind, count)| format!("{count} {kind}"));
    let webhooks = webhooks.collect::<Vec<_>>().join(", ");
    plain(&format!("for deployment {deployment}: {webhooks}"))
}

fn rights_line((account, rights): (&String, &Rights)) -> String {
    let mut line = format!(
        "{account}: rules in the cluster: {}, in the watched namespace: {}",
        rights.cluster_rules, rights.namespaced_rules
    );
    for strong in &rights.strong {
        line = line + "; " + strong;
    }
    plain(&line)
}

/// Derives it from the configuration schema.
fn watch_namespace(csv: &Csv) -> WatchNamespace {
    let schema = schema(csv, Features::default());
    if schema["required"].is_array() {
        WatchNamespace::Required
    } else if schema["properties"].get("watchNamespace").is_some() {
        WatchNamespace::Optional
    } else {
        WatchNamespace::None
    }
}

fn certificates(csv: &Csv) -> BTreeMap<String, BTreeMap<String, usize>> {
    let mut served: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    let webhooks = csv.webhooks.iter().map(|it| (&it.deployment_name, it.kind.as_str()));
    let apis = csv.api_services.iter().map(|it| (&it.deployment_name, "APIService"));
    for (deployment, kind) in webhooks.chain(apis) {
        *served.entry(deployment.clone()).or_default().entry(kind.to_owned()).or_default() += 1;
    }
    served
}

fn accounts(csv: &Csv) -> BTreeMap<String, Rights> {
    let mut accounts: BTreeMap<String, Rights> = BTreeMap::new();
    let namespaced = csv.permissions.iter().map(|it| (it, false));
    let everywhere = csv.cluster_permissions.iter().map(|it| (it, true));
    for (permission, everywhere) in namespaced.chain(everywhere) {
        let account = permission.service_account().to_owned();
        let rights = accounts.entry(account).or_default();
        for rule in permission.rules.iter().flatten() {
            if everywhere {
                rights.cluster_rules += 1;
            } else {
                rights.namespaced_rules += 1;
            }
            let mut given = Permissions::default();
            given.insert_rule(
                if everywhere { "" } else { "its own" },
                &rbac::PolicyRule::from_value(&json!(rule)),
            );
            rights.strong.extend(given.strong());
        }
    }
    accounts
}

/// Returns the powers of a bundle's pods beyond the rules of roles.
fn powers(bundle: &Bundle) -> BTreeSet<String> {
    let csv = &bundle.csv;
    let permissions = csv.permissions.iter().chain(&csv.cluster_permissions);
    let accounts = permissions
        .map(|it| json!({"kind": "ServiceAccount", "metadata": {"name": it.service_account()}}));
    let deployments = csv.deployments.iter();
    let deployments = deployments.map(|it| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": it.name},
            "spec": it.spec})
    });
    let made: Vec<Object> = accounts.chain(deployments).filter_map(Object::from_value).collect();
    let bound = api_service_bindings(csv, "");
    Powers::of(bundle.others.iter().chain(&made).chain(&bound)).others()
}

fn kinds(bundle: &Bundle) -> BTreeSet<RequiredKind> {
    let defined = bundle.crds.iter().filter_map(|crd| {
        let text = |pointer| crd.pointer(pointer).and_then(Value::as_str);
        text("/spec/group").zip(text("/spec/names/kind"))
    });
    let own: BTreeSet<(&str, &str)> = defined.collect();
    let foreign = |object: &&Object| {
        !BUILT_IN_GROUPS.contains(&object.group())
            && !own.contains(&(object.group(), object.kind()))
    };
    let required = |object: &Object| RequiredKind {
        kind: object.kind().to_owned(),
        api_version: object.api_version().to_owned(),
        optional: is_optional_group(object.group()),
    };
    bundle.others.iter().filter(foreign).map(required).collect()
}

/// Warns of pods that will not start because their service account is never created.
pub(crate) fn missing_accounts(csv: &Csv, objects: &[Object]) -> Vec<String> {
    let created = objects.iter().filter(|object| object.kind() == "ServiceAccount");
    let created: BTreeSet<&str> = created.map(Object::name).collect();
    let missing = csv.deployments.iter().filter_map(|deployment| {
        let account = deployment.pod()["serviceAccountName"].as_str()?;
        let missing = !matches!(account, "" | "default") && !created.contains(account);
        let (name, account) = (quote(&deployment.name), quote(account));
        missing.then(|| {
            format!(
                "deployment {name} runs as service account {account}, which the bundle does not \
                 create"
            )
        })
    });
    missing.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_author_of_a_bundle_writes_no_line_of_its_description() {
        let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion", "metadata": {"name": "lamp.v1.0.0"},
            "spec": {"displayName": "Lamp\nRights: none\u{202e}", "install": {"strategy": "deployment",
                "spec": {"deployments": [], "clusterPermissions": [{"serviceAccountName": "a\nb",
                    "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}]}}}});
        let annotations = "annotations: {operators.operatorframework.io.bundle.package.v1: lamp}";
        let files = BTreeMap::from([
            ("manifests/csv.yaml".to_owned(), csv.to_string().into_bytes()),
            ("metadata/annotations.yaml".to_owned(), annotations.as_bytes().to_vec()),
        ]);
        let bundle = Bundle::from_files(&files).unwrap();
        let (mut sheet, mut out) = (KeyValues::default(), Vec::new());
        Description::of(&bundle, Vec::new()).write(&mut sheet);
        sheet.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\n                Lamp Rights: none\u{fffd}\n"), "{text}");
        assert!(text.contains("\nRights          a b: rules in the cluster: 1, "), "{text}");
    }
}
