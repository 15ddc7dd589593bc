//! The registry access for the images of one catalog, and the storing of their content.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use olm_api::ClusterCatalog;
use olm_api::keys::policy;
use olm_core::catalog::read;
use olm_image::{ImageRef, PullError, Puller, Resolved, pull_catalog};
use tokio::time::{Instant, sleep};

use super::context::{Context, blocking};
use super::error::CatalogError;
use super::store::{Blob, Origin, Staged, whole_seconds};
use crate::cluster::{RequestError, retry_after};
use crate::live::is_as_read;

/// For so long the API server is asked whether what was pulled is still wanted.
const PATIENCE: Duration = Duration::from_mins(1);
/// Pause before it is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(2);

pub(super) struct Registry<'a> {
    ctx: &'a Arc<Context>,
    catalog: &'a ClusterCatalog,
    puller: Arc<Puller>,
}

impl<'a> Registry<'a> {
    /// Returns it with the credentials of the catalog.
    pub(super) async fn of(
        ctx: &'a Arc<Context>,
        catalog: &'a ClusterCatalog,
    ) -> Result<Self, CatalogError> {
        let pull_secret = catalog.annotations().get(policy::PULL_SECRET);
        let puller = ctx.credentials.puller(pull_secret.map(String::as_str));
        let puller = ctx.unless_stopping(async { puller.await.map_err(CatalogError::PullSecret) });
        let puller = puller.await?;
        Ok(Self { ctx, catalog, puller })
    }

    /// Returns the digest that a reference names.
    pub(super) async fn resolve(&self, image: &str) -> Result<Resolved, CatalogError> {
        let reference: ImageRef = image.parse().map_err(CatalogError::Reference)?;
        let resolved = async {
            let resolved = self.puller.resolve(&reference).await;
            self.ctx.metrics.pulled(&resolved);
            resolved.map_err(pull)
        };
        self.ctx.unless_stopping(resolved).await
    }

    /// Returns an image by digest, unless the registry has it no more.
    pub(super) async fn still(&self, image: &str) -> Result<Option<Resolved>, CatalogError> {
        let reference: ImageRef = image.parse().map_err(CatalogError::Reference)?;
        let there = async { self.puller.probe(&reference).await.map_err(pull) };
        match self.ctx.unless_stopping(there).await {
            Err(CatalogError::Pull(error)) if error.is_not_found() => {
                tracing::info!(image, "held content no longer exists");
                Ok(None)
            }
            there => {
                there?;
                self.resolve(image).await.map(Some)
            }
        }
    }

    /// Stores the content of an image, if it is not what is stored already.
    pub(super) async fn take(
        &self,
        resolved: &Resolved,
        unpacked: Timestamp,
    ) -> Result<(), CatalogError> {
        if self.ctx.holds(self.catalog, &resolved.image().to_string()) {
            return Ok(());
        }
        let staged = self.stage(resolved, unpacked).await?;
        self.place(staged).await
    }

    /// The same for content that nobody has taken before.
    pub(super) async fn take_newer(
        &self,
        resolved: &Resolved,
        unpacked: Timestamp,
    ) -> Result<(), CatalogError> {
        if self.ctx.holds(self.catalog, &resolved.image().to_string()) {
            return Ok(());
        }
        let staged = self.stage_newer(resolved, unpacked).await?;
        self.place_newer(staged).await
    }

    /// Pulls newer content for [`Self::place_newer`], unless the API server would not answer that either.
    pub(super) async fn stage_newer(
        &self,
        resolved: &Resolved,
        unpacked: Timestamp,
    ) -> Result<Staged, CatalogError> {
        self.ctx.unless_stopping(self.check_unchanged(Duration::ZERO)).await?;
        self.stage(resolved, unpacked).await
    }

    /// Pulls an image and writes its content to the disk, where it is not served yet.
    async fn stage(
        &self,
        resolved: &Resolved,
        unpacked: Timestamp,
    ) -> Result<Staged, CatalogError> {
        let pulled = async {
            let turn = self.ctx.turns.next(resolved.image().registry()).await;
            let image = pull_catalog(&self.puller, resolved).await;
            self.ctx.metrics.pulled(&image);
            Ok((turn, image.map_err(pull)?))
        };
        let (_turn, image) = self.ctx.unless_stopping(pulled).await?;
        if image.directory_missing {
            tracing::warn!(directory = image.directory, "the image has no catalog directory");
        }
        let origin = origin(self.catalog, &resolved.image().to_string(), unpacked);
        let store = Arc::clone(&self.ctx.store);
        let turn = self.ctx.writes().await;
        let written = blocking(move || {
            let _turn = turn;
            let below = format!("{}/", image.directory);
            let blobs = read::documents(image.files.readers())?.map(|document| {
                let path = document.path;
                document.meta.map(|meta| Blob {
                    file: path.strip_prefix(&below).unwrap_or(path),
                    line: document.position.line,
                    meta,
                })
            });
            store.stage(origin, blobs)
        });
        written.await?.map_err(CatalogError::Store)
    }

    /// Serves what was staged, unless the catalog has changed since the pull began: it may be paused now.
    pub(super) async fn place_newer(&self, staged: Staged) -> Result<(), CatalogError> {
        self.ctx.unless_stopping(self.check_unchanged(PATIENCE)).await?;
        self.place(staged).await
    }

    /// Fails if the catalog has changed since it was read, or that is not known after `patience`.
    async fn check_unchanged(&self, patience: Duration) -> Result<(), CatalogError> {
        let until = Instant::now() + patience;
        loop {
            let error = match is_as_read(&self.ctx.client, self.catalog).await {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(CatalogError::Changed),
                Err(error) => error,
            };
            let pause = retry_after(&error).unwrap_or(ASK_AGAIN);
            if Instant::now() + pause > until {
                return Err(RequestError::doing("getting ClusterCatalog")(error).into());
            }
            sleep(pause).await;
        }
    }

    async fn place(&self, staged: Staged) -> Result<(), CatalogError> {
        let store = Arc::clone(&self.ctx.store);
        let content = blocking(move || store.place(staged)).await?.map_err(CatalogError::Store)?;
        let (blobs, dropped) = (content.index().len(), content.dropped());
        tracing::info!(digest = content.digest(), blobs, dropped, "catalog content stored");
        let store = Arc::clone(&self.ctx.store);
        // Nobody waits for it; when the process ends, it is waited for as for every file.
        drop(tokio::task::spawn_blocking(move || store.settle(&content)));
        Ok(())
    }
}

fn pull(error: PullError) -> CatalogError {
    CatalogError::Pull(Box::new(error))
}

pub(super) fn origin(catalog: &ClusterCatalog, reference: &str, unpacked: Timestamp) -> Origin {
    Origin {
        catalog: catalog.name_any(),
        uid: catalog.metadata.uid.clone().unwrap_or_default(),
        reference: reference.to_owned(),
        unpacked: whole_seconds(unpacked),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::path::Path;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::Client;
    use olm_api::ClusterCatalogSpec;
    use olm_api::conditions::types;
    use olm_image::{PullConfig, Room};
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::super::plan::Plan;
    use super::super::report_first_pull;
    use super::super::store::{Store, StoreError};
    use super::*;
    use crate::cluster::answering::{NOT_ANSWERED, answering, found, refusal};
    use crate::credentials::{GlobalPullSecret, RegistryCredentials};
    use crate::telemetry::Metrics;

    fn context(client: Client, folder: &Path) -> (Arc<Context>, Arc<Puller>) {
        let store = Arc::new(Store::open(folder, Room::default()).unwrap());
        let puller = Arc::new(Puller::new(PullConfig::default()));
        let global = GlobalPullSecret::default();
        let (system, base) = ("system".to_owned(), String::new());
        let credentials =
            RegistryCredentials::new(client.clone(), system, global, Arc::clone(&puller));
        let ctx = Context::new(client, store, Arc::new(credentials), base, Metrics::default());
        (Arc::new(ctx), puller)
    }

    // deploying.md 4.4
    #[tokio::test]
    async fn a_stop_waits_for_no_registry() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let image = format!("{}/c:v1", silent.local_addr().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let (ctx, puller) = context(answering(|_| refusal(404)), folder.path());
        let catalog = ClusterCatalog::new("acme", ClusterCatalogSpec::default());
        let registry = Registry { ctx: &ctx, catalog: &catalog, puller };
        let mut asked = pin!(registry.resolve(&image));
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut asked).await.is_err());
        ctx.stopping.send_replace(true);
        assert!(matches!(asked.await, Err(CatalogError::Stopping)));
    }

    // catalogs.md 2.4
    #[rstest]
    #[case::as_before(json!({}), 0, true)]
    #[case::not_known_at_first(json!({}), 1, true)]
    #[case::paused_meanwhile(json!({(policy::PAUSED): "true"}), 0, false)]
    #[tokio::test]
    async fn what_was_pulled_is_served_unless_the_catalog_has_changed(
        #[case] annotations: Value,
        #[case] failures: usize,
        #[case] served: bool,
    ) {
        let sent = AtomicUsize::new(0);
        let client = answering(move |_| {
            if sent.fetch_add(1, Ordering::SeqCst) < failures {
                return (NOT_ANSWERED, Value::Null);
            }
            found(&json!({"name": "acme", "uid": "u", "annotations": annotations}))
        });
        let folder = tempfile::tempdir().unwrap();
        let (ctx, puller) = context(client, folder.path());
        let mut catalog = ClusterCatalog::new("acme", ClusterCatalogSpec::default());
        catalog.metadata.uid = Some("u".to_owned());
        let registry = Registry { ctx: &ctx, catalog: &catalog, puller };
        let origin = origin(&catalog, "r.io/c@sha256:1", Timestamp::UNIX_EPOCH);
        let nothing = std::iter::empty::<Result<Blob<'_>, StoreError>>();
        let staged = ctx.store.stage(origin, nothing).unwrap();
        assert_eq!(registry.place_newer(staged).await.is_ok(), served);
        assert_eq!(ctx.store.content_of(&catalog).is_some(), served);
        // deploying.md 9.1: as after a restart, with content that another process has stored
        ctx.measure(&catalog);
        assert_eq!(ctx.metrics.encode().contains("olm_catalog_blobs{catalog=\"acme\"} 0"), served);
    }

    // api.md 2.5
    #[rstest]
    #[case::new(json!(null), true)]
    #[case::known(json!({"conditions": [{"type": "Serving", "status": "True", "reason": "Available",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}), false)]
    #[tokio::test]
    async fn a_first_pull_that_goes_on_is_told(#[case] status: Value, #[case] want: bool) {
        let folder = tempfile::tempdir().unwrap();
        let (ctx, _) = context(answering(|asked| (200, asked.body().clone())), folder.path());
        let catalog = json!({"metadata": {"name": "acme", "uid": "u"}, "status": status,
            "spec": {"source": {"type": "Image", "image": {"ref": "r.io/c:1"}}}});
        let catalog: ClusterCatalog = serde_json::from_value(catalog).unwrap();
        let work = sleep(Duration::from_millis(50));
        let patience = Duration::from_millis(1);
        let (told, ()) = report_first_pull(&ctx, &catalog, &Plan::Fetch, work, patience).await;
        let text = |it: &ClusterCatalog| it.condition(types::PROGRESSING).unwrap().message.clone();
        let pulling = "source catalog content: still pulling image \"r.io/c:1\"".to_owned();
        assert_eq!(told.as_ref().map(text), want.then_some(pulling));
        assert!(told.is_none_or(|it| it.condition(types::SERVING).is_none()));
    }
}
