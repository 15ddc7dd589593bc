//! What installed bundles allow the cluster to become.

use olm_core::extension::counting;
use olm_core::gate::{
    Bundle, Cluster, MaxVersion, MinorRelease, blocks_update, max_openshift_version, verdict,
};
use olm_core::revision::sort;
use olm_test::prelude::*;

use super::table::{Table, rows, rows_of, text, texts};

// applying.md 9, i1 to i3, i8, i10
#[test]
fn the_gate_answers_as_that_of_openshift() {
    let mut table = Table::new("gate.jsonl");
    for (kind, answer) in [
        ("sync", sync as fn(&Value) -> Result<(), String>),
        ("value", value),
        ("next", next),
        ("compatible", compatible),
    ] {
        for row in rows_of("gate.jsonl", kind) {
            table.judge(&row, answer(&row));
        }
    }
    table.conclude(rows("gate.jsonl").len());
    assert_eq!(rows("gate.jsonl").len(), 57);
}

fn sync(row: &Value) -> Result<(), String> {
    let want = &row["want"];
    let revisions = row["revisions"].as_array().expect("a list of revisions");
    let all = texts(row, "extensions").into_iter().map(|extension| {
        let own = revisions.iter().filter(|it| it["extension"] == extension);
        let mut own: Vec<_> = own.map(object_set).collect();
        sort(&mut own);
        (extension, own)
    });
    let all: Vec<_> = all.collect();
    let bundles = all.iter().flat_map(|(name, own)| counting(name, own));
    let bundles: Vec<Bundle<'_>> = bundles.collect();
    let at = Cluster::At(Some(text(row, "clusterVersion")));
    let got = verdict(at, &bundles, &BTreeMap::new());
    let reason = match text(want, "reason") {
        "" => "AsExpected".to_owned(),
        reason => format!("InstalledOLMOperators_{reason}"),
    };
    let message = got.message.replace("InstalledOLMOperatorsUpgradeable: ", "");
    let part = want["messageContains"].as_str().unwrap_or_default();
    let whole = want["fullMessage"].as_str().unwrap_or(&message);
    let equal = got.status == text(want, "status")
        && got.reason.as_str() == reason
        && message.contains(part)
        && message == whole;
    equal.then_some(()).ok_or(format!("{got:?}"))
}

/// A revision of a row; a Helm release stands for one that is active.
fn object_set(row: &Value) -> ClusterObjectSet {
    let mut annotations = json!({"olm.operatorframework.io/bundle-name": row["bundle"]});
    if let Some(properties) = row["properties"].as_str() {
        annotations["olm.properties"] = json!(properties);
    }
    serde_json::from_value(json!({
        "metadata": {"name": "revision", "annotations": annotations},
        "spec": {
            "revision": row["revision"].as_i64().unwrap_or(1),
            "lifecycleState": row["lifecycleState"].as_str().unwrap_or("Active"),
            "collisionProtection": "Prevent",
            "phases": [],
        },
    }))
    .expect("a ClusterObjectSet")
}

fn value(row: &Value) -> Result<(), String> {
    let annotation =
        format!(r#"[{{"type":"olm.maxOpenShiftVersion","value":{}}}]"#, text(row, "value"));
    match (max_openshift_version(Some(&annotation)), row["want"].as_str()) {
        (Ok(MaxVersion::Supports(max)), Some(want)) if max.to_string() == want => Ok(()),
        (Err(_), None) => Ok(()),
        (got, _) => Err(format!("{got:?}")),
    }
}

fn next(row: &Value) -> Result<(), String> {
    let next = release(row, "current").next().to_string();
    (next == text(row, "want")).then_some(()).ok_or(next)
}

fn compatible(row: &Value) -> Result<(), String> {
    let compatible = !blocks_update(release(row, "current"), release(row, "max"));
    let equal = row["want"] == compatible;
    equal.then_some(()).ok_or(compatible.to_string())
}

fn release(row: &Value, key: &str) -> MinorRelease {
    text(row, key).parse().expect("a release")
}
