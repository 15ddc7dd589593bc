//! Tests of the fault-injecting proxy itself, for faults whose effect no other test sees.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{WatchEvent, WatchParams};
use olm_test::prelude::*;

const SHORT: Duration = Duration::from_millis(300);

struct Stage {
    proxy: Proxy,
    client: kube::Client,
    /// A client of the administrator, without the proxy.
    direct: kube::Client,
}

impl Stage {
    async fn set() -> Self {
        let cluster = cluster::shared().await;
        let plane = cluster.plane;
        let proxy = Proxy::start(plane);
        let client = cluster::client_through(plane, &proxy).await;
        Self { proxy, client, direct: cluster.client }
    }

    fn secrets(client: &kube::Client) -> Api<Secret> {
        Api::namespaced(client.clone(), SYSTEM_NAMESPACE)
    }
}

fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("a Secret")
}

async fn delete(secrets: &Api<Secret>, name: &str) {
    let deleted = secrets.delete(name, &DeleteParams::default()).await;
    drop(deleted.expect("it is deleted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_answer_ends_in_the_middle() {
    let stage = Stage::set().await;
    let secrets = Stage::secrets(&stage.client);
    let cut = stage.proxy.fail(Rule::list("secrets").cut().times(1));
    let listed = secrets.list(&ListParams::default()).await;
    assert!(!matches!(listed, Ok(_) | Err(kube::Error::Api(_))), "{listed:?}");
    assert_eq!(stage.proxy.strikes(cut), 1);
    secrets.list(&ListParams::default()).await.expect("whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_ends_without_an_answer_and_the_request_is_carried_out_or_not() {
    let stage = Stage::set().await;
    let (asked, direct) = (Stage::secrets(&stage.client), Stage::secrets(&stage.direct));
    for (name, rule, exists) in [
        ("proxy-silence", Rule::create("secrets").silent(SHORT), false),
        ("proxy-unanswered", Rule::create("secrets").unanswered(SHORT), true),
    ] {
        let rule = stage.proxy.fail(rule.times(1));
        let started = Instant::now();
        let created = asked.create(&PostParams::default(), &secret(name)).await;
        assert!(!matches!(created, Ok(_) | Err(kube::Error::Api(_))), "{created:?}");
        assert!(started.elapsed() >= SHORT);
        assert_eq!(stage.proxy.strikes(rule), 1);
        let found = direct.get_opt(name).await.expect("an answer");
        assert_eq!(found.is_some(), exists, "{name}");
        if exists {
            delete(&direct, name).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_open_watch_reports_is_held_back_until_the_rule_goes() {
    const NAME: &str = "proxy-watched";
    let stage = Stage::set().await;
    let direct = Stage::secrets(&stage.direct);
    let only = WatchParams::default().fields(&format!("metadata.name={NAME}")).disable_bookmarks();
    let secrets = Stage::secrets(&stage.client);
    let watch = secrets.watch(&only, "0").await.expect("a watch");
    let mut watch = std::pin::pin!(watch);
    let hold = stage.proxy.fail(Rule::watch("secrets").late_events(Duration::from_hours(1)));
    let created = direct.create(&PostParams::default(), &secret(NAME)).await;
    created.expect("it is created");
    stage.proxy.struck(hold, 1).await;
    let early = tokio::time::timeout(SHORT, watch.next()).await;
    assert!(early.is_err(), "{early:?}");
    stage.proxy.stop(hold);
    let event = tokio::time::timeout(SOON, watch.next()).await;
    let event = event.expect("it comes now");
    assert!(matches!(event, Some(Ok(WatchEvent::Added(_)))), "{event:?}");
    delete(&direct, NAME).await;
}
