//! Every issuer of certificates, and the change from one to another.

use olm_api::LifecycleState;
use olm_test::package::definition;
use olm_test::prelude::*;

use super::Hooked;

const INJECT_SERVICE_CA: &str = "service.beta.openshift.io/inject-cabundle";
const INJECT_CERT_MANAGER: &str = "cert-manager.io/inject-ca-from";

/// Serves the CRDs of cert-manager, without its controller.
fn serve_cert_manager(plane: &cluster::ControlPlane) {
    for kind in ["Issuer", "Certificate"] {
        let mut crd = definition(kind, "cert-manager.io");
        crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
        plane.requests().apply(&crd);
        plane.established(&format!("{}s.cert-manager.io", kind.to_lowercase()));
    }
}

impl Hooked {
    /// Waits until the newest revision has this issuer, and everything is settled.
    async fn settles_with(&self, extension: &Extension, source: &str) {
        wait::until(&format!("certificates of {source}"), SOON, || async {
            let revisions = extension.revisions().await;
            let newest = revisions.last().ok_or("no revision")?;
            let annotations = newest.metadata.annotations.clone().unwrap_or_default();
            let found = annotations.get(policy::WEBHOOK_CERTIFICATES);
            (found.map(String::as_str) == Some(source)).then_some(()).ok_or("another source")
        })
        .await;
        extension.installed("1.0.0").await;
        // The old revision is archived, and its objects are removed.
        let in_use = |one: &&ClusterObjectSet| one.spec.lifecycle_state == LifecycleState::Active;
        let one = |all: &Vec<ClusterObjectSet>| all.iter().filter(in_use).count() == 1;
        wait::read("one revision is in use", SOON, || extension.revisions(), one).await;
    }

    /// Sets Ready as cert-manager would, as soon as its objects exist.
    async fn cert_manager_works(&self) {
        let certificate = self.scene.package.certificate();
        let issuer = self.issuer();
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        for (kind, name) in [("issuer", issuer), ("certificate", certificate)] {
            self.scene.there(kind, &name).await;
            let (requests, status) =
                (self.scene.cluster.plane.requests(), format!("{name}/status"));
            requests.merge(kind, &self.scene.name, &status, &ready);
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
    let (cluster, mut controller) = cluster::started("", &[]).await;
    let plane = cluster.plane;
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
    let left = || hooked.of_cert_manager();
    wait::value("cert-manager's objects are gone", SOON, left, Vec::is_empty).await;

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
    wait::read("our certificate is gone", SOON, || hooked.leaf(), Option::is_none).await;
    wait::read("our CA is gone", SOON, || hooked.authority(), Option::is_none).await;
    assert_eq!(hooked.ca_bundle(), "");
    extension.delete().await;
    assert_eq!(hooked.of_cert_manager(), Vec::<Value>::new());
}
