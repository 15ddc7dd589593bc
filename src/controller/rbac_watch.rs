//! Wakes objects that wait for rights when a role or binding of their account changes.
//!
//! Nothing is watched while nobody waits. Then the four kinds are: of roles the metadata, of
//! bindings their subjects. A change wakes those whose account a binding names, by itself or by a
//! group, and those whose account is bound to a role, or who need that role themselves. Changes
//! are gathered, so that a manifest that is applied wakes once, and a Role that two controllers
//! fight for does not keep anybody busy.
//!
//! Source: api.md D11, applying.md 5.3, f8.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::channel::mpsc;
use futures::stream::{self, BoxStream, StreamExt as _};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject,
};
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::Event;
use kube::{Client, Resource, ResourceExt as _};
use olm_core::rbac::{RoleKey, concerns};
use olm_core::revision::Account;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::cluster;

/// Changes within this time wake once.
const GATHER: Duration = Duration::from_secs(1);
/// The time that the watch continues after the last wait.
const LINGER: Duration = Duration::from_mins(1);

/// An object that waits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waiter {
    /// The extension of this name.
    Extension(String),
    /// The revision of this name.
    Revision(String),
}

/// The awaited change.
#[derive(Debug, Clone, Default)]
pub struct Interest {
    /// Accounts that are to get rights.
    pub accounts: Vec<Account>,
    /// Roles that are to be made or changed.
    pub roles: BTreeSet<RoleKey>,
}

/// Knows who waits for rights, and wakes them.
pub struct RbacWatch {
    waiting: Mutex<Waiting>,
    /// Told when others wait.
    news: Notify,
    extensions: mpsc::UnboundedSender<String>,
    revisions: mpsc::UnboundedSender<String>,
}

#[derive(Default)]
struct Waiting {
    all: BTreeMap<Waiter, Interest>,
    /// Those to be woken.
    due: BTreeSet<Waiter>,
}

/// Bindings by namespace and name: the role, and who gets it.
type Bindings = HashMap<(String, String), (RoleKey, Vec<Subject>)>;

enum Change {
    Role(RoleKey),
    Binding((String, String), RoleKey, Vec<Subject>),
    Unbound((String, String)),
}

impl RbacWatch {
    /// Returns it, and the names of extensions and of revisions to be looked at again.
    pub fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<String>, mpsc::UnboundedReceiver<String>) {
        let (extensions, woken_extensions) = mpsc::unbounded();
        let (revisions, woken_revisions) = mpsc::unbounded();
        let watch = Self { waiting: Mutex::default(), news: Notify::new(), extensions, revisions };
        (Arc::new(watch), woken_extensions, woken_revisions)
    }

    /// Has somebody woken by changes that may give what they wait for. Who is new is woken once
    /// without any: rights may have changed between the question and this.
    pub fn wait(&self, waiter: Waiter, interest: Interest) {
        let mut waiting = self.waiting();
        if waiting.all.insert(waiter.clone(), interest).is_none() {
            waiting.due.insert(waiter);
        }
        self.news.notify_one();
    }

    /// Has somebody woken no more.
    pub fn forget(&self, waiter: &Waiter) {
        let mut waiting = self.waiting();
        waiting.due.remove(waiter);
        waiting.all.remove(waiter);
        self.news.notify_one();
    }

    /// Watches as long as somebody waits, until `shutdown` resolves.
    pub async fn run(&self, client: Client, shutdown: impl Future<Output = ()>) {
        tokio::select! {
            () = self.attend(client) => {}
            () = shutdown => {}
        }
    }

    async fn attend(&self, client: Client) {
        loop {
            while !self.somebody_waits() {
                self.news.notified().await;
            }
            tracing::debug!("roles and bindings are watched");
            self.follow(&client).await;
            tracing::debug!("roles and bindings are no longer watched");
        }
    }

    /// Watches until nobody has waited for a while.
    async fn follow(&self, client: &Client) {
        let mut changes = changes(client);
        let mut bindings = Bindings::new();
        let mut idle = None;
        let mut due: Option<Instant> = None;
        loop {
            let waits = self.somebody_waits();
            idle = if waits { None } else { idle.or_else(|| Some(Instant::now() + LINGER)) };
            if !self.waiting().due.is_empty() {
                due = due.or_else(|| Some(Instant::now() + GATHER));
            }
            tokio::select! {
                Some(change) = changes.next() => self.note(change, &mut bindings),
                () = self.news.notified() => {}
                () = at(due) => {
                    due = None;
                    self.wake();
                }
                () = at(idle) => return,
            }
        }
    }

    /// Notes who is concerned by a change.
    fn note(&self, change: Change, bindings: &mut Bindings) {
        let mut waiting = self.waiting();
        let Waiting { all, due } = &mut *waiting;
        let concerned = |subjects: &[Subject], namespace: &str, interest: &Interest| {
            interest.accounts.iter().any(|account| concerns(subjects, namespace, account))
        };
        match change {
            Change::Unbound(key) => drop(bindings.remove(&key)),
            Change::Binding(key, role, subjects) => {
                let met = all.iter().filter(|(_, interest)| concerned(&subjects, &key.0, interest));
                due.extend(met.map(|(waiter, _)| waiter.clone()));
                bindings.insert(key, (role, subjects));
            }
            Change::Role(role) => {
                let of_it: Vec<_> =
                    bindings.iter().filter(|(_, (bound, _))| *bound == role).collect();
                let met = all.iter().filter(|(_, interest)| {
                    interest.roles.contains(&role)
                        || of_it.iter().any(|((namespace, _), (_, subjects))| {
                            concerned(subjects, namespace, interest)
                        })
                });
                due.extend(met.map(|(waiter, _)| waiter.clone()));
            }
        }
    }

    fn wake(&self) {
        let due = std::mem::take(&mut self.waiting().due);
        for waiter in due {
            tracing::debug!(?waiter, "rights may have changed");
            // Nobody listens when the process ends.
            let _ = match waiter {
                Waiter::Extension(name) => self.extensions.unbounded_send(name),
                Waiter::Revision(name) => self.revisions.unbounded_send(name),
            };
        }
    }

    fn somebody_waits(&self) -> bool {
        !self.waiting().all.is_empty()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn changes(client: &Client) -> BoxStream<'static, Change> {
    let bindings = of_kind(client, |binding: RoleBinding| {
        (binding.metadata.clone(), binding.role_ref, binding.subjects)
    });
    let cluster_bindings = of_kind(client, |binding: ClusterRoleBinding| {
        (binding.metadata.clone(), binding.role_ref, binding.subjects)
    });
    stream::select_all([
        roles::<Role>(client),
        roles::<ClusterRole>(client),
        bindings,
        cluster_bindings,
    ])
    .boxed()
}

fn key<K: Resource>(object: &K) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn roles<K>(client: &Client) -> BoxStream<'static, Change>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + 'static,
    PartialObjectMeta<K>: Send,
{
    let all = Api::<PartialObjectMeta<K>>::all(client.clone());
    let roles = cluster::changes(all, cluster::of_tenants()).applied_objects();
    let roles = roles.filter_map(|role| async {
        let (namespace, name) = key(&role.ok()?);
        Some(Change::Role(RoleKey { namespace, name }))
    });
    roles.boxed()
}

type Parts = (kube::api::ObjectMeta, RoleRef, Option<Vec<Subject>>);

fn of_kind<K>(client: &Client, parts: fn(K) -> Parts) -> BoxStream<'static, Change>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let all = Api::<K>::all(client.clone());
    let changes = cluster::changes(all, cluster::of_tenants());
    let changes = changes.filter_map(move |event| async move {
        match event.ok()? {
            Event::Apply(binding) | Event::InitApply(binding) => {
                let (metadata, role, subjects) = parts(binding);
                let namespace = metadata.namespace.unwrap_or_default();
                let name = metadata.name.unwrap_or_default();
                let role = RoleKey::named(&role.kind, &role.name, &namespace);
                Some(Change::Binding((namespace, name), role, subjects.unwrap_or_default()))
            }
            Event::Delete(binding) => Some(Change::Unbound(key(&binding))),
            Event::Init | Event::InitDone => None,
        }
    });
    changes.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(namespace: &str, name: &str) -> RoleKey {
        RoleKey { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn subject(kind: &str, name: &str) -> Subject {
        Subject { kind: kind.to_owned(), name: name.to_owned(), ..Subject::default() }
    }

    fn binding(namespace: &str, name: &str, bound: RoleKey, to: Subject) -> Change {
        Change::Binding((namespace.to_owned(), name.to_owned()), bound, vec![to])
    }

    fn waiting(watch: &RbacWatch, name: &str, interest: Interest) -> Waiter {
        let waiter = Waiter::Extension(name.to_owned());
        watch.wait(waiter.clone(), interest);
        waiter
    }

    fn installer(namespace: &str) -> Interest {
        Interest {
            accounts: vec![format!("{namespace}/installer").parse().unwrap()],
            ..Interest::default()
        }
    }

    // applying.md f8
    #[test]
    fn a_change_wakes_whom_it_concerns_and_nobody_else() {
        let (watch, mut woken, _revisions) = RbacWatch::new();
        let mut bindings = Bindings::new();
        let one = waiting(&watch, "one", installer("ns1"));
        waiting(&watch, "two", installer("ns2"));
        let mut wakes = |change: Option<Change>| {
            if let Some(change) = change {
                watch.note(change, &mut bindings);
            }
            watch.wake();
            std::iter::from_fn(|| woken.try_recv().ok()).collect::<Vec<_>>()
        };
        assert_eq!(wakes(None), ["one", "two"], "who is new");
        assert!(wakes(None).is_empty());
        watch.wait(one.clone(), installer("ns1"));
        assert!(wakes(None).is_empty(), "who waits already");

        let to = || subject("ServiceAccount", "installer");
        let bound = || binding("ns1", "b", role("ns1", "r"), to());
        assert_eq!(wakes(Some(bound())), ["one"]);
        assert_eq!(wakes(Some(Change::Role(role("ns1", "r")))), ["one"]);
        assert!(wakes(Some(Change::Role(role("ns2", "r")))).is_empty());
        assert!(wakes(Some(Change::Role(role("", "r")))).is_empty());
        let all = subject("Group", "system:serviceaccounts");
        let all = binding("", "all", role("", "c"), all);
        assert_eq!(wakes(Some(all)), ["one", "two"]);
        let people = binding("", "people", role("", "c"), subject("Group", "people"));
        assert!(wakes(Some(people)).is_empty());

        let gone = ("ns1".to_owned(), "b".to_owned());
        assert!(wakes(Some(Change::Unbound(gone))).is_empty());
        assert!(wakes(Some(Change::Role(role("ns1", "r")))).is_empty());
        let wanted = Interest { roles: BTreeSet::from([role("", "view")]), ..installer("ns1") };
        watch.wait(one.clone(), wanted);
        assert_eq!(wakes(Some(Change::Role(role("", "view")))), ["one"]);
        watch.forget(&one);
        assert!(wakes(Some(bound())).is_empty());
    }
}
