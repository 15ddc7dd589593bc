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
    pull_from_mirror: Option<PullFromMirror>,
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
            if self.mirror_by_digest_only && mirror.pull_from_mirror.is_some() {
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
        match mirror.pull_from_mirror {
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
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn parse(text: &str) -> Result<Registries, RegistriesError> {
        let mut registries = Registries::default();
        registries.add(Path::new("registries.conf"), text)?;
        Ok(registries)
    }

    fn images(registries: &Registries, image: &str) -> Vec<String> {
        let endpoints = registries.endpoints(&image.parse().unwrap()).unwrap();
        endpoints.iter().map(|e| e.image.to_string()).collect()
    }

    const MIRRORED: &str = r#"
        [[registry]]
        prefix = "quay.io/ns"
        location = "quay.io/ns"
        [[registry.mirror]]
        location = "digests.example.com/m"
        pull-from-mirror = "digest-only"
        [[registry.mirror]]
        location = "tags.example.com:5000/m/"
        insecure = true
        pull-from-mirror = "tag-only"
        [[registry.mirror]]
        location = "all.example.com"
    "#;

    // catalogs.md 5.4, O11
    #[test]
    fn mirrors_are_tried_in_order_and_the_origin_last() {
        let registries = parse(MIRRORED).unwrap();
        assert_eq!(
            images(&registries, "quay.io/ns/cat:v1"),
            [
                "tags.example.com:5000/m/cat:v1",
                "all.example.com/cat:v1",
                "quay.io/ns/cat:v1"
            ]
        );
        assert_eq!(
            images(&registries, &format!("quay.io/ns/cat@{DIGEST}")),
            [
                format!("digests.example.com/m/cat@{DIGEST}"),
                format!("all.example.com/cat@{DIGEST}"),
                format!("quay.io/ns/cat@{DIGEST}"),
            ]
        );
        let tagged = registries
            .endpoints(&"quay.io/ns/cat:v1".parse().unwrap())
            .unwrap();
        assert_eq!(
            tagged.iter().map(|e| e.insecure).collect::<Vec<_>>(),
            [true, false, false]
        );
    }

    #[rstest]
    #[case::no_entry("other.io/ns/cat:v1")]
    #[case::not_a_component("quay.io/nsx/cat:v1")]
    fn other_references_go_to_their_own_registry(#[case] image: &str) {
        assert_eq!(images(&parse(MIRRORED).unwrap(), image), [image]);
    }

    #[test]
    fn longest_prefix_wins_and_wildcards_match_subdomains() {
        let registries = parse(
            r#"
            [[registry]]
            prefix = "*.example.com"
            insecure = true
            [[registry]]
            location = "a.example.com/ns"
            blocked = true
            [[registry]]
            prefix = "old.io"
            location = "new.io/x"
            "#,
        )
        .unwrap();
        let endpoint = |image: &str| {
            registries
                .endpoints(&image.parse().unwrap())
                .unwrap()
                .remove(0)
        };
        assert!(endpoint("a.example.com:5000/b:1").insecure);
        assert!(endpoint("b.a.example.com/b:1").insecure);
        assert!(!endpoint("example.com/b:1").insecure);
        assert_eq!(
            endpoint("a.example.com/ns/b:1").blocked.as_deref(),
            Some("a.example.com/ns")
        );
        assert_eq!(endpoint("old.io/b:1").image.to_string(), "new.io/x/b:1");
    }

    #[test]
    fn mirror_by_digest_only_leaves_tags_alone() {
        let registries = parse(
            r#"
            [[registry]]
            location = "quay.io"
            mirror-by-digest-only = true
            [[registry.mirror]]
            location = "m.io"
            "#,
        )
        .unwrap();
        assert_eq!(images(&registries, "quay.io/a:1"), ["quay.io/a:1"]);
        assert_eq!(images(&registries, &format!("quay.io/a@{DIGEST}")).len(), 2);
    }

    #[rstest]
    #[case::version_1("[registries.search]\nregistries = ['a']")]
    #[case::scheme("[[registry]]\nlocation = 'http://a.io'")]
    #[case::nothing("[[registry]]\ninsecure = true")]
    #[case::prefix_only("[[registry]]\nprefix = 'a.io'")]
    #[case::inner_star("[[registry]]\nprefix = 'a.*.io'\nlocation = 'b.io'")]
    #[case::no_toml("[[registry")]
    #[case::both(
        "[[registry]]\nlocation='a.io'\nmirror-by-digest-only=true\n[[registry.mirror]]\nlocation='b.io'\npull-from-mirror='all'"
    )]
    fn malformed_configuration_is_an_error_naming_the_file(#[case] text: &str) {
        let err = parse(text).unwrap_err();
        assert!(err.to_string().contains("registries.conf"), "{err}");
    }

    // catalogs.md O15
    #[test]
    fn drop_ins_replace_entries_in_name_order() {
        let dir = tempfile::tempdir().unwrap();
        let drop_ins = dir.path().join("registries.conf.d");
        std::fs::create_dir(&drop_ins).unwrap();
        let entry = |to: &str| format!("[[registry]]\nprefix = 'a.io'\nlocation = '{to}'");
        std::fs::write(dir.path().join("registries.conf"), entry("one.io")).unwrap();
        std::fs::write(drop_ins.join("20.conf"), entry("three.io")).unwrap();
        std::fs::write(drop_ins.join("10.conf"), entry("two.io")).unwrap();
        std::fs::write(drop_ins.join("30.txt"), "not read").unwrap();
        let paths = RegistriesPaths {
            file: dir.path().join("registries.conf"),
            drop_ins: Some(drop_ins),
            required: true,
        };
        assert_eq!(
            images(&Registries::load(&paths).unwrap(), "a.io/x:1"),
            ["three.io/x:1"]
        );
    }

    #[test]
    fn missing_file_matters_only_when_it_was_named() {
        let missing = PathBuf::from("/nonexistent/registries.conf");
        assert!(Registries::load(&RegistriesPaths::new(Some(missing.clone()))).is_err());
        let system = RegistriesPaths {
            file: missing,
            drop_ins: Some("/nonexistent/d".into()),
            required: false,
        };
        assert_eq!(Registries::load(&system).unwrap(), Registries::default());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC{0,200}") {
            let _ = parse(&text);
        }
    }
}
