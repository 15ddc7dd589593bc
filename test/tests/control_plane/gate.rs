//! The OpenShift gate, with minimal `ClusterVersion` and `ClusterOperator` CRDs.

use kube::core::{ApiResource, GroupVersionKind};
use olm_test::helm;
use olm_test::prelude::*;

const PLATFORM: &str = "PlatformUpgradeable";
/// Longer than a few failures of the gate, which are ten seconds apart.
const VERDICT: Duration = Duration::from_mins(1);

fn api(client: &kube::Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", kind);
    Api::all_with(client.clone(), &ApiResource::from_gvk(&kind))
}

/// Sets the version of the cluster, without which the gate reports an error.
pub(crate) async fn set_cluster_version(client: &kube::Client, version: &str) {
    let versions = api(client, "ClusterVersion");
    let object = serde_json::from_value(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "metadata": {"name": "version"}, "spec": {"clusterID": "test"},
    }))
    .expect("a ClusterVersion");
    // It may exist already.
    let _ = versions.create(&PostParams::default(), &object).await;
    let status = json!({"status": {
        "desired": {"version": version},
        "history": [{"state": "Completed", "version": version, "verified": true, "image": "",
            "startedTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T01:00:00Z"}],
    }});
    versions
        .patch_status("version", &PatchParams::default(), &Patch::Merge(status))
        .await
        .expect("the status is written");
}

pub(crate) async fn wait_for_verdict(client: &kube::Client, status: &str, text: &str) -> Value {
    wait_for_verdict_of(client, "olm", status, text).await
}

async fn wait_for_verdict_of(client: &kube::Client, name: &str, status: &str, text: &str) -> Value {
    let operators = api(client, "ClusterOperator");
    wait::until(&format!("{name}: Upgradeable={status}"), VERDICT, || async {
        let operator = operators.get(name).await.map_err(|error| error.to_string())?;
        let conditions =
            operator.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions
            .iter()
            .find(|condition| condition["type"] == "Upgradeable")
            .filter(|condition| {
                condition["status"] == status
                    && condition["message"].as_str().is_some_and(|message| message.contains(text))
            })
            .cloned()
            .ok_or(format!("{conditions:#?}"))
    })
    .await
}

/// What is installed blocks the update that it does not support, and says so everywhere, with the way out
/// (applying.md 9.4, 9.5, i2 to i4): 1.0.0 supports 4.19, 1.1.0 supports 4.20.
pub(crate) async fn blocks_the_next_release(scene: &Scene, extension: &Extension) {
    let (client, name) = (&scene.cluster.client, &scene.name);
    let way = format!("1.1.0 (up to 4.20) lifts it: kubectl olm upgrade {name} --to 1.1.0");
    let blocked = wait_for_verdict(client, "False", &way).await;
    assert_eq!(blocked["reason"], "InstalledOLMOperators_IncompatibleOperatorsInstalled");
    let operator = api(client, "ClusterOperator").get("olm").await;
    let status = operator.expect("the ClusterOperator is there").data["status"].clone();
    let types = status["conditions"].as_array().expect("a list").iter();
    let mut types: Vec<_> = types.map(|it| it["type"].clone()).collect();
    types.sort_by_key(Value::to_string);
    assert_eq!(types, ["Available", "Degraded", "Progressing", "Upgradeable"]);
    let related = status["relatedObjects"].as_array().expect("a list").iter();
    let definitions = related.filter(|it| it["resource"] == "customresourcedefinitions");
    let mut names: Vec<_> = definitions.map(|it| it["name"].clone()).collect();
    names.sort_by_key(Value::to_string);
    let kinds = ["clustercatalogs", "clusterextensions", "clusterobjectsets"];
    assert_eq!(names, kinds.map(|kinds| format!("{kinds}.olm.operatorframework.io")));
    let said = format!(
        "InstalledOLMOperatorsUpgradeable: Found ClusterExtensions that require upgrades prior to \
         upgrading cluster to version 4.20: bundle \"{name}.v1.0.0\" for ClusterExtension \
         \"{name}\". Remedies: \"{name}\": {way}"
    );
    assert_eq!(blocked["message"], said);
    let verdict = format!(
        "bundle \"{name}.v1.0.0\" supports OpenShift up to 4.19; cluster is 4.19, next is 4.20"
    );
    let seen = extension.shows(PLATFORM, "False", "IncompatibleWithNextVersion", &way).await;
    let condition = condition(&seen, PLATFORM).expect("it is there");
    assert_eq!(condition.message, format!("{verdict}; {way}"));
    let warned = format!("once it is installed, the cluster cannot be updated to 4.20: {verdict}");
    assert_eq!(scene.events("IncompatibleWithNextVersion"), [warned]);
    let row = in_the_way(scene.cluster.plane, name);
    assert_eq!(row["version"], "1.0.0");
    assert_eq!(row["supports"], "4.19");
    assert_eq!(row["lift"]["text"], way);
    assert_eq!(row["lift"]["supports"], "4.20");
}

/// The next release closes the gate again, and there is no version that opens it: only removal does.
pub(crate) async fn only_its_removal_lets_the_next_release_in(
    scene: &Scene,
    extension: &Extension,
) {
    let (client, name) = (&scene.cluster.client, &scene.name);
    let open = wait_for_verdict(client, "True", "").await;
    assert_eq!(open["reason"], "AsExpected");
    extension.shows(PLATFORM, "True", "Compatible", "").await;
    set_cluster_version(client, "4.20.1").await;
    let command = format!("kubectl olm delete {name}");
    let way = format!("no version in the catalogs lifts it: {command}");
    wait_for_verdict(client, "False", &way).await;
    let row = in_the_way(scene.cluster.plane, name);
    assert_eq!(row["lift"]["version"], json!(null));
    assert_eq!(row["lift"]["command"], command);
    extension.delete().await;
    wait_for_verdict(client, "True", "").await;
}

/// Runs `kubectl olm cluster check`, which answers no, and returns what it says of an extension
/// that is in the way. U57.
pub(crate) fn in_the_way(plane: &ControlPlane, name: &str) -> Value {
    let document = cluster_upgrade(plane, 1);
    assert_eq!(document["upgradeable"], false);
    let extensions = document["extensions"].as_array().expect("a list");
    let row = extensions.iter().find(|row| row["name"] == name);
    let row = row.unwrap_or_else(|| panic!("{name} is not in {document:#}"));
    assert_eq!(row["inTheWay"], true, "{row:#}");
    row.clone()
}

/// Runs that, which ends with this code.
pub(crate) fn cluster_upgrade(plane: &ControlPlane, code: i32) -> Value {
    let (text, _) = plugin::read(plane, &["cluster", "check", "--output=json"]).ends(code);
    serde_json::from_str(&text).expect("it prints JSON")
}

/// Creates an extension, and a revision of it as the controller makes one.
fn create_revision(plane: &ControlPlane, extension: &str, mut revision: Value) {
    plane.create(&objects::extension(extension, "default", "none", extension));
    let uid = ["get", "clusterextension", extension, "-o", "jsonpath={.metadata.uid}"];
    let uid = plane.kubectl(&uid);
    revision["metadata"]["ownerReferences"] = json!([helm::owner(extension, &uid)]);
    let manager = format!("--field-manager={}", keys::manager::EXTENSION);
    plane.kubectl_with_input(&["create", &manager, "-f", "-"], &revision.to_string());
}

// applying.md 9.7, i9: no ClusterOperator is there to be written, and nothing of it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_platform_version_judges_where_there_is_no_openshift() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    plane.kubectl(&["delete", "crd", "clusteroperators.config.openshift.io"]);
    // It is listed for a moment longer.
    let served = || {
        let path = "/apis/config.openshift.io/v1";
        let listed = plane.requests().send(Method::GET, path, None);
        listed.unwrap_or_default()["resources"].to_string()
    };
    let is_gone = |served: &String| !served.contains("ClusterOperator");
    wait::value("it is not served", VERDICT, served, is_gone).await;
    let controller = start(plane, "plain", &["--platform-version=4.20"]).await;
    let bundles = [Bundle::new("1.0.0").with_max_openshift("4.20")];
    let scene = Scene::set(cluster, "plain", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    extension.shows(PLATFORM, "False", "IncompatibleWithNextVersion", "olm delete").await;
    let want = [
        "olm_platform_upgradeable{reason=\"InstalledOLMOperators_IncompatibleOperatorsInstalled\"} 0",
        "olm_clusterextension_platform_upgradeable{name=\"buoy-plain\"} 0",
        "olm_platform_version_info{current=\"4.20\",next=\"4.21\"} 1",
    ];
    controller.measures(&want).await;

    // U57, U58: the plugin judges by the flag of the controller, and reads what revisions hold.
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1beta1",
        "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "old"}});
    let mut revision = objects::object_set("old-7", 7, &policy);
    revision["metadata"]["labels"] = json!({
        "olm.operatorframework.io/owner-kind": "ClusterExtension",
        "olm.operatorframework.io/owner-name": "old"});
    revision["metadata"]["annotations"] = json!({"policy.olm.operatorframework.io/paused": "true"});
    create_revision(plane, "old", revision);
    assert_eq!(in_the_way(plane, &scene.name)["supports"], "4.20");
    let document = cluster_upgrade(plane, 1);
    assert_eq!(document["cluster"], "4.20");
    assert_eq!(
        document["removedApis"],
        json!([{"extension": "old", "manager": null, "objects": 1, "removedIn": "1.34",
            "apiVersion": "admissionregistration.k8s.io/v1beta1", "kind": "ValidatingAdmissionPolicy"}])
    );
    plane.mend();
}

// applying.md i7; ours: `olm-clusterextensions` cannot be deleted, and nobody would ever change it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_that_moved_back_to_olm_blocks_nowhere_else() {
    let cluster = cluster::own().await;
    let (plane, client) = (cluster.plane, cluster.client.clone());
    let other = "openshift-cluster-olm-operator";
    plane.kubectl(&["create", "namespace", other]);
    plane.run(&format!("create deployment cluster-olm-operator --image=none --namespace {other}"));
    // What it has written stays when it is stopped.
    crate::manifests::stand_in(plane, "olms.operator.openshift.io/v1", "OLM", "Cluster");
    let olm = json!({"apiVersion": "operator.openshift.io/v1", "kind": "OLM",
        "metadata": {"name": "cluster"}, "spec": {"managementState": "Managed"}});
    let status = r#"[{"op":"add","path":"/spec/versions/0/subresources","value":{"status":{}}}]"#;
    plane.kubectl(&["patch", "crd", "olms.operator.openshift.io", "--type=json", "-p", status]);
    plane.create(&olm);
    let operators = api(&client, "ClusterOperator");
    let stale = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "olm"}, "spec": {}});
    let stale = serde_json::from_value(stale).expect("a ClusterOperator");
    operators.create(&PostParams::default(), &stale).await.expect("it is created");
    let condition = json!({"type": "Upgradeable", "status": "False", "reason": "Stale",
        "message": "nobody lifts this", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let stale = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "status": {"conditions": [condition], "versions": [{"name": "operator", "version": "4.19.4"}]}});
    let by_other = PatchParams::apply("cluster-olm-operator");
    operators.patch_status("olm", &by_other, &Patch::Apply(stale)).await.expect("it is written");
    set_cluster_version(&client, "4.19.5").await;
    let properties = json!([{"type": "olm.maxOpenShiftVersion", "value": "4.19"}]);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "moved", "namespace": other}});
    let mut revision = objects::object_set("moved-1", 1, &map);
    // The other label, of which admission asks nothing, decides nothing.
    revision["metadata"]["labels"] = json!({"olm.operatorframework.io/owner-name": "moved"});
    revision["metadata"]["annotations"] = json!({
        "olm.operatorframework.io/bundle-name": "moved.v1.0.0",
        "olm.properties": properties.to_string()});
    create_revision(plane, "moved", revision);
    let _controller = start(plane, "moved", &["--components=gate"]).await;
    let ours = "olm-clusterextensions";
    wait_for_verdict_of(&client, ours, "False", "moved.v1.0.0").await;

    // As docs/openshift.md stops it.
    plane.run(&format!("scale deployment cluster-olm-operator --replicas=0 --namespace {other}"));
    // The gate reconciles again when the version changes.
    set_cluster_version(&client, "4.19.6").await;
    wait_for_verdict(&client, "False", "moved.v1.0.0").await;
    wait_for_verdict_of(&client, ours, "True", "another ClusterOperator").await;
    let told = || {
        let list =
            r#"jsonpath={range .status.conditions[*]}{.type} {.status} {.reason}{"\n"}{end}"#;
        tokio::task::block_in_place(|| {
            plane.kubectl(&["get", "olms.operator.openshift.io", "cluster", "-o", list])
        })
    };
    let want = "InstalledOLMOperatorsUpgradeable False IncompatibleOperatorsInstalled\n";
    wait::value("OLM cluster has the verdict", VERDICT, told, |told| told == want).await;
    // An update of the cluster waits for this.
    for name in ["olm", ours] {
        let operator = operators.get(name).await.expect("the ClusterOperator");
        let want = json!([{"name": "operator", "version": "4.19.6"}]);
        assert_eq!(operator.data["status"]["versions"], want, "{name}");
    }
    plane.kubectl(&["delete", "clusterobjectset", "moved-1"]);
    wait_for_verdict(&client, "True", "").await;
}
