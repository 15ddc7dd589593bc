//! What users may do to an extension that names a service account.

use olm_api::keys::annotation::ORPHANED;
use olm_api::keys::policy::{ACCEPT_IMAGE as ACCEPT, APPROVE};
use olm_test::prelude::*;

use super::{INSTALLER, Made, Person, assert_refused, extension, refusal};

const CE: &str = "clusterextension";

// P43
#[tokio::test(flavor = "multi_thread")]
async fn nobody_has_an_account_act_that_they_may_not_use() {
    let tenant = Person::installer("p43").await;
    let wanted = extension("p43", "boss", "boss");
    let create = tenant.tries(&["create", "-f", "-"], &wanted.to_string());
    assert_refused(
        &create,
        "user \"p43\" may not use service account \"boss/boss\": grant verb \"use\" on \
         serviceaccounts",
    );
    let made = Made::new(&tenant.cluster, CE, &wanted);
    let refused = |change| {
        assert_refused(&tenant.merges(CE, &made.name, &change), &refusal("p43"));
    };
    refused(json!({"spec": {"source": {"catalog": {"version": "1.0.0"}}}}));
    refused(json!({"spec": {"config": {"configType": "Inline", "inline": {"a": "b"}}}}));
    refused(json!({"metadata": {"annotations": {ACCEPT: "sha256:a"}}}));
    // A deletion would leave what is installed.
    refused(json!({"metadata": {"annotations": {ORPHANED: "2026-01-01T00:00:00Z"}}}));
    refused(json!({"metadata": {"finalizers": ["orphan"]}}));
    // Removing the service account would also remove the next check.
    refused(json!({"spec": {"serviceAccount": null}}));
    refused(json!({"spec": null}));
    assert_refused(&tenant.tries(&["delete", CE, &made.name], ""), &refusal("p43"));
    assert_refused(
        &tenant.tries(&["delete", CE, &made.name, "--cascade=orphan"], ""),
        &refusal("p43"),
    );
    for harmless in [
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"metadata": {"annotations": {"example.com/a": "b"}}}),
    ] {
        let answer = tenant.merges(CE, &made.name, &harmless);
        assert!(answer.is_ok(), "{harmless}: {answer:?}");
    }
    // An annotation of the policy may be neither changed nor removed.
    let mut wanted = extension("p43-notes", "boss", "boss");
    wanted["metadata"]["annotations"] = json!({ACCEPT: "sha256:a"});
    let made = Made::new(&tenant.cluster, CE, &wanted);
    for value in [json!("sha256:b"), json!(null)] {
        let change = json!({"metadata": {"annotations": {ACCEPT: value}}});
        assert_refused(&tenant.merges(CE, &made.name, &change), &refusal("p43"));
    }
    // The controller marks an orphaning deletion, whatever became of the account.
    let finalizers = ("olm.operatorframework.io", "clusterextensions/finalizers");
    tenant.grant("update", finalizers, Some(&made.name), None);
    let mark = json!({"metadata": {"annotations": {ORPHANED: "2026-01-01T00:00:00Z"}}});
    let merges = || tenant.merges(CE, &made.name, &mark);
    wait::done("with the controller's right it is marked", SOON, merges).await;
}

// P44
#[tokio::test(flavor = "multi_thread")]
async fn the_right_to_use_an_account_counts_where_it_was_given() {
    let one = Person::installer("p44-one").await;
    let accounts = ("", "serviceaccounts");
    one.grant("use", accounts, Some("mine"), Some("default"));
    let wanted = extension("p44-owner", "default", "mine");
    one.is_admitted("use by name", wanted.clone()).await;
    assert_refused(&one.asks(&extension("p44", "default", "other")), &refusal("p44-one"));
    assert_refused(&one.asks(&extension("p44", "boss", "mine")), &refusal("p44-one"));
    one.tries(&["create", "-f", "-"], &wanted.to_string()).expect("the owner creates it");
    for change in [
        json!({"spec": {"source": {"catalog": {"version": "1.0.0"}}}}),
        json!({"metadata": {"annotations": {ACCEPT: "sha256:a"}}}),
    ] {
        let answer = one.merges(CE, "p44-owner", &change);
        assert!(answer.is_ok(), "{change}: {answer:?}");
    }
    one.tries(&["delete", CE, "p44-owner", "--wait=false"], "").expect("the owner deletes it");

    let editor = Person::installer("p44-editor").await;
    editor.bind("edit", Some("default"));
    editor.is_admitted("edit in the namespace", extension("p44", "default", "other")).await;
    assert_refused(&editor.asks(&extension("p44", "boss", "mine")), &refusal("p44-editor"));

    let admin = Person::with_role("p44-admin", "cluster-admin").await;
    admin.is_admitted("a cluster administrator", extension("p44", "boss", "boss")).await;
    let made = Made::new(&admin.cluster, CE, &extension("p44-admin", "boss", "boss"));
    let change = json!({"spec": {"source": {"catalog": {"version": "1.0.0"}}}});
    admin.merges(CE, &made.name, &change).expect("a cluster administrator changes what there is");
}

/// An owner that exists, or has another UID than what is there.
fn owner(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": name,
        "uid": uid})
}

// deploying.md 6.1: an extension that another object owns goes with it
#[tokio::test(flavor = "multi_thread")]
async fn an_extension_goes_with_the_object_that_owns_it() {
    let admin = Person::with_role("p44-owning", "cluster-admin").await;
    let plane = admin.cluster.plane;
    plane.create(&objects::role("p44-platform", None, &json!([])));
    let uid = ["get", "clusterrole", "p44-platform", "-o", "jsonpath={.metadata.uid}"];
    let uid = plane.kubectl(&uid);
    let mut wanted = extension("p44-owned", "boss", "boss");
    wanted["metadata"]["ownerReferences"] = json!([owner("p44-platform", &uid)]);
    let made = Made::new(&admin.cluster, CE, &wanted);
    plane.kubectl(&["delete", "clusterrole", "p44-platform"]);
    olm_test::wait::until("it is collected", olm_test::extension::COLLECTED, || async {
        match plane.try_kubectl(&["get", CE, &made.name, "-o", "json"], "") {
            Err(text) if text.contains("not found") => Ok(()),
            // Its finalizers are the controller's business.
            Ok(found) if found.contains("\"deletionTimestamp\"") => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

// deploying.md 6.1: an owner that does not exist is a deletion
#[tokio::test(flavor = "multi_thread")]
async fn nobody_names_an_owner_of_an_extension_that_is_not_theirs() {
    let tenant = Person::installer("p43-owner").await;
    let plane = tenant.cluster.plane;
    let uid = ["get", "clusterrole", INSTALLER, "-o", "jsonpath={.metadata.uid}"];
    let uid = plane.kubectl(&uid);
    let mut wanted = extension("p43-owner", "boss", "boss");
    wanted["metadata"]["ownerReferences"] = json!([owner(INSTALLER, &uid)]);
    let made = Made::new(&tenant.cluster, CE, &wanted);
    let merges = |owners: Value| {
        tenant.merges(CE, &made.name, &json!({"metadata": {"ownerReferences": owners}}))
    };
    let mut controls = owner(INSTALLER, &uid);
    controls["controller"] = json!(true);
    for owners in [
        json!([owner(INSTALLER, &uid), owner("none-such", "5a1ffbd1-2e0b-4c8d-b6f5-7d3f0a8f1c55")]),
        json!([owner("none-such", &uid)]),
        json!([controls]),
    ] {
        assert_refused(&merges(owners), &refusal("p43-owner"));
    }
    let mut blocks = owner(INSTALLER, &uid);
    blocks["blockOwnerDeletion"] = json!(false);
    for owners in [json!([blocks]), json!(null)] {
        let answer = merges(owners.clone());
        assert!(answer.is_ok(), "{owners}: {answer:?}");
    }
    // Who calls himself so is not the garbage collector of an extension without owner.
    let collector = "--as=system:serviceaccount:kube-system:generic-garbage-collector";
    let deleted = plane.try_kubectl(&[collector, "delete", CE, &made.name], "");
    assert_refused(
        &deleted,
        &refusal("system:serviceaccount:kube-system:generic-garbage-collector"),
    );
}

// P51
#[tokio::test(flavor = "multi_thread")]
async fn who_approves_and_who_uses_the_account_may_be_two() {
    let approver = Person::installer("p51-approver").await;
    let extensions = ("olm.operatorframework.io", "clusterextensions");
    approver.grant("approve", extensions, Some("p51"), None);
    let user = Person::installer("p51-user").await;
    user.grant("use", ("", "serviceaccounts"), Some("mine"), Some("default"));
    let wanted = extension("p51", "default", "mine");
    user.is_admitted("use by name", wanted.clone()).await;
    let made = Made::new(&user.cluster, CE, &wanted);
    let mut second = extension("p51-new", "default", "mine");
    second["metadata"]["annotations"] = json!({APPROVE: "1.0.0"});
    // The API server takes up one policy after the other.
    let asks = || user.asks(&second);
    let what = "the policy on approvals is in force";
    wait::refused(what, SOON, asks, "may not approve").await;
    let approve = json!({"metadata": {"annotations": {APPROVE: "1.0.0"}}});
    let denied = "may not approve versions of ClusterExtension \"p51\": grant verb \"approve\"";
    assert_refused(&user.merges(CE, &made.name, &approve), denied);
    let merges = || approver.merges(CE, &made.name, &approve);
    wait::done("the approver may approve", SOON, merges).await;
    let other = json!({"spec": {"source": {"catalog": {"version": "1.0.0"}}}});
    assert_refused(&approver.merges(CE, &made.name, &other), &refusal("p51-approver"));
    let withdrawn = json!({"metadata": {"annotations": {APPROVE: null}}});
    assert_refused(&user.merges(CE, &made.name, &withdrawn), "may not approve");
}

// P52
#[tokio::test(flavor = "multi_thread")]
async fn the_default_account_is_used_by_those_who_may() {
    let tenant = Person::installer("p52").await;
    let accounts = ("", "serviceaccounts");
    tenant.grant("use", accounts, Some("mine"), Some("default"));
    let named = extension("p52", "default", "mine");
    let mut nameless = extension("p52-nameless", "default", "mine");
    nameless["spec"]["serviceAccount"] = json!(null);
    tenant.is_admitted("without default account, nothing installs it", nameless.clone()).await;
    let policy =
        olm_test::paths::repository().join("config/components/default-account/policy.yaml");
    let policy = policy.to_string_lossy();
    let plane = tenant.cluster.plane;
    plane.kubectl(&["apply", "--server-side", "-f", &policy]);
    tenant.is_refused("created so", nameless.clone()).await;
    let made = Made::new(&tenant.cluster, CE, &named);
    let cleared = json!({"spec": {"serviceAccount": null}});
    let text = "may not use the default service account \"olmv1-system/olm-default-installer\"";
    assert_refused(&tenant.merges(CE, &made.name, &cleared), text);
    let change = json!({"spec": {"source": {"catalog": {"version": "1.0.0"}}}});
    tenant
        .merges(CE, &made.name, &change)
        .expect("an extension that names an account is no business of this policy");
    let other = Made::new(&tenant.cluster, CE, &nameless);
    assert_refused(&tenant.merges(CE, &other.name, &change), text);
    let taken = json!({"spec": {"serviceAccount": {"name": "mine"}}});
    assert_refused(&tenant.merges(CE, &other.name, &taken), text);
    assert_refused(&tenant.tries(&["delete", CE, &other.name], ""), text);
    tenant.grant("use", accounts, Some("olm-default-installer"), Some("olmv1-system"));
    let mut third = nameless.clone();
    third["metadata"]["name"] = json!("p52-third");
    tenant.is_admitted("with the right on it", third).await;
    plane.kubectl(&["delete", "-f", &policy]);
}
