//! Every issuer of certificates, and the change from one to another.

use olm_api::keys::policy;
use olm_test::cluster::{self, Controller, ControllerOptions};
use olm_test::extension::Extension;
use olm_test::wait;
use serde_json::{Value, json};

use super::{Hooked, SOON};

const INJECT_SERVICE_CA: &str = "service.beta.openshift.io/inject-cabundle";
const INJECT_CERT_MANAGER: &str = "cert-manager.io/inject-ca-from";

/// The CRDs of cert-manager, without its controller.
const CERT_MANAGER: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition", "metadata": {"name": "PLURAL.cert-manager.io"},
    "spec": {"group": "cert-manager.io", "scope": "Namespaced",
    "names": {"kind": "KIND", "plural": "PLURAL", "singular": "SINGULAR"},
    "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
    "schema": {"openAPIV3Schema": {"type": "object",
    "x-kubernetes-preserve-unknown-fields": true}}}]}}"#;

fn serve_cert_manager(plane: &cluster::ControlPlane) {
    for (kind, plural) in [("Issuer", "issuers"), ("Certificate", "certificates")] {
        let crd = CERT_MANAGER
            .replace("PLURAL", plural)
            .replace("SINGULAR", &kind.to_lowercase())
            .replace("KIND", kind);
        plane.kubectl_with_input(&["apply", "--filename", "-"], &crd);
        let name = format!("crd/{plural}.cert-manager.io");
        plane.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", &name]);
    }
}

impl Hooked {
    /// Waits until the newest revision has this issuer, and everything is settled.
    async fn settles_with(&self, extension: &Extension, source: &str) {
        let what = format!("certificates of {source}");
        wait::until(&what, SOON, || async {
            let revisions = extension.revisions().await;
            let newest = revisions.last().ok_or("no revision")?;
            let annotations = newest.metadata.annotations.clone().unwrap_or_default();
            let found = annotations.get(policy::WEBHOOK_CERTIFICATES);
            (found.map(String::as_str) == Some(source)).then_some(()).ok_or("another source")
        })
        .await;
        extension.installed("1.0.0").await;
        // The old revision is archived, and its objects are removed.
        wait::until("one revision is in use", SOON, || async {
            let revisions = extension.revisions().await;
            let active = revisions
                .iter()
                .filter(|one| format!("{:?}", one.spec.lifecycle_state) == "Active");
            match active.count() {
                1 => Ok(()),
                other => Err(other),
            }
        })
        .await;
    }

    /// Sets Ready as cert-manager would, as soon as its objects exist.
    async fn cert_manager_works(&self) {
        let certificate = self.scene.package.certificate();
        let issuer = self.issuer();
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        for (kind, name) in [("issuer", issuer), ("certificate", certificate)] {
            wait::until("an object of cert-manager", SOON, || async {
                self.scene.get(kind, &name).ok_or("not there")
            })
            .await;
            self.scene.cluster.plane.kubectl(&[
                "patch",
                kind,
                &name,
                "--namespace",
                &self.scene.name,
                "--subresource=status",
                "--type=merge",
                "--patch",
                &status.to_string(),
            ]);
        }
    }

    fn issuer(&self) -> String {
        format!("{}-selfsigned-issuer", self.scene.package.certificate())
    }

    fn annotation(&self, kind: &str, name: &str, key: &str) -> Option<String> {
        let found = self.scene.get(kind, name)?;
        found["metadata"]["annotations"][key].as_str().map(str::to_owned)
    }

    fn injected(&self, key: &str) -> Option<String> {
        let name = format!("{}.example.com", self.scene.name);
        self.annotation("validatingwebhookconfiguration", &name, key)
    }

    /// The cert-manager objects as they were applied.
    fn of_cert_manager(&self) -> Vec<Value> {
        [("issuer", self.issuer()), ("certificate", self.scene.package.certificate())]
            .into_iter()
            .filter_map(|(kind, name)| self.scene.get(kind, &name))
            .map(|object| object["spec"].clone())
            .collect()
    }
}

// rendering.md 4.11: auto, stickiness, and clean changes
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_source_leaves_nothing_of_the_old_one() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let mut controller = Controller::start(plane, ControllerOptions::default());
    serve_cert_manager(plane);
    let hooked = Hooked::set_on(cluster, "sources").await;
    let (namespace, package) = (&hooked.scene.name, &hooked.scene.package);

    // The CRDs of the gate make this an OpenShift cluster.
    let extension = hooked.install().await;
    hooked.settles_with(&extension, "service-ca").await;
    assert_eq!(hooked.injected(INJECT_SERVICE_CA).as_deref(), Some("true"));
    let serving = "service.beta.openshift.io/serving-cert-secret-name";
    assert_eq!(
        hooked.annotation("service", &package.service(), serving),
        Some(package.certificate())
    );
    assert_eq!((hooked.leaf().await, hooked.authority().await), (None, None));

    let mut restart_with = |args: &[&str]| {
        controller.kill();
        controller.set_args(args);
        controller.restart(plane);
    };
    restart_with(&["--webhook-certificates=cert-manager"]);
    hooked.cert_manager_works().await;
    hooked.settles_with(&extension, "cert-manager").await;
    let name = format!("{}.{namespace}", package.service());
    assert_eq!(
        hooked.of_cert_manager(),
        [
            json!({"selfSigned": {}}),
            json!({
                "secretName": package.certificate(),
                "commonName": name,
                "dnsNames": [&name, format!("{name}.svc"), format!("{name}.svc.cluster.local")],
                "usages": ["server auth"], "duration": "17520h0m0s", "renewBefore": "24h0m0s",
                "issuerRef": {"name": hooked.issuer()},
            }),
        ]
    );
    let from = format!("{namespace}/{}", package.certificate());
    assert_eq!(hooked.injected(INJECT_CERT_MANAGER), Some(from));
    assert_eq!(hooked.injected(INJECT_SERVICE_CA), None);

    restart_with(&["--webhook-certificates=self-signed"]);
    hooked.settles_with(&extension, "self-signed").await;
    let leaf = hooked.leaf().await.expect("we issued one");
    let authority = hooked.authority().await.expect("we have a CA");
    assert_eq!(leaf["ca.crt"], authority["ca.crt"]);
    assert_eq!(hooked.ca_bundle(), authority["ca.crt"]);
    assert_eq!(hooked.injected(INJECT_CERT_MANAGER), None);
    wait::until("cert-manager's objects are gone", SOON, || async {
        let left = hooked.of_cert_manager();
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;

    // The recorded choice stays although OpenShift is served.
    let revisions = extension.revisions().await.len();
    restart_with(&[]);
    extension.patch_spec(json!({"progressDeadlineMinutes": 20})).await;
    extension.installed("1.0.0").await;
    hooked.settles_with(&extension, "self-signed").await;
    assert_eq!(extension.revisions().await.len(), revisions);

    restart_with(&["--webhook-certificates=cert-manager"]);
    hooked.cert_manager_works().await;
    hooked.settles_with(&extension, "cert-manager").await;
    assert_eq!((hooked.leaf().await, hooked.authority().await), (None, None));
    assert_eq!(hooked.ca_bundle(), "");
    extension.delete().await;
    assert_eq!(hooked.of_cert_manager(), Vec::<Value>::new());
}
