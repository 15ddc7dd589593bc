//! Which overlays check who names a service account.

use olm_test::prelude::*;

use crate::overlays::{render, render_text};

const POLICIES: [&str; 5] = [
    "clusterextension-approve",
    "clusterextension-serviceaccount-use",
    "clusterobjectset-serviceaccount-use",
    "olm-crd-deletion",
    "olm-name-length",
];
const DEFAULT_ACCOUNT: &str = "clusterextension-default-account";

/// Returns the names of the policies that are bound to deny, sorted.
fn bound(objects: &[Value]) -> Vec<&str> {
    let of = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let mut names: Vec<&str> = of("ValidatingAdmissionPolicy")
        .filter(|policy| policy["spec"]["failurePolicy"] == "Fail")
        .filter_map(|policy| policy["metadata"]["name"].as_str())
        .filter(|name| {
            of("ValidatingAdmissionPolicyBinding").any(|binding| {
                binding["spec"]["policyName"] == *name
                    && binding["spec"]["validationActions"][0] == "Deny"
            })
        })
        .collect();
    names.sort_unstable();
    names
}

/// Returns the controller arguments for the extension half.
fn arguments(objects: &[Value]) -> Vec<&str> {
    let deployment = objects.iter().find(|object| {
        object["kind"] == "Deployment"
            && object["metadata"]["name"] == "operator-controller-controller-manager"
    });
    let container = &deployment.expect("a Deployment")["spec"]["template"]["spec"]["containers"][0];
    let args = container["args"].as_array().expect("arguments");
    args.iter().filter_map(Value::as_str).collect()
}

// deploying.md 6.1, 6.2
#[test]
fn every_overlay_but_upstreams_asks_who_names_an_account() {
    for (overlay, policies, flag) in [
        ("default", &POLICIES[..], "--account-policy=require"),
        ("openshift", &POLICIES, "--account-policy=require"),
        ("upstream-compatible", &[], "--account-policy=off"),
    ] {
        let objects = render(overlay);
        assert_eq!(bound(&objects), policies, "{overlay}");
        assert!(arguments(&objects).contains(&flag), "{overlay}");
    }
}

// deploying.md 6.3
#[test]
fn the_component_with_the_default_account_asks_who_uses_it() {
    let up = "../../config";
    let text =
        format!("resources: [{up}/default]\ncomponents: [{up}/components/default-account]\n");
    let objects = render_text(&text);
    assert!(bound(&objects).contains(&DEFAULT_ACCOUNT));
    let flag = "--default-service-account=olmv1-system/olm-default-installer";
    assert!(arguments(&objects).contains(&flag));
    let accounts = objects.iter().filter(|object| object["kind"] == "ServiceAccount");
    let mut names = accounts.map(|account| &account["metadata"]["name"]);
    assert!(names.any(|name| name == "olm-default-installer"));
}
