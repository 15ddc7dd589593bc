//! Cases of resolution.md section 1, with small hand-written catalogs.

mod classic;
mod constraints;
mod filters;
pub(crate) mod laws;
mod order;
mod policy;
mod update;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::catalog::Content;
use crate::error::Chain;

const CASES: &str = include_str!("../../testdata/resolve/cases.yaml");

/// A catalog of package `kettle`; bundles are called `kettle.v<version>`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fixture {
    pub(crate) blobs: Vec<Value>,
    pub(crate) deprecated: Vec<Value>,
}

impl Fixture {
    pub(crate) fn bundles(versions: &[&str]) -> Self {
        versions
            .iter()
            .fold(Self::default(), |it, version| it.bundle(&format!("kettle.v{version}"), version))
    }

    /// Versions that each replace the one before, in channel `stable`.
    pub(crate) fn chain(versions: &[&str]) -> Self {
        let name = |version: &&str| format!("kettle.v{version}");
        let replaces = [String::new()].into_iter().chain(versions.iter().map(name));
        let entry = |(name, replaces)| json!({"name": name, "replaces": replaces});
        let entries = versions.iter().map(name).zip(replaces).map(entry).collect();
        Self::bundles(versions).channel("stable", entries)
    }

    pub(crate) fn bundle(mut self, name: &str, version: &str) -> Self {
        self.blobs.push(json!({
            "schema": "olm.bundle", "package": "kettle", "name": name, "image": name,
            "properties": [{"type": "olm.package", "value": {"version": version}}],
        }));
        self
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers write entries in place")]
    pub(crate) fn channel(mut self, name: &str, entries: Value) -> Self {
        let (schema, package) = ("olm.channel", "kettle");
        self.blobs.push(json!({
            "schema": schema, "package": package, "name": name, "entries": entries,
        }));
        self
    }

    pub(crate) fn deprecate(mut self, version: &str) -> Self {
        let name = format!("kettle.v{version}");
        let reference = json!({"schema": "olm.bundle", "name": name});
        self.deprecated.push(json!({"reference": reference, "message": "old"}));
        self
    }

    pub(crate) fn content(&self) -> Content {
        let mut blobs = self.blobs.clone();
        if !self.deprecated.is_empty() {
            blobs.push(json!({
                "schema": "olm.deprecations", "package": "kettle", "entries": self.deprecated,
            }));
        }
        crate::fixture::content(&blobs)
    }
}

pub(crate) fn catalog<'a>(name: &'a str, priority: i32, content: &'a Content) -> Catalog<'a> {
    Catalog {
        name,
        labels: BTreeMap::from([("tier".to_owned(), name.to_owned())]),
        priority,
        enabled: true,
        problem: None,
        content: Some(content),
    }
}

/// Returns catalog `a` with a fixture; it is not freed.
pub(crate) fn one(fixture: &Fixture) -> &'static [Catalog<'static>] {
    let content = Box::leak(Box::new(fixture.content()));
    Box::leak(Box::new([catalog("a", 0, content)]))
}

pub(crate) fn down(name: &str, priority: i32) -> Catalog<'_> {
    Catalog {
        name,
        labels: BTreeMap::new(),
        priority,
        enabled: true,
        problem: Some(CatalogProblem::NotServing),
        content: None,
    }
}

pub(crate) fn request() -> Request {
    Request {
        filter: CatalogFilter { package_name: "kettle".to_owned(), ..CatalogFilter::default() },
        ..Request::default()
    }
}

pub(crate) fn installed(version: &str) -> Request {
    Request {
        installed: Some(Installed {
            name: format!("kettle.v{version}"),
            version: version.to_owned(),
            release: None,
        }),
        ..request()
    }
}

impl Request {
    pub(crate) fn version(mut self, range: &str) -> Self {
        self.filter.version = Some(range.to_owned());
        self
    }

    pub(crate) fn channels(mut self, channels: &[&str]) -> Self {
        self.filter.channels = channels.iter().map(|it| (*it).to_owned()).collect();
        self
    }

    pub(crate) fn self_certified(mut self) -> Self {
        self.filter.upgrade_constraint_policy = Some(UpgradeConstraintPolicy::SelfCertified);
        self
    }

    pub(crate) fn selector(mut self, selector: Value) -> Self {
        self.filter.selector = Some(serde_json::from_value(selector).unwrap());
        self
    }
}

pub(crate) const ANY: Options = Options {
    release_support: false,
    unavailability: Unavailability::Provable,
    updates: UpdatePolicy::Any,
    closed_until: None,
    dependencies: Dependencies::Refuse,
    pins_releases: true,
};

/// Resolves without data about the cluster.
fn resolve<'a>(
    request: &Request,
    catalogs: &'a [Catalog<'a>],
    options: &Options,
) -> Resolution<'a> {
    super::resolve(request, catalogs, &Environment::default(), options)
}

/// Returns the chosen bundle, or the error text after `!`.
pub(crate) fn answer(resolution: &Resolution<'_>) -> String {
    match &resolution.result {
        Ok(selected) => selected.bundle.name.clone(),
        Err(error) => format!("!{}", Chain(error)),
    }
}

pub(crate) fn ask(request: &Request, fixture: &Fixture) -> String {
    answer(&resolve(request, one(fixture), &ANY))
}

pub(crate) fn ask_catalogs(request: &Request, catalogs: &[Catalog<'_>]) -> String {
    answer(&resolve(request, catalogs, &ANY))
}
