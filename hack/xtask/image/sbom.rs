//! The list of parts of the program (SBOM), as a `CycloneDX` 1.6 document.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::packages::{Package, Packages};

/// Returns the document. It has no serial number: the same program has the same list.
pub(crate) fn document(
    packages: &Packages,
    version: &str,
    time: Timestamp,
) -> anyhow::Result<String> {
    let others = packages.all.iter().filter(|(id, _)| **id != packages.program);
    let components: Vec<Value> = others.map(|(_, package)| component(package)).collect();
    let dependencies: Vec<Value> = packages
        .all
        .values()
        .map(|package| {
            let links = package.links.iter().filter_map(|id| packages.all.get(id));
            let links: Vec<String> = links.map(purl).collect();
            json!({"ref": purl(package), "dependsOn": links})
        })
        .collect();
    let program = packages.all.get(&packages.program).map(component);
    let mut program = program.unwrap_or_default();
    program["type"] = json!("application");
    program["version"] = json!(version);
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": time.to_string(), "component": program},
        "components": components,
        "dependencies": dependencies,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn component(package: &Package) -> Value {
    json!({
        "type": "library",
        "bom-ref": purl(package),
        "name": package.name,
        "version": package.version,
        "licenses": [{"expression": expression(&package.license)}],
        "purl": purl(package),
    })
}

/// Returns a license as SPDX has it; older crates have a slash for "or".
fn expression(license: &str) -> String {
    license.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

/// Returns the package URL, the name of a crate in every list.
fn purl(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}
