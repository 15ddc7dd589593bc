//! Taking over what upstream's Helm applier installed: its release becomes the first revision, as
//! upstream itself makes it. Nothing is restarted, renamed or deleted.
//!
//! Source: applying.md 2.3.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, ResourceExt as _};
use olm_api::conditions::Reason;
use olm_api::keys::{label, policy};
use olm_api::{ClusterExtension, ClusterObjectSet, ClusterObjectSetStatus};
use olm_core::error::{Classify, Disposition};
use olm_core::helm::{self, HelmError, Index};
use olm_core::revision::{
    Change, bundle_version, has_succeeded, is_of_classic, is_orphaned, is_rolled_out,
};
use olm_core::status::object_set::migrated;
use olm_core::uninstall::{UninstallPolicy, left_to_helm};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::{Attempt, Context};
use crate::cluster::{RequestError, code};
use crate::revision::{WriteError, controlled_crds, write_revision};

/// Why a release cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// It cannot be read.
    #[error(transparent)]
    Release(#[from] HelmError),
    /// Its Secrets cannot be read, or the status of its revision not be written.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Its revision cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Revisions of upstream v1.6 to v1.8 hold what is installed; nothing makes ours of them.
    #[error(
        "{kind} {} of an earlier release hold what is installed and cannot be taken over; to \
         continue: kubectl delete clusterextensionrevisions {} --cascade=orphan, and annotate the extension with \
         {}=all, which takes over what they leave",
        .names.join(", "), .names.join(" "), policy::ADOPT, kind = EARLIER_KIND
    )]
    Earlier {
        /// Their names.
        names: Vec<String>,
    },
}

/// Kind of the revisions of upstream v1.6 to v1.8.
const EARLIER_KIND: &str = "ClusterExtensionRevision";
const EARLIER: &str = "/apis/olm.operatorframework.io/v1/clusterextensionrevisions";

impl Classify for TakeOverError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Earlier { .. } => Disposition::Terminal(Reason::Blocked),
            Self::Release(_) | Self::Request(_) | Self::Write(_) => Disposition::Retry,
        }
    }
}

/// What upstream installed in its earlier ways, as far as it was looked for.
#[derive(Debug, Default)]
pub struct Before {
    helm: HelmReleases,
    earlier: EarlierRevisions,
}

/// Whether there were revisions of upstream v1.6 to v1.8 when this process first looked. Nobody makes
/// new ones while it leads.
#[derive(Debug, Default)]
struct EarlierRevisions(OnceCell<bool>);

impl EarlierRevisions {
    /// Returns the names of those that an extension owns.
    async fn of(
        &self,
        client: &Client,
        extension: &ClusterExtension,
    ) -> Result<Vec<String>, RequestError> {
        let are = self.0.get_or_try_init(|| async {
            let found = list_earlier(client).await?;
            Ok::<bool, RequestError>(!found.is_empty())
        });
        if !*are.await? {
            return Ok(Vec::new());
        }
        let uid = extension.uid().unwrap_or_default();
        let all = list_earlier(client).await?.into_iter();
        let owned = all.filter(|one| {
            let mut owners = one.owner_references.iter().flatten();
            owners.any(|owner| owner.uid == uid)
        });
        Ok(owned.filter_map(|one| one.name).collect())
    }
}

async fn list_earlier(client: &Client) -> Result<Vec<ObjectMeta>, RequestError> {
    let failed = RequestError::doing("listing revisions of an earlier release");
    let request = http::Request::get(EARLIER).body(Vec::new());
    let request = request.map_err(kube::Error::HttpError);
    let listed = match request {
        Ok(request) => client.request::<Value>(request).await,
        Err(error) => Err(error),
    };
    match listed {
        Ok(list) => {
            let items = list["items"].as_array().into_iter().flatten();
            let metadata = items.map(|item| serde_json::from_value(item["metadata"].clone()));
            Ok(metadata.filter_map(Result::ok).collect())
        }
        // The kind is not there; or the right, which is warned of at start and must not stop an install.
        Err(error) if matches!(code(&error), 403 | 404) => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
    }
}

/// The names of the releases on the cluster. They are listed once: but for those of what OLM Classic
/// installed, nobody makes new ones while this process leads.
#[derive(Debug, Default)]
struct HelmReleases(OnceCell<Mutex<BTreeSet<String>>>);

impl HelmReleases {
    /// Says whether there is a release; where `asks`, one that was made since counts too.
    async fn has(
        &self,
        secrets: &Api<Secret>,
        name: &str,
        asks: bool,
    ) -> Result<bool, RequestError> {
        let listed = self.0.get_or_try_init(|| async {
            let params = ListParams::default().labels(helm::INDEX_SELECTOR);
            let found = secrets.list_metadata(&params).await;
            let found = found.map_err(RequestError::doing("listing Helm releases"))?;
            let names = found.items.iter();
            let names = names.filter_map(|secret| secret.labels().get(helm::NAME).cloned());
            Ok(Mutex::new(names.collect()))
        });
        let listed = listed.await?;
        let locked = || listed.lock().unwrap_or_else(PoisonError::into_inner);
        if locked().contains(name) || !asks {
            return Ok(locked().contains(name));
        }
        let labels = format!("{},{}={name}", helm::INDEX_SELECTOR, helm::NAME);
        let found = secrets.list_metadata(&ListParams::default().labels(&labels)).await;
        let found = found.map_err(RequestError::doing("listing a Helm release"))?;
        if !found.items.is_empty() {
            locked().insert(name.to_owned());
        }
        Ok(!found.items.is_empty())
    }

    fn forget(&self, name: &str) {
        if let Some(listed) = self.0.get() {
            listed.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        }
    }
}

impl Context {
    /// Returns why an extension that is being deleted has to wait: Helm installed it, no revision has
    /// taken it over, and users' objects would go with it unasked.
    pub(super) async fn left_to_helm(
        &self,
        extension: &ClusterExtension,
    ) -> Result<Option<String>, TakeOverError> {
        let policy = UninstallPolicy::chosen(extension.annotations(), &[], self.settings.uninstall);
        let (name, secrets) = (extension.name_any(), self.helm_secrets());
        if policy == UninstallPolicy::Delete
            || is_orphaned(&extension.metadata)
            || !self.before.helm.has(&secrets, &name, false).await?
        {
            return Ok(None);
        }
        // A revision that has taken it over answers for it.
        let revisions = self.revisions.of(extension).await;
        let revisions = revisions.map_err(RequestError::doing("listing revisions"))?;
        if !revisions.is_empty() {
            return Ok(None);
        }
        let owner = extension.uid().into_iter().collect();
        let crds = controlled_crds(&self.client, &owner).await?;
        Ok((!crds.is_empty()).then(|| left_to_helm(&name, &crds)))
    }

    fn helm_secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.settings.system_namespace)
    }
}

impl Attempt<'_> {
    /// Makes the first revision of an extension that Helm installed. Returns the revisions, if there
    /// is something to be made.
    pub(super) async fn take_over(&self) -> Result<Option<Vec<ClusterObjectSet>>, TakeOverError> {
        let made = match self.revisions {
            [] => {
                let Some(made) = self.made_of_release().await? else {
                    return self.reject_earlier().await;
                };
                made
            }
            [only] if is_migrated(only) && !has_succeeded(only) => only.clone(),
            _ => return Ok(None),
        };
        // It is what runs: its rollout was Helm's.
        let mut status = made.status.clone().unwrap_or_default();
        migrated(is_of_classic(&made)).put(
            &mut status.conditions,
            made.metadata.generation,
            Timestamp::now(),
        );
        let made = self.with_status(made, status).await?;
        let revisions = vec![made];
        self.ctx.revisions.wrote(self.extension.object, &revisions);
        Ok(Some(revisions))
    }

    /// Removes the release once another version of the bundle is rolled out: until then, upstream can go
    /// on with it.
    pub(super) async fn drop_release(
        &self,
        newest: &ClusterObjectSet,
    ) -> Result<(), TakeOverError> {
        let ctx = self.ctx;
        let mut taken = self.revisions.iter().filter(|set| is_migrated(set));
        let due = taken.any(|set| bundle_version(set) != bundle_version(newest));
        let name = self.extension.object.name_any();
        let secrets = ctx.helm_secrets();
        if !due
            || !is_rolled_out(self.revisions)
            || !ctx.before.helm.has(&secrets, &name, false).await?
        {
            return Ok(());
        }
        // The other chunks are owned by the index.
        let labels = format!("{},{}={name}", helm::INDEX_SELECTOR, helm::NAME);
        let found = secrets.list_metadata(&ListParams::default().labels(&labels)).await;
        for index in found.map_err(RequestError::doing("listing a Helm release"))?.items {
            let params = DeleteParams::background();
            match secrets.delete(&index.name_any(), &params).await {
                Err(error) if code(&error) != 404 => {
                    return Err(RequestError::doing("removing a Helm release")(error).into());
                }
                Ok(_) | Err(_) => {}
            }
        }
        ctx.before.helm.forget(&name);
        tracing::info!("Helm release removed");
        Ok(())
    }

    /// Fails if revisions of an earlier release hold what is installed.
    async fn reject_earlier(&self) -> Result<Option<Vec<ClusterObjectSet>>, TakeOverError> {
        let ctx = self.ctx;
        let names = ctx.before.earlier.of(&ctx.client, self.extension.object).await?;
        if names.is_empty() {
            return Ok(None);
        }
        Err(TakeOverError::Earlier { names })
    }

    async fn made_of_release(&self) -> Result<Option<ClusterObjectSet>, TakeOverError> {
        let ctx = self.ctx;
        let name = self.extension.object.name_any();
        let secrets = ctx.helm_secrets();
        // What OLM Classic installed is handed over in this form while this process leads.
        let asks = self.extension.object.annotations().contains_key(policy::ADOPT);
        if !ctx.before.helm.has(&secrets, &name, asks).await? {
            return Ok(None);
        }
        let labels = format!("{},{}={name}", helm::INDEX_SELECTOR, helm::NAME);
        let listed = secrets.list(&ListParams::default().labels(&labels)).await;
        let listed = listed.map_err(RequestError::doing("listing a Helm release"))?;
        let mut indexes = Vec::new();
        for secret in of_type(listed.items, helm::INDEX_TYPE) {
            indexes.push(Index::read(&secret.name_any(), secret.labels(), &data(&secret))?);
        }
        let Some(index) = helm::current(indexes) else {
            return Ok(None);
        };
        let mut others = Vec::with_capacity(index.others.len());
        for other in &index.others {
            let found = secrets.get(other).await;
            let found = found.map_err(RequestError::doing("reading a chunk of a Helm release"))?;
            others.push(helm::chunk(other, &data(&found))?);
        }
        let desired = index.release(&others)?.desired(self.extension, self.account)?;
        let made = write_revision(&ctx.revisions, &desired, &[], Change::Install).await?;
        tracing::info!(release = index.secret, "Helm release taken over");
        Ok(made.and_then(|mut made| made.pop()))
    }

    async fn with_status(
        &self,
        set: ClusterObjectSet,
        status: ClusterObjectSetStatus,
    ) -> Result<ClusterObjectSet, TakeOverError> {
        let api = Api::<ClusterObjectSet>::all(self.ctx.client.clone());
        let next = ClusterObjectSet { status: Some(status), ..set };
        let name = next.name_any();
        let params = PostParams::default();
        let written = api.replace_status(&name, &params, &next).await;
        Ok(written.map_err(RequestError::doing("writing the status of a revision"))?)
    }
}

fn is_migrated(set: &ClusterObjectSet) -> bool {
    set.labels().contains_key(label::MIGRATED_FROM_HELM) || is_of_classic(set)
}

fn of_type(secrets: Vec<Secret>, type_: &str) -> impl Iterator<Item = Secret> {
    let secrets = secrets.into_iter();
    secrets.filter(move |secret| secret.type_.as_deref() == Some(type_))
}

fn data(secret: &Secret) -> BTreeMap<String, Vec<u8>> {
    let data = secret.data.iter().flatten();
    data.map(|(key, value)| (key.clone(), value.0.clone())).collect()
}
