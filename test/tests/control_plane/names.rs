//! Names that are too long for what is made of an object are refused where it is made, and such an
//! object that is there already can be changed and deleted.

use std::time::Duration;

use olm_test::cluster::{self, ControlPlane};
use olm_test::extension::Extension;
use olm_test::{paths, wait};
use serde_json::{Value, json};

use crate::flags::start;

const STEP: Duration = Duration::from_mins(1);
const EXTENSION: &str = "clusterextension";
const CATALOG: &str = "clustercatalog";
const BINDING: &str = "validatingadmissionpolicybinding";

fn object(kind: &str, name: &str) -> Value {
    let (kind, spec) = match kind {
        EXTENSION => (
            "ClusterExtension",
            json!({"namespace": "default", "serviceAccount": {"name": "installer"},
                "source": {"sourceType": "Catalog", "catalog": {"packageName": "none-such"}}}),
        ),
        _ => (
            "ClusterCatalog",
            json!({"availabilityMode": "Unavailable",
                "source": {"type": "Image", "image": {"ref": "registry.example.com/none:v1"}}}),
        ),
    };
    json!({"apiVersion": "olm.operatorframework.io/v1", "kind": kind, "metadata": {"name": name},
        "spec": spec})
}

fn create(plane: &ControlPlane, kind: &str, name: &str, flags: &[&str]) -> Result<String, String> {
    let args = [&["create", "-f", "-"], flags].concat();
    plane.try_kubectl(&args, &object(kind, name).to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_too_long_is_refused_with_the_maximum() {
    let plane = cluster::shared().await.plane;
    for (kind, longest, reason) in [
        (EXTENSION, 61, "because the names of its revisions, which end in their number,"),
        (CATALOG, 63, "because it is the value of a label"),
    ] {
        let dry_run = ["--dry-run=server"];
        let (fits, long) = ("x".repeat(longest), "x".repeat(longest + 1));
        wait::until("the policy is in force", STEP, || async {
            match create(plane, kind, &long, &dry_run) {
                Ok(made) => Err(made),
                Err(refused) => Ok(refused),
            }
        })
        .await;
        let refused = create(plane, kind, &long, &dry_run).expect_err("it is too long");
        let text = format!(
            "the name has {} characters and may have {longest} at most, {reason}",
            longest + 1
        );
        assert!(refused.contains(&text), "{refused}");
        let accepted = create(plane, kind, &fits, &dry_run);
        assert!(accepted.is_ok(), "{accepted:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_a_long_name_already_is_changed_and_deleted() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let _controller = start(plane, "names", &[]).await;
    let long = "x".repeat(64);
    plane.kubectl(&["delete", BINDING, "olm-name-length"]);
    wait::until("the policy is not in force", STEP, || async {
        create(plane, EXTENSION, &long, &[])
    })
    .await;
    create(plane, CATALOG, &long, &[]).expect("the policy is not in force");
    let policy = paths::repository().join("config/policy/name_length.yaml");
    plane.kubectl(&["apply", "--server-side", "-f", &policy.to_string_lossy()]);
    let other = format!("{long}x");
    wait::until("the policy is in force", STEP, || async {
        match create(plane, EXTENSION, &other, &["--dry-run=server"]) {
            Ok(made) => Err(made),
            Err(refused) => Ok(refused),
        }
    })
    .await;

    let extension = Extension::named(&cluster.client, &long);
    extension.shows("Ready", "False", "InvalidConfiguration", &format!("{long}-1")).await;
    for kind in [EXTENSION, CATALOG] {
        plane.kubectl(&["annotate", kind, &long, "example.com/a=b"]);
        plane.kubectl(&["delete", kind, &long, "--wait=false"]);
        wait::until(&format!("the {kind} is gone"), STEP, || async {
            plane.requests().read(kind, "", &long).map_or(Ok(()), |left| Err(left.to_string()))
        })
        .await;
    }
}
