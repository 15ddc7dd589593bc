//! The credentials container tools keep for the user who runs them.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs, io};

use olm_core::error::Chain;

use crate::auth::Credentials;
use crate::keyring::{Keyring, Source};

/// Name of the file of containers' tools, below the folders they look in.
const CONTAINERS: &str = "containers/auth.json";

/// A file with credentials cannot be read, or holds something else.
#[derive(Debug, thiserror::Error)]
#[error("reading {}", path.display())]
pub struct AuthFileError {
    path: PathBuf,
    #[source]
    source: Box<dyn Error + Send + Sync>,
}

/// The file that a flag of this process names; see [`name`].
static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// Lets [`AuthFiles::of_process`] read this file and no other. Counts once, as the environment does:
/// for the whole process.
pub fn name(file: PathBuf) {
    let _ = NAMED.set(file);
}

/// Files with credentials, which are read again by each pull.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthFiles {
    /// The files; of equal keys that of the last one counts.
    pub paths: Vec<PathBuf>,
    /// Whether a missing file is an error; it is when a flag names it.
    pub required: bool,
}

impl AuthFiles {
    /// Returns the file that a flag names, else that of `REGISTRY_AUTH_FILE`, else Docker's file
    /// and over it those of containers' tools, that of the login session last.
    pub fn of_user(named: Option<PathBuf>) -> Self {
        let required = named.is_some();
        let paths = match named.or_else(|| set("REGISTRY_AUTH_FILE")) {
            Some(file) => vec![file],
            None => [
                (set("DOCKER_CONFIG").or_else(|| at_home(".docker")), "config.json"),
                (user_config(), CONTAINERS),
                (set("XDG_RUNTIME_DIR"), CONTAINERS),
            ]
            .into_iter()
            .filter_map(|(folder, file)| Some(folder?.join(file)))
            .collect(),
        };
        Self { paths, required }
    }

    /// Returns those of the user with the file that a flag of this process [names](name), if it does.
    /// Fails if that one cannot be used.
    pub fn of_process() -> Result<Self, AuthFileError> {
        let files = Self::of_user(NAMED.get().cloned());
        if files.required {
            files.read().try_for_each(|it| it.map(drop))?;
        }
        Ok(files)
    }

    /// Reads the files that are there, each with its path.
    fn read(&self) -> impl Iterator<Item = Result<(&Path, Credentials), AuthFileError>> {
        self.paths.iter().filter_map(|path| {
            let read = match fs::read(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && !self.required => {
                    return None;
                }
                Err(error) => Err(error.into()),
                // As for Docker; `/dev/null` is one, too.
                Ok(content) if content.trim_ascii().is_empty() => return None,
                Ok(content) => Credentials::parse(&content).map_err(Into::into),
            };
            let failed = |source| AuthFileError { path: path.clone(), source };
            Some(read.map(|credentials| (path.as_path(), credentials)).map_err(failed))
        })
    }

    /// Returns the present content of the files as the only source.
    pub fn keyring(&self) -> Keyring {
        Keyring::new([self.source()])
    }

    /// Returns the present content of the files; an unusable file is reported where a credential is
    /// missing.
    pub(crate) fn source(&self) -> Source {
        let mut source = Source::default();
        for file in self.read() {
            match file {
                Ok((path, credentials)) => source.add(path.display().to_string(), credentials),
                Err(error) => source.add_fault(Chain(&error).to_string()),
            }
        }
        source
    }
}

/// Returns the folder of the user's own configuration, if it is known.
pub fn user_config() -> Option<PathBuf> {
    set("XDG_CONFIG_HOME").or_else(|| at_home(".config"))
}

fn at_home(folder: &str) -> Option<PathBuf> {
    Some(set("HOME")?.join(folder))
}

/// Returns the path in an environment variable, if it has one.
fn set(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_has_no_credentials() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(AuthFiles::of_user(Some(file.path().to_owned())).source().is_empty());
    }
}
