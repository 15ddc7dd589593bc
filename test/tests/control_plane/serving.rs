//! The serving certificate that the program issues itself (`--serving-certificates=self-signed`).

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt as _;
use olm_test::prelude::*;

const AUTHORITY: &str = "olm-serving-ca";
const PUBLISHED: &str = "catalogd-ca";
const REPLACED: &str = "ServingAuthorityReplaced";
const SELF_SIGNED: &str = "--serving-certificates=self-signed";

fn secrets(cluster: &Cluster) -> Api<Secret> {
    Api::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE)
}

/// Returns what Secret `name` holds under `key`.
async fn entry(cluster: &Cluster, name: &str, key: &str) -> Result<String, String> {
    let secret = secrets(cluster).get(name).await;
    let data = secret.map_err(|error| error.to_string())?.data;
    let bytes = data.and_then(|mut data| data.remove(key));
    let bytes = bytes.ok_or_else(|| format!("no {key} in {name}"))?;
    String::from_utf8(bytes.0).map_err(|error| error.to_string())
}

/// Asks a listener of `controller` as a client that trusts nothing but what is published.
async fn asks(cluster: &Cluster, controller: &Controller, listener: &str) -> Result<u16, String> {
    let bundle = entry(cluster, PUBLISHED, "ca.crt").await?;
    let address = controller.listening()[listener].as_str().unwrap_or_default().to_owned();
    let cas = reqwest::Certificate::from_pem_bundle(bundle.as_bytes());
    let client = reqwest::Client::builder()
        .tls_certs_only(cas.map_err(|error| error.to_string())?)
        .build()
        .map_err(|error| error.to_string())?;
    let url = format!("https://{address}/metrics");
    let answer = client.get(url).send().await;
    let answer = answer.map_err(|error| format!("{error:?}"))?;
    Ok(answer.status().as_u16())
}

/// Waits until a client is served that trusts what is published.
async fn served(cluster: &Cluster, controller: &Controller) {
    for (listener, code) in [("catalogs", 404), ("metrics", 401)] {
        wait::until(&format!("{listener} of {} are served", controller.pid()), SOON, || async {
            match asks(cluster, controller, listener).await {
                Ok(answer) if answer == code => Ok(()),
                other => Err((other, controller.last_words())),
            }
        })
        .await;
    }
}

// deploying.md P13
#[tokio::test(flavor = "multi_thread")]
async fn two_processes_that_start_at_once_make_one_ca() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let args = ["--components=catalogs", "--leader-elect", SELF_SIGNED];
    let (one, two) =
        futures::join!(start(plane, "serving-one", &args), start(plane, "serving-two", &args));
    for controller in [&one, &two] {
        served(&cluster, controller).await;
        controller.ready().await;
    }
    let authority = secrets(&cluster).get(AUTHORITY).await.expect("it is made");
    let keys: Vec<_> = authority.data.iter().flatten().map(|(key, _)| key).collect();
    assert_eq!(keys, ["ca.crt", "tls.crt", "tls.key"]);
    let made = || [&one, &two].map(|it| it.log().contains("serving CA created"));
    let made = wait::value("it is logged", SOON, made, |made| made.contains(&true)).await;
    assert!(made[0] ^ made[1], "{made:?}");
    let bundle = entry(&cluster, AUTHORITY, "ca.crt").await;
    let published = secrets(&cluster).get(PUBLISHED).await.expect("it is published");
    assert_eq!(published.data.map(|data| data.len()), Some(1), "no key");
    assert_eq!(entry(&cluster, PUBLISHED, "ca.crt").await, bundle);
    let maps = Api::<ConfigMap>::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
    let map = maps.get(AUTHORITY).await.expect("it is published");
    assert_eq!(map.data.map(|mut data| data.remove("ca.crt")), Some(bundle.ok()));
    let metrics = one.metrics().await;
    for kind in ["ca", "leaf"] {
        let series = format!("olm_serving_certificate_expiry_timestamp_seconds{{kind=\"{kind}\"}}");
        assert!(metrics.contains(&series), "{metrics}");
    }

    // What is published is put back.
    maps.delete(AUTHORITY, &DeleteParams::default()).await.expect("it can be deleted");
    wait::until("the ConfigMap is put back", SOON, || async {
        maps.get(AUTHORITY).await.map(drop)
    })
    .await;
}

/// Waits until the CA is another one and clients are served again.
async fn replaced(cluster: &Cluster, old: &str, controller: &Controller) -> String {
    let new = wait::until("there is another CA", SOON, || async {
        let new = entry(cluster, AUTHORITY, "tls.crt").await?;
        let published = entry(cluster, PUBLISHED, "ca.crt").await?;
        let other = new != old && published == new;
        other.then_some(new).ok_or_else(|| controller.last_words())
    })
    .await;
    served(cluster, controller).await;
    new
}

async fn events(cluster: &Cluster) -> Vec<Value> {
    let events = Api::<Event>::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
    let events = events.list(&ListParams::default()).await;
    let events = events.expect("Events can be listed").items.into_iter();
    events
        .filter(|event| event.reason.as_deref() == Some(REPLACED))
        .map(|event| json!([event.regarding.as_ref().map(|it| &it.name), event.note]))
        .collect()
}

// deploying.md P15, catalogs.md 4.3; the extension half reads the CA from the ConfigMap, and catalogs over HTTPS
// only.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_or_damaged_ca_is_replaced_and_catalogs_are_fetched() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let before = events(&cluster).await.len();
    let catalogs = start(plane, "serving", &["--components=catalogs", SELF_SIGNED]).await;
    let half = ["--components=extensions", SELF_SIGNED];
    let extensions = start(plane, "serving-client", &half).await;
    let bundles = ["1.0.0", "1.1.0", "1.2.0"].map(Bundle::new);
    let mut scene = Scene::set(cluster.clone(), "serving", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.installed(json!({"version": "1.x"}), "1.0.0").await;
    served(&cluster, &catalogs).await;
    let first = entry(&cluster, AUTHORITY, "tls.crt").await.expect("there is a CA");

    secrets(&cluster).delete(AUTHORITY, &DeleteParams::default()).await.expect("it can be deleted");
    let second = replaced(&cluster, &first, &catalogs).await;
    scene.publish(&bundles, &chain(&["1.0.0", "1.1.0"])).await;
    extension.installed("1.1.0").await;

    let uid = secrets(&cluster).get(AUTHORITY).await.expect("there is a CA").uid();
    let rubbish = r#"{"data":{"tls.key":"cnViYmlzaA=="}}"#;
    let system = format!("--namespace={SYSTEM_NAMESPACE}");
    plane.kubectl(&["patch", "secret", AUTHORITY, &system, "-p", rubbish]);
    replaced(&cluster, &second, &catalogs).await;
    let found = secrets(&cluster).get(AUTHORITY).await.expect("there is a CA");
    assert_eq!(found.uid(), uid, "it is written, not made anew");
    scene.publish(&bundles, &chain(&["1.0.0", "1.1.0", "1.2.0"])).await;
    extension.installed("1.2.0").await;
    for said in ["the CA of catalogs is used", "catalog fetched"] {
        assert!(extensions.log().contains(said), "{said}: {}", extensions.log());
    }

    let told = wait::until("both are told", SOON, || async {
        let events = events(&cluster).await;
        if events.len() >= before + 2 { Ok(events) } else { Err(events) }
    })
    .await;
    for why in ["its Secret was deleted", "its key cannot be read"] {
        let note = format!("the serving CA is replaced by a new one: {why}");
        assert!(told.contains(&json!([AUTHORITY, note])), "{told:#?}");
    }
}
