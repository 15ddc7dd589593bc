//! Credentials for registries: where they come from, and what follows when they change.
//!
//! In: the Secret that a flag names, those of the controller's own service account, those that
//! ClusterCatalogs may name, the files that pulls are configured by, and the cluster proxies. Out: the keyring of the
//! puller, pullers for catalogs with a pull secret of their own, and a signal that says when what
//! failed before may succeed. Nothing of a Secret but its credentials is kept, and nothing of those
//! is ever shown.
//!
//! Source: deploying.md 3.

mod follow;
mod known;
mod proxies;
mod secret;

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, select_all};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use olm_api::keys::{label, policy};
use olm_core::error::{Classify, Disposition};
use olm_core::revision::Account;
use olm_image::{Proxies, Puller, Source, Stamp};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::account;
use crate::cluster::{MAX_RIGHTS_DELAY, RequestError, Sentence};
use follow::{follow, only};
use known::{Known, add};
use secret::{Held, only_credentials};

pub use secret::{GlobalPullSecret, NotASecretName, SecretName, document_key};

/// The interval of checks of the files (deploying.md 3.2).
const FILES_INTERVAL: Duration = Duration::from_secs(10);
/// Delay before the API server is asked again who we are.
const RETRY: Duration = Duration::from_secs(5);
/// The first pulls wait so long for the sources of credentials, and no longer: a registry may not
/// need any.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// Why the pull secret of a catalog is not used.
#[derive(Debug, thiserror::Error)]
pub enum PullSecretError {
    /// The annotation holds something else than a name.
    #[error(
        "annotation {}: {_0:?} is not the name of a Secret; it is looked for in the controller's \
         namespace and in no other",
        policy::PULL_SECRET
    )]
    Name(String),
    /// Whoever may write catalogs could use a credential that is meant for others.
    #[error(
        "annotation {}: {_0} is not labelled {}=true, so catalogs may not use it",
        policy::PULL_SECRET,
        label::CATALOG_PULL_SECRET
    )]
    NotOffered(SecretName),
    /// It is not known whether the Secret exists.
    #[error(transparent)]
    Lookup(RequestError),
}

impl Classify for PullSecretError {
    fn disposition(&self) -> Disposition {
        // The Secret may be labelled at any time.
        let labelled = Disposition::RetryWithin(MAX_RIGHTS_DELAY);
        match self {
            Self::Lookup(error) => error.retry_after().map_or(labelled, Disposition::RetryAfter),
            Self::Name(_) | Self::NotOffered(_) => labelled,
        }
    }
}

/// Something the watches bring.
enum Change {
    Linked(Vec<SecretName>),
    Named(SecretName, Held),
    Offered(BTreeMap<SecretName, Held>),
    Files,
    Proxies(Proxies),
}

/// The credentials of the controller; [`RegistryCredentials::run`] keeps them current.
pub struct RegistryCredentials {
    client: Client,
    /// Namespace of the Secrets that catalogs may name.
    namespace: String,
    global: Option<SecretName>,
    puller: Arc<Puller>,
    /// Whether the cluster proxies are followed.
    proxies: bool,
    known: watch::Sender<Arc<Known>>,
    version: watch::Sender<u64>,
    started: Instant,
}

impl RegistryCredentials {
    pub fn new(
        client: Client,
        namespace: String,
        global: GlobalPullSecret,
        puller: Arc<Puller>,
    ) -> Self {
        Self {
            client,
            namespace,
            global: global.0,
            puller,
            proxies: false,
            known: watch::Sender::default(),
            version: watch::Sender::new(0),
            started: Instant::now(),
        }
    }

    /// Has pulls take the cluster proxies, unless the environment names some.
    pub fn follow_proxies(&mut self) {
        self.proxies = !Proxies::in_environment();
    }

    /// Returns a number that grows whenever a pull that failed may succeed.
    pub fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Yields whenever a pull that failed may succeed.
    pub fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        stream::unfold(self.version.subscribe(), |mut version| async move {
            version.changed().await.ok()?;
            Some(((), version))
        })
    }

    /// Returns a puller with the present credentials: those in the annotation of a catalog take
    /// precedence.
    ///
    /// # Errors
    /// Fails when the catalog may not use what it names.
    pub async fn puller(&self, pull_secret: Option<&str>) -> Result<Arc<Puller>, PullSecretError> {
        self.first_look().await;
        let Some(name) = pull_secret else { return Ok(Arc::clone(&self.puller)) };
        let source = self.source_of_catalog(name).await?;
        Ok(Arc::new(self.puller.with_source(source)))
    }

    async fn source_of_catalog(&self, name: &str) -> Result<Source, PullSecretError> {
        if name.is_empty() || name.contains('/') {
            return Err(PullSecretError::Name(name.to_owned()));
        }
        let full = SecretName { namespace: self.namespace.clone(), name: name.to_owned() };
        let known = Arc::clone(&self.known.borrow());
        let offered = known.offered.as_ref();
        let held = match offered.and_then(|offered| offered.get(&full)) {
            Some(held) => held.clone(),
            None => self.unoffered(&full).await?,
        };
        let mut source = Source::default();
        add(&mut source, &full, &held);
        Ok(source)
    }

    /// Reads a Secret that the watch has not brought as one that catalogs may name. It may not be
    /// labelled, or only since a moment ago, or nothing was listed yet.
    async fn unoffered(&self, name: &SecretName) -> Result<Held, PullSecretError> {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &name.namespace);
        let found = secrets.get_opt(&name.name).await;
        let doing = format!("annotation {}: looking up {name}", policy::PULL_SECRET);
        let found = found.map_err(RequestError::doing(doing)).map_err(PullSecretError::Lookup)?;
        let Some(found) = found else { return Ok(Held::Missing) };
        match found.labels().get(label::CATALOG_PULL_SECRET).map(String::as_str) {
            Some("true") => Ok(Held::of(&found)),
            _ => Err(PullSecretError::NotOffered(name.clone())),
        }
    }

    /// Waits until every source was read once, but not for long.
    async fn first_look(&self) {
        let mut known = self.known.subscribe();
        let complete = known.wait_for(|known| known.is_complete());
        // Late is as good as complete: what is known then is used.
        let _ = tokio::time::timeout_at(self.started + FIRST_LOOK, complete).await;
    }

    /// Keeps the credentials current. Never ends.
    pub async fn run(&self) {
        let account = of_account(self.client.clone()).boxed();
        let mut changes = select_all([account, self.offered(), self.files()]);
        if self.proxies {
            changes.push(proxies::changes(self.client.clone()).boxed());
        }
        let mut known = Known { global: self.global.clone(), ..Known::default() };
        // The watch of a Secret ends when what it is kept by here is dropped.
        let mut watched = BTreeMap::new();
        let mut told = BTreeSet::new();
        loop {
            for name in known.wanted() {
                watched.entry(name.clone()).or_insert_with(|| {
                    let (end, ended) = oneshot::channel::<()>();
                    let secret = of_secret(self.client.clone(), name.clone());
                    changes.push(secret.take_until(ended).boxed());
                    end
                });
            }
            // Watches do not end.
            let Some(change) = changes.next().await else { return };
            let beside = self.take(&mut known, change);
            let wanted: BTreeSet<_> = known.wanted().into_iter().cloned().collect();
            watched.retain(|name, _| wanted.contains(name));
            known.named.retain(|name, _| wanted.contains(name));
            let faults = known.faults();
            for fault in faults.difference(&told) {
                tracing::warn!(fault, "pull secret is skipped");
            }
            told = faults;
            self.publish(&known, beside);
        }
    }

    /// Takes in a change; returns what beside credentials it changes for pulls.
    fn take(&self, known: &mut Known, change: Change) -> Option<&'static str> {
        match change {
            Change::Linked(names) => known.linked = Some(names),
            Change::Named(name, held) => drop(known.named.insert(name, held)),
            Change::Offered(offered) => known.offered = Some(offered),
            Change::Files => return Some("files"),
            Change::Proxies(proxies) => {
                return self.puller.set_proxies(proxies).then_some("proxies");
            }
        }
        None
    }

    /// Lets the next pulls use what is known, and tells those that wait for it.
    fn publish(&self, known: &Known, beside: Option<&'static str>) {
        let was = Arc::clone(&self.known.borrow());
        if *was == *known && beside.is_none() {
            return;
        }
        self.puller.set_keyring(known.keyring());
        let gained = was.keyring() != known.keyring() || was.offered != known.offered;
        self.known.send_replace(Arc::new(known.clone()));
        if gained || beside.is_some() {
            if was.is_complete() {
                let what = beside.unwrap_or("credentials");
                tracing::info!(what, "the configuration of pulls has changed");
            }
            self.version.send_modify(|version| *version += 1);
        }
    }

    /// Watches the Secrets that catalogs may name.
    fn offered(&self) -> BoxStream<'static, Change> {
        let namespace = self.namespace.clone();
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &namespace);
        let labels = format!("{}=true", label::CATALOG_PULL_SECRET);
        let config = watcher::Config::default().labels(&labels);
        let offered = follow(secrets, config, only_credentials, Held::of).map(move |found| {
            if let Err(code) = &found {
                tracing::warn!(code, "pull secrets of catalogs cannot be listed");
            }
            let full = |name| SecretName { namespace: namespace.clone(), name };
            let found = found.unwrap_or_default().into_iter();
            Change::Offered(found.map(|(name, held)| (full(name), held)).collect())
        });
        offered.boxed()
    }

    /// Looks at the files that pulls are configured by.
    fn files(&self) -> BoxStream<'static, Change> {
        let puller = Arc::clone(&self.puller);
        let stamps = stream::unfold(Duration::ZERO, move |pause| {
            let puller = Arc::clone(&puller);
            async move {
                tokio::time::sleep(pause).await;
                let look = tokio::task::spawn_blocking(move || Stamp::of(puller.config()));
                Some((look.await.ok(), FILES_INTERVAL))
            }
        });
        let mut before = None;
        let changes = stamps.filter_map(ready).filter_map(move |stamp| {
            let differs = before.as_ref().is_some_and(|before| *before != stamp);
            before = Some(stamp);
            ready(differs.then_some(Change::Files))
        });
        changes.boxed()
    }
}

/// Watches the account of this process: which Secrets it names for pulls.
fn of_account(client: Client) -> impl Stream<Item = Change> + Send {
    let own = async move {
        loop {
            match account::own(&client).await {
                Ok(found) => return (client, found),
                Err(error) => {
                    tracing::warn!(error = %Sentence(&error), "own account is not known yet");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    };
    stream::once(own).flat_map(|(client, account)| {
        let Some(Account { namespace, name }) = account else {
            // Outside of a pod we are somebody else.
            return stream::once(ready(Change::Linked(Vec::new()))).boxed();
        };
        let accounts = Api::<ServiceAccount>::namespaced(client, &namespace);
        let found = follow(accounts, only(&name), |it| it.metadata.managed_fields = None, linked)
            .map(move |found| {
                if let Err(code) = &found {
                    tracing::warn!(code, namespace, name, "own service account cannot be read");
                }
                let linked =
                    found.unwrap_or_default().remove(&name).unwrap_or_default().into_iter();
                let full = |name| SecretName { namespace: namespace.clone(), name };
                Change::Linked(linked.map(full).collect())
            });
        found.boxed()
    })
}

/// Returns the names of the Secrets that an account names for pulls.
fn linked(account: &ServiceAccount) -> Vec<String> {
    let references = account.image_pull_secrets.iter().flatten();
    references.map(|reference| reference.name.clone()).filter(|name| !name.is_empty()).collect()
}

fn of_secret(client: Client, name: SecretName) -> impl Stream<Item = Change> + Send {
    let secrets = Api::<Secret>::namespaced(client, &name.namespace);
    follow(secrets, only(&name.name), only_credentials, Held::of).map(move |found| {
        let held = match found {
            Ok(mut found) => found.remove(&name.name).unwrap_or(Held::Missing),
            Err(code) => Held::Refused(code),
        };
        Change::Named(name.clone(), held)
    })
}

#[cfg(test)]
mod tests {
    use olm_image::PullConfig;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::answering::{answering, refusal};

    // deploying.md 3.1: the watch brings it later than the annotation, or is refused
    #[rstest]
    #[case::labelled(Some(json!({(label::CATALOG_PULL_SECRET): "true"})), "")]
    #[case::not_labelled(Some(json!({})), "is not labelled")]
    #[case::labelled_otherwise(
        Some(json!({(label::CATALOG_PULL_SECRET): "false"})),
        "is not labelled"
    )]
    #[case::missing(None, "")]
    #[tokio::test]
    async fn a_secret_that_no_watch_has_brought_is_asked_for(
        #[case] labels: Option<Value>,
        #[case] error: &str,
    ) {
        let client = answering(move |_| match &labels {
            Some(labels) => (200, json!({"metadata": {"name": "s", "labels": labels}})),
            None => refusal(404),
        });
        let (global, puller) = (GlobalPullSecret::default(), Puller::new(PullConfig::default()));
        let credentials = RegistryCredentials::new(client, "n".to_owned(), global, puller.into());
        let found = credentials.source_of_catalog("s").await;
        let text = found.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(error) && text.is_empty() == error.is_empty(), "{text}");
    }
}
