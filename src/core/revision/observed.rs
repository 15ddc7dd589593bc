//! Detects that the content of a revision was changed after it was first observed.

use olm_api::ObservedPhase;

use crate::status::object_set::{content_changed, phase_count_changed};

/// Returns the error message when phases differ from those observed first.
///
/// Source: applying.md 3.5, operator-controller `clusterobjectset_controller.go`.
pub fn changed(observed: &[ObservedPhase], now: &[ObservedPhase]) -> Option<String> {
    if observed.is_empty() {
        return Some("stored observedPhases is unexpectedly empty".to_owned());
    }
    if observed.len() != now.len() {
        return Some(phase_count_changed(observed.len(), now.len()));
    }
    let differing: Vec<_> = observed.iter().zip(now).filter(|(old, new)| old != new).collect();
    (!differing.is_empty()).then(|| content_changed(&differing))
}
