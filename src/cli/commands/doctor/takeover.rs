//! Checks whether a cluster of upstream can be taken over: obstacles, objects to delete, and the
//! changes of each extension. It only reads, and uses dry runs.
//!
//! Source: deploying.md 7.2, 7.5.

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use olm_api::keys::label;
use olm_cluster::join_bounded;
use olm_core::extension::ValidExtension;
use olm_core::helm::{self, HelmError, Index, Release};
use olm_core::object::items;
use olm_core::rbac::{Permissions, lines};
use olm_core::revision::{Account, Desired};

use super::facts::{self, Facts, Refusal, get, lacking};
use super::{Level, Row, about, checks};
use crate::changes::{self, keeper};
use crate::commands::prelude::*;

/// The verbs that the controller needs on every object of an extension.
const VERBS: [&str; 3] = ["get", "patch", "delete"];
/// The operator that manages upstream on OpenShift.
const OPERATOR: &str = "cluster-olm-operator";
/// Objects of upstream that conflict with ours, or let our accounts read every Secret of
/// `openshift-config`: kind, path and name.
const IN_THE_WAY: &str = include_str!("in_the_way.tsv");
/// Upstream's has `minAvailable`, which stays beside `maxUnavailable` of ours, and both are refused.
const BUDGET: &str = "poddisruptionbudget ";

/// Judges the cluster before the first step of a takeover.
pub(super) async fn rows(client: &Client, facts: &Facts, managed: &[Managed]) -> Vec<Row> {
    let mut rows = checks::some(facts, &["api"]);
    let openshift = openshift(client).await;
    rows.extend(about("upstream", upstream(facts, openshift.as_ref())));
    rows.extend(kinds_and_policies(facts));
    let leases = checks::some(facts, &["leases"]).into_iter();
    // Whoever holds them is about to go.
    rows.extend(leases.map(|row| match row.level {
        Level::Problem => Row { level: Level::Warning, ..row },
        Level::Ok | Level::Warning | Level::Unknown => row,
    }));
    rows.extend(about("leftovers", left(client).await));
    rows.extend(about("openshift", openshift));
    rows.extend(checks::some(facts, &["catalogs"]));
    rows.extend(about("extensions", extensions(client, facts, managed).await));
    rows
}

/// Returns the objects of upstream that have to be deleted.
async fn left(client: &Client) -> Vec<Row> {
    let mut rows = Vec::new();
    for row in IN_THE_WAY.lines() {
        let [kind, path, name] = row.split('\t').collect::<Vec<_>>()[..] else { continue };
        let found = get(client, &format!("{path}/{name}")).await;
        rows.extend(match found {
            Ok(found) if kind.starts_with(BUDGET) && found["spec"]["minAvailable"].is_null() => {
                None
            }
            Ok(_) => {
                let text = format!("{kind} {name} has to be deleted");
                Some(Row::warning(text, format!("kubectl delete {kind} {name}")))
            }
            Err(Refusal::Absent) => None,
            Err(Refusal::Failed(why)) => Some(Row::unknown(why, "")),
        });
    }
    rows
}

/// Reports the running version of upstream, its mode, and its manager. The finding about
/// OpenShift's operator determines whether its Deployments are still managed.
fn upstream(facts: &Facts, openshift: Option<&Row>) -> Vec<Row> {
    let deployments = match facts.items::<Value>(facts::DEPLOYMENTS) {
        Ok(found) if found.is_empty() => {
            return vec![Row::warning("no Deployment of it runs here", "")];
        }
        Ok(found) => found,
        Err(refusal) => return vec![checks::not_known(refusal)],
    };
    let rows = deployments.iter().map(|one| {
        let metadata = &one["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        let args: Vec<_> = facts::args(one).collect();
        let image = text(&one["spec"]["template"]["spec"]["containers"][0]["image"]);
        // Upstream has no such flag.
        if args.iter().any(|arg| arg.starts_with("--components=")) {
            return Row::ok(format!("{namespace}/{name} is olm-controller, and stays"));
        }
        let what = format!("{namespace}/{name}: {image} {}", args.join(" "));
        let managers = items(&metadata["managedFields"]);
        let managers = managers.filter_map(|entry| entry["manager"].as_str());
        let left_alone = openshift.is_some_and(|row| row.level == Level::Warning);
        let keeper = keeper(managers);
        if let Some(keeper) = keeper.filter(|it| !(left_alone && it.starts_with(OPERATOR))) {
            let hint = "stop it first: otherwise it restores its own Deployments";
            Row::problem(format!("{what}, managed by {keeper}"), hint)
        } else {
            let hint = format!("to delete: kubectl delete deployment {name} -n {namespace}");
            Row { hint, ..Row::ok(what) }
        }
    });
    rows.collect()
}

fn kinds_and_policies(facts: &Facts) -> Vec<Row> {
    let kinds = checks::kinds_of(facts, &[facts::CATALOGS, facts::EXTENSIONS]);
    let mut rows: Vec<_> = about("kinds", checks::or_not_known(kinds)).collect();
    if facts.one(facts::POLICIES) == Err(Refusal::Absent) {
        let text = "ValidatingAdmissionPolicies are not served: nothing would restrict who may name an account";
        rows.extend(about("policies", [Row::problem(text, "Kubernetes 1.33 or later")]));
    }
    rows
}

/// Checks whether the operator of OpenShift would restore upstream; warns if it is stopped, with
/// the consequences (deploying.md 7.4).
async fn openshift(client: &Client) -> Option<Row> {
    let operator = format!("/apis/apps/v1/namespaces/openshift-{OPERATOR}/deployments/{OPERATOR}");
    let olm = get(client, "/apis/operator.openshift.io/v1/olms/cluster").await;
    Some(match olm {
        Ok(olm) if olm["spec"]["managementState"] == "Unmanaged" => {
            let text = "OLM cluster is Unmanaged: the next update of the cluster waits for it";
            Row::warning(text, "set Managed before any update")
        }
        Ok(_) => match get(client, &operator).await {
            Ok(operator) if operator["spec"]["replicas"] != 0 => {
                let text = format!("{OPERATOR} is active, and would restore its Deployments");
                let hint = "stop it with an entry in ClusterVersion spec.overrides: step 2 of docs/openshift.md";
                Row::problem(text, hint)
            }
            Ok(_) | Err(Refusal::Absent) => {
                let text =
                    format!("{OPERATOR} is stopped: that blocks minor updates of the cluster");
                let hint = "docs/openshift.md shows how to go back, which lifts that";
                Row::warning(text, hint)
            }
            Err(refusal) => checks::not_known(refusal),
        },
        Err(Refusal::Absent) => return None,
        Err(refusal) => checks::not_known(refusal),
    })
}

/// The data that the checks of all extensions share.
struct Asked<'a> {
    client: &'a Client,
    managed: &'a [Managed],
    revisions: Vec<ClusterObjectSet>,
    older: Vec<Value>,
    /// The index Secrets of all releases of Helm.
    releases: kube::Result<Vec<Secret>>,
}

async fn extensions(client: &Client, facts: &Facts, managed: &[Managed]) -> Vec<Row> {
    let all = match facts.items::<ClusterExtension>(facts::EXTENSIONS) {
        Ok(all) => all,
        Err(refusal) => return vec![checks::not_known(refusal)],
    };
    let mut rows = Vec::new();
    let mut refused = |refusal: Refusal| {
        // Upstream may never have had the kind.
        if refusal != Refusal::Absent {
            rows.push(checks::not_known(refusal));
        }
    };
    let revisions = facts.items(facts::REVISIONS).map_err(&mut refused);
    let older = facts.items(facts::OLDER_REVISIONS).map_err(&mut refused);
    let params = ListParams::default().labels(helm::INDEX_SELECTOR);
    let releases = Api::<Secret>::all(client.clone()).list(&params).await;
    let asked = Asked {
        client,
        managed,
        revisions: revisions.unwrap_or_default(),
        older: older.unwrap_or_default(),
        releases: releases.map(|listed| facts.of_controllers(listed.items)),
    };
    for extension in &all {
        let name = extension.name_any();
        let said = asked.extension(extension).await.into_iter();
        rows.extend(said.map(|one| Row { text: format!("{name}: {}", one.text), ..one }));
    }
    rows
}

impl Asked<'_> {
    async fn extension(&self, extension: &ClusterExtension) -> Vec<Row> {
        let (name, uid) = (extension.name_any(), extension.uid().unwrap_or_default());
        let mut said = Vec::new();
        let account = self.account(extension, &mut said).await;
        let of = |labels: &BTreeMap<String, String>| labels.get(label::OWNER_NAME) == Some(&name);
        let own = self.managed.iter().filter(|one| of(one.object.labels()));
        let own: Vec<&Managed> = own.collect();
        let revisions = self.revisions.iter().filter(|set| of(set.labels()));
        let revisions: Vec<&ClusterObjectSet> = revisions.collect();
        said.push(if revisions.is_empty() {
            self.installed_by_helm(extension).await.unwrap_or_else(|instead| instead)
        } else {
            Row::ok("ClusterObjectSets, taken over as they are")
        });
        said.extend(self.older_hold(&uid));
        let owners = revisions.iter().filter_map(|set| set.uid());
        said.extend(foreign(&own, &owners.chain([uid]).collect()));
        if let Some(account) = account {
            said.extend(self.lacking(&name, &account, &own).await);
        }
        said
    }

    /// Reports revisions of an earlier upstream release that block an extension.
    fn older_hold(&self, uid: &str) -> Option<Row> {
        let owned =
            |one: &&Value| items(&one["metadata"]["ownerReferences"]).any(|it| it["uid"] == uid);
        let names = self.older.iter().filter(owned);
        let names: Vec<_> = names.filter_map(|one| one["metadata"]["name"].as_str()).collect();
        let hint =
            format!("once upstream no longer runs: {}", helm::adopt_earlier_revisions(&names));
        let listed = names.join(" ");
        let text = format!("ClusterExtensionRevisions {listed} hold it, and cannot be taken over");
        (!names.is_empty()).then(|| Row::problem(text, hint))
    }

    /// Returns the account, if it is named and there.
    async fn account(&self, extension: &ClusterExtension, said: &mut Vec<Row>) -> Option<Account> {
        let name = extension.name_any();
        let spec = extension.spec.as_ref()?;
        let named = spec.service_account.as_ref().and_then(|it| it.name.clone());
        let Some(named) = named.filter(|named| !named.is_empty()) else {
            said.push(Row::problem(
                "names no service account, and would no longer be maintained",
                format!("kubectl olm rbac {name} --service-account {name}-installer --apply, then name it; or component default-account"),
            ));
            return None;
        };
        let account = Account { namespace: spec.namespace.clone(), name: named };
        let api = Api::<ServiceAccount>::namespaced(self.client.clone(), &account.namespace);
        match api.get_opt(&account.name).await {
            Ok(Some(_)) => Some(account),
            Ok(None) => {
                let text = format!("service account {account} does not exist");
                said.push(Row::problem(text, format!("kubectl olm rbac {name} --apply")));
                None
            }
            Err(error) => {
                said.push(Row::unknown(failure(&error), ""));
                None
            }
        }
    }

    /// Says what would change of what Helm installed, or else why that is not known.
    async fn installed_by_helm(&self, extension: &ClusterExtension) -> Result<Row, Row> {
        let Ok(releases) = &self.releases else {
            return Err(Row::unknown("you may not read whether Helm installed it", "list Secrets"));
        };
        let name = extension.name_any();
        let of = |secret: &&Secret| secret.labels().get(helm::NAME) == Some(&name);
        let indexes: Vec<&Secret> = releases.iter().filter(of).collect();
        if indexes.is_empty() {
            return Err(Row::ok("nothing is installed"));
        }
        match release(self.client, &indexes).await {
            Ok(Some(release)) => {
                let desired = desired(release, extension).map_err(|why| Row::problem(why, ""))?;
                Ok(self.would_change(&desired).await)
            }
            Ok(None) => {
                let text = "its only release failed: its objects are adopted, and installed again";
                Err(Row::warning(text, ""))
            }
            Err(why) => {
                Err(Row::problem(why, "upstream cannot read it either: uninstall it there"))
            }
        }
    }

    async fn would_change(&self, desired: &Desired) -> Row {
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
        let tried = join_bounded(tried.collect()).await;
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
                    let text = format!("the changes of {object} are not known: {why}");
                    return Row::unknown(text, "");
                }
            }
        }
        if changed.is_empty() {
            return Row::ok(format!(
                "release of Helm with {}; would change nothing",
                counted(count, "object")
            ));
        }
        let text =
            format!("differs from its release, and would be restored: {}", changed.join(", "));
        Row::warning(text, "")
    }

    /// Returns the rights on the installed objects that the account lacks.
    async fn lacking(&self, name: &str, account: &Account, own: &[&Managed]) -> Option<Row> {
        let mut needed = Permissions::default();
        for one in own {
            let namespace = one.object.namespace().unwrap_or_default();
            let on = (&*one.resource.group, &*one.resource.plural);
            needed.allow(&namespace, &VERBS, on, Some(&one.object.name_any()));
        }
        let missing = match lacking(self.client, account, &needed).await {
            Ok(missing) => missing,
            Err(error) => return Some(Row::unknown(failure(&error), "")),
        };
        let lacks = || format!("service account {account} lacks {}", lines(&missing).join("; "));
        let hint = format!("kubectl olm rbac {name} --apply");
        (!missing.is_empty()).then(|| Row::problem(lacks(), hint))
    }
}

/// Reports objects of an extension that are controlled neither by it nor by one of its revisions.
fn foreign(own: &[&Managed], owners: &BTreeSet<String>) -> Vec<Row> {
    let controlled = own.iter().filter_map(|one| {
        let (_, owner) = one.controller().filter(|(uid, _)| !owners.contains(*uid))?;
        let text = format!("{} is controlled by {owner}", one.text());
        Some(Row::problem(text, "give it back to the extension, or delete it there"))
    });
    controlled.collect()
}

/// Reads the release that counts, as the caller, if one was rolled out.
async fn release(client: &Client, indexes: &[&Secret]) -> Result<Option<Release>, String> {
    let wrong = |error: HelmError| error.to_string();
    let namespace = indexes.iter().find_map(|index| index.namespace()).unwrap_or_default();
    let indexes = indexes.iter().map(|index| Index::read(index)).collect::<Result<_, _>>();
    let Some(index) = helm::current(indexes.map_err(wrong)?) else { return Ok(None) };
    let api = Api::<Secret>::namespaced(client.clone(), &namespace);
    let mut others = Vec::with_capacity(index.others.len());
    for other in &index.others {
        let found = api.get(other).await;
        let found = found.map_err(|error| format!("Secret {other}: {}", failure(&error)))?;
        others.push(helm::chunk(&found).map_err(wrong)?);
    }
    index.release(&others).map(Some).map_err(wrong)
}

/// Returns the revision that a release would become. Its objects depend on no account.
fn desired(release: Release, extension: &ClusterExtension) -> Result<Desired, String> {
    let nobody = Account { namespace: String::new(), name: String::new() };
    let valid = ValidExtension::of(extension).ok_or("its spec names no package")?;
    release.desired(valid, &nobody).map_err(|error| Chain(&error).to_string())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::fixture::client;

    #[tokio::test]
    async fn what_upstream_left_on_openshift_is_to_be_deleted_too() {
        let client = client(|_, path, _| match path {
            _ if path.contains("/olmv1-system/") => Ok(json!({"spec": {"maxUnavailable": 1}})),
            _ if path.contains("/poddisruptionbudgets/") => {
                Ok(json!({"spec": {"minAvailable": 1}}))
            }
            _ if path.contains("/rolebindings/") => Ok(json!({})),
            _ => Err(404),
        });
        let hints = left(&client).await.into_iter().map(|row| row.hint);
        let want = [
            "poddisruptionbudget -n openshift-operator-controller operator-controller-controller-manager",
            "poddisruptionbudget -n openshift-catalogd catalogd-controller-manager",
            "rolebinding -n openshift-config operator-controller-manager-rolebinding",
            "rolebinding -n openshift-config catalogd-manager-rolebinding",
        ];
        let want = want.map(|object| format!("kubectl delete {object}"));
        assert_eq!(hints.collect::<Vec<_>>(), want);
    }

    #[tokio::test]
    async fn leases_that_may_not_be_read_are_not_known() {
        let refused = || Err(Refusal::Failed("no".to_owned()));
        let answers = facts::LEASES.map(|lease| (lease.to_owned(), refused())).into();
        let facts = Facts { answers, now: jiff::Timestamp::UNIX_EPOCH, server_time: None };
        let rows = rows(&client(|_, _, _| Err(404)), &facts, &[]).await;
        let row = rows.iter().find(|row| row.subject == "leases").unwrap();
        assert_eq!(row.level, Level::Unknown);
    }

    #[rstest]
    #[case::runs(Ok(json!({"spec": {"replicas": 1}})), Level::Problem)]
    #[case::is_scaled_to_zero(Ok(json!({"spec": {"replicas": 0}})), Level::Warning)]
    #[case::was_deleted(Err(404), Level::Warning)]
    #[case::may_not_be_read(Err(403), Level::Unknown)]
    #[tokio::test]
    async fn the_operator_of_openshift_restores_upstream_only_where_it_runs(
        #[case] operator: Result<Value, u16>,
        #[case] want: Level,
    ) {
        let client = client(move |_, path, _| match path {
            _ if path.ends_with("/olms/cluster") => Ok(json!({"spec": {}})),
            _ => operator.clone(),
        });
        assert_eq!(openshift(&client).await.map(|row| row.level), Some(want));
    }

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
            Row { hint: delete.to_owned(), ..Row::ok("theirs/manager: i:1 --leader-elect") },
            Row::ok("ours/manager is olm-controller, and stays"),
        ];
        assert_eq!(upstream(&facts, None), want);
    }
}
