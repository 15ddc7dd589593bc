//! Intended differences from upstream (rendering.md section 8): what upstream v1.11 renders, and
//! what we render instead. R10 is about requests, and tested where they are made.

use std::collections::BTreeSet;

use serde_json::json;

use super::{find, identities, options};
use crate::bundle::Files;
use crate::bundle::fixture::{csv, load, with};
use crate::render::*;
use crate::revision::phases;

fn objects(files: &Files) -> Vec<Object> {
    render(&load(files), &options("")).unwrap().objects
}

// R2
#[test]
fn what_a_bundle_ships_and_needs_is_there_once() {
    let csv = csv("{install: {spec: {clusterPermissions: [
        {serviceAccountName: sa, rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]}]}}}");
    let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: sa}\n\
                   imagePullSecrets: [{name: mine}]\n";
    let files = with(&[("manifests/csv.yaml", &csv), ("manifests/sa.yaml", account)]);
    let ours = objects(&files);

    // Upstream: the generated service account and the manifest, and the revision is refused.
    let bundle = load(&files);
    let upstream = rbac::service_accounts(&bundle.csv, "ops").into_iter();
    let manifests = bundle.others.iter().map(|one| manifest::other(one, "ops"));
    let refused = phases(upstream.chain(manifests).collect()).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("duplicate object found in phases: identity"), "{refused}");

    let accounts: Vec<_> = ours.iter().filter(|object| object.kind() == "ServiceAccount").collect();
    assert_eq!(accounts.len(), 1);
    assert_eq!(accounts[0].0["imagePullSecrets"], json!([{"name": "mine"}]));
    assert!(phases(ours).is_ok());
}

// R14
#[test]
fn unknown_keys_go_at_the_levels_where_authors_put_them_and_stay_below() {
    let csv = csv("{install: {spec: {deployments: [{name: d, stray: 1, spec: {
        stray: 1, selector: {matchLabels: {a: b}},
        template: {stray: 1, metadata: {labels: {a: b}}, spec: {
            newer: 1, containers: [{name: c, image: i, newer: 1}]}}}}]}}}");
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
               metadata: {name: as.x.y}\n\
               spec: {stray: 1, group: x.y, scope: Namespaced, names: {kind: A, plural: as}, \
               versions: [{name: v1, served: true, storage: true, newer: 1}]}\n";
    let files = with(&[("manifests/csv.yaml", &csv), ("manifests/crd.yaml", crd)]);
    let objects = objects(&files);
    let deployment = &find(&objects, "Deployment").0["spec"];
    // Upstream drops all of these; we keep what a newer API may have.
    let pod = &deployment["template"]["spec"];
    let upstream = json!({"containers": [{"name": "c", "image": "i"}]});
    let ours = json!({"newer": 1, "containers": [{"name": "c", "image": "i", "newer": 1}]});
    assert_eq!(*pod, ours);
    assert_ne!(*pod, upstream);
    let version = &find(&objects, "CustomResourceDefinition").0["spec"]["versions"][0];
    assert_eq!(version["newer"], 1);
    // Both drop these.
    assert!(!Value::from(find(&objects, "Deployment").0.clone()).to_string().contains("stray"));
    let definition = find(&objects, "CustomResourceDefinition").0.clone();
    assert!(!Value::from(definition).to_string().contains("stray"));
}

// R15
#[test]
fn the_order_of_objects_never_varies() {
    let names = ["zeta", "alpha", "omega", "beta"];
    let permissions = |names: &[&str]| {
        let entries: Vec<_> = names
            .iter()
            .map(|name| format!("{{serviceAccountName: {name}, rules: [{{verbs: [get]}}]}}"))
            .collect();
        let csv = csv(&format!(
            "{{install: {{spec: {{clusterPermissions: [{}]}}}}}}",
            entries.join(", ")
        ));
        identities(&objects(&with(&[("manifests/csv.yaml", &csv)])))
    };
    let first = permissions(&names);
    // Upstream iterates over a map of service accounts: any order of these four. We sort them,
    // whatever the order of the file.
    let accounts = |all: &[String]| -> Vec<String> {
        let accounts = all.iter().filter(|one| one.starts_with("ServiceAccount"));
        accounts.cloned().collect()
    };
    let sorted: BTreeSet<_> = names.map(|name| format!("ServiceAccount.v1 ops/{name}")).into();
    assert_eq!(accounts(&first), Vec::from_iter(sorted));
    let reversed: Vec<_> = names.into_iter().rev().collect();
    assert_eq!(accounts(&permissions(&reversed)), accounts(&first));
}

// R17
#[test]
fn only_fields_that_are_used_have_a_type() {
    // Upstream: `json: cannot unmarshal number into Go struct field ...` for each of these.
    let unused = "{keywords: 5, maturity: [stable], provider: words, links: {a: b}, icon: 1, \
                   maintainers: yes, replaces: 1.0, relatedImages: 3, cleanup: never, \
                   install: {strategy: 7, spec: {clusterPermissions: [\
                   {serviceAccountName: sa, rules: [{verbs: [get]}]}]}}}";
    let files = with(&[("manifests/csv.yaml", &csv(unused))]);
    assert_eq!(find(&objects(&files), "ServiceAccount").name(), "sa");

    let used = csv("{install: {spec: {clusterPermissions: [{serviceAccountName: 7}]}}}");
    let refusal = crate::bundle::fixture::refusal(&with(&[("manifests/csv.yaml", &used)]));
    assert!(refusal.contains("serviceAccountName"), "{refusal}");
}
