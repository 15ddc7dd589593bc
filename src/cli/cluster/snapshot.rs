//! What the answer for one extension depends on, as read at a moment: it asks nothing more.

use olm_api::conditions::Reason;
use olm_core::explain::{Report, explain};
use olm_core::extension::{KnownCatalog, Question};
use olm_core::resolve::{Catalog, Environment, Options, Request, Resolution};

/// An extension with everything that its resolution depends on.
#[derive(Debug)]
pub(crate) struct ExtensionSnapshot {
    /// Its spec, its annotations and the installed bundle.
    pub(crate) question: Question,
    /// Every catalog of the cluster, by name, with what it has of the package.
    pub(crate) catalogs: Vec<KnownCatalog>,
    /// The version, served kinds and installed bundles of the cluster.
    pub(crate) environment: Environment,
    /// The options with which the controller resolves it.
    pub(crate) options: Options,
    /// Whether the catalogs are named on the command line, and not those of a cluster.
    pub(crate) is_named: bool,
}

impl ExtensionSnapshot {
    /// Returns what is asked of catalogs that are named on the command line.
    pub(crate) fn of_named(
        question: Question,
        catalogs: Vec<KnownCatalog>,
        options: Options,
    ) -> Self {
        let (environment, options) = (Environment::default(), question.options(options));
        Self { question, catalogs, environment, options, is_named: true }
    }

    /// Returns the catalogs in the form that resolution takes.
    pub(crate) fn catalogs(&self) -> Vec<Catalog<'_>> {
        self.catalogs.iter().map(KnownCatalog::as_catalog).collect()
    }

    /// Returns whether the answer depends on the installed bundles, and if so, on the kinds that
    /// these define, whatever they ask for themselves.
    pub(super) fn counts_installed(&self) -> Option<bool> {
        let catalogs = self.catalogs();
        let needs = self.question.needs(&catalogs, &self.options);
        let replaces = || self.question.replaces(&self.resolve(&catalogs));
        let counts = needs.cluster && (needs.installed || replaces());
        counts.then(|| self.question.asks_for_kinds(&catalogs))
    }

    /// Returns the environment in which it is resolved, from catalogs that it has.
    pub(crate) fn environment(&self, catalogs: &[Catalog<'_>]) -> Environment {
        self.question.environment(catalogs, &self.options, &self.environment)
    }

    /// Resolves as the controller does, from catalogs that it has.
    pub(crate) fn resolve<'a>(&self, catalogs: &'a [Catalog<'a>]) -> Resolution<'a> {
        self.question.resolve(catalogs, &self.environment(catalogs), &self.options)
    }

    /// Returns the request that decides, from catalogs that it has, and the environment of that.
    pub(crate) fn asked(&self, catalogs: &[Catalog<'_>]) -> (Request, Environment) {
        let environment = self.environment(catalogs);
        (self.question.deciding_request(catalogs, &environment, &self.options), environment)
    }

    /// Explains the answer to a request, from catalogs that it has.
    pub(crate) fn explained<'a>(
        &'a self,
        catalogs: &'a [Catalog<'a>],
        (request, environment): &'a (Request, Environment),
        version: Option<&'a str>,
    ) -> Report<'a> {
        let mut report = explain(request, catalogs, environment, &self.options, version);
        if self.is_named {
            report.of_command_line();
        }
        report
    }

    /// Says what stands in the way of an answer, if its error does not.
    pub(crate) fn obstacle(&self) -> Option<String> {
        let catalogs = self.catalogs();
        let asked = self.asked(&catalogs);
        let report = self.explained(&catalogs, &asked, None);
        // That no catalog has the package is what the error says.
        let headline = report.headline().filter(|it| it.code != Reason::PackageNotInCatalog);
        headline.map(|headline| headline.text)
    }
}
