//! Which service accounts are refused, and what waits for the policies.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::revision::Account;

fn account(text: &str) -> Account {
    let (namespace, name) = text.split_once('/').expect("<namespace>/<name>");
    Account { namespace: namespace.to_owned(), name: name.to_owned() }
}

// P50
#[rstest]
#[case::somebody("lamps/installer", None)]
#[case::all_of_a_namespace(
    "kube-system/x",
    Some("service account \"kube-system/x\" is reserved (--forbidden-service-accounts)")
)]
#[case::by_name(
    "flux-system/boss",
    Some("service account \"flux-system/boss\" is reserved (--forbidden-service-accounts)")
)]
#[case::beside_the_named_one("flux-system/other", None)]
#[case::namespace_in_part("kube-system-2/x", None)]
#[case::default("olmv1-system/default-installer", None)]
#[case::own(
    "elsewhere/olm",
    Some("service account \"elsewhere/olm\" is reserved: it is the controller's own")
)]
fn reserved_accounts_are_refused(#[case] named: &str, #[case] want: Option<&str>) {
    let patterns = ["kube-system/*", "olmv1-system/*", "flux-system/boss"];
    let reserved = Reserved {
        patterns: patterns.map(|text| text.parse().expect("a pattern")).into(),
        default: Some(account("olmv1-system/default-installer")),
    };
    let own = account("elsewhere/olm");
    let refused = reserved.check(&account(named), Some(&own)).err();
    assert_eq!(refused.map(|error| error.to_string()).as_deref(), want);
}

#[test]
fn the_own_account_is_refused_even_as_the_default() {
    let own = account("olmv1-system/olm");
    let reserved = Reserved { patterns: Vec::new(), default: Some(own.clone()) };
    assert_eq!(reserved.check(&own, Some(&own)), Err(ReservedAccount::Own(own.clone())));
    assert_eq!(reserved.check(&own, None), Ok(()));
}

#[rstest]
#[case("kube-system/*", true)]
#[case("a/b", true)]
#[case("kube-*/x", false)]
#[case("a/b*", false)]
#[case("*/*", false)]
#[case("/a", false)]
#[case("a/", false)]
#[case("a", false)]
#[case("a/b/c", false)]
fn patterns_are_a_namespace_and_a_name_or_all(#[case] text: &str, #[case] good: bool) {
    assert_eq!(text.parse::<AccountPattern>().is_ok(), good);
}

fn policy() -> Value {
    json!({"metadata": {"name": "p", "generation": 2},
        "spec": {"failurePolicy": "Fail"}, "status": {"observedGeneration": 2}})
}

fn binding() -> Value {
    json!({"metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny", "Audit"]}})
}

// P49
#[rstest]
#[case::as_shipped(json!({}), json!({}), true)]
#[case::fail_is_the_default(json!({"spec": {"failurePolicy": null}}), json!({}), true)]
#[case::fails_open(json!({"spec": {"failurePolicy": "Ignore"}}), json!({}), false)]
#[case::changed_and_not_observed(json!({"metadata": {"generation": 3}}), json!({}), false)]
#[case::never_observed(json!({"status": null}), json!({}), false)]
#[case::warns(json!({}), json!({"spec": {"validationActions": ["Warn", "Audit"]}}), false)]
#[case::of_another_policy(json!({}), json!({"spec": {"policyName": "q"}}), false)]
#[case::not_everywhere(
    json!({}), json!({"spec": {"matchResources": {"matchPolicy": "Equivalent"}}}), false)]
fn a_policy_is_in_force_when_it_denies_everywhere(
    #[case] policy_change: Value,
    #[case] binding_change: Value,
    #[case] want: bool,
) {
    let merged = |mut value: Value, change: Value| {
        merge(&mut value, change);
        value
    };
    let policy: ValidatingAdmissionPolicy =
        serde_json::from_value(merged(policy(), policy_change)).expect("a policy");
    let other: ValidatingAdmissionPolicyBinding =
        serde_json::from_value(json!({"metadata": {"name": "other"}})).expect("a binding");
    let binding = serde_json::from_value(merged(binding(), binding_change)).expect("a binding");
    assert_eq!(in_force(&policy, &[other, binding]), want);
    assert!(!in_force(&policy, &[]));
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

// deploying.md 6.2
#[rstest]
#[case::in_force(AccountPolicy::Require, true, false, false)]
#[case::new(AccountPolicy::Require, false, false, true)]
#[case::installed(AccountPolicy::Require, false, true, false)]
#[case::warned(AccountPolicy::Warn, false, false, false)]
#[case::off(AccountPolicy::Off, false, false, false)]
fn only_what_is_new_waits_and_only_when_asked_to(
    #[case] decided: AccountPolicy,
    #[case] in_force: bool,
    #[case] admitted_before: bool,
    #[case] want: bool,
) {
    assert_eq!(waits(decided, in_force, admitted_before), want);
}
