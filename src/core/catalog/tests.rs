//! Indexing of catalogs, with small hand-written blobs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::*;
use crate::error::Chain;
use crate::fixture::{cases, content};

const CASES: &str = include_str!("../testdata/catalog/cases.yaml");

const HEAD: &str = r#"{"schema":"olm.package","name":"kettle","defaultChannel":"hot"}"#;
const HOT: &str = r#"{"schema":"olm.channel","package":"kettle","name":"hot","entries":[
    {"name":"kettle.v1"},{"name":"kettle.v2","replaces":"kettle.v1","skipRange":"<2.0.0"}]}"#;
const COLD: &str = r#"{"schema":"olm.channel","package":"kettle","name":"cold","entries":[
    {"name":"kettle.v2","skips":["kettle.v0"],"skipRange":"<v2"}]}"#;

fn bundle(name: &str, version: &str) -> String {
    format!(
        r#"{{"schema":"olm.bundle","package":"kettle","name":"{name}","image":"r/{name}:1","properties":[
            {{"type":"olm.package","value":{{"packageName":"kettle","version":"{version}"}}}}]}}"#
    )
}

fn kettle(blobs: &[&str]) -> PackageIndex {
    content(blobs).package("kettle").unwrap().unwrap().clone()
}

#[test]
fn bundles_come_highest_version_first_and_unversioned_last() {
    let (one, two) = (bundle("kettle.v1", "1.0.0"), bundle("kettle.v2", "2.0.0"));
    let bad = bundle("kettle.a", "v3");
    let index = kettle(&[&bad, &one, HEAD, &two]);
    let names: Vec<_> = index.bundles.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["kettle.v2", "kettle.v1", "kettle.a"]);
    assert_eq!(index.default_channel, "hot");
}

#[test]
fn entries_of_a_bundle_come_by_channel() {
    let index = kettle(&[HOT, COLD]);
    let channels: Vec<_> = index.entries_of("kettle.v2").map(|(name, _)| name).collect();
    assert_eq!(channels, ["cold", "hot"]);
}

// resolution.md 1.6
#[test]
fn a_skip_range_that_is_none_is_kept_with_its_error() {
    let index = kettle(&[COLD]);
    let (_, entry) = index.entries_of("kettle.v2").next().unwrap();
    let skip_range = entry.skip_range.as_ref().unwrap();
    assert_eq!(skip_range.text, "<v2");
    assert!(skip_range.range.is_err());
}

// resolution.md 1.4
#[test]
fn a_package_needs_no_head() {
    let index = kettle(&[&bundle("kettle.v1", "1.0.0")]);
    assert_eq!(index.bundles.len(), 1);
}

// resolution.md 1.4
#[test]
fn the_last_deprecations_count() {
    let deprecate = |name| {
        format!(
            r#"{{"schema":"olm.deprecations","package":"kettle","entries":[
                {{"reference":{{"schema":"olm.bundle","name":"{name}"}},"message":"old"}}]}}"#
        )
    };
    let index = kettle(&[&deprecate("kettle.v1"), &deprecate("kettle.v2")]);
    assert!(!index.is_deprecated("kettle.v1"));
    assert!(index.is_deprecated("kettle.v2"));
}

// catalogs.md 1.8
#[test]
fn deprecations_count_whatever_their_name() {
    for (names, counts) in
        cases::<(Vec<&str>, &str)>(CASES, "deprecations_count_whatever_their_name")
    {
        let blobs = names.iter().map(|name| {
            format!(
                r#"{{"schema":"olm.deprecations","package":"kettle","name":"{name}","entries":[
                    {{"reference":{{"schema":"olm.bundle","name":"of {name}"}},"message":"old"}}]}}"#
            )
        });
        let blobs: Vec<_> = blobs.collect();
        let index = kettle(&blobs.iter().map(String::as_str).collect::<Vec<_>>());
        for name in names {
            assert_eq!(index.is_deprecated(&format!("of {name}")), name == counts, "{name}");
        }
    }
}

// resolution.md 1.4: as upstream; opm refuses the name
#[test]
fn a_package_is_deprecated_with_or_without_its_name() {
    let index = kettle(&[r#"{"schema":"olm.deprecations","package":"kettle","entries":[
        {"reference":{"schema":"olm.package"},"message":"a"},
        {"reference":{"schema":"olm.package","name":"kettle"},"message":"b"},
        {"reference":{"schema":"olm.channel","name":"hot"},"message":"c"}]}"#]);
    let deprecations = index.deprecations.unwrap();
    let messages = |schema, name| deprecations.messages(schema, name).collect::<Vec<_>>();
    assert_eq!(messages("olm.package", ""), ["a", "b"]);
    assert_eq!(messages("olm.package", "pot"), ["a", "b"]);
    assert_eq!(messages("olm.channel", "hot"), ["c"]);
    assert_eq!(messages("olm.channel", ""), [""; 0]);
}

// resolution.md 1.4
#[test]
fn of_two_bundles_of_one_name_the_last_counts() {
    let (first, second) = (bundle("kettle.v1", "1.0.0"), bundle("kettle.v1", "1.1.0"));
    let index = kettle(&[&first, &second]);
    let version = index.bundles[0].version(false).unwrap();
    assert_eq!((index.bundles.len(), version.recorded()), (1, "1.1.0".to_owned()));
}

// catalogs.md 1.8
#[test]
fn a_blob_of_the_wrong_shape_spoils_only_its_own_package() {
    let broken = r#"{"schema":"olm.channel","package":"pot","name":"hot","entries":[{"name":8}]}"#;
    let content = content([&bundle("kettle.v1", "1.0.0"), broken]);
    assert!(content.package("kettle").unwrap().is_ok());
    let error = content.package("pot").unwrap().unwrap_err();
    assert_eq!(error, r#"invalid olm.channel "hot": entries[0]: field "name" is not a string"#);
    assert!(content.package("pan").is_none());
}

// resolution.md 1.4
#[test]
fn key_names_match_without_regard_to_case() {
    let channel = r#"{"Schema":"olm.channel","PACKAGE":"kettle","name":"hot","Entries":[
        {"Name":"kettle.v2","SkipRange":"<2.0.0"}]}"#;
    let index = kettle(&[channel]);
    let (_, entry) = index.entries_of("kettle.v2").next().unwrap();
    assert_eq!(entry.skip_range.as_ref().unwrap().text, "<2.0.0");
}

// resolution.md 4.2
#[test]
fn bundles_without_a_version() {
    for (properties, want) in cases::<(&str, &str)>(CASES, "bundles_without_a_version") {
        let blob = format!(
            r#"{{"schema":"olm.bundle","package":"kettle","name":"kettle.v1","properties":{properties}}}"#
        );
        let index = kettle(&[&blob]);
        let error = index.bundles[0].version(false).unwrap_err();
        assert_eq!(Chain(error).to_string(), want);
    }
}

#[test]
fn heavy_properties_keep_their_place_but_not_their_value() {
    let blob = r#"{"schema":"olm.bundle","package":"kettle","name":"kettle.v1","properties":[
        {"type":"olm.csv.metadata","value":{"minKubeVersion":"1.25.0"}},
        {"type":"olm.gvk.required","value":{"group":"g","version":"v1","kind":"K"}}]}"#;
    let index = kettle(&[blob]);
    let found = &index.bundles[0];
    assert_eq!(found.min_kube_version, Some((0, "1.25.0".to_owned())));
    assert_eq!(found.properties[0].value, "");
    assert_eq!(found.dependencies().count(), 1);
}

// decision 9: opm writes objects unless it is told to write metadata
#[test]
fn without_metadata_the_csv_among_the_objects_says_what_it_needs() {
    let object = |kind: &str| {
        let csv = format!(r#"{{"kind":"{kind}","spec":{{"minKubeVersion":"1.25.0"}}}}"#);
        let data = STANDARD.encode(csv);
        format!(r#"{{"type":"olm.bundle.object","value":{{"data":"{data}"}}}}"#)
    };
    let (csv, other) = (object("ClusterServiceVersion"), object("Teapot"));
    let metadata = r#"{"type":"olm.csv.metadata","value":{}}"#;
    for (properties, want) in [
        (format!("{other},{csv}"), Some((1, "1.25.0".to_owned()))),
        (other.clone(), None),
        (format!("{csv},{metadata}"), None),
    ] {
        let blob = format!(
            r#"{{"schema":"olm.bundle","package":"kettle","name":"kettle.v1","properties":[{properties}]}}"#
        );
        assert_eq!(kettle(&[&blob]).bundles[0].min_kube_version, want);
    }
}

// decision 43: short values take many times their text, and what is not read takes nothing.
#[test]
fn the_memory_of_a_package_is_estimated_by_what_it_holds() {
    let channel = |entries: &str| {
        format!(
            r#"{{"schema":"olm.channel","package":"kettle","name":"hot","entries":[{entries}]}}"#
        )
    };
    let (one, many) = (channel("{}"), channel(&["{}"; 1000].join(",")));
    let [none, one, many] =
        [vec![HEAD], vec![HEAD, &one], vec![HEAD, &many]].map(|blobs| content(&blobs).bytes());
    assert_eq!((none, many), (0, 1000 * one));
    assert!(one > 100, "{one}");
    let described = |kind: &str| {
        let text = "x".repeat(10_000);
        let property = format!(r#"{{"type":"{kind}","value":{{"description":"{text}"}}}}"#);
        let blob = bundle("kettle.v1", "1.0.0").replace("}}]}", &format!("}}}},{property}]}}"));
        content([&blob]).bytes()
    };
    assert!(described("olm.csv.metadata") < 2000 && described("example.com/x") > 10_000);
}

proptest! {
    #[test]
    fn no_blob_panics(members in "[{}\\[\\]\":,a-z0-9 ]{0,60}") {
        for schema in ["olm.package", "olm.channel", "olm.bundle", "olm.deprecations"] {
            let blob = format!(r#"{{"schema":"{schema}","name":"n","entries":{members},"properties":{members}}}"#);
            let _ = read::Meta::parse(&blob).map(|meta| Content::from_blobs([&meta]));
        }
    }
}
