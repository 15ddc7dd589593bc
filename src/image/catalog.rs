//! Catalog images: a directory of file-based catalog documents, named by a label.
//!
//! Source: catalogs.md 5.7, A11.

/// Label whose value is the directory of the catalog's content.
pub use olm_api::keys::name::CATALOG_CONFIGS_LABEL as CONFIGS_LABEL;

use crate::files::Files;
use crate::pull::{PullError, Puller, Resolved, within};

/// Label of older catalogs, which hold an `SQLite` database.
pub const DATABASE_LABEL: &str = "operators.operatorframework.io.index.database.v1";

#[derive(Debug)]
pub struct CatalogImage {
    /// Directory that the label names, without slashes at its ends; empty for the whole image.
    pub directory: String,
    /// The files below it, by their path from the root of the image (`configs/pkg/catalog.yaml`).
    pub files: Files,
    /// Whether no layer has the directory, so that the catalog is empty, which should be reported.
    pub directory_missing: bool,
}

/// Pulls the content of a catalog, within the limits for catalogs.
pub async fn pull_catalog(puller: &Puller, resolved: &Resolved) -> Result<CatalogImage, PullError> {
    let limits = &puller.config().catalog;
    let image = within(limits.pull, puller.image(resolved)).await?;
    let labels = image.labels();
    let Some(value) = labels.get(CONFIGS_LABEL) else {
        return Err(PullError::MissingLabel {
            by_digest: resolved.requested().digest().is_some(),
            sqlite: labels.contains_key(DATABASE_LABEL),
        });
    };
    let directory = clean(value).ok_or_else(|| PullError::LabelDirectory(value.clone()))?;
    let unpacked = image.unpack(std::slice::from_ref(&directory), limits).await?;
    Ok(CatalogImage {
        directory_missing: !unpacked.missing.is_empty(),
        directory,
        files: unpacked.files,
    })
}

/// Cleans the label's value into a path from the root of the image; `None` if it is outside.
fn clean(value: &str) -> Option<String> {
    let mut components: Vec<&str> = Vec::new();
    for component in value.split('/') {
        match component {
            "" | "." => {}
            ".." => drop(components.pop()?),
            other if other.contains('\0') => return None,
            other => components.push(other),
        }
    }
    Some(components.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    #[test]
    fn label_is_cleaned() {
        for (value, want) in cases::<(String, String)>("label_is_cleaned") {
            assert_eq!(clean(&value).unwrap_or("outside".to_owned()), want, "{value}");
        }
    }
}
