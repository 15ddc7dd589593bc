//! Whether it matters which version ran before everything lost its owner, and what follows.
//!
//! Source: applying.md 2.4.

use olm_api::conditions::types;
use olm_api::{ClusterObjectSet, UpgradeConstraintPolicy};

use super::{DecisionError, Question};
use crate::extension::left::Left;
use crate::revision::states;
use crate::status::object_set::may_be_adopted;
use crate::version::{Version, VersionRange};

impl Question {
    /// Returns whether the version that ran before matters: nothing is installed, no rollout has
    /// objects with an owner, and the update paths of the catalogs are respected.
    pub fn asks_what_ran(&self, revisions: &[ClusterObjectSet]) -> bool {
        let policy = self.filter.upgrade_constraint_policy.unwrap_or_default();
        let collides = |set: &ClusterObjectSet| {
            let found = set.condition(types::PROGRESSING);
            found.is_some_and(|found| may_be_adopted(&found.message))
        };
        policy == UpgradeConstraintPolicy::CatalogProvided
            && self.installed.is_none()
            && (self.rolling.is_none() || states(revisions).rolling.into_iter().any(collides))
    }

    /// Asks for the version that ran, and no other; nothing is asked for where it is excluded.
    pub fn resume(&mut self, version: Option<Version>) {
        let Some(version) = version else { return };
        let range = self.filter.version.as_deref().filter(|text| !text.is_empty());
        let allows = |range: VersionRange| range.contains_admitting_prereleases(&version);
        let is_allowed = match range.map(str::parse::<VersionRange>).transpose() {
            Ok(range) => range.is_none_or(allows),
            // What is not a range is reported as that.
            Err(_) => return,
        };
        let excluded_by = range.filter(|_| !is_allowed).map(str::to_owned);
        let version = version.to_string();
        if is_allowed {
            self.filter.version = Some(version.clone());
        }
        self.left = Some(Left { version, excluded_by });
        // It has taken nothing over yet.
        self.taken_over = None;
    }

    /// Returns why nothing is installed, where the version that ran is excluded.
    pub(super) fn left_out(&self) -> Option<DecisionError> {
        let left = self.left.as_ref()?;
        let (version, range) = (left.version.clone(), left.excluded_by.clone()?);
        Some(DecisionError::LeftOut { version, range })
    }
}
