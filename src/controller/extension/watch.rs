//! Triggers of an extension's reconciles: itself, its revisions, the catalogs, its account, its
//! namespace.
//!
//! Source: api.md 4.8.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Debug;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use futures::stream::{BoxStream, select_all};
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use kube::api::{Api, ObjectMeta};
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::controller::{self, Controller};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{Predicate as _, PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Resource, ResourceExt as _};
use olm_api::conditions::types;
use olm_api::{ClusterCatalog, ClusterExtension, keys};
use olm_core::extension::{Policy, ValidExtension};
use olm_core::revision::Account;
use olm_core::status::find;
use serde::de::DeserializeOwned;

use super::{Context, error_policy, reconcile, removal};
use crate::by_key::ByKey;
use crate::cluster::{self, Sentence};
use crate::seen::SeenWriters;

type Guarded = DeserializeGuard<ClusterExtension>;
type Reference = ObjectRef<Guarded>;

/// What comes from elsewhere and makes extensions be looked at again.
pub struct Triggers {
    /// Certificates of webhooks, or copies of pull secrets, were touched: the extension of this name.
    pub secrets: BoxStream<'static, String>,
    /// A pull has ended that its reconcile did not wait for, rights may have come, revisions have changed:
    /// the extension of this name.
    pub named: BoxStream<'static, String>,
    /// Where extensions, catalogs and accounts are put, as the watches bring them.
    pub seen: SeenWriters,
}

/// Runs the reconciler until `shutdown` resolves and the reconciles under way have ended.
pub async fn run(
    ctx: Arc<Context>,
    triggers: Triggers,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let (seen, writers) = (ctx.seen.clone(), triggers.seen);
    let store = seen.extensions;
    ctx.metrics.follow_extensions(store.clone());
    // Our own status writes need no second look; those of others do.
    let (own, held) = (Arc::clone(&ctx), store.clone());
    let relevant = predicates::generation
        .combine(predicates::finalizers)
        .combine(predicates::annotations)
        .combine(move |extension: &Guarded| own.reconciler.status_of_others(&held, extension));
    let (told, present, changed) = (Arc::clone(&ctx), store.clone(), writers.changed);
    let extensions = cluster::stored(authored(&ctx).reflect(writers.extensions), store.clone())
        .inspect_ok(move |extension| {
            note(&told, &present, extension);
            // Nobody listens when the process stops.
            drop(changed.unbounded_send(extension.meta().clone()));
        })
        .predicate_filter(relevant, PredicateConfig::default());
    let known = seen.catalogs.clone();
    // The end of a catalog counts even if its last event repeats the state of the one before.
    let state = move |catalog: &DeserializeGuard<ClusterCatalog>| {
        known.get(&ObjectRef::from_obj(catalog)).and_then(|_| catalog_state(catalog))
    };
    let catalogs = cluster::stored(
        all::<DeserializeGuard<ClusterCatalog>>(&ctx).reflect(writers.catalogs),
        seen.catalogs,
    )
    .predicate_filter(state, PredicateConfig::default())
    .filter_map(|change| async { change.ok().map(drop) });
    let contents = futures::stream::select(catalogs, ctx.catalogs.changes());
    let contents = futures::stream::select(contents, Box::pin(ctx.platform.changes())).map({
        let store = store.clone();
        move |()| everything(&store)
    });
    let accounts =
        all::<PartialObjectMeta<ServiceAccount>>(&ctx).modify(only_name).reflect(writers.accounts);
    let accounts = cluster::stored(accounts, seen.accounts);
    let namespaces = all::<PartialObjectMeta<Namespace>>(&ctx).touched_objects();
    let authorities = authorities(&ctx);
    let dependents = dependents(&ctx);
    let secrets = triggers.secrets.inspect({
        let ctx = Arc::clone(&ctx);
        move |name| ctx.kept.settled.touch(name)
    });
    let named = select_all([secrets.boxed(), triggers.named, mended(&ctx)]);
    let named = named.map(|name| vec![Reference::new(&name)]).boxed();
    let (proxied, copied) = (proxied(&ctx, &store), copied(&ctx, &store));
    let woken = select_all([contents.boxed(), dependents.boxed(), named, proxied, copied]);
    let woken = woken.flat_map(futures::stream::iter);
    let kept = {
        let ctx = Arc::clone(&ctx);
        async move {
            let gone = removal::forget_gone_bundles(&ctx);
            tokio::join!(gone, ctx.discovery.keep_current());
        }
    };
    let by_account = {
        let (store, ctx) = (store.clone(), Arc::clone(&ctx));
        move |account: PartialObjectMeta<ServiceAccount>| using(&store, &ctx, &account)
    };
    let by_namespace = {
        let store = store.clone();
        move |namespace: PartialObjectMeta<Namespace>| inside(&store, &namespace.name_any())
    };
    let config = controller::Config::default().concurrency(ctx.concurrency);
    let passes = Controller::for_stream(extensions, store)
        .with_config(config)
        .watches_stream(accounts, by_account)
        .watches_stream(namespaces, by_namespace)
        .watches_stream(authorities, |authority| {
            authority.labels().get(keys::label::OWNER_NAME).map(|name| Reference::new(name))
        })
        .reconcile_on(woken)
        .graceful_shutdown_on(shutdown)
        .run(reconcile, error_policy, ctx)
        .for_each(|result| async move {
            if let Err(error) = result {
                tracing::debug!(error = %Sentence(&error), "controller event");
            }
        });
    // What is served is followed as long as anybody depends on it.
    futures::future::select(Box::pin(passes), Box::pin(kept)).await;
}

/// Returns the extensions that failed for want of credentials, whenever those change.
fn mended(ctx: &Arc<Context>) -> BoxStream<'static, String> {
    let credentials = Arc::clone(ctx);
    let changes = ctx.credentials.changes();
    changes.flat_map(move |()| futures::stream::iter(credentials.mended(|_| true))).boxed()
}

/// Notes an extension that the watch has brought. What is kept of one ends with it, also where somebody
/// else removed its finalizers, or where it went while nobody watched.
fn note(ctx: &Context, present: &Store<Guarded>, extension: &Guarded) {
    ctx.kept.note_orphaning(extension.meta());
    if let (None, Ok(gone)) = (present.get(&ObjectRef::from_obj(extension)), &extension.0) {
        ctx.forget(gone);
    }
}

/// Watches all extensions; who changed one is recorded with its next revision.
fn authored(ctx: &Context) -> impl Stream<Item = watcher::Result<watcher::Event<Guarded>>> + use<> {
    cluster::watched(Api::all(ctx.client.clone()), watcher::Config::default(), |metadata| {
        // Who wrote a status is of no interest.
        if let Some(entries) = &mut metadata.managed_fields {
            entries.retain(|entry| entry.subresource.is_none());
        }
    })
}

/// Watches all objects of a kind, which tenants may write.
fn all<K>(ctx: &Context) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + use<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    cluster::changes(Api::all(ctx.client.clone()), cluster::of_tenants())
}

/// Leaves of an account what is asked for: there may be thousands.
fn only_name(account: &mut PartialObjectMeta<ServiceAccount>) {
    account.metadata = ObjectMeta {
        name: account.metadata.name.take(),
        namespace: account.metadata.namespace.take(),
        resource_version: account.metadata.resource_version.take(),
        ..ObjectMeta::default()
    };
}

/// Watches the CAs of webhooks; Secrets with the content of revisions do not carry this label.
fn authorities(
    ctx: &Arc<Context>,
) -> impl Stream<Item = watcher::Result<PartialObjectMeta<Secret>>> + use<> {
    let (key, value) = (keys::label::OWNER_KIND, keys::label::OWNER_KIND_EXTENSION);
    let changes = cluster::changes(
        Api::namespaced(ctx.client.clone(), &ctx.system_namespace),
        watcher::Config::default().labels(&format!("{key}={value}")),
    );
    let ctx = Arc::clone(ctx);
    changes.touched_objects().inspect_ok(move |authority: &PartialObjectMeta<Secret>| {
        let owner = authority.labels().get(keys::label::OWNER_NAME);
        owner.inspect(|name| ctx.kept.settled.touch(name));
    })
}

/// Returns the extensions that name a Secret which may be copied for their pods, whenever it is
/// labelled so, changed, or not labelled any more.
fn copied(ctx: &Arc<Context>, store: &Store<Guarded>) -> BoxStream<'static, Vec<Reference>> {
    let offered = cluster::changes(
        Api::<PartialObjectMeta<Secret>>::namespaced(ctx.client.clone(), &ctx.system_namespace),
        watcher::Config::default().labels(&format!("{}=true", keys::label::OPERATOR_PULL_SECRET)),
    );
    let (ctx, store) = (Arc::clone(ctx), store.clone());
    Box::pin(offered.touched_objects().filter_map(move |secret| {
        let named = secret.ok().map(|secret| {
            let name = secret.name_any();
            let named = matching(&store, |extension| {
                ValidExtension::of(extension).is_some_and(|it| it.pull_secrets().contains(&name))
            });
            for extension in &named {
                ctx.kept.settled.touch(&extension.name);
            }
            named
        });
        std::future::ready(named)
    }))
}

/// Returns the extensions whose resolution depends on the cluster, whenever that changes, and those
/// whose revision was refused because of a CRD, whenever one changes.
fn dependents(ctx: &Arc<Context>) -> impl Stream<Item = Vec<Reference>> + use<> {
    let references =
        |names: &ByKey<()>| names.keys().iter().map(|name| Reference::new(name)).collect();
    let (resolved, refused) = (Arc::clone(ctx), Arc::clone(ctx));
    let cluster = ctx.discovery.changes().map(move |()| references(&resolved.kept.dependents));
    let crds = ctx.discovery.changes_of_crds().map(move |()| references(&refused.kept.refused));
    futures::stream::select(cluster, crds)
}

/// Sums up what of a catalog resolution and the pulls of its bundles depend on.
fn catalog_state(guarded: &DeserializeGuard<ClusterCatalog>) -> Option<u64> {
    let Ok(catalog) = &guarded.0 else { return None };
    let mut hasher = DefaultHasher::new();
    catalog.metadata.uid.hash(&mut hasher);
    catalog.metadata.deletion_timestamp.is_some().hash(&mut hasher);
    catalog.labels().hash(&mut hasher);
    catalog.annotations().get(keys::policy::PULL_SECRET).hash(&mut hasher);
    catalog.spec.priority.hash(&mut hasher);
    format!("{:?}", catalog.spec.availability_mode).hash(&mut hasher);
    if let Some(status) = &catalog.status {
        format!("{:?}", status.resolved_source).hash(&mut hasher);
        find(&status.conditions, types::SERVING).map(|serving| &serving.status).hash(&mut hasher);
    }
    Some(hasher.finish())
}

fn everything(store: &Store<Guarded>) -> Vec<Reference> {
    store.state().iter().map(|one| ObjectRef::from_obj(&**one)).collect()
}

/// Returns the extensions that are installed with an account.
fn using(
    store: &Store<Guarded>,
    ctx: &Context,
    account: &PartialObjectMeta<ServiceAccount>,
) -> Vec<Reference> {
    let account =
        Account { namespace: account.namespace().unwrap_or_default(), name: account.name_any() };
    let accounts = ctx.settings.accounts();
    matching(store, |extension| accounts.of_extension(extension).as_ref() == Some(&account))
}

/// Returns the extensions whose operators are to have the cluster proxies, whenever these
/// change.
fn proxied(ctx: &Arc<Context>, store: &Store<Guarded>) -> BoxStream<'static, Vec<Reference>> {
    let store = store.clone();
    let defaults = ctx.settings.defaults();
    let wants = move |extension: &ClusterExtension| {
        let policy = Policy::of(extension.annotations(), defaults.clone());
        policy.is_ok_and(|policy| policy.additions.cluster_proxy)
    };
    Box::pin(super::additions::changes_of_proxies(ctx).map(move |()| matching(&store, &wants)))
}

fn inside(store: &Store<Guarded>, namespace: &str) -> Vec<Reference> {
    matching(store, |extension| {
        extension.spec.as_ref().is_some_and(|spec| spec.namespace == namespace)
    })
}

fn matching(store: &Store<Guarded>, wanted: impl Fn(&ClusterExtension) -> bool) -> Vec<Reference> {
    store
        .state()
        .iter()
        .filter(|one| one.0.as_ref().is_ok_and(&wanted))
        .map(|one| ObjectRef::new(one.meta().name.as_deref().unwrap_or_default()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    // deploying.md 3.1
    #[test]
    fn another_pull_secret_of_a_catalog_counts() {
        let state = |annotations: Value| {
            let source = json!({"type": "Image", "image": {"ref": "r.io/c"}});
            let object = json!({"metadata": {"name": "c", "annotations": annotations},
                "spec": {"source": source}});
            catalog_state(&DeserializeGuard(Ok(serde_json::from_value(object).unwrap())))
        };
        let plain = state(json!({}));
        assert_eq!(state(json!({"more": "a"})), plain);
        assert_ne!(state(json!({keys::policy::PULL_SECRET: "a"})), plain);
    }
}
