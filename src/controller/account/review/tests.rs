//! Tests for the evaluation of the API server's answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use olm_core::object::Object;
use olm_core::rbac::{BundleObjects, lines, missing};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::cluster::answering::{answering, refusal};

/// Returns a client of an API server that answers reviews as it is told, and how often it was asked
/// for one right.
fn server(
    rules: fn() -> Option<Value>,
    allows: fn(Value) -> Option<bool>,
) -> (Client, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let client = answering(move |request| {
        let lists = request.uri().path().ends_with("/selfsubjectrulesreviews");
        assert_eq!(request.headers().contains_key("impersonate-user"), lists);
        let mut review = request.body().clone();
        let status = if lists {
            rules()
        } else {
            count.fetch_add(1, Ordering::Relaxed);
            let allowed = allows(review["spec"]["resourceAttributes"].clone());
            allowed.map(|allowed| json!({"allowed": allowed}))
        };
        let Some(status) = status else { return refusal(403) };
        review["status"] = status;
        (201, review)
    });
    (client, asked)
}

async fn judged(client: Client, names: usize) -> Judgement {
    let objects: Vec<_> = (0..names)
        .map(|number| {
            json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("s{number}"), "namespace": "ns1"}})
        })
        .filter_map(Object::from_value)
        .collect();
    let account = "ns1/installer".parse().unwrap();
    let bundle = BundleObjects { name: "b", objects: &objects };
    let missing = |held: &Held<'_>| missing(&bundle, "ns1", &[], &[], held);
    judge(&client, &account, missing).await
}

fn told(incomplete: bool, verbs: &[&str]) -> Value {
    let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": verbs});
    json!({"incomplete": incomplete, "resourceRules": [rule], "nonResourceRules": []})
}

const CREATE: &str = "Namespace:\"ns1\" APIGroups:[] Resources:[secrets] Verbs:[create]";
const DELETE: &str =
    "Namespace:\"ns1\" APIGroups:[] Resources:[secrets] ResourceNames:[s0] Verbs:[delete]";

// applying.md 5.3: other authorizers
#[rstest]
#[case::everything_is_held(|| Some(told(false, &["create", "get", "patch", "delete"])), |_| Some(false), &[])]
#[case::denied(|| Some(told(false, &["get", "patch", "delete"])), |_| Some(false), &[CREATE])]
#[case::allowed_by_another(|| Some(told(false, &["get", "patch", "delete"])), |_| Some(true), &[])]
#[case::nobody_can_say(|| Some(told(false, &["get", "patch", "delete"])), |_| None, &[CREATE])]
#[case::incomplete_and_denied(|| Some(told(true, &["get", "patch", "delete"])), |_| Some(false), &[CREATE])]
#[case::incomplete_and_not_known(|| Some(told(true, &["get", "patch", "delete"])), |_| None, &[])]
#[case::refused_and_denied_one(|| None, |right: Value| Some(right["verb"] != "delete"), &[DELETE])]
#[case::refused_and_not_known(|| None, |_| None, &[])]
#[tokio::test]
async fn what_is_denied_is_missing(
    #[case] rules: fn() -> Option<Value>,
    #[case] allows: fn(Value) -> Option<bool>,
    #[case] want: &[&str],
) {
    let (client, _) = server(rules, allows);
    assert_eq!(lines(&judged(client, 1).await.missing), want);
}

// The rules were those of before a change, and what they lacked is asked for after it.
#[tokio::test]
async fn rights_that_change_meanwhile_are_asked_for_again() {
    static REVIEWS: AtomicUsize = AtomicUsize::new(0);
    let rules = || {
        let changed = REVIEWS.fetch_add(1, Ordering::Relaxed) >= 2;
        let verb = if changed { "create" } else { "delete" };
        Some(told(false, &["get", "patch", verb]))
    };
    let (client, _) = server(rules, |right: Value| Some(right["verb"] != "delete"));
    assert_eq!(lines(&judged(client, 1).await.missing), [DELETE]);
}

#[tokio::test]
async fn at_most_so_many_are_asked_for_one_by_one() {
    let (client, asked) = server(|| Some(told(false, &[])), |_| Some(false));
    let found = judged(client, 70).await;
    assert_eq!(asked.load(Ordering::Relaxed), MOST);
    // Three verbs on each by name, and one to create them: what RBAC says is enough.
    assert_eq!(found.missing.iter().count(), 211);

    let (client, asked) = server(|| Some(told(true, &[])), |_| Some(false));
    let found = judged(client, 70).await;
    assert_eq!(asked.load(Ordering::Relaxed), MOST);
    assert_eq!(found.missing.iter().count(), MOST, "the rest may be held");
}
