//! As whom a revision is applied.

use std::fmt;

use olm_api::keys::annotation;
use olm_api::{ClusterExtension, ClusterObjectSet};

/// What the user name of a service account begins with; namespace, colon and name follow.
const USER_PREFIX: &str = "system:serviceaccount:";

/// A service account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Account {
    /// Returns the account behind a user name, if it is one of a service account.
    pub fn of_user(name: &str) -> Option<Self> {
        let (namespace, name) = name.strip_prefix(USER_PREFIX)?.split_once(':')?;
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Which account counts, as the administrator of the controller decided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountRule {
    /// The account of extensions that name none (`--default-service-account`).
    pub default: Option<Account>,
    /// Whether what extensions name is ignored (`--named-service-account=ignore`).
    pub ignore_named: bool,
}

impl AccountRule {
    /// Returns the account an extension names, in the namespace it installs into, if names count.
    pub fn named(&self, extension: &ClusterExtension) -> Option<Account> {
        let spec = extension.spec.as_ref().filter(|_| !self.ignore_named)?;
        let name = spec.service_account.as_ref()?.name.clone()?;
        Some(Account {
            namespace: spec.namespace.clone(),
            name,
        })
    }

    /// Returns the account an extension is installed with: the one it names, else the default.
    pub fn of_extension(&self, extension: &ClusterExtension) -> Option<Account> {
        self.named(extension).or_else(|| self.default.clone())
    }

    /// Returns the account that applies a revision: the recorded one, else that of its extension,
    /// else the default.
    ///
    /// # Errors
    /// Fails when none is known, or only half of one is recorded.
    ///
    /// Source: applying.md 4.5.
    pub fn of_revision(
        &self,
        revision: &ClusterObjectSet,
        extension: Option<&ClusterExtension>,
    ) -> Result<Account, IdentityError> {
        let name = revision.metadata.name.clone().unwrap_or_default();
        match annotated(revision) {
            (Some(namespace), Some(name)) => Ok(Account { namespace, name }),
            (Some(_), None) => Err(IdentityError::MissingName { name }),
            (None, Some(_)) => Err(IdentityError::MissingNamespace { name }),
            (None, None) => extension
                .map_or_else(|| self.default.clone(), |one| self.of_extension(one))
                .ok_or(IdentityError::Missing { name }),
        }
    }
}

/// A revision does not say as whom it is applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Neither annotation is there, the extension names no account and there is no default.
    #[error("revision {name:?} is missing required annotations")]
    Missing {
        /// Name of the revision.
        name: String,
    },
    /// Only the namespace is there.
    #[error("revision {name:?} is missing ServiceAccount name annotation")]
    MissingName {
        /// Name of the revision.
        name: String,
    },
    /// Only the name is there.
    #[error("revision {name:?} is missing ServiceAccount namespace annotation")]
    MissingNamespace {
        /// Name of the revision.
        name: String,
    },
}

/// Returns the account that is recorded on a revision.
pub fn recorded_account(revision: &ClusterObjectSet) -> Option<Account> {
    let (namespace, name) = annotated(revision);
    Some(Account {
        namespace: namespace?,
        name: name?,
    })
}

/// Returns namespace and name as the annotations have them; what is empty counts as absent.
fn annotated(revision: &ClusterObjectSet) -> (Option<String>, Option<String>) {
    let annotations = revision.metadata.annotations.as_ref();
    let text = |key: &str| {
        let value = annotations.and_then(|annotations| annotations.get(key));
        value.filter(|value| !value.is_empty()).cloned()
    };
    (
        text(annotation::SERVICE_ACCOUNT_NAMESPACE),
        text(annotation::SERVICE_ACCOUNT_NAME),
    )
}
