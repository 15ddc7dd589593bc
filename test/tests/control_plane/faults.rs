//! An API server that fails while things are removed: nothing is lost, and the order holds.

use std::time::Duration;

use olm_api::keys;
use olm_test::cluster::{self, Cluster, Controller, ControllerOptions};
use olm_test::extension::{Extension, condition};
use olm_test::package::{Bundle, chain};
use olm_test::proxy::{Proxy, Rule};
use olm_test::scene::{ACCOUNT, Scene};
use olm_test::wait;
use serde_json::{Value, json};

const STEP: Duration = Duration::from_mins(1);
const FINALIZER: &str = "example.com/served-by-the-operator";
/// How often the controller tries a failing read before it gives up.
const TRIES: u64 = 3;

/// A control plane with one controller that reaches it through a proxy.
struct Stage {
    _controller: Controller,
    proxy: Proxy,
    // The last: what is given back is emptied, and nothing may act there any longer.
    cluster: Cluster,
}

/// Each test has a stage of its own: a fault affects the next request.
async fn stage() -> Stage {
    let cluster = cluster::own().await;
    let started = tokio::task::spawn_blocking(move || {
        let proxy = Proxy::start(cluster.plane);
        let controller =
            Controller::start_through(cluster.plane, &proxy, ControllerOptions::default());
        Stage { _controller: controller, proxy, cluster }
    });
    started.await.expect("the controller starts")
}

async fn installed(stage: &Stage, suffix: &str, finalizers: &[&str]) -> (Scene, Extension) {
    let mut cluster = stage.cluster.clone();
    cluster.client = cluster.plane.client().await;
    let scene = Scene::set(cluster, suffix, &[Bundle::new("1.0.0")], &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    extension.installed("1.0.0").await;
    let instance = json!({"apiVersion": format!("{suffix}.example.com/v1"), "kind": "Buoy",
        "metadata": {"name": "one", "namespace": scene.name, "finalizers": finalizers}});
    let args = ["apply", "--server-side", "-f", "-"];
    let plane = scene.cluster.plane;
    plane.kubectl_with_input(&args, &instance.to_string());
    (scene, extension)
}

fn delete(scene: &Scene, how: &str) {
    // It would wait for the object of the CRD.
    scene.annotate(keys::policy::UNINSTALL, "Delete");
    let cascade = format!("--cascade={how}");
    let args = ["delete", "clusterextension", &scene.name, &cascade, "--wait=false"];
    scene.cluster.plane.kubectl(&args);
}

fn is_going(scene: &Scene, kind: &str, name: &str) -> bool {
    let found = scene.get(kind, name);
    found.is_none_or(|found| found["metadata"]["deletionTimestamp"].is_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_cannot_be_read_for_a_while_leaves_the_order_of_an_uninstall_alone() {
    let stage = &stage().await;
    for (suffix, rule, times) in [
        ("broken", Rule::get("secrets").status(500), 3 * TRIES),
        ("busy", Rule::get("secrets").retry_after(1), 3),
        ("denied", Rule::get("secrets").status(403), 3),
        ("silent", Rule::get("secrets").silent(Duration::from_secs(3)), TRIES),
    ] {
        let suffix = format!("fault{suffix}");
        let (scene, extension) = installed(stage, &suffix, &[FINALIZER]).await;
        let rule = rule.in_namespace("olmv1-system").named(&format!("{}-1-*", scene.name));
        let rule = stage.proxy.fail(rule.times(times));
        delete(&scene, "background");
        wait::until("the fault strikes", STEP, || async {
            let struck = stage.proxy.strikes(rule);
            if struck == times { Ok(()) } else { Err(struck) }
        })
        .await;
        let crd = scene.package.crd();
        wait::until("the instance is going", STEP, || async {
            if is_going(&scene, &crd, "one") { Ok(()) } else { Err(()) }
        })
        .await;
        assert!(scene.get(&crd, "one").is_some(), "{suffix}: its finalizer holds it");
        // Its operator still runs, and continues until the instance is gone.
        extension
            .eventually("the instance is waited for", STEP, |extension| {
                condition(extension, "Ready").is_some_and(|ready| ready.message.contains(FINALIZER))
            })
            .await;
        assert!(!is_going(&scene, "deployment", &scene.package.deployment()), "{suffix}");
        let none = r#"{"metadata":{"finalizers":null}}"#;
        let args = ["patch", &crd, "one", "-n", &scene.name, "--type=merge", "-p", none];
        scene.cluster.plane.kubectl(&args);
        extension.gone().await;
    }
}

// ARCHITECTURE.md, invariant 5
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_that_fails_says_why_and_goes_on() {
    let stage = &stage().await;
    let (scene, extension) = installed(stage, "failedremoval", &[]).await;
    let rule = Rule::on(&["delete"], "clusterobjectsets").status(403);
    let rule = stage.proxy.fail(rule);
    delete(&scene, "background");
    extension
        .eventually("it says what failed", STEP, |extension| {
            condition(extension, "Ready").is_some_and(|ready| {
                ready.reason == "Uninstalling" && ready.message.contains("injected")
            })
        })
        .await;
    stage.proxy.stop(rule);
    extension.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orphaning_deletion_keeps_everything_whatever_the_api_server_answers() {
    let stage = &stage().await;
    let late = Rule::on(&["watch"], "clusterobjectsets").late_events(Duration::from_millis(800));
    for (suffix, rule) in [
        ("late", late),
        ("broken", Rule::get("secrets").status(500).times(5 * TRIES)),
        ("denied", Rule::get("secrets").status(403).times(5)),
    ] {
        let (scene, extension) = installed(stage, &format!("orphan{suffix}"), &[]).await;
        let rule = stage.proxy.fail(rule);
        delete(&scene, "orphan");
        extension.gone().await;
        assert!(stage.proxy.strikes(rule) > 0, "{suffix}: the fault struck");
        stage.proxy.stop(rule);
        for (kind, name) in [
            ("customresourcedefinition", scene.package.crd()),
            (&*scene.package.crd(), "one".to_owned()),
            ("deployment", scene.package.deployment()),
            ("configmap", scene.package.config_map()),
        ] {
            let found = scene.get(kind, &name);
            let found = found.unwrap_or_else(|| panic!("{suffix}: {kind} {name} is gone"));
            assert_eq!(found["metadata"]["deletionTimestamp"], Value::Null, "{suffix}: {name}");
            assert_eq!(found["metadata"]["ownerReferences"], Value::Null, "{suffix}: {name}");
        }
    }
}

async fn revision_says(scene: &Scene, revision: &str, reason: &str) {
    let what = format!("{revision} says {reason}");
    wait::until(&what, STEP, || async {
        let set = scene.get("clusterobjectset", revision).unwrap_or_default();
        let conditions = set["status"]["conditions"].as_array().cloned();
        let says = conditions
            .iter()
            .flatten()
            .any(|condition| condition["type"] == "Progressing" && condition["reason"] == reason);
        if says { Ok(()) } else { Err(set["status"].to_string()) }
    })
    .await;
}

// ours: the next attempt comes before the watch delivers what the last one wrote
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_has_passed_does_not_stay_in_a_status() {
    let stage = &stage().await;
    let (scene, extension) = installed(stage, "faultpassed", &[]).await;
    // The failures begin and end before any event about them arrives.
    let late = Duration::from_secs(10);
    let rules = ["clusterextensions", "clusterobjectsets"]
        .map(|kind| Rule::on(&["watch"], kind).late_events(late))
        .map(|rule| stage.proxy.fail(rule));
    let secrets = format!("{}-1-*", scene.name);
    let failure = stage.proxy.fail(Rule::get("secrets").named(&secrets).status(500));
    // The revision is reconciled again, and so is the extension.
    let plane = scene.cluster.plane;
    let revision = format!("{}-1", scene.name);
    plane.kubectl(&["annotate", "clusterobjectset", &revision, "example.com/look=again"]);
    let inside = ["--namespace", &scene.name];
    let delete = [&["delete", "serviceaccount", ACCOUNT], &inside[..]].concat();
    plane.kubectl(&delete);
    revision_says(&scene, &revision, "Retrying").await;
    extension
        .eventually("the failure is said", STEP, |extension| {
            condition(extension, "Progressing").is_some_and(|found| found.reason == "Retrying")
        })
        .await;
    stage.proxy.stop(failure);
    let create = [&["create", "serviceaccount", ACCOUNT], &inside[..]].concat();
    plane.kubectl(&create);
    revision_says(&scene, &revision, "Succeeded").await;
    extension
        .eventually("the failure is over", STEP, |extension| {
            condition(extension, "Progressing").is_some_and(|found| found.reason == "Succeeded")
        })
        .await;
    extension.installed("1.0.0").await;
    for rule in rules {
        stage.proxy.stop(rule);
    }
    extension.delete().await;
}

// ours: found by killing at random. An API server that has just started refuses for a moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_refused_for_a_moment_is_not_given_up() {
    let stage = &stage().await;
    let suffix = "refused";
    let rule = Rule::list("configmaps").in_namespace(&format!("buoy-{suffix}"));
    let rule = stage.proxy.fail(rule.status(403).times(2));
    let (scene, extension) = installed(stage, suffix, &[]).await;
    wait::until("the refusals have struck", STEP, || async {
        let struck = stage.proxy.strikes(rule);
        if struck == 2 { Ok(()) } else { Err(struck) }
    })
    .await;
    let name = scene.package.config_map();
    let args = ["delete", "configmap", &name, "-n", &scene.name];
    scene.cluster.plane.kubectl(&args);
    wait::until("the object is made anew", STEP, || async {
        scene.get("configmap", &name).ok_or(())
    })
    .await;
    extension.delete().await;
}

/// Has the API server refuse every deletion of the `ConfigMap` of a scene, and waits until it does.
async fn refuse_deletion(scene: &Scene) {
    let (plane, name) = (scene.cluster.plane, scene.package.config_map());
    let inside = json!({"matchLabels": {"kubernetes.io/metadata.name": scene.name}});
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy", "metadata": {"name": scene.name},
        "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"namespaceSelector": inside, "resourceRules": [{"apiGroups": [""],
                "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"],
                "resourceNames": [name]}]},
            "validations": [{"expression": "false", "message": "not today", "reason": "Forbidden"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": scene.name},
        "spec": {"policyName": scene.name, "validationActions": ["Deny"]}});
    for object in [policy, binding] {
        plane.kubectl_with_input(&["create", "-f", "-"], &object.to_string());
    }
    let dry = ["delete", "configmap", &name, "-n", &scene.name, "--dry-run=server"];
    wait::until("deletions are refused", STEP, || async {
        match plane.try_kubectl(&dry, "") {
            Err(text) if text.contains("not today") => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

// applying.md 7.4: the garbage collector would remove the rest without order, and be refused as well
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_that_admission_refuses_is_named_and_tried_until_it_is_let_pass() {
    // The account of an uninstall has failed for good after three attempts within a minute.
    const LONGER: Duration = Duration::from_secs(100);
    let stage = &stage().await;
    let (scene, extension) = installed(stage, "denying", &[]).await;
    refuse_deletion(&scene).await;
    delete(&scene, "background");
    let name = scene.package.config_map();
    let begun = std::time::Instant::now();
    let named = |text: &str| text.contains(&name) && text.contains("not today");
    extension
        .eventually("the object and the refusal are named", STEP, |extension| {
            condition(extension, "Ready").is_some_and(|ready| named(&ready.message))
        })
        .await;
    wait::until("it goes on longer than an account may fail", LONGER + STEP, || async {
        assert!(!is_going(&scene, "configmap", &name));
        let revision = scene.get("clusterobjectset", &format!("{}-1", scene.name));
        assert!(revision.is_some(), "left to the garbage collector");
        if begun.elapsed() > LONGER { Ok(()) } else { Err(begun.elapsed()) }
    })
    .await;
    assert_eq!(scene.events("UninstallFallback"), [""; 0]);
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        scene.cluster.plane.kubectl(&["delete", kind, &scene.name]);
    }
    extension.gone().await;
}

// applying.md 7.2: to wait, what the watch has brought is enough
#[tokio::test(flavor = "multi_thread")]
async fn a_revision_that_waits_its_turn_does_not_list_the_others() {
    let stage = &stage().await;
    let (mut scene, extension) = installed(stage, "waitsturn", &[FINALIZER]).await;
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0").broken()];
    scene.grant(&bundles);
    scene.publish(&bundles, &chain(&["1.0.0", "1.1.0"])).await;
    let (first, second) = (format!("{}-1", scene.name), format!("{}-2", scene.name));
    let crd = scene.package.crd();
    wait::until("the second revision has the CRD", STEP, || async {
        let found = scene.get("customresourcedefinition", &crd).unwrap_or_default();
        let number = found["metadata"]["annotations"][keys::annotation::REVISION].clone();
        if number == "2" { Ok(()) } else { Err(number) }
    })
    .await;
    delete(&scene, "background");
    let says = |revision: &str, text: &str| {
        let set = scene.get("clusterobjectset", revision).unwrap_or_default();
        let status = set["status"].to_string();
        if status.contains(text) { Ok(()) } else { Err(status) }
    };
    let turn = format!("waiting for revision {second}");
    wait::until("the second waits for the instance", STEP, || async { says(&second, FINALIZER) })
        .await;
    wait::until("the first waits for the second", STEP, || async { says(&first, &turn) }).await;
    let rule = stage.proxy.fail(Rule::list("clusterobjectsets").status(500));
    wait::until("whoever acts cannot list revisions", STEP, || async {
        let struck = stage.proxy.strikes(rule);
        if struck >= 4 * TRIES { Ok(()) } else { Err(struck) }
    })
    .await;
    says(&first, &turn).expect("it waits as before");
    stage.proxy.stop(rule);
    let none = r#"{"metadata":{"finalizers":null}}"#;
    let args = ["patch", &crd, "one", "-n", &scene.name, "--type=merge", "-p", none];
    scene.cluster.plane.kubectl(&args);
    extension.gone().await;
}
