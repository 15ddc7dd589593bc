//! What came of a reconcile.

use std::time::Duration;

use jiff::Timestamp;
use olm_api::ClusterObjectSet;
use olm_core::extension::Answer;
use olm_core::revision::states;

use super::enact::Enacted;
use super::error::ExtensionError;
use crate::backoff::{jittered, resync};

/// How often a rollout is looked at although its revision wakes it: an event that never came costs
/// no more than this.
const LOOK_AT_ROLL_OUT: Duration = Duration::from_mins(1);

/// What came of a reconcile.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The revisions afterwards, sorted; absent when they could not be read.
    pub(super) revisions: Option<Vec<ClusterObjectSet>>,
    /// What the catalogs say; absent when they were not asked.
    pub(super) answer: Option<Answer>,
    /// What was made.
    pub(super) enacted: Enacted,
    /// Whether nothing is applied, because the annotation says so.
    pub(super) paused: bool,
    /// When automatic updates may begin again, while they may not.
    pub(super) opens: Option<Timestamp>,
    /// Whether what is installed is what is asked for, although the result is an error.
    pub(super) fits: bool,
    /// Why it did not reach its end, if it did not.
    pub(super) result: Result<(), ExtensionError>,
}

impl Default for Outcome {
    fn default() -> Self {
        Self {
            revisions: None,
            answer: None,
            enacted: Enacted::default(),
            paused: false,
            opens: None,
            fits: false,
            result: Ok(()),
        }
    }
}

impl From<ExtensionError> for Outcome {
    fn from(error: ExtensionError) -> Self {
        Self { result: Err(error), ..Self::default() }
    }
}

impl Outcome {
    /// Returns when to reconcile again although nothing changes.
    pub(super) fn next(&self) -> Duration {
        let revisions = self.revisions.as_deref().unwrap_or_default();
        let usual = if states(revisions).rolling.is_empty() {
            resync()
        } else {
            jittered(LOOK_AT_ROLL_OUT)
        };
        let opens = self.opens.map(|opens| {
            let left = opens.duration_since(Timestamp::now());
            Duration::try_from(left).unwrap_or_default()
        });
        let earlier = self.enacted.look_again.into_iter().chain(opens);
        earlier.fold(usual, Duration::min)
    }
}
