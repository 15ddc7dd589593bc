//! What kstatus makes of our objects: Flux, kpt and others wait by it. Asked is its own code
//! (`local-cluster kstatus`); nothing is started.

use std::io::Write as _;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use olm_api::conditions::Reason;
use olm_core::extension::summary::{Catalogs, Outcome, Pass, summarize};
use olm_core::status::{
    Note, Statement, catalog, catalog_ready, object_set, object_set_ready, put_ready,
    removal_blocked, retrying, terminal,
};
use olm_test::prelude::*;

const GENERATION: i64 = 4;

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn put(statements: impl IntoIterator<Item = Statement>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for statement in statements {
        statement.put(&mut conditions, Some(GENERATION), now());
    }
    conditions
}

fn object(kind: &str, status: &Value) -> Value {
    json!({
        "apiVersion": olm_api::API_VERSION, "kind": kind,
        "metadata": {"name": "x", "generation": GENERATION},
        "status": status,
    })
}

fn conditioned(kind: &str, conditions: &[Condition]) -> Value {
    object(kind, &json!({"observedGeneration": GENERATION, "conditions": conditions}))
}

/// An object that no controller has seen, as its CRD has it.
fn new(kind: &str) -> Value {
    let file = format!("config/crd/olm.operatorframework.io_{}s.yaml", kind.to_lowercase());
    let text = std::fs::read_to_string(paths::repository().join(file)).expect("it can be read");
    let crd = olm_core::yaml::to_json(&text).expect("the CRD is YAML").remove(0);
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    object(kind, &schema["properties"]["status"]["default"])
}

fn revision(number: i64, conditions: &[Condition]) -> ClusterObjectSet {
    let set = json!({
        "metadata": {"name": format!("x-{number}")},
        "spec": {"lifecycleState": "Active", "revision": number, "collisionProtection": "Prevent"},
        "status": {"conditions": conditions},
    });
    serde_json::from_value(set).expect("it is a revision")
}

fn rolled_out(conditions: &[Condition]) -> ClusterObjectSet {
    revision(1, &[conditions, &put([object_set::succeeded()])].concat())
}

/// An extension, by its installed revision, the one that rolls out, and how its reconcile ended.
fn extension(
    installed: Option<&[Condition]>,
    rolling: Option<&[Condition]>,
    outcome: Outcome,
) -> Value {
    let rolling = rolling.map(|conditions| revision(2, conditions));
    let revisions: Vec<_> = installed.map(rolled_out).into_iter().chain(rolling).collect();
    summarized(Ok(revisions.as_slice()), outcome, &[])
}

fn summarized(
    revisions: Result<&[ClusterObjectSet], String>,
    outcome: Outcome,
    notes: &[Note],
) -> Value {
    let pass = Pass {
        generation: Some(GENERATION),
        revisions,
        outcome,
        catalogs: Catalogs::NotAsked,
        channels: &[],
        notes,
        paused: false,
        fits: false,
        not_taken_over: false,
    };
    conditioned("ClusterExtension", &summarize(None, &pass, now()).conditions)
}

fn set(statements: impl IntoIterator<Item = Statement>, stalled: Option<Statement>) -> Value {
    let mut conditions = put(statements);
    let ready = object_set_ready(&conditions, Some(GENERATION), &[]);
    put_ready(&mut conditions, ready, stalled, Some(GENERATION), now());
    conditioned("ClusterObjectSet", &conditions)
}

fn of_catalog(statements: impl IntoIterator<Item = Statement>) -> Value {
    let mut conditions = put(statements);
    let ready = catalog_ready(&conditions, Some(GENERATION), &[]);
    put_ready(&mut conditions, ready, None, Some(GENERATION), now());
    conditioned("ClusterCatalog", &conditions)
}

/// A state: what it is called, the object, and what kstatus has to make of it.
type State = (&'static str, Value, &'static str);

fn of_extensions() -> Vec<State> {
    let steady = put([object_set::rolled_out("1.0.0"), object_set::probes_succeeded()]);
    let broken = put([
        object_set::rolled_out("1.0.0"),
        object_set::probe_failure("Object Deployment.apps/v1 x/x: down"),
    ]);
    let begun = put([object_set::rolling_out("2.0.0"), object_set::not_yet_available("2.0.0")]);
    let late = put([object_set::deadline_exceeded(10, "down")]);
    let collides = put([terminal(Reason::Blocked, "revision object collisions in phase 0")]);
    let (installed, nothing) = (Some(steady.as_slice()), None);
    let retry = || Outcome::Retry("no bundles found".to_owned());
    let invalid = || Outcome::Terminal(Reason::InvalidConfiguration, "bad".to_owned());
    let blocked = || Outcome::Terminal(Reason::Blocked, "bad".to_owned());
    let lacking = || Outcome::Held(Reason::PermissionsMissing, "bad".to_owned());
    let held = [Note { reason: Reason::NextMajorHeld, message: "2.0.0 is held".to_owned() }];
    let steadily = [rolled_out(&steady)];
    let mut changed = extension(installed, nothing, Outcome::Settled);
    changed["metadata"]["generation"] = json!(GENERATION + 1);
    let mut kept = put([]);
    put_ready(&mut kept, removal_blocked("3 instances"), None, Some(GENERATION), now());
    let mut kept = conditioned("ClusterExtension", &kept);
    kept["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    vec![
        ("a new extension", new("ClusterExtension"), "InProgress"),
        ("a new catalog", new("ClusterCatalog"), "InProgress"),
        ("a new revision", new("ClusterObjectSet"), "InProgress"),
        ("one that was just changed", changed, "InProgress"),
        ("bad configuration", extension(nothing, nothing, invalid()), "Failed"),
        ("bad configuration later", extension(installed, nothing, invalid()), "Failed"),
        ("nothing found", extension(nothing, nothing, retry()), "InProgress"),
        ("nothing newer found", extension(installed, nothing, retry()), "InProgress"),
        ("rights are missing", extension(nothing, nothing, lacking()), "InProgress"),
        ("blocked", extension(nothing, nothing, blocked()), "Failed"),
        ("unknown", summarized(Err("forbidden".to_owned()), retry(), &[]), "InProgress"),
        ("just made", extension(nothing, Some(&[]), Outcome::Settled), "InProgress"),
        ("first rollout", extension(nothing, Some(&begun), Outcome::Settled), "InProgress"),
        ("first rollout late", extension(nothing, Some(&late), Outcome::Settled), "Failed"),
        ("installed", extension(installed, nothing, Outcome::Settled), "Current"),
        ("held", summarized(Ok(steadily.as_slice()), Outcome::Settled, &held), "Current"),
        ("not available", extension(Some(&broken), nothing, Outcome::Settled), "InProgress"),
        ("upgrade", extension(installed, Some(&begun), Outcome::Settled), "InProgress"),
        ("upgrade late", extension(installed, Some(&late), Outcome::Settled), "Failed"),
        ("upgrade collides", extension(installed, Some(&collides), Outcome::Settled), "Failed"),
        ("removal blocked", kept, "Terminating"),
    ]
}

fn of_revisions_and_catalogs() -> Vec<State> {
    let stalled = || object_set::stalled("Object Deployment.apps/v1 x/x cannot progress: quota");
    let rolling = || [object_set::rolling_out("1.0.0"), object_set::not_yet_available("1.0.0")];
    vec![
        ("a revision rolls out", set(rolling(), None), "InProgress"),
        ("a revision cannot progress", set(rolling(), Some(stalled())), "Failed"),
        ("a revision is retried", set([retrying("forbidden")], None), "InProgress"),
        ("a revision collides", set([terminal(Reason::Blocked, "bad")], None), "Failed"),
        (
            "a revision is rolled out",
            set(
                [
                    object_set::rolled_out("1.0.0"),
                    object_set::probes_succeeded(),
                    object_set::succeeded(),
                ],
                None,
            ),
            "Current",
        ),
        ("a revision is archived", set(object_set::archived(), None), "Current"),
        ("a revision is being archived", set([object_set::archiving()], None), "InProgress"),
        ("a catalog is served", of_catalog([catalog::serving(), catalog::unpacked()]), "Current"),
        (
            "a catalog is not read",
            of_catalog([catalog::nothing_unpacked(), retrying("no route")]),
            "InProgress",
        ),
        (
            "a newer image is not read",
            of_catalog([catalog::serving(), retrying("no route")]),
            "InProgress",
        ),
        (
            "a catalog has no image",
            of_catalog([catalog::nothing_unpacked(), terminal(Reason::Blocked, "bad")]),
            "Failed",
        ),
        ("a catalog is switched off", of_catalog(catalog::switched_off()), "Failed"),
    ]
}

// deploying.md 9.3
#[test]
fn kstatus_tells_failures_from_progress() {
    let states = [of_extensions(), of_revisions_and_catalogs()].concat();
    let mut program = Command::new(paths::local_cluster())
        .arg("kstatus")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("local-cluster runs; build it with `make local-cluster`");
    let mut stdin = program.stdin.take().expect("it is piped");
    for (_, object, _) in &states {
        writeln!(stdin, "{object}").expect("it reads");
    }
    drop(stdin);
    let out = program.wait_with_output().expect("it ends");
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).expect("it prints text");
    let read = |line: &str| serde_json::from_str::<Value>(line).expect("a line is JSON");
    let answers: Vec<_> = text.lines().map(read).collect();
    assert_eq!(answers.len(), states.len());
    let mut wrong = Vec::new();
    for ((name, object, want), answer) in states.iter().zip(&answers) {
        if answer["status"] != *want {
            wrong.push(format!("{name}: {answer}, not {want}, of {object}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
