//! Several replicas: one acts, each serves catalogs, and a rolling update fails no request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::join_all;
use olm_test::prelude::*;
use tokio::sync::RwLock;

/// A replica answers for so long after its signal, less what a request takes (deploying.md 4.4).
const LINGERS: Duration = Duration::from_secs(4);
/// Rolling updates under load; `ROUNDS` says otherwise.
const ROUNDS: usize = 1;
/// A killed leader's lease has run out by then, and the next one leads (deploying.md P26).
const TAKE_OVER: Duration = Duration::from_secs(150);
/// Clients at the same time.
const CLIENTS: usize = 4;
/// Milliseconds between two requests of a client, as `PAUSE` says otherwise: without a pause they take the
/// processors from what they test.
const PAUSE: usize = 50;

fn replica(cluster: &Cluster, name: &str) -> Controller {
    start(cluster, name, "--external-address=catalogs.example.com")
}

fn start(cluster: &Cluster, name: &str, arg: &str) -> Controller {
    let args = ["--leader-elect", "--webhook-certificates=self-signed", arg];
    Controller::start(cluster.plane, ControllerOptions::of(name, &args))
}

async fn leads(controller: &Controller) {
    all_led(&[controller], SOON).await;
}

/// Waits until the controllers hold both leases, whoever holds which.
async fn all_led(controllers: &[&Controller], within: Duration) {
    wait::until("somebody leads", within, || async {
        let held = join_all(controllers.iter().map(|controller| held(controller))).await;
        if held.iter().sum::<usize>() == 2 {
            Ok(())
        } else {
            Err((held, controllers[0].last_words()))
        }
    })
    .await;
}

/// Returns how many leases a controller holds.
async fn held(controller: &Controller) -> usize {
    let metrics = controller.metrics().await;
    let leading = metrics
        .lines()
        .filter(|line| line.starts_with("leader_election_master_status{"))
        .filter(|line| line.ends_with(" 1"));
    leading.count()
}

fn address(controller: &Controller, catalog: &str) -> String {
    let listening = controller.listening();
    let address = listening["catalogs"].as_str().expect("catalogs are served");
    format!("https://{address}/catalogs/{catalog}/api/v1/all")
}

fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .pool_max_idle_per_host(0)
        .build()
        .expect("a client")
}

/// Returns status, entity tag, time of the last change, and body.
async fn get(url: &str) -> (u16, String, String, String) {
    let answer = client().get(url).send().await.expect("an answer");
    let header = |name: &str| {
        let value = answer.headers().get(name);
        value.map_or_else(String::new, |value| value.to_str().expect("text").to_owned())
    };
    let (tag, modified) = (header("etag"), header("last-modified"));
    (answer.status().as_u16(), tag, modified, answer.text().await.expect("a body"))
}

/// Clients that ask the ready replicas in turn, as a Service has them do.
struct Load {
    endpoints: Arc<RwLock<Vec<String>>>,
    stop: Arc<AtomicBool>,
    answers: Arc<Mutex<Answers>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// What became of the requests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Answers {
    answered: usize,
    /// Cut or refused, and answered by another replica.
    repeated: usize,
    failed: usize,
}

impl Load {
    fn start(endpoints: Vec<String>) -> Self {
        let load = Self {
            endpoints: Arc::new(RwLock::new(endpoints)),
            stop: Arc::default(),
            answers: Arc::default(),
            tasks: Vec::new(),
        };
        let pause = u64::try_from(times("PAUSE", PAUSE)).map(Duration::from_millis);
        let pause = pause.expect("a short time");
        let tasks = (0..CLIENTS).map(|number| {
            let (endpoints, stop) = (Arc::clone(&load.endpoints), Arc::clone(&load.stop));
            let answers = Arc::clone(&load.answers);
            tokio::spawn(async move {
                let client = client();
                let mut turn = number;
                while !stop.load(Ordering::Relaxed) {
                    tokio::time::sleep(pause).await;
                    turn += 1;
                    // Whoever takes an endpoint away waits for those who use it.
                    let urls = endpoints.read().await;
                    let first = whole(&client, &urls[turn % urls.len()]).await;
                    let answered = first || whole(&client, &urls[(turn + 1) % urls.len()]).await;
                    drop(urls);
                    let mut answers = answers.lock().expect("nobody panics");
                    let count = match (first, answered) {
                        (true, _) => &mut answers.answered,
                        (false, true) => &mut answers.repeated,
                        (false, false) => &mut answers.failed,
                    };
                    *count += 1;
                }
            })
        });
        let tasks = tasks.collect();
        Self { tasks, ..load }
    }

    /// Ends it, and returns what became of its requests.
    async fn end(self) -> Answers {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("a client ends");
        }
        *self.answers.lock().expect("nobody panics")
    }
}

/// Says whether a request is answered whole.
async fn whole(client: &reqwest::Client, url: &str) -> bool {
    match client.get(url).send().await {
        Ok(answer) if answer.status() == 200 => answer.bytes().await.is_ok(),
        _ => false,
    }
}

/// Returns how often something is done: what the variable says, else `default`.
fn times(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// Expects that a replica that does not lead serves what the leader serves (deploying.md 4.3).
async fn who_does_not_lead_serves_the_same(cluster: &Cluster, first: &Controller) {
    let mut scene = Scene::served(cluster.clone(), "twice", &["1.0.0"]).await;
    let second = replica(cluster, "second");
    second.ready().await;
    let (served, copied) = (address(first, &scene.name), address(&second, &scene.name));
    let expected = get(&served).await;
    assert_eq!(expected.0, 200);
    assert_eq!(get(&copied).await, expected);

    // What changes later, and what goes.
    scene.publish(&[Bundle::new("1.0.0"), Bundle::new("1.0.1")], &chain(&["1.0.0", "1.0.1"])).await;
    wait::until("the copy follows", SOON, || async {
        let (served, copied) = (get(&served).await, get(&copied).await);
        if served == copied { Ok(()) } else { Err((served.1, copied.1)) }
    })
    .await;
    cluster.plane.kubectl(&["delete", "clustercatalog", &scene.name, "--timeout=180s"]);
    wait::read("the copy goes", SOON, || get(&copied), |answer| answer.0 == 404).await;
}

// deploying.md P32, P34, 4.3, 4.4
#[tokio::test(flavor = "multi_thread")]
async fn rolling_updates_under_load_fail_no_request_and_every_replica_serves_the_same() {
    let cluster = cluster::own().await;
    let mut old = replica(&cluster, "replica-0");
    leads(&old).await;
    let scene = Scene::served(cluster.clone(), "rolling", &["1.0.0"]).await;
    let name = scene.name.clone();
    let load = Load::start(vec![address(&old, &name)]);
    let (mut longest, mut heard) = (Duration::ZERO, Duration::ZERO);
    for round in 1..=times("ROUNDS", ROUNDS) {
        let new = replica(&cluster, &format!("replica-{round}"));
        new.ready().await;
        load.endpoints.write().await.push(address(&new, &name));
        let stopped = Instant::now();
        old.signal("TERM");
        // Clients hear that the pod ends some time after it says that it is not ready.
        let ends = "the old replica says that it ends";
        wait::read(ends, SOON, || old.health("readyz"), |status| *status != 200).await;
        load.endpoints.write().await.remove(0);
        heard = heard.max(stopped.elapsed());
        leads(&new).await;
        longest = longest.max(stopped.elapsed());
        assert_eq!(old.ended(SOON).await, 0);
        old = new;
    }
    let sum = load.end().await;
    println!("{sum:?}; longest without a leader {longest:?}");
    // On a machine that is too busy to tell clients in time, they ask who is gone, and repeat.
    assert!(sum.repeated == 0 || heard > LINGERS, "{sum:?}, told after {heard:?}");
    assert_eq!(sum.failed, 0);
    assert!(sum.answered > 0);
    who_does_not_lead_serves_the_same(&cluster, &old).await;
}

// deploying.md 4.1, 4.3: the lease of who is killed runs out, and meanwhile the other one serves.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "waits 140 seconds a round: make availability"]
async fn killed_leaders_under_load_fail_no_request() {
    let cluster = cluster::own().await;
    let mut one = replica(&cluster, "killed-0");
    leads(&one).await;
    let scene = Scene::served(cluster.clone(), "killed", &["1.0.0"]).await;
    let name = scene.name.clone();
    let mut other = replica(&cluster, "killed-1");
    other.ready().await;
    let load = Load::start(vec![address(&one, &name), address(&other, &name)]);
    let mut longest = Duration::ZERO;
    for round in 1..=times("KILLS", 1) {
        if held(&one).await < held(&other).await {
            std::mem::swap(&mut one, &mut other);
        }
        let killed = Instant::now();
        one.kill();
        // Endpoints forget a pod some time after it has ended.
        tokio::time::sleep(Duration::from_secs(1)).await;
        *load.endpoints.write().await = vec![address(&other, &name)];
        let new = replica(&cluster, &format!("killed-{}", round + 1));
        new.ready().await;
        load.endpoints.write().await.push(address(&new, &name));
        all_led(&[&other, &new], TAKE_OVER).await;
        println!("round {round}: led again after {:?}", killed.elapsed());
        longest = longest.max(killed.elapsed());
        one = new;
    }
    let sum = load.end().await;
    println!("{sum:?}; longest without a leader {longest:?}");
    assert_eq!(sum.failed, 0);
    assert!(sum.answered > 0);
}

// deploying.md P33
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_keeps_the_content_while_the_registry_is_away() {
    const SELF_SIGNED: &str = "--serving-certificates=self-signed";
    let cluster = cluster::own().await;
    let mut first = start(&cluster, "origin", SELF_SIGNED);
    first.ready().await;
    leads(&first).await;
    let scene = Scene::served(cluster.clone(), "kept", &["1.0.0"]).await;
    let expected = get(&address(&first, &scene.name)).await;
    assert_eq!(expected.0, 200);

    cluster.plane.control("stop", "registry");
    let second = start(&cluster, "copy", SELF_SIGNED);
    second.ready().await;
    assert_eq!(get(&address(&second, &scene.name)).await, expected);
    let copied = "copied from another replica";
    second.logs(copied).await;

    // The next one asks the second, which leads now.
    first.signal("TERM");
    leads(&second).await;
    assert_eq!(first.ended(SOON).await, 0);
    wait::until("the second names itself", SOON, || async {
        let catalog = scene.get("clustercatalog", &scene.name).unwrap_or_default();
        let base = catalog["status"]["urls"]["base"].to_string();
        let address = second.listening()["catalogs"].to_string();
        base.contains(address.trim_matches('"')).then_some(()).ok_or(base)
    })
    .await;
    let third = start(&cluster, "third", SELF_SIGNED);
    third.ready().await;
    assert_eq!(get(&address(&third, &scene.name)).await, expected);
    third.logs(copied).await;
    cluster.plane.control("start", "registry");
}
