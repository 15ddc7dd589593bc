//! Detects that the content of a revision was changed after it was first observed.

use olm_api::ObservedPhase;

use crate::status::object_set::{content_changed, phase_count_changed};

/// Returns the error message when phases differ from those observed first, in whatever order.
///
/// Source: applying.md 3.5, operator-controller `clusterobjectset_controller.go`.
pub fn changed(observed: &[ObservedPhase], now: &[ObservedPhase]) -> Option<String> {
    // The first look.
    if observed.is_empty() {
        return None;
    }
    if observed.len() != now.len() {
        return Some(phase_count_changed(observed.len(), now.len()));
    }
    // Phases are a map by name: the API server lets their order change.
    let is_kept = |old: &ObservedPhase| now.iter().any(|new| new.name == old.name);
    let before = |new: &ObservedPhase| {
        let same = observed.iter().find(|old| old.name == new.name);
        same.or_else(|| observed.iter().find(|old| !is_kept(old)))
    };
    let differing: Vec<_> = now
        .iter()
        .filter(|new| !observed.contains(new))
        .filter_map(|new| Some((before(new)?, new)))
        .collect();
    (!differing.is_empty()).then(|| content_changed(&differing))
}
