//! Intended differences from upstream while reading and rendering: what upstream makes of a bundle,
//! as data, and what we make of it. Source: rendering.md section 8.

use rstest::rstest;
use serde_json::{Value, json};

use crate::bundle::Files;
use crate::bundle::fixture::{csv, with};
use crate::error::Chain;
use crate::render::*;

const CSV: &str = "manifests/csv.yaml";
const OTHER: &str = "manifests/x.yaml";
const PROPERTIES: &str = "metadata/properties.yaml";

/// Returns the first object of a kind, or why there is none.
fn ours(files: &Files, kind: &str) -> Result<Value, String> {
    let bundle = Bundle::from_files(files).map_err(|error| Chain(&error).to_string())?;
    let options = RenderOptions {
        install_namespace: "ops".to_owned(),
        targets: vec![String::new()],
        role_placement: RolePlacement::default(),
        deployment: None,
        certificates: None,
    };
    let rendered = render(&bundle, &options).map_err(|error| Chain(&error).to_string())?;
    let found = rendered.objects.into_iter().find(|object| object.kind() == kind);
    Ok(found.map_or(Value::Null, Object::into_value))
}

fn deployment(pod: &str, more: &str) -> String {
    csv(&format!(
        "{{install: {{spec: {{deployments: [{{name: d, spec: {{template: {{spec: {pod}{more}}}}}}}]}}}}}}"
    ))
}

/// The Deployment `d` with this pod and these annotations of the ClusterServiceVersion.
fn rendered_deployment(pod: &Value, properties: Option<&str>) -> Value {
    let mut annotations = json!({"olm.targetNamespaces": "", "olm.operatorNamespace": "ops"});
    if let Some(properties) = properties {
        annotations["olm.properties"] = properties.into();
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "ops"},
        "spec": {
            "revisionHistoryLimit": 1,
            "template": {"metadata": {"annotations": annotations}, "spec": pod},
        },
    })
}

// Upstream fails later, when the API server refuses the objects.
#[rstest]
#[case::r6("CustomResourceDefinition", with(&[(OTHER,
        "{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition, \
          metadata: {name: x.example.com}, spec: {group: example.com, version: v1}}")]),
    Ok(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "x.example.com"}, "spec": {"group": "example.com"}})),
    Err("unsupported bundle: custom resource definition \"x.example.com\" has apiVersion \
         \"apiextensions.k8s.io/v1beta1\", which no supported cluster serves"))]
#[case::r7_version("Service", with(&[(OTHER, "{kind: Service, metadata: {name: x}}")]),
    Ok(json!({"kind": "Service", "metadata": {"name": "x", "namespace": "ops"}})),
    Err("error parsing objects in \"manifests/x.yaml\": Object 'apiVersion' is missing in Service \
         \"x\""))]
#[case::r7_name("Secret", with(&[(OTHER,
        "{apiVersion: v1, kind: Secret, metadata: {generateName: x}}")]),
    Ok(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "ops"}})),
    Err("bundle manifest of kind Secret in \"manifests/x.yaml\" has no name"))]
#[case::r8("Deployment", with(&[("manifests/z.yaml", &deployment("{a: 1}", ""))]),
    Ok(rendered_deployment(&json!({}), None)),
    Err("more than one ClusterServiceVersion found in \"manifests\": \"manifests/csv.yaml\", \
         \"manifests/z.yaml\""))]
#[case::r9("VerticalPodAutoscaler", with(&[(OTHER,
        "{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: x}}")]),
    Ok(json!({"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "x"}})),
    Ok(json!({"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "x", "namespace": "ops"}})))]
#[case::r13_number("Deployment", with(&[(CSV, &deployment("{}", "")), (PROPERTIES,
        "properties: [{type: olm.maxOpenShiftVersion, value: 4.20}]")]),
    Ok(rendered_deployment(&json!({}),
        Some(r#"[{"type":"olm.maxOpenShiftVersion","value":4.2}]"#))),
    Ok(rendered_deployment(&json!({}),
        Some(r#"[{"type":"olm.maxOpenShiftVersion","value":4.20}]"#))))]
#[case::r13_null("Deployment", with(&[(CSV, &deployment("{}", "")),
        (PROPERTIES, "dependencies: []")]),
    Ok(rendered_deployment(&json!({}), Some("null"))),
    Ok(rendered_deployment(&json!({}), None)))]
#[case::r14("Deployment", with(&[(CSV,
        &deployment("{containers: [{name: c, newer: 1}]}", ", containers: []"))]),
    Ok(rendered_deployment(&json!({"containers": [{"name": "c"}]}), None)),
    Ok(rendered_deployment(&json!({"containers": [{"name": "c", "newer": 1}]}), None)))]
#[case::r17("Deployment", with(&[(CSV,
        &deployment("{}", "").replacen("spec: {<<: {", "spec: {keywords: 1, <<: {", 1))]),
    Err("json: cannot unmarshal number into Go struct field \
         ClusterServiceVersionSpec.spec.keywords of type []string"),
    Ok(rendered_deployment(&json!({}), None)))]
fn we_differ_from_upstream(
    #[case] kind: &str,
    #[case] files: Files,
    #[case] upstream: Result<Value, &str>,
    #[case] want: Result<Value, &str>,
) {
    let want = want.map_err(str::to_owned);
    assert_eq!(ours(&files, kind), want);
    assert_ne!(want, upstream.map_err(str::to_owned));
}
