//! The result of a reconcile.

use std::time::Duration;

use jiff::Timestamp;
use olm_api::ClusterObjectSet;
use olm_core::extension::Answer;
use olm_core::revision::states;

use super::enact::Enacted;
use super::error::ExtensionError;
use crate::backoff::{jittered, resync};

/// The interval of reconciles during a rollout, in case an event of its revision is missed.
const LOOK_AT_ROLL_OUT: Duration = Duration::from_mins(1);

/// The result of a reconcile.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The revisions afterwards, sorted; absent when they could not be read.
    pub(super) revisions: Option<Vec<ClusterObjectSet>>,
    /// The answer of the catalogs; absent if they were not queried.
    pub(super) answer: Option<Answer>,
    pub(super) enacted: Enacted,
    /// Whether nothing is applied, because the annotation says so.
    pub(super) paused: bool,
    /// When automatic updates may begin again, while they may not.
    pub(super) opens: Option<Timestamp>,
    /// Whether the installed bundle is the requested one, although there is an error.
    pub(super) fits: bool,
    /// Whether another installer has installed it, and there is no revision of that yet.
    pub(super) not_taken_over: bool,
    /// Why it did not reach its end, if it did not.
    pub(super) error: Option<ExtensionError>,
}

impl From<ExtensionError> for Outcome {
    fn from(error: ExtensionError) -> Self {
        Self { error: Some(error), ..Self::default() }
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
        self.enacted.look_again.into_iter().chain(opens).fold(usual, Duration::min)
    }
}
