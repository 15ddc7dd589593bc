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

use crate::reference::{ImageRef, ReferenceError};

mod alias;
mod file;
mod table;

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
    /// A file says something that no tool may take for its meaning.
    #[error("invalid registries configuration {}, line {line}: {message}", quote(&path.display().to_string()))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// A mirror's location and the rest of the reference make no reference.
    #[error(
        "rewriting reference {} to {} for registries configuration {}, line {line}",
        quote(reference),
        quote(rewritten),
        quote(&path.display().to_string())
    )]
    Rewrite {
        /// The file.
        path: PathBuf,
        /// The line in which the registry begins.
        line: usize,
        /// The reference that was asked for.
        reference: String,
        /// What the configuration turns it into.
        rewritten: String,
        /// Why that is none.
        #[source]
        source: Box<ReferenceError>,
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

/// A `[[registry]]`, with nothing left to check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Registry {
    /// The file it is from, and the line it begins in.
    path: PathBuf,
    line: usize,
    /// Never matches when it is empty.
    prefix: String,
    /// Empty with a wildcard for a prefix: the place the reference names.
    location: String,
    blocked: bool,
    insecure: bool,
    mirror_by_digest_only: bool,
    mirrors: Vec<Mirror>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mirror {
    location: String,
    insecure: bool,
    pull: PullFromMirror,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PullFromMirror {
    All,
    DigestOnly,
    TagOnly,
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
        let drop_ins = paths.drop_ins.as_deref().map(drop_in_files);
        for path in drop_ins.transpose()?.unwrap_or_default() {
            match std::fs::read_to_string(&path) {
                Ok(text) => merged.add(&path, &text)?,
                // It was removed since the directory was read.
                Err(err) if err.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(read_error(&path, source)),
            }
        }
        Ok(merged)
    }

    /// Merges one file's text: its entries replace those of earlier files with the same prefix.
    /// Nothing of a file with a fault is used.
    fn add(&mut self, path: &Path, text: &str) -> Result<(), RegistriesError> {
        let registries = file::parse(text).map_err(|fault| RegistriesError::Invalid {
            path: path.to_owned(),
            line: fault.line,
            message: fault.message,
        })?;
        for mut registry in registries {
            path.clone_into(&mut registry.path);
            self.entries.insert(registry.prefix.clone(), registry);
        }
        Ok(())
    }

    /// Returns the endpoints for `image` in the order to try them; the last one is the place
    /// the reference itself names (or is relocated to).
    pub fn endpoints(&self, image: &ImageRef) -> Result<Vec<Endpoint>, RegistriesError> {
        let Some((registry, matched)) = self.find(image) else {
            return Ok(vec![Endpoint {
                image: image.clone(),
                insecure: false,
                blocked: None,
            }]);
        };
        let mut endpoints = Vec::new();
        for mirror in &registry.mirrors {
            if registry.uses(mirror, image) {
                let image = registry.rewrite(image, &mirror.location, matched)?;
                endpoints.push(Endpoint {
                    blocked: self.blocks(&image),
                    insecure: mirror.insecure,
                    image,
                });
            }
        }
        let itself = if registry.location.is_empty() {
            image.clone()
        } else {
            registry.rewrite(image, &registry.location, matched)?
        };
        let blocked = registry.blocked.then(|| registry.prefix.clone());
        endpoints.push(Endpoint {
            blocked: blocked.or_else(|| self.blocks(&itself)),
            insecure: registry.insecure,
            image: itself,
        });
        Ok(endpoints)
    }

    /// Returns the entry with the longest prefix of an image's name, and how much of the name that
    /// covers. Of two equally long ones the smaller decides.
    fn find(&self, image: &ImageRef) -> Option<(&Registry, usize)> {
        let name = image.name();
        let matching = self.entries.values().rev();
        matching
            .filter_map(|registry| Some((registry, match_len(&name, &registry.prefix)?)))
            .max_by_key(|(registry, _)| registry.prefix.len())
    }

    /// Returns the prefix of the entry that forbids to contact the place an image is at, whoever
    /// led there: a mirror may lie in a registry that is blocked.
    fn blocks(&self, image: &ImageRef) -> Option<String> {
        let (registry, _) = self.find(image)?;
        registry.blocked.then(|| registry.prefix.clone())
    }
}

impl Registry {
    /// What its settings are about; several prefixes may lead to one place.
    fn place(&self) -> &str {
        if self.location.is_empty() {
            &self.prefix
        } else {
            &self.location
        }
    }

    fn uses(&self, mirror: &Mirror, image: &ImageRef) -> bool {
        let by_digest = image.digest().is_some();
        let allowed = match mirror.pull {
            PullFromMirror::All => true,
            PullFromMirror::DigestOnly => by_digest,
            PullFromMirror::TagOnly => !by_digest,
        };
        allowed && (by_digest || !self.mirror_by_digest_only)
    }

    /// Puts `location` in the place of the first `matched` bytes of a reference.
    fn rewrite(
        &self,
        image: &ImageRef,
        location: &str,
        matched: usize,
    ) -> Result<ImageRef, RegistriesError> {
        let reference = image.to_string();
        let rewritten = format!("{location}{}", &reference[matched..]);
        rewritten
            .parse()
            .map_err(|source| RegistriesError::Rewrite {
                path: self.path.clone(),
                line: self.line,
                reference,
                rewritten,
                source: Box::new(source),
            })
    }
}

/// Returns how many bytes of a name the prefix covers, if it ends on a component boundary.
fn match_len(reference: &str, prefix: &str) -> Option<usize> {
    let wildcard = prefix.strip_prefix('*').filter(|it| it.starts_with('.'));
    let end = match wildcard {
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
        let entry = entry.map_err(|err| read_error(directory, err))?;
        let kind = entry
            .file_type()
            .map_err(|err| read_error(&entry.path(), err))?;
        if !kind.is_dir() && entry.file_name().as_encoded_bytes().ends_with(b".conf") {
            files.push(entry.path());
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
