use rstest::rstest;
use serde_json::json;

use super::*;
use crate::bundle::fixture::{csv, load, with};
use crate::catalog::lint::Pinned;

const DEPENDENCIES: &str = "metadata/dependencies.yaml";
const PROPERTIES: &str = "metadata/properties.yaml";

fn image(text: &str) -> Result<Pinned, String> {
    if text.contains(' ') {
        return Err("invalid reference format".to_owned());
    }
    Ok(Pinned::Tag)
}

/// Returns what a catalog says of a bundle whose CSV has this `spec`, with one more file.
fn catalog(spec: &str, path: &str, content: &str) -> Findings {
    let mut files = with(&[("manifests/csv.yaml", &csv(spec))]);
    if !path.is_empty() {
        files.insert(path.to_owned(), content.as_bytes().to_vec());
    }
    in_catalog(&load(&files), &files, image).unwrap()
}

#[rstest]
#[case::version("{version: v1.1.1-57}", "", "", r#"version "v1.1.1-57": "#)]
#[case::no_version("{}", "", "", r#"version "": "#)]
#[case::empty_image(
    "{version: 1.0.0, relatedImages: [{name: a, image: ''}]}",
    "",
    "",
    "relatedImages[0]: image is empty"
)]
#[case::no_image(
    "{version: 1.0.0, relatedImages: [{name: a, image: invalid image}]}",
    "",
    "",
    r#""invalid image" is not an image reference: invalid reference format"#
)]
#[case::range_of_a_dependency(
    "{version: 1.0.0}",
    DEPENDENCIES,
    "dependencies: [{type: olm.package, value: {packageName: q, version: '>!0.2.0'}}]",
    "Could not parse Range"
)]
#[case::dependency_without_value(
    "{version: 1.0.0}",
    DEPENDENCIES,
    "dependencies: [{type: olm.gvk}]",
    "property 0 (olm.gvk.required) has no value"
)]
#[case::constraint(
    "{version: 1.0.0}",
    DEPENDENCIES,
    "dependencies: [{type: olm.constraint, value: {failureMessage: m, package: {name: q}}}]",
    "unknown field \"name\"; the field is packageName"
)]
#[case::printed_property(
    "{version: 1.0.0}",
    PROPERTIES,
    "properties: [{property: {type: color, value: red}}]",
    "property 0 has no type"
)]
#[case::openshift(
    "{version: 1.0.0}",
    PROPERTIES,
    "properties: [{type: olm.maxOpenShiftVersion, value: 4.20.1}]",
    "olm.maxOpenShiftVersion \"4.20.1\": "
)]
#[case::release(
    "{version: 1.0.0, release: 2}",
    "",
    "",
    "with a release the name must be \"pot-v1.0.0-2\""
)]
#[case::replaces_itself(
    "{version: 1.0.0, replaces: pot.v1}",
    "",
    "",
    "entry \"pot.v1\" replaces itself"
)]
fn what_a_catalog_refuses_is_an_error(
    #[case] spec: &str,
    #[case] path: &str,
    #[case] content: &str,
    #[case] want: &str,
) {
    let found = catalog(spec, path, content);
    assert_eq!(found.errors.len(), 1, "{found:?}");
    assert!(found.errors[0].starts_with(want), "{found:?}");
}

#[test]
fn a_sound_bundle_is_not_blamed() {
    let dependencies = "dependencies: [{type: olm.package, value: {packageName: q, version: '>=0.2.0'}}, \
         {type: olm.gvk, value: {group: q.example.com, version: v1, kind: Q}}]";
    assert_eq!(catalog("{version: 1.0.0}", DEPENDENCIES, dependencies), Findings::default());
}

/// Returns a bundle whose CSV has an annotation.
fn annotated(key: &str, value: &str) -> Files {
    let text = csv("{version: 1.0.0}")
        .replace("{name: pot.v1}", &format!("{{name: pot.v1, annotations: {{{key}: '{value}'}}}}"));
    with(&[("manifests/csv.yaml", &text)])
}

#[rstest]
#[case(">=0.1.0 <1.0.0", 0, 0)]
#[case(">v0.1.0", 1, 0)]
#[case(">=0.1.0", 0, 1)]
#[case(">=2.0.0 <1.0.0", 0, 1)]
fn the_range_of_a_csv_is_judged(
    #[case] range: &str,
    #[case] errors: usize,
    #[case] warnings: usize,
) {
    let files = annotated("olm.skipRange", range);
    let found = in_catalog(&load(&files), &files, image).unwrap();
    assert_eq!((found.errors.len(), found.warnings.len()), (errors, warnings), "{found:?}");
}

#[rstest]
#[case(
    "olm.skiprange",
    Some("annotation \"olm.skiprange\" is not read; did you mean \"olm.skipRange\"")
)]
#[case(
    "olm.skipRanges",
    Some("annotation \"olm.skipRanges\" is not read; did you mean \"olm.skipRange\"")
)]
#[case("olm.skipRange", None)]
#[case("olm.targetNamespaces", None)]
#[case("capabilities", None)]
fn misspelt_annotations_are_named(#[case] key: &str, #[case] want: Option<&str>) {
    let files = annotated(key, "<1.0.0");
    let found = doubts(&load(&files), &files);
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), Vec::from_iter(want));
}

#[test]
fn owned_versions_and_types_of_webhooks_that_nothing_knows_are_named() {
    let spec = "{install: {spec: {deployments: [{name: d}]}}, webhookdefinitions: \
        [{type: ValidatingWebhook, generateName: a.b.c, deploymentName: d}], \
        customresourcedefinitions: {owned: [{name: pots.example.com, version: v1alpha1}, \
        {name: pots.example.com, version: v1beta1}]}}";
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
        metadata: {name: pots.example.com}\nspec: {versions: [{name: v1beta1}]}\n";
    let files = with(&[("manifests/csv.yaml", &csv(spec)), ("manifests/crd.yaml", crd)]);
    insta::assert_snapshot!(doubts(&load(&files), &files).join("\n"), @r#"
    webhook "a.b.c" is left out: its type "ValidatingWebhook" is not one of ConversionWebhook, MutatingAdmissionWebhook, ValidatingAdmissionWebhook
    owned version "v1alpha1" of "pots.example.com" is not in the custom resource definition, which has: v1beta1
    "#);
}

/// Returns why an object is refused after one of its members was set; null removes nothing, but counts
/// as absent.
fn faults(mut object: Value, pointer: &str, value: &Value) -> Vec<String> {
    if let Some(member) = object.pointer_mut(pointer) {
        *member = value.clone();
    }
    let object = Object::from_value(object).unwrap();
    let about = format!("{} {}: ", object.kind(), quote(object.name()));
    let faults = refused([&object]).into_iter();
    faults.map(|fault| fault.strip_prefix(&about).unwrap().to_owned()).collect()
}

fn version(name: &str, storage: bool) -> Value {
    json!({"name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object"}},
        "subresources": {"status": {},
            "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
        "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a"}]})
}

fn crd() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "pots.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "pots", "kind": "Pot"}, "preserveUnknownFields": false,
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"service": {"name": "s", "namespace": "n"}}}},
            "versions": [version("v1", true), version("v1alpha1", false)]}})
}

#[rstest]
#[case("/spec/group", json!("example"), r#"group "example" is not a DNS subdomain with a dot"#)]
#[case("/spec/group", json!("pots.k8s.io"), r#"group "pots.k8s.io" needs annotation api-approved.kubernetes.io"#)]
#[case("/spec/names/kind", json!(null), r#"names.kind "" is missing or not a DNS label"#)]
#[case("/spec/names/plural", json!("Pots"), r#"the name must be "Pots.example.com", plural and group"#)]
#[case("/metadata/name", json!("pot.example.com"), r#"the name must be "pots.example.com", plural and group"#)]
#[case("/spec/scope", json!("Everywhere"), r#"scope "Everywhere" is not one of Cluster, Namespaced"#)]
#[case("/spec/preserveUnknownFields", json!(true), "preserveUnknownFields must be false")]
#[case("/spec/versions", json!(null), "versions is missing")]
#[case("/spec/versions", json!([]), "versions is missing")]
#[case("/spec/versions/1/name", json!("v1"), r#"version "v1" is given twice"#)]
#[case("/spec/versions/1/name", json!("1"), r#"version "1": the name is not a DNS label"#)]
#[case("/spec/versions/1/storage", json!(true), "exactly one version must have storage: true, not 2")]
#[case("/spec/versions/0/storage", json!(null), "exactly one version must have storage: true, not 0")]
#[case("/spec/versions/0/schema", json!(null), r#"version "v1": schema.openAPIV3Schema is missing"#)]
#[case("/spec/versions/0/schema/openAPIV3Schema/type", json!(null), r#"version "v1": the type of schema.openAPIV3Schema must be object"#)]
#[case("/spec/versions/0/subresources/scale/specReplicasPath", json!(null), r#"version "v1": subresources.scale.specReplicasPath must begin with .spec."#)]
#[case("/spec/versions/0/additionalPrinterColumns/0/type", json!("text"), r#"version "v1": additionalPrinterColumns[0]: type "text" is not one of boolean, date, integer, number, string"#)]
#[case("/spec/versions/0/additionalPrinterColumns/0/jsonPath", json!(""), r#"version "v1": additionalPrinterColumns[0]: jsonPath is missing"#)]
#[case("/spec/conversion/strategy", json!("webhook"), r#"strategy "webhook" is not one of None, Webhook"#)]
#[case("/spec/conversion/strategy", json!("None"), "conversion.webhook is only for strategy Webhook")]
#[case("/spec/conversion/webhook/conversionReviewVersions", json!(null), "conversion.webhook.conversionReviewVersions is missing: at least one of v1, v1beta1")]
#[case("/spec/conversion/webhook/conversionReviewVersions", json!(["v2"]), "conversion.webhook.conversionReviewVersions has none of v1, v1beta1")]
#[case("/spec/conversion/webhook/clientConfig/service", json!(null), "conversion.webhook.clientConfig needs either url or service")]
fn definitions_that_no_api_server_takes(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] want: &str,
) {
    assert_eq!(faults(crd(), "", &crd()), [""; 0]);
    let found = faults(crd(), pointer, &value);
    assert!(found.iter().any(|fault| fault == want), "{found:?}");
}

fn webhook() -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "m.example.com"}, "webhooks": [{"name": "m.example.com",
            "sideEffects": "None", "failurePolicy": "Fail", "matchPolicy": "Exact",
            "reinvocationPolicy": "Never", "timeoutSeconds": 30,
            "admissionReviewVersions": ["v1beta1"],
            "clientConfig": {"service": {"path": "/m", "port": 443}},
            "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "scope": "*",
                "apiVersions": ["v1"], "resources": ["pods", "*"]}]}]})
}

#[rstest]
#[case("name", json!("m.io"), r#"the name of webhook "m.io" has less than three parts"#)]
#[case("sideEffects", json!("Some"), r#"sideEffects "Some" is not one of None, NoneOnDryRun"#)]
#[case("sideEffects", json!(null), "sideEffects is missing: one of None, NoneOnDryRun")]
#[case("failurePolicy", json!("fail"), r#"failurePolicy "fail" is not one of Fail, Ignore"#)]
#[case("matchPolicy", json!("Any"), r#"matchPolicy "Any" is not one of Equivalent, Exact"#)]
#[case("reinvocationPolicy", json!("Always"), r#"reinvocationPolicy "Always" is not one of IfNeeded, Never"#)]
#[case("timeoutSeconds", json!(31), "timeoutSeconds 31 is not between 1 and 30")]
#[case("admissionReviewVersions", json!([]), "admissionReviewVersions is missing: at least one of v1, v1beta1")]
#[case("admissionReviewVersions", json!(["v2"]), "admissionReviewVersions has none of v1, v1beta1")]
#[case("clientConfig/service/path", json!("m"), r#"webhookPath "m" does not begin with "/""#)]
#[case("clientConfig/service/port", json!(0), "containerPort 0 is not between 1 and 65535")]
#[case("rules/0/operations", json!(["PATCH"]), r#"rules[0]: operation "PATCH" is not one of *, CONNECT, CREATE, DELETE, UPDATE"#)]
#[case("rules/0/operations", json!(["*", "CREATE"]), r#"rules[0]: operations has others beside "*""#)]
#[case("rules/0/apiGroups", json!([]), "rules[0]: apiGroups is empty")]
#[case("rules/0/apiVersions", json!([""]), "rules[0]: apiVersions has an empty one")]
#[case("rules/0/resources", json!(null), "rules[0]: resources is empty")]
#[case("rules/0/scope", json!("namespaced"), r#"rules[0]: scope "namespaced" is not one of *, Cluster, Namespaced"#)]
fn webhooks_that_no_api_server_takes(
    #[case] member: &str,
    #[case] value: Value,
    #[case] want: &str,
) {
    assert_eq!(faults(webhook(), "", &webhook()), [""; 0]);
    assert_eq!(faults(webhook(), &format!("/webhooks/0/{member}"), &value), [want]);
}

#[rstest]
#[case(
    "policy/v1beta1",
    "PodDisruptionBudget",
    "a",
    Some(r#"no supported Kubernetes serves it in "policy/v1beta1": use policy/v1"#)
)]
#[case(
    "extensions/v1beta1",
    "NetworkPolicy",
    "a",
    Some(r#"no supported Kubernetes serves it in "extensions/v1beta1": use networking.k8s.io/v1"#)
)]
#[case(
    "v1",
    "Role",
    "a",
    Some(r#"no supported Kubernetes serves it in "v1": use rbac.authorization.k8s.io/v1"#)
)]
#[case("policy/v1", "PodDisruptionBudget", "a", None)]
#[case("serving.knative.dev/v1", "Service", "a", None)]
#[case("monitoring.coreos.com/v1", "ServiceMonitor", "a", None)]
#[case("rbac.authorization.k8s.io/v1", "Role", "a:b", None)]
#[case(
    "rbac.authorization.k8s.io/v1",
    "Role",
    "a/b",
    Some(r#"the name must not be "." or ".." nor contain "/" or "%""#)
)]
#[case("v1", "Service", "a.b", Some("the name is not a DNS label"))]
#[case("v1", "ConfigMap", "A", Some("the name is not a DNS subdomain"))]
fn manifests_that_no_api_server_takes(
    #[case] api_version: &str,
    #[case] kind: &str,
    #[case] name: &str,
    #[case] want: Option<&str>,
) {
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    assert_eq!(faults(object.clone(), "", &object), Vec::from_iter(want));
}

#[test]
fn an_api_service_has_a_port() {
    let api = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.example.com"}, "spec": {"service": {"port": 443}}});
    let of = |port: i64| faults(api.clone(), "/spec/service/port", &json!(port));
    assert_eq!(of(0), ["containerPort 0 is not between 1 and 65535"]);
    assert_eq!(of(5443), [""; 0]);
}
