//! What can go wrong while objects are applied.

use std::time::Duration;

use olm_core::error::{Classify, Disposition};
use olm_core::object::Identity;

use crate::cluster::{MAX_RIGHTS_DELAY, code, is_denied, message};

/// Delay after a collision, a structural complaint or a missing kind or namespace.
const FLAT_DELAY: Duration = Duration::from_secs(10);

/// What can go wrong while objects are applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Content that no revision may have; the complaints.
    #[error("revision validation error: {0}")]
    InvalidRevision(String),
    /// The API server would not take objects of a phase as they are.
    #[error("phase {phase} validation error: {text}")]
    InvalidPhase {
        /// Index of the phase.
        phase: usize,
        /// What the API server says, per object.
        text: String,
    },
    /// Objects of a phase belong to somebody else; the whole text.
    #[error("{0}")]
    Collisions(String),
    /// The cluster does not serve a kind.
    #[error("phase {phase}: kind {kind}.{group} is not served by the cluster")]
    Unserved {
        /// Index of the phase.
        phase: usize,
        /// The kind.
        kind: String,
        /// Its group.
        group: String,
    },
    /// The API server refused or could not be asked; its messages, each once.
    #[error("{text}")]
    Api {
        /// What the API server said.
        text: String,
        /// The shortest of the causes' delays.
        disposition: Disposition,
        /// What of the cluster said no.
        refused: Refused,
    },
}

/// What of the cluster refused requests. A refusal of admission is one of these requests, not of the
/// account: it may pass by itself, and more rights do not help.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refused {
    /// Authorization: the account lacks a right, or is not known.
    rights: bool,
    /// Admission: a webhook or a policy.
    admission: bool,
}

impl ApplyError {
    /// Joins the answers to several requests into one error.
    pub(super) fn from_answers(errors: &[kube::Error]) -> Self {
        Self::joined(errors.iter().map(|err| (message(err), err)).collect())
    }

    /// The same of removals, each with its object, which admission webhooks do not name.
    pub(super) fn from_removals(errors: &[(Identity, kube::Error)]) -> Self {
        let text = |(object, err): &(Identity, kube::Error)| {
            let text = message(err);
            if is_denied(err) { format!("removing {}: {text}", object.text()) } else { text }
        };
        Self::joined(errors.iter().map(|failed| (text(failed), &failed.1)).collect())
    }

    fn joined(errors: Vec<(String, &kube::Error)>) -> Self {
        let dispositions = errors.iter().map(|(_, err)| disposition(err));
        let disposition = dispositions.min_by_key(|it| match it {
            Disposition::Wait(delay) => (0, *delay),
            Disposition::RetryWithin(limit) => (1, *limit),
            Disposition::Retry => (2, Duration::ZERO),
            Disposition::Terminal(_) => (3, Duration::ZERO),
        });
        let disposition = disposition.unwrap_or(Disposition::Retry);
        let lacks_right = |err: &kube::Error| matches!(code(err), 401 | 403) && !is_denied(err);
        let refused = Refused {
            rights: errors.iter().any(|(_, err)| lacks_right(err)),
            admission: errors.iter().any(|(_, err)| is_denied(err)),
        };
        let mut texts: Vec<String> = errors.into_iter().map(|(text, _)| text).collect();
        texts.sort();
        texts.dedup();
        Self::Api { text: texts.join("\n"), disposition, refused }
    }

    /// Says whether it was a lack of rights, or of the account itself; more rights may help.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Api { refused: Refused { rights: true, .. }, .. })
    }

    /// Says whether admission refused any of it.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Api { refused: Refused { admission: true, .. }, .. })
    }
}

impl Classify for ApplyError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::InvalidRevision(_)
            | Self::InvalidPhase { .. }
            | Self::Collisions(_)
            | Self::Unserved { .. } => Disposition::Wait(FLAT_DELAY),
            Self::Api { disposition, .. } => *disposition,
        }
    }
}

impl From<kube::Error> for ApplyError {
    fn from(err: kube::Error) -> Self {
        Self::from_answers(std::slice::from_ref(&err))
    }
}

fn disposition(err: &kube::Error) -> Disposition {
    let kube::Error::Api(status) = err else {
        return Disposition::Retry;
    };
    match status.code {
        401 | 403 => Disposition::RetryWithin(MAX_RIGHTS_DELAY),
        // On a write this is the namespace, which may appear at any time.
        404 => Disposition::Wait(FLAT_DELAY),
        429 => {
            let after = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
            Disposition::Wait(Duration::from_secs(u64::from(after.max(1))))
        }
        _ => Disposition::Retry,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use rstest::rstest;

    use super::*;

    fn answer(code: u16) -> kube::Error {
        let status = Status::failure(&format!("answer {code}"), "").with_code(code);
        kube::Error::Api(Box::new(status))
    }

    #[rstest]
    #[case::rights_and_trouble(&[500, 403], Disposition::RetryWithin(MAX_RIGHTS_DELAY))]
    #[case::namespace_and_rights(&[403, 404, 500], Disposition::Wait(FLAT_DELAY))]
    #[case::busy_and_namespace(&[404, 429], Disposition::Wait(Duration::from_secs(1)))]
    #[case::trouble(&[500], Disposition::Retry)]
    fn the_shortest_delay_counts_whatever_came_first(
        #[case] codes: &[u16],
        #[case] disposition: Disposition,
    ) {
        let there: Vec<kube::Error> = codes.iter().copied().map(answer).collect();
        let back: Vec<kube::Error> = codes.iter().rev().copied().map(answer).collect();
        for errors in [there, back] {
            let error = ApplyError::from_answers(&errors);
            assert_eq!(error.disposition(), disposition, "{error}");
        }
    }

    fn forbidden(message: &str) -> kube::Error {
        let status = Status::failure(message, "Forbidden").with_code(403);
        kube::Error::Api(Box::new(status))
    }

    const NO_RIGHT: &str = "configmaps \"a\" is forbidden: User \"system:serviceaccount:ns:sa\" \
         cannot delete resource \"configmaps\" in API group \"\" in the namespace \"ns\"";
    const WEBHOOK: &str = "admission webhook \"w.example.com\" denied the request: not today";
    const SILENT_WEBHOOK: &str =
        "admission webhook \"w.example.com\" denied the request without explanation";
    const POLICY: &str = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding \
         'b' denied request: not today";

    // applying.md 7.4: who refuses a request says whether the account fails
    #[rstest]
    #[case::right(&[NO_RIGHT], (true, false))]
    #[case::webhook(&[WEBHOOK], (false, true))]
    #[case::silent_webhook(&[SILENT_WEBHOOK], (false, true))]
    #[case::policy(&[POLICY], (false, true))]
    #[case::both(&[NO_RIGHT, POLICY], (true, true))]
    fn a_refusal_of_admission_is_not_a_lack_of_rights(
        #[case] messages: &[&str],
        #[case] want: (bool, bool),
    ) {
        let errors: Vec<_> = messages.iter().map(|message| forbidden(message)).collect();
        let error = ApplyError::from_answers(&errors);
        assert_eq!((error.is_forbidden(), error.is_denied()), want);
    }

    #[test]
    fn a_removal_that_a_webhook_refuses_names_its_object() {
        let object = Identity {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: "ns".to_owned(),
            name: "a".to_owned(),
        };
        let named = |message| {
            ApplyError::from_removals(&[(object.clone(), forbidden(message))]).to_string()
        };
        assert_eq!(named(WEBHOOK), format!("removing {}: {WEBHOOK}", object.text()));
        assert_eq!(named(NO_RIGHT), NO_RIGHT);
    }
}
