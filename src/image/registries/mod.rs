//! `registries.conf` version 2: where a reference is actually fetched from.
//!
//! In: the configuration files and a reference. Out: the endpoints to try, mirrors first and the
//! origin last. No registry is contacted here, and no environment is read: the binaries turn
//! `CONTAINERS_REGISTRIES_CONF` into [`RegistriesPaths`].
//!
//! Source: containers-registries.conf(5), catalogs.md 5.4.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use olm_core::error::quote;

use crate::folder::{self, FileError, present};
use crate::reference::{ImageRef, ReferenceError};

pub mod cluster;
mod file;

/// The system's configuration file.
pub const SYSTEM_FILE: &str = "/etc/containers/registries.conf";
/// The system's drop-in directory.
pub const SYSTEM_DROP_INS: &str = "/etc/containers/registries.conf.d";

/// The name of a text that is not from a file.
const GIVEN: &str = "of the cluster";

/// Paths of the configuration, which is read again for each pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistriesPaths {
    pub file: PathBuf,
    /// Directories whose `*.conf` files are read after it, in the order of their names; of files with
    /// the same name that of the last directory.
    pub drop_ins: Vec<PathBuf>,
    /// Whether a missing main file is an error; it is when a user named the file.
    pub required: bool,
    /// Texts that are read after the files.
    pub more: Vec<String>,
}

impl RegistriesPaths {
    /// Returns the system's paths, or only `file` if a user named one (the value of
    /// `CONTAINERS_REGISTRIES_CONF`).
    pub fn new(file: Option<PathBuf>) -> Self {
        Self {
            required: file.is_some(),
            drop_ins: file.is_none().then(|| SYSTEM_DROP_INS.into()).into_iter().collect(),
            file: file.unwrap_or_else(|| SYSTEM_FILE.into()),
            more: Vec::new(),
        }
    }
}

impl Default for RegistriesPaths {
    fn default() -> Self {
        Self::new(None)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RegistriesError {
    #[error(transparent)]
    Read(#[from] FileError),
    /// A file is not valid TOML, or a setting in it is invalid; holds the file and why.
    #[error("invalid registries configuration {0}")]
    Invalid(String),
    /// A mirror's location and the rest of the reference do not form a reference; holds both and the
    /// place.
    #[error("rewriting reference {0}")]
    Rewrite(String, #[source] Box<ReferenceError>),
}

/// An endpoint that may serve a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The reference at the endpoint: registry, repository, tag or digest.
    pub image: ImageRef,
    /// Whether to skip certificate verification and allow plain HTTP.
    pub insecure: bool,
    /// If set, do not contact it; holds the prefix of the entry that blocks it.
    pub blocked: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registries {
    /// Entries by prefix; a later file replaces the entry of an earlier one.
    entries: BTreeMap<String, Registry>,
}

/// A `[[registry]]` entry after validation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Registry {
    /// Path of its file.
    path: PathBuf,
    /// Prefix of references it applies to; never matches when it is empty.
    prefix: String,
    /// The location to pull from; empty with a wildcard prefix, for the location in the reference.
    location: String,
    blocked: bool,
    insecure: bool,
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
            Err(error) => return Err(unread(&paths.file)(error).into()),
        }
        let mut drop_ins = BTreeMap::new();
        for directory in &paths.drop_ins {
            let files = drop_in_files(directory)?.into_iter();
            drop_ins.extend(files.map(|path| (path.file_name().map(ToOwned::to_owned), path)));
        }
        for path in drop_ins.into_values() {
            // The file may have been removed after the directory was read.
            let text = present(std::fs::read_to_string(&path));
            if let Some(text) = text.map_err(unread(&path))? {
                merged.add(&path, &text)?;
            }
        }
        for text in &paths.more {
            merged.add(Path::new(GIVEN), text)?;
        }
        Ok(merged)
    }

    /// Merges one file's text: its entries replace those of earlier files with the same prefix.
    /// Nothing from a file with an error is used.
    fn add(&mut self, path: &Path, text: &str) -> Result<(), RegistriesError> {
        let registries = file::parse(text).map_err(|why| {
            let file = quote(&path.display().to_string());
            RegistriesError::Invalid(format!("{file}: {why}"))
        })?;
        for mut registry in registries {
            path.clone_into(&mut registry.path);
            self.entries.insert(registry.prefix.clone(), registry);
        }
        Ok(())
    }

    /// Returns the endpoints for `image` in the order to try them; the last one is the location
    /// that the reference itself names (or is relocated to).
    pub fn endpoints(&self, image: &ImageRef) -> Result<Vec<Endpoint>, RegistriesError> {
        let Some((registry, matched)) = self.find(image) else {
            return Ok(vec![Endpoint { image: image.clone(), insecure: false, blocked: None }]);
        };
        let mut endpoints = Vec::new();
        for mirror in &registry.mirrors {
            if mirror.serves(image) {
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

    /// Returns whether the registry of a reference may be used without TLS or with an untrusted
    /// certificate: pushes go there, regardless of mirrors.
    pub fn is_insecure(&self, image: &ImageRef) -> bool {
        self.find(image).is_some_and(|(registry, _)| registry.insecure)
    }

    /// Returns the entry with the longest prefix of an image's reference, and how much of the
    /// reference that covers. Of two equally long ones the smaller counts.
    ///
    /// A prefix may end in a tag or a digest. Where an image has both, either is enough: an entry
    /// that blocks one of them blocks the image.
    fn find(&self, image: &ImageRef) -> Option<(&Registry, usize)> {
        let reference = image.to_string();
        let by_digest = image.digest().map(|digest| format!("{}@{digest}", image.name()));
        let covered = |prefix: &str| {
            let by_digest = by_digest.as_ref().filter(|it| *it == prefix).map(|_| reference.len());
            match_len(&reference, prefix).or(by_digest)
        };
        let matching = self.entries.values().rev();
        matching
            .filter_map(|registry| Some((registry, covered(&registry.prefix)?)))
            .max_by_key(|(registry, _)| registry.prefix.len())
    }

    /// Returns the prefix of the entry that blocks the location of an image, even if a mirror
    /// points there.
    fn blocks(&self, image: &ImageRef) -> Option<String> {
        let (registry, _) = self.find(image)?;
        registry.blocked.then(|| registry.prefix.clone())
    }
}

impl Mirror {
    fn serves(&self, image: &ImageRef) -> bool {
        match self.pull {
            PullFromMirror::All => true,
            PullFromMirror::DigestOnly => image.digest().is_some(),
            PullFromMirror::TagOnly => image.digest().is_none(),
        }
    }
}

impl Registry {
    /// The location its settings are about; several prefixes may have one location.
    fn place(&self) -> &str {
        if self.location.is_empty() { &self.prefix } else { &self.location }
    }

    /// Replaces the first `matched` bytes of a reference by `location`. Where neither names a
    /// version then, because the prefix ended in it, that of the image stays.
    fn rewrite(
        &self,
        image: &ImageRef,
        location: &str,
        matched: usize,
    ) -> Result<ImageRef, RegistriesError> {
        let reference = image.to_string();
        let mut rewritten = format!("{location}{}", &reference[matched..]);
        if let Err(ReferenceError::NoVersion(_)) = rewritten.parse::<ImageRef>() {
            rewritten.push_str(&reference[image.name().len()..]);
        }
        rewritten.parse().map_err(|source| {
            let file = quote(&self.path.display().to_string());
            let [from, to, of] = [&reference, &rewritten, &self.prefix].map(|it| quote(it));
            let what = format!("{from} to {to} for registry {of} of configuration {file}");
            RegistriesError::Rewrite(what, Box::new(source))
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
    matches!(reference.as_bytes().get(end), None | Some(b'/' | b':' | b'@')).then_some(end)
}

fn drop_in_files(directory: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut files = folder::paths(directory).map_err(unread(directory))?;
    files.retain(|path| {
        let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
        !is_folder && path.as_os_str().as_encoded_bytes().ends_with(b".conf")
    });
    Ok(files)
}

fn unread(path: &Path) -> impl Fn(io::Error) -> FileError + use<> {
    FileError::doing("loading registries configuration", path)
}

#[cfg(test)]
mod tests;
