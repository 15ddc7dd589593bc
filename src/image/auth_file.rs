//! The credentials container tools keep for the user who runs them.

use std::path::PathBuf;
use std::{env, fs, io};

use crate::auth::{AuthError, Credentials};

/// Why the user's credentials cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AuthFileError {
    /// A file cannot be read.
    #[error("reading {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file holds something else.
    #[error("reading {}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: AuthError,
    },
}

impl Credentials {
    /// Reads the credentials of container tools; an absent file has none.
    ///
    /// If `REGISTRY_AUTH_FILE` is set, only that file is read, else Docker's file and over it the
    /// one of the login session.
    pub fn of_user() -> Result<Self, AuthFileError> {
        let set = |name| {
            env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let files = match set("REGISTRY_AUTH_FILE") {
            Some(file) => vec![file],
            None => [
                set("HOME").map(|home| home.join(".docker/config.json")),
                set("XDG_RUNTIME_DIR").map(|session| session.join("containers/auth.json")),
            ]
            .into_iter()
            .flatten()
            .collect(),
        };
        let mut all = Self::default();
        for path in files {
            match fs::read(&path) {
                Ok(content) => {
                    let parsed = Self::parse(&content);
                    all.merge(parsed.map_err(|source| AuthFileError::Parse { path, source })?);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(AuthFileError::Read { path, source }),
            }
        }
        Ok(all)
    }
}
