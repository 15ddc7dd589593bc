use rstest::rstest;

use super::*;
use crate::fixture::cases;

const CASES: &str = include_str!("../../testdata/classic/cases.yaml");

fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

fn subscription(state: &str, current: &str) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "lamp", "namespace": "light"},
        "spec": {"name": "lamp"},
        "status": {"state": state, "installedCSV": "lamp.v1.0.0", "currentCSV": current}})
}

fn csv(name: &str, phase: &str, spec: &Value) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": "light", "uid": format!("uid-of-{name}")},
        "spec": spec, "status": {"phase": phase}})
}

fn lamp() -> Value {
    csv(
        "lamp.v1.0.0",
        "Succeeded",
        &json!({"version": "1.0.0",
            "customresourcedefinitions": {"owned": [
                {"name": "lamps.light", "version": "v1", "kind": "Lamp"}]},
            "apiservicedefinitions": {"owned": [{"group": "dim.light", "version": "v1"}]}}),
    )
}

fn group(targets: &Value, watched: &Value) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "own", "namespace": "light"},
        "spec": {"targetNamespaces": targets}, "status": {"namespaces": watched}})
}

/// A CSV of such properties.
fn declaring(properties: &[Value]) -> Value {
    let mut bulb = csv("bulb.v1.0.0", "Succeeded", &json!({}));
    let properties = json!({"properties": properties}).to_string();
    bulb["metadata"]["annotations"] = json!({"operatorframework.io/properties": properties});
    bulb
}

fn running(owner: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {
        "name": "lamp", "namespace": "light", "ownerReferences": [
            {"kind": "ClusterServiceVersion", "name": owner, "uid": format!("uid-of-{owner}")}]}})
}

fn latest() -> Value {
    subscription("AtLatestKnown", "lamp.v1.0.0")
}

/// The group of its own namespace.
fn one_group() -> Value {
    group(&json!(["light"]), &json!(["light"]))
}

#[test]
fn what_classic_says_is_checked() {
    type Row = (String, String, Vec<(String, String, Value)>, Vec<[Value; 2]>, Vec<String>);
    for (state, current, csvs, groups, want) in cases::<Row>(CASES, "what_classic_says_is_checked")
    {
        let subscription = object(subscription(&state, &current));
        let csvs = csvs.iter().map(|(name, phase, said)| match said {
            Value::Null => lamp(),
            Value::Array(declared) => declaring(declared),
            spec => csv(name, phase, spec),
        });
        let groups = groups.iter().map(|[targets, watched]| group(targets, watched));
        let classic: Vec<_> = csvs.chain(groups).map(object).collect();
        let moving = BTreeSet::new();
        let facts =
            Facts { subscription: &subscription, classic: &classic, running: &[], moving: &moving };
        let failed = facts.failed();
        let found: Vec<_> =
            failed.iter().map(|it| format!("{}: {}", it.subject, it.text)).collect();
        assert_eq!(found, want);
        assert!(failed.iter().all(|it| !it.hint.contains("  ")), "{failed:?}");
        let verdict = match want.as_slice() {
            [] => Verdict::Ready,
            [only] if only.contains("also owns") || only.ends_with("2 OperatorGroups") => {
                Verdict::Conflict
            }
            _ => Verdict::NotReady,
        };
        assert_eq!(Verdict::of(&failed), verdict);
    }
}

#[test]
fn an_upgrade_that_waits_for_an_approval_is_no_upgrade() {
    let subscription = object(subscription("UpgradePending", "lamp.v1.1.0"));
    let plan = |approved: bool| {
        object(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": "install-next", "namespace": "light"},
            "spec": {"approved": approved, "clusterServiceVersionNames": ["lamp.v1.1.0"]}}))
    };
    let moving = BTreeSet::new();
    for (approved, want) in [(false, Verdict::Ready), (true, Verdict::NotReady)] {
        let own = object(one_group());
        let classic = [object(lamp()), own, plan(approved)];
        let facts =
            Facts { subscription: &subscription, classic: &classic, running: &[], moving: &moving };
        assert_eq!(Verdict::of(&facts.failed()), want);
        // It goes with the Subscription.
        assert_eq!(facts.plans().len(), 1);
    }
}

#[rstest]
#[case::health(json!({"status": {"lastUpdated": "2026-01-01T00:00:00Z"}}), true)]
#[case::an_upgrade(json!({"status": {"currentCSV": "lamp.v1.1.0"}}), false)]
#[case::its_state(json!({"status": {"state": "UpgradePending"}}), false)]
#[case::another_channel(json!({"spec": {"channel": "beta"}}), false)]
#[case::another_of_its_name(json!({"metadata": {"uid": "b"}}), false)]
fn a_subscription_is_judged_again_if_it_changed(#[case] change: Value, #[case] want: bool) {
    let mut now = latest();
    for (part, fields) in change.as_object().unwrap() {
        now[part].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    }
    assert_eq!(is_as_judged(&object(latest()), &object(now)), want);
}

#[test]
fn an_install_plan_that_waits_for_others_too_is_no_reason_to_stop_theirs() {
    let lamp_next = object(subscription("UpgradePending", "lamp.v1.1.0"));
    let mut other = subscription("UpgradePending", "bulb.v1.1.0");
    other["metadata"]["name"] = json!("bulb");
    other["status"]["installedCSV"] = json!("bulb.v1.0.0");
    let plan = object(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": "install-both", "namespace": "light"},
        "spec": {"clusterServiceVersionNames": ["lamp.v1.1.0", "bulb.v1.1.0"]}}));
    let bulb = object(csv("bulb.v1.1.0", "Pending", &json!({})));
    assert!(installs_for(&plan, &object(other.clone())) && installs_for(&plan, &bulb));
    assert!(!installs_for(&plan, &object(latest())) && !installs_for(&plan, &object(lamp())));
    let classic = [object(lamp()), object(one_group()), object(other), plan];
    let both = BTreeSet::from([("light".to_owned(), "bulb.v1.0.0".to_owned())]);
    for (moving, want) in [
        (BTreeSet::new(), vec!["InstallPlan install-both also waits for Subscription bulb"]),
        (both, Vec::new()),
    ] {
        let facts =
            Facts { subscription: &lamp_next, classic: &classic, running: &[], moving: &moving };
        let failed: Vec<_> = facts.failed().into_iter().map(|it| it.text).collect();
        assert_eq!(failed, want);
    }
}

#[test]
fn what_is_moved_together_needs_nothing_of_classic() {
    let subscription = object(latest());
    let needed = json!({"customresourcedefinitions": {"required": [{"name": "lamps.light"}]}});
    let bulb = csv("bulb.v1.0.0", "Succeeded", &needed);
    let classic = [lamp(), bulb, one_group()].map(object);
    let moving = BTreeSet::from([("light".to_owned(), "bulb.v1.0.0".to_owned())]);
    let facts =
        Facts { subscription: &subscription, classic: &classic, running: &[], moving: &moving };
    assert_eq!(facts.failed(), []);
}

#[test]
fn what_another_csv_owns_is_a_conflict() {
    let subscription = object(latest());
    let classic = [lamp(), one_group()].map(object);
    let moving = BTreeSet::new();
    for (owner, want) in [("lamp.v1.0.0", Verdict::Ready), ("bulb.v1.0.0", Verdict::Conflict)] {
        let running = [object(running(owner))];
        let facts = Facts {
            subscription: &subscription,
            classic: &classic,
            running: &running,
            moving: &moving,
        };
        assert_eq!(Verdict::of(&facts.failed()), want);
    }
}

#[rstest]
#[case::not_written_yet(latest(), json!({}), true)]
#[case::of_something_else(latest(), json!({"conditions": []}), true)]
#[case::there(latest(), json!({"installedCSV": "lamp.v1.1.0"}), false)]
#[case::phase(lamp(), json!({"phase": "Pending"}), false)]
#[case::without_phase(lamp(), json!({}), true)]
fn a_status_that_got_lost_is_written_again(
    #[case] kept: Value,
    #[case] status: Value,
    #[case] want: bool,
) {
    let mut live = kept.clone();
    live["status"] = status;
    let (kept, live) = (object(kept), object(live));
    assert_eq!(lost_status(&kept, &live), kept.pointer("/status").filter(|_| want));
}

#[rstest]
#[case::from_the_start(true, Csv::Kept, false, &[Step::Prepare, Step::Unsubscribe, Step::Hold,
    Step::Release, Step::Dismiss, Step::Extend, Step::CleanUp])]
#[case::without_subscription(false, Csv::Kept, false, &[Step::Prepare, Step::Hold, Step::Release,
    Step::Dismiss, Step::Extend, Step::CleanUp])]
#[case::held(false, Csv::Held, false,
    &[Step::Prepare, Step::Release, Step::Dismiss, Step::Extend, Step::CleanUp])]
#[case::gone(false, Csv::Gone, false,
    &[Step::Prepare, Step::Release, Step::Extend, Step::CleanUp])]
#[case::done(false, Csv::Gone, true, &[Step::CleanUp])]
fn what_is_left_follows_from_the_cluster(
    #[case] subscribed: bool,
    #[case] csv: Csv,
    #[case] extended: bool,
    #[case] want: &[Step],
) {
    assert_eq!(steps(Progress { subscribed, csv, extended }), want);
}

#[test]
fn a_running_object_is_released_and_given_back() {
    let mine = json!({"kind": "ClusterServiceVersion", "name": "lamp.v1.0.0", "uid": "old"});
    let other = json!({"kind": "ConfigMap", "name": "a", "uid": "a"});
    let live = object(json!({"apiVersion": "v1", "kind": "Service", "metadata": {
        "name": "lamp", "namespace": "light", "resourceVersion": "7",
        "labels": {"app": "lamp", "olm.owner": "lamp.v1.0.0", "olm.managed": "true",
            "operators.coreos.com/lamp.light": "",
            "olm.operatorframework.io/owner-name": "lamp"},
        "ownerReferences": [mine, other]}}));
    let lamp = object(json!({"apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "lamp.v1.0.0", "namespace": "light", "uid": "old"}}));
    assert!(belongs(&live, &lamp));
    let change = release(&live, &lamp).unwrap();
    let want = json!({"metadata": {"resourceVersion": "7", "labels": {"olm.owner": null,
        "olm.managed": null, "operators.coreos.com/lamp.light": null},
        "ownerReferences": [other]}});
    assert_eq!(change, want);
    let remembered = object(remembered(&live));
    let ours = json!({"kind": "ClusterObjectSet", "name": "lamp-1", "uid": "set"});
    let released = object(json!({"apiVersion": "v1", "kind": "Service", "metadata": {
        "name": "lamp", "namespace": "light", "resourceVersion": "9",
        "labels": {"app": "lamp"}, "ownerReferences": [ours, other]}}));
    assert!(!belongs(&released, &lamp));
    assert_eq!(release(&released, &lamp), None);
    let again = json!({"kind": "ClusterServiceVersion", "name": "lamp.v1.0.0", "uid": "new"});
    let want = json!({"metadata": {"resourceVersion": "9", "labels": {"olm.owner": "lamp.v1.0.0",
        "olm.managed": "true", "operators.coreos.com/lamp.light": ""},
        "ownerReferences": [ours, other, again]}});
    assert_eq!(give_back(&released, &remembered, "old", "new"), want);
}

#[test]
fn what_runs_is_kept_as_it_is() {
    let live = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
            "name": "lamp", "namespace": "light",
            "annotations": {COUNTED: "1"}, "labels": {"olm.owner": "lamp.v1.0.0", "app": "lamp"}},
        "spec": {"replicas": 1, "template": {
            "metadata": {"creationTimestamp": null, "annotations": {"olm.targetNamespaces": ""}},
            "spec": {"containers": [{"name": "lamp",
                "env": [{"name": "OPERATOR_CONDITION_NAME", "value": "lamp.v1.0.0"}]}]}}}});
    let kept = content(&object(live.clone()));
    let mut template = live["spec"]["template"].clone();
    template["metadata"].as_object_mut().unwrap().remove("creationTimestamp");
    assert_eq!(kept.pointer("/spec/template"), Some(&template));
    assert_eq!(kept.pointer("/metadata/labels"), Some(&json!({"app": "lamp"})));
    assert_eq!(kept.pointer("/metadata/annotations"), Some(&json!({})));
}

#[test]
fn what_others_write_is_not_claimed() {
    for (kind, metadata, live, want) in
        cases::<(&str, Value, Value, Value)>(CASES, "what_others_write_is_not_claimed")
    {
        let of = |content: Value| {
            let mut whole = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
            whole.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
            object(whole)
        };
        assert_eq!(content(&of(live)), of(want));
    }
}

#[test]
fn what_names_no_owner_is_found_by_the_servers() {
    let service = |name: &str| json!({"deploymentName": name, "group": "light", "version": "v1"});
    let lamp = object(csv(
        "lamp.v1.0.0",
        "Succeeded",
        &json!({"apiservicedefinitions": {"owned": [service("lamp"), service("lamp")]},
            "webhookdefinitions": [{"deploymentName": "bulb"}]}),
    ));
    let (namespace, names) = readers(&lamp);
    assert_eq!(namespace, "kube-system");
    assert_eq!(
        names.into_iter().collect::<Vec<_>>(),
        ["bulb-service-auth-reader", "lamp-service-auth-reader"]
    );
    let binding = object(json!({"metadata": {"labels": {"olm.managed": "true"}},
        "subjects": [{"kind": "ServiceAccount", "name": "lamp", "namespace": "light"}]}));
    assert!(is_for(&binding, "light"));
    assert!(!is_for(&binding, "dark"));
    let change = release(&binding, &lamp).unwrap();
    assert_eq!(change["metadata"]["labels"], json!({"olm.managed": null}));
}

#[test]
fn webhooks_depend_on_the_label_of_their_group() {
    let mut own = one_group();
    own["metadata"]["uid"] = json!("g1");
    let own = object(own);
    let asked = |selector: Value| {
        object(json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "lamp"},
            "webhooks": [{"name": "a"}, {"name": "b", "namespaceSelector": selector}]}))
    };
    for (selector, want) in [
        (json!({"matchLabels": {"olm.operatorgroup.uid/g1": ""}}), true),
        (json!({"matchLabels": {"olm.operatorgroup.uid/g2": ""}}), false),
        (json!({}), false),
    ] {
        assert_eq!(selects_by(&asked(selector), &own), want);
    }
}

#[test]
fn a_certificate_of_classic_is_in_no_revision() {
    let secret = |data: Value| {
        object(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "lamp"},
            "data": data}))
    };
    assert!(is_certificate(&secret(json!({"tls.crt": "", "tls.key": "", "olmCAKey": ""}))));
    assert!(!is_certificate(&secret(json!({"tls.crt": "", "tls.key": ""}))));
    let mut made = secret(json!({"olmCAKey": ""}));
    made.metadata_mut().insert("resourceVersion".to_owned(), json!("5"));
    let extension = object(json!({"apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterExtension", "metadata": {"name": "lamp", "uid": "e"}}));
    let mut owner = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "name": "lamp", "uid": "e"});
    let mut stored = secret(json!({}));
    let change = go_with(&stored, &extension).unwrap();
    assert_eq!(change, json!({"metadata": {"ownerReferences": [owner]}}));
    stored.metadata_mut().insert("ownerReferences".to_owned(), json!([owner]));
    assert_eq!(go_with(&stored, &extension), None);
    owner["controller"] = json!(true);
    let service = object(json!({"kind": "Service", "metadata": {"name": "s", "uid": "u"}}));
    let origin = json!({"service.beta.openshift.io/originating-service-name": "s",
        "service.beta.openshift.io/originating-service-uid": "u"});
    let want = json!({"metadata": {"resourceVersion": "5", "annotations": origin,
        "ownerReferences": [owner]}});
    assert_eq!(own(&made, &extension, &service), Some(want));
    made.metadata_mut().insert("ownerReferences".to_owned(), json!([owner]));
    assert_eq!(own(&made, &extension, &service), None);
    let lamp = object(csv(
        "lamp.v1.0.0",
        "Succeeded",
        &json!({"webhookdefinitions": [{"deploymentName": "lamp"}]}),
    ));
    let want = ("lamp-service-cert".to_owned(), "lamp-service".to_owned());
    assert_eq!(certificates(&lamp).into_iter().collect::<Vec<_>>(), [want]);
}

#[test]
fn what_pods_lose_with_the_next_version_is_listed() {
    let deployment = |annotations: Value, env: Value, volumes: Value| {
        object(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "lamp"},
            "spec": {"template": {"metadata": {"annotations": annotations}, "spec": {
                "volumes": volumes, "containers": [{"name": "lamp", "env": env}]}}}}))
    };
    let live = deployment(
        json!({"olmcahash": "a", "olm.targetNamespaces": ""}),
        json!([{"name": "HTTP_PROXY", "value": "p"}, {"name": "LEVEL", "value": "1"}]),
        json!([{"name": "webhook-cert"}, {"name": "data"}]),
    );
    let rendered = deployment(
        json!({"olm.targetNamespaces": ""}),
        json!([{"name": "LEVEL", "value": "2"}]),
        json!([{"name": "webhook-cert"}]),
    );
    let want = [
        ".spec.template.metadata.annotations[\"olmcahash\"]",
        ".spec.template.spec.volumes[data]",
        ".spec.template.spec.containers[lamp].env[HTTP_PROXY]",
    ];
    assert_eq!(dropped(&live, &rendered), want);
    assert_eq!(dropped(&live, &live), [""; 0]);
}

#[test]
fn a_csv_is_held_without_the_clean_up_of_classic() {
    let csv = object(json!({"apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion", "metadata": {"name": "lamp.v1.0.0", "uid": "u",
            "resourceVersion": "3", "finalizers": [CSV_CLEANUP, "other"]}}));
    assert_eq!(Csv::of(Some(&csv)), Csv::Kept);
    let want = json!({"metadata": {"resourceVersion": "3", "finalizers": ["other", MOVING]}});
    assert_eq!(hold(&csv), want);
    let going = object(json!({"apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion", "metadata": {"name": "lamp.v1.0.0",
            "namespace": "lamps", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["other", MOVING, ORPHAN]}}));
    assert_eq!(hide(&csv), None);
    let hidden = json!({"metadata": {"labels": {COPIED_FROM: "lamps"}}});
    assert_eq!(hide(&going), Some(hidden));
    let emptied = json!({"spec": {"webhookdefinitions": null, "apiservicedefinitions": null}});
    for list in [json!({"webhookdefinitions": [{}]}), lamp()["spec"].clone()] {
        let mut full = going.clone();
        full.0.insert("spec".to_owned(), list);
        assert_eq!(hide(&full), Some(emptied.clone()), "before Classic takes it for deleted");
    }
    assert_eq!(Csv::of(Some(&going)), Csv::Held);
    assert_eq!(dismiss(&csv), None);
    let dismissed = dismiss(&going).unwrap();
    assert_eq!(dismissed["metadata"]["finalizers"], json!(["other", ORPHAN]));
}

#[test]
fn what_a_copy_owns_belongs_to_its_original() {
    let lamp = object(lamp());
    let role = |owner: &str, from: &str| {
        object(json!({"metadata": {"labels": {"olm.owner": "lamp.v1.0.0",
                "olm.owner.namespace": owner, "olm.copiedFrom": from},
            "ownerReferences": [
                {"kind": "ClusterServiceVersion", "name": "lamp.v1.0.0", "uid": "copy"}]}}))
    };
    assert!(belongs(&role("light", ""), &lamp) && belongs(&role("watched", "light"), &lamp));
    assert!(!belongs(&role("watched", "elsewhere"), &lamp));
    let change = release(&role("watched", "light"), &lamp).unwrap();
    assert_eq!(change["metadata"]["ownerReferences"], json!([]));
}
