//! Names that are too long for what is made of an object are refused where it is made, and such an
//! object that is there already can be changed and deleted.

use olm_test::prelude::*;

const EXTENSION: &str = "clusterextension";
const CATALOG: &str = "clustercatalog";
const BINDING: &str = "validatingadmissionpolicybinding";

fn object(kind: &str, name: &str) -> Value {
    if kind == EXTENSION {
        return objects::extension(name, "default", "installer", "none-such");
    }
    let mut catalog = objects::catalog(name, "registry.example.com/none:v1");
    catalog["spec"]["availabilityMode"] = json!("Unavailable");
    catalog
}

fn create(plane: &ControlPlane, kind: &str, name: &str, flags: &[&str]) -> Result<String, String> {
    let args = [&["create", "-f", "-"], flags].concat();
    plane.try_kubectl(&args, &object(kind, name).to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_too_long_is_refused_with_the_maximum() {
    let plane = cluster::shared().await.plane;
    for (kind, longest, reason) in [
        (EXTENSION, 58, "because the names of its revisions, which end in their number,"),
        (CATALOG, 63, "because it is the value of a label"),
    ] {
        let dry_run = ["--dry-run=server"];
        let (fits, long) = ("x".repeat(longest), "x".repeat(longest + 1));
        let text = format!(
            "the name has {} characters and may have {longest} at most, {reason}",
            longest + 1
        );
        let is_long = || create(plane, kind, &long, &dry_run);
        wait::refused("the policy is in force", SOON, is_long, &text).await;
        let accepted = create(plane, kind, &fits, &dry_run);
        assert!(accepted.is_ok(), "{accepted:?}");
    }
}

/// On a control plane of its own, with a controller.
pub(crate) async fn what_has_a_long_name_already_is_changed_and_deleted(cluster: &Cluster) {
    let plane = cluster.plane;
    let long = "x".repeat(64);
    plane.kubectl(&["delete", BINDING, "olm-name-length"]);
    let made = || create(plane, EXTENSION, &long, &[]);
    wait::done("the policy is not in force", SOON, made).await;
    create(plane, CATALOG, &long, &[]).expect("the policy is not in force");
    let policy = paths::repository().join("config/policy/name_length.yaml");
    plane.kubectl(&["apply", "--server-side", "-f", &policy.to_string_lossy()]);
    let other = format!("{long}x");
    let is_long = || create(plane, EXTENSION, &other, &["--dry-run=server"]);
    wait::refused("the policy is in force", SOON, is_long, "").await;

    let extension = Extension::named(&cluster.client, &long);
    extension.shows("Ready", "False", "InvalidConfiguration", &format!("{long}-1")).await;
    for kind in [EXTENSION, CATALOG] {
        plane.kubectl(&["annotate", kind, &long, "example.com/a=b"]);
        plane.kubectl(&["delete", kind, &long, "--wait=false"]);
        let read = || plane.requests().read(kind, "", &long);
        wait::value(&format!("the {kind} is gone"), SOON, read, Option::is_none).await;
    }
}
