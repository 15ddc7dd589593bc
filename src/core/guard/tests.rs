//! Which service accounts are refused, and what waits for the policies.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use serde_json::{Value, json};

use super::*;
use crate::fixture::{cases, merge};
use crate::revision::Account;

const CASES: &str = include_str!("../testdata/guard/cases.yaml");

fn account(text: &str) -> Account {
    let (namespace, name) = text.split_once('/').expect("<namespace>/<name>");
    Account { namespace: namespace.to_owned(), name: name.to_owned() }
}

// P50
#[test]
fn reserved_accounts_are_refused() {
    for (named, want) in cases::<(&str, Option<&str>)>(CASES, "reserved_accounts_are_refused") {
        let patterns = ["kube-system/*", "olmv1-system/*", "flux-system/boss"];
        let reserved = Reserved {
            patterns: patterns.map(|text| text.parse().expect("a pattern")).into(),
            default: Some(account("olmv1-system/default-installer")),
        };
        let own = account("elsewhere/olm");
        let refused = reserved.check(&account(named), Some(&own)).err();
        assert_eq!(refused.map(|error| error.to_string()).as_deref(), want);
    }
}

#[test]
fn the_own_account_is_refused_even_as_the_default() {
    let own = account("olmv1-system/olm");
    let reserved = Reserved { patterns: Vec::new(), default: Some(own.clone()) };
    assert_eq!(reserved.check(&own, Some(&own)), Err(ReservedAccount::Own(own.clone())));
    assert_eq!(reserved.check(&own, None), Ok(()));
}

#[test]
fn patterns_are_a_namespace_and_a_name_or_all() {
    for (text, good) in cases::<(&str, bool)>(CASES, "patterns_are_a_namespace_and_a_name_or_all") {
        assert_eq!(text.parse::<AccountPattern>().is_ok(), good);
    }
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
#[test]
fn a_policy_is_in_force_when_it_denies_everywhere() {
    for (policy_change, binding_change, want) in
        cases::<(Value, Value, bool)>(CASES, "a_policy_is_in_force_when_it_denies_everywhere")
    {
        let merged = |mut value: Value, change: &Value| {
            merge(&mut value, change);
            value
        };
        let policy: ValidatingAdmissionPolicy =
            serde_json::from_value(merged(policy(), &policy_change)).expect("a policy");
        let other: ValidatingAdmissionPolicyBinding =
            serde_json::from_value(json!({"metadata": {"name": "other"}})).expect("a binding");
        let binding =
            serde_json::from_value(merged(binding(), &binding_change)).expect("a binding");
        assert_eq!(in_force(&policy, &[other, binding]), want);
        assert!(!in_force(&policy, &[]));
    }
}

// deploying.md 6.2
#[test]
fn only_what_is_new_waits_and_only_when_asked_to() {
    for (decided, in_force, admitted_before, want) in
        cases::<(&str, bool, bool, bool)>(CASES, "only_what_is_new_waits_and_only_when_asked_to")
    {
        assert_eq!(waits(decided.parse().unwrap(), in_force, admitted_before), want);
    }
}
