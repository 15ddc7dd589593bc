//! The checks: what the answers mean, and the way out.

use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use olm_api::keys::{label, name};
use olm_core::extension::holds::advice;
use olm_core::guard::{Policy, in_force};
use olm_core::object::items;
use olm_core::settings::{ControllerSettings, KEY, REINSTALL};

use super::facts::{self, Facts, Refusal};
use super::{Row, about};
use crate::commands::prelude::*;

/// Clocks further apart make leases and certificates fail.
const SKEW: SignedDuration = SignedDuration::from_secs(30);
/// Of what was created less long ago, a controller need not have said anything yet.
const NEW: SignedDuration = SignedDuration::from_mins(1);
/// The policies that every installation has; the fourth comes with the default account.
const POLICIES: [Policy; 3] = [Policy::Extension, Policy::ObjectSet, Policy::Approve];

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

pub(super) fn all(facts: &Facts) -> Vec<Row> {
    some(facts, &CHECKS.map(|(subject, _)| subject))
}

pub(super) fn some(facts: &Facts, subjects: &[&str]) -> Vec<Row> {
    let wanted = CHECKS.into_iter().filter(|(subject, _)| subjects.contains(subject));
    wanted.flat_map(|(subject, check)| about(subject, or_not_known(check(facts)))).collect()
}

/// Returns the findings, or one that says that they are not known.
pub(super) fn or_not_known(found: Result<Vec<Row>, Refusal>) -> Vec<Row> {
    found.unwrap_or_else(|refusal| vec![not_known(refusal)])
}

pub(super) fn not_known(refusal: Refusal) -> Row {
    match refusal {
        Refusal::Absent => Row::unknown("the kind is not served", ""),
        Refusal::Failed(why) => {
            let hint = Failure::way_out(&why).unwrap_or_default();
            Row::unknown(why, hint)
        }
    }
}

/// Returns the findings, or one that says all is well.
fn or_ok(found: Vec<Row>, well: impl Into<String>) -> Vec<Row> {
    if found.is_empty() { vec![Row::ok(well)] } else { found }
}

fn api(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    let version = facts.one(facts::VERSION)?["gitVersion"].as_str();
    let text = format!("Kubernetes {}", version.unwrap_or("of an unknown version"));
    let mut rows = vec![Row::ok(text)];
    let skew = facts.server_time.map(|server| facts.now.duration_since(server).abs());
    if let Some(skew) = skew.filter(|skew| *skew > SKEW) {
        let text = format!("the clocks of this machine and of the API server differ by {skew:#}");
        let hint = "set the clock: leases and certificates fail if clocks differ";
        rows.push(Row::warning(text, hint));
    }
    Ok(rows)
}

fn kinds(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    kinds_of(facts, &[facts::CATALOGS, facts::EXTENSIONS, facts::REVISIONS])
}

/// Checks whether the given kinds are served as required.
pub(super) fn kinds_of(facts: &Facts, wanted: &[&str]) -> Result<Vec<Row>, Refusal> {
    let mut rows = Vec::new();
    for kind in wanted {
        let crd = match facts.one(&facts::crd(kind)) {
            Ok(crd) => crd,
            Err(Refusal::Absent) => {
                let text = format!("CRD {} does not exist", facts::crd(kind));
                rows.push(Row::problem(text, REINSTALL));
                continue;
            }
            Err(refusal) => return Err(refusal),
        };
        let served = items(&crd["spec"]["versions"])
            .any(|version| version["name"] == "v1" && version["served"] == true);
        let established = items(&crd["status"]["conditions"])
            .any(|it| it["type"] == "Established" && it["status"] == "True");
        if !served || !established {
            rows.push(Row::problem(
                format!("CRD {} does not serve v1", facts::crd(kind)),
                REINSTALL,
            ));
        }
        let stored = items(&crd["status"]["storedVersions"]).filter_map(Value::as_str);
        let others: Vec<_> = stored.filter(|it| *it != "v1").collect();
        if !others.is_empty() {
            let text = format!("CRD {} still stores {}", facts::crd(kind), others.join(", "));
            rows.push(Row::warning(text, ""));
        }
    }
    Ok(or_ok(rows, format!("{} serve v1", wanted.join(", "))))
}

fn controller(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    let deployments: Vec<Deployment> = facts.items(facts::DEPLOYMENTS)?;
    if deployments.is_empty() {
        let text = "no Deployment has label app.kubernetes.io/part-of=olm";
        return Ok(vec![Row::warning(text, REINSTALL)]);
    }
    let mut rows = Vec::new();
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for deployment in &deployments {
        let (namespace, name) = (deployment.namespace().unwrap_or_default(), deployment.name_any());
        let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let status = deployment.status.as_ref();
        let ready = status.and_then(|status| status.ready_replicas).unwrap_or(0);
        let text = format!("{namespace}/{name}: {ready} of {wanted} replicas are ready");
        let hint = format!("kubectl describe pods --namespace {namespace}");
        rows.push(match ready {
            _ if ready >= wanted && ready > 0 => Row::ok(text),
            0 => Row::problem(text, hint),
            _ => Row::warning(text, hint),
        });
        names.entry(name).or_default().push(namespace);
    }
    for (name, namespaces) in names.iter().filter(|(_, namespaces)| namespaces.len() > 1) {
        let text = format!("Deployment {name} is in namespaces {}", namespaces.join(", "));
        rows.push(Row::problem(text, "delete one of them: both act on the same objects"));
    }
    Ok(rows)
}

fn controller_rights(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    let accounts = facts.items::<Value>(facts::RIGHTS)?;
    let rows = accounts.iter().map(|asked| {
        let account = asked["account"].as_str().unwrap_or_default();
        let missing: Vec<_> = items(&asked["missing"]).filter_map(Value::as_str).collect();
        if missing.is_empty() {
            return Row::ok(format!("service account {account} has every right it needs"));
        }
        Row::problem(format!("service account {account} lacks {}", missing.join("; ")), REINSTALL)
    });
    Ok(rows.collect())
}

fn settings(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    let mut rows = Vec::new();
    for published in facts.of_controllers::<ConfigMap>(facts.items(facts::CONFIG)?) {
        let namespace = published.namespace().unwrap_or_default();
        let text = published.data.as_ref().and_then(|data| data.get(KEY));
        let text = text.map_or("", String::as_str);
        let Ok(settings) = ControllerSettings::from_yaml(text) else {
            let text = format!("ConfigMap {namespace}/{} cannot be read", name::CONTROLLER_CONFIG);
            let hint = format!(
                "use the plugin of the controller's version; this is {}",
                env!("CARGO_PKG_VERSION")
            );
            rows.push(Row::warning(text, hint));
            continue;
        };
        let (theirs, ours) = (settings.version.as_str(), env!("CARGO_PKG_VERSION"));
        if theirs == ours {
            rows.push(Row::ok(format!("{namespace}: controller {theirs}")));
        } else {
            let text = format!(
                "{namespace}: controller {theirs}, the plugin is {ours}: the plugin decides as {ours}"
            );
            rows.push(Row::warning(text, "use the same version"));
        }
    }
    if rows.is_empty() {
        let text = format!(
            "no ConfigMap {}: the plugin assumes a controller without flags",
            name::CONTROLLER_CONFIG
        );
        rows.push(Row::warning(text, ""));
    }
    Ok(rows)
}

fn leases(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    let now = facts.server_time.unwrap_or(facts.now);
    let mut rows = Vec::new();
    for lease in facts::LEASES {
        let found: Vec<Lease> = facts.of_controllers(facts.items(lease)?);
        if found.is_empty() {
            rows.push(Row::warning(format!("{lease}: no process has held it yet"), ""));
        }
        for held in found {
            let spec = held.spec.unwrap_or_default();
            let holder = spec.holder_identity.unwrap_or_default();
            let seconds = i64::from(spec.lease_duration_seconds.unwrap_or_default());
            let renewed = spec.renew_time.map(|time| time.0);
            let lasts = SignedDuration::from_secs(seconds);
            let ends = renewed.map(|renewed| renewed.checked_add(lasts).unwrap_or(Timestamp::MAX));
            let place = held.metadata.namespace.unwrap_or_default();
            let row = match ends {
                Some(ends) if !holder.is_empty() && ends > now => {
                    Row::ok(format!("{lease}: {holder} leads in {place}"))
                }
                _ => {
                    let since = renewed.unwrap_or(Timestamp::UNIX_EPOCH);
                    let text =
                        format!("{lease}: no process has held it in {place} since {since:.0}");
                    Row::problem(text, "see the controller's pods and their logs")
                }
            };
            rows.push(row);
        }
    }
    Ok(rows)
}

fn policies(facts: &Facts) -> Result<Vec<Row>, Refusal> {
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
            Row::problem(text, policy.without_it())
        });
    Ok(or_ok(rows.collect(), "the policies on service accounts and approvals are in force"))
}

fn catalogs(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    let mut catalogs: Vec<ClusterCatalog> = facts.items(facts::CATALOGS)?;
    catalogs.retain(|it| it.spec.availability() == AvailabilityMode::Available);
    let mut rows = Vec::new();
    for catalog in &catalogs {
        let name = catalog.name_any();
        let progressing = catalog.condition(types::PROGRESSING);
        let message = progressing.map_or("it has no status yet", |it| it.message.as_str());
        let failing =
            progressing.is_some_and(|it| it.reason == "Retrying" || it.reason == "Blocked");
        let serving = catalog.condition(types::SERVING);
        if serving.is_none() && is_new(facts, catalog) {
            rows.push(Row::ok(format!("{name} was created just now")));
        } else if serving.is_none_or(|serving| serving.status != status::TRUE) {
            rows.push(Row::problem(format!("{name} is not served: {message}"), ""));
        } else if failing {
            rows.push(Row::warning(format!("{name} is not updated: {message}"), ""));
        }
        let silent = facts.answers.get(facts::SERVERS).and_then(|it| it.as_ref().ok());
        if let Some(why) = silent.and_then(|silent| silent[&name].as_str()) {
            let text = format!("the server of {name} does not answer: {why}");
            let hint = "kubectl get pods --all-namespaces -l app.kubernetes.io/part-of=olm";
            rows.push(Row::problem(text, hint));
        }
    }
    Ok(or_ok(rows, format!("served: {}", catalogs.len())))
}

fn extensions(facts: &Facts) -> Result<Vec<Row>, Refusal> {
    let extensions: Vec<ClusterExtension> = facts.items(facts::EXTENSIONS)?;
    let mut rows = Vec::new();
    for extension in &extensions {
        let name = extension.name_any();
        if extension.metadata.deletion_timestamp.is_some() {
            // Progressing may be about the last rollout.
            let said = [types::READY, types::PROGRESSING];
            let said = said.iter().find_map(|it| extension.condition(it));
            let why = said.map_or("", |it| it.message.as_str());
            let text = format!("{name} is being deleted: {why}");
            rows.push(Row::warning(text, advice(extension).join("; ")));
            continue;
        }
        match extension.condition(types::READY) {
            Some(ready) if ready.observed_generation != extension.metadata.generation => {
                let progressing = extension.condition(types::PROGRESSING);
                let is_seen = progressing
                    .is_some_and(|it| it.observed_generation == extension.metadata.generation);
                let text = if is_seen {
                    format!(
                        "{name} has condition {} of an earlier controller: no controller of this kind \
                         acts on it",
                        types::READY
                    )
                } else {
                    format!("{name} was changed, and no controller has acted on it yet")
                };
                rows.push(Row::warning(text, ""));
            }
            Some(ready) if ready.status == "True" => {}
            None if is_new(facts, extension) => {
                rows.push(Row::ok(format!("{name} was created just now")));
            }
            Some(ready) => {
                let text = format!("{name} is not ready: {}: {}", ready.reason, ready.message);
                rows.push(Row::problem(text, advice(extension).join("; ")));
            }
            None => {
                let text = format!(
                    "{name} has no condition {}: no controller of this kind acts on it",
                    types::READY
                );
                rows.push(Row::warning(text, ""));
            }
        }
    }
    Ok(or_ok(rows, format!("ready: {}", extensions.len())))
}

fn is_new(facts: &Facts, object: &impl kube::ResourceExt) -> bool {
    let now = facts.server_time.unwrap_or(facts.now);
    object.creation_timestamp().is_some_and(|created| now.duration_since(created.0) < NEW)
}

fn leftovers(facts: &Facts) -> Result<Vec<Row>, Refusal> {
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
            let hint = "create the extension again to take it over, or delete it with its objects";
            rows.push(Row::warning(text, hint));
        }
    }
    match facts.items::<Value>(facts::OLDER_REVISIONS) {
        Ok(older) if !older.is_empty() => {
            let text =
                format!("{} ClusterExtensionRevisions of an older upstream exist", older.len());
            rows.push(Row::warning(text, ""));
        }
        Ok(_) | Err(Refusal::Absent) => {}
        Err(refusal) => return Err(refusal),
    }
    Ok(or_ok(rows, "none"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{cases, condition};

    fn facts(question: &str, items: &Value) -> Facts {
        let answers = BTreeMap::from([(question.to_owned(), Ok(json!({"items": items})))]);
        Facts { answers, now: Timestamp::UNIX_EPOCH, server_time: None }
    }

    #[test]
    fn an_extension_that_is_being_deleted_is_described_by_its_newest_condition() {
        let rolled = condition(types::PROGRESSING, "True", "R", "Revision 1.0.0 has rolled out.");
        let one = |name: &str, conditions: &[&Value]| {
            json!({"metadata": {"name": name, "deletionTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"conditions": conditions}})
        };
        let blocked = condition(types::READY, "True", "R", "uninstall blocked");
        let all = json!([one("a", &[&rolled, &blocked]), one("b", &[&rolled])]);
        let rows = extensions(&facts(facts::EXTENSIONS, &all)).unwrap();
        let texts: Vec<_> = rows.iter().map(|row| row.text.as_str()).collect();
        let want = [
            "a is being deleted: uninstall blocked",
            "b is being deleted: Revision 1.0.0 has rolled out.",
        ];
        assert_eq!(texts, want);
    }

    #[test]
    fn what_was_created_just_now_need_not_have_a_status() {
        type Case = (String, String, String);
        for (name, case) in cases::<Case>("what_was_created_just_now_need_not_have_a_status") {
            let (created, of_catalog, of_extension) = case;
            let mut one = json!({"metadata": {"name": "a", "creationTimestamp": created}});
            let rows = extensions(&facts(facts::EXTENSIONS, &json!([one]))).unwrap();
            assert_eq!(
                rows.iter().map(|it| &it.text).collect::<Vec<_>>(),
                [&of_extension],
                "{name}"
            );
            one["spec"] = json!({"source": {"type": "Image", "image": {"ref": "r/c:1"}}});
            let rows = catalogs(&facts(facts::CATALOGS, &json!([one]))).unwrap();
            assert_eq!(rows.iter().map(|it| &it.text).collect::<Vec<_>>(), [&of_catalog], "{name}");
        }
    }

    #[test]
    fn a_lease_that_never_ends_is_held() {
        let one = json!({"metadata": {"namespace": "n"}, "spec": {"holderIdentity": "h",
            "leaseDurationSeconds": i32::MAX, "renewTime": "9999-12-30T00:00:00.000000Z"}});
        let [first, second] = facts::LEASES;
        let mut facts = facts(first, &json!([one]));
        facts.answers.insert(second.to_owned(), Ok(json!({"items": []})));
        let rows = leases(&facts).unwrap();
        assert_eq!(rows[0], Row::ok(format!("{first}: h leads in n")));
    }

    // Whoever may write Leases, ConfigMaps or Secrets in a namespace may give them any name.
    #[test]
    fn leases_settings_and_releases_of_others_do_not_count() {
        let of = |namespace: &str| json!({"metadata": {"namespace": namespace}});
        let mut deployment = of("olm");
        let args = ["--leader-elect", "--extension-lease=leases/l", "--system-namespace=system"];
        deployment["spec"]["template"]["spec"]["containers"] = json!([{"args": args}]);
        let all = json!(["olm", "leases", "system", "tenant"].map(of));
        let mut facts = facts(facts::CONFIG, &all);
        let count = |facts: &Facts| {
            let all = facts.items::<ConfigMap>(facts::CONFIG).unwrap();
            facts.of_controllers(all).len()
        };
        assert_eq!(count(&facts), 4, "no controller is known");
        let deployments = Ok(json!({"items": [deployment]}));
        facts.answers.insert(facts::DEPLOYMENTS.to_owned(), deployments);
        assert_eq!(count(&facts), 3);
    }

    #[test]
    fn disabled_catalogs_are_not_counted_as_served() {
        let one = |name: &str, mode: &str| {
            json!({"metadata": {"name": name},
                "spec": {"availabilityMode": mode,
                    "source": {"type": "Image", "image": {"ref": "r/c:1"}}},
                "status": {"conditions": [condition(types::SERVING, "True", "R", "")]}})
        };
        let all = json!([one("on", "Available"), one("off", "Unavailable")]);
        let rows = catalogs(&facts(facts::CATALOGS, &all)).unwrap();
        assert_eq!(rows, [Row::ok("served: 1")]);
    }
}
