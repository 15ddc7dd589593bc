//! The API server calls a webhook server with a certificate of ours, before, during and after
//! rotations.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use olm_test::package::WEBHOOK_PORT;
use olm_test::prelude::*;
use olm_test::webhook::Webhook;
use rcgen::{CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::{Hooked, put};

const SECOND: Duration = Duration::from_secs(1);
/// Least requests that are sent during the rotations.
const ASKED: usize = 20;
pub(super) const DAY: Duration = Duration::from_hours(24);

/// Sends a dry run of a `ConfigMap` with a verdict.
async fn ask(api: &Api<ConfigMap>, package: &str, verdict: &str) -> Result<(), String> {
    let wanted: ConfigMap = serde_json::from_value(json!({
        "metadata": {"generateName": "asked-", "labels": {"asks": package}},
        "data": {"verdict": verdict},
    }))
    .expect("a ConfigMap");
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let answer = api.create(&params, &wanted).await;
    answer.map(drop).map_err(|error| error.to_string())
}

impl Hooked {
    /// Returns the CA that the API server trusts when it calls the API service.
    fn api_ca_bundle(&self) -> String {
        let name = format!("v1.{}", self.scene.package.served_group());
        self.trusted("apiservice", &name, "/spec/caBundle")
    }

    /// Asks the API server for the API, which it asks the server of the operator for.
    fn ask_api(&self) -> Result<(), String> {
        let path = format!("/apis/{}/v1", self.scene.package.served_group());
        let requests = self.scene.cluster.plane.requests();
        let answer = requests.send(Method::GET, &path, None);
        let found = answer.map_err(|error| error.to_string())?;
        (found["resources"] == json!([])).then_some(()).ok_or_else(|| found.to_string())
    }
}

/// Sends such requests repeatedly, a few at least; returns the failures when it is stopped.
fn keep_asking(
    api: Api<ConfigMap>,
    package: String,
) -> (Arc<AtomicBool>, tokio::task::JoinHandle<Vec<String>>) {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let asking = tokio::spawn(async move {
        let (mut asked, mut failures) = (0, Vec::new());
        while asked < ASKED || !stopped.load(Ordering::SeqCst) {
            failures.extend(ask(&api, &package, "yes").await.err());
            asked += 1;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        failures
    });
    (stop, asking)
}

fn now() -> Duration {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("it is later than 1970")
}

/// Sets a validity from `before` ago to `after` from now.
pub(super) fn valid(params: &mut CertificateParams, before: Duration, after: Duration) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now().checked_sub(before).unwrap();
    params.not_after = epoch + (now() + after);
}

/// Parameters of a CA as the controller makes them.
pub(super) fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "OLM webhook CA");
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    params
}

impl Hooked {
    /// Gives the server a certificate of the same CA that is due for renewal, at two thirds of its
    /// life, in a few seconds.
    async fn age_leaf(&self) -> String {
        let authority = self.authority().await.expect("the CA is there");
        let key = KeyPair::from_pem(&authority["ca.key"]).expect("a key");
        let issuer = Issuer::new(ca_params(), key);
        let name = format!("{}.{}", self.scene.package.service(), self.scene.name);
        let names = [name.clone(), format!("{name}.svc"), format!("{name}.svc.cluster.local")];
        let mut params = CertificateParams::new(names).expect("names");
        params.use_authority_key_identifier_extension = true;
        valid(&mut params, 114 * SECOND, 60 * SECOND);
        let key = KeyPair::generate().expect("a key");
        let made = params.signed_by(&key, &issuer).expect("a certificate");
        let data = json!({
            "tls.crt": made.pem(), "tls.key": key.serialize_pem(), "ca.crt": authority["ca.crt"],
        });
        put(&self.leaves(), &self.scene.package.certificate(), data).await;
        made.pem()
    }

    /// Replaces the CA by one that ends in a year and a few seconds.
    async fn age_authority(&self) -> String {
        let authority = self.authority().await.expect("the CA is there");
        let key = KeyPair::from_pem(&authority["ca.key"]).expect("a key");
        let mut params = ca_params();
        valid(&mut params, DAY, 365 * DAY + 5 * SECOND);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        put(&self.authorities(), &self.authority_name(), json!({"ca.crt": pem})).await;
        pem
    }
}

// rendering.md 4.11, R16
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_answers_before_during_and_after_rotations() {
    let bundle = Bundle::new("1.0.0").with_api_service(Package::new("calls").api_service());
    let hooked = Hooked::set_with(cluster::with_controller().await, "calls", bundle).await;
    let extension = hooked.scene.install(json!({})).await;
    let package = hooked.scene.name.clone();
    let service = hooked.service().await;
    let address = service.spec.and_then(|spec| spec.cluster_ip);
    let address = format!("{}:{WEBHOOK_PORT}", address.expect("Services have addresses"));
    let address: SocketAddr = address.parse().expect("an address");
    assert!(address.ip().is_loopback(), "{address}");
    let client = hooked.scene.cluster.client.clone();
    // As a kubelet, it hears later of a certificate than the API server of a CA.
    let name = hooked.scene.package.certificate();
    let server = Webhook::serve(address, hooked.leaves(), name, 2 * SECOND);
    // Not before the API service responds.
    extension.installed("1.0.0").await;

    let api = Api::<ConfigMap>::namespaced(client, &package);
    wait::until("the webhook is asked", SOON, || ask(&api, &package, "yes")).await;
    let refusal = ask(&api, &package, "no").await.expect_err("it is refused");
    assert!(refusal.contains("the verdict is not yes"), "{refusal}");
    // It verifies the certificate, which the check of its availability does not.
    wait::until("the API is served", SOON, || async { hooked.ask_api() }).await;
    let (stop, asking) = keep_asking(api.clone(), package.clone());

    let aged = hooked.age_leaf().await;
    let first_authority = hooked.authority().await.expect("the CA is there");
    wait::until("the certificate is renewed", SOON, || async {
        let leaf = hooked.leaf().await.ok_or("it is gone")?;
        (leaf["tls.crt"] != aged).then_some(()).ok_or("it is the old one")
    })
    .await;
    assert_eq!(hooked.authority().await, Some(first_authority.clone()));
    assert_eq!(extension.revisions().await.len(), 1, "no revision for a certificate");
    assert_eq!(hooked.ca_bundle(), first_authority["ca.crt"]);
    assert_eq!(hooked.api_ca_bundle(), first_authority["ca.crt"]);

    let aged = hooked.age_authority().await;
    wait::until("servers use the CA that followed", SOON, || async {
        let authority = hooked.authority().await.ok_or("it is gone")?;
        let leaf = hooked.leaf().await.ok_or("it is gone")?;
        (authority["ca.crt"] != aged && leaf["ca.crt"] == authority["ca.crt"])
            .then_some(())
            .ok_or("not yet")
    })
    .await;
    let newest = hooked.authority().await.expect("the CA is there")["ca.crt"].clone();
    assert_eq!(hooked.ca_bundle(), format!("{newest}{aged}"), "callers trust both");
    assert_eq!(hooked.api_ca_bundle(), hooked.ca_bundle());
    let revisions = extension.revisions().await.len();
    // A controller that is slow finds that the aged CA has been followed up already.
    assert!(matches!(revisions, 2 | 3), "{revisions}: one for the aged CA, one for both");
    extension.installed("1.0.0").await;

    wait::until("the server presents its certificate", SOON, || async {
        let leaf = hooked.leaf().await.ok_or("it is gone")?;
        server.presents(&leaf["tls.crt"]).then_some(()).ok_or("an older one")
    })
    .await;
    ask(&api, &package, "yes").await.expect("it is admitted");
    hooked.ask_api().expect("the API is served");
    let refusal = ask(&api, &package, "no").await.expect_err("it is refused");
    assert!(refusal.contains("the verdict is not yes"), "{refusal}");
    stop.store(true, Ordering::SeqCst);
    let failures = asking.await.expect("it asks");
    assert_eq!(failures, Vec::<String>::new());

    extension.delete().await;
    assert_eq!(hooked.leaf().await, None);
    assert_eq!(hooked.authority().await, None);
    assert_eq!(hooked.api_ca_bundle(), "");
    wait::until("nobody is asked any more", SOON, || ask(&api, &package, "no")).await;
}
