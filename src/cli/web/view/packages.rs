//! Packages of catalogs: the documents of `search` and `show --no-pull`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use askama::Template;
use olm_core::catalog::{BundleSummary, ChannelSummary, Summary};
use olm_core::error::shell_word;
use serde::Deserialize;

use super::super::markup::Markup;
use super::shell::{FIRST, Shell};
use crate::document::{Package, Unknown};
use crate::graph::segment;

/// The document of `search`, and what was asked.
#[derive(Template, Deserialize)]
#[template(path = "packages.html")]
pub(crate) struct Packages {
    #[serde(skip)]
    pub(crate) shell: Shell,
    #[serde(skip)]
    pub(crate) wanted: Wanted,
    #[serde(rename = "packages")]
    found: Vec<Package>,
    /// The catalogs that were searched.
    catalogs: Vec<String>,
    unknown: Vec<Unknown>,
}

/// Packages of a page of the list.
const PAGE: usize = 60;

/// The filter of packages.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) q: String,
    /// The only catalog and category; empty for all.
    catalog: String,
    category: String,
    pub(crate) installable: bool,
    hide_deprecated: bool,
    /// Which page of the list, from 0 on.
    page: usize,
}

impl Wanted {
    pub(crate) fn of(words: &BTreeMap<String, String>) -> Self {
        let word = |name| words.get(name).cloned().unwrap_or_default();
        Self {
            q: word("q"),
            catalog: word("catalog"),
            category: word("category"),
            installable: word("installable") == "only",
            hide_deprecated: word("deprecated") == "hide",
            page: word("page").parse().map_or(0, |page: usize| page.saturating_sub(1)),
        }
    }

    /// Writes it as the query of an address.
    pub(crate) fn query(&self) -> String {
        self.of_page(self.page)
    }

    /// Does so for another page of the list.
    fn of_page(&self, page: usize) -> String {
        let number = if page == 0 { String::new() } else { (page + 1).to_string() };
        let flag = |set, word| if set { word } else { "" };
        let words = [
            ("q", self.q.as_str()),
            ("catalog", &self.catalog),
            ("category", &self.category),
            ("installable", flag(self.installable, "only")),
            ("deprecated", flag(self.hide_deprecated, "hide")),
            ("page", &number),
        ];
        let words = words.into_iter().filter(|(_, word)| !word.is_empty());
        let words: Vec<_> = words.map(|(name, word)| format!("{name}={}", segment(word))).collect();
        if words.is_empty() {
            return String::new();
        }
        format!("?{}", words.join("&"))
    }

    fn keeps(&self, package: &Package) -> bool {
        let categories = package.categories.as_deref().unwrap_or_default();
        (self.catalog.is_empty() || package.catalog == self.catalog)
            && (self.category.is_empty() || categories.contains(&self.category))
            && !(self.hide_deprecated && package.is_deprecated())
    }
}

impl Packages {
    fn kept(&self) -> impl Iterator<Item = &Package> {
        self.found.iter().filter(|it| self.wanted.keeps(it))
    }

    fn count(&self) -> usize {
        self.kept().count()
    }

    fn pages(&self) -> usize {
        self.count().div_ceil(PAGE).max(1)
    }

    /// Returns the number of the page, from 1 on; a page that does not exist is the last one.
    fn page(&self) -> usize {
        (self.wanted.page + 1).min(self.pages())
    }

    fn rows(&self) -> Vec<&Package> {
        self.kept().skip((self.page() - 1) * PAGE).take(PAGE).collect()
    }

    /// Returns the pages before and after this one: word, and the end of an address.
    fn turns(&self) -> Vec<(&'static str, String)> {
        let (page, pages) = (self.page(), self.pages());
        let before = (page > 1).then(|| ("‹ Previous", self.wanted.of_page(page - 2)));
        let after = (page < pages).then(|| ("Next ›", self.wanted.of_page(page)));
        before.into_iter().chain(after).collect()
    }

    /// Returns whether to show the catalog of a package.
    fn has_several_catalogs(&self) -> bool {
        self.catalogs.len() > 1
    }

    /// Returns the selectable fields: label, name, choice, choices.
    fn choices(&self) -> [(&str, &str, &str, BTreeSet<&str>); 2] {
        let Wanted { catalog, category, .. } = &self.wanted;
        let catalogs = self.found.iter().map(|it| &it.catalog);
        let categories = self.found.iter().flat_map(|it| it.categories.iter().flatten());
        let mut catalogs: BTreeSet<&str> = catalogs.chain([catalog]).map(String::as_str).collect();
        let mut categories: BTreeSet<&str> =
            categories.chain([category]).map(String::as_str).collect();
        catalogs.remove("");
        categories.remove("");
        [("Catalog", "catalog", catalog, catalogs), ("Category", "category", category, categories)]
    }
}

impl Package {
    fn is_deprecated(&self) -> bool {
        self.deprecated.as_ref().is_some_and(|all| !all.is_empty())
    }

    fn title(&self) -> &str {
        self.display_name.as_ref().unwrap_or(&self.name)
    }
}

/// Returns the replacement for an icon.
fn letter(title: &str) -> char {
    let first = title.chars().find(|it| it.is_alphanumeric());
    first.map_or('·', |it| it.to_uppercase().next().unwrap_or(it))
}

/// A package of a catalog: the documents of `show --no-pull` and `graph`.
#[derive(Template, Deserialize)]
#[template(path = "package.html")]
pub(crate) struct PackagePage {
    #[serde(skip)]
    pub(crate) shell: Shell,
    package: Offered,
    #[serde(default)]
    icon: Option<String>,
    /// The catalog to name when installing, where others have a package of this name.
    selector: Option<String>,
    #[serde(default)]
    installed_as: Vec<String>,
    /// The bundle that `install` chooses, from the channel if one is named.
    chosen: Option<String>,
    /// Why there is none.
    refused: Option<String>,
    channel: Option<String>,
    /// The extension that `install` makes, as YAML.
    manifest: Option<String>,
    picture: Option<String>,
    rows: Option<String>,
    #[serde(default)]
    unknown: Vec<Unknown>,
}

/// A package of a catalog.
#[derive(Deserialize)]
struct Offered {
    catalog: String,
    #[serde(flatten)]
    summary: Summary,
}

impl Deref for Offered {
    type Target = Summary;

    fn deref(&self) -> &Summary {
        &self.summary
    }
}

impl Offered {
    fn title(&self) -> &str {
        self.display_name.as_ref().unwrap_or(&self.package)
    }

    /// Returns the bundle that the default channel leads to, else the highest.
    fn newest(&self) -> Option<&BundleSummary> {
        let head = self.channels.iter().find(|it| it.default).and_then(|it| it.head.as_deref());
        self.bundles.iter().find(|it| Some(it.version()) == head).or_else(|| self.bundles.first())
    }

    /// Returns the versions that are shown at once, and the others.
    fn versions(&self) -> (&[BundleSummary], &[BundleSummary]) {
        self.bundles.split_at(self.bundles.len().min(FIRST))
    }
}

impl PackagePage {
    fn picture(&self) -> Option<Markup> {
        self.picture.as_deref().map(Markup::picture)
    }

    /// Returns the bundle that this page describes: the one that `install` chooses, as far as that is
    /// known.
    fn described(&self) -> Option<&BundleSummary> {
        let mut bundles = self.package.bundles.iter();
        bundles.find(|it| Some(&it.name) == self.chosen.as_ref()).or_else(|| self.package.newest())
    }

    /// Returns the default channel where it leads to another version than `install` chooses.
    fn other_default(&self) -> Option<&ChannelSummary> {
        let bundle =
            self.described().filter(|_| self.chosen.is_some() && self.channel.is_none())?;
        let mut channels = self.package.channels.iter();
        channels.find(|it| it.default && it.head.as_deref() != Some(bundle.version()))
    }

    /// Returns the command that installs the package; with a version exactly that one.
    fn command(&self, version: Option<&str>) -> String {
        let package = &self.package.package;
        let target = match version {
            Some(version) => format!("{package}@{version}"),
            None => package.clone(),
        };
        let namespace = self.described().and_then(|it| it.suggested_namespace.as_deref());
        let namespace = namespace.map_or_else(|| "NAMESPACE".to_owned(), shell_word);
        let mut command = format!("kubectl olm install {} -n {namespace}", shell_word(&target));
        for (flag, value) in [("--channel", &self.channel), ("--catalog", &self.selector)] {
            if let Some(value) = value {
                command = format!("{command} {flag} {}", shell_word(value));
            }
        }
        command
    }

    fn install(&self) -> String {
        self.command(None)
    }

    fn description(&self) -> Option<Markup> {
        self.package.long_description.as_deref().map(Markup::markdown)
    }

    /// Turns to one of the bundles.
    pub(crate) fn bundle(self, name: &str) -> Option<BundlePage> {
        let at = self.package.bundles.iter().position(|it| it.name == name)?;
        let version = self.package.bundles[at].version.as_deref();
        let install = version.filter(|_| self.installed_as.is_empty());
        let install = install.map(|version| self.command(Some(version)));
        let Self { shell, package, .. } = self;
        Some(BundlePage { shell, package, at, install })
    }
}

#[derive(Template)]
#[template(path = "bundle.html")]
pub(crate) struct BundlePage {
    pub(crate) shell: Shell,
    package: Offered,
    at: usize,
    install: Option<String>,
}

impl BundlePage {
    fn bundle(&self) -> &BundleSummary {
        &self.package.bundles[self.at]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn without_packages_a_catalog_may_be_added() {
        let none = json!({"packages": [], "catalogs": [], "unknown": []});
        let none: Packages = serde_json::from_value(none).unwrap();
        let none = none.render().unwrap();
        assert!(none.contains("kubectl olm catalog add "), "{none}");
    }

    fn package(more: &Value) -> PackagePage {
        let bundle = |version: &str, channel: &str| {
            json!({"name": format!("hive.v{version}"), "version": version, "image": "i",
                "channels": [channel], "installModes": [], "needs": [], "relatedImages": [],
                "kinds": [{"kind": "hive.test/v1, Kind=Swarm", "displayName": "A swarm",
                    "description": "Many bees."}],
                "suggestedNamespace": "hive-system"})
        };
        let channel = |name: &str, default: bool, head: &str| json!({"name": name, "default": default, "head": head, "entries": 1});
        let mut document = json!({"package": {"catalog": "c", "package": "hive", "links": [],
            "categories": [], "keywords": [], "defaultChannel": "alpha", "channels": [channel("alpha", true, "1.2.0"), channel("beta", false, "2.5.0")],
            "bundles": [bundle("2.5.0", "beta"), bundle("1.2.0", "alpha")]}});
        for (key, value) in more.as_object().unwrap() {
            document[key] = value.clone();
        }
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn a_package_is_described_by_the_version_that_would_be_installed() {
        let page = package(&json!({"chosen": "hive.v2.5.0"})).render().unwrap();
        for want in [
            "<span class=\"number\">2.5.0</span>",
            "The default channel alpha leads to 1.2.0",
            "<pre class=\"command\">kubectl olm install hive -n hive-system</pre>",
            "<summary>A swarm</summary>",
            "<p>Many bees.</p>",
        ] {
            assert!(page.contains(want), "{want}: {page}");
        }
        let page = package(&json!({"chosen": "hive.v1.2.0", "channel": "alpha"})).render().unwrap();
        assert!(page.contains("kubectl olm install hive -n hive-system --channel alpha</pre>"));
        assert!(!page.contains("The default channel"), "{page}");
        let page = package(&json!({"refused": "none fits"})).render().unwrap();
        assert!(page.contains("none fits"), "{page}");
        let page = package(&json!({})).bundle("hive.v1.2.0").unwrap().render().unwrap();
        assert!(page.contains("kubectl olm install hive@1.2.0 -n hive-system</pre>"), "{page}");
    }
}
