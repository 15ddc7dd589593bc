//! A ClusterCatalog with what is known of its content, as resolution takes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use olm_api::conditions::types;
use olm_api::keys::label;
use olm_api::{AvailabilityMode, ClusterCatalog};

use crate::catalog::{Content, PackageIndex};
use crate::resolve::{Catalog, CatalogProblem};
use crate::selector::Selector;
use crate::status::is_true;

/// A catalog, as far as it is known, with its content for one package.
#[derive(Debug, Clone)]
pub struct KnownCatalog {
    name: String,
    labels: BTreeMap<String, String>,
    priority: i32,
    enabled: bool,
    problem: Option<CatalogProblem>,
    content: Option<Arc<Content>>,
}

impl KnownCatalog {
    /// Returns a catalog of the cluster, with what its status says is wrong and without content; nothing
    /// for one that is being deleted.
    pub fn of(catalog: &ClusterCatalog) -> Option<Self> {
        if catalog.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let name = catalog.metadata.name.clone().unwrap_or_default();
        let mut labels = catalog.metadata.labels.clone().unwrap_or_default();
        labels.insert(label::METADATA_NAME.to_owned(), name.clone());
        let enabled = catalog.spec.availability() == AvailabilityMode::Available;
        let problem = if enabled { state_problem(catalog) } else { None };
        let priority = catalog.spec.priority;
        Some(Self { name, labels, priority, enabled, problem, content: None })
    }

    /// Returns a catalog that no cluster has, with its content or why there is none.
    pub fn named(name: &str, priority: i32, content: Result<Arc<Content>, String>) -> Self {
        let labels = [(label::METADATA_NAME.to_owned(), name.to_owned())].into();
        let (name, problem) = (name.to_owned(), None);
        let found = Self { name, labels, priority, enabled: true, problem, content: None };
        found.with(content.map_err(CatalogProblem::FetchFailed))
    }

    /// Returns it with content, or with what is wrong with that. What its status says goes first, unless
    /// there is content that cannot be read.
    #[must_use]
    pub fn with(mut self, content: Result<Arc<Content>, CatalogProblem>) -> Self {
        match content {
            Ok(content) => self.content = Some(content),
            Err(problem) => {
                let unreadable = matches!(problem, CatalogProblem::Unreadable { .. });
                let known = self.problem.take().filter(|_| !unreadable);
                self.problem = known.or(Some(problem));
            }
        }
        self
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says whether it is to be used.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Says whether it is to be used for who has this selector.
    pub fn is_selected(&self, selector: &Selector) -> bool {
        self.enabled && selector.matches(&self.labels)
    }

    /// Returns what is wrong with it; a stale copy counts as wrong.
    pub fn problem(&self) -> Option<&CatalogProblem> {
        self.problem.as_ref()
    }

    /// Returns a package, if the catalog has it and it can be read.
    pub fn package(&self, name: &str) -> Option<&PackageIndex> {
        self.content.as_ref()?.package(name)?.ok()
    }

    /// Returns it in the form that resolution takes.
    pub fn as_catalog(&self) -> Catalog<'_> {
        Catalog {
            name: &self.name,
            labels: self.labels.clone(),
            priority: self.priority,
            enabled: self.enabled,
            problem: self.problem.clone(),
            content: self.content.as_deref(),
        }
    }
}

/// Returns the problem of a catalog according to its status.
fn state_problem(catalog: &ClusterCatalog) -> Option<CatalogProblem> {
    let status = catalog.status.as_ref();
    let serving = status.is_some_and(|status| is_true(&status.conditions, types::SERVING));
    match catalog.resolved_reference() {
        _ if !serving => Some(CatalogProblem::NotServing),
        None => Some(CatalogProblem::NoResolvedSource),
        Some("") => Some(CatalogProblem::NoImage),
        Some(_) => None,
    }
}
