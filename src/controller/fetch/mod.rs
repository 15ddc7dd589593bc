//! What the extension side knows of catalogs.

use std::sync::Arc;

use kube::ResourceExt as _;
use olm_api::{AvailabilityMode, ClusterCatalog};
use olm_core::catalog::{Content, PackageIndex};
use olm_core::resolve::{Catalog, CatalogProblem};
use olm_core::status::is_true;

use crate::catalog::store::Store;

/// Where catalog contents come from.
pub struct Catalogs {
    store: Arc<Store>,
}

/// One catalog, as far as it is known.
pub struct Known {
    catalog: ClusterCatalog,
    package: String,
    problem: Option<CatalogProblem>,
    content: Option<Content>,
}

impl Known {
    /// Returns the catalog's name.
    pub fn name(&self) -> &str {
        self.catalog.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns what the catalog has of the package asked for.
    pub fn package(&self) -> Option<&PackageIndex> {
        self.content.as_ref()?.package(&self.package)?.ok()
    }

    /// Returns the catalog as resolution sees it.
    pub fn as_catalog(&self) -> Catalog<'_> {
        Catalog {
            name: self.name(),
            labels: self.catalog.labels().clone(),
            priority: self.catalog.spec.priority,
            enabled: self.catalog.spec.availability_mode != Some(AvailabilityMode::Unavailable),
            problem: self.problem.clone(),
            content: self.content.as_ref(),
        }
    }
}

impl Catalogs {
    /// Reads the store of this process.
    pub fn new(store: Arc<Store>) -> Self {
        Self { store }
    }

    /// Returns what is known of `catalogs` about one package.
    pub async fn known(&self, catalogs: &[ClusterCatalog], package: &str) -> Vec<Known> {
        catalogs
            .iter()
            .map(|catalog| {
                let serving = catalog
                    .status
                    .as_ref()
                    .is_some_and(|status| is_true(&status.conditions, "Serving"));
                let content = self
                    .store
                    .content(&catalog.name_any())
                    .and_then(|content| content.package_lines(package).ok())
                    .and_then(|lines| Content::from_lines(lines.iter().map(String::as_str)).ok());
                Known {
                    problem: (!serving).then_some(CatalogProblem::NotServing),
                    content,
                    package: package.to_owned(),
                    catalog: catalog.clone(),
                }
            })
            .collect()
    }
}
