//! What the data beside the checkout decides: answers of upstream, tables of other projects, real
//! bundles and a real catalog, from `OLM_SHARED` (by default `../shared`).

mod bundles;
mod crd_safety;
mod crds;
mod foreign;
mod rbac;
mod render;
mod vectors;

use std::fs::File;
use std::io::Read as _;

use flate2::read::GzDecoder;
use olm_test::paths::shared_data;
use olm_test::prelude::*;

/// Reads the packed documents in a folder of vectors, each with the name of its file.
fn packed(folder: &str) -> impl Iterator<Item = (String, Value)> {
    paths::inside(&shared_data().join("vectors").join(folder)).into_iter().map(|path| {
        let mut text = String::new();
        let file = File::open(&path).expect("a file");
        GzDecoder::new(file).read_to_string(&mut text).expect("it is packed");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name, serde_json::from_str(&text).expect("JSON"))
    })
}

/// Reads a file of the shared data.
fn shared_text(path: &str) -> String {
    let path = shared_data().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads the rows of a file of the shared data, one JSON document a line.
fn rows(path: &str) -> Vec<Value> {
    let text = shared_text(path);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).expect("a row is JSON")).collect()
}

/// Returns a member that must be text.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} is no text in {value}"))
}
