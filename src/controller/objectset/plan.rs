//! The plan of a reconcile of a ClusterObjectSet, decided from the observed state. Pure.

use kube::ResourceExt as _;
use olm_api::{ClusterObjectSet, LifecycleState};
use olm_core::annotations::is_paused;

use super::extension_state::ExtensionState;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// The revision is being deleted: take down what it installed, or release it.
    TearDown,
    /// Its extension goes, and this revision with it: somebody else deletes it.
    AwaitDeletion,
    /// A later revision has replaced it: remove what only this one installed.
    Archive,
    /// Its objects are read and none is written, because an annotation says so; its change wakes the
    /// revision.
    Pause,
    /// Apply its objects, phase by phase.
    RollOut,
}

/// Decides what a reconcile does.
///
/// Source: applying.md 3.6 to 3.9, 10.
pub(super) fn plan(set: &ClusterObjectSet, extension: &ExtensionState) -> Plan {
    if set.metadata.deletion_timestamp.is_some() {
        return Plan::TearDown;
    }
    match extension {
        ExtensionState::Deleting(_) | ExtensionState::Orphaning(_) | ExtensionState::Gone => {
            return Plan::AwaitDeletion;
        }
        ExtensionState::None | ExtensionState::Alive(_) => {}
    }
    if set.spec.lifecycle_state == LifecycleState::Archived {
        return Plan::Archive;
    }
    if is_paused(set.annotations()) || extension.is_paused() {
        return Plan::Pause;
    }
    Plan::RollOut
}

#[cfg(test)]
mod tests {
    use olm_api::ClusterExtension;
    use olm_api::keys::policy;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn set(metadata: &Value, lifecycle: &str) -> ClusterObjectSet {
        serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": metadata,
            "spec": {"lifecycleState": lifecycle, "revision": 1, "collisionProtection": "Prevent"},
        }))
        .unwrap()
    }

    fn extension(metadata: &Value) -> Box<ClusterExtension> {
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn alive() -> ExtensionState {
        ExtensionState::Alive(extension(&json!({"name": "e"})))
    }

    #[rstest]
    #[case::of_an_extension(alive(), Plan::RollOut)]
    #[case::made_by_hand(ExtensionState::None, Plan::RollOut)]
    #[case::uninstalled(ExtensionState::Deleting(extension(&json!({}))), Plan::AwaitDeletion)]
    #[case::orphaned(ExtensionState::Orphaning(extension(&json!({}))), Plan::AwaitDeletion)]
    #[case::left_behind(ExtensionState::Gone, Plan::AwaitDeletion)]
    fn the_extension_decides_first(#[case] extension: ExtensionState, #[case] want: Plan) {
        assert_eq!(plan(&set(&json!({"name": "e-1"}), "Active"), &extension), want);
        let deleted = json!({"name": "e-1", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(plan(&set(&deleted, "Archived"), &extension), Plan::TearDown);
    }

    #[test]
    fn a_pause_of_either_stops_a_roll_out_and_no_archiving() {
        let paused = json!({"name": "e", "annotations": {policy::PAUSED: "true"}});
        let pausing = ExtensionState::Alive(extension(&paused));
        let plain = json!({"name": "e-1"});
        assert_eq!(plan(&set(&plain, "Active"), &pausing), Plan::Pause);
        assert_eq!(plan(&set(&paused, "Active"), &alive()), Plan::Pause);
        assert_eq!(plan(&set(&plain, "Archived"), &pausing), Plan::Archive);
        assert_eq!(plan(&set(&paused, "Archived"), &alive()), Plan::Archive);
    }
}
