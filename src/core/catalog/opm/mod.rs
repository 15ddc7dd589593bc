//! The templates of opm, and the catalogs that they stand for: schemas `olm.template.basic` and
//! `olm.semver`.
//!
//! In: a template, and the bundles that it names. Out: the blobs that opm makes of it, in its order.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use olm_api::keys::property;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::model::schema;
use super::of_bundle::{CatalogBundle, package_blob};
use super::read::Meta;
use crate::error::quote;
use crate::object::items;
use crate::version::Version;

/// Schemas of the templates.
pub const SCHEMAS: [&str; 2] = [BASIC, SEMVER];
const BASIC: &str = "olm.template.basic";
const SEMVER: &str = "olm.semver";

/// A template.
#[derive(Debug, Clone, PartialEq)]
pub enum Template {
    /// The blobs of a catalog, whose bundles have nothing but an image.
    Basic(Vec<Meta>),
    /// Images of bundles, of which channels are made by version.
    Semver(Semver),
}

/// A template that is not expanded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template of schema {schema}: {reason}")]
pub struct TemplateError {
    schema: &'static str,
    reason: String,
}

/// Bundles by how stable they are, and which channels they get.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub struct Semver {
    #[serde(rename = "schema")]
    _schema: String,
    #[serde(default)]
    generatemajorchannels: bool,
    #[serde(default)]
    generateminorchannels: bool,
    defaultchanneltypepreference: Option<Kind>,
    #[serde(default)]
    candidate: Images,
    #[serde(default)]
    fast: Images,
    #[serde(default)]
    stable: Images,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Images {
    #[serde(default)]
    bundles: Vec<Image>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    image: String,
}

/// What the bundles of a channel have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Major,
    Minor,
}

impl Template {
    /// Reads a document, if it is a template.
    ///
    /// # Errors
    ///
    /// The template has members that opm refuses.
    pub fn of(document: &Value) -> Result<Option<Self>, TemplateError> {
        match member(document, "schema").as_str() {
            Some(BASIC) => basic(document).map(|metas| Some(Self::Basic(metas))),
            Some(SEMVER) => semver(document).map(|semver| Some(Self::Semver(semver))),
            _ => Ok(None),
        }
    }

    /// Returns the images of the bundles, each once.
    pub fn images(&self) -> BTreeSet<String> {
        match self {
            Self::Basic(metas) => metas.iter().filter_map(image_of).collect(),
            Self::Semver(semver) => {
                let lists = semver.lists().into_iter().flat_map(|(_, list)| &list.bundles);
                lists.map(|bundle| bundle.image.clone()).collect()
            }
        }
    }

    /// Returns the blobs of the catalog. `bundles` are those of its images.
    ///
    /// # Errors
    ///
    /// A bundle is missing, or the bundles cannot be put in order.
    pub fn expand(
        self,
        bundles: &BTreeMap<String, CatalogBundle>,
    ) -> Result<Vec<Meta>, TemplateError> {
        let mut blobs = match self {
            Self::Basic(metas) => {
                let expanded = metas.into_iter().map(|meta| match image_of(&meta) {
                    Some(image) => meta_of(BASIC, &found(BASIC, &image, bundles)?.blob),
                    None => Ok(meta),
                });
                expanded.collect::<Result<Vec<_>, _>>()?
            }
            Self::Semver(semver) => semver.expand(bundles)?,
        };
        blobs.sort_by_cached_key(place);
        Ok(blobs)
    }
}

/// Returns where opm writes a blob: by package, in it by schema and name, those without a package last.
fn place(meta: &Meta) -> (bool, String, usize, String) {
    let (rank, sorted) = match &*meta.schema {
        schema::PACKAGE => (0, ""),
        schema::CHANNEL => (1, &*meta.name),
        schema::BUNDLE => (2, &*meta.name),
        schema::DEPRECATIONS => (4, ""),
        other => (3, other),
    };
    (meta.owner().is_empty(), meta.owner().to_owned(), rank, sorted.to_owned())
}

fn basic(document: &Value) -> Result<Vec<Meta>, TemplateError> {
    let refused = |reason: &str| TemplateError { schema: BASIC, reason: reason.to_owned() };
    let entries = member(document, "entries");
    let listed = entries.as_array();
    if listed.is_none() && !entries.is_null() {
        return Err(refused("entries is not a list"));
    }
    let metas = listed.into_iter().flatten().map(|entry| {
        let meta = meta_of(BASIC, &entry.to_string())?;
        let is_set = |name: &str| {
            let value = member(entry, name);
            !value.is_null() && value != "" && *value != json!([])
        };
        let more = ["package", "properties", "relatedImages"].into_iter().any(is_set);
        if meta.schema == schema::BUNDLE && (more || !is_set("image")) {
            return Err(refused("a bundle must have an image, and nothing else"));
        }
        Ok(meta)
    });
    metas.collect()
}

fn semver(document: &Value) -> Result<Semver, TemplateError> {
    let refused = |reason: String| TemplateError { schema: SEMVER, reason };
    let mut document = lowercase(document);
    if let Some(members) = document.as_object_mut() {
        members.retain(|key, value| key != "defaultchanneltypepreference" || *value != "");
    }
    let read = serde_json::from_value(document);
    let mut semver: Semver = read.map_err(|error| refused(error.to_string()))?;
    if !semver.generatemajorchannels {
        semver.generateminorchannels = true;
    }
    match semver.defaultchanneltypepreference {
        Some(kind) if !semver.kinds().contains(&kind) => {
            let kind = if kind == Kind::Major { "major" } else { "minor" };
            Err(refused(format!(
                "defaultChannelTypePreference is {kind}, and no {kind} channels are generated"
            )))
        }
        Some(_) => Ok(semver),
        None => {
            semver.defaultchanneltypepreference = semver.kinds().into_iter().max();
            Ok(semver)
        }
    }
}

impl Semver {
    /// Returns the bundles, the least stable first.
    fn lists(&self) -> [(&'static str, &Images); 3] {
        [("candidate", &self.candidate), ("fast", &self.fast), ("stable", &self.stable)]
    }

    fn kinds(&self) -> Vec<Kind> {
        let major = self.generatemajorchannels.then_some(Kind::Major);
        let minor = self.generateminorchannels.then_some(Kind::Minor);
        major.into_iter().chain(minor).collect()
    }

    fn expand(
        &self,
        bundles: &BTreeMap<String, CatalogBundle>,
    ) -> Result<Vec<Meta>, TemplateError> {
        let refused = |reason: String| TemplateError { schema: SEMVER, reason };
        let mut known: BTreeMap<&str, &CatalogBundle> = BTreeMap::new();
        let mut lists = Vec::new();
        for (word, images) in self.lists() {
            let mut list: Vec<(Version, &str)> = Vec::new();
            for Image { image } in &images.bundles {
                let bundle = found(SEMVER, image, bundles)?;
                let version = version(bundle).map_err(refused)?;
                let same = |(other, name): &&(Version, &str)| {
                    *name == bundle.name || other.precedence(&version).is_eq()
                };
                if let Some((_, other)) = list.iter().find(same) {
                    return Err(refused(format!(
                        "{other} and {} of {word} have the same version or name",
                        bundle.name
                    )));
                }
                list.push((version, bundle.name.as_str()));
                known.insert(&bundle.name, bundle);
            }
            list.sort_by(|(a, _), (b, _)| a.precedence(b));
            lists.push((word, list));
        }
        let packages: BTreeSet<_> = known.values().map(|bundle| &bundle.package).collect();
        let Some(package) = packages.first() else {
            return Err(refused("it names no bundle".to_owned()));
        };
        if packages.len() > 1 {
            let packages = packages.iter().join(", ");
            return Err(refused(format!("bundles of several packages: {packages}")));
        }
        let (default, channels) = self.channels(&lists);
        let head = channels.get(&default).and_then(|entries| entries.last()?["name"].as_str());
        let head = head.and_then(|name| known.get(name).copied());
        let blob = package_blob(package, &default, head);
        let channels = channels.into_iter().map(|(name, entries)| {
            json!({"schema": schema::CHANNEL, "package": package, "name": name, "entries": entries})
        });
        let blobs = [blob].into_iter().chain(channels).map(|blob| blob.to_string());
        let blobs = blobs.chain(known.values().map(|bundle| bundle.blob.clone()));
        blobs.map(|blob| meta_of(SEMVER, &blob)).collect()
    }

    /// Returns the default channel and the entries of each channel.
    fn channels(
        &self,
        lists: &[(&str, Vec<(Version, &str)>)],
    ) -> (String, BTreeMap<String, Vec<Value>>) {
        let mut channels: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        // Each channel, and what its first bundle ranks by.
        let mut firsts = Vec::new();
        for (stability, (word, list)) in lists.iter().enumerate() {
            for kind in self.kinds() {
                for (at, (version, name)) in list.iter().enumerate() {
                    let channel = match kind {
                        Kind::Major => format!("{word}-v{}", version.major),
                        Kind::Minor => format!("{word}-v{}.{}", version.major, version.minor),
                    };
                    if !channels.contains_key(&channel) {
                        let preferred = Some(kind) == self.defaultchanneltypepreference;
                        firsts.push((stability, version, (preferred, kind), channel.clone()));
                    }
                    let entry = entry(list, at, name);
                    channels.entry(channel).or_default().push(entry);
                }
            }
        }
        // As opm does: a candidate channel that begins before 0.0.0 never becomes the default.
        let is_least = |version: &Version| {
            (version.major, version.minor, version.patch) == (0, 0, 0)
                && !version.prerelease.is_empty()
        };
        firsts.retain(|(stability, version, ..)| *stability > 0 || !is_least(version));
        let highest = firsts.into_iter().max_by(|one, other| {
            let order = one.0.cmp(&other.0).then_with(|| one.1.precedence(other.1));
            order.then_with(|| one.2.cmp(&other.2))
        });
        (highest.map(|(.., name)| name).unwrap_or_default(), channels)
    }
}

/// Returns the entry of a bundle in the channels that have it: the last of a minor version replaces the
/// last of the one before, and skips all others of its major version.
fn entry(list: &[(Version, &str)], at: usize, name: &str) -> Value {
    let mut entry = json!({"name": name});
    let (version, _) = &list[at];
    let minor = |version: &Version| (version.major, version.minor);
    if list.get(at + 1).is_some_and(|(next, _)| minor(next) == minor(version)) {
        return entry;
    }
    let before = list[..at].iter().filter(|(other, _)| other.major == version.major);
    let earlier = before.clone().rfind(|(other, _)| other.minor != version.minor);
    let replaces = earlier.map(|(_, name)| *name);
    let skips: BTreeSet<_> =
        before.map(|(_, name)| *name).filter(|name| Some(*name) != replaces).collect();
    if let Some(replaces) = replaces {
        entry["replaces"] = json!(replaces);
    }
    if !skips.is_empty() {
        entry["skips"] = json!(skips);
    }
    entry
}

fn version(bundle: &CatalogBundle) -> Result<Version, String> {
    let blob: Value = serde_json::from_str(&bundle.blob).unwrap_or_default();
    let own = items(&blob["properties"]).filter(|it| it["type"] == property::PACKAGE);
    let own: Vec<_> = own.collect();
    let [own] = own.as_slice() else {
        let count = own.len();
        return Err(format!("{} has {count} properties {}", bundle.name, property::PACKAGE));
    };
    let text = own["value"]["version"].as_str().unwrap_or_default();
    text.parse::<Version>()
        .map_err(|error| format!("{} has version {}: {error}", bundle.name, quote(text)))
}

fn found<'a>(
    schema: &'static str,
    image: &str,
    bundles: &'a BTreeMap<String, CatalogBundle>,
) -> Result<&'a CatalogBundle, TemplateError> {
    let missing =
        || TemplateError { schema, reason: format!("bundle {} is missing", quote(image)) };
    bundles.get(image).ok_or_else(missing)
}

fn meta_of(schema: &'static str, blob: &str) -> Result<Meta, TemplateError> {
    Meta::parse(blob).map_err(|error| TemplateError { schema, reason: error.to_string() })
}

/// Returns the image of a blob that is a bundle.
fn image_of(meta: &Meta) -> Option<String> {
    if meta.schema != schema::BUNDLE {
        return None;
    }
    let blob: Value = serde_json::from_str(&meta.json).ok()?;
    member(&blob, "image").as_str().map(str::to_owned)
}

/// Returns a member, whose name opm reads without regard to case.
fn member<'a>(object: &'a Value, name: &str) -> &'a Value {
    let mut members = object.as_object().into_iter().flatten();
    members.find(|(key, _)| key.eq_ignore_ascii_case(name)).map_or(&Value::Null, |(_, value)| value)
}

/// Returns a value with the names of its members in lower case, without members that are null.
fn lowercase(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            let members = members.map(|(key, value)| (key.to_ascii_lowercase(), lowercase(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Array(list) => Value::Array(list.iter().map(lowercase).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
