//! What can go wrong while objects are applied.

use std::time::Duration;

use olm_core::error::{Classify, Disposition};

use crate::cluster::{MAX_RIGHTS_DELAY, message};

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
    },
}

impl ApplyError {
    /// Joins the answers to several requests into one error.
    pub(super) fn from_answers(errors: &[kube::Error]) -> Self {
        let mut texts: Vec<String> = errors.iter().map(message).collect();
        texts.sort();
        texts.dedup();
        let dispositions = errors.iter().map(disposition);
        let disposition = dispositions.min_by_key(|it| match it {
            Disposition::Wait(delay) => (0, *delay),
            Disposition::RetryWithin(limit) => (1, *limit),
            Disposition::Retry => (2, Duration::ZERO),
            Disposition::Terminal(_) => (3, Duration::ZERO),
        });
        let disposition = disposition.unwrap_or(Disposition::Retry);
        Self::Api { text: texts.join("\n"), disposition }
    }

    /// Says whether it was a lack of rights, or of the account itself.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Api { disposition: Disposition::RetryWithin(_), .. })
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
}
