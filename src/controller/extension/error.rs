//! Errors of ClusterExtensions, and their meaning.

use std::time::Duration;

use olm_api::conditions::Reason;
use olm_api::keys;
use olm_cluster::RefError;
use olm_core::annotations::PolicyError;
use olm_core::bundle::BundleError;
use olm_core::error::{Classify, Disposition, quote};
use olm_core::extension::holds::{Awaited, Hold};
use olm_core::extension::{DecisionError, RollbackError};
use olm_core::operator_condition::NotUpgradeable;
use olm_core::render::RenderError;
use olm_core::revision::{Account, BundleRecord, RevisionError};
use olm_core::status::Note;
use olm_image::PullError;

use super::before::TakeOverError;
use crate::account::{AccountError, GuardError};
use crate::cluster::{ApiError, RequestError, retry_after};
use crate::credentials::PullSecretError;
use crate::owned::OwnedError;
use crate::reconcile::TooLong;
use crate::revision::WriteError;

/// Failures that a person repairs are looked at again at least this often, should the watch on
/// what repairs them have missed it (decision 7).
const REPAIRABLE: Duration = Duration::from_mins(2);

/// What follows from a missing account or right.
const RIGHTS: Disposition = Disposition::RetryWithin(REPAIRABLE);

/// The interval of reconciles during a pull, in case its end is missed.
const PULLING: Duration = Duration::from_mins(1);

/// The interval of reconciles while an operator holds its update.
pub(super) const OPERATOR: Duration = Duration::from_secs(30);

/// The prefix of every finding of validation (api.md 4.4 rows 4, 6 and 7).
const INVALID: &str = "operation cannot proceed due to the following validation error(s): ";

/// The hint for an extension without an account (api.md 1.4).
const NO_ACCOUNT: &str = "spec.serviceAccount.name is not set and no default service account is \
    configured: set spec.serviceAccount.name, or start the controller with \
    --default-service-account=<namespace>/<name>";

/// Why a reconcile of a ClusterExtension did not reach its end.
#[derive(Debug, thiserror::Error)]
pub enum ExtensionError {
    /// The revisions cannot be listed. `Progressing` shows this text without the cause.
    #[error("retrying to get installed bundle")]
    Revisions(#[source] ApiError),
    /// The object has no spec.
    #[error("spec is required")]
    SpecMissing,
    /// No account is named and none is configured.
    #[error("{INVALID}{NO_ACCOUNT}")]
    NoAccount,
    /// The account does not exist.
    #[error("{INVALID}{}", no_such_account(account, *namespace_exists))]
    AccountMissing {
        account: Account,
        /// Whether at least its namespace exists.
        namespace_exists: bool,
    },
    /// The account is not acted as.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// The account cannot be looked up.
    #[error("{INVALID}error getting service account: {_0}")]
    Account(ApiError),
    /// An annotation cannot be followed.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The revision to go back to does not exist.
    #[error(transparent)]
    Rollback(#[from] RollbackError),
    /// A request of the controller itself failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A request failed for which the account may get rights at any time.
    #[error(transparent)]
    Repairable(RequestError),
    /// The account cannot be acted as.
    #[error(transparent)]
    ActAs(#[from] AccountError),
    /// The installed operator does not let itself be updated.
    #[error(transparent)]
    Operator(NotUpgradeable),
    /// It did not end.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// The revisions of the extension cannot be named.
    #[error(transparent)]
    Name(RevisionError),
    /// What upstream installed in its earlier ways cannot be taken over.
    #[error("taking over the installed objects")]
    TakeOver(#[source] Box<TakeOverError>),
    /// No bundle was chosen.
    #[error(transparent)]
    Decision(#[from] DecisionError),
    /// The chosen bundle cannot be installed.
    #[error("error for resolved bundle {} with version {}", quote(name), quote(version))]
    Bundle {
        name: String,
        version: String,
        #[source]
        cause: Box<ContentError>,
    },
    /// The certificates of webhooks cannot be removed.
    #[error("removing certificates of webhooks")]
    Certificates(#[source] Box<OwnedError>),
}

impl From<TakeOverError> for ExtensionError {
    fn from(error: TakeOverError) -> Self {
        Self::TakeOver(Box::new(error))
    }
}

impl ExtensionError {
    /// The finalizer of the extension, or what it stands for, failed.
    pub(super) fn finalizer(cause: kube::Error) -> Self {
        let finalizer = quote(keys::finalizer::CLEANUP_UNPACK_CACHE);
        RequestError::doing(format!("finalizer {finalizer} failed"))(cause).into()
    }

    /// The bundle cannot be installed, for a reason to be given.
    pub(super) fn of_bundle(bundle: &BundleRecord) -> impl Fn(ContentError) -> Self + Copy {
        |cause| Self::Bundle {
            name: bundle.name.clone(),
            version: bundle.version.clone(),
            cause: Box::new(cause),
        }
    }

    /// Returns whether other credentials or files may help.
    pub(super) fn is_of_pull(&self) -> bool {
        let Self::Bundle { cause, .. } = self else { return false };
        matches!(**cause, ContentError::Pull(_) | ContentError::PullSecret(_))
    }

    /// Returns what is not in its text and helps to end it.
    pub(super) fn note(&self) -> Option<Note> {
        let Self::Bundle { cause, .. } = self else { return None };
        let ContentError::Render(RenderError::Config(error)) = &**cause else { return None };
        let message = error.hint()?;
        Some(Note { reason: Reason::InvalidConfiguration, message })
    }

    /// Returns the hold of the bundle, if there is one.
    pub(super) fn hold(&self) -> Option<&Hold> {
        let Self::Bundle { cause, .. } = self else { return None };
        match &**cause {
            ContentError::Held(hold) => Some(hold),
            _ => None,
        }
    }

    /// Returns whether the account that it is installed with does not exist.
    pub(super) fn is_of_lost_account(&self) -> bool {
        matches!(self, Self::AccountMissing { .. })
    }

    /// Returns the reason of what holds the step, if something does.
    pub(super) fn held_by(&self) -> Option<Reason> {
        match self {
            Self::Operator(_) => Some(Reason::OperatorNotUpgradeable),
            _ => self.hold().map(|hold| hold.note.reason),
        }
    }
}

/// Why a bundle does not become a revision.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// Its image cannot be pulled.
    #[error(transparent)]
    Pull(Box<PullError>),
    /// The Secret with the credentials for it may not be used.
    #[error(transparent)]
    PullSecret(#[from] PullSecretError),
    /// Its image is being pulled.
    #[error("still pulling image {}", quote(_0))]
    Pulling(String),
    /// Its files cannot be read.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// It cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Its objects do not fit into a revision.
    #[error(transparent)]
    Revision(#[from] RevisionError),
    /// What it depends on cannot be read: CRDs that it would replace or leave behind, its namespace.
    #[error(transparent)]
    Read(#[from] RequestError),
    /// The content of the revision to go back to cannot be read.
    #[error(transparent)]
    Stored(#[from] RefError),
    /// Its approval does not count.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// Something holds it.
    #[error(transparent)]
    Held(#[from] Hold),
    /// The revision cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The certificates of its webhooks cannot be had, or the Secrets that its pods pull with not be
    /// copied.
    #[error(transparent)]
    Owned(Box<OwnedError>),
}

fn no_such_account(account: &Account, namespace_exists: bool) -> String {
    let namespace = quote(&account.namespace);
    let text =
        format!("service account {} not found in namespace {namespace}", quote(&account.name));
    if namespace_exists {
        return text;
    }
    format!("{text}: namespace {namespace} does not exist")
}

impl ContentError {
    /// True if a registry failed; the installed bundle does not need it.
    pub(super) fn is_of_registry(&self) -> bool {
        matches!(self, Self::Pull(_) | Self::PullSecret(_) | Self::Pulling(_))
    }
}

impl From<OwnedError> for ContentError {
    fn from(error: OwnedError) -> Self {
        Self::Owned(Box::new(error))
    }
}

impl From<PullError> for ContentError {
    fn from(error: PullError) -> Self {
        Self::Pull(Box::new(error))
    }
}

impl Classify for ExtensionError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::SpecMissing
            | Self::NoAccount
            | Self::Policy(_)
            | Self::Rollback(_)
            | Self::Name(_) => Disposition::Terminal(Reason::InvalidConfiguration),
            Self::Decision(error) => error.disposition(),
            Self::AccountMissing { namespace_exists: false, account: _ } => {
                Disposition::Wait(Duration::from_secs(10))
            }
            // Rights of the account may come at any time.
            Self::AccountMissing { .. } => RIGHTS,
            Self::Account(error) => retry_after(&error.0).map_or(RIGHTS, Disposition::RetryAfter),
            Self::Repairable(error) => error.retry_after().map_or(RIGHTS, Disposition::RetryAfter),
            Self::Operator(_) => Disposition::RetryWithin(OPERATOR),
            Self::ActAs(error) => error.disposition(),
            Self::Guard(error) => error.disposition(),
            Self::Bundle { cause, .. } => cause.disposition(),
            Self::Certificates(error) => error.disposition(),
            Self::TakeOver(error) => error.disposition(),
            Self::Revisions(error) => {
                retry_after(&error.0).map_or(Disposition::Retry, Disposition::RetryAfter)
            }
            Self::Request(error) => error.disposition(),
            Self::TooLong(_) => Disposition::Retry,
        }
    }

    fn awaits_person(&self) -> bool {
        match self {
            Self::AccountMissing { .. } | Self::Operator(_) => true,
            Self::Decision(error) => error.awaits_person(),
            Self::Bundle { cause, .. } => matches!(
                **cause,
                ContentError::Held(_) | ContentError::PullSecret(PullSecretError::NotOffered(_))
            ),
            _ => false,
        }
    }

    fn is_conflict(&self) -> bool {
        match self {
            Self::Request(error) => error.is_conflict(),
            Self::Bundle { cause, .. } => {
                matches!(&**cause, ContentError::Write(error) if error.is_conflict())
            }
            _ => false,
        }
    }
}

impl Classify for ContentError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Pull(error) if error.is_terminal() || error.is_of_size() => {
                Disposition::Terminal(Reason::Blocked)
            }
            Self::Pull(error) => {
                error.retry_after().map_or(Disposition::Retry, Disposition::RetryAfter)
            }
            Self::PullSecret(error) => error.disposition(),
            // The cluster may be changed at any time so that the check passes.
            Self::Held(hold) => match hold.awaits {
                // Asking costs many requests, and a change of rights or of the approval calls.
                Some(Awaited::Permissions | Awaited::Approval) => Disposition::Wait(REPAIRABLE),
                Some(Awaited::CustomResourceDefinitions) | None => {
                    Disposition::RetryWithin(REPAIRABLE)
                }
            },
            // The end of the pull calls.
            Self::Pulling(_) => Disposition::Wait(PULLING),
            Self::Bundle(error) if error.is_of_size() => Disposition::Terminal(Reason::Blocked),
            // As upstream: the catalog may offer another bundle tomorrow (decision 20).
            Self::Bundle(_) | Self::Stored(_) => Disposition::Retry,
            Self::Read(error) => error.disposition(),
            Self::Render(error) => error.disposition(),
            Self::Revision(error) => error.disposition(),
            Self::Write(error) => error.disposition(),
            Self::Owned(error) => error.disposition(),
            Self::Guard(error) => error.disposition(),
        }
    }
}

#[cfg(test)]
mod tests {
    use olm_core::config::ConfigError;
    use olm_core::error::Chain;
    use olm_core::resolve::ResolveError;
    use olm_image::unpack::{Refusal, UnpackError};
    use rstest::rstest;

    use super::*;
    use crate::cluster::refusal::{assert_is_said_once, refused};
    use crate::credentials::SecretName;

    fn missing(namespace_exists: bool) -> ExtensionError {
        ExtensionError::AccountMissing {
            account: Account { namespace: "ns".to_owned(), name: "sa".to_owned() },
            namespace_exists,
        }
    }

    fn bundle(cause: ContentError) -> ExtensionError {
        let (name, version) = ("b".to_owned(), "1.0.0".to_owned());
        ExtensionError::Bundle { name, version, cause: Box::new(cause) }
    }

    #[test]
    fn a_refusal_is_said_once() {
        let request = || RequestError::doing("reading")(refused());
        let account = || AccountError::Lookup(refused().into());
        let errors: [ExtensionError; 13] = [
            bundle(request().into()),
            bundle(WriteError::from(request()).into()),
            bundle(PullSecretError::Lookup(request()).into()),
            bundle(ContentError::Owned(Box::new(request().into()))),
            bundle(ContentError::Owned(Box::new(account().into()))),
            ExtensionError::Revisions(refused().into()),
            ExtensionError::Account(refused().into()),
            ExtensionError::finalizer(refused()),
            GuardError::Own(refused().into()).into(),
            account().into(),
            TakeOverError::from(request()).into(),
            TakeOverError::from(WriteError::from(request())).into(),
            ExtensionError::Certificates(Box::new(request().into())),
        ];
        for error in &errors {
            assert_is_said_once(error);
        }
    }

    // api.md 4.4 rows 2, 4, 6, 7, 10, 23 to 30
    #[rstest]
    #[case::row_2(ExtensionError::SpecMissing, "spec is required")]
    #[case::row_4(
        ExtensionError::NoAccount,
        "operation cannot proceed due to the following validation error(s): \
         spec.serviceAccount.name is not set and no default service account is configured: set \
         spec.serviceAccount.name, or start the controller with \
         --default-service-account=<namespace>/<name>"
    )]
    #[case::row_6(
        missing(true),
        "operation cannot proceed due to the following validation error(s): service account \
         \"sa\" not found in namespace \"ns\""
    )]
    #[case::row_7(
        missing(false),
        "operation cannot proceed due to the following validation error(s): service account \
         \"sa\" not found in namespace \"ns\": namespace \"ns\" does not exist"
    )]
    #[case::row_10(
        ExtensionError::Name(RevisionError::NameTooLong("n-1".to_owned())),
        "metadata.name is too long: revision name \"n-1\" must be no more than 63 characters"
    )]
    #[case::rows_23_to_30(
        bundle(RevisionError::TooManyPhases(21).into()),
        "error for resolved bundle \"b\" with version \"1.0.0\": revision needs 21 phases, at most \
         20 are allowed"
    )]
    fn texts_are_as_documented(#[case] error: ExtensionError, #[case] text: &str) {
        assert_eq!(Chain(&error).to_string(), text);
    }

    // docs/runbooks/OLMReconcileErrors.md
    #[rstest]
    #[case::account(missing(true), true)]
    #[case::no_bundle(
        DecisionError::Resolve(ResolveError::BundleName("b".to_owned())).into(), true)]
    #[case::no_content(DecisionError::NoContent.into(), false)]
    #[case::left_out(
        DecisionError::LeftOut { version: "1.0.0".to_owned(), range: "2".to_owned() }.into(), true)]
    #[case::hold(bundle(ContentError::Held(Hold {
        message: String::new(),
        note: Note { reason: Reason::PermissionsMissing, message: String::new() },
        awaits: None,
        crds: Vec::new(),
    })), true)]
    #[case::pull_secret(bundle(PullSecretError::NotOffered(SecretName {
        namespace: "ns".to_owned(),
        name: "s".to_owned(),
    }).into()), true)]
    #[case::bundle(bundle(BundleError::Refused(String::new()).into()), false)]
    #[case::request(ExtensionError::finalizer(refused()), false)]
    fn what_a_person_has_to_end_is_not_counted_as_a_failure(
        #[case] error: ExtensionError,
        #[case] want: bool,
    ) {
        assert_eq!(error.awaits_person(), want);
        assert!(!matches!(error.disposition(), Disposition::Terminal(_)));
    }

    // decision 24
    #[rstest]
    #[case::no_choice("watchNamespace", true)]
    #[case::another("colour", false)]
    fn what_a_bundle_cannot_be_told_is_explained(#[case] key: &str, #[case] want: bool) {
        let details = vec![format!("unknown field \"{key}\"")];
        let error = bundle(RenderError::Config(ConfigError::Invalid(details)).into());
        let note = error.note().map(|note| note.message);
        assert_eq!(note.is_some_and(|text| text.contains("watch all namespaces")), want);
    }

    // decision 43; decision 20
    #[rstest]
    #[case::manifests(
        BundleError::TooLarge(String::new()).into(),
        Disposition::Terminal(Reason::Blocked)
    )]
    #[case::files(
        PullError::from(UnpackError::Kept(Refusal::TooLarge(String::new()))).into(),
        Disposition::Terminal(Reason::Blocked)
    )]
    #[case::content(BundleError::Refused(String::new()).into(), Disposition::Retry)]
    #[case::names(
        PullError::from(UnpackError::Kept(Refusal::Refused("".into()))).into(),
        Disposition::Retry
    )]
    fn what_is_too_large_is_not_tried_again(
        #[case] error: ContentError,
        #[case] want: Disposition,
    ) {
        assert_eq!(error.disposition(), want);
    }
}
