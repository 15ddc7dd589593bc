//! The sample bundle of the tests, and changes to it.

use super::{Bundle, BundleError, Files, InstallMode, mode};
use crate::error::Chain;

/// Returns the files of `testdata/bundle/sample`.
pub(crate) fn sample() -> Files {
    macro_rules! files {
        ($($path:literal),* $(,)?) => {
            [$(($path, include_bytes!(concat!("../testdata/bundle/sample/", $path)).as_slice())),*]
        };
    }
    files![
        "manifests/example.com_kettles.yaml",
        "manifests/extras.yaml",
        "manifests/kettle.clusterserviceversion.yaml",
        "manifests/twice.json",
        "manifests/vpa.yaml",
        "metadata/annotations.yaml",
        "metadata/properties.yaml",
    ]
    .into_iter()
    .map(|(path, content)| (path.to_owned(), content.to_vec()))
    .collect()
}

/// Returns the smallest bundle that loads and renders, to nothing.
pub(crate) fn minimal() -> Files {
    files(&[
        (
            "metadata/annotations.yaml",
            "annotations: {operators.operatorframework.io.bundle.package.v1: pot}",
        ),
        ("manifests/csv.yaml", &csv("{}")),
    ])
}

/// Returns a ClusterServiceVersion `pot.v1` that supports AllNamespaces, with more of its spec.
pub(crate) fn csv(spec: &str) -> String {
    csv_of("[{type: AllNamespaces, supported: true}]", spec)
}

/// Returns a ClusterServiceVersion with the given install modes and more of its spec.
pub(crate) fn csv_of(modes: &str, spec: &str) -> String {
    format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n\
         metadata: {{name: pot.v1}}\nspec: {{<<: {spec}, installModes: {modes}}}\n"
    )
}

/// Returns the install modes of these letters, which are supported.
pub(crate) fn modes(letters: &str) -> Vec<InstallMode> {
    let mode = |letter| match letter {
        'A' => mode::ALL_NAMESPACES,
        'O' => mode::OWN_NAMESPACE,
        'S' => mode::SINGLE_NAMESPACE,
        _ => mode::MULTI_NAMESPACE,
    };
    let mode = |letter| InstallMode { mode: mode(letter).to_owned(), supported: true };
    letters.chars().map(mode).collect()
}

pub(crate) fn files(entries: &[(&str, &str)]) -> Files {
    let entries = entries.iter();
    entries.map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec())).collect()
}

/// Returns the minimal bundle with files added or replaced.
pub(crate) fn with(entries: &[(&str, &str)]) -> Files {
    let mut all = minimal();
    all.extend(files(entries));
    all
}

/// Loads a bundle that must load.
pub(crate) fn load(files: &Files) -> Bundle {
    Bundle::from_files(files).map_err(|error| text(&error)).unwrap()
}

/// Returns why a bundle does not load.
pub(crate) fn refusal(files: &Files) -> String {
    text(&Bundle::from_files(files).unwrap_err())
}

fn text(error: &BundleError) -> String {
    Chain(error).to_string()
}
