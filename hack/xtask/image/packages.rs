//! The crates that are linked into the program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

use super::output;

/// A crate.
#[derive(Debug, Clone)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    /// SPDX expression.
    pub(super) license: String,
    /// Folder of its files.
    pub(super) folder: PathBuf,
    /// Whether it comes from the registry of crates, not from this repository.
    pub(super) foreign: bool,
    /// Other crates it is linked with, by id.
    pub(super) links: BTreeSet<String>,
}

/// The program's own crate and everything linked with it, by cargo's id.
#[derive(Debug)]
pub(crate) struct Packages {
    pub(super) program: String,
    pub(super) all: BTreeMap<String, Package>,
}

impl Packages {
    /// Asks cargo what is linked into a program for a target. Macros and build scripts are not.
    pub(crate) fn read(root: &Path, program: &str, target: &str) -> anyhow::Result<Self> {
        let text = output(
            Command::new("cargo")
                .current_dir(root)
                .args(["metadata", "--format-version=1", "--locked"])
                .args(["--filter-platform", target]),
        )?;
        Self::parse(program, &serde_json::from_str(&text)?)
    }

    fn parse(program: &str, metadata: &Value) -> anyhow::Result<Self> {
        let mut known: BTreeMap<String, Package> = list(&metadata["packages"])
            .filter(|package| !is_macro(package))
            .map(|package| (text(&package["id"]), Package::parse(package)))
            .collect();
        for node in list(&metadata["resolve"]["nodes"]) {
            let links = list(&node["deps"])
                .filter(|link| list(&link["dep_kinds"]).any(|kind| kind["kind"].is_null()))
                .map(|link| text(&link["pkg"]))
                .filter(|id| known.contains_key(id))
                .collect();
            if let Some(package) = known.get_mut(&text(&node["id"])) {
                package.links = links;
            }
        }
        let program = known.iter().find(|(_, package)| package.name == program);
        let program = program.context("the program is not in the workspace")?.0.clone();
        let mut all = BTreeMap::new();
        let mut open = vec![program.clone()];
        while let Some(id) = open.pop() {
            if let Some(package) = known.remove(&id) {
                open.extend(package.links.iter().cloned());
                all.insert(id, package);
            }
        }
        Ok(Self { program, all })
    }
}

impl Package {
    fn parse(package: &Value) -> Self {
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        Self {
            name: text(&package["name"]),
            version: text(&package["version"]),
            license: text(&package["license"]),
            folder: manifest.parent().map(Into::into).unwrap_or_default(),
            foreign: package["source"].is_string(),
            links: BTreeSet::new(),
        }
    }
}

fn is_macro(package: &Value) -> bool {
    list(&package["targets"]).any(|target| list(&target["kind"]).any(|kind| kind == "proc-macro"))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
