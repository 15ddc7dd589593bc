//! The checks: what the answers mean, and the way out.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;
use olm_api::conditions::types;
use olm_api::keys::{label, name};
use olm_api::{AvailabilityMode, ClusterCatalog, ClusterExtension, ClusterObjectSet};
use olm_core::extension::holds::advice;
use olm_core::guard::{Policy, in_force};
use olm_core::settings::{ControllerSettings, KEY};
use olm_core::status::{find, is_true};
use serde_json::Value;

use super::facts::{self, Facts, Refusal};
use super::{Level, Row};

/// Clocks further apart make leases and certificates fail.
const SKEW: SignedDuration = SignedDuration::from_secs(30);
/// The policies that every installation has; the fourth comes with the default account.
const POLICIES: [Policy; 3] = [Policy::Extension, Policy::ObjectSet, Policy::Approve];
const INSTALL: &str = "kubectl apply --server-side -f install.yaml";

/// A check of one subject; `Err` if what it needs is not known.
type Check = fn(&Facts) -> Result<Vec<Row>, Refusal>;

/// Every check, in the order in which a fault of one explains those of the next.
const CHECKS: [(&str, Check); 10] = [
    ("api", api),
    ("kinds", kinds),
    ("controller", controller),
    (facts::RIGHTS, controller_rights),
    ("settings", settings),
    ("leases", leases),
    ("policies", policies),
    ("catalogs", catalogs),
    ("extensions", extensions),
    ("leftovers", leftovers),
];

/// Runs every check.
pub(super) fn all(facts: &Facts) -> Vec<Row> {
    some(facts, &CHECKS.map(|(subject, _)| subject))
}

/// Runs the checks of some subjects.
pub(super) fn some(facts: &Facts, subjects: &[&str]) -> Vec<Row> {
    CHECKS
        .into_iter()
        .filter(|(subject, _)| subjects.contains(subject))
        .flat_map(|(subject, check)| match check(facts) {
            Ok(rows) => rows,
            Err(refusal) => vec![not_known(subject, &refusal)],
        })
        .collect()
}

pub(super) fn not_known(subject: &'static str, refusal: &Refusal) -> Row {
    match refusal {
        Refusal::Absent => Row::new(Level::Unknown, subject, "the kind is not served"),
        Refusal::Failed(why) => Row::new(Level::Unknown, subject, why)
            .hint("have ClusterRoles operator-controller-clusterextension-viewer-role and view bound to you"),
    }
}

/// Returns the findings, or one row that says all is well.
fn or_ok(rows: Vec<Row>, subject: &'static str, well: String) -> Vec<Row> {
    if rows.is_empty() { vec![Row::new(Level::Ok, subject, well)] } else { rows }
}

fn api(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    const SUBJECT: &str = "api";
    let version = facts.one(facts::VERSION)?["gitVersion"].as_str();
    let text = format!("Kubernetes {}", version.unwrap_or("of an unknown version"));
    let mut rows = vec![Row::new(Level::Ok, SUBJECT, text)];
    let skew = facts.server_time.map(|server| facts.now.duration_since(server).abs());
    if let Some(skew) = skew.filter(|skew| *skew > SKEW) {
        let text = format!("the clocks of this machine and of the API server differ by {skew:#}");
        let hint = "set the clock; with wrong ones leases and certificates fail";
        rows.push(Row::new(Level::Warning, SUBJECT, text).hint(hint));
    }
    Ok(rows)
}

fn kinds(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    kinds_of(facts, &[facts::CATALOGS, facts::EXTENSIONS, facts::REVISIONS])
}

/// Says whether the kinds that are named are served as they have to be.
pub(super) fn kinds_of(facts: &Facts, wanted: &[&str]) -> Result<Vec<Row>, Refusal> {
    const SUBJECT: &str = "kinds";
    let mut rows = Vec::new();
    for kind in wanted {
        let crd = match facts.one(&facts::crd(kind)) {
            Ok(crd) => crd,
            Err(Refusal::Absent) => {
                let text = format!("CRD {} does not exist", facts::crd(kind));
                rows.push(Row::new(Level::Problem, SUBJECT, text).hint(INSTALL));
                continue;
            }
            Err(refusal) => return Err(refusal),
        };
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let served = list(&crd["spec"]["versions"])
            .iter()
            .any(|version| version["name"] == "v1" && version["served"] == true);
        let established = list(&crd["status"]["conditions"])
            .iter()
            .any(|it| it["type"] == "Established" && it["status"] == "True");
        if !served || !established {
            let text = format!("CRD {} does not serve v1", facts::crd(kind));
            rows.push(Row::new(Level::Problem, SUBJECT, text).hint(INSTALL));
        }
        let stored = list(&crd["status"]["storedVersions"]);
        let others: Vec<_> =
            stored.iter().filter_map(Value::as_str).filter(|it| *it != "v1").collect();
        if !others.is_empty() {
            let text = format!("CRD {} still stores {}", facts::crd(kind), others.join(", "));
            rows.push(Row::new(Level::Warning, SUBJECT, text));
        }
    }
    Ok(or_ok(rows, SUBJECT, format!("{} serve v1", wanted.join(", "))))
}

fn controller(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    const SUBJECT: &str = "controller";
    let deployments: Vec<Deployment> = facts.items(facts::DEPLOYMENTS)?;
    if deployments.is_empty() {
        let text = "no Deployment has label app.kubernetes.io/part-of=olm";
        return Ok(vec![Row::new(Level::Warning, SUBJECT, text).hint(INSTALL)]);
    }
    let mut rows = Vec::new();
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for deployment in &deployments {
        let (namespace, name) = (deployment.namespace().unwrap_or_default(), deployment.name_any());
        let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let status = deployment.status.as_ref();
        let ready = status.and_then(|status| status.ready_replicas).unwrap_or(0);
        let text = format!("{namespace}/{name}: {ready} of {wanted} replicas are ready");
        let level = match ready {
            _ if ready >= wanted && ready > 0 => Level::Ok,
            0 => Level::Problem,
            _ => Level::Warning,
        };
        let mut row = Row::new(level, SUBJECT, text);
        if level != Level::Ok {
            row = row.hint(format!("kubectl describe pods --namespace {namespace}"));
        }
        rows.push(row);
        names.entry(name).or_default().push(namespace);
    }
    for (name, namespaces) in names.iter().filter(|(_, namespaces)| namespaces.len() > 1) {
        let text = format!("Deployment {name} is in namespaces {}", namespaces.join(", "));
        let hint = "one of them should go, or both act on the same objects";
        rows.push(Row::new(Level::Problem, SUBJECT, text).hint(hint));
    }
    Ok(rows)
}

fn controller_rights(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    let accounts = facts.items::<Value>(facts::RIGHTS)?;
    let rows = accounts.iter().map(|asked| {
        let account = asked["account"].as_str().unwrap_or_default();
        let missing = asked["missing"].as_array().into_iter().flatten();
        let missing: Vec<_> = missing.filter_map(Value::as_str).collect();
        if missing.is_empty() {
            let text = format!("service account {account} has every right it needs");
            return Row::new(Level::Ok, facts::RIGHTS, text);
        }
        let text = format!("service account {account} lacks {}", missing.join("; "));
        Row::new(Level::Problem, facts::RIGHTS, text).hint(INSTALL)
    });
    Ok(rows.collect())
}

fn settings(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    const SUBJECT: &str = "settings";
    let mut rows = Vec::new();
    for published in facts.items::<Value>(facts::CONFIG)? {
        let namespace = published["metadata"]["namespace"].as_str().unwrap_or_default();
        let text = published["data"][KEY].as_str().unwrap_or_default();
        let Ok(settings) = ControllerSettings::from_yaml(text) else {
            let text = format!("ConfigMap {namespace}/{} cannot be read", name::CONTROLLER_CONFIG);
            let hint = format!(
                "use the plugin of the controller's version; this is {}",
                env!("CARGO_PKG_VERSION")
            );
            rows.push(Row::new(Level::Warning, SUBJECT, text).hint(hint));
            continue;
        };
        let (theirs, ours) = (settings.version.as_str(), env!("CARGO_PKG_VERSION"));
        if theirs == ours {
            rows.push(Row::new(Level::Ok, SUBJECT, format!("{namespace}: controller {theirs}")));
        } else {
            let text = format!(
                "{namespace}: controller {theirs}, the plugin is {ours}: answers are those of {ours}"
            );
            rows.push(Row::new(Level::Warning, SUBJECT, text).hint("use the same version"));
        }
    }
    if rows.is_empty() {
        let text = format!(
            "no ConfigMap {}: the plugin assumes a controller without flags",
            name::CONTROLLER_CONFIG
        );
        rows.push(Row::new(Level::Warning, SUBJECT, text));
    }
    Ok(rows)
}

fn leases(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    const SUBJECT: &str = "leases";
    let now = facts.server_time.unwrap_or(facts.now);
    let mut rows = Vec::new();
    for lease in facts::LEASES {
        let found: Vec<Lease> = facts.items(lease)?;
        if found.is_empty() {
            let text = format!("{lease}: nobody has led yet");
            rows.push(Row::new(Level::Warning, SUBJECT, text));
        }
        for held in found {
            let spec = held.spec.unwrap_or_default();
            let holder = spec.holder_identity.unwrap_or_default();
            let seconds = i64::from(spec.lease_duration_seconds.unwrap_or_default());
            let renewed = spec.renew_time.map(|time| time.0);
            let ends = renewed.map(|renewed| renewed + SignedDuration::from_secs(seconds));
            let place = held.metadata.namespace.unwrap_or_default();
            let row = match ends {
                Some(ends) if !holder.is_empty() && ends > now => {
                    Row::new(Level::Ok, SUBJECT, format!("{lease}: {holder} leads in {place}"))
                }
                _ => {
                    let since = renewed.unwrap_or(Timestamp::UNIX_EPOCH);
                    let text = format!("{lease}: nobody leads in {place} since {since:.0}");
                    let hint = "see the controller's pods and their logs";
                    Row::new(Level::Problem, SUBJECT, text).hint(hint)
                }
            };
            rows.push(row);
        }
    }
    Ok(rows)
}

fn policies(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    const SUBJECT: &str = "policies";
    let found: Vec<ValidatingAdmissionPolicy> = facts.items(facts::POLICIES)?;
    let bindings: Vec<ValidatingAdmissionPolicyBinding> = facts.items(facts::BINDINGS)?;
    let rows = POLICIES
        .into_iter()
        .filter(|policy| {
            let object = found.iter().find(|it| it.name_any() == policy.name());
            !object.is_some_and(|object| in_force(object, &bindings))
        })
        .map(|policy| {
            let text = format!("admission policy {} is not in force", policy.name());
            Row::new(Level::Problem, SUBJECT, text).hint(policy.without_it())
        });
    let well = "the policies on service accounts and approvals are in force";
    Ok(or_ok(rows.collect(), SUBJECT, well.to_owned()))
}

fn catalogs(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    const SUBJECT: &str = "catalogs";
    let catalogs: Vec<ClusterCatalog> = facts.items(facts::CATALOGS)?;
    let mut rows = Vec::new();
    for catalog in &catalogs {
        if catalog.spec.availability() != AvailabilityMode::Available {
            continue;
        }
        let name = catalog.name_any();
        let conditions = catalog.status.as_ref().map(|status| status.conditions.as_slice());
        let conditions = conditions.unwrap_or_default();
        let progressing = find(conditions, types::PROGRESSING);
        let message = progressing.map_or("it has no status yet", |it| it.message.as_str());
        let failing =
            progressing.is_some_and(|it| it.reason == "Retrying" || it.reason == "Blocked");
        if !is_true(conditions, types::SERVING) {
            rows.push(Row::new(
                Level::Problem,
                SUBJECT,
                format!("{name} is not served: {message}"),
            ));
        } else if failing {
            rows.push(Row::new(
                Level::Warning,
                SUBJECT,
                format!("{name} is not updated: {message}"),
            ));
        }
        let silent = facts.answers.get(facts::SERVERS).and_then(|it| it.as_ref().ok());
        if let Some(why) = silent.and_then(|silent| silent[&name].as_str()) {
            let text = format!("the server of {name} does not answer: {why}");
            let hint = "kubectl get pods --all-namespaces -l app.kubernetes.io/part-of=olm";
            rows.push(Row::new(Level::Problem, SUBJECT, text).hint(hint));
        }
    }
    Ok(or_ok(rows, SUBJECT, format!("served: {}", catalogs.len())))
}

fn extensions(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    const SUBJECT: &str = "extensions";
    let extensions: Vec<ClusterExtension> = facts.items(facts::EXTENSIONS)?;
    let mut rows = Vec::new();
    for extension in &extensions {
        let name = extension.name_any();
        let conditions = extension.status.as_ref().map(|status| status.conditions.as_slice());
        let conditions = conditions.unwrap_or_default();
        if extension.metadata.deletion_timestamp.is_some() {
            let why = find(conditions, types::PROGRESSING).map(|it| it.message.as_str());
            let text = format!("{name} is being deleted: {}", why.unwrap_or_default());
            let hint = advice(extension).join(", ");
            rows.push(Row::new(Level::Warning, SUBJECT, text).hint(hint));
            continue;
        }
        match find(conditions, types::READY) {
            Some(ready) if ready.status == "True" => {}
            Some(ready) => {
                let text = format!("{name} is not ready: {}: {}", ready.reason, ready.message);
                let hint = advice(extension).join(", ");
                rows.push(Row::new(Level::Problem, SUBJECT, text).hint(hint));
            }
            None => {
                let text = format!(
                    "{name} has no condition {}: no controller of this kind acts on it",
                    types::READY
                );
                rows.push(Row::new(Level::Warning, SUBJECT, text));
            }
        }
    }
    Ok(or_ok(rows, SUBJECT, format!("ready: {}", extensions.len())))
}

fn leftovers(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    const SUBJECT: &str = "leftovers";
    let extensions: Vec<ClusterExtension> = facts.items(facts::EXTENSIONS)?;
    let names: BTreeSet<_> = extensions.iter().map(ClusterExtension::name_any).collect();
    let revisions: Vec<ClusterObjectSet> = facts.items(facts::REVISIONS)?;
    let mut rows = Vec::new();
    for revision in &revisions {
        let owner = revision.labels().get(label::OWNER_NAME);
        if let Some(owner) = owner.filter(|owner| !names.contains(*owner)) {
            let text = format!(
                "ClusterObjectSet {} is of extension {owner}, which does not exist",
                revision.name_any()
            );
            let hint =
                "create the extension again to take it over, or delete it with what it installed";
            rows.push(Row::new(Level::Warning, SUBJECT, text).hint(hint));
        }
    }
    match facts.items::<Value>(facts::OLDER_REVISIONS) {
        Ok(older) if !older.is_empty() => {
            let text =
                format!("{} ClusterExtensionRevisions of an older upstream exist", older.len());
            rows.push(Row::new(Level::Warning, SUBJECT, text));
        }
        Ok(_) | Err(Refusal::Absent) => {}
        Err(refusal) => return Err(refusal),
    }
    Ok(or_ok(rows, SUBJECT, "none".to_owned()))
}
