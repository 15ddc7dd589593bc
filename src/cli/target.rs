//! Arguments that can be a bundle, a package or an extension.
//!
//! Source: plugin.md 1.2.

use std::sync::Arc;

use jiff::tz::TimeZone;
use olm_api::keys::annotation;
use olm_api::keys::name::SYSTEM_NAMESPACE;
use olm_core::bundle::{Bundle, Files};
use olm_core::error::plain_lines;
use olm_core::extension::{Policy, Question, ValidExtension, recorded_issuer, supported};
use olm_core::gate::MinorRelease;
use olm_core::render::{Additions, CertificateSource};
use olm_core::resolve::{ResolveError, WalkError};
use olm_core::revision::{Account, has_succeeded};
use olm_core::version::{VersionRange, natural};

use crate::bundle_source::{DIRECTORY, IMAGE, image_files, load_files, parse};
use crate::catalogs::{CATALOG_SYNTAX, CatalogFlag};
use crate::cluster::{Cluster, ExtensionSnapshot, Packages, alike};
use crate::connection::Global;
use crate::offers::{ADD_CATALOG, Named, Offers, near};
use crate::output::{Failure, Outcome, notice, one_line, usage};
use crate::prelude::*;
use crate::verb;
use crate::verb::OnCluster;

/// The meaning of an argument, before any lookup on a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A directory, or the reference of an image: behind [`IMAGE`] if a directory is called like it.
    Bundle(String),
    /// `PACKAGE[@RANGE]`.
    Package(String),
    Extension(String),
    /// An extension or, if there is none of the name, a package.
    Word(String),
}

impl Target {
    /// Reads an argument; `offline` where catalogs are named on the command line.
    pub(crate) fn of(text: &str, offline: bool) -> Self {
        let is_plain = !text.contains('/') && !text.starts_with('.');
        if is_plain && Path::new(text).is_dir() {
            notice(&format!(
                "note: {} is the directory ./{text}; the package is package:{text}, the extension \
                 extension:{text}",
                quote(text)
            ));
            return Self::Bundle(text.to_owned());
        }
        Self::of_extension(text, offline)
    }

    /// Reads an argument where an extension or a package is expected: a plain word is not a directory.
    pub(crate) fn of_extension(text: &str, offline: bool) -> Self {
        let prefixed = |prefix| text.strip_prefix(prefix).map(str::to_owned);
        if let Some(place) = prefixed(DIRECTORY) {
            // What is not there must not be taken for an image.
            let is_path = place.starts_with(['.', '/']) || Path::new(&place).is_dir();
            return Self::Bundle(if is_path { place } else { format!("./{place}") });
        }
        if let Some(image) = prefixed(IMAGE) {
            // Nor must the image be taken for a directory.
            let is_path = Path::new(&image).is_dir();
            return Self::Bundle(if is_path { text.to_owned() } else { image });
        }
        if let Some(package) = prefixed("package:") {
            return Self::Package(package);
        }
        let behind = || verb::name_behind(verb::EXTENSION, text).map(str::to_owned);
        if let Some(name) = prefixed("extension:").or_else(behind) {
            return Self::Extension(name);
        }
        if text.contains('/') || text.starts_with('.') {
            return Self::Bundle(text.to_owned());
        }
        if offline || text.contains('@') {
            return Self::Package(text.to_owned());
        }
        // Neither an extension nor a package is called like that.
        let is_of_a_name =
            |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || "-.".contains(it);
        if text.contains(|it| !is_of_a_name(it)) {
            return Self::Bundle(text.to_owned());
        }
        Self::Word(text.to_owned())
    }
}

/// Flags for the lookup of packages and extensions.
#[derive(Debug, Clone, Args)]
pub(crate) struct Lookup {
    /// Use this catalog instead of the cluster: a directory or file of blobs, a catalog image, or
    /// the URL of a served catalog; may be repeated
    #[arg(id = "catalogs", long = "from", value_name = CATALOG_SYNTAX)]
    pub(crate) catalogs: Vec<CatalogFlag>,
    #[command(flatten)]
    pub(crate) on: OnCluster,
}

impl Lookup {
    /// Returns whether catalogs are named, so that no cluster is asked.
    pub(crate) fn is_offline(&self) -> bool {
        !self.catalogs.is_empty()
    }

    pub(crate) fn target(&self, text: &str) -> Target {
        Target::of(text, self.is_offline())
    }

    /// Returns whether a cluster is needed to interpret a target.
    pub(crate) fn asks_cluster(&self, target: &Target) -> bool {
        match target {
            Target::Bundle(_) => false,
            Target::Package(_) => !self.is_offline(),
            Target::Extension(_) | Target::Word(_) => true,
        }
    }

    /// Connects to the cluster if one of the targets is looked up there.
    pub(crate) async fn cluster_for(
        &self,
        targets: &[Target],
        global: &Global,
    ) -> anyhow::Result<Option<Cluster>> {
        if targets.iter().any(|target| self.asks_cluster(target)) {
            return self.on.connect(global).await.map(Some);
        }
        self.on.settings.refuse("an extension or a package of a cluster is named")?;
        Ok(None)
    }

    /// Returns what is asked of catalogs without a cluster, where annotations say this; of none yet.
    pub(crate) fn asked(
        &self,
        filter: CatalogFilter,
        annotations: &BTreeMap<String, String>,
    ) -> anyhow::Result<ExtensionSnapshot> {
        let settings = self.on.settings.offline()?;
        let policy = Policy::of(annotations, settings.defaults())?;
        let question = Question::new(filter, policy, Timestamp::now());
        Ok(ExtensionSnapshot::of_named(question, Vec::new(), settings.resolution()))
    }

    /// Reads the named catalogs with all their blobs; each has its own name.
    pub(crate) async fn named(&self) -> anyhow::Result<Vec<Named>> {
        let mut names = BTreeSet::new();
        let mut flags = self.catalogs.iter();
        if let Some(CatalogFlag { name, place, .. }) = flags.find(|it| !names.insert(&it.name)) {
            return usage(format!(
                "two catalogs are named {}: name one of them, --from NAME={place}",
                quote(name)
            ));
        }
        Ok(Named::read(&self.catalogs, self.on.access.catalog_ca.as_deref()).await)
    }

    /// Returns the offers of the named catalogs, otherwise of those of the cluster.
    pub(crate) async fn offers(&self, global: &Global) -> anyhow::Result<Offers> {
        if self.is_offline() {
            self.on.settings.refuse("no --from is given")?;
            return Ok(Offers::Named(Arc::new(self.named().await?)));
        }
        Ok(Offers::Cluster(Box::new(self.on.connect(global).await?)))
    }
}

pub(crate) struct Source {
    pub(crate) called: String,
    pub(crate) bundle: Bundle,
    pub(crate) files: Files,
    /// Its image; empty for a directory.
    pub(crate) image: String,
}

/// Settings of an extension for its bundles.
pub(crate) struct Installation {
    pub(crate) name: String,
    pub(crate) namespace: String,
    /// As whom it is installed, if that is known.
    pub(crate) account: Option<Account>,
    pub(crate) inline: Option<Value>,
    /// The issuer of the certificates of its webhooks, if recorded.
    pub(crate) certificates: Option<CertificateSource>,
    pub(crate) additions: Additions,
    /// Which of its bundles is installed, by name.
    pub(crate) installed: Option<String>,
}

/// The bundles that arguments mean.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) sources: Vec<Source>,
    pub(crate) extension: Option<Installation>,
}

impl Loaded {
    /// Adds the bundle that an argument names.
    async fn add(&mut self, place: &str) -> anyhow::Result<()> {
        let files = load_files(place).await?;
        let is_image = !Path::new(place).is_dir();
        let image = if is_image { place.strip_prefix(IMAGE).unwrap_or(place) } else { "" };
        self.push(place.to_owned(), image, files).await
    }

    /// Adds a bundle that a catalog or a revision names.
    async fn add_image(&mut self, name: &str, image: &str) -> anyhow::Result<()> {
        let called = format!("{name} ({image})");
        let files = image_files(image).await.with_context(|| called.clone())?;
        self.push(called, image, files).await
    }

    async fn push(&mut self, called: String, image: &str, files: Files) -> anyhow::Result<()> {
        if self.sources.iter().all(|known| known.called != called) {
            let bundle = parse(files.clone()).await.with_context(|| called.clone())?;
            self.sources.push(Source { called, bundle, files, image: image.to_owned() });
        }
        Ok(())
    }
}

/// Loads the bundles that arguments mean: of an extension those of its revisions, and the one it is
/// to have; with `upgrade` the one it would move to within that range.
pub(crate) async fn load(
    targets: &[Target],
    lookup: &Lookup,
    cluster: Option<&Cluster>,
    upgrade: Option<&str>,
) -> anyhow::Result<Loaded> {
    let mut loaded = Loaded::default();
    for target in targets {
        match (target, cluster) {
            (Target::Bundle(place), _) => loaded.add(place).await?,
            (Target::Package(wanted), _) if lookup.is_offline() => {
                let offers = Offers::Named(Arc::new(lookup.named().await?));
                let filter = filter(wanted);
                let package = filter.package_name.clone();
                let found = chosen_or_why(&offers.offered(filter).await?);
                let found = or_like(found, &package, &offers).await?;
                notice(&format!("{} of catalog {}: {}", found.name, found.catalog, found.image));
                let files = image_files(&found.image).await?;
                loaded.push(wanted.clone(), &found.image, files).await?;
            }
            (Target::Extension(name), Some(cluster)) => {
                let extension = cluster.extension(name).await?;
                add_extension(&mut loaded, cluster, &extension, upgrade).await?;
            }
            (Target::Word(word), Some(cluster)) => match cluster.find_extension(word).await? {
                Some(found) => add_extension(&mut loaded, cluster, &found, upgrade).await?,
                None => add_package(&mut loaded, cluster, (word, true)).await?,
            },
            (Target::Package(wanted), Some(cluster)) => {
                add_package(&mut loaded, cluster, (wanted, false)).await?;
            }
            (Target::Package(_) | Target::Extension(_) | Target::Word(_), None) => {
                bail!("no cluster to look {target:?} up on")
            }
        }
    }
    Ok(loaded)
}

async fn add_package(
    loaded: &mut Loaded,
    cluster: &Cluster,
    (wanted, is_word): (&str, bool),
) -> anyhow::Result<()> {
    let found = chosen_or_why(&cluster.offers(filter(wanted)).await?);
    let found = or_near(found, (wanted, is_word), cluster).await?;
    loaded.add_image(&found.name, &found.image).await
}

/// Reads `PACKAGE[@RANGE]`.
pub(crate) fn filter(wanted: &str) -> CatalogFilter {
    let (package, version) = match wanted.split_once('@') {
        Some((package, version)) => (package, Some(version.to_owned())),
        None => (wanted, None),
    };
    CatalogFilter { package_name: package.to_owned(), version, ..CatalogFilter::default() }
}

/// If no catalog of the cluster has a package, replaces the error by one with suggestions;
/// `is_word` if the argument could be something other than a package.
pub(crate) async fn or_near<T>(
    found: anyhow::Result<T>,
    (wanted, is_word): (&str, bool),
    cluster: &Cluster,
) -> anyhow::Result<T> {
    let Err(error) = found else { return found };
    let package = filter(wanted).package_name;
    let (packages, unread) = cluster.packages().await?;
    if packages.iter().any(|(_, blob)| blob["name"] == package) {
        return Err(error);
    }
    let text = if is_word {
        format!(
            "{} is not a directory here, not an image reference, and neither an extension nor a \
             package of this cluster",
            quote(&package)
        )
    } else {
        format!("no catalog of this cluster has package {}", quote(&package))
    };
    let outcome = if unread.is_empty() { Outcome::Failed } else { Outcome::Unknown };
    let may_be_extension = is_word && near(&package, &packages).is_empty();
    let known = if may_be_extension { cluster.extensions().await.ok() } else { None };
    let meant = known.and_then(|known| alike(&package, &known));
    let hint = meant.or_else(|| hint(&package, &packages, &unread));
    Err(Failure { text, outcome, hint }.into())
}

/// If no catalog that is named on the command line has a package, adds a similar name to an error
/// that has no hint yet.
pub(crate) async fn or_like<T>(
    found: anyhow::Result<T>,
    package: &str,
    offers: &Offers,
) -> anyhow::Result<T> {
    let Err(error) = found else { return found };
    let failure = Failure::of(&error);
    let (packages, unread) = offers.heads().await?;
    match near(package, &packages).first() {
        Some((name, catalog))
            if *name != package && unread.is_empty() && failure.hint.is_none() =>
        {
            Err(Failure { hint: Some(did_you_mean(name, catalog)), ..failure }.into())
        }
        _ => Err(error),
    }
}

/// Returns a hint if no catalog has a package: a similar name, unread catalogs, or adding a first
/// catalog.
fn hint(package: &str, packages: &Packages, unread: &[(String, String)]) -> Option<String> {
    if let Some((name, catalog)) = near(package, packages).first() {
        return Some(did_you_mean(name, catalog));
    }
    if !unread.is_empty() {
        let each = unread.iter().map(|(name, why)| format!("{} ({why})", quote(name)));
        let each: Vec<_> = each.collect();
        return Some(format!("catalogs that could not be read: {}", each.join(", ")));
    }
    packages.is_empty().then(|| ADD_CATALOG.to_owned())
}

fn did_you_mean(package: &str, catalog: &str) -> String {
    format!("did you mean package {} of catalog {}?", quote(package), quote(catalog))
}

/// Returns a hint if no catalog of the cluster has a package, as far as they can be read.
pub(crate) async fn meant(package: &str, cluster: &Cluster) -> Option<String> {
    let (packages, unread) = cluster.packages().await.ok()?;
    let has_it = packages.iter().any(|(_, blob)| blob["name"] == package);
    if has_it { None } else { hint(package, &packages, &unread) }
}

async fn add_extension(
    loaded: &mut Loaded,
    cluster: &Cluster,
    extension: &ClusterExtension,
    upgrade: Option<&str>,
) -> anyhow::Result<()> {
    let name = extension.name_any();
    if loaded.extension.is_some() {
        bail!("one extension at a time: {name:?} is the second");
    }
    let valid = ValidExtension::of(extension)
        .with_context(|| format!("ClusterExtension {name:?} names no package"))?;
    let revisions = cluster.revisions(&name).await?;
    let now = states(&revisions);
    let mut snapshot = cluster.snapshot_of(extension).await?;
    let back = snapshot.question.policy.rollback_to;
    let is_wanted = |set: &&ClusterObjectSet| {
        back == Some(set.spec.revision)
            || upgrade.is_some_and(|range| BundleRecord::of(set).version == range)
    };
    // Catalogs do not offer an earlier revision as a successor.
    let earlier: Vec<_> =
        revisions.iter().rev().filter(|set| has_succeeded(set)).filter(is_wanted).collect();
    let mut known = BTreeSet::new();
    for set in now.installed.iter().chain(&now.rolling).copied().chain(earlier.iter().copied()) {
        let record = BundleRecord::of(set);
        if known.insert(record.name.clone()) {
            let image = pinned(&record, set)?;
            loaded.add_image(&record.name, &image).await?;
        }
    }
    if let Some(range) = upgrade {
        snapshot.question.filter.version = Some(range.to_owned());
    }
    match chosen_or_why(&snapshot) {
        Ok(Chosen { name, image, .. }) => {
            if !known.contains(&name) {
                loaded.add_image(&name, &image).await?;
            }
        }
        Err(error) if (upgrade.is_some() && earlier.is_empty()) || loaded.sources.is_empty() => {
            return Err(error);
        }
        Err(error) => {
            notice(&format!("note: considering only what was installed: {}", one_line(&error)));
        }
    }
    let settings = cluster.state().await?.controller();
    loaded.extension = Some(Installation {
        account: settings.accounts().of_extension(extension),
        namespace: valid.spec.namespace.clone(),
        inline: valid.inline_config(),
        certificates: recorded_issuer(&revisions).or_else(|| settings.certificates()),
        additions: snapshot.question.policy.additions.clone(),
        installed: now.installed.map(|set| BundleRecord::of(set).name),
        name,
    });
    Ok(())
}

/// Returns the account that an extension is installed by; fails where it names none, and where it is known
/// that the controller installs nothing by it.
pub(crate) async fn account(
    extension: &ClusterExtension,
    cluster: &Cluster,
) -> anyhow::Result<Account> {
    let settings = &cluster.state().await?.settings;
    let account = settings.controller.accounts().of_extension(extension);
    let account = account.context("it names no service account")?;
    if settings.assumed.is_none() {
        let namespace = settings.namespace.as_deref().unwrap_or(SYSTEM_NAMESPACE);
        settings.controller.reserved(namespace).check(&account, None).map_err(|error| {
            Failure::failed(error.to_string(), "choose another namespace or service account")
        })?;
    }
    Ok(account)
}

/// Returns the image of a revision by the digest it records.
pub(crate) fn pinned(record: &BundleRecord, set: &ClusterObjectSet) -> anyhow::Result<String> {
    let Some(digest) = set.annotations().get(annotation::BUNDLE_DIGEST) else {
        return Ok(record.image.clone());
    };
    let image: ImageRef = record.image.parse()?;
    Ok(image.with_digest(digest.parse()?).to_string())
}

/// A bundle that an extension would get.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) image: String,
    pub(crate) catalog: String,
    /// A channel that has it: the default one, else the last by name.
    pub(crate) channel: Option<String>,
    /// As a revision records it.
    pub(crate) record: BundleRecord,
}

/// Returns the bundle that an extension would get; none is known while a catalog cannot be read.
pub(crate) fn chosen(snapshot: &ExtensionSnapshot) -> anyhow::Result<Chosen> {
    let (catalogs, question) = (snapshot.catalogs(), &snapshot.question);
    let selected = snapshot.resolve(&catalogs).result;
    let selected = selected.map_err(|error| {
        let is_unread =
            matches!(&error, ResolveError::Walk(walk) if matches!(**walk, WalkError::Package { .. }));
        let outcome = if is_unread { Outcome::Unknown } else { Outcome::Failed };
        Failure { text: Chain(&error).to_string(), outcome, hint: None }
    })?;
    let package = &question.filter.package_name;
    let record = BundleRecord::selected(&selected, package, snapshot.options.release_support);
    let catalog = catalogs.iter().find(|catalog| catalog.name == selected.catalog);
    let index = catalog.and_then(|catalog| catalog.content?.package(package)?.ok());
    let wanted = &question.filter.channels;
    let channel = index.and_then(|index| {
        let having = index.entries_of(&record.name).map(|(channel, _)| channel);
        let followed =
            having.filter(|name| wanted.is_empty() || wanted.iter().any(|one| one == name));
        followed.max_by_key(|name| (*name == index.default_channel, natural(name)))
    });
    Ok(Chosen {
        channel: channel.map(str::to_owned),
        name: record.name.clone(),
        version: record.version.clone(),
        image: selected.bundle.image.clone(),
        catalog: selected.catalog.to_owned(),
        record,
    })
}

/// Returns the same, or an error with what stands in the way.
pub(crate) fn chosen_or_why(snapshot: &ExtensionSnapshot) -> anyhow::Result<Chosen> {
    chosen(snapshot).map_err(|error| {
        let range = snapshot.question.filter.version.as_deref();
        let form = range.and_then(about_range).map(|form| format!("{form}{HIGHEST}"));
        let hint = form.or_else(|| snapshot.obstacle());
        Failure { hint, ..Failure::of(&error) }.into()
    })
}

/// Follows where a range may be left out.
pub(crate) const HIGHEST: &str = "; without one, the highest version is taken";

/// Returns how a range is written, if this is none.
pub(crate) fn about_range(range: &str) -> Option<String> {
    range.parse::<VersionRange>().err()?;
    Some("name a version such as 1.2.3, or a range such as 1.2.x or \">=1.2.0 <2.0.0\"".to_owned())
}

/// Prints and returns the deprecations of the bundle that an extension would get, and whether its
/// support has ended or excludes this platform, which is read only if needed.
pub(crate) async fn warn_of_deprecation(
    snapshot: &ExtensionSnapshot,
    platform: impl Future<Output = Option<MinorRelease>>,
) -> Vec<String> {
    let catalogs = snapshot.catalogs();
    let Ok(selected) = snapshot.resolve(&catalogs).result else { return Vec::new() };
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let platform = match selected.lifecycle {
        Some(lifecycle) if !lifecycle.platform_compatibility.is_empty() => platform.await,
        _ => None,
    };
    let support = selected.lifecycle.and_then(|it| supported(it, today, platform));
    let over = support.filter(|found| found.status == status::FALSE);
    let over = over.map(|found| format!("{}: {}", selected.bundle.name, found.message));
    let deprecated =
        |(what, message): (String, &str)| format!("{what} is deprecated: {}", plain_lines(message));
    let found = selected.deprecations(&snapshot.question.filter).into_iter().map(deprecated);
    let found: Vec<_> = found.chain(over.as_deref().map(plain)).collect();
    for text in &found {
        notice(&format!("warning: {text}"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    #[test]
    fn where_no_catalog_has_a_package_something_may_help() {
        type Case = (Vec<String>, Vec<String>, Option<String>);
        for (name, case) in cases::<Case>("where_no_catalog_has_a_package_something_may_help") {
            let (packages, unread, want) = case;
            let packages: Packages =
                packages.iter().map(|name| ("c".to_owned(), json!({"name": name}))).collect();
            let unread: Vec<_> = unread.into_iter().map(|it| (it, "down".to_owned())).collect();
            assert_eq!(hint("kettle", &packages, &unread), want, "{name}");
        }
    }

    #[test]
    fn an_argument_means_one_thing() {
        let arguments = cases::<(String, bool, String)>("an_argument_means_one_thing");
        for (name, (text, offline, want)) in arguments {
            assert_eq!(format!("{:?}", Target::of(&text, offline)), want, "{name}");
        }
    }

    #[test]
    fn where_an_extension_is_expected_a_plain_word_is_no_directory() {
        assert_eq!(Target::of_extension("graph", false), Target::Word("graph".to_owned()));
        assert_eq!(Target::of_extension("graph", true), Target::Package("graph".to_owned()));
        assert_eq!(Target::of_extension("./graph", false), Target::Bundle("./graph".to_owned()));
    }
}
