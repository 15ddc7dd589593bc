//! Paths of the checkout, the built programs and the shared test data.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// Returns the root of the checkout.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the test crate stands in the checkout")
        .to_path_buf()
}

/// Returns the folder of shared test data: `$OLM_SHARED`, by default `../shared` beside the
/// checkout; a relative path counts from the checkout.
pub fn shared_data() -> PathBuf {
    let folder = shared_data_or(PathBuf::new());
    assert!(
        folder.is_dir(),
        "no test data: set OLM_SHARED to the folder that holds vectors and bundles"
    );
    folder
}

/// The same, or another folder where that is not there.
pub fn shared_data_or(other: PathBuf) -> PathBuf {
    let named = std::env::var_os("OLM_SHARED").unwrap_or_else(|| "../shared".into());
    let folder = repository().join(named);
    if folder.is_dir() { folder } else { other }
}

/// Returns what is in a folder, by name.
pub fn inside(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir();
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut inside: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    inside.sort();
    inside
}

/// Returns the files in a folder, and below those folders in it that are to be entered.
pub fn below(folder: &Path, enter: fn(&Path) -> bool) -> Vec<PathBuf> {
    let (folders, mut files): (Vec<_>, Vec<_>) =
        inside(folder).into_iter().partition(|path| path.is_dir());
    let entered = folders.iter().filter(|path| enter(path));
    files.extend(entered.flat_map(|path| below(path, enter)));
    files
}

/// Says whether the name of a path ends like this.
pub fn ends(path: &Path, endings: &[&str]) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    endings.iter().any(|ending| name.ends_with(ending))
}

/// Reads a YAML file of the checkout that has one document.
pub fn yaml(file: impl AsRef<Path>) -> serde_json::Value {
    let file = repository().join(file);
    let read = std::fs::read_to_string(&file).map_err(|error| error.to_string());
    let read = read.and_then(|text| olm_core::yaml::to_json(&text).map_err(|it| it.to_string()));
    let mut documents = read.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert_eq!(documents.len(), 1, "{}", file.display());
    documents.remove(0)
}

/// Reads the rows of a table of the checkout, which is a YAML list.
pub fn rows<T: DeserializeOwned>(file: impl AsRef<Path>) -> Vec<T> {
    let name = file.as_ref().display();
    let rows = serde_json::from_value(yaml(&file));
    let rows: Vec<T> = rows.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(!rows.is_empty(), "{name} is empty");
    rows
}

/// Returns a text with what its placeholders, names in braces, stand for.
pub fn filled(text: &str, with: &[(&str, &str)]) -> String {
    let fill =
        |text: String, (name, value): &(&str, &str)| text.replace(&format!("{{{name}}}"), value);
    with.iter().fold(text.to_owned(), fill)
}

/// Reads what a YAML file of the checkout has under a key, with what its placeholders stand for.
pub fn fixture<T: DeserializeOwned>(file: &str, key: &str, with: &[(&str, &str)]) -> T {
    let text = filled(&yaml(file)[key].to_string(), with);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}, {key}: {error}"))
}

/// Returns the path of a program in the profile folder of the running test.
pub fn built(program: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    test.parent()
        .and_then(Path::parent)
        .expect("tests run from target/<profile>/deps")
        .join(program)
}

/// Returns the path of the controller: below `$OLM_IMAGE_ROOT`, the unpacked image, if that is set,
/// else of the profile of the running test.
pub fn controller() -> PathBuf {
    std::env::var_os("OLM_IMAGE_ROOT").map_or_else(
        || built("olm-controller"),
        |root| repository().join(root).join("olm-controller"),
    )
}

/// Returns the `local-cluster` program: `$LOCAL_CLUSTER`, by default `target/local-cluster`.
pub fn local_cluster() -> PathBuf {
    std::env::var_os("LOCAL_CLUSTER")
        .map_or_else(|| repository().join("target/local-cluster"), PathBuf::from)
}
