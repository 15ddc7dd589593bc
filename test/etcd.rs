//! A backup of a control plane's etcd, its restoration, and changes behind the API server's back.

use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::cluster::{ControlPlane, SYSTEM_NAMESPACE};
use crate::wait;

const ETCD: &str = "etcd";
const API_SERVER: &str = "kube-apiserver";
/// The longest time until every Lease of the controller is renewed.
const RENEWED: Duration = Duration::from_mins(2);
/// The longest time until nobody writes an object in between.
const CHANGED: Duration = Duration::from_secs(30);

/// Copies the data of etcd; the API server is away meanwhile. Returns once the controller, which
/// runs with leader election, has renewed its Leases: any backup but one of the last seconds is
/// older than that, and by them a process notices the restoration.
pub async fn back_up(plane: &ControlPlane) {
    tokio::task::block_in_place(|| {
        while_stopped(plane, "rm -rf backup; cp -a etcd backup", || ());
    });
    let at_the_backup = renewals(plane);
    wait::until("the Leases are renewed", RENEWED, || async {
        let now = renewals(plane);
        let renewed = now.iter().zip(&at_the_backup).all(|(now, then)| now != then);
        renewed.then_some(()).ok_or(now)
    })
    .await;
}

/// Puts back the data of the last backup, and does `meanwhile` while nobody can read them.
pub fn restore(plane: &ControlPlane, meanwhile: impl FnOnce()) {
    while_stopped(plane, "rm -r etcd; mv backup etcd", meanwhile);
}

/// Changes the object of a custom resource at `path` (`<group>/<plural>/<name>`) as no request can,
/// even the time of its creation. It must be there.
pub async fn change(plane: &ControlPlane, path: &str, change: impl Fn(&mut Value)) {
    let key = BASE64.encode(format!("/registry/{path}"));
    let client = client(plane);
    wait::until(&format!("{path} is changed in etcd"), CHANGED, || async {
        let found = ask(&client, plane, "range", json!({"key": key})).await?;
        let stored = &found["kvs"][0];
        let text = stored["value"].as_str().ok_or("it is not there")?;
        let text = BASE64.decode(text).map_err(|error| error.to_string())?;
        let mut object: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        change(&mut object);
        let value = BASE64.encode(object.to_string());
        // Only what was read is replaced.
        let read = json!({"key": key, "target": "MOD", "result": "EQUAL",
            "mod_revision": stored["mod_revision"]});
        let put = json!({"request_put": {"key": key, "value": value}});
        let write = json!({"compare": [read], "success": [put]});
        let answer = ask(&client, plane, "txn", write).await?;
        if answer["succeeded"] == true { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
}

/// Returns a client with the API server's certificate.
fn client(plane: &ControlPlane) -> reqwest::Client {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let read = |name: &str| {
        let path = plane.addresses.dir.join("pki").join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let mut identity = read("apiserver-etcd.crt");
    identity.extend(read("apiserver-etcd.key"));
    let ca = reqwest::Certificate::from_pem_bundle(&read("ca.crt")).expect("a PEM file");
    reqwest::Client::builder()
        .tls_certs_only(ca)
        .identity(reqwest::Identity::from_pem(&identity).expect("a certificate and its key"))
        .http1_only()
        .no_proxy()
        .build()
        .expect("a client")
}

/// Sends a request to the JSON API of etcd.
async fn ask(
    client: &reqwest::Client,
    plane: &ControlPlane,
    verb: &str,
    request: Value,
) -> Result<Value, String> {
    let url = format!("{}/v3/kv/{verb}", plane.addresses.etcd);
    let sent = client.post(url).json(&request).send().await;
    let answer = sent.and_then(reqwest::Response::error_for_status);
    answer.map_err(|error| error.to_string())?.json().await.map_err(|error| error.to_string())
}

/// Returns when each Lease of the controller was renewed.
fn renewals(plane: &ControlPlane) -> Vec<String> {
    let found = plane.requests().list("lease", SYSTEM_NAMESPACE, "");
    let times = found.iter().filter_map(|lease| lease["spec"]["renewTime"].as_str());
    times.map(str::to_owned).collect()
}

/// Runs a script in the folder of the control plane while nothing uses the data of etcd.
fn while_stopped(plane: &ControlPlane, script: &str, meanwhile: impl FnOnce()) {
    plane.control("stop", API_SERVER);
    plane.control("stop", ETCD);
    let done = Command::new("sh").args(["-ec", script]).current_dir(&plane.addresses.dir).status();
    assert!(done.is_ok_and(|status| status.success()), "{script}");
    meanwhile();
    plane.control("start", ETCD);
    plane.control("start", API_SERVER);
}
