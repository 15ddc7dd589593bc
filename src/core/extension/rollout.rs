//! Whether a rollout goes on or the catalogs are asked, as far as the revisions alone can say.

use jiff::Timestamp;
use olm_api::{ClusterExtension, ClusterObjectSet};

use crate::revision::{BundleRecord, is_late, recorded_generation, states};

/// Returns the bundle whose rollout goes on, whatever the catalogs say.
///
/// A rollout is kept while it was started for the generation at hand and has time left. After a
/// change of the spec, and after its deadline, the catalogs are asked again, from the installed
/// bundle: successor rules start from what succeeded, not from what is rolling out.
///
/// `revisions` is sorted by number.
///
/// Source: applying.md 1.3, decision 6.
pub(super) fn ongoing_rollout(
    extension: &ClusterExtension,
    revisions: &[ClusterObjectSet],
    now: Timestamp,
) -> Option<BundleRecord> {
    let rolling = *states(revisions).rolling.last()?;
    let same_spec = recorded_generation(rolling)
        .is_none_or(|recorded| Some(recorded) == extension.metadata.generation);
    (same_spec && !is_late(rolling, now)).then(|| BundleRecord::of(rolling))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::object_set;
    use olm_api::keys::annotation;
    use serde_json::json;

    fn extension(generation: i64) -> ClusterExtension {
        serde_json::from_value(json!({"metadata": {"name": "e", "generation": generation}}))
            .unwrap()
    }

    fn revision(number: i64, version: &str, generation: i64, succeeded: bool) -> ClusterObjectSet {
        let status = if succeeded { "True" } else { "False" };
        serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {
                "name": format!("e-{number}"),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {
                    annotation::BUNDLE_NAME: format!("p.v{version}"),
                    annotation::PACKAGE_NAME: "p",
                    annotation::BUNDLE_VERSION: version,
                    annotation::BUNDLE_REFERENCE: format!("r/p:{version}"),
                    annotation::EXTENSION_GENERATION: generation.to_string(),
                },
            },
            "spec": {"lifecycleState": "Active", "revision": number,
                "collisionProtection": "Prevent", "progressDeadlineMinutes": 10},
            "status": {"conditions": [
                {"type": "Succeeded", "status": status, "reason": "Succeeded", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "Progressing", "status": "True", "reason": "RollingOut", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]},
        }))
        .unwrap()
    }

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    const EARLY: &str = "2026-01-01T00:05:00Z";
    const LATE: &str = "2026-01-01T00:11:00Z";

    #[test]
    fn a_rollout_for_the_same_spec_goes_on() {
        let revisions = [revision(1, "1.0.0", 1, true), revision(2, "1.1.0", 2, false)];
        assert_eq!(
            ongoing_rollout(&extension(2), &revisions, at(EARLY)),
            Some(BundleRecord::of(&revisions[1]))
        );
    }

    // decision 6, applying.md a8
    #[test]
    fn a_changed_spec_resolves_from_what_succeeded() {
        let revisions = [revision(1, "1.0.0", 1, true), revision(2, "1.1.0", 2, false)];
        assert_eq!(ongoing_rollout(&extension(3), &revisions, at(EARLY)), None);
    }

    #[test]
    fn a_rollout_past_its_deadline_resolves_again() {
        let mut revisions = [revision(1, "1.0.0", 1, false)];
        // Whether the time is over is said by whoever rolls it out, not by another clock.
        assert!(ongoing_rollout(&extension(1), &revisions, at(LATE)).is_some());
        let status = revisions[0].status.as_mut().unwrap();
        let late = object_set::deadline_exceeded(10, "m");
        late.put(&mut status.conditions, None, at(LATE));
        assert_eq!(ongoing_rollout(&extension(1), &revisions, at(LATE)), None);
    }
}
