use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::ClusterExtensionSpec;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fixture::{cases, rows, text};

const CASES: &str = include_str!("../testdata/gate/cases.yaml");

fn declares(value: &str) -> String {
    format!(r#"[{{"type":"olm.maxOpenShiftVersion","value":{value}}}]"#)
}

fn read(value: &str) -> Result<MaxVersion, String> {
    let annotation = declares(value);
    max_openshift_version(Some(&annotation)).map_err(|error| Chain(&error).to_string())
}

// applying.md i1, table 9.1
#[test]
fn declared_versions() {
    for (value, major, minor) in cases::<(&str, u64, u64)>(CASES, "declared_versions") {
        let want = MaxVersion::Supports(MinorRelease::new(major, minor));
        assert_eq!(read(value), Ok(want));
    }
}

// applying.md i1, table 9.1
#[test]
fn values_that_are_no_version() {
    for row in rows(include_str!("../testdata/gate/no_versions.yaml")) {
        let (value, reason) = (text(&row, "value"), text(&row, "want"));
        let want = format!("error converting to semver for version {value}: {reason}");
        assert_eq!(read(value), Err(want));
    }
}

// applying.md i1, table 9.1
#[test]
fn absent_is_compatible() {
    for annotation in cases::<Option<&str>>(CASES, "absent_is_compatible") {
        assert_eq!(max_openshift_version(annotation), Ok(MaxVersion::NotDeclared));
    }
}

// applying.md i1, table 9.1
#[test]
fn the_property_twice_is_an_error_even_if_equal() {
    let one = r#"{"type":"olm.maxOpenShiftVersion","value":"4.18"}"#;
    let annotation = format!("[{one},{one}]");
    assert_eq!(max_openshift_version(Some(&annotation)), Err(PropertyError::Repeated));
}

// plugin.md U14
#[test]
fn what_is_declared_is_shown_as_it_is_written() {
    for (value, want) in [("4.20", "4.20"), (r#""4.20""#, "4.20"), ("true", "true")] {
        assert_eq!(max_openshift_text(&declares(value)).as_deref(), Some(want));
    }
}

// applying.md i1, table 9.2
#[test]
fn blocks() {
    for ((major, minor), cluster, want, next) in
        cases::<((u64, u64), &str, bool, &str)>(CASES, "blocks")
    {
        let current = MinorRelease::of_cluster(cluster).unwrap();
        let max = MinorRelease::new(major, minor);
        assert_eq!(blocks_update(current, max), want);
        assert_eq!(current.next().to_string(), next);
    }
}

/// The verdict of a cluster of 4.18.
fn at_4_18(bundles: &[Bundle<'_>]) -> Statement {
    verdict(Cluster::At(Some("4.18.7")), bundles, &BTreeMap::new())
}

fn bundle<'a>(extension: &'a str, name: &'a str, properties: &'a str) -> Bundle<'a> {
    Bundle { extension, name, properties: Some(properties), is_recorded: true }
}

// applying.md i2, the worked example of 9.4
#[test]
fn incompatible_bundles_and_errors_are_told_together() {
    let (text, number) = (declares(r#""4.18""#), declares("4.17"));
    let one = r#"{"type":"olm.maxOpenShiftVersion","value":"4.18"}"#;
    let twice = format!("[{one},{one}]");
    let bundles =
        [bundle("c", "c.v1", &twice), bundle("b", "b.v2", &number), bundle("a", "a.v1", &text)];
    let got = at_4_18(&bundles);
    assert_eq!(got.type_, "Upgradeable");
    assert_eq!(got.status, "False");
    assert_eq!(got.reason.as_str(), "InstalledOLMOperators_IncompatibleOperatorsInstalled");
    assert_eq!(
        got.message,
        "InstalledOLMOperatorsUpgradeable: Found ClusterExtensions that require upgrades prior to upgrading cluster to version 4.19: bundle \"a.v1\" for ClusterExtension \"a\",bundle \"b.v2\" for ClusterExtension \"b\".\nInstalledOLMOperatorsUpgradeable:  Additionally the following errors were encountered while getting extension metadata: error(s) with cluster extension c: error in bundle c.v1: more than one olm.maxOpenShiftVersion found in bundle"
    );
}

// applying.md 9.5
#[test]
fn the_operator_condition_has_the_words_without_its_name() {
    let oops = [bundle("a", "a.v1", "oops")];
    let mut conditions = Vec::new();
    let verdict = at_4_18(&oops);
    verdict.put(&mut conditions, None, jiff::Timestamp::UNIX_EPOCH);
    let got = operator_condition(&conditions[0]);
    assert_eq!(got.type_, "InstalledOLMOperatorsUpgradeable");
    assert_eq!(
        (got.status.as_str(), got.reason.as_str()),
        ("False", "FailureGettingExtensionMetadata")
    );
    assert!(got.message.starts_with("error with cluster extension a: "), "{}", got.message);
}

// applying.md i3
#[test]
fn nothing_declared_is_well() {
    let none = Bundle { extension: "a", name: "a.v1", properties: None, is_recorded: true };
    for bundles in [&[][..], &[none][..]] {
        let got = at_4_18(bundles);
        assert_eq!(
            (got.status, got.reason.as_str(), got.message.as_str()),
            ("True", "AsExpected", "All is well")
        );
    }
}

// applying.md i6
#[test]
fn current_versions() {
    for (payload, cluster_version, want) in
        cases::<(Option<&str>, serde_json::Value, Option<&str>)>(CASES, "current_versions")
    {
        assert_eq!(current_version(payload, Some(&cluster_version)), want);
    }
}

// applying.md i8
#[test]
fn the_stricter_of_installed_and_rolling_decides() {
    let (installed, rolling) = (declares("4.18"), declares("4.20"));
    let both = [bundle("a", "a.v1", &installed), bundle("a", "a.v2", &rolling)];
    let at = Cluster::At(Some("4.18.0"));
    let got = verdict(at, &both, &BTreeMap::new());
    assert_eq!(got.status, "False");
    assert!(got.message.contains("\"a.v1\"") && !got.message.contains("\"a.v2\""));
    assert_eq!(verdict(at, &both[1..], &BTreeMap::new()).status, "True");
}

// applying.md i10
#[test]
fn an_annotation_that_is_no_json_blocks() {
    for (annotation, json_error) in [
        ("oops", "invalid character 'o' looking for beginning of value"),
        ("[", "unexpected end of JSON input"),
    ] {
        let got = at_4_18(&[bundle("a", "a.v1", annotation)]);
        assert_eq!(got.status, "False");
        assert_eq!(got.reason.as_str(), "InstalledOLMOperators_FailureGettingExtensionMetadata");
        let chain = "InstalledOLMOperatorsUpgradeable: error with cluster extension a: error in bundle a.v1: could not convert olm.properties: failed to unmarshal properties annotation: ";
        assert_eq!(got.message.strip_prefix(chain), Some(json_error));
    }
}

// applying.md 9.3
#[test]
fn what_is_not_taken_over_yet_blocks_until_it_is_deleted() {
    let installed = json!({"install": {"bundle": {"name": "a.v1", "version": "1.0.0"}}});
    let mut extension = ClusterExtension::new("a", ClusterExtensionSpec::default());
    assert_eq!(Bundle::not_taken_over(&extension), None);
    extension.status = serde_json::from_value(installed).unwrap();
    let bundle = Bundle::not_taken_over(&extension).unwrap();
    let got = at_4_18(&[bundle]);
    assert_eq!(got.status, "False");
    assert_eq!(got.reason.as_str(), "InstalledOLMOperators_FailureGettingExtensionMetadata");
    let want = "error with cluster extension a: error in bundle a.v1: it is not taken over yet";
    assert!(got.message.contains(want), "{}", got.message);
    extension.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    assert_eq!(Bundle::not_taken_over(&extension), None);
}

// applying.md i11, 9.7
#[test]
fn of_an_unknown_cluster_nothing_is_promised() {
    for (cluster, reason) in [
        (Cluster::NotRead, "NoData"),
        (Cluster::At(None), "ClusterVersionUnknown"),
        (Cluster::At(Some("v4.18.0")), "ClusterVersionUnknown"),
        (Cluster::At(Some("4.18")), "ClusterVersionUnknown"),
    ] {
        let got = verdict(cluster, &[], &BTreeMap::new());
        assert_eq!((got.status, got.reason.as_str()), ("Unknown", reason));
    }
}

// applying.md 9.7
#[test]
fn an_extension_says_whether_it_blocks() {
    for (value, status, reason, message) in
        cases::<(&str, &str, &str, &str)>(CASES, "an_extension_says_whether_it_blocks")
    {
        let properties = declares(value);
        let bundles = [bundle("a", "a.v1", &properties)];
        let got = platform_upgradeable(MinorRelease::new(4, 18), bundles).unwrap();
        assert_eq!(
            (got.status, got.reason.as_str(), got.message.as_str()),
            (status, reason, message)
        );
    }
}

// applying.md 9.7, i8
#[test]
fn the_condition_is_that_of_the_strictest_bundle() {
    let (old, new) = (declares("4.18"), declares("4.20"));
    let bundles = || [bundle("a", "a.v2", &new), bundle("a", "a.v1", &old)];
    let got = platform_upgradeable(MinorRelease::new(4, 18), bundles()).unwrap();
    assert!(got.message.contains("\"a.v1\""), "{}", got.message);
    let none = Bundle { extension: "a", name: "a.v1", properties: None, is_recorded: true };
    let got = platform_upgradeable(MinorRelease::new(4, 18), [none]).unwrap();
    assert_eq!((got.status, got.reason), ("True", Reason::NotDeclared));
    assert_eq!(platform_upgradeable(MinorRelease::new(4, 18), []), None);
}

// applying.md 9.4, 9.7
#[test]
fn ways_out_follow_the_text_of_upstream() {
    let properties = declares("4.18");
    let bundles = [bundle("a", "a.v1", &properties)];
    let at = Cluster::At(Some("4.18.7"));
    let plain = verdict(at, &bundles, &BTreeMap::new());
    let ways = ["a", "b"].map(|name| (name.to_owned(), "1.2.0 lifts it".to_owned()));
    let got = verdict(at, &bundles, &BTreeMap::from(ways));
    let added = got.message.strip_prefix(plain.message.as_str()).unwrap();
    assert_eq!(added, " Remedies: \"a\": 1.2.0 lifts it");

    let statement = platform_upgradeable(MinorRelease::new(4, 18), bundles).unwrap();
    let written = with_way_out(statement.clone(), "1.2.0 lifts it");
    assert_eq!(way_out(&statement, &written.message), Some("1.2.0 lifts it"));
    assert_eq!(way_out(&statement, &statement.message), None);
}

#[test]
fn releases_are_read() {
    for (text, want) in cases::<(&str, Option<(u64, u64)>)>(CASES, "releases_are_read") {
        let want = want.map(|(major, minor)| MinorRelease::new(major, minor));
        assert_eq!(text.parse().ok(), want);
    }
}

// applying.md 9.7
#[test]
fn kubernetes_stands_for_a_release() {
    for (version, want, minor) in
        cases::<(&str, &str, u64)>(CASES, "kubernetes_stands_for_a_release")
    {
        let version = crate::version::Version::of_kubernetes(version).unwrap();
        let release = MinorRelease::of_kubernetes(&version).unwrap();
        assert_eq!((release.to_string().as_str(), release.kubernetes_minor()), (want, minor));
    }
    assert_eq!(MinorRelease::new(4, u64::MAX).kubernetes_minor(), u64::MAX);
}

// applying.md 9.5
#[test]
fn the_operator_reports_four_conditions() {
    let well = verdict(Cluster::At(Some("4.18.0")), &[], &BTreeMap::new());
    let got = operator_conditions(well.clone(), None);
    let short: Vec<_> = got.iter().map(|c| (c.type_, c.status, c.reason.as_str())).collect();
    assert_eq!(
        short,
        [
            ("Available", "True", "AsExpected"),
            ("Progressing", "False", "AsExpected"),
            ("Degraded", "False", "AsExpected"),
            ("Upgradeable", "True", "AsExpected"),
        ]
    );
    let degraded = operator_conditions(well, Some((Reason::ClusterVersionUnknown, "it is")));
    assert_eq!(degraded[2].status, "True");
}

proptest! {
    #[test]
    fn patch_never_matters(minor in 0u64..40, patch in 0u64..99, max in 0u64..40) {
        let max = MinorRelease::new(4, max);
        let at = |patch| MinorRelease::of_cluster(&format!("4.{minor}.{patch}")).unwrap();
        prop_assert_eq!(blocks_update(at(0), max), blocks_update(at(patch), max));
    }

    #[test]
    fn no_annotation_panics(annotation in ".*") {
        let _ = max_openshift_version(Some(&annotation));
        let _ = read(&annotation);
    }
}
