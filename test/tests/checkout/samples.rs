//! The samples in `config/samples` do what their comments say. A test on the control plane checks
//! that the API server accepts them.

use std::collections::BTreeMap;
use std::path::Path;

use olm_api::{ClusterCatalog, ClusterExtension};
use olm_core::catalog::{Content, read};
use olm_core::error::Chain;
use olm_core::resolve::{
    Catalog, Environment, Installed, Options, Request, UpdatePolicy, Warning, resolve,
};
use olm_test::paths;
use serde_json::Value;

/// Reads a sample, which is one document.
fn sample(name: &str) -> Value {
    paths::yaml(Path::new("config/samples").join(name))
}

/// Returns the bundle that a sample resolves to, from the sample catalog, and whether by force.
fn resolved(name: &str, installed: Option<&str>) -> (String, bool) {
    let extension: ClusterExtension = serde_json::from_value(sample(name)).unwrap();
    let filter = extension.spec.unwrap().source.catalog.unwrap();
    let catalog: ClusterCatalog = serde_json::from_value(sample("clustercatalog.yaml")).unwrap();
    let files = [("catalog.yaml", include_bytes!("samples/catalog.yaml").as_slice())];
    let content = Content::from_blobs(&read::read_catalog(files).unwrap());
    let catalogs = [Catalog {
        name: catalog.metadata.name.as_deref().unwrap(),
        labels: catalog.metadata.labels.clone().unwrap_or_default(),
        priority: catalog.spec.priority,
        enabled: true,
        problem: None,
        content: Some(&content),
    }];
    let installed = installed.map(|version| Installed {
        name: format!("argocd-operator.v{version}"),
        version: version.to_owned(),
        release: None,
    });
    let request = Request { filter, installed, ..Request::default() };
    let options = Options { updates: UpdatePolicy::MinorOnly, ..Options::default() };
    let resolution = resolve(&request, &catalogs, &Environment::default(), &options);
    match &resolution.result {
        Ok(selected) => {
            let forced = selected.warnings.contains(&Warning::ForcedStep);
            (selected.bundle.name.clone(), forced)
        }
        Err(error) => (Chain(error).to_string(), false),
    }
}

/// The expected results.
fn expected() -> Vec<(String, Option<String>, String, bool)> {
    paths::rows("test/tests/checkout/samples/expected.yaml")
}

#[test]
fn every_sample_gets_what_its_comment_says() {
    for (file, installed, version, forced) in expected() {
        let expected = (format!("argocd-operator.v{version}"), forced);
        assert_eq!(resolved(&file, installed.as_deref()), expected, "{file}, {installed:?}");
    }
}

// decision 22 and resolution.md 1.6: a version that is not a successor needs SelfCertified.
#[test]
fn only_self_certified_goes_back() {
    let (answer, _) = resolved("clusterextension_version.yaml", Some("0.9.0"));
    assert!(answer.contains("no bundles found"), "{answer}");
}

#[test]
fn every_extension_among_the_samples_is_expected() {
    let files = paths::inside(&paths::repository().join("config/samples")).into_iter();
    let names = files.map(|file| file.file_name().unwrap().display().to_string());
    let kinds: BTreeMap<String, Value> =
        names.map(|name| (name.clone(), sample(&name)["kind"].clone())).collect();
    let is_extension = |(_, kind): &(&String, &Value)| **kind == "ClusterExtension";
    let extensions: Vec<_> = kinds.iter().filter(is_extension).map(|(name, _)| name).collect();
    let expected = expected();
    let mut expected: Vec<_> = expected.iter().map(|(file, ..)| file).collect();
    expected.dedup();
    assert_eq!(extensions, expected);
    assert_eq!(extensions.len(), 5);
}
