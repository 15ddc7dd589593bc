//! Public catalogs: what the lint says of them, and what bundles are in them.

use olm_core::bundle::Bundle;
use olm_core::catalog::lint::{Pinned, Severity, lint};
use olm_core::catalog::{CatalogBundle, read, schema};
use olm_test::bundles::{self, below, read_files};
use olm_test::prelude::*;

use super::shared;

fn borrowed(files: &Files) -> impl Iterator<Item = (&str, &[u8])> + Clone {
    let files = files.iter();
    files.map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
}

// plugin.md U63: a rule that makes errors of catalogs that install is wrong
#[test]
fn public_catalogs_have_no_error() {
    let files = below(&shared("catalogs/v4.19"), "");
    let image = |text: &str| Ok(if text.contains('@') { Pinned::Digest } else { Pinned::Tag });
    let (findings, count) = lint(borrowed(&files), image).unwrap();
    let errors: Vec<_> =
        findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(count > 30);
    println!("{} findings in {count} files, no error", findings.len());
}

/// Returns the blob of a bundle without what says where its image is.
fn comparable(mut blob: Value, image: &str) -> Value {
    blob["image"].take();
    if let Some(images) = blob["relatedImages"].as_array_mut() {
        images.retain(|it| it["image"] != image);
        images.sort_by_key(Value::to_string);
    }
    if let Some(properties) = blob["properties"].as_array_mut() {
        properties.sort_by_key(Value::to_string);
    }
    blob
}

// plugin.md U65
#[test]
fn bundles_become_the_blobs_of_the_public_catalog() {
    let files = below(&shared("catalogs/v4.19"), "");
    let mut public = BTreeMap::new();
    for meta in read::read_catalog(borrowed(&files)).unwrap() {
        if meta.schema == schema::BUNDLE {
            let blob: Value = serde_json::from_str(&meta.json).unwrap();
            public.insert(meta.name, blob);
        }
    }
    let mut compared = 0;
    for (_, folder) in bundles::shared() {
        let files = read_files(&folder).unwrap();
        let Ok(bundle) = Bundle::from_files(&files) else { continue };
        let Some(blob) = public.get(&bundle.csv.name) else { continue };
        let image = blob["image"].as_str().unwrap();
        let ours = CatalogBundle::new(&bundle, &files, image).unwrap().blob;
        let ours = comparable(serde_json::from_str(&ours).unwrap(), image);
        assert_eq!(ours, comparable(blob.clone(), image), "{}", bundle.csv.name);
        compared += 1;
    }
    println!("{compared} bundles are as in the public catalog");
    assert!(compared > 1);
}

// opm makes a blob of each of them, also of those that no supported cluster installs.
#[test]
fn every_bundle_can_be_listed() {
    let mut refused = 0;
    for (name, folder) in bundles::shared() {
        let files = read_files(&folder).unwrap();
        let (bundle, refusal) = Bundle::for_catalog(&files).unwrap_or_else(|error| {
            panic!("{name}: {error:?}");
        });
        refused += usize::from(refusal.is_some());
        let blob = CatalogBundle::new(&bundle, &files, "").unwrap().blob;
        let blob: Value = serde_json::from_str(&blob).unwrap();
        let of = |kind: &str| {
            let properties = blob["properties"].as_array().unwrap();
            properties.iter().filter(|it| it["type"] == *kind).count()
        };
        assert_eq!(of("olm.package"), 1, "{name}");
        // Its dependencies are in properties.yaml.
        assert!(name != "pelorus-operator/0.0.9" || of("olm.package.required") == 2, "{blob}");
        // Its CRDs are of v1beta1.
        assert!(name != "oadp-operator/0.2.6" || of("olm.gvk") > 0, "{blob}");
    }
    assert!(refused > 1);
}
