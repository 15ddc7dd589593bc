//! `registries.d`: in which repositories signatures are looked for.
//!
//! In: the directory and the place an image comes from. Out: whether the registry is asked for
//! signatures beside the image. Where other signatures are kept (`lookaside`) is not read: those of
//! GnuPG are not verified.
//!
//! Source: containers-registries.d(5), `containers/image` (`registries_d.go`).

use std::collections::BTreeMap;
use std::path::Path;

use olm_core::error::quote;
use olm_core::yaml;
use serde::Deserialize;

use crate::folder::{self, FileError, present};
use crate::policy::PolicyError;
use crate::reference::ImageRef;

/// The files of the directory, merged.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Attachments {
    default: Option<Namespace>,
    docker: BTreeMap<String, Namespace>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    default_docker: Option<Namespace>,
    docker: Option<BTreeMap<String, Option<Namespace>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Namespace {
    use_sigstore_attachments: Option<bool>,
}

impl Attachments {
    /// Reads the files of a directory, which need not exist.
    pub(crate) fn load(directory: &Path) -> Result<Self, PolicyError> {
        let mut merged = Self::default();
        for path in folder::paths(directory).map_err(FileError::doing("reading", directory))? {
            if !path.as_os_str().as_encoded_bytes().ends_with(b".yaml") {
                continue;
            }
            // It may have been removed after the directory was read.
            let text = present(std::fs::read_to_string(&path));
            if let Some(text) = text.map_err(FileError::doing("reading", &path))? {
                let named = quote(&path.display().to_string());
                let what = "invalid configuration of signatures";
                let invalid = |why| PolicyError::Invalid(format!("{what} {named}: {why}"));
                merged.add(&text).map_err(invalid)?;
            }
        }
        Ok(merged)
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        if let Some((key, line, _)) = yaml::repeated_keys(text).first() {
            return Err(format!("{} is given twice, again in line {line}", quote(key)));
        }
        let documents = yaml::to_json(text).map_err(|error| error.to_string())?;
        let Some(document) = documents.into_iter().next() else { return Ok(()) };
        let file: File = serde_json::from_value(document).map_err(|error| error.to_string())?;
        if let Some(default) = file.default_docker
            && self.default.replace(default).is_some()
        {
            return Err("another file sets \"default-docker\", too".to_owned());
        }
        for (scope, namespace) in file.docker.unwrap_or_default() {
            let said = format!("another file sets {} of \"docker\", too", quote(&scope));
            if self.docker.insert(scope, namespace.unwrap_or_default()).is_some() {
                return Err(said);
            }
        }
        Ok(())
    }

    /// Returns whether signatures are read beside the images of a repository. The most specific
    /// scope with a setting decides.
    pub(crate) fn are_used(&self, image: &ImageRef) -> bool {
        let scopes = image.scopes();
        let of_scopes = scopes.iter().filter_map(|scope| self.docker.get(scope));
        of_scopes.chain(&self.default).find_map(|it| it.use_sigstore_attachments).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The rest: testdata/signatures.toml.
    #[test]
    fn no_directory_is_no_error() {
        assert_eq!(Attachments::load(Path::new("/nowhere")).unwrap(), Attachments::default());
    }
}
