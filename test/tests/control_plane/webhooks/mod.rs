//! Webhooks with certificates of the controller's own: real calls, rotations, faults, removal, and
//! the change from one issuer of certificates to another.

mod calls;
mod faults;
mod foreign;
mod sources;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Secret, Service};
use olm_test::prelude::*;

/// A package with one webhook, installed by a scene.
struct Hooked {
    scene: Scene,
}

impl Hooked {
    /// Prepares it on the shared control plane, whose controller issues certificates itself.
    async fn set(suffix: &str) -> Self {
        Self::set_on(cluster::with_controller().await, suffix).await
    }

    async fn set_on(cluster: Cluster, suffix: &str) -> Self {
        Self::set_with(cluster, suffix, Bundle::new("1.0.0")).await
    }

    /// The same with this bundle, which gets the webhook.
    async fn set_with(cluster: Cluster, suffix: &str, bundle: Bundle) -> Self {
        let bundle = bundle.with_webhook(Package::new(suffix).validating_webhook());
        let scene = Scene::set(cluster, suffix, &[bundle], &chain(&["1.0.0"])).await;
        Self { scene }
    }

    async fn install(&self) -> Extension {
        self.scene.installed(json!({}), "1.0.0").await
    }

    fn leaves(&self) -> Api<Secret> {
        Api::namespaced(self.scene.cluster.client.clone(), &self.scene.name)
    }

    fn authorities(&self) -> Api<Secret> {
        Api::namespaced(self.scene.cluster.client.clone(), SYSTEM_NAMESPACE)
    }

    fn authority_name(&self) -> String {
        format!("{}-webhook-ca", self.scene.name)
    }

    /// Reads the Secret of the server, key to text; `None` when there is none.
    async fn leaf(&self) -> Option<BTreeMap<String, String>> {
        let name = self.scene.package.certificate();
        let found = self.leaves().get_opt(&name).await;
        found.expect("Secrets can be read").map(texts)
    }

    /// Reads the Secret of the CA.
    async fn authority(&self) -> Option<BTreeMap<String, String>> {
        let found = self.authorities().get_opt(&self.authority_name()).await;
        found.expect("Secrets can be read").map(texts)
    }

    /// Returns the CA that the API server trusts when it calls the webhook.
    fn ca_bundle(&self) -> String {
        let name = format!("{}.example.com", self.scene.name);
        self.trusted("validatingwebhookconfiguration", &name, "/webhooks/0/clientConfig/caBundle")
    }

    /// Returns the CA in a field of an object.
    fn trusted(&self, kind: &str, name: &str, field: &str) -> String {
        let found = self.scene.get(kind, name);
        let bundle = found.as_ref().and_then(|found| found.pointer(field)?.as_str());
        let bytes = STANDARD.decode(bundle.unwrap_or_default());
        String::from_utf8(bytes.expect("base64")).expect("PEM is text")
    }

    /// Waits for the Service.
    async fn service(&self) -> Service {
        let name = self.scene.package.service();
        let services =
            Api::<Service>::namespaced(self.scene.cluster.client.clone(), &self.scene.name);
        wait::until("the Service is made", SOON, || services.get(&name)).await
    }
}

fn texts(secret: Secret) -> BTreeMap<String, String> {
    let data = secret.data.unwrap_or_default().into_iter();
    data.map(|(key, value)| (key, String::from_utf8_lossy(&value.0).into_owned())).collect()
}

/// Replaces values of a Secret.
async fn put(api: &Api<Secret>, name: &str, data: Value) {
    let patch = Patch::Merge(json!({ "stringData": data }));
    let done = api.patch(name, &PatchParams::default(), &patch).await;
    done.map(drop).expect("the administrator may change Secrets");
}

/// Deletes a Secret.
async fn delete(api: &Api<Secret>, name: &str) {
    let done = api.delete(name, &DeleteParams::default()).await;
    done.map(drop).expect("the administrator may delete Secrets");
}
