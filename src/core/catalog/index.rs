//! The content of a catalog by package, ready for resolution.
//!
//! Blobs come in, in any order; of several with the same package, schema and name the last one
//! counts. A blob that does not have the shape of its schema makes its own package unusable and
//! no other (catalogs.md 1.8).

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::fields::{FieldError, Fields};
use super::lifecycle::{self, Lifecycle};
use super::model::{Bundle, Channel, Deprecations, Entry, schema};
use super::read::Meta;
use crate::error::{Chain, quote};
use crate::version::Version;

/// One blob: the three members every schema shares, and the whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob<'a> {
    /// Value of `schema`.
    pub schema: Cow<'a, str>,
    /// Value of `package`; empty for `olm.package`.
    pub package: Cow<'a, str>,
    /// Value of `name`; may be empty.
    pub name: Cow<'a, str>,
    /// The blob as JSON text.
    pub json: &'a str,
}

/// A line that is not a blob.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// It is not an object, or one of the shared members is not a string.
    #[error("blob {number}")]
    Malformed {
        /// Position among the blobs, from 1.
        number: usize,
        /// What is wrong with the blob.
        #[source]
        source: FieldError,
    },
}

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
    /// Where bundles stand in channels: channel and position, by bundle name.
    places: BTreeMap<String, Vec<(String, usize)>>,
}

impl<'a> From<&'a Meta> for Blob<'a> {
    fn from(meta: &'a Meta) -> Self {
        Self {
            schema: meta.schema.as_str().into(),
            package: meta.package.as_str().into(),
            name: meta.name.as_str().into(),
            json: &meta.json,
        }
    }
}

impl<'a> Blob<'a> {
    /// Reads the shared members of a blob.
    pub fn parse(json: &'a str) -> Result<Self, FieldError> {
        let fields = Fields::parse(json)?;
        Ok(Self {
            schema: fields.text("schema")?.into(),
            package: fields.text("package")?.into(),
            name: fields.text("name")?.into(),
            json,
        })
    }

    /// Returns the name of the package the blob belongs to.
    fn owner(&self) -> &str {
        if self.schema == schema::PACKAGE { &self.name } else { &self.package }
    }

    /// Returns what distinguishes the blob from others of its package and schema.
    fn key(&self) -> (String, String) {
        let name = if self.name.is_empty() { &self.schema } else { &self.name };
        (self.schema.to_string(), name.to_string())
    }
}

impl Content {
    /// Indexes JSON lines as a catalog server sends them; blank lines are skipped.
    ///
    /// A line that is not a blob fails the whole catalog, as it does upstream.
    pub fn from_lines<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, BlobError> {
        let lines = lines.into_iter().filter(|line| !line.trim().is_empty());
        let parse = |(index, line)| {
            Blob::parse(line).map_err(|source| BlobError::Malformed { number: index + 1, source })
        };
        let blobs: Vec<_> = lines.enumerate().map(parse).collect::<Result<_, _>>()?;
        Ok(Self::from_blobs(blobs))
    }

    /// Indexes blobs in catalog order; those of other schemas are left out.
    pub fn from_blobs<'a>(blobs: impl IntoIterator<Item = Blob<'a>>) -> Self {
        let known = [
            schema::PACKAGE,
            schema::CHANNEL,
            schema::BUNDLE,
            schema::DEPRECATIONS,
            lifecycle::SCHEMA,
        ];
        let mut packages: BTreeMap<String, BTreeMap<_, Blob<'a>>> = BTreeMap::new();
        for blob in blobs {
            if known.contains(&blob.schema.as_ref()) {
                let package = packages.entry(blob.owner().to_owned()).or_default();
                package.insert(blob.key(), blob);
            }
        }
        // What only says how long a package is supported does not offer it.
        packages.retain(|_, blobs| blobs.values().any(|blob| blob.schema != lifecycle::SCHEMA));
        let index = |(name, blobs): (String, BTreeMap<_, Blob<'_>>)| {
            let package = PackageIndex::new(&name, blobs.values());
            (name, package)
        };
        Self { packages: packages.into_iter().map(index).collect() }
    }

    /// Returns a package: nothing if the catalog does not have it, an error text if its blobs
    /// cannot be read.
    pub fn package(&self, name: &str) -> Option<Result<&PackageIndex, &str>> {
        let package = self.packages.get(name)?;
        Some(package.as_ref().map_err(String::as_str))
    }

    /// Returns every package with its name, in name order.
    pub fn packages(&self) -> impl Iterator<Item = (&str, Result<&PackageIndex, &str>)> {
        let packages = self.packages.iter();
        packages.map(|(name, package)| (name.as_str(), package.as_ref().map_err(String::as_str)))
    }
}

impl PackageIndex {
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

    /// Builds the index from the blobs of one package; the error text names the blob.
    fn new<'a>(name: &str, blobs: impl Iterator<Item = &'a Blob<'a>>) -> Result<Self, String> {
        let mut index = Self { name: name.to_owned(), ..Self::default() };
        for blob in blobs {
            index.add(blob).map_err(|error| {
                let (schema, name) = (&blob.schema, quote(&blob.name));
                format!("invalid {schema} {name}: {}", Chain(&error))
            })?;
        }
        index.bundles.sort_by(by_preference);
        for (channel, content) in &index.channels {
            for (position, entry) in content.entries.iter().enumerate() {
                let places = index.places.entry(entry.name.clone()).or_default();
                places.push((channel.clone(), position));
            }
        }
        Ok(index)
    }

    fn add(&mut self, blob: &Blob<'_>) -> Result<(), FieldError> {
        let fields = || Fields::parse(blob.json);
        match blob.schema.as_ref() {
            schema::PACKAGE => self.default_channel = fields()?.text("defaultChannel")?,
            schema::CHANNEL => {
                let channel = Channel::from_fields(&fields()?)?;
                self.channels.insert(blob.name.to_string(), channel);
            }
            schema::BUNDLE => self.bundles.push(Bundle::parse(blob.json)?),
            // A blob of deprecations has no name, or counts as named like its schema; others are
            // ignored.
            schema::DEPRECATIONS if blob.key().1 == schema::DEPRECATIONS => {
                self.deprecations = Some(Deprecations::from_fields(&fields()?)?);
            }
            lifecycle::SCHEMA => self.lifecycle = lifecycle::lifecycles(blob.json),
            _ => {}
        }
        Ok(())
    }
}

/// Orders bundles by descending version; those without one come last; equal ones by name.
fn by_preference(a: &Bundle, b: &Bundle) -> Ordering {
    let order = match (a.version(false), b.version(false)) {
        (Ok(a), Ok(b)) => b.precedence(a),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => Ordering::Equal,
    };
    order.then_with(|| a.name.cmp(&b.name))
}
