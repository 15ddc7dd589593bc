//! `kubectl olm doctor`: what it finds, and what its archive holds.

use std::io::Read as _;

use olm_test::prelude::*;

const TOKEN: &str = "b64-that-no-archive-may-hold";

/// Runs the doctor; returns its exit code, and the levels with the texts by subject.
fn doctor(cluster: &Cluster, flags: &[&str]) -> (i32, BTreeMap<String, Vec<(String, String)>>) {
    let args = [&["doctor", "--output=json"], flags].concat();
    let out = plugin::run(cluster.plane, &args);
    let errors = String::from_utf8_lossy(&out.stderr);
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{errors}"));
    let mut found = BTreeMap::<_, Vec<_>>::new();
    for row in answer["rows"].as_array().expect("rows") {
        let text = |key: &str| row[key].as_str().expect("text").to_owned();
        let finding = (text("level"), text("text"));
        found.entry(text("subject")).or_default().push(finding);
    }
    (out.status.code().expect("it ends"), found)
}

fn all(found: &BTreeMap<String, Vec<(String, String)>>, level: &str, subjects: &[&str]) {
    for subject in subjects {
        let rows = &found[*subject];
        assert!(rows.iter().all(|(it, _)| it == level), "{subject}: {rows:?}");
    }
}

/// Returns the files of the archive as texts.
pub(crate) fn unpacked(path: &Path) -> BTreeMap<String, String> {
    let file = std::fs::File::open(path).expect("the archive is written");
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let entries = archive.entries().expect("a tar");
    entries
        .map(|entry| {
            let mut entry = entry.expect("an entry");
            let name = entry.path().expect("a name").display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("text");
            (name, text)
        })
        .collect()
}

// plugin.md U60
#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_names_what_is_wrong_and_packs_no_secret() {
    let (cluster, mut controller) = cluster::started("", &["--leader-elect"]).await;
    let plane = cluster.plane;
    let scene = Scene::of(cluster.clone(), "patient", &["1.0.0"]).await;
    scene.install(json!({})).await.installed("1.0.0").await;

    let (code, found) = doctor(&cluster, &[]);
    let well = ["api", "kinds", "settings", "leases", "policies", "catalogs", "extensions"];
    all(&found, "ok", &well);
    all(&found, "ok", &["leftovers"]);
    // It runs here without a Deployment.
    all(&found, "warning", &["controller"]);
    assert_eq!(code, 0);

    // What the caller may not read is not known, and never well.
    let (code, found) = doctor(&cluster, &["--as=nobody"]);
    all(&found, "unknown", &["policies", "catalogs", "extensions"]);
    assert_eq!(code, 3);

    let binding = "validatingadmissionpolicybinding/clusterextension-serviceaccount-use";
    plane.kubectl(&["delete", binding]);
    plane.create(&objects::catalog("away", &format!("{}/nothing:v1", cluster.registry)));
    plane.kubectl(&[
        "wait",
        "--for=condition=Serving=False",
        "--timeout=120s",
        "clustercatalog/away",
    ]);
    let literal = format!("--from-literal=token={TOKEN}");
    let namespace = format!("--namespace={SYSTEM_NAMESPACE}");
    plane.kubectl(&["create", "secret", "generic", "secret", &literal, &namespace]);
    controller.kill();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("dump.tar.gz");
    let (code, found) = doctor(&cluster, &["--dump", &path.to_string_lossy(), &scene.name]);
    let told = |subject: &str, text: &str| {
        let rows = &found[subject];
        let is = |(level, it): &(String, String)| level == "problem" && it.contains(text);
        assert!(rows.iter().any(is), "{text}: {rows:?}");
    };
    told("policies", "clusterextension-serviceaccount-use is not in force");
    told("catalogs", "away is not served: ");
    assert_eq!(code, 1);

    let files = unpacked(&path);
    assert!(files["clusterextensions.yaml"].contains(&scene.name));
    assert!(files["clusterobjectsets.yaml"].contains(&scene.name));
    assert!(files["doctor.json"].contains("away is not served"));
    assert!(files["refused.txt"].contains("clusterextensionrevisions: does not exist"));
    for (name, text) in &files {
        assert!(!text.contains(TOKEN) && !text.contains("managedFields"), "{name}");
    }
    plane.mend();
}
