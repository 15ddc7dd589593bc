//! `registries.conf` version 2: where the content of a reference is really fetched from.
//!
//! Goes in: the configuration files and a reference. Comes out: the endpoints to try, mirrors
//! first and the place itself last. Nothing is contacted here, and no environment is read: the
//! binaries turn `CONTAINERS_REGISTRIES_CONF` into [`RegistriesPaths`].
//!
//! Source: containers-registries.conf(5), catalogs.md 5.4.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use olm_core::error::quote;
use serde::Deserialize;

use crate::reference::{ImageRef, ReferenceError};

/// The system's configuration file.
pub const SYSTEM_FILE: &str = "/etc/containers/registries.conf";
/// The system's drop-in directory.
pub const SYSTEM_DROP_INS: &str = "/etc/containers/registries.conf.d";

/// Where the configuration is read from, anew for each pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistriesPaths {
    /// The main file.
    pub file: PathBuf,
    /// Directory whose `*.conf` files are read after it, in the order of their names.
    pub drop_ins: Option<PathBuf>,
    /// Whether a missing main file is an error; it is when somebody named the file.
    pub required: bool,
}

impl RegistriesPaths {
    /// Returns the system's paths, or only `file` if somebody named one (the value of
    /// `CONTAINERS_REGISTRIES_CONF`).
    pub fn new(file: Option<PathBuf>) -> Self {
        match file {
            Some(file) => Self {
                file,
                drop_ins: None,
                required: true,
            },
            None => Self {
                file: SYSTEM_FILE.into(),
                drop_ins: Some(SYSTEM_DROP_INS.into()),
                required: false,
            },
        }
    }
}

impl Default for RegistriesPaths {
    fn default() -> Self {
        Self::new(None)
    }
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistriesError {
    /// A file or directory that exists cannot be read.
    #[error("loading registries configuration {}", quote(&path.display().to_string()))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file is no TOML of the expected shape.
    #[error("parsing registries configuration {}: {message}", quote(&path.display().to_string()))]
    Parse {
        /// The file.
        path: PathBuf,
        /// Reason without the file's content.
        message: String,
    },
    /// A file holds a table that means nothing sensible.
    #[error("invalid registries configuration {}: {message}", quote(&path.display().to_string()))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A mirror's location and the rest of the reference make no reference.
    #[error("rewriting reference {} to {}", quote(reference), quote(rewritten))]
    Rewrite {
        /// The reference that was asked for.
        reference: String,
        /// What the configuration turns it into.
        rewritten: String,
        /// Why that is none.
        #[source]
        source: ReferenceError,
    },
}

/// One place that may serve a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The reference there: registry, repository, tag or digest.
    pub image: ImageRef,
    /// Skip certificate verification and allow plain HTTP.
    pub insecure: bool,
    /// Refuse to contact it; holds the prefix of the entry that says so.
    pub blocked: Option<String>,
}

/// The merged configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registries {
    /// By prefix; a later file replaces the entry of an earlier one.
    entries: BTreeMap<String, Registry>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Registry {
    prefix: String,
    location: String,
    blocked: bool,
    insecure: bool,
    mirror_by_digest_only: bool,
    #[serde(rename = "mirror")]
    mirrors: Vec<Mirror>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Mirror {
    location: String,
    insecure: bool,
    #[serde(rename = "pull-from-mirror")]
    pull: Option<PullFromMirror>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PullFromMirror {
    All,
    DigestOnly,
    TagOnly,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    registry: Vec<Registry>,
    /// The table of version 1, which had no mirrors and another meaning.
    registries: Option<toml::Table>,
}

impl Registries {
    /// Reads and merges the files at `paths`. Missing system files are an empty configuration.
    pub fn load(paths: &RegistriesPaths) -> Result<Self, RegistriesError> {
        let mut merged = Self::default();
        match std::fs::read_to_string(&paths.file) {
            Ok(text) => merged.add(&paths.file, &text)?,
            Err(err) if err.kind() == io::ErrorKind::NotFound && !paths.required => {}
            Err(source) => return Err(read_error(&paths.file, source)),
        }
        for path in paths
            .drop_ins
            .as_deref()
            .map_or(Ok(vec![]), drop_in_files)?
        {
            let text = std::fs::read_to_string(&path).map_err(|err| read_error(&path, err))?;
            merged.add(&path, &text)?;
        }
        Ok(merged)
    }

    /// Merges one file's text; `path` is only named in errors.
    pub fn add(&mut self, path: &Path, text: &str) -> Result<(), RegistriesError> {
        let file: File = toml::from_str(text).map_err(|err| RegistriesError::Parse {
            path: path.to_owned(),
            message: err.message().to_owned(),
        })?;
        let invalid = |message: String| RegistriesError::Invalid {
            path: path.to_owned(),
            message,
        };
        if file.registries.is_some() {
            return Err(invalid("version 1 tables are not supported".into()));
        }
        for registry in file.registry {
            let registry = registry.checked().map_err(invalid)?;
            self.entries.insert(registry.prefix.clone(), registry);
        }
        Ok(())
    }

    /// Returns the endpoints for `image` in the order to try them; the last one is the place
    /// the reference itself names (or is relocated to).
    pub fn endpoints(&self, image: &ImageRef) -> Result<Vec<Endpoint>, RegistriesError> {
        let text = image.to_string();
        let found = self
            .entries
            .values()
            .filter_map(|registry| Some((registry, match_len(&text, &registry.prefix)?)))
            .max_by_key(|(registry, _)| registry.prefix.len());
        let Some((registry, matched)) = found else {
            return Ok(vec![Endpoint {
                image: image.clone(),
                insecure: false,
                blocked: None,
            }]);
        };
        let rest = &text[matched..];
        let mut endpoints = Vec::new();
        for mirror in &registry.mirrors {
            if registry.uses(mirror, image) {
                endpoints.push(Endpoint {
                    image: rewrite(&text, &mirror.location, rest)?,
                    insecure: mirror.insecure,
                    blocked: None,
                });
            }
        }
        let itself = if registry.location.is_empty() {
            image.clone()
        } else {
            rewrite(&text, &registry.location, rest)?
        };
        endpoints.push(Endpoint {
            image: itself,
            insecure: registry.insecure,
            blocked: registry.blocked.then(|| registry.prefix.clone()),
        });
        Ok(endpoints)
    }
}

impl Registry {
    /// Normalizes the entry, or says what is wrong with it.
    fn checked(mut self) -> Result<Self, String> {
        self.location = location(&self.location)?;
        self.prefix = self.prefix.trim_end_matches('/').to_owned();
        if self.prefix.is_empty() {
            if self.location.is_empty() {
                return Err("a registry has neither prefix nor location".into());
            }
            self.prefix.clone_from(&self.location);
        }
        let wildcard = self.prefix.starts_with("*.");
        if self.location.is_empty() && !wildcard {
            return Err(format!(
                "registry {} has no location and its prefix is not of the form *.example.com",
                quote(&self.prefix)
            ));
        }
        if self.prefix.contains('*') && (!wildcard || self.prefix[1..].contains(['*', '/'])) {
            return Err(format!("prefix {} is invalid", quote(&self.prefix)));
        }
        for mirror in &mut self.mirrors {
            mirror.location = location(&mirror.location)?;
            if mirror.location.is_empty() {
                return Err(format!(
                    "a mirror of {} has no location",
                    quote(&self.prefix)
                ));
            }
            if self.mirror_by_digest_only && mirror.pull.is_some() {
                return Err(format!(
                    "mirror-by-digest-only and pull-from-mirror are both set for {}",
                    quote(&self.prefix)
                ));
            }
        }
        Ok(self)
    }

    fn uses(&self, mirror: &Mirror, image: &ImageRef) -> bool {
        let by_digest = image.digest().is_some();
        match mirror.pull {
            None => by_digest || !self.mirror_by_digest_only,
            Some(PullFromMirror::All) => true,
            Some(PullFromMirror::DigestOnly) => by_digest,
            Some(PullFromMirror::TagOnly) => !by_digest,
        }
    }
}

fn location(text: &str) -> Result<String, String> {
    if text.contains("://") {
        return Err(format!("location {} must not have a scheme", quote(text)));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn rewrite(reference: &str, location: &str, rest: &str) -> Result<ImageRef, RegistriesError> {
    let rewritten = format!("{location}{rest}");
    rewritten
        .parse()
        .map_err(|source| RegistriesError::Rewrite {
            reference: reference.to_owned(),
            rewritten,
            source,
        })
}

/// Returns how many bytes of `reference` the prefix covers, if it ends on a component boundary.
fn match_len(reference: &str, prefix: &str) -> Option<usize> {
    let end = match prefix.strip_prefix('*') {
        Some(domain) => {
            let host = reference.find(['/', ':'])?;
            reference[..host].ends_with(domain).then_some(host)?
        }
        None => reference.starts_with(prefix).then_some(prefix.len())?,
    };
    let boundary = matches!(
        reference.as_bytes().get(end),
        None | Some(b'/' | b':' | b'@')
    );
    boundary.then_some(end)
}

fn drop_in_files(directory: &Path) -> Result<Vec<PathBuf>, RegistriesError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(source) => return Err(read_error(directory, source)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|err| read_error(directory, err))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "conf")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_error(path: &Path, source: io::Error) -> RegistriesError {
    RegistriesError::Read {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests;
