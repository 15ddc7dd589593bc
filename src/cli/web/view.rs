//! One view a page: the part of a document that a page shows, read from the document itself.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::markup::{Markup, host};
use crate::graph::segment;

/// What every page has.
#[derive(Debug, Clone, Default)]
pub(super) struct Shell {
    /// What the addresses of all pages begin with.
    pub(super) base: String,
    /// Whose answers these are.
    pub(super) of: String,
    /// When they were read.
    pub(super) read: String,
    /// Whether there is no cluster.
    pub(super) offline: bool,
    /// Which part of the site it is.
    pub(super) part: &'static str,
    /// What packages are listed by, as the end of an address.
    pub(super) query: String,
    /// Whether the page is read again every few seconds.
    pub(super) watch: bool,
}

/// What could not be read.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Unknown {
    pub(super) what: String,
    pub(super) why: String,
}

/// Something that went wrong, or is not there.
#[derive(Template)]
#[template(path = "error.html")]
pub(super) struct Failure {
    pub(super) shell: Shell,
    pub(super) heading: &'static str,
    pub(super) text: String,
}

/// An answer that is under way.
#[derive(Template)]
#[template(path = "wait.html")]
pub(super) struct Wait {
    pub(super) shell: Shell,
    pub(super) what: String,
}

/// The document of `status`.
#[derive(Template, Deserialize)]
#[template(path = "installed.html")]
pub(super) struct Installed {
    #[serde(skip)]
    pub(super) shell: Shell,
    extensions: Vec<Extension>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Extension {
    name: String,
    package: Option<String>,
    namespace: Option<String>,
    service_account: Option<String>,
    installed: Option<InstalledBundle>,
    ready: Ready,
    update: Option<Update>,
    deprecated: Option<String>,
    held_by: Vec<String>,
    #[serde(rename = "do")]
    todo: Vec<String>,
    revisions: Option<Vec<Revision>>,
}

#[derive(Deserialize)]
struct InstalledBundle {
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct Ready {
    status: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    since: Option<String>,
}

impl Ready {
    fn is_true(&self) -> bool {
        self.status.as_deref() == Some("True")
    }

    /// In one word why it is not ready.
    fn word(&self) -> &str {
        self.reason.as_deref().unwrap_or("Unknown")
    }
}

#[derive(Deserialize)]
struct Update {
    version: Option<String>,
    newest: String,
    catalog: String,
    reason: String,
    message: String,
}

impl Update {
    fn version(&self) -> &str {
        self.version.as_ref().unwrap_or(&self.newest)
    }
}

#[derive(Deserialize)]
struct Revision {
    name: String,
}

/// An extension: the documents of `status NAME` and `why NAME`.
#[derive(Template, Deserialize)]
#[template(path = "extension.html")]
pub(super) struct ExtensionPage {
    #[serde(skip)]
    pub(super) shell: Shell,
    status: Extension,
    why: Option<Why>,
    #[serde(default)]
    unknown: Vec<Unknown>,
}

/// The document of `why`.
#[derive(Deserialize)]
struct Why {
    #[serde(default)]
    assumed: Vec<String>,
    result: String,
    message: Option<String>,
    #[serde(default)]
    holds: Vec<Hint>,
    selected: Option<Selected>,
    bundles: Vec<Candidate>,
    hints: Vec<Hint>,
}

#[derive(Deserialize)]
struct Selected {
    catalog: String,
    bundle: String,
    version: String,
}

#[derive(Deserialize)]
struct Candidate {
    catalog: String,
    name: String,
    version: Option<String>,
    channels: Vec<String>,
    verdict: String,
    reasons: Vec<Hint>,
}

impl Candidate {
    fn version(&self) -> &str {
        self.version.as_ref().unwrap_or(&self.name)
    }
}

#[derive(Deserialize)]
struct Hint {
    text: String,
}

/// Another view of an extension, or what is not known of it.
#[derive(Template, Deserialize)]
#[template(path = "part.html")]
pub(super) struct PartPage {
    #[serde(skip)]
    pub(super) shell: Shell,
    #[serde(skip)]
    pub(super) part: &'static str,
    name: String,
    plan: Option<PlanFile>,
    tree: Option<Tree>,
    history: Option<History>,
    #[serde(default)]
    unknown: Vec<Unknown>,
}

/// The document of `plan`, and the same in words.
#[derive(Template, Deserialize)]
#[template(path = "plan.html")]
pub(super) struct PlanFile {
    plan: Plan,
    headline: String,
    rows: Vec<(String, Vec<String>)>,
    /// The command that releases it.
    release: Option<String>,
}

impl PlanFile {
    pub(super) fn title(&self) -> String {
        format!("{}: plan", self.plan.extension)
    }
}

#[derive(Deserialize)]
struct Plan {
    extension: String,
    objects: Vec<Change>,
    #[serde(default)]
    notes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Change {
    action: String,
    phase: Option<String>,
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    #[serde(default)]
    fields: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    path: String,
    from: Value,
    to: Value,
}

impl Field {
    /// Returns what goes and what comes.
    fn values(&self) -> Vec<(&'static str, String)> {
        let both = [("-", &self.from), ("+", &self.to)].into_iter();
        let there = both.filter(|(_, value)| !value.is_null());
        there.map(|(sign, value)| (sign, value.to_string())).collect()
    }
}

/// What `status -o tree` shows.
#[derive(Deserialize)]
struct Tree {
    revisions: Vec<TreeRevision>,
    unknown: Vec<Unknown>,
}

#[derive(Deserialize)]
struct TreeRevision {
    name: String,
    version: String,
    objects: Vec<Leaf>,
}

#[derive(Deserialize)]
struct Leaf {
    phase: String,
    what: String,
    health: String,
    drift: String,
}

/// The document of `history`.
#[derive(Deserialize)]
struct History {
    revisions: Vec<Past>,
}

#[derive(Deserialize)]
struct Past {
    revision: i64,
    version: String,
    state: String,
    since: String,
    digest: Option<String>,
    catalog: Option<String>,
    by: Option<String>,
    note: Option<String>,
}

/// The document of `search`, and what was asked.
#[derive(Template, Deserialize)]
#[template(path = "packages.html")]
pub(super) struct Packages {
    #[serde(skip)]
    pub(super) shell: Shell,
    #[serde(skip)]
    pub(super) wanted: Wanted,
    #[serde(rename = "packages")]
    found: Vec<Package>,
    unknown: Vec<Unknown>,
}

/// What packages are listed by.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) q: String,
    /// The only catalog and category; empty for all.
    catalog: String,
    category: String,
    pub(super) installable: bool,
    hide_deprecated: bool,
}

impl Wanted {
    /// Reads it from the query of an address.
    pub(super) fn of(words: &BTreeMap<String, String>) -> Self {
        let word = |name| words.get(name).cloned().unwrap_or_default();
        Self {
            q: word("q"),
            catalog: word("catalog"),
            category: word("category"),
            installable: word("installable") == "only",
            hide_deprecated: word("deprecated") == "hide",
        }
    }

    /// Writes it as the query of an address.
    pub(super) fn query(&self) -> String {
        let flag = |set, word| if set { word } else { "" };
        let words = [
            ("q", self.q.as_str()),
            ("catalog", &self.catalog),
            ("category", &self.category),
            ("installable", flag(self.installable, "only")),
            ("deprecated", flag(self.hide_deprecated, "hide")),
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Package {
    reasons: Vec<String>,
    categories: Option<Vec<String>>,
    deprecated: Option<Vec<IgnoredAny>>,
    name: String,
    catalog: String,
    version: Option<String>,
    display_name: Option<String>,
    provider: Option<String>,
    description: String,
    icon: Option<String>,
    installed_as: Vec<String>,
}

impl Packages {
    fn rows(&self) -> Vec<&Package> {
        let found = self.found.iter();
        found.filter(|it| self.wanted.keeps(it)).collect()
    }

    /// Returns what may be chosen: label, name, choice, choices.
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

    /// Returns what stands in place of an icon.
    fn letter(&self) -> char {
        letter(self.title())
    }
}

fn letter(title: &str) -> char {
    let first = title.chars().find(|it| it.is_alphanumeric());
    first.map_or('·', |it| it.to_uppercase().next().unwrap_or(it))
}

/// A package of a catalog: the documents of `show --no-pull` and `graph`.
#[derive(Template, Deserialize)]
#[template(path = "package.html")]
pub(super) struct PackagePage {
    #[serde(skip)]
    pub(super) shell: Shell,
    package: Summary,
    #[serde(default)]
    icon: Option<String>,
    /// The catalog to name when installing, where others have a package of this name.
    selector: Option<String>,
    #[serde(default)]
    installed_as: Vec<String>,
    picture: Option<String>,
    rows: Option<String>,
    #[serde(default)]
    unknown: Vec<Unknown>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    catalog: String,
    package: String,
    display_name: Option<String>,
    description: Option<String>,
    long_description: Option<String>,
    provider: Option<String>,
    links: Vec<Link>,
    categories: Vec<String>,
    deprecated: Option<String>,
    channels: Vec<Channel>,
    bundles: Vec<Bundle>,
}

#[derive(Deserialize)]
struct Link {
    name: String,
    url: String,
}

impl Link {
    /// Returns where it leads, if it may be followed.
    fn host(&self) -> Option<&str> {
        host(&self.url)
    }
}

#[derive(Deserialize)]
struct Channel {
    name: String,
    default: bool,
    head: Option<String>,
    entries: usize,
    deprecated: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    name: String,
    version: Option<String>,
    image: String,
    channels: Vec<String>,
    deprecated: Option<String>,
    min_kube_version: Option<String>,
    max_open_shift_version: Option<String>,
    install_modes: Vec<String>,
    needs: Vec<String>,
    kinds: Vec<String>,
    related_images: Vec<String>,
}

impl Bundle {
    fn version(&self) -> &str {
        self.version.as_ref().unwrap_or(&self.name)
    }
}

impl Summary {
    fn title(&self) -> &str {
        self.display_name.as_ref().unwrap_or(&self.package)
    }

    fn letter(&self) -> char {
        letter(self.title())
    }

    /// Returns the bundle that the default channel leads to, else the highest.
    fn newest(&self) -> Option<&Bundle> {
        let head = self.channels.iter().find(|it| it.default)?.head.as_deref();
        let named = self.bundles.iter().find(|it| Some(it.version()) == head);
        named.or_else(|| self.bundles.first())
    }
}

impl PackagePage {
    fn picture(&self) -> Option<Markup> {
        self.picture.as_deref().map(Markup::picture)
    }

    fn description(&self) -> Option<Markup> {
        let text = self.package.long_description.as_deref();
        text.map(Markup::markdown)
    }

    /// Turns to one of the bundles.
    pub(super) fn bundle(self, name: &str) -> Option<BundlePage> {
        let Self { shell, package, .. } = self;
        let at = package.bundles.iter().position(|it| it.name == name)?;
        Some(BundlePage { shell, package, at })
    }
}

/// One bundle of a package.
#[derive(Template)]
#[template(path = "bundle.html")]
pub(super) struct BundlePage {
    pub(super) shell: Shell,
    package: Summary,
    at: usize,
}

impl BundlePage {
    fn bundle(&self) -> &Bundle {
        &self.package.bundles[self.at]
    }
}

/// The document of `catalog list`.
#[derive(Template, Deserialize)]
#[template(path = "catalogs.html")]
pub(super) struct Catalogs {
    #[serde(skip)]
    pub(super) shell: Shell,
    catalogs: Vec<Catalog>,
}

#[derive(Deserialize)]
struct Catalog {
    name: String,
    serving: String,
    image: Option<String>,
    priority: i64,
    findings: Option<String>,
    digest: Option<String>,
}

/// The document of `catalog lint`.
#[derive(Template, Deserialize)]
#[template(path = "catalog.html")]
pub(super) struct Findings {
    #[serde(skip)]
    pub(super) shell: Shell,
    #[serde(skip)]
    pub(super) name: String,
    #[serde(rename = "findings")]
    list: Vec<Finding>,
    counts: Counts,
}

#[derive(Deserialize)]
struct Finding {
    severity: String,
    rule: String,
    file: String,
    line: u64,
    column: u64,
    text: String,
    hint: Option<String>,
}

#[derive(Deserialize)]
struct Counts {
    errors: usize,
    warnings: usize,
    notes: usize,
    files: usize,
}
