//! The content of a catalog by package, ready for resolution.
//!
//! Blobs come in, in any order; of several with the same package, schema and name the last one
//! counts. A blob that does not have the shape of its schema makes its own package unusable and
//! no other (catalogs.md 1.8).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::fields::{FieldError, Fields};
use super::lifecycle::{self, Lifecycle};
use super::model::{Bundle, Channel, Deprecation, Deprecations, Entry, schema};
use super::property::Property;
use super::read::Meta;
use crate::error::{Chain, quote};
use crate::version::Version;

/// What a short text takes in memory.
const NAME: usize = size_of::<String>() + 16;
/// How many times its length a text takes with what is parsed of it.
const PARSED: usize = 4;

/// The content of a catalog.
#[derive(Debug, Clone, Default)]
pub struct Content {
    packages: BTreeMap<String, Result<PackageIndex, String>>,
}

/// A package of a catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageIndex {
    /// Name of the package.
    pub name: String,
    /// The channel its author suggests; resolution ignores it.
    pub default_channel: String,
    /// Its channels by name.
    pub channels: BTreeMap<String, Channel>,
    /// Its bundles, the highest version first; those without a version last; equal ones by name.
    pub bundles: Vec<Bundle>,
    /// Its deprecations, if the catalog holds a blob of them.
    pub deprecations: Option<Deprecations>,
    /// Until when its minor versions are supported, where the catalog says so.
    pub lifecycle: Vec<Lifecycle>,
    /// Positions of the bundles, ordered by name.
    by_name: Vec<usize>,
    /// Where bundles stand in channels: channel and position, by bundle name.
    places: BTreeMap<String, Vec<(String, usize)>>,
}

/// The data of the blobs that were read so far. Their texts, of which resolution uses little, are
/// not kept.
#[derive(Debug, Default)]
pub struct Parts {
    packages: BTreeMap<String, BTreeMap<(String, String), ReadPart>>,
    /// How many blobs were read.
    read: usize,
}

/// What a blob adds to its package, or what is wrong with it.
type ReadPart = Result<Part, String>;

#[derive(Debug)]
enum Part {
    /// Its default channel.
    Head(String),
    Channel(String, Channel),
    Bundle(Box<Bundle>),
    /// With what decides between several: those of the highest number count.
    Deprecations(usize, Deprecations),
    Lifecycle(Vec<Lifecycle>),
}

impl Part {
    /// Reads a blob, the one at `position` in the catalog; nothing of another schema.
    fn of(blob: &Meta, position: usize) -> Result<Option<Self>, FieldError> {
        let fields = || Fields::of(&blob.json);
        Ok(Some(match blob.schema.as_str() {
            schema::PACKAGE => Self::Head(fields()?.text("defaultChannel")?),
            schema::CHANNEL => Self::Channel(blob.name.clone(), Channel::from_fields(&fields()?)?),
            schema::BUNDLE => Self::Bundle(Box::new(Bundle::parse(&blob.json)?)),
            schema::DEPRECATIONS => {
                // The one without a name, or named like its schema, goes before any other.
                let unnamed = key(blob).1 == schema::DEPRECATIONS;
                let rank = if unnamed { usize::MAX } else { position };
                Self::Deprecations(rank, Deprecations::from_fields(&fields()?)?)
            }
            lifecycle::SCHEMA => Self::Lifecycle(lifecycle::lifecycles(&blob.json)),
            _ => return Ok(None),
        }))
    }
}

/// Returns what distinguishes a blob from others of its package: schema and name.
fn key(blob: &Meta) -> (String, String) {
    let name = if blob.name.is_empty() { &blob.schema } else { &blob.name };
    (blob.schema.clone(), name.clone())
}

impl Parts {
    /// Adds the next blob in catalog order; one of another schema is left out.
    pub fn add(&mut self, blob: &Meta) {
        self.read += 1;
        let part = Part::of(blob, self.read).map_err(|error| {
            let (schema, name) = (&blob.schema, quote(&blob.name));
            format!("invalid {schema} {name}: {}", Chain(&error))
        });
        if let Some(part) = part.transpose() {
            let package = self.packages.entry(blob.owner().to_owned()).or_default();
            package.insert(key(blob), part);
        }
    }

    /// Returns the content that the blobs make.
    pub fn content(mut self) -> Content {
        // What only says how long a package is supported does not offer it.
        self.packages
            .retain(|_, parts| parts.keys().any(|(schema, _)| schema != lifecycle::SCHEMA));
        let packages = self.packages.into_iter().map(|(name, parts)| {
            let package = PackageIndex::new(&name, parts.into_values());
            (name, package)
        });
        Content { packages: packages.collect() }
    }
}

impl Content {
    /// Indexes blobs in catalog order; those of other schemas are left out.
    pub fn from_blobs<'a>(blobs: impl IntoIterator<Item = &'a Meta>) -> Self {
        let mut parts = Parts::default();
        for blob in blobs {
            parts.add(blob);
        }
        parts.content()
    }

    /// Returns packages of which only the names are known.
    pub fn of_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let empty = |name: &str| PackageIndex { name: name.to_owned(), ..PackageIndex::default() };
        let packages = names.into_iter().map(|name| (name.to_owned(), Ok(empty(name))));
        Self { packages: packages.collect() }
    }

    /// Returns a package: nothing if the catalog does not have it, an error text if its blobs
    /// cannot be read.
    pub fn package(&self, name: &str) -> Option<Result<&PackageIndex, &str>> {
        let package = self.packages.get(name)?;
        Some(package.as_ref().map_err(String::as_str))
    }

    /// Returns about how much memory the content takes.
    pub fn bytes(&self) -> usize {
        let size = |package: &Result<PackageIndex, String>| {
            package.as_ref().map_or_else(String::len, PackageIndex::bytes)
        };
        self.packages.values().map(size).sum()
    }

    /// Returns every package with its name, in name order.
    pub fn packages(&self) -> impl Iterator<Item = (&str, Result<&PackageIndex, &str>)> {
        let packages = self.packages.iter();
        packages.map(|(name, package)| (name.as_str(), package.as_ref().map_err(String::as_str)))
    }
}

impl PackageIndex {
    /// Returns a bundle by its name.
    pub fn bundle(&self, name: &str) -> Option<&Bundle> {
        Some(&self.bundles[self.position(name)?])
    }

    /// Returns where a bundle stands in the order of the package.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        let named = |position: &usize| self.bundles[*position].name.as_str().cmp(name);
        let found = self.by_name.binary_search_by(named).ok()?;
        Some(self.by_name[found])
    }

    /// Returns the entries of a bundle with their channels, in channel order.
    pub fn entries_of(&self, bundle: &str) -> impl Iterator<Item = (&str, &Entry)> {
        let places = self.places.get(bundle).into_iter().flatten();
        places.filter_map(|(name, position)| {
            let entry = self.channels.get(name)?.entries.get(*position)?;
            Some((name.as_str(), entry))
        })
    }

    /// Says whether the package's deprecations list a bundle.
    pub fn is_deprecated(&self, bundle: &str) -> bool {
        let deprecations = self.deprecations.as_ref();
        deprecations.is_some_and(|deprecations| deprecations.has_bundle(bundle))
    }

    /// Returns the support of a version, where it is known.
    pub fn lifecycle_of(&self, version: &Version) -> Option<&Lifecycle> {
        self.lifecycle.iter().find(|lifecycle| lifecycle.covers(version))
    }

    /// Returns about how much memory the index takes; the texts of short values are the least of it.
    fn bytes(&self) -> usize {
        let entry = |it: &Entry| {
            let skips: usize = it.skips.iter().map(|name| NAME + name.len()).sum();
            let range = it.skip_range.as_ref().map_or(0, |range| PARSED * range.text.len());
            // Beside it is its place.
            2 * (size_of::<Entry>() + it.name.len()) + it.replaces.len() + skips + range
        };
        let property =
            |it: &Property| size_of::<Property>() + it.kind.len() + PARSED * it.value.len();
        let bundle = |it: &Bundle| {
            let properties: usize = it.properties.iter().map(property).sum();
            let place = size_of::<usize>();
            size_of::<Bundle>() + it.name.len() + it.image.len() + properties + place
        };
        let deprecation = |it: &Deprecation| 3 * NAME + it.name.len() + it.message.len();
        let lifecycle = |it: &Lifecycle| {
            let versions = it.platform_compatibility.iter().map(|it| 2 + it.versions.len());
            NAME * (1 + 3 * it.phases.len() + versions.sum::<usize>())
        };
        let entries = self.channels.values().flat_map(|channel| &channel.entries);
        let deprecations = self.deprecations.iter().flat_map(|it| &it.entries);
        let sizes = entries.map(entry).chain(self.bundles.iter().map(bundle));
        let sizes = sizes.chain(deprecations.map(deprecation));
        sizes.chain(self.lifecycle.iter().map(lifecycle)).sum()
    }

    /// Builds the index from the parts of one package; fails with what is wrong with the first of them.
    fn new(name: &str, parts: impl Iterator<Item = ReadPart>) -> Result<Self, String> {
        let mut index = Self { name: name.to_owned(), ..Self::default() };
        let mut best = 0;
        for part in parts {
            match part? {
                Part::Head(default_channel) => index.default_channel = default_channel,
                Part::Channel(name, channel) => drop(index.channels.insert(name, channel)),
                Part::Bundle(bundle) => index.bundles.push(*bundle),
                Part::Deprecations(rank, deprecations) if rank > best => {
                    index.deprecations = Some(deprecations);
                    best = rank;
                }
                Part::Deprecations(..) => {}
                Part::Lifecycle(lifecycle) => index.lifecycle = lifecycle,
            }
        }
        index.bundles.sort_by(by_preference);
        index.by_name = (0..index.bundles.len()).collect();
        index.by_name.sort_by_key(|position| index.bundles[*position].name.as_str());
        for (channel, content) in &index.channels {
            for (position, entry) in content.entries.iter().enumerate() {
                let places = index.places.entry(entry.name.clone()).or_default();
                places.push((channel.clone(), position));
            }
        }
        Ok(index)
    }
}

/// Orders bundles by descending version; those without one come last; equal ones by name.
fn by_preference(a: &Bundle, b: &Bundle) -> Ordering {
    a.before(b, false).then_with(|| a.name.cmp(&b.name))
}
