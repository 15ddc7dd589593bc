//! Control planes that tests borrow.
//!
//! A plane takes eight seconds to start and prepare, most of it processor time. A test that has one
//! for itself gives it back; it is emptied of everything that was not there at first, and goes to
//! the next test; one with nothing of ours is prepared where a prepared one is asked for. One on which
//! something of the beginning was changed or deleted, or a component does not run any more, is stopped
//! instead.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::Method;
use olm_api::keys::name::CONTROLLER_CONFIG;
use serde_json::{Value, json};

use crate::cluster::{ControlPlane, SYSTEM_NAMESPACE};
use crate::requests::{DISCOVERY, JSON};

/// How long emptying may take: mostly what Kubernetes takes to delete namespaces.
const EMPTIED: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(250);
/// After this time what is left is asked for again: what was made meanwhile may hold it.
const SLOW: Duration = Duration::from_secs(5);
/// Asks for what the API server has in memory, which may be a moment old.
const IN_MEMORY: &str = "?resourceVersion=0";
/// Asks for metadata alone.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// Resources that come and go by themselves.
const TRANSIENT: [&str; 3] = ["events", "componentstatuses", "apiservices"];
/// What Kubernetes makes for every namespace, and the leases of its own processes.
const OF_KUBERNETES: [(&str, &str); 2] =
    [("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")];
/// Groups whose objects decide how the cluster behaves: a test that changes one of those that were
/// there at first has made it another cluster.
const DECIDING: [&str; 3] =
    ["admissionregistration.k8s.io", "apiextensions.k8s.io", "rbac.authorization.k8s.io"];
/// Cluster roles that Kubernetes itself rewrites, because they are made of others.
const AGGREGATED: [&str; 3] = ["admin", "edit", "view"];

/// Planes with nothing of ours, and prepared ones, that run at the same time, unless none becomes free for
/// this long: emptying one takes less than starting another and having both run.
const MOST: [usize; 2] = [3, 4];
const PATIENCE: Duration = Duration::from_secs(90);

/// Planes with nothing of ours, and prepared ones.
static PLANES: [Mutex<Planes>; 2] =
    [const { Mutex::new(Planes { free: Vec::new(), running: 0 }) }; 2];

struct Planes {
    free: Vec<Pooled>,
    running: usize,
}

/// A plane and what was on it at first.
pub(crate) struct Pooled {
    /// The plane.
    pub(crate) plane: &'static ControlPlane,
    first: Listing,
    prepared: bool,
}

impl Pooled {
    fn of(plane: &'static ControlPlane, prepared: bool) -> Self {
        Self { first: list(plane, "").unwrap_or_default(), plane, prepared }
    }
}

/// An object: its path without the name of the API server, and what is compared of it.
type Listing = BTreeMap<String, Found>;

struct Found {
    /// Empty, unless a change of the object makes another cluster.
    version: String,
    finalizers: bool,
}

/// Returns a plane that nobody else uses, a new one where none is free.
pub(crate) fn borrow(prepared: bool) -> Pooled {
    let began = Instant::now();
    loop {
        let mut planes = lock(prepared);
        if let Some(free) = planes.free.pop() {
            return free;
        }
        if let Some(bare) = prepared.then(take_bare).flatten() {
            planes.running += 1;
            drop(planes);
            bare.plane.prepare();
            return Pooled::of(bare.plane, prepared);
        }
        if planes.running < MOST[usize::from(prepared)] || began.elapsed() > PATIENCE {
            planes.running += 1;
            break;
        }
        drop(planes);
        std::thread::sleep(POLL);
    }
    let plane = if prepared { ControlPlane::start() } else { ControlPlane::empty() };
    Pooled::of(Box::leak(Box::new(plane)), prepared)
}

/// Takes a free plane with nothing of ours from those, for good.
fn take_bare() -> Option<Pooled> {
    let mut planes = lock(false);
    let bare = planes.free.pop()?;
    planes.running -= 1;
    Some(bare)
}

/// Takes a plane back, in the background.
pub(crate) fn give_back(pooled: Pooled) {
    std::thread::spawn(move || {
        if empty(&pooled).is_some() {
            lock(pooled.prepared).free.push(pooled);
        } else {
            pooled.plane.stop();
            lock(pooled.prepared).running -= 1;
        }
    });
}

fn lock(prepared: bool) -> std::sync::MutexGuard<'static, Planes> {
    PLANES[usize::from(prepared)].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Deletes what was not on the plane at first; `None` when it cannot be as it was.
fn empty(pooled: &Pooled) -> Option<()> {
    let deadline = Instant::now() + EMPTIED;
    while is_acted_on(pooled.plane) {
        (Instant::now() < deadline).then_some(())?;
        std::thread::sleep(POLL);
    }
    let mut query = IN_MEMORY;
    while Instant::now() < deadline {
        let looked = Instant::now();
        pooled.plane.is_whole().then_some(())?;
        let now = list(pooled.plane, query)?;
        let as_it_was = |(path, first): (&String, &Found)| {
            now.get(path).is_some_and(|found| found.version == first.version)
        };
        pooled.first.iter().all(as_it_was).then_some(())?;
        let mut more: Vec<_> =
            now.iter().filter(|(path, _)| !pooled.first.contains_key(*path)).collect();
        if more.is_empty() && query.is_empty() {
            return forget(pooled.plane);
        }
        query = if more.is_empty() { "" } else { IN_MEMORY };
        more.retain(|(path, found)| !goes_along(pooled, path, found));
        // What decides about requests goes first.
        more.sort_by_key(|(path, _)| !path.contains("admissionregistration"));
        let requests = pooled.plane.requests();
        for (path, found) in &more {
            if found.finalizers {
                let none = json!({"metadata": {"finalizers": null}});
                let _ = requests.send(Method::PATCH, path, Some(&none));
            }
            let now = json!({"propagationPolicy": "Background", "gracePeriodSeconds": 0});
            let _ = requests.send(Method::DELETE, path, Some(&now));
        }
        // Everything is listed again only once the slowest of them may be gone.
        for (path, _) in more {
            while requests.send(Method::GET, path, None).is_ok() && Instant::now() < looked + SLOW {
                std::thread::sleep(POLL);
            }
        }
    }
    None
}

/// Says whether a controller still runs on a plane: most tests drop theirs after the last handle.
fn is_acted_on(plane: &ControlPlane) -> bool {
    let folders = plane.addresses.dir.read_dir().into_iter().flatten().flatten();
    let mut pids = folders.filter_map(|it| std::fs::read_to_string(it.path().join("pid")).ok());
    pids.any(|pid| {
        let command = std::fs::read_to_string(format!("/proc/{}/cmdline", pid.trim()));
        command.is_ok_and(|command| command.contains("--listen-info"))
    })
}

/// Says whether an object goes with its namespace. Pods go sooner: the namespace would give them half a
/// minute.
fn goes_along(pooled: &Pooled, path: &str, found: &Found) -> bool {
    let inside = path.split_once("/namespaces/").and_then(|(_, inside)| inside.split_once('/'));
    inside.is_some_and(|(namespace, object)| {
        let namespace = format!("/api/v1/namespaces/{namespace}");
        let stays = pooled.first.contains_key(&namespace);
        !stays && !found.finalizers && !object.starts_with("pods/")
    })
}

/// Removes what controllers kept on disk, and what Events and the audit log tell of them.
fn forget(plane: &ControlPlane) -> Option<()> {
    for entry in plane.addresses.dir.read_dir().ok()? {
        let path = entry.ok()?.path();
        if path.to_string_lossy().ends_with("-state") {
            std::fs::remove_dir_all(path).ok()?;
        }
    }
    // An earlier controller has published its settings.
    let path = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps/{CONTROLLER_CONFIG}");
    let none = json!({"data": null});
    let _ = plane.requests().send(Method::PATCH, &path, Some(&none));
    for namespace in ["default", SYSTEM_NAMESPACE] {
        let path = format!("/api/v1/namespaces/{namespace}/events");
        plane.requests().send(Method::DELETE, &path, None).ok()?;
    }
    // The API server appends.
    File::options().write(true).truncate(true).open(&plane.addresses.audit_log).ok()?;
    Some(())
}

/// Lists every object that somebody may delete; `None` when the API server does not answer.
fn list(plane: &ControlPlane, query: &str) -> Option<Listing> {
    let requests = plane.requests();
    let mut found = Listing::new();
    for root in ["/api", "/apis"] {
        let all = requests.exchange(None, Method::GET, root, (DISCOVERY, JSON), None).ok()?;
        for group in all["items"].as_array()? {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            let version = &group["versions"][0];
            let Some(number) = version["version"].as_str() else { continue };
            let api = if name.is_empty() {
                format!("/api/{number}")
            } else {
                format!("/apis/{name}/{number}")
            };
            for resource in version["resources"].as_array().into_iter().flatten() {
                let plural = resource["resource"].as_str().unwrap_or_default();
                let may = |verb: &str| {
                    resource["verbs"].as_array().is_some_and(|all| all.contains(&json!(verb)))
                };
                if !may("list") || !may("delete") || TRANSIENT.contains(&plural) {
                    continue;
                }
                let path = format!("{api}/{plural}{query}");
                // A CRD may have gone since.
                let forms = (METADATA, JSON);
                let objects = requests.exchange(None, Method::GET, &path, forms, None);
                let Ok(objects) = objects else { continue };
                for object in objects["items"].as_array().into_iter().flatten() {
                    collect(&mut found, (&api, name, plural), &object["metadata"]);
                }
            }
        }
    }
    Some(found)
}

fn collect(found: &mut Listing, (api, group, plural): (&str, &str, &str), metadata: &Value) {
    let text = |key: &str| metadata[key].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let lease = plural == "leases" && namespace.starts_with("kube-");
    if lease || OF_KUBERNETES.contains(&(plural, name)) {
        return;
    }
    let path = if namespace.is_empty() {
        format!("{api}/{plural}/{name}")
    } else {
        format!("{api}/namespaces/{namespace}/{plural}/{name}")
    };
    let decides = DECIDING.contains(&group) && !AGGREGATED.contains(&name);
    let version = match (decides, &metadata["generation"]) {
        (true, Value::Number(generation)) => generation.to_string(),
        (true, _) => text("resourceVersion").to_owned(),
        (false, _) => String::new(),
    };
    // Kubernetes itself ends what these wait for.
    let kept = ["namespaces", "customresourcedefinitions"].contains(&plural);
    let finalizers = !kept && metadata["finalizers"].as_array().is_some_and(|all| !all.is_empty());
    found.insert(path, Found { version, finalizers });
}
