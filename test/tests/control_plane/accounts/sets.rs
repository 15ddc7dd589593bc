//! What users may do to a revision, whose objects a service account applies.

use olm_test::prelude::*;

use super::{Made, Person, assert_refused, object_set, recorded, refusal};

const COS: &str = "clusterobjectset";
const ACCOUNTS: (&str, &str) = ("", "serviceaccounts");

/// Returns a user who may write revisions.
async fn writer(name: &str) -> Person {
    let role = format!("{name}-writer");
    let cluster = olm_test::cluster::shared().await;
    let rules = json!([{"apiGroups": ["olm.operatorframework.io"],
        "resources": ["clusterobjectsets"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]}]);
    cluster.plane.requests().apply(&objects::role(&role, None, &rules));
    let person = Person::with_role(name, &role).await;
    person.is_refused("the policies are in force", object_set(name, &json!({}))).await;
    person
}

// P46
#[tokio::test(flavor = "multi_thread")]
async fn a_revision_takes_the_right_on_its_account_and_without_one_on_all() {
    let halves = [
        json!({}),
        json!({"olm.operatorframework.io/service-account-name": "mine"}),
        json!({"olm.operatorframework.io/service-account-namespace": "default"}),
        json!({"olm.operatorframework.io/service-account-name": "mine",
            "olm.operatorframework.io/service-account-namespace": ""}),
    ];
    let one = writer("p46-one").await;
    one.grant("use", ACCOUNTS, Some("mine"), Some("default"));
    one.is_admitted("both annotations", object_set("p46", &recorded("default", "mine"))).await;
    let refused = one.asks(&object_set("p46", &recorded("boss", "boss")));
    assert_refused(
        &refused,
        "user \"p46-one\" may not use service account \"boss/boss\": grant verb \"use\" on \
         serviceaccounts",
    );
    for half in &halves {
        assert_refused(&one.asks(&object_set("p46", half)), "may not use all service accounts");
    }
    let all = writer("p46-all").await;
    all.grant("use", ACCOUNTS, None, None);
    for half in halves {
        all.is_admitted("all accounts", object_set("p46", &half)).await;
    }
}

// P46
#[tokio::test(flavor = "multi_thread")]
async fn a_revision_changes_its_account_owner_or_life_with_the_right_only() {
    let writer = writer("p46-change").await;
    let mut set = object_set("p46-change", &recorded("default", "mine"));
    set["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "example.com/v1", "kind": "Foo", "name": "foo", "uid": "4-5-6"}]);
    set["metadata"]["labels"] = json!({"olm.operatorframework.io/owner-name": "p46-ours"});
    let made = Made::new(&writer.cluster, COS, &set);
    let owner = |controller: Value| {
        json!({"metadata": {"ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1",
            "kind": "ClusterExtension", "name": "theirs", "uid": "1-2-3",
            "controller": controller}]}})
    };
    let note = |key: &str, value: &str| json!({"metadata": {"annotations": {format!("{key}.olm.operatorframework.io/x"): value}}});
    let record = |key: &str| json!({"metadata": {"annotations": {key: "9.9.9"}}});
    let account = |namespace, name| json!({"metadata": {"annotations": recorded(namespace, name)}});
    for change in [
        json!({"spec": {"lifecycleState": "Archived"}}),
        json!({"metadata": {"labels": {"olm.operatorframework.io/owner-name": "theirs"}}}),
        owner(json!(true)),
        owner(json!(null)),
        json!({"metadata": {"ownerReferences": null}}),
        account("default", "yours"),
        json!({"metadata": {"annotations": null}}),
        note("policy", "y"),
        record("olm.operatorframework.io/bundle-version"),
        record("olm.properties"),
    ] {
        let answer = writer.merges(COS, &made.name, &change);
        assert_refused(&answer, &refusal("p46-change"));
    }
    for harmless in [note("else", "y"), json!({"metadata": {"labels": {"a": "b"}}})] {
        let answer = writer.merges(COS, &made.name, &harmless);
        assert!(answer.is_ok(), "{harmless}: {answer:?}");
    }
    // The controller records what it installs, whatever became of the account.
    let finalizers = ("olm.operatorframework.io", "clusterextensions/finalizers");
    writer.grant("update", finalizers, Some("p46-ours"), None);
    let merges = || writer.merges(COS, &made.name, &record("olm.properties"));
    wait::done("with the controller's right it is recorded", SOON, merges).await;
    writer.grant("use", ACCOUNTS, Some("mine"), Some("default"));
    let archive = json!({"spec": {"lifecycleState": "Archived"}});
    let merges = || writer.merges(COS, &made.name, &archive);
    wait::done("with the right it is archived", SOON, merges).await;
    // It is none on an extension, also where a reference has the name and UID of that already.
    for (api_version, kind) in [
        ("olm.operatorframework.io/v1", "Theirs"),
        ("olm.operatorframework.io", "ClusterExtension"),
        ("example.com/v1", "ClusterExtension"),
    ] {
        let mut foreign = owner(json!(true));
        let reference = &mut foreign["metadata"]["ownerReferences"][0];
        reference["apiVersion"] = json!(api_version);
        reference["kind"] = json!(kind);
        let answer = writer.merges(COS, &made.name, &foreign);
        assert!(answer.is_ok(), "{foreign}: {answer:?}");
        assert_refused(
            &writer.merges(COS, &made.name, &owner(json!(true))),
            "may not make a ClusterObjectSet a revision of ClusterExtension \"theirs\": grant verb \
             \"update\" on clusterextensions/finalizers",
        );
    }
}

// P46
#[tokio::test(flavor = "multi_thread")]
async fn a_revision_of_another_account_takes_the_right_on_both() {
    let writer = writer("p46-both").await;
    let theirs = recorded("default", "theirs");
    let made = Made::new(&writer.cluster, COS, &object_set("p46-both", &theirs));
    writer.grant("use", ACCOUNTS, Some("mine"), Some("default"));
    writer.is_admitted("his own", object_set("p46-own", &recorded("default", "mine"))).await;
    let archive = json!({"metadata": {"annotations": recorded("default", "mine")},
        "spec": {"lifecycleState": "Archived"}});
    assert_refused(
        &writer.merges(COS, &made.name, &archive),
        "user \"p46-both\" may not use service account \"default/theirs\", which the \
         ClusterObjectSet has now: grant verb \"use\" on serviceaccounts",
    );
    writer.grant("use", ACCOUNTS, Some("theirs"), Some("default"));
    let merges = || writer.merges(COS, &made.name, &archive);
    wait::done("with both rights it is his own", SOON, merges).await;
}
