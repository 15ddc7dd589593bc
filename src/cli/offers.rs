//! The packages of catalogs: of those of a cluster, or of those on the command line, which need no
//! cluster.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::keys::label;
use olm_core::catalog::read::Meta;
use olm_core::catalog::{Content, Summary};
use olm_core::extension::{KnownCatalog, Policy, Question};
use olm_core::resolve::{Options, UpdatePolicy};
use olm_core::selector::Selector;
use olm_core::similar;

use crate::catalogs::{CatalogFlag, FileList, named_files, named_metas};
use crate::cluster::{Cluster, ExtensionSnapshot, Packages, heads};
use crate::output::one_line;
use crate::prelude::*;

/// Most bytes of an icon.
const MAX_ICON: usize = 1024 * 1024;

/// The hint if no catalog is served.
pub(crate) const ADD_CATALOG: &str =
    "kubectl olm catalog add operatorhubio quay.io/operatorhubio/catalog:latest --poll 1h";

/// A catalog as the verbs list it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listed {
    /// Its name.
    pub(crate) name: String,
    /// `True` if its content is served, otherwise why not in one word.
    pub(crate) serving: String,
    /// The image that it is read from.
    pub(crate) image: Option<String>,
    /// Which of several catalogs with a package wins: the one with the higher number.
    pub(crate) priority: i32,
    /// The number of errors and warnings of its content, or `none`; nothing if unknown.
    pub(crate) findings: Option<String>,
    /// Digest of the content that is served, without `sha256:`.
    pub(crate) digest: Option<String>,
    /// When that was unpacked.
    pub(crate) last_unpacked: Option<Time>,
}

pub(crate) enum Offers {
    Cluster(Box<Cluster>),
    /// Catalogs named on the command line.
    Named(Arc<Vec<Named>>),
}

/// A catalog named on the command line, with its blobs or why there are none.
pub(crate) struct Named {
    pub(crate) flag: CatalogFlag,
    /// File of the CA certificates of its server.
    authorities: Option<PathBuf>,
    metas: Result<Vec<Meta>, String>,
}

impl Named {
    /// Reads catalogs; one that cannot be read says so when it is asked.
    pub(crate) async fn read(flags: &[CatalogFlag], authorities: Option<&Path>) -> Vec<Self> {
        let mut read = Vec::new();
        for flag in flags {
            let metas = named_metas(&flag.place, authorities).await;
            read.push(Self {
                flag: flag.clone(),
                authorities: authorities.map(Path::to_owned),
                metas: metas.map_err(|error| one_line(&error)),
            });
        }
        read
    }

    /// Reads its files, as they are now.
    pub(crate) async fn files(&self) -> anyhow::Result<FileList> {
        named_files(&self.flag.place, self.authorities.as_deref()).await
    }

    /// Returns why it could not be read.
    pub(crate) fn unread(&self) -> Option<&str> {
        self.metas.as_ref().err().map(String::as_str)
    }

    /// Returns it with all its packages, as resolution takes it.
    pub(crate) fn known(&self) -> KnownCatalog {
        self.with(self.metas.as_ref().map(Content::from_blobs).map_err(String::clone))
    }

    fn with(&self, content: Result<Content, String>) -> KnownCatalog {
        KnownCatalog::named(&self.flag.name, self.flag.priority, content.map(Arc::new))
    }

    /// Returns the catalog as the verbs list it.
    pub(crate) fn listed(&self) -> Listed {
        let serving = self.unread().map_or("True", |_| "FetchFailed");
        Listed {
            name: self.flag.name.clone(),
            serving: serving.to_owned(),
            image: Some(self.flag.place.clone()),
            priority: self.flag.priority,
            ..Listed::default()
        }
    }

    fn of_package(&self, package: &str) -> Result<impl Iterator<Item = &Meta>, String> {
        let metas = self.metas.as_ref().map_err(String::clone)?.iter();
        let package = package.to_owned();
        Ok(metas.filter(move |meta| meta.owner() == package))
    }
}

impl Offers {
    /// Returns the same with nothing read of the cluster yet.
    pub(crate) fn anew(&self) -> Self {
        match self {
            Self::Cluster(cluster) => Self::Cluster(Box::new(cluster.anew())),
            Self::Named(named) => Self::Named(Arc::clone(named)),
        }
    }

    /// Returns the head of every package, and which catalogs could not be read, and why.
    pub(crate) async fn heads(&self) -> anyhow::Result<(Packages, Vec<(String, String)>)> {
        let named = match self {
            Self::Cluster(cluster) => return cluster.packages().await,
            Self::Named(named) => named,
        };
        let (mut found, mut unread) = (Packages::new(), Vec::new());
        for catalog in named.iter() {
            let name = &catalog.flag.name;
            match &catalog.metas {
                Err(cause) => unread.push((name.clone(), cause.clone())),
                Ok(metas) => {
                    found.extend(heads(metas)?.into_iter().map(|head| (name.clone(), head)));
                }
            }
        }
        Ok((found, unread))
    }

    /// Returns the catalogs that a selector selects, each with its priority.
    pub(crate) async fn selected(
        &self,
        selector: &Selector,
    ) -> anyhow::Result<BTreeMap<String, i32>> {
        let all: Vec<_> = match self {
            Self::Cluster(cluster) => {
                let catalogs = cluster.all_catalogs().await?.iter();
                catalogs.map(|it| (it.name_any(), it.spec.priority, it.labels().clone())).collect()
            }
            Self::Named(named) => {
                let flags = named.iter().map(|it| &it.flag);
                flags.map(|it| (it.name.clone(), it.priority, BTreeMap::new())).collect()
            }
        };
        let wanted = all.into_iter().filter_map(|(name, priority, mut labels)| {
            labels.insert(label::METADATA_NAME.to_owned(), name.clone());
            selector.matches(&labels).then_some((name, priority))
        });
        Ok(wanted.collect())
    }

    /// Sums up a package of a catalog; nothing if it is not there.
    pub(crate) async fn summary(
        &self,
        catalog: &str,
        package: &str,
    ) -> anyhow::Result<Option<Summary>> {
        let metas = match self {
            Self::Cluster(cluster) => cluster.blobs(catalog, package).await?,
            Self::Named(named) => {
                let named = named.iter().find(|it| it.flag.name == catalog);
                let named = named.with_context(|| format!("no --from is named {catalog:?}"))?;
                named.of_package(package).map_err(anyhow::Error::msg)?.cloned().collect()
            }
        };
        Summary::of(package, &metas).map_err(anyhow::Error::msg)
    }

    /// Reads what a new extension would be offered.
    pub(crate) async fn offered(&self, filter: CatalogFilter) -> anyhow::Result<ExtensionSnapshot> {
        let named = match self {
            Self::Cluster(cluster) => return cluster.offers(filter).await,
            Self::Named(named) => named,
        };
        let of_package = |catalog: &Named| {
            let metas = catalog.of_package(&filter.package_name);
            catalog.with(metas.map(Content::from_blobs))
        };
        let catalogs = named.iter().map(of_package).collect();
        let policy = Policy::of(&BTreeMap::new(), UpdatePolicy::Any)?;
        let question = Question::new(filter, policy, Timestamp::now());
        Ok(ExtensionSnapshot::of_named(question, catalogs, Options::default()))
    }

    /// Reads all extensions; without a cluster there are none.
    pub(crate) async fn extensions(&self) -> anyhow::Result<Vec<ClusterExtension>> {
        match self {
            Self::Cluster(cluster) => cluster.extensions().await,
            Self::Named(_) => Ok(Vec::new()),
        }
    }
}

/// Returns packages whose name is like a word, the nearest first, each with its catalog.
pub(crate) fn near<'a>(word: &str, packages: &'a Packages) -> Vec<(&'a str, &'a str)> {
    // The name of a bundle, or a tag as of an image.
    let stem =
        word.split_once(':').or_else(|| word.split_once(".v")).map_or(word, |(stem, _)| stem);
    let named = packages.iter().filter_map(|(catalog, blob)| {
        let name = blob["name"].as_str()?;
        let near = similar::nearness(word, name).or_else(|| similar::nearness(stem, name))?;
        Some((near, name, catalog.as_str()))
    });
    let mut near: Vec<_> = named.collect();
    near.sort_unstable();
    near.into_iter().map(|(_, name, catalog)| (name, catalog)).collect()
}

/// Returns the icon of a package's head and its media type by its first bytes; nothing if it has none
/// that a browser shows, or too large a one.
pub(crate) fn icon(head: &Value) -> Option<(&'static str, Vec<u8>)> {
    let text = head["icon"]["base64data"].as_str()?;
    if text.len() > MAX_ICON / 3 * 4 {
        return None;
    }
    let bytes = BASE64_STANDARD.decode(text.trim()).ok()?;
    Some((media_type(&bytes)?, bytes))
}

fn media_type(bytes: &[u8]) -> Option<&'static str> {
    let begins: [(&[u8], _); 3] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
    ];
    if let Some((_, found)) = begins.iter().find(|(begin, _)| bytes.starts_with(begin)) {
        return Some(found);
    }
    let text = std::str::from_utf8(bytes).ok()?.trim_start_matches('\u{feff}').trim_start();
    let markup = text.starts_with("<?xml") || text.starts_with("<!") || text.starts_with("<svg");
    (markup && text.contains("<svg")).then_some("image/svg+xml")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_name_of_a_bundle_or_a_tag_leads_to_the_package() {
        let packages = Packages::from(vec![("c".to_owned(), json!({"name": "kettle"}))]);
        for word in ["ketle", "kettle.v1.0.0", "kettle:1.0.0"] {
            assert_eq!(near(word, &packages), [("kettle", "c")], "{word}");
        }
        assert_eq!(near("pot.v1.0.0", &packages), []);
    }

    // plugin.md U77
    #[rstest]
    #[case::png(b"\x89PNG\r\n\x1a\n\0".to_vec(), Some("image/png"))]
    #[case::jpeg(b"\xff\xd8\xff\xe0".to_vec(), Some("image/jpeg"))]
    #[case::gif(b"GIF89a".to_vec(), Some("image/gif"))]
    #[case::svg(b"<?xml version='1.0'?><svg/>".to_vec(), Some("image/svg+xml"))]
    #[case::page(b"<!DOCTYPE html><script>".to_vec(), None)]
    #[case::too_large([b"\x89PNG\r\n\x1a\n".to_vec(), vec![0; MAX_ICON]].concat(), None)]
    fn icons_have_the_type_of_their_bytes(#[case] bytes: Vec<u8>, #[case] want: Option<&str>) {
        let data = BASE64_STANDARD.encode(&bytes);
        let head = json!({"icon": {"mediatype": "text/html", "base64data": data}});
        assert_eq!(icon(&head).map(|(found, _)| found), want);
        assert_eq!(icon(&json!({})), None);
    }
}
