//! One view a page: the part of a document that a page shows, read from the document itself.

use askama::Template;
use serde::Deserialize;

use super::markup::{Markup, host};

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

/// The document of `search`, and what was asked.
#[derive(Template, Deserialize)]
#[template(path = "packages.html")]
pub(super) struct Packages {
    #[serde(skip)]
    pub(super) shell: Shell,
    /// What was searched for.
    #[serde(skip)]
    pub(super) terms: String,
    /// The catalog that is shown, if only one is.
    #[serde(skip)]
    pub(super) catalog: String,
    #[serde(rename = "packages")]
    found: Vec<Package>,
    unknown: Vec<Unknown>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Package {
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
    /// Returns the rows of the chosen catalog.
    fn rows(&self) -> Vec<&Package> {
        let chosen = |it: &&Package| self.catalog.is_empty() || it.catalog == self.catalog;
        self.found.iter().filter(chosen).collect()
    }

    /// Returns the names of the catalogs that may be chosen.
    fn catalogs(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.found.iter().map(|it| it.catalog.as_str()).collect();
        names.push(&self.catalog);
        names.sort_unstable();
        names.dedup();
        names.retain(|name| !name.is_empty());
        names
    }
}

impl Package {
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
