//! The blobs resolution reads, typed: channels with their entries, bundles with their versions,
//! deprecations.
//!
//! Nothing of the strict validation of an index is applied: a catalog that violates it resolves by
//! the rules, it is not rejected (resolution.md 1.4).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use olm_api::keys::property;

use super::constraint::{Declared, GroupVersionKind};
use super::fields::{FieldError, Fields};
use super::property::Property;
use crate::error::quote;
use crate::version::{SkipRange, SkipRangeError, VersionRelease, VersionReleaseError};

/// Values of `schema`.
pub mod schema {
    /// Head of a package.
    pub const PACKAGE: &str = "olm.package";
    /// Channel of a package.
    pub const CHANNEL: &str = "olm.channel";
    /// Bundle of a package.
    pub const BUNDLE: &str = "olm.bundle";
    /// Deprecations of a package.
    pub const DEPRECATIONS: &str = "olm.deprecations";
}

/// A channel of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Channel {
    /// The bundles in it and the edges that lead to them, in the author's order.
    pub entries: Vec<Entry>,
}

/// One bundle in a channel, and what it may follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Name of the bundle, whose blob may be missing.
    pub name: String,
    /// Name of the bundle it replaces; may be empty or name nothing that exists.
    pub replaces: String,
    /// Names of bundles it may follow as well.
    pub skips: Vec<String>,
    /// Versions it may follow as well.
    pub skip_range: Option<SkipRangeText>,
}

/// A `skipRange` as written, and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipRangeText {
    /// The author's text.
    pub text: String,
    /// The range, or why the text is not a range; such a text contributes no edge.
    pub range: Result<SkipRange, SkipRangeError>,
}

/// A bundle of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Name of the bundle, unique within package and catalog.
    pub name: String,
    /// Its image as the catalog writes it; may be empty in old catalogs.
    pub image: String,
    /// Its properties in the author's order.
    pub properties: Vec<Property>,
    /// The oldest Kubernetes version it runs on, and the index of the property that names it: its
    /// `olm.csv.metadata`, or without that the `olm.bundle.object` that is its CSV.
    pub min_kube_version: Option<(usize, String)>,
    /// The constraints it declares, in the order of its properties.
    pub constraints: Vec<Declared>,
    /// The kinds it provides: its properties `olm.gvk`.
    pub kinds: BTreeSet<GroupVersionKind>,
    legacy: Result<VersionRelease, BundleVersionError>,
    explicit: Option<Result<VersionRelease, BundleVersionError>>,
}

/// Why a bundle has no version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleVersionError {
    /// There is no `olm.package` property.
    #[error("no package property found in bundle {}", quote(.0))]
    NoPackageProperty(String),
    /// The `olm.package` property cannot be read.
    #[error("error unmarshalling package property: {0}")]
    Unreadable(String),
    /// The version or the release is invalid.
    #[error(transparent)]
    Invalid(#[from] VersionReleaseError),
}

/// The deprecations of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deprecations {
    /// The entries in the author's order.
    pub entries: Vec<Deprecation>,
    /// Their positions, ordered by what they are about and then by themselves.
    by_subject: Vec<usize>,
}

/// A package, channel or bundle that is deprecated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deprecation {
    /// Schema of what is deprecated: `olm.package`, `olm.channel` or `olm.bundle`.
    pub schema: String,
    /// Its name; empty for the package itself, as a rule.
    pub name: String,
    /// The author's message; may be empty.
    pub message: String,
}

impl Deprecation {
    /// Returns schema and name of what it is about.
    fn subject(&self) -> (&str, &str) {
        subject(&self.schema, &self.name)
    }
}

/// The name does not count for the package itself: some authors write it, most write none.
fn subject<'a>(schema: &'a str, name: &'a str) -> (&'a str, &'a str) {
    (schema, if schema == schema::PACKAGE { "" } else { name })
}

impl Deprecations {
    fn new(entries: Vec<Deprecation>) -> Self {
        let mut by_subject: Vec<_> = (0..entries.len()).collect();
        by_subject.sort_by_key(|position| entries[*position].subject());
        Self { entries, by_subject }
    }

    /// Returns the entries about a package, whatever its name, a channel or a bundle, in the author's
    /// order.
    pub fn about<'a>(
        &'a self,
        schema: &str,
        name: &str,
    ) -> impl DoubleEndedIterator<Item = &'a Deprecation> + use<'a> {
        let (all, wanted) = (&self.by_subject, subject(schema, name));
        let start = all.partition_point(|position| self.entries[*position].subject() < wanted);
        let end = all.partition_point(|position| self.entries[*position].subject() <= wanted);
        all[start..end].iter().map(|position| &self.entries[*position])
    }

    /// Returns the messages about a package, channel or bundle, without empty ones.
    pub fn messages<'a>(
        &'a self,
        schema: &str,
        name: &str,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        let messages = self.about(schema, name).map(|entry| entry.message.as_str());
        messages.filter(|message| !message.is_empty())
    }

    /// Says whether a bundle is listed, with or without a message.
    pub fn has_bundle(&self, bundle: &str) -> bool {
        self.about(schema::BUNDLE, bundle).next().is_some()
    }
}

impl Bundle {
    /// Returns version and release of the bundle.
    ///
    /// With `release_support` (gate `BundleReleaseSupport`) a key `release` beside the version
    /// decides, even an empty one; without it, or without the key, build metadata that is a valid
    /// release is one (resolution.md 4.2).
    pub fn version(&self, release_support: bool) -> Result<&VersionRelease, &BundleVersionError> {
        match &self.explicit {
            Some(explicit) if release_support => explicit.as_ref(),
            Some(_) | None => self.legacy.as_ref(),
        }
    }

    /// Orders bundles by descending version; those without one come last.
    pub(crate) fn before(&self, other: &Self, release_support: bool) -> Ordering {
        match (self.version(release_support), other.version(release_support)) {
            (Ok(one), Ok(other)) => other.precedence(one),
            (one, other) => one.is_err().cmp(&other.is_err()),
        }
    }

    /// Returns the properties that declare a dependency, in the author's order.
    pub fn dependencies(&self) -> impl Iterator<Item = &Property> {
        let kinds = [property::PACKAGE_REQUIRED, property::GVK_REQUIRED, property::CONSTRAINT];
        self.properties.iter().filter(move |property| kinds.contains(&property.kind.as_str()))
    }

    /// Reads a bundle's blob, which is JSON for certain: nearly all of it is metadata that is passed in
    /// one walk. What is unusual in any way is read again, for the error.
    pub(super) fn parse(json: &str) -> Result<Self, FieldError> {
        fn property<'a>(property: &Fields<'a>) -> Result<(String, &'a str), FieldError> {
            Ok((property.text("type")?, property.raw("value").unwrap_or("null")))
        }
        let (fields, elements) = Fields::with(json, "properties")?;
        let name = fields.text("name")?;
        let elements = elements.into_iter().flatten();
        let usual: Option<Vec<_>> = elements.map(|it| property(&it?).ok()).collect();
        let properties = match usual.filter(|usual| !usual.is_empty()) {
            Some(usual) => usual,
            None => fields.objects("properties", property)?,
        };
        let mut listed = properties.iter().enumerate();
        let metadata = listed.find(|(_, (kind, _))| kind == property::CSV_METADATA);
        let min_kube_version = match metadata {
            None => {
                let listed = properties.iter().enumerate();
                min_kube_version_of_csv(
                    listed.map(|(at, (kind, value))| (at, kind.as_str(), *value)),
                )
            }
            Some((index, (_, value))) => min_kube_version(value).map(|version| (index, version)),
        };
        Ok(Self::new(name, fields.text("image")?, properties, min_kube_version))
    }

    fn new(
        name: String,
        image: String,
        properties: Vec<(String, &str)>,
        min_kube_version: Option<(usize, String)>,
    ) -> Self {
        let (legacy, explicit) = first(&properties, property::PACKAGE).map_or_else(
            || (Err(BundleVersionError::NoPackageProperty(name.clone())), None),
            versions,
        );
        let properties: Vec<_> = properties.into_iter().map(Property::keep).collect();
        Self {
            image,
            min_kube_version,
            constraints: Declared::of(&properties),
            kinds: GroupVersionKind::provided(&properties).collect(),
            legacy,
            explicit,
            properties,
            name,
        }
    }
}

/// Returns the value of the first property of a type.
fn first<'a>(properties: &[(String, &'a str)], kind: &str) -> Option<&'a str> {
    properties.iter().find(|(other, _)| other == kind).map(|(_, value)| *value)
}

type VersionResult = Result<VersionRelease, BundleVersionError>;

/// Reads an `olm.package` property without and with regard to its `release`.
fn versions(value: &str) -> (VersionResult, Option<VersionResult>) {
    let texts = Fields::of(value).and_then(|fields| {
        let version = fields.text("version")?;
        Ok((version, fields.optional_text("release")?))
    });
    match texts {
        Err(error) => {
            let unreadable = BundleVersionError::Unreadable(error.to_string());
            (Err(unreadable), None)
        }
        Ok((version, release)) => {
            let explicit = release.map(|release| Ok(VersionRelease::explicit(&version, &release)?));
            let legacy = VersionRelease::legacy(&version).map_err(Into::into);
            (legacy, explicit)
        }
    }
}

/// Returns what an `olm.csv.metadata` property says about Kubernetes, if it can be read.
fn min_kube_version(value: &str) -> Option<String> {
    let version = Fields::of(value).ok()?.text("minKubeVersion").ok()?;
    Some(version).filter(|version| !version.is_empty())
}

/// Returns what the `olm.bundle.object` that is the CSV says about Kubernetes, and its index. A
/// property is index, type and value.
pub(super) fn min_kube_version_of_csv<'a>(
    properties: impl Iterator<Item = (usize, &'a str, &'a str)>,
) -> Option<(usize, String)> {
    let mut objects = properties.filter(|(_, kind, _)| *kind == property::BUNDLE_OBJECT);
    objects.find_map(|(index, _, value)| {
        let data = Fields::of(value).ok()?.text("data").ok()?;
        let json = String::from_utf8(STANDARD.decode(data).ok()?).ok()?;
        // Most objects are large, and searched faster than parsed.
        let json = Some(json).filter(|json| json.contains("minKubeVersion"))?;
        let object = Fields::parse(&json).ok()?;
        let is_csv = object.text("kind").is_ok_and(|kind| kind == "ClusterServiceVersion");
        let spec = object.raw("spec").filter(|_| is_csv)?;
        min_kube_version(spec).map(|version| (index, version))
    })
}

impl Channel {
    /// Returns the names that some entry skips, whether they are entries or not.
    pub fn skipped(&self) -> BTreeSet<&str> {
        self.entries.iter().flat_map(|entry| &entry.skips).map(String::as_str).collect()
    }

    /// Returns the names of the entries that no entry replaces or skips.
    ///
    /// An entry that names itself is not a head either.
    pub fn heads(&self) -> BTreeSet<&str> {
        let mut superseded = self.skipped();
        superseded.extend(self.entries.iter().map(|entry| entry.replaces.as_str()));
        let names = self.entries.iter().map(|entry| entry.name.as_str());
        names.filter(|name| !superseded.contains(name)).collect()
    }

    pub(super) fn from_fields(fields: &Fields<'_>) -> Result<Self, FieldError> {
        let entries = fields.objects("entries", |entry| {
            let skip_range = entry.text("skipRange")?;
            Ok(Entry {
                name: entry.text("name")?,
                replaces: entry.text("replaces")?,
                skips: entry.texts("skips")?,
                skip_range: SkipRangeText::new(skip_range),
            })
        })?;
        Ok(Self { entries })
    }
}

impl SkipRangeText {
    /// Parses a range; returns `None` for the empty text.
    fn new(text: String) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let range = text.parse();
        Some(Self { text, range })
    }
}

impl Deprecations {
    pub(super) fn from_fields(fields: &Fields<'_>) -> Result<Self, FieldError> {
        let entries = fields.objects("entries", |entry| {
            let reference = entry.raw("reference").unwrap_or("{}");
            let reference = Fields::parse(reference)?;
            Ok(Deprecation {
                schema: reference.text("schema")?,
                name: reference.text("name")?,
                message: entry.text("message")?,
            })
        })?;
        Ok(Self::new(entries))
    }
}
