//! Coming from upstream, with `kubectl olm migrate from-upstream`.

use olm_test::documents::{self, Shell};
use olm_test::prelude::*;
use serde::de::DeserializeOwned;

use crate::manifests::{Install, ready, stand_in};
use crate::takeover::{Left, Stage, earlier_revisions, ready_pod};

const KEYS: &str = "olm.operatorframework.io";

/// Runs it; returns its exit code, what it prints and what it says besides.
fn from_upstream(plane: &ControlPlane, args: &[&str]) -> (Option<i32>, String, String) {
    plugin::answer(plane, &[&["migrate", "from-upstream"], args].concat())
}

fn create(plane: &ControlPlane, objects: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    plane.kubectl_with_input(&["create", "--field-manager=upstream", "-f", "-"], &list.to_string());
}

/// Returns what `moving.yaml` has under a key, with what its placeholders stand for.
fn written<T: DeserializeOwned>(key: &str, with: &[(&str, &str)]) -> T {
    paths::fixture("test/tests/control_plane/moving.yaml", key, with)
}

/// What upstream's manifests hold that matters to whoever takes over, its two Deployments first.
pub(crate) fn upstream(image: &str) -> Vec<Value> {
    written("upstream", &[("image", image)])
}

/// Runs the commands of a document that begin like this, with kubectl for oc.
fn run_documented(plane: &ControlPlane, page: &str, begin: &str) {
    let blocks = documents::blocks(&documents::read(page));
    let found = blocks.iter().find(|it| it.text.starts_with(begin));
    let commands = found.expect("the document has the commands").text.replace("oc ", "kubectl ");
    let kubeconfig = ("KUBECONFIG".to_owned(), plane.addresses.kubeconfig.clone());
    let shell = Shell::on_a_cluster(&plane.addresses.kubectl, vec![kubeconfig]);
    let (succeeded, printed) = shell.run(&commands);
    assert!(succeeded, "{commands}\n{printed}");
}

/// What stands there to be deleted, in the words of the doctor.
fn hints(text: &str) -> Vec<&str> {
    let hints = text.lines().filter_map(|line| {
        let (_, command) = line.split_once("kubectl delete ")?;
        command.strip_suffix(')')
    });
    hints.collect()
}

/// Returns what the doctor finds, once the takeover would change nothing: Kubernetes may still write
/// the status of something.
async fn changes_nothing(plane: &ControlPlane) -> String {
    let text = || from_upstream(plane, &[]).good().0;
    let nothing = |text: &String| text.contains("would change nothing");
    wait::value("the takeover would change nothing", SOON, text, nothing).await
}

// deploying.md P55
#[tokio::test(flavor = "multi_thread")]
#[ignore = "from another installer: make test-full"]
async fn a_cluster_of_upstream_is_taken_over_step_by_step_and_nothing_is_restarted() {
    let left =
        Left::helmed(&Stage::of(1).await, "moved", &[Bundle::new("1.0.0")], "deployed").await;
    let plane = left.scene.cluster.plane;
    create(plane, &upstream("registry.example.com/upstream:v1.11"));
    plane.established(&left.scene.package.crd());
    wait::done("the operator runs", SOON, || ready_pod(&left.scene)).await;
    let text = changes_nothing(plane).await;
    assert!(text.contains(&format!("{}: release of Helm with ", left.scene.name)), "{text}");
    let hints = hints(&text);
    assert_eq!(hints.len(), 7, "{text}");
    let before = left.alive();
    for command in hints {
        let words: Vec<_> = ["delete"].into_iter().chain(command.split(' ')).collect();
        plane.kubectl_itself(&words, "").expect("it is taken away");
    }
    left.stage.returns().await;
    left.extension.installed("1.0.0").await;
    left.extension.shows("Ready", "True", "Succeeded", "").await;
    assert_eq!(left.alive(), before, "nothing was restarted");

    left.stage.goes().await;
    run_documented(plane, "docs/from-upstream.md", "for kind in ");
    let kinds = "clusterextensions,clustercatalogs,clusterobjectsets";
    let types = "-o=jsonpath={.items[*].status.conditions[*].type}";
    let types = plane.kubectl(&["get", kinds, types]);
    let types: BTreeSet<_> = types.split_whitespace().collect();
    let upstream = ["Available", "Installed", "Progressing", "Serving", "Succeeded"];
    assert!(types.contains("Installed") && types.contains("Serving"), "{types:?}");
    let is_of_upstream = |it: &&str| upstream.contains(it) || it.ends_with("Deprecated");
    assert!(types.iter().all(is_of_upstream), "{types:?}");
}

// deploying.md P57
#[tokio::test(flavor = "multi_thread")]
#[ignore = "from another installer: make test-full"]
async fn openshift_is_taken_over_once_its_operator_lets_go_and_nothing_is_restarted() {
    let install = Install::on_openshift().await;
    let plane = install.cluster.plane;
    install.apply();
    let controllers = install.start();
    ready(&controllers).await;
    let (_, text, errors) = from_upstream(plane, &[]);
    assert!(text.contains("is olm-controller, and stays"), "{text}{errors}");
    assert_eq!(hints(&text), [""; 0], "{text}");
    // In the order of their namespaces.
    let [catalogs, controller] = <[_; 2]>::try_from(controllers).ok().expect("two processes");
    let bundles = [Bundle::new("1.0.0")];
    let catalog = ("openshift", &bundles[..], "1.0.0");
    let system = "openshift-operator-controller";
    let stage = Stage::with(install.cluster.clone(), controller, 1);
    let left = Left::on(&stage, catalog, system).await;
    // Nothing of ours is left but the kinds and the catalog, which upstream has too.
    drop(catalogs);
    let own = "deployments,roles,rolebindings,services,configmaps";
    for namespace in ["openshift-operator-controller", "openshift-catalogd"] {
        // Whoever was killed has not given it back.
        plane.run(&format!("delete leases --all -n {namespace}"));
        plane.run(&format!("delete {own} -l app.kubernetes.io/part-of=olm -n {namespace}"));
    }
    let own = "validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,clusterrolebindings";
    plane.run(&format!("delete {own} -l app.kubernetes.io/part-of=olm"));
    let objects = left.install(&bundles[0]);
    left.release((1, "deployed"), "1.0.0", &objects);
    wait::done("the operator runs", SOON, || ready_pod(&left.scene)).await;
    // As on every cluster of OpenShift.
    olm_test::classic::prepare(plane);
    stand_in(plane, "olms.operator.openshift.io/v1", "OLM", "Cluster");
    create(plane, &upstream("quay.io/openshift/olm:1")[3..4]);
    create(plane, &written::<Vec<Value>>("operator of openshift", &[]));

    let before = left.alive();
    let releases: Vec<BTreeMap<String, Vec<String>>> = written("releases of openshift", &[]);
    for halves in releases {
        for (half, args) in &halves {
            let mut object: Value = written("deployment of openshift", &[("half", half)]);
            object["spec"]["template"]["spec"]["containers"][0]["args"] = json!(args);
            let manager = "--field-manager=cluster-olm-operator";
            let apply = ["apply", "--server-side", "--force-conflicts", manager, "-f", "-"];
            plane.kubectl_with_input(&apply, &object.to_string());
        }
        let (text, _) = from_upstream(plane, &[]).ends(1);
        assert!(text.contains(&halves["operator-controller"].join(" ")), "{text}");
        assert!(text.contains("managed by cluster-olm-operator"), "{text}");
        assert!(text.contains("cluster-olm-operator is active"), "{text}");
    }
    stop_the_operator_and_start_it_again(plane);
    let documented = documents::read("docs/openshift.md");
    let unmanaged = documented.split_once("`oc patch olms").and_then(|it| it.1.split_once('`'));
    let (unmanaged, _) = unmanaged.expect("the document has the command");
    plane.run(&format!("patch olms{}", unmanaged.replace('\'', "")));
    let text = changes_nothing(plane).await;
    assert!(text.contains("the next update of the cluster waits"), "{text}");
    let hints = hints(&text);
    assert_eq!(hints.len(), 3, "{text}");
    run_documented(plane, "docs/openshift.md", "oc delete deployment ");
    for command in hints.into_iter().filter(|it| !it.starts_with("deployment ")) {
        let words: Vec<_> = ["delete"].into_iter().chain(command.split(' ')).collect();
        plane.kubectl_itself(&words, "").expect("it is taken away");
    }
    let file_of_ours = install.file.to_string_lossy();
    plane.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file_of_ours]);
    let controllers = install.start();
    ready(&controllers).await;
    left.extension.installed("1.0.0").await;
    left.extension.shows("Ready", "True", "Succeeded", "").await;
    assert_eq!(left.alive(), before, "nothing was restarted");
    assert_eq!(install.refused(), [""; 0]);
}

/// Runs the commands of the document on `cluster-olm-operator`.
fn stop_the_operator_and_start_it_again(plane: &ControlPlane) {
    let name = "cluster-olm-operator";
    stand_in(plane, "clusterversions.config.openshift.io/v1", "ClusterVersion", "Cluster");
    create(
        plane,
        &[json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
                "metadata": {"name": "version"}, "spec": {"clusterID": "test"}})],
    );
    let overrides = || {
        let path = "-o=jsonpath={.spec.overrides[*].name}";
        plane.kubectl(&["get", "clusterversion", "version", path])
    };
    let patch =
        |op: &str| format!("oc patch clusterversion version --type json -p '[{{\"op\": \"{op}\"");
    run_documented(plane, "docs/openshift.md", &patch("add"));
    let (code, text, errors) = from_upstream(plane, &[]);
    assert_eq!((code, overrides().as_str()), (Some(0), name), "{text}{errors}");
    assert!(text.contains("cluster-olm-operator is stopped"), "{text}");
    run_documented(plane, "docs/openshift.md", &patch("remove"));
    let (code, text, errors) = from_upstream(plane, &[]);
    assert_eq!((code, overrides().as_str()), (Some(1), ""), "{text}{errors}");
    plane.kubectl(&["delete", "crd", "clusterversions.config.openshift.io"]);
}

/// Makes an extension that nobody looks at, and returns its UID.
fn extension(plane: &ControlPlane, name: &str, account: Option<&str>) -> String {
    let mut object = objects::extension(name, "faults", account.unwrap_or_default(), name);
    if account.is_none() {
        object["spec"]["serviceAccount"] = Value::Null;
    }
    plane.create(&object);
    plane.kubectl(&["get", "clusterextension", name, "-o", "jsonpath={.metadata.uid}"])
}

/// Prepares faults that do not belong to an extension.
fn of_the_cluster(plane: &ControlPlane) {
    let deployment: Value = written("held by argocd", &[]);
    let args = ["create", "--field-manager=argocd-controller", "-f", "-"];
    plane.kubectl_with_input(&args, &deployment.to_string());
    create(plane, &[earlier_revisions(), objects::catalog("away", "example.com/none:1")]);
    create(plane, &upstream("example.com/a:1")[2..]);
    plane.established(&format!("clusterextensionrevisions.{KEYS}"));
}

/// Prepares faults that a takeover would meet; returns what the doctor has to say of each.
fn faults(left: &Left, objects: &[Value]) -> Vec<String> {
    let (plane, name) = (left.scene.cluster.plane, &left.scene.name);
    plane.kubectl(&["create", "namespace", "faults"]);
    plane.kubectl(&["create", "serviceaccount", "poor", "-n", "faults"]);
    extension(plane, "nobody", None);
    extension(plane, "absent", Some("gone"));
    let uid = extension(plane, "poor", Some("poor"));
    let older = extension(plane, "older", Some("poor"));
    let namespace = plane.run("get namespace faults -o jsonpath={.metadata.uid}");
    of_the_cluster(plane);
    let of = [("poor", uid.as_str()), ("older", &older), ("faults", &namespace)];
    create(plane, &written::<Vec<Value>>("faults of extensions", &of));
    left.release((1, "deployed"), "1.0.0", objects);
    let settings = left.scene.package.config_map();
    let edit = json!({"data": {"depth": "edited by hand"}});
    plane.requests().merge("configmap", name, &settings, &edit);
    written("found", &[("release", name), ("settings", &settings)])
}

// deploying.md P60
#[tokio::test(flavor = "multi_thread")]
#[ignore = "from another installer: make test-full"]
async fn what_stands_in_the_way_of_a_take_over_is_found_and_nothing_is_written() {
    let bundles = [Bundle::new("1.0.0")];
    let left = Left::of(&Stage::of(1).await, "faulty", &bundles, "1.0.0").await;
    let plane = left.scene.cluster.plane;
    let objects = left.install(&bundles[0]);
    let want = faults(&left, &objects);
    let versions = || {
        let kinds = "clusterextensions,clustercatalogs,crds,configmaps,secrets,serviceaccounts,clusterrolebindings";
        let path = "-o=jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}";
        plane.kubectl(&["get", kinds, "-A", path])
    };
    let before = versions();
    let (text, _) = from_upstream(plane, &[]).ends(1);
    for fault in &want {
        assert!(text.contains(fault), "{fault}: {text}");
    }
    assert_eq!(before, versions(), "nothing is written");
    // Whoever may not read the releases is told that, and not that all is well.
    from_upstream(plane, &["--as=nobody"]).ends(3);
    let index = left.damage_release();
    let (_, text, _) = from_upstream(plane, &[]);
    let why = format!("{}: Helm release in Secret {index}: not gzip", left.scene.name);
    assert!(text.contains(&why), "{text}");
}

// deploying.md P59
#[tokio::test(flavor = "multi_thread")]
#[ignore = "from another installer: make test-full"]
async fn the_policies_keep_an_upstream_without_the_right_from_writing_until_they_are_deleted() {
    let bundles = [Bundle::new("1.0.0")];
    let left = Left::of(&Stage::of(1).await, "policies", &bundles, "1.0.0").await;
    let plane = left.scene.cluster.plane;
    plane.kubectl(&["create", "serviceaccount", "upstream", "-n", SYSTEM_NAMESPACE]);
    let rules = json!([{"apiGroups": [KEYS], "resources": ["clusterobjectsets"], "verbs": ["*"]}]);
    let account = objects::account(SYSTEM_NAMESPACE, "upstream");
    plane.grant(&objects::grant("upstream", None, &rules, &account));
    let set = json!({"apiVersion": format!("{KEYS}/v1"), "kind": "ClusterObjectSet",
        "metadata": {"name": "theirs-1", "annotations": {
            format!("{KEYS}/service-account-name"): "installer",
            format!("{KEYS}/service-account-namespace"): left.scene.name}},
        "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent",
            "phases": []}});
    let user = format!("--as=system:serviceaccount:{SYSTEM_NAMESPACE}:upstream");
    let write = || plane.kubectl_itself(&["create", &user, "-f", "-"], &set.to_string());
    let denied = write().expect_err("the policy denies it");
    assert!(denied.contains("clusterobjectset-serviceaccount-use"), "{denied}");
    for kind in ["validatingadmissionpolicybindings", "validatingadmissionpolicies"] {
        plane.run(&format!("delete {kind} -l app.kubernetes.io/part-of=olm"));
    }
    wait::done("upstream may write", SOON, write).await;
}
