//! Did the content of a revision change behind our back?

use olm_api::ObservedPhase;

/// Returns the complaint when phases differ from those observed first.
///
/// Source: applying.md 3.5, operator-controller `clusterobjectset_controller.go`.
pub fn changed(observed: &[ObservedPhase], now: &[ObservedPhase]) -> Option<String> {
    if observed.is_empty() {
        return Some("stored observedPhases is unexpectedly empty".to_owned());
    }
    if observed.len() != now.len() {
        return Some(format!(
            "number of phases has changed (expected {} phases, got {})",
            observed.len(),
            now.len()
        ));
    }
    let differing: Vec<String> = observed
        .iter()
        .zip(now)
        .filter(|(old, new)| old != new)
        .map(|(old, new)| {
            format!(
                "phase {:?} (expected digest {}, got {})",
                new.name, old.digest, new.digest
            )
        })
        .collect();
    if differing.is_empty() {
        return None;
    }
    Some(format!(
        "resolved content of {} phase(s) has changed: {}; a referenced object source may have \
         been deleted and recreated with different content",
        differing.len(),
        differing.join("; ")
    ))
}
