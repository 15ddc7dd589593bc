//! Names that a cluster knows, for completion: it prints them, or nothing.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Resource, ResourceExt};
use olm_core::catalog::Summary;
use olm_core::classic::GROUP;

use super::candidates::{After, Names};
use crate::commands::prelude::*;

/// For so long a shell is kept waiting.
const PATIENCE: Duration = Duration::from_secs(3);

/// Returns the names that may follow; none where the cluster does not answer in time.
pub(super) async fn find(after: &After, words: &[String]) -> Vec<String> {
    let value = |flag: &str| {
        let at =
            words.iter().position(|word| word == flag || word.starts_with(&format!("{flag}=")))?;
        let inside = words[at].split_once('=').map(|(_, value)| value.to_owned());
        inside.or_else(|| words.get(at + 1).cloned())
    };
    let global = Global {
        kubeconfig: value("--kubeconfig"),
        context: value("--context").filter(|_| !after.names.contains(&Names::Contexts)),
        ..Global::default()
    };
    let mut on = OnCluster::default();
    on.access.catalog_ca = value("--catalog-ca").map(Into::into);
    on.access.catalog_url = value("--catalog-url").and_then(|url| url.parse().ok());
    let mut found = Vec::new();
    for names in &after.names {
        let asked = tokio::time::timeout(PATIENCE, names.ask(&global, &on, after));
        found.extend(asked.await.ok().and_then(Result::ok).unwrap_or_default());
    }
    found.retain(|name| name.starts_with(&after.begin));
    found.iter().map(|name| format!("{}{name}", after.prefix)).collect()
}

impl Names {
    async fn ask(
        self,
        global: &Global,
        on: &OnCluster,
        after: &After,
    ) -> anyhow::Result<Vec<String>> {
        if self == Self::Contexts {
            let contexts = global.read_kubeconfig()?.contexts.into_iter();
            return Ok(contexts.map(|context| context.name).collect());
        }
        let cluster = on.connect(global).await?;
        let client = cluster.own_client();
        Ok(match self {
            Self::Contexts => Vec::new(),
            Self::Namespaces => listed(Api::<Namespace>::all(client.clone())).await?,
            Self::Extensions => {
                let extensions = cluster.extensions().await?;
                extensions.iter().map(ResourceExt::name_any).collect()
            }
            Self::Catalogs => {
                let catalogs = cluster.all_catalogs().await?;
                catalogs.iter().map(ResourceExt::name_any).collect()
            }
            Self::Packages => {
                let (packages, _) = cluster.packages().await?;
                let names = packages.iter().filter_map(|(_, head)| head["name"].as_str());
                names.map(str::to_owned).collect()
            }
            Self::Versions => versions(&cluster, after).await?,
            Self::Subscriptions => {
                let kind = GroupVersionKind::gvk(GROUP, "v1alpha1", "Subscription");
                let kind = ApiResource::from_gvk(&kind);
                listed(Api::<DynamicObject>::all_with(client.clone(), &kind)).await?
            }
        })
    }
}

async fn listed<K>(api: Api<K>) -> anyhow::Result<Vec<String>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let listed = api.list_metadata(&ListParams::default()).await?;
    Ok(listed.items.iter().map(ResourceExt::name_any).collect())
}

/// Returns the versions of the package that is named before, or that the extension named before has.
async fn versions(cluster: &Cluster, after: &After) -> anyhow::Result<Vec<String>> {
    let subject = after.subject.as_deref().context("versions of what")?;
    let extension = cluster.find_extension(subject).await?;
    let package = extension.as_ref().and_then(ClusterExtension::package).unwrap_or(subject);
    let (packages, _) = cluster.packages().await?;
    let mut found = Vec::new();
    for (catalog, _) in packages.iter().filter(|(_, head)| head["name"] == package) {
        let blobs = cluster.blobs(catalog, package).await?;
        let summary = Summary::of(package, &blobs).map_err(anyhow::Error::msg)?;
        let bundles = summary.into_iter().flat_map(|summary| summary.bundles);
        found.extend(bundles.filter_map(|bundle| bundle.version));
    }
    Ok(found)
}
