//! Service accounts that nothing is installed with.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::quote;
use crate::revision::Account;

/// Stands for every name in a pattern.
const ANY: &str = "*";

/// Service accounts, written `<namespace>/<name>`, or `<namespace>/*` for all of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AccountPattern {
    namespace: String,
    /// Name of the service account; `None` matches every name.
    name: Option<String>,
}

impl AccountPattern {
    /// Returns the pattern of all service accounts of a namespace.
    pub fn all_of(namespace: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: None }
    }

    fn holds(&self, account: &Account) -> bool {
        let named = self.name.as_ref();
        self.namespace == account.namespace && named.is_none_or(|name| *name == account.name)
    }
}

impl FromStr for AccountPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected <namespace>/<name> or <namespace>/*, found {text:?}");
        let (namespace, name) = text.split_once('/').ok_or_else(wrong)?;
        let is_plain = |part: &str| !part.is_empty() && !part.contains(['*', '/']);
        if !is_plain(namespace) || !(name == ANY || is_plain(name)) {
            return Err(wrong());
        }
        Ok(Self { namespace: namespace.to_owned(), name: (name != ANY).then(|| name.to_owned()) })
    }
}

impl fmt::Display for AccountPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name.as_deref().unwrap_or(ANY))
    }
}

impl TryFrom<String> for AccountPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<AccountPattern> for String {
    fn from(pattern: AccountPattern) -> Self {
        pattern.to_string()
    }
}

/// Service accounts that nothing is installed with.
#[derive(Debug, Clone, Default)]
pub struct Reserved {
    /// `--forbidden-service-accounts`.
    pub patterns: Vec<AccountPattern>,
    /// `--default-service-account`, which is exempt from the patterns: the administrator chose it.
    pub default: Option<Account>,
}

/// A service account is reserved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReservedAccount {
    /// It is the controller's own: whoever names it could write what only the controller may write.
    #[error(
        "service account {} is reserved: it is the controller's own",
        quote(&.0.to_string())
    )]
    Own(Account),
    /// A pattern matches it.
    #[error(
        "service account {} is reserved (--forbidden-service-accounts)",
        quote(&.0.to_string())
    )]
    Forbidden(Account),
}

impl Reserved {
    /// Fails when `account` is reserved; `own` is the service account the controller runs as, if it
    /// runs as one.
    pub fn check(&self, account: &Account, own: Option<&Account>) -> Result<(), ReservedAccount> {
        if own == Some(account) {
            return Err(ReservedAccount::Own(account.clone()));
        }
        let forbidden = self.patterns.iter().any(|pattern| pattern.holds(account));
        if forbidden && self.default.as_ref() != Some(account) {
            return Err(ReservedAccount::Forbidden(account.clone()));
        }
        Ok(())
    }
}
