//! The service account that a revision is applied as.

use std::fmt;
use std::str::FromStr;

use olm_api::keys::annotation;
use olm_api::{ClusterExtension, ClusterObjectSet};
use serde::{Deserialize, Serialize};

/// Prefix of the user name of a service account; namespace, colon and name follow.
const USER_PREFIX: &str = "system:serviceaccount:";

/// A service account.
///
/// As text `NAMESPACE/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Account {
    /// Namespace of the service account.
    pub namespace: String,
    /// Name of the service account.
    pub name: String,
}

impl Account {
    /// Returns the service account of a user name, if it is one of a service account.
    pub fn of_user(name: &str) -> Option<Self> {
        let (namespace, name) = name.strip_prefix(USER_PREFIX)?.split_once(':')?;
        Some(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// Returns its user name.
    pub fn user(&self) -> String {
        format!("{USER_PREFIX}{}:{}", self.namespace, self.name)
    }

    /// Returns the groups that the API server counts it to.
    pub fn groups(&self) -> Vec<String> {
        let all = "system:serviceaccounts";
        let own = format!("{all}:{}", self.namespace);
        vec![all.to_owned(), own, "system:authenticated".to_owned()]
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A text that is not `NAMESPACE/NAME`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected <namespace>/<name>")]
pub struct NotNamespaced;

/// Splits `NAMESPACE/NAME`.
pub fn namespaced(text: &str) -> Result<(String, String), NotNamespaced> {
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err(NotNamespaced),
    }
}

impl FromStr for Account {
    type Err = NotNamespaced;

    fn from_str(text: &str) -> Result<Self, NotNamespaced> {
        let (namespace, name) = namespaced(text)?;
        Ok(Self { namespace, name })
    }
}

impl TryFrom<String> for Account {
    type Error = NotNamespaced;

    fn try_from(text: String) -> Result<Self, NotNamespaced> {
        text.parse()
    }
}

impl From<Account> for String {
    fn from(account: Account) -> Self {
        account.to_string()
    }
}

/// Which service account is used, as configured for the controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountRule {
    /// The service account of extensions that name none (`--default-service-account`).
    pub default: Option<Account>,
    /// Whether service accounts that extensions name are ignored
    /// (`--named-service-account=ignore`).
    pub ignore_named: bool,
}

impl AccountRule {
    /// Returns the service account an extension names, which is in its install namespace; `None`
    /// if it names none, or if such names are ignored.
    pub fn named(&self, extension: &ClusterExtension) -> Option<Account> {
        let spec = extension.spec.as_ref().filter(|_| !self.ignore_named)?;
        let name = spec.service_account.as_ref()?.name.clone()?;
        Some(Account { namespace: spec.namespace.clone(), name })
    }

    /// Returns the service account of an extension: the one it names, else the default.
    pub fn of_extension(&self, extension: &ClusterExtension) -> Option<Account> {
        self.named(extension).or_else(|| self.default.clone())
    }

    /// Returns the service account that applies a revision: the recorded one, else that of its
    /// extension, else the default.
    ///
    /// # Errors
    /// Fails when there is none, or only half of one is recorded.
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
            (Some(_), None) => Err(IdentityError::MissingName(name)),
            (None, Some(_)) => Err(IdentityError::MissingNamespace(name)),
            (None, None) => extension
                .map_or_else(|| self.default.clone(), |one| self.of_extension(one))
                .ok_or(IdentityError::Missing(name)),
        }
    }
}

/// A revision has no complete service account.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Neither annotation is present, the extension names no service account, and there is no
    /// default.
    #[error("revision {0:?} is missing required annotations")]
    Missing(String),
    /// Only the annotation with the namespace is present.
    #[error("revision {0:?} is missing ServiceAccount name annotation")]
    MissingName(String),
    /// Only the annotation with the name is present.
    #[error("revision {0:?} is missing ServiceAccount namespace annotation")]
    MissingNamespace(String),
}

/// Returns the service account that is recorded on a revision.
pub fn recorded_account(revision: &ClusterObjectSet) -> Option<Account> {
    let (namespace, name) = annotated(revision);
    Some(Account { namespace: namespace?, name: name? })
}

/// Returns namespace and name from the annotations; an empty value counts as absent.
fn annotated(revision: &ClusterObjectSet) -> (Option<String>, Option<String>) {
    let text = |key: &str| {
        let value = revision.annotation(key).filter(|value| !value.is_empty());
        value.map(str::to_owned)
    };
    (text(annotation::SERVICE_ACCOUNT_NAMESPACE), text(annotation::SERVICE_ACCOUNT_NAME))
}
