//! Catalogs named on the command line: directories and files of blobs, catalog images, or the URL
//! of a catalog server.

use std::str::FromStr;
use std::sync::atomic::Ordering;

use axum::body::{Body, HttpBody as _};
use futures::StreamExt as _;
use olm_core::catalog::read::{self as blobs, MAX_CATALOG_BYTES, Meta};
use olm_image::catalog::pull_catalog;
use olm_image::pull::Transfer;

use crate::bundle_source::{DIRECTORY, IMAGE};
use crate::limit::limit;
use crate::output::during;
use crate::prelude::*;
use crate::puller::puller;

/// Path of the whole content, relative to the base URL of a catalog.
const ALL: &str = "/api/v1/all";

/// Name of the file that makes a directory an OCI layout.
const LAYOUT: &str = "oci-layout";

/// Syntax of the value of `--from`.
pub(crate) const CATALOG_SYNTAX: &str = "[NAME=]PATH|IMAGE|URL[,priority=N]";

/// The value of `--from`, in the syntax of [`CATALOG_SYNTAX`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CatalogFlag {
    /// Name of the catalog; by default the last component of its path, reference or URL.
    pub(crate) name: String,
    pub(crate) priority: i32,
    /// Path, image reference or URL.
    pub(crate) place: String,
}

impl FromStr for CatalogFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (text, priority) = match text.rsplit_once(",priority=") {
            Some((text, priority)) => {
                (text, priority.parse().map_err(|error| format!("priority: {error}"))?)
            }
            None => (text, 0),
        };
        // A path may contain `=` too; a name does not contain `/`.
        let named = text.split_once('=').filter(|(name, _)| !name.contains('/'));
        let (name, place) = match named {
            Some((name, place)) => (name.to_owned(), place),
            None => (default_name(text), text),
        };
        if name.is_empty() || place.is_empty() {
            return Err(format!("must be {CATALOG_SYNTAX}"));
        }
        Ok(Self { name, priority, place: place.to_owned() })
    }
}

/// Returns the last component of a path or of the base of a URL.
fn default_name(place: &str) -> String {
    let place = if is_url(place) { base_of(place) } else { place };
    let place = place.strip_prefix(DIRECTORY).unwrap_or(place).trim_end_matches('/');
    let name = Path::new(place).file_name();
    let name = name.map(|name| name.to_string_lossy().into_owned());
    // `.` and `/` have no last component.
    name.unwrap_or_else(|| "catalog".to_owned())
}

fn is_url(place: &str) -> bool {
    place.starts_with("http://") || place.starts_with("https://")
}

fn base_of(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    url.strip_suffix(ALL).unwrap_or(url)
}

/// Reads the files of a catalog named on the command line; what a server has is one. If a file with CA
/// certificates is given, only these are trusted.
pub(crate) async fn named_files(
    place: &str,
    authorities: Option<&Path>,
) -> anyhow::Result<FileList> {
    if !is_url(place) {
        return files(place).await;
    }
    let url = format!("{}{ALL}", base_of(place));
    let response = client(authorities)?.get(&url).send().await;
    let response = response.context("error performing request")?;
    let status = response.status();
    if status != reqwest::StatusCode::OK {
        bail!("error: received unexpected response status code {}", status.as_u16());
    }
    let transfer = Transfer::default();
    let body = Body::new(reqwest::Body::from(response));
    let text = during(&format!("reading {url}"), &transfer, Box::pin(read(body, &transfer))).await;
    let text = text.context("error performing request")?;
    Ok(vec![("all.jsonl".to_owned(), text.into_bytes())])
}

/// Reads all blobs of such a catalog.
pub(crate) async fn named_metas(
    place: &str,
    authorities: Option<&Path>,
) -> anyhow::Result<Vec<Meta>> {
    metas(&named_files(place, authorities).await?, place)
}

/// Reads the body of a response as text, and counts; fails beyond the size of the largest catalog.
pub(crate) async fn read(body: Body, transfer: &Transfer) -> anyhow::Result<String> {
    let most = MAX_CATALOG_BYTES;
    transfer.total.store(body.size_hint().exact().unwrap_or(0), Ordering::Relaxed);
    let mut bytes = Vec::new();
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        // Its own text only repeats that of its cause.
        let chunk = chunk.map_err(|error| anyhow::anyhow!(error.into_inner()))?;
        let arrived = transfer.done.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        if arrived.saturating_add(chunk.len() as u64) > most {
            bail!("the server answers with more than {most} bytes");
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) type FileList = Vec<(String, Vec<u8>)>;

/// Reads the files of a catalog: a file, those below a directory, or those of an image.
pub(crate) async fn files(place: &str) -> anyhow::Result<FileList> {
    if let Some(image) = place.strip_prefix(IMAGE) {
        return image_files(image).await;
    }
    let path = Path::new(place.strip_prefix(DIRECTORY).unwrap_or(place));
    if place.parse::<ImageRef>().is_ok() && !path.exists() {
        return image_files(place).await;
    }
    let mut files = Vec::new();
    collect(path, path, &mut files)?;
    if files.iter().any(|(name, _)| name == LAYOUT) {
        bail!("{place} is an OCI layout, not the files of a catalog");
    }
    Ok(files)
}

/// Reads all blobs of files; `place` is where these come from.
pub(crate) fn metas(files: &FileList, place: &str) -> anyhow::Result<Vec<Meta>> {
    let metas = blobs::read_catalog(borrowed(files));
    metas.map_err(|error| anyhow::anyhow!("{place}: {}", Chain(&error)))
}

/// Returns files as the reader takes them.
pub(crate) fn borrowed(files: &[(String, Vec<u8>)]) -> impl Iterator<Item = (&str, &[u8])> + Clone {
    files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
}

/// Pulls the blobs of a catalog image, with their paths relative to its catalog directory.
pub(crate) async fn image_files(image: &str) -> anyhow::Result<FileList> {
    let image = &image.parse::<ImageRef>().with_context(|| format!("image {image:?}"))?;
    let puller = puller()?;
    let work = Box::pin(async { pull_catalog(&puller, &puller.resolve(image).await?).await });
    let catalog = during(&format!("pulling {image}"), &puller.transfer(), work).await?;
    let below = format!("{}/", catalog.directory);
    let files = catalog.files.to_map()?.into_iter();
    Ok(files
        .map(|(path, bytes)| (path.strip_prefix(&below).unwrap_or(&path).to_owned(), bytes))
        .collect())
}

pub(crate) fn client(authorities: Option<&Path>) -> anyhow::Result<reqwest::Client> {
    let Some(path) = authorities else { return trusting(Vec::new()) };
    let pem = std::fs::read(path).with_context(|| path.display().to_string())?;
    let certificates =
        reqwest::Certificate::from_pem_bundle(&pem).with_context(|| path.display().to_string())?;
    if certificates.is_empty() {
        bail!("no certificates found in `{}`", path.display());
    }
    trusting(certificates)
}

/// Returns an HTTP client that trusts these authorities, or where there are none those of the system.
pub(crate) fn trusting(authorities: Vec<reqwest::Certificate>) -> anyhow::Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder();
    if let Some(limit) = limit() {
        // A large catalog may take longer in total.
        builder = builder.connect_timeout(limit).read_timeout(limit);
    }
    if !authorities.is_empty() {
        builder = builder.tls_certs_only(authorities);
    }
    let builder = olm_image::Proxies::default().on(builder)?;
    builder.build().context("error getting HTTP client")
}

/// Reads a file, or all files below a directory, with their paths relative to the root.
///
/// A link to a directory is not followed: it is opened as a file and fails, as it does upstream.
fn collect(root: &Path, path: &Path, files: &mut FileList) -> anyhow::Result<()> {
    let shown = || path.display().to_string();
    let is_root = root == path;
    let metadata = if is_root { path.metadata() } else { path.symlink_metadata() };
    if metadata.with_context(shown)?.is_dir() {
        for entry in path.read_dir().with_context(shown)? {
            collect(root, &entry.with_context(shown)?.path(), files)?;
        }
        return Ok(());
    }
    let bytes = std::fs::read(path).with_context(shown)?;
    let relative =
        if is_root { path.file_name().map(Path::new) } else { path.strip_prefix(root).ok() };
    files.push((relative.unwrap_or(path).to_string_lossy().into_owned(), bytes));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::fixture::cases;

    #[test]
    fn catalog_flags() {
        type Case = (String, String, i32, String);
        for (case, (text, name, priority, place)) in cases::<Case>("catalog_flags") {
            assert_eq!(text.parse(), Ok(CatalogFlag { name, priority, place }), "{case}");
        }
    }

    // catalogs.md 5.8: nothing is read without a limit.
    #[tokio::test]
    async fn an_answer_may_be_as_large_as_a_catalog() {
        let body = || Body::from_stream(futures::stream::iter([Ok::<_, io::Error>("a"), Ok("b")]));
        assert_eq!(read(body(), &Transfer::default()).await.unwrap(), "ab");
        let transfer = Transfer::default();
        transfer.done.store(MAX_CATALOG_BYTES - 1, Ordering::Relaxed);
        let error = read(body(), &transfer).await.unwrap_err();
        assert_eq!(error.to_string(), "the server answers with more than 2147483648 bytes");
        let broken =
            Body::from_stream(futures::stream::iter([Err::<&str, _>(kube::Error::TlsRequired)]));
        let error = read(broken, &Transfer::default()).await.unwrap_err();
        assert!(error.chain().any(<dyn std::error::Error>::is::<kube::Error>), "{error:?}");
    }

    #[test]
    fn wrong_catalog_flags() {
        for text in ["", "a=", "=a", "a,priority=high"] {
            assert!(text.parse::<CatalogFlag>().is_err(), "{text}");
        }
    }
}
