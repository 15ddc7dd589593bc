//! What an install takes beside a bare client that server-side applies the same objects in the same
//! order, one after the other as kubectl does, and waits for the same readiness.

use kube::Client;
use olm_core::object::Object;
use olm_core::revision::{Readiness, built_in, evaluate, phases};
use olm_test::prelude::*;
use olm_test::usage::Usage;

use super::figures::preflights;
use super::objects::Objects;
use super::stage::Stage;

/// Memory is given back within this time.
const REST: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures, with nothing beside it: make bench-cluster"]
async fn next_to_a_bare_client() {
    let bundles: Vec<(String, String)> = paths::rows("test/tests/corpus/bundles/bare.yaml");
    let mut installed = Vec::new();
    for (package, version) in &bundles {
        let stage = Stage::set(package, &[version.as_str()]).await;
        let (began, started) = (Timestamp::now(), Instant::now());
        let extension = stage.install(version, json!({})).await;
        extension.installed(version).await;
        let took = started.elapsed();
        let checks = preflights(&stage.cluster.plane.addresses.audit_log, began);
        installed.push((stage, extension, took, checks));
    }
    let controller = cluster::shared_controller().expect("a stage has one");
    println!("all installed: {}", Usage::of(controller));
    tokio::time::sleep(REST).await;
    println!("{REST:?} later: {}", Usage::of(controller));
    let (mut ratios, mut shares) = ([Vec::new(), Vec::new()], Vec::new());
    for ((package, version), (stage, extension, ours, checks)) in bundles.iter().zip(installed) {
        let objects = stage.rendered(version);
        stage.removed(&extension, &objects).await;
        let (requests, took) = checks;
        let share = 100.0 * took.as_secs_f64() / ours.as_secs_f64();
        println!(
            "| {package} {version} | checks before | {requests} requests | {took:.0?} | {share:.0} % |"
        );
        shares.push(share);
        let account = stage.account_client().await;
        let mut row = format!("| {package} {version} | {} objects | {ours:.2?} |", objects.len());
        // An account's rights are checked against every role it writes, an administrator's are not.
        for (client, ratios) in [&account, &stage.cluster.client].into_iter().zip(&mut ratios) {
            let bare = if gone(&stage, &objects).await {
                apply(client, &objects).await
            } else {
                // A CRD may be terminating for minutes.
                Err("what was there before is not gone".to_owned())
            };
            let cell = match bare {
                Ok(bare) => {
                    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
                    ratios.push(ratio);
                    format!(" {bare:.2?} | {ratio:.2} |")
                }
                Err(refused) => format!(" a bare client cannot: {refused} |"),
            };
            row.push_str(&cell);
        }
        println!("{row}");
    }
    let p50 = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let [mut account, mut admin] = ratios;
    println!(
        "p50 {:.2} beside the account, {:.2} beside an administrator",
        p50(&mut account),
        p50(&mut admin)
    );
    println!("checks before a revision is written, p50 {:.0} %", p50(&mut shares));
}

/// Waits a while until no object is there any more, and says whether that is so.
async fn gone(stage: &Stage, objects: &[Object]) -> bool {
    let mut live = stage.objects.lock().await;
    let gone = async {
        while !live.left(objects).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(SOON, gone).await.is_ok()
}

/// Applies everything, takes it away again, and returns how long it took until it was ready. Some
/// bundles have objects that the API server refuses before they are prepared.
async fn apply(client: &Client, objects: &[Object]) -> Result<Duration, String> {
    let mut live = Objects::new(client);
    // It knows the kinds that are served.
    live.left(objects).await;
    let started = Instant::now();
    let params = PatchParams::apply("bare").force();
    let phases = phases(objects.to_vec()).expect("the objects of a revision");
    for phase in &phases {
        let mut applied = Vec::new();
        for object in &phase.objects {
            // The controller leaves it out too.
            if live.may_wait(&object.identity()).await {
                continue;
            }
            applied.push(object);
            let api = live.existing(&object.identity()).await;
            let patch = Patch::Apply(&object.0);
            let applied = api.patch(object.name(), &params, &patch).await;
            applied.map_err(|error| format!("{}: {error}", object.identity()))?;
        }
        let what = format!("{} is ready", phase.name);
        for object in applied {
            let api = live.existing(&object.identity()).await;
            wait::until(&what, SOON, || async {
                let found = api.get(object.name()).await.map_err(|it| it.to_string())?;
                let found = serde_json::to_value(found).map_err(|it| it.to_string())?;
                let found = Object::from_value(found).ok_or("not an object")?;
                match evaluate(&found, &built_in()) {
                    Readiness::Ready => Ok(()),
                    not_yet => Err(format!("{not_yet:?}")),
                }
            })
            .await;
        }
    }
    let took = started.elapsed();
    for object in phases.iter().rev().flat_map(|phase| &phase.objects) {
        if live.may_wait(&object.identity()).await {
            continue;
        }
        let api = live.existing(&object.identity()).await;
        drop(api.delete(object.name(), &DeleteParams::background()).await);
    }
    Ok(took)
}
