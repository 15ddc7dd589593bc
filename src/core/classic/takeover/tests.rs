use super::super::tests::made;
use super::*;
use crate::fixture::{cases, merge, object};

const CASES: &str = include_str!("../../testdata/classic/cases.yaml");

fn subscription(state: &str, current: &str) -> Object {
    let status = json!({"state": state, "installedCSV": "lamp.v1.0.0", "currentCSV": current});
    made("Subscription light/lamp", &json!({"spec": {"name": "lamp"}, "status": status}))
}

fn csv(name: &str, phase: &str, spec: &Value) -> Object {
    made(
        &format!("ClusterServiceVersion light/{name}"),
        &json!({"metadata": {"uid": format!("uid-of-{name}")}, "spec": spec,
            "status": {"phase": phase}}),
    )
}

fn plan(name: &str, spec: &Value) -> Object {
    made(&format!("InstallPlan light/{name}"), &json!({"spec": spec}))
}

fn lamp() -> Object {
    csv(
        "lamp.v1.0.0",
        "Succeeded",
        &json!({"version": "1.0.0",
            "customresourcedefinitions": {"owned": [
                {"name": "lamps.light", "version": "v1", "kind": "Lamp"}]},
            "apiservicedefinitions": {"owned": [{"group": "dim.light", "version": "v1"}]}}),
    )
}

fn group(targets: &Value, watched: &Value) -> Object {
    let spec = json!({"targetNamespaces": targets});
    made("OperatorGroup light/own", &json!({"spec": spec, "status": {"namespaces": watched}}))
}

/// A CSV of such properties.
fn declaring(properties: &[Value]) -> Object {
    let mut bulb = csv("bulb.v1.0.0", "Succeeded", &json!({}));
    let properties = json!({"properties": properties}).to_string();
    bulb.0["metadata"]["annotations"] = json!({"operatorframework.io/properties": properties});
    bulb
}

fn running(owner: &str) -> Object {
    object(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {
        "name": "lamp", "namespace": "light", "ownerReferences": [
            {"kind": "ClusterServiceVersion", "name": owner, "uid": format!("uid-of-{owner}")}]}}))
}

/// What keeps a Subscription from being moved together with these CSVs.
fn failed(
    subscription: &Object,
    classic: &[Object],
    running: &[Object],
    moving: &[&str],
) -> Vec<Failed> {
    let moving = moving.iter().map(|name| format!("light/{name}")).collect();
    Facts { subscription, classic: &Classic::new(classic), running, moving: &moving }.failed()
}

fn latest() -> Object {
    subscription("AtLatestKnown", "lamp.v1.0.0")
}

/// The group of its own namespace.
fn one_group() -> Object {
    group(&json!(["light"]), &json!(["light"]))
}

#[test]
fn what_classic_says_is_checked() {
    type Row = (String, String, Vec<(String, String, Value)>, Vec<[Value; 2]>, Vec<String>);
    for (state, current, csvs, groups, want) in cases::<Row>(CASES, "what_classic_says_is_checked")
    {
        let csvs = csvs.iter().map(|(name, phase, said)| match said {
            Value::Null => lamp(),
            Value::Array(declared) => declaring(declared),
            spec => csv(name, phase, spec),
        });
        let groups = groups.iter().map(|[targets, watched]| group(targets, watched));
        let classic: Vec<_> = csvs.chain(groups).collect();
        let failed = failed(&subscription(&state, &current), &classic, &[], &[]);
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
    let subscription = subscription("UpgradePending", "lamp.v1.1.0");
    for (approved, want) in [(false, Verdict::Ready), (true, Verdict::NotReady)] {
        let spec = json!({"approved": approved, "clusterServiceVersionNames": ["lamp.v1.1.0"]});
        let classic = [lamp(), one_group(), plan("install-next", &spec)];
        let (classic, moving) = (&Classic::new(&classic), &BTreeSet::new());
        let facts = Facts { subscription: &subscription, classic, running: &[], moving };
        assert_eq!(Verdict::of(&facts.failed()), want);
        // It goes with the Subscription.
        assert_eq!(facts.plans().len(), 1);
    }
}

#[test]
fn a_subscription_is_judged_again_if_it_changed() {
    for (change, want) in
        cases::<(Value, bool)>(CASES, "a_subscription_is_judged_again_if_it_changed")
    {
        let mut now = latest().into_value();
        merge(&mut now, &change);
        assert_eq!(is_as_judged(&latest(), &object(now)), want);
    }
}

#[test]
fn an_install_plan_that_waits_for_others_too_is_no_reason_to_stop_theirs() {
    let lamp_next = subscription("UpgradePending", "lamp.v1.1.0");
    let mut other = subscription("UpgradePending", "bulb.v1.1.0");
    other.0["metadata"]["name"] = json!("bulb");
    other.0["status"]["installedCSV"] = json!("bulb.v1.0.0");
    let names = json!({"clusterServiceVersionNames": ["lamp.v1.1.0", "bulb.v1.1.0"]});
    let plan = plan("install-both", &names);
    let bulb = csv("bulb.v1.1.0", "Pending", &json!({}));
    assert!(installs_for(&plan, &other) && installs_for(&plan, &bulb));
    assert!(!installs_for(&plan, &latest()) && !installs_for(&plan, &lamp()));
    let classic = [lamp(), one_group(), other, plan];
    let texts = |moving: &[&str]| -> Vec<_> {
        failed(&lamp_next, &classic, &[], moving).into_iter().map(|it| it.text).collect()
    };
    assert_eq!(texts(&[]), ["InstallPlan install-both also waits for Subscription bulb"]);
    assert_eq!(texts(&["bulb.v1.0.0"]), [""; 0]);
}

#[test]
fn what_is_moved_together_needs_nothing_of_classic() {
    let needed = json!({"customresourcedefinitions": {"required": [{"name": "lamps.light"}]}});
    let classic = [lamp(), csv("bulb.v1.0.0", "Succeeded", &needed), one_group()];
    assert_eq!(failed(&latest(), &classic, &[], &["bulb.v1.0.0"]), []);
}

#[test]
fn what_another_csv_owns_is_a_conflict() {
    for (owner, want) in [("lamp.v1.0.0", Verdict::Ready), ("bulb.v1.0.0", Verdict::Conflict)] {
        let failed = failed(&latest(), &[lamp(), one_group()], &[running(owner)], &[]);
        assert_eq!(Verdict::of(&failed), want);
    }
}

#[test]
fn a_status_that_got_lost_is_written_again() {
    for (kept, status, want) in [
        (latest(), json!({}), true),
        (latest(), json!({"conditions": []}), true),
        (latest(), json!({"installedCSV": "lamp.v1.1.0"}), false),
        (lamp(), json!({"phase": "Pending"}), false),
        (lamp(), json!({}), true),
    ] {
        let mut live = kept.clone();
        live.0.insert("status".to_owned(), status);
        assert_eq!(lost_status(&kept, &live), kept.pointer("/status").filter(|_| want));
    }
}

#[test]
fn what_is_left_follows_from_the_cluster() {
    use Step::{CleanUp, Dismiss, Extend, Hold, Prepare, Release, Unsubscribe};
    let all = [Prepare, Unsubscribe, Hold, Release, Dismiss, Extend, CleanUp];
    let left = |subscribed, csv, extended| steps(Progress { subscribed, csv, extended });
    assert_eq!(left(true, Csv::Kept, false), all);
    assert_eq!(left(false, Csv::Kept, false), [&all[..1], &all[2..]].concat());
    assert_eq!(left(false, Csv::Held, false), [&all[..1], &all[3..]].concat());
    assert_eq!(left(false, Csv::Gone, false), [Prepare, Release, Extend, CleanUp]);
    assert_eq!(left(false, Csv::Gone, true), [CleanUp]);
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
    let lamp =
        made("ClusterServiceVersion light/lamp.v1.0.0", &json!({"metadata": {"uid": "old"}}));
    assert!(belongs(&live, &lamp));
    let change = release(&live, &lamp).unwrap();
    let want = json!({"metadata": {"resourceVersion": "7", "labels": {"olm.owner": null,
        "olm.managed": null, "operators.coreos.com/lamp.light": null},
        "ownerReferences": [other]}});
    assert_eq!(change, want);
    let remembered = remembered(&live);
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
            merge(&mut whole, &content);
            object(whole)
        };
        assert_eq!(content(&of(live)), of(want));
    }
}

#[test]
fn what_names_no_owner_is_found_by_the_servers() {
    let service = |name: &str| json!({"deploymentName": name, "group": "light", "version": "v1"});
    let spec = json!({"apiservicedefinitions": {"owned": [service("lamp"), service("lamp")]},
        "webhookdefinitions": [{"deploymentName": "bulb"}]});
    let lamp = csv("lamp.v1.0.0", "Succeeded", &spec);
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
    own.0["metadata"]["uid"] = json!("g1");
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
    let spec = json!({"webhookdefinitions": [{"deploymentName": "lamp"}]});
    let lamp = csv("lamp.v1.0.0", "Succeeded", &spec);
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
    let of = |metadata: Value| {
        made("ClusterServiceVersion lamps/lamp.v1.0.0", &json!({"metadata": metadata}))
    };
    let csv = of(json!({"uid": "u", "resourceVersion": "3", "finalizers": [CSV_CLEANUP, "other"]}));
    assert_eq!(Csv::of(Some(&csv)), Csv::Kept);
    let want = json!({"metadata": {"resourceVersion": "3", "finalizers": ["other", MOVING]}});
    assert_eq!(hold(&csv), want);
    let going = of(json!({"deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["other", MOVING, ORPHAN]}));
    assert_eq!(hide(&csv), None);
    let hidden = json!({"metadata": {"labels": {COPIED_FROM: "lamps"}}});
    assert_eq!(hide(&going), Some(hidden));
    let emptied = json!({"spec": {"webhookdefinitions": null, "apiservicedefinitions": null}});
    for list in [json!({"webhookdefinitions": [{}]}), lamp().0["spec"].clone()] {
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
    let lamp = lamp();
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
