//! What users may do to a revision, whose objects a service account applies.

use serde_json::{Value, json};

use super::{Made, Person, assert_refused, object_set, recorded, refusal};

const COS: &str = "clusterobjectset";
const ACCOUNTS: (&str, &str) = ("", "serviceaccounts");

/// Returns a user who may write revisions.
async fn writer(name: &str) -> Person {
    let role = format!("{name}-writer");
    let cluster = olm_test::cluster::shared().await;
    let rules = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": role}, "rules": [{
            "apiGroups": ["olm.operatorframework.io"], "resources": ["clusterobjectsets"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]}]});
    let plane = cluster.plane;
    plane.kubectl_with_input(&["apply", "--server-side", "-f", "-"], &rules.to_string());
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
    let made =
        Made::new(&writer.cluster, COS, &object_set("p46-change", &recorded("default", "mine")));
    let owner = |controller: Value| {
        json!({"metadata": {"ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1",
            "kind": "ClusterExtension", "name": "theirs", "uid": "1-2-3",
            "controller": controller}]}})
    };
    let note = |key: &str, value: &str| json!({"metadata": {"annotations": {format!("{key}.olm.operatorframework.io/x"): value}}});
    let account = |namespace, name| json!({"metadata": {"annotations": recorded(namespace, name)}});
    for change in [
        json!({"spec": {"lifecycleState": "Archived"}}),
        json!({"metadata": {"labels": {"olm.operatorframework.io/owner-name": "theirs"}}}),
        owner(json!(true)),
        owner(json!(null)),
        account("default", "yours"),
        json!({"metadata": {"annotations": null}}),
        note("policy", "y"),
    ] {
        let answer = writer.merges(COS, &made.name, &change);
        assert_refused(&answer, &refusal("p46-change"));
    }
    for harmless in [note("else", "y"), json!({"metadata": {"labels": {"a": "b"}}})] {
        let answer = writer.merges(COS, &made.name, &harmless);
        assert!(answer.is_ok(), "{harmless}: {answer:?}");
    }
    writer.grant("use", ACCOUNTS, Some("mine"), Some("default"));
    let archive = json!({"spec": {"lifecycleState": "Archived"}});
    olm_test::wait::until("with the right it is archived", super::STEP, || async {
        writer.merges(COS, &made.name, &archive)
    })
    .await;
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
    olm_test::wait::until("with both rights it is his own", super::STEP, || async {
        writer.merges(COS, &made.name, &archive)
    })
    .await;
}
