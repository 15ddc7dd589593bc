//! Whether a cluster of upstream can be taken over: what stands in the way, what has to be deleted,
//! and what would change of each extension. Everything is read, with dry runs at most.
//!
//! Source: deploying.md 7.2, 7.5.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use olm_api::keys::{annotation, label, policy};
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_cluster::reviews;
use olm_core::extension::ValidExtension;
use olm_core::helm::Release;
use olm_core::rbac::{Permission, Permissions, lines};
use olm_core::revision::{Account, BundleRecord, Desired};
use serde_json::Value;

use super::facts::{self, Facts, Refusal, get};
use super::releases::{Left, Releases};
use super::{Level, Row, checks};
use crate::changes::{self, keeper};
use crate::managed::Managed;
use crate::output::one_line;
use crate::puller::puller;

/// Questions under way at the same time.
const AT_ONCE: usize = 8;
/// What is done to every object of an extension.
const VERBS: [&str; 3] = ["get", "patch", "delete"];
/// What keeps upstream on OpenShift.
const OPERATOR: &str = "cluster-olm-operator";
/// What upstream leaves that works against us: kind, path and name.
const IN_THE_WAY: [(&str, &str, &str); 4] = [
    (
        "mutatingwebhookconfiguration",
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        "catalogd-mutating-webhook-configuration",
    ),
    (
        "validatingadmissionpolicy",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "clusterextension-serviceaccount-deprecated",
    ),
    (
        "clusterrolebinding",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "operator-controller-cluster-admin-rolebinding",
    ),
    (
        "clusterrolebinding",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "operator-controller-manager-admin-rolebinding",
    ),
];

/// Judges the cluster before the first step of a takeover.
pub(super) async fn rows(client: &Client, facts: &Facts, managed: &[Managed]) -> Vec<Row> {
    let mut rows = checks::some(facts, &["api"]);
    let openshift = openshift(client).await;
    rows.extend(upstream(facts, openshift.as_ref()));
    rows.extend(kinds_and_policies(facts));
    let leases = checks::some(facts, &["leases"]).into_iter();
    // Whoever holds them is about to go.
    rows.extend(leases.map(|row| Row { level: row.level.min(Level::Warning), ..row }));
    rows.extend(left(client).await);
    rows.extend(openshift);
    rows.extend(checks::some(facts, &["catalogs"]));
    rows.extend(extensions(client, facts, managed).await);
    rows
}

/// Says what is left of upstream that has to be deleted.
async fn left(client: &Client) -> Vec<Row> {
    let mut rows = Vec::new();
    for (kind, path, name) in IN_THE_WAY {
        let found = get(client, &format!("{path}/{name}")).await;
        rows.extend(match found {
            Ok(_) => {
                let text = format!("{kind} {name} has to be deleted");
                let hint = format!("kubectl delete {kind} {name}");
                Some(Row::new(Level::Warning, "leftovers", text).hint(hint))
            }
            Err(Refusal::Absent) => None,
            Err(Refusal::Failed(why)) => Some(Row::new(Level::Unknown, "leftovers", why)),
        });
    }
    rows
}

/// Says which upstream runs, how, and who keeps it that way. What is said of the operator of
/// OpenShift decides whether its Deployments are still kept.
fn upstream(facts: &Facts, openshift: Option<&Row>) -> Vec<Row> {
    const SUBJECT: &str = "upstream";
    let deployments = match facts.items::<Value>(facts::DEPLOYMENTS) {
        Ok(found) if found.is_empty() => {
            let text = "no Deployment of it runs here";
            return vec![Row::new(Level::Warning, SUBJECT, text)];
        }
        Ok(found) => found,
        Err(refusal) => return vec![checks::not_known(SUBJECT, &refusal)],
    };
    let rows = deployments.iter().map(|one| {
        let metadata = &one["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        let container = &one["spec"]["template"]["spec"]["containers"][0];
        let args = container["args"].as_array().into_iter().flatten();
        let args: Vec<_> = args.filter_map(Value::as_str).collect();
        let image = text(&container["image"]);
        // Upstream has no such flag.
        if args.iter().any(|arg| arg.starts_with("--components=")) {
            let what = format!("{namespace}/{name} is olm-controller, and stays");
            return Row::new(Level::Ok, SUBJECT, what);
        }
        let what = format!("{namespace}/{name}: {image} {}", args.join(" "));
        let managers = metadata["managedFields"].as_array().into_iter().flatten();
        let managers = managers.filter_map(|entry| entry["manager"].as_str());
        let left_alone = openshift.is_some_and(|row| row.level == Level::Warning);
        match keeper(managers).filter(|keeper| !(left_alone && keeper.starts_with(OPERATOR))) {
            Some(keeper) => {
                let hint = "stop it first, or it puts its own Deployments back over ours";
                let what = format!("{what}, kept by {keeper}");
                Row::new(Level::Problem, SUBJECT, what).hint(hint)
            }
            None => Row::new(Level::Ok, SUBJECT, what)
                .hint(format!("to delete: kubectl delete deployment {name} -n {namespace}")),
        }
    });
    rows.collect()
}

fn kinds_and_policies(facts: &Facts) -> Vec<Row> {
    let mut rows = match checks::kinds_of(facts, &[facts::CATALOGS, facts::EXTENSIONS]) {
        Ok(rows) => rows,
        Err(refusal) => vec![checks::not_known("kinds", &refusal)],
    };
    if facts.one(facts::POLICIES) == Err(Refusal::Absent) {
        let text =
            "ValidatingAdmissionPolicies are not served: nothing would say who may name an account";
        rows.push(Row::new(Level::Problem, "policies", text).hint("Kubernetes 1.33 or newer"));
    }
    rows
}

/// Says whether the operator of OpenShift would put upstream back; a warning says that it is stopped,
/// and what that costs (deploying.md 7.4).
async fn openshift(client: &Client) -> Option<Row> {
    const SUBJECT: &str = "openshift";
    let operator = format!("/apis/apps/v1/namespaces/openshift-{OPERATOR}/deployments/{OPERATOR}");
    let olm = get(client, "/apis/operator.openshift.io/v1alpha1/olms/cluster").await;
    Some(match olm {
        Ok(olm) if olm["spec"]["managementState"] == "Unmanaged" => {
            let text = "OLM cluster is Unmanaged: the next update of the cluster waits for it";
            Row::new(Level::Warning, SUBJECT, text).hint("set Managed before any update")
        }
        Ok(_) => match get(client, &operator).await {
            Ok(operator) if operator["spec"]["replicas"] == 0 => {
                let text = format!("{OPERATOR} is scaled to 0: no minor update of the cluster");
                let hint = "take its entry out of ClusterVersion spec.overrides before any update";
                Row::new(Level::Warning, SUBJECT, text).hint(hint)
            }
            _ => {
                let text = format!("{OPERATOR} is in charge, and would put its Deployments back");
                let hint = "kubectl patch olm cluster --type merge -p '{\"spec\":{\"managementState\":\"Unmanaged\"}}'";
                Row::new(Level::Problem, SUBJECT, text).hint(hint)
            }
        },
        Err(Refusal::Absent) => return None,
        Err(refusal) => checks::not_known(SUBJECT, &refusal),
    })
}

/// What the answers about all extensions share.
struct Asked<'a> {
    client: &'a Client,
    managed: &'a [Managed],
    revisions: Vec<ClusterObjectSet>,
    older: Vec<Value>,
    releases: Result<Releases, Refusal>,
}

async fn extensions(client: &Client, facts: &Facts, managed: &[Managed]) -> Vec<Row> {
    let all = match facts.items::<ClusterExtension>(facts::EXTENSIONS) {
        Ok(all) => all,
        Err(refusal) => return vec![checks::not_known("extensions", &refusal)],
    };
    let mut rows = Vec::new();
    let mut refused = |refusal: Refusal| {
        // Upstream may never have had the kind.
        if refusal != Refusal::Absent {
            rows.push(checks::not_known("extensions", &refusal));
        }
    };
    let revisions = facts.items(facts::REVISIONS).map_err(&mut refused);
    let older = facts.items(facts::OLDER_REVISIONS).map_err(&mut refused);
    let asked = Asked {
        client,
        managed,
        revisions: revisions.unwrap_or_default(),
        older: older.unwrap_or_default(),
        releases: Releases::list(client).await,
    };
    for extension in &all {
        let name = extension.name_any();
        let said = asked.extension(extension).await.into_iter();
        rows.extend(said.map(|(level, text, hint)| {
            Row::new(level, "extensions", format!("{name}: {text}")).hint(hint)
        }));
    }
    rows
}

/// How well something about an extension is, what it is, and the way out.
type Said = (Level, String, String);

fn problem(text: impl Into<String>, hint: impl Into<String>) -> Said {
    (Level::Problem, text.into(), hint.into())
}

impl Asked<'_> {
    async fn extension(&self, extension: &ClusterExtension) -> Vec<Said> {
        let (name, uid) = (extension.name_any(), extension.uid().unwrap_or_default());
        let mut said = Vec::new();
        let account = self.account(extension, &mut said).await;
        let of = |labels: &BTreeMap<String, String>| labels.get(label::OWNER_NAME) == Some(&name);
        let own = self.managed.iter().filter(|one| of(one.object.labels()));
        let own: Vec<&Managed> = own.collect();
        let revisions = self.revisions.iter().filter(|set| of(set.labels()));
        let revisions: Vec<&ClusterObjectSet> = revisions.collect();
        let image = match revisions.iter().max_by_key(|set| set.spec.revision) {
            Some(newest) => {
                let text = "ClusterObjectSets, taken over as they are";
                said.push((Level::Ok, text.to_owned(), String::new()));
                Some(BundleRecord::of(newest).image)
            }
            None => self.release(extension, account.as_ref(), &mut said).await,
        };
        said.extend(self.older_hold(&uid));
        let owners = revisions.iter().filter_map(|set| set.uid());
        said.extend(foreign(&own, &owners.chain([uid]).collect()));
        if let Some(account) = account {
            said.extend(self.lacking(&name, &account, &own).await);
        }
        if let Some(image) = image.filter(|image| !image.is_empty()) {
            said.extend(unreachable(&image).await);
        }
        said
    }

    /// Says which revisions of an earlier upstream hold an extension.
    fn older_hold(&self, uid: &str) -> Option<Said> {
        let owned = |one: &&Value| {
            let mut owners = one["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.any(|owner| owner["uid"] == uid)
        };
        let names = self.older.iter().filter(owned);
        let names: Vec<_> = names.filter_map(|one| one["metadata"]["name"].as_str()).collect();
        let names = names.join(" ");
        let text = format!("ClusterExtensionRevisions {names} hold it, and cannot be taken over");
        let hint = format!(
            "kubectl delete clusterextensionrevisions {names} --cascade=orphan, and annotate it with {}=all",
            policy::ADOPT
        );
        (!names.is_empty()).then(|| problem(text, hint))
    }

    /// Returns the account, if it is named and there.
    async fn account(&self, extension: &ClusterExtension, said: &mut Vec<Said>) -> Option<Account> {
        let name = extension.name_any();
        let spec = extension.spec.as_ref()?;
        let named = spec.service_account.as_ref().and_then(|it| it.name.clone());
        let Some(named) = named.filter(|named| !named.is_empty()) else {
            said.push(problem(
                "names no service account, and would be maintained no longer",
                format!("kubectl olm rbac {name} --service-account {name}-installer --apply, then name it; or component default-account"),
            ));
            return None;
        };
        let account = Account { namespace: spec.namespace.clone(), name: named };
        let api = Api::<ServiceAccount>::namespaced(self.client.clone(), &account.namespace);
        match api.get_opt(&account.name).await {
            Ok(Some(_)) => Some(account),
            Ok(None) => {
                let hint = format!("kubectl olm rbac {name} --apply");
                said.push(problem(format!("service account {account} does not exist"), hint));
                None
            }
            Err(error) => {
                let why = crate::managed::failure(&error);
                said.push((Level::Unknown, why, String::new()));
                None
            }
        }
    }

    /// Says what Helm left, and what a takeover would change of it; returns the bundle image.
    async fn release(
        &self,
        extension: &ClusterExtension,
        account: Option<&Account>,
        said: &mut Vec<Said>,
    ) -> Option<String> {
        let Ok(releases) = &self.releases else {
            let text = "whether Helm installed it may not be read";
            said.push((Level::Unknown, text.into(), "list Secrets".into()));
            return None;
        };
        let release = match releases.of(self.client, &extension.name_any()).await {
            Ok(Left::Release(release)) => release,
            Ok(Left::Nothing) => {
                said.push((Level::Ok, "nothing is installed".into(), String::new()));
                return None;
            }
            Ok(Left::Failed) => {
                let text = "its only release failed: what it left is adopted, and installed again";
                said.push((Level::Warning, text.into(), String::new()));
                return None;
            }
            Err(why) => {
                said.push(problem(why, "upstream cannot read it either: uninstall it there"));
                return None;
            }
        };
        let desired = match desired(*release, extension, account) {
            Ok(desired) => desired,
            Err(why) => {
                said.push(problem(why, ""));
                return None;
            }
        };
        let image = desired.annotations.get(annotation::BUNDLE_REFERENCE).cloned();
        said.push(self.would_change(&desired).await);
        image
    }

    async fn would_change(&self, desired: &Desired) -> Said {
        let objects = desired.phases.iter().flat_map(|phase| &phase.objects);
        let tried = objects.map(|object| async move {
            let live = changes::live(self.client, object).await;
            let paths = match live {
                Ok(Some(live)) => changes::would_change(self.client, object, &live).await,
                Ok(None) => Ok(vec!["is gone".to_owned()]),
                Err(why) => Err(why),
            };
            (object.identity(), paths)
        });
        let tried: Vec<_> = stream::iter(tried).buffered(AT_ONCE).collect().await;
        let (count, mut changed) = (tried.len(), Vec::new());
        for (object, tried) in tried {
            match tried {
                Ok(paths) => {
                    let ours = |path: &String| path.starts_with(".metadata");
                    let paths: Vec<_> = paths.into_iter().filter(|path| !ours(path)).collect();
                    if !paths.is_empty() {
                        changed.push(format!("{object} {}", paths.join(" ")));
                    }
                }
                Err(why) => {
                    let text = format!("what would change of {object} is not known: {why}");
                    return (Level::Unknown, text, String::new());
                }
            }
        }
        if changed.is_empty() {
            let text = format!("release of Helm with {count} objects; would change nothing");
            return (Level::Ok, text, String::new());
        }
        let text =
            format!("differs from its release, and would be put back: {}", changed.join(", "));
        (Level::Warning, text, String::new())
    }

    /// Says what the account may not do to what is installed.
    async fn lacking(&self, name: &str, account: &Account, own: &[&Managed]) -> Option<Said> {
        let mut needed = Permissions::default();
        for one in own {
            let namespace = one.object.namespace().unwrap_or_default();
            for verb in VERBS {
                let resource = &one.resource;
                let name = one.object.name_any();
                let right = Permission::on(verb, &resource.group, &resource.plural, Some(&name));
                needed.insert(&namespace, right);
            }
        }
        let needed: Vec<_> = needed.iter().collect();
        let answers = reviews(self.client, account, &needed).await.into_iter();
        let mut missing = Permissions::default();
        for (answer, (namespace, right)) in answers.zip(needed) {
            match answer {
                Ok(true) => {}
                Ok(false) => missing.insert(namespace, right.clone()),
                Err(error) => {
                    return Some((Level::Unknown, crate::managed::failure(&error), String::new()));
                }
            }
        }
        let lacks = || format!("service account {account} lacks {}", lines(&missing).join("; "));
        let hint = format!("kubectl olm rbac {name} --apply");
        (!missing.is_empty()).then(|| problem(lacks(), hint))
    }
}

/// Says which of an extension's objects neither it nor a revision of it controls.
fn foreign(own: &[&Managed], owners: &BTreeSet<String>) -> Vec<Said> {
    let controlled = own.iter().filter_map(|one| {
        let (_, owner) = one.controller().filter(|(uid, _)| !owners.contains(*uid))?;
        let text = format!("{} is controlled by {owner}", one.text());
        Some(problem(text, "give it back to the extension, or delete it there"))
    });
    controlled.collect()
}

/// Returns the revision that a release would become.
fn desired(
    release: Release,
    extension: &ClusterExtension,
    account: Option<&Account>,
) -> Result<Desired, String> {
    let nobody = || Account { namespace: String::new(), name: String::new() };
    let valid = ValidExtension::of(extension).ok_or("its spec names no package")?;
    let account = account.cloned().unwrap_or_else(nobody);
    release.desired(valid, &account).map_err(|error| olm_core::error::Chain(&error).to_string())
}

/// Says if an image cannot be had.
async fn unreachable(image: &str) -> Option<Said> {
    let asked = async {
        let image = image.parse()?;
        anyhow::Ok(puller()?.probe(&image).await?)
    };
    let why = asked.await.err()?;
    let text = format!("its bundle image {image} cannot be had from here: {}", one_line(&why));
    Some((Level::Warning, text, "--auth-file, or a mirror".into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn upstream_is_to_be_deleted_and_this_controller_stays() {
        let deployment = |namespace: &str, args: &[&str]| {
            json!({"metadata": {"name": "manager", "namespace": namespace}, "spec": {"template":
                {"spec": {"containers": [{"image": "i:1", "args": args}]}}}})
        };
        let theirs = deployment("theirs", &["--leader-elect"]);
        let ours = deployment("ours", &["--components=catalogs", "--leader-elect"]);
        let deployments = json!({"items": [theirs, ours]});
        let answers = BTreeMap::from([(facts::DEPLOYMENTS.to_owned(), Ok(deployments))]);
        let facts = Facts { answers, now: jiff::Timestamp::UNIX_EPOCH, server_time: None };
        let delete = "to delete: kubectl delete deployment manager -n theirs";
        let want = [
            Row::new(Level::Ok, "upstream", "theirs/manager: i:1 --leader-elect").hint(delete),
            Row::new(Level::Ok, "upstream", "ours/manager is olm-controller, and stays"),
        ];
        assert_eq!(upstream(&facts, None), want);
    }
}
