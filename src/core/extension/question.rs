//! What is asked for an extension, from its spec, its annotations and its revisions.

use jiff::Timestamp;
use olm_api::{CatalogFilter, ClusterObjectSet};

use super::rollout::{Rollout, ongoing_rollout, taken_over, unfinished};
use super::{Policy, Question, Return, ValidExtension};
use crate::revision::{BundleRecord, Origin, states};

impl Question {
    /// Returns what is asked where nothing is installed.
    pub fn new(filter: CatalogFilter, policy: Policy, now: Timestamp) -> Self {
        Self {
            filter,
            policy,
            installed: None,
            came_from: None,
            rolling: None,
            unfinished: None,
            left: None,
            taken_over: None,
            now,
        }
    }

    /// Returns what is asked for an extension, given what it goes back to.
    pub fn of(
        extension: ValidExtension<'_>,
        policy: Policy,
        back: Option<&Return<'_>>,
        revisions: &[ClusterObjectSet],
        now: Timestamp,
    ) -> Self {
        let installed = states(revisions).installed;
        let back = back.map(|back| BundleRecord::of(back.source));
        let back =
            back.map(|bundle| Rollout { bundle, is_return: true, stalled: None, before: None });
        let rolling = back.or_else(|| ongoing_rollout(extension.object, revisions, now));
        Self {
            installed: installed.map(BundleRecord::of),
            came_from: installed.and_then(|set| Origin::of(set).catalog),
            unfinished: unfinished(extension.object, revisions).filter(|_| rolling.is_none()),
            rolling,
            taken_over: taken_over(extension.object, revisions),
            ..Self::new(extension.filter.clone(), policy, now)
        }
    }
}
