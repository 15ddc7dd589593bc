//! Access to the content of a cluster's catalogs.
//!
//! The address in a catalog's status usually is that of a Service, which exists inside the cluster
//! only: it is reached through the API server, with the caller's own rights on `services/proxy`.
//! Any other address is used as it is, and `--catalog-url` replaces both.

use std::sync::Arc;

use axum::body::Body as Answer;
use futures::future;
use http::HeaderMap;
use http::header::ETAG;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use olm_api::keys::name;
use olm_core::catalog::read::Meta;
use olm_core::catalog::{Content, schema};
use olm_image::pull::Transfer;
use reqwest::{StatusCode, Url};
use tokio::sync::{Mutex, OnceCell};

use super::cache::{Cache, Key};
use crate::catalogs;
use crate::managed::failure;
use crate::output::during;
use crate::prelude::*;
use crate::settings::SettingsFlags;

/// The error for blobs that cannot be parsed.
const UNREADABLE: &str = "error parsing catalog contents";

/// Access to the catalog server of a cluster.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct CatalogAccess {
    /// Address of the catalog server, for example of a forwarded port; by default the one in the
    /// status of the catalogs, through the API server if it is that of a Service
    #[arg(long, value_name = "URL", help_heading = "Connection", value_parser = http_url)]
    pub(crate) catalog_url: Option<Url>,
    /// CA certificates of the catalog server, as a PEM file; no others are trusted then
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub(crate) catalog_ca: Option<PathBuf>,
    /// Do not use the local cache of catalog content
    #[arg(long, help_heading = "Connection")]
    pub(crate) no_cache: bool,
}

#[derive(Clone)]
pub(super) struct CatalogTransport {
    client: Client,
    http: reqwest::Client,
    /// One that trusts the CA that the controller publishes, where the caller names none.
    published: Option<OnceCell<Option<reqwest::Client>>>,
    /// Where it may have published it.
    namespaces: Vec<String>,
    instead: Option<Url>,
    /// Whole catalogs by address; without them each package is requested.
    pub(super) whole: Option<Arc<Kept<Arc<Shelf>>>>,
    cache: Option<Cache>,
}

/// A catalog of the server: its address, and the digest of its content.
struct Place {
    base: Url,
    digest: Option<String>,
}

/// What was read of images, by name: each content once, until the image of the name is another one.
#[derive(Default)]
pub(crate) struct Kept<T>(Mutex<BTreeMap<String, OfImage<T>>>);

/// An image, and the place for what is read of it.
type OfImage<T> = (String, Arc<OnceCell<T>>);

impl<T> Kept<T> {
    /// Returns the place for what is read of an image.
    pub(crate) async fn place(&self, name: &str, image: &str) -> Arc<OnceCell<T>> {
        let mut kept = self.0.lock().await;
        let (of, place) = kept.entry(name.to_owned()).or_default();
        if of != image {
            (*of, *place) = (image.to_owned(), Arc::default());
        }
        Arc::clone(place)
    }
}

/// The blobs of a catalog by package.
pub(super) type Shelf = BTreeMap<String, Vec<Meta>>;

impl CatalogTransport {
    pub(super) fn new(
        client: Client,
        access: &CatalogAccess,
        settings: &SettingsFlags,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            client,
            cache: (!access.no_cache).then(Cache::of_user).flatten(),
            http: catalogs::client(access.catalog_ca.as_deref())?,
            published: access.catalog_ca.is_none().then(OnceCell::new),
            namespaces: settings.installations().concat().into_iter().map(str::to_owned).collect(),
            instead: access.catalog_url.clone(),
            whole: None,
        })
    }

    pub(super) async fn content(
        &self,
        catalog: &ClusterCatalog,
        package: &str,
    ) -> anyhow::Result<Content> {
        Ok(Content::from_blobs(&self.blobs(catalog, package).await?))
    }

    /// Returns the blobs of a package, and maybe others.
    pub(super) async fn blobs(
        &self,
        catalog: &ClusterCatalog,
        package: &str,
    ) -> anyhow::Result<Vec<Meta>> {
        if let Some(shelf) = self.shelf(catalog).await? {
            return Ok(shelf.get(package).cloned().unwrap_or_default());
        }
        parse(&self.package(&self.place(catalog)?, package).await?)
    }

    /// Returns the whole catalog, if whole catalogs are to be read: as it was kept, or read anew
    /// where its status says that it changed.
    async fn shelf(&self, catalog: &ClusterCatalog) -> anyhow::Result<Option<Arc<Shelf>>> {
        let Some(kept) = &self.whole else { return Ok(None) };
        let place = self.place(catalog)?;
        let image = catalog.resolved_reference().unwrap_or_default();
        let content = kept.place(place.base.as_str(), image).await;
        let read = || async {
            let mut read = Shelf::new();
            for meta in parse(&self.all(&place).await?)? {
                read.entry(meta.owner().to_owned()).or_default().push(meta);
            }
            anyhow::Ok(Arc::new(read))
        };
        Ok(Some(Arc::clone(content.get_or_try_init(read).await?)))
    }

    /// Returns the head of every package of the server.
    pub(super) async fn packages(&self, catalog: &ClusterCatalog) -> anyhow::Result<Vec<Value>> {
        if let Some(shelf) = self.shelf(catalog).await? {
            return heads(shelf.values().flatten());
        }
        if catalog.status.as_ref().is_none_or(|status| status.urls.is_none()) {
            let why = catalog.condition(types::PROGRESSING);
            bail!("it is not served: {}", why.map_or("it has no status yet", |it| &it.message));
        }
        let place = self.place(catalog)?;
        let mut url = below(&place.base, "metas");
        url.query_pairs_mut().append_pair("schema", schema::PACKAGE);
        let text = match self.get(&place, url).await? {
            (StatusCode::NOT_FOUND, _) => self.all(&place).await?,
            (status, text) => ok(status, text)?,
        };
        heads(&parse(&text)?)
    }

    /// Returns the address of a catalog, and the digest of what its status says it serves.
    fn place(&self, catalog: &ClusterCatalog) -> anyhow::Result<Place> {
        let status = catalog.status.as_ref();
        let urls = status.and_then(|status| status.urls.as_ref());
        let base = urls.with_context(|| {
            let name = catalog.metadata.name.as_deref().unwrap_or_default();
            format!("error: catalog {} has a nil status.urls value", quote(name))
        })?;
        let mut base = Url::parse(&base.base).context("error forming catalogd API endpoint")?;
        if let Some(instead) = &self.instead {
            let path = base.path().to_owned();
            base = instead.clone();
            base.set_path(&format!("{}{path}", instead.path().trim_end_matches('/')));
        }
        let digest = catalog.resolved_reference().and_then(|image| image.split_once('@'));
        Ok(Place { base, digest: digest.map(|(_, digest)| digest.to_owned()) })
    }

    /// Returns the blobs of a package, one per line; those of the whole catalog if the server
    /// cannot select by package.
    async fn package(&self, place: &Place, package: &str) -> anyhow::Result<String> {
        let metas = |query: &[(&str, &str)]| {
            let mut url = below(&place.base, "metas");
            url.query_pairs_mut().extend_pairs(query);
            url
        };
        let rest = self.get(place, metas(&[("package", package)]));
        let head = self.get(place, metas(&[("schema", schema::PACKAGE), ("name", package)]));
        let (rest, head) = future::join(rest, head).await;
        let (status, text) = rest?;
        if status != StatusCode::NOT_FOUND {
            let mut text = ok(status, text)?;
            let (status, head) = head?;
            text.push('\n');
            text.push_str(&ok(status, head)?);
            return Ok(text);
        }
        self.all(place).await
    }

    /// Returns the blobs of a whole catalog, one per line.
    async fn all(&self, place: &Place) -> anyhow::Result<String> {
        let (status, text) = self.get(place, below(&place.base, "all")).await?;
        ok(status, text)
    }

    /// Gets a part of a catalog, from the cache if it is there.
    async fn get(&self, place: &Place, url: Url) -> anyhow::Result<(StatusCode, String)> {
        let key = place.digest.as_ref().map(|digest| Key::new(digest, &url));
        let (cache, key) = (self.cache.as_ref(), key.flatten());
        if let Some(text) = cache.zip(key.as_ref()).and_then(|(cache, key)| cache.read(key)) {
            return Ok((StatusCode::OK, text));
        }
        let what = format!("reading {}{}", url.authority(), url.path());
        let transfer = Transfer::default();
        let asked = Box::pin(self.ask(url, &transfer));
        let (status, etag, text) = during(&what, &transfer, asked).await?;
        // The content may have been exchanged since the status was read: it says itself which it is.
        if let (Some(cache), Some(key), Some(digest)) = (cache, key, &place.digest)
            && status == StatusCode::OK
            && etag.is_some_and(|etag| etag.trim_start_matches("W/").trim_matches('"') == digest)
        {
            cache.write(&key, &text);
        }
        Ok((status, text))
    }

    async fn ask(
        &self,
        url: Url,
        transfer: &Transfer,
    ) -> anyhow::Result<(StatusCode, Option<String>, String)> {
        let tag = |headers: &HeaderMap| Some(headers.get(ETAG)?.to_str().ok()?.to_owned());
        if let Some(path) = proxy_path(&url).filter(|_| self.instead.is_none()) {
            let request = http::Request::get(path).body(Body::empty())?;
            let response = self.client.send(request).await.context("error performing request")?;
            let (status, etag) = (response.status(), tag(response.headers()));
            let text = catalogs::read(Answer::new(response.into_body()), transfer).await?;
            return Ok((status, etag, text));
        }
        let mut response = self.http.get(url.clone()).send().await;
        let is_untrusted =
            |error: &reqwest::Error| Chain(error).to_string().contains("UnknownIssuer");
        if response.as_ref().is_err_and(is_untrusted)
            && let Some(http) = self.published().await
        {
            response = http.get(url).send().await;
        }
        let response = response.context("error performing request")?;
        let (status, etag) = (response.status(), tag(response.headers()));
        let body = Answer::new(reqwest::Body::from(response));
        let text = catalogs::read(body, transfer).await;
        Ok((status, etag, text.context("error performing request")?))
    }

    /// Returns a client that trusts the CA which the controller publishes, if the caller may read it.
    pub(super) async fn published(&self) -> Option<&reqwest::Client> {
        let read_in = |namespace: &str| {
            let api = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
            async move {
                let data = api.get(name::PUBLISHED_CA).await.ok()?.data?;
                let pem: String = data.into_values().collect();
                reqwest::Certificate::from_pem_bundle(pem.as_bytes()).ok()
            }
        };
        let read = || async move {
            let mut authorities = Vec::new();
            for namespace in &self.namespaces {
                authorities.extend(read_in(namespace).await.unwrap_or_default());
            }
            if authorities.is_empty() { None } else { catalogs::trusting(authorities).ok() }
        };
        self.published.as_ref()?.get_or_init(read).await.as_ref()
    }
}

/// Returns the path at which the API server passes a request on to the Service that a URL names:
/// `<name>.<namespace>.svc`, with or without the domain of the cluster.
fn proxy_path(url: &Url) -> Option<String> {
    let mut labels = url.host_str()?.split('.');
    let (name, namespace) = (labels.next()?, labels.next()?);
    labels.next().filter(|label| *label == "svc")?;
    let (scheme, port, path) = (url.scheme(), url.port_or_known_default()?, url.path());
    let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
    let service = format!("/api/v1/namespaces/{namespace}/services/{scheme}:{name}:{port}");
    Some(format!("{service}/proxy{path}{query}"))
}

/// Asks the server of a catalog, by way of the API server, whether it answers; nothing where its
/// address is not that of a Service, or the caller may not ask.
pub(crate) async fn answers(
    client: &Client,
    catalog: &ClusterCatalog,
) -> Option<Result<(), String>> {
    let urls = catalog.status.as_ref()?.urls.as_ref()?;
    let path = proxy_path(&below(&Url::parse(&urls.base).ok()?, "all"))?;
    let request = http::Request::head(path).body(Body::empty()).ok()?;
    match client.send(request).await {
        Err(error) => Some(Err(failure(&error))),
        Ok(response) if response.status() == StatusCode::FORBIDDEN => None,
        // A server that knows no such request answers all the same.
        Ok(response) if response.status().is_server_error() => {
            Some(Err(format!("status code {}", response.status().as_u16())))
        }
        Ok(_) => Some(Ok(())),
    }
}

/// Returns the heads of packages among blobs.
pub(crate) fn heads<'a>(metas: impl IntoIterator<Item = &'a Meta>) -> anyhow::Result<Vec<Value>> {
    let heads = metas.into_iter().filter(|meta| meta.schema == schema::PACKAGE);
    let heads = heads.map(|meta| serde_json::from_str(&meta.json));
    heads.collect::<Result<_, _>>().context(UNREADABLE)
}

fn http_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
    url.ok_or_else(|| "must begin with http:// or https://".to_owned())
}

fn parse(text: &str) -> anyhow::Result<Vec<Meta>> {
    // Upstream's catalogd writes a document of comments only as `null`.
    let lines = text.lines().filter(|line| !matches!(line.trim(), "" | "null"));
    lines.map(Meta::parse).collect::<Result<_, _>>().context(UNREADABLE)
}

/// Returns the URL of an endpoint of a catalog.
fn below(base: &Url, endpoint: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/api/v1/{endpoint}", base.path().trim_end_matches('/')));
    url
}

fn ok(status: StatusCode, text: String) -> anyhow::Result<String> {
    if status == StatusCode::OK {
        return Ok(text);
    }
    // The response body of the API server says why it cannot reach the Service.
    let answer = serde_json::from_str::<Value>(&text).ok();
    let message = answer.as_ref().and_then(|answer| answer["message"].as_str());
    let detail: String = plain(message.unwrap_or(&text)).chars().take(200).collect();
    let status = status.as_u16();
    anyhow::bail!("error: received unexpected response status code {status}: {detail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    #[test]
    fn services_are_reached_through_the_api_server() {
        type Case = (String, Option<String>);
        for (name, (url, want)) in cases::<Case>("services_are_reached_through_the_api_server") {
            assert_eq!(proxy_path(&url.parse().unwrap()), want, "{name}");
        }
    }

    #[test]
    fn endpoints_are_below_the_base() {
        let base = "https://h/catalogs/red/".parse().unwrap();
        assert_eq!(below(&base, "all").as_str(), "https://h/catalogs/red/api/v1/all");
    }
}
