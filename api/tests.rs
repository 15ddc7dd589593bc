use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use strum::VariantNames as _;

use super::conditions::Reason;
use super::*;

fn round_trip<K: DeserializeOwned + serde::Serialize>(value: &Value) {
    let object: K = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(&serde_json::to_value(object).unwrap(), value);
}

#[rstest]
// api.md 1.1: an object without spec is admitted and must be readable.
#[case::no_spec(json!({"metadata": {"name": "e"}}))]
#[case::as_the_product_documentation_writes_it(json!({
    "metadata": {"name": "e"},
    "spec": {"namespace": "n", "serviceAccount": {"name": "sa"},
        "source": {"sourceType": "Catalog", "catalog": {"packageName": "p", "version": ">=1"}}},
}))]
#[case::everything(json!({
    "metadata": {"name": "e"},
    "spec": {
        "namespace": "n",
        "source": {"sourceType": "Catalog", "catalog": {
            "packageName": "p", "version": "1.x", "channels": ["a", "b"],
            "selector": {"matchLabels": {"k": "v"}}, "upgradeConstraintPolicy": "SelfCertified"}},
        "install": {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}},
        "config": {"configType": "Inline", "inline": {"watchNamespace": "w", "n": {"deep": [1]}}},
        "progressDeadlineMinutes": 10,
    },
    "status": {
        "conditions": [{"type": "Installed", "status": "True", "reason": "Succeeded",
            "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 2}],
        "install": {"bundle": {"name": "p.v1", "version": "1.0.0+2", "release": ""}},
        "activeRevisions": [{"name": "e-1"}],
    },
}))]
fn cluster_extension_round_trips(#[case] mut value: Value) {
    value["apiVersion"] = json!(API_VERSION);
    value["kind"] = json!("ClusterExtension");
    round_trip::<ClusterExtension>(&value);
}

#[test]
fn cluster_catalog_round_trips_and_always_has_a_priority() {
    let value = json!({
        "apiVersion": API_VERSION, "kind": "ClusterCatalog", "metadata": {"name": "c"},
        "spec": {"source": {"type": "Image", "image": {"ref": "r.io/c:v1", "pollIntervalMinutes": 5}},
            "priority": 0, "availabilityMode": "Available"},
        "status": {
            "resolvedSource": {"type": "Image", "image": {"ref": "r.io/c@sha256:00"}},
            "urls": {"base": "https://x/catalogs/c"}, "lastUnpacked": "2026-01-02T03:04:05Z"},
    });
    round_trip::<ClusterCatalog>(&value);
    let bare: ClusterCatalogSpec =
        serde_json::from_value(json!({"source": {"type": "Image"}})).unwrap();
    assert_eq!(bare.availability(), AvailabilityMode::Available);
    assert_eq!(
        serde_json::to_value(bare).unwrap(),
        json!({"source": {"type": "Image"}, "priority": 0})
    );
}

#[test]
fn cluster_object_set_keeps_manifests_as_they_are() {
    round_trip::<ClusterObjectSet>(&json!({
        "apiVersion": API_VERSION, "kind": "ClusterObjectSet", "metadata": {"name": "e-1"},
        "spec": {
            "lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent",
            "phases": [{"name": "deploy", "collisionProtection": "None", "objects": [
                {"object": {"apiVersion": "v1", "kind": "ConfigMap", "newerThanUs": {"x": 1}}},
                {"ref": {"name": "s", "namespace": "n", "key": "k"}}]}],
            "progressionProbes": [{
                "selector": {"type": "GroupKind", "groupKind": {"group": "", "kind": "ConfigMap"}},
                "assertions": [
                    {"type": "FieldsEqual", "fieldsEqual": {"fieldA": "a", "fieldB": "b"}},
                    {"type": "ConditionEqual", "conditionEqual": {"type": "A", "status": "False"}},
                    {"type": "FieldValue", "fieldValue": {"fieldPath": "a", "value": "1"}}]}],
        },
        "status": {"observedPhases": [{"name": "deploy", "digest": "sha256:00"}]},
    }));
}

// api.md 4.2 and stack.md 5: a newer server may send fields we do not know.
#[test]
fn unknown_fields_are_no_error() {
    let value = json!({"metadata": {"name": "e"}, "spec": {"namespace": "n", "newer": 1,
        "source": {"sourceType": "Catalog"}}});
    assert!(serde_json::from_value::<ClusterExtension>(value).is_ok());
}

/// The names on the wire, so that a variant cannot be renamed by accident.
#[test]
fn reasons_keep_their_names() {
    let names = "\
        Succeeded Retrying RollingOut Blocked InvalidConfiguration ProgressDeadlineExceeded Failed \
        Absent Deprecated NotDeprecated DeprecationStatusUnknown ProbesSucceeded ProbeFailure \
        Reconciling Archived Available Unavailable UserSpecifiedUnavailable Uninstalling \
        ContentChanged BundleUnavailable CRDUpgradeRefused CRDUpgradeWaived PlanChanged ApprovalRequired PermissionIncrease RolledBack RolloutReverted RolloutSuperseded CatalogGone NextMajorHeld \
        LowerVersionHeld Pinned Paused ObjectsDeferred PermissionsSufficient PermissionsMissing \
        OperatorNotUpgradeable NoFindings Findings NotRead Compatible IncompatibleWithNextVersion InvalidProperty NotDeclared Supported SupportEnded PlatformUnsupported NextMinorHeld NextPatchHeld \
        OutsideWindow OtherCatalogHeld TooYoung Suspicious NotSuccessor \
        NotInRequestedChannels InvalidVersion VersionOutOfRange PrereleaseNotRequested \
        DependencyUnsupported ConstraintInvalid ConstraintUnmet ConstraintUnknown UnknownChannel \
        NoCandidate NoCatalog AmbiguousCatalogs CatalogNotSelected CatalogDisabled \
        CatalogNotServing CatalogNotResolved CatalogNotCached CatalogFetchFailed \
        CatalogParseFailed PackageNotInCatalog Usable LowerVersion LowerRelease TieBrokenByName \
        DeprecatedInThisCatalog LowerPriorityCatalog UnreadableCatalogs StepBreaksInstalled \
        ForcedStep InNoChannel InvalidSkipRange EdgeInUnrequestedChannel StaysOnInstalled \
        CatalogUnavailable SuccessorIsLowerVersion BreaksInstalled CatalogFindings UpgradeAvailable \
        RevisionCreated ForcedUpgrade CatalogChanged ForcedRollback CertificateIssued CertificateReplaced \
        ServingAuthorityReplaced CRDRetained DeferredObjectsApplied RemovalHeld UninstallFallback AsExpected NoData \
        ClusterVersionUnknown \
        InstalledOLMOperators_IncompatibleOperatorsInstalled \
        InstalledOLMOperators_FailureGettingExtensionMetadata";
    assert_eq!(Reason::VARIANTS.join(" "), names);
    for reason in Reason::VARIANTS {
        let parsed: Reason = reason.parse().unwrap();
        assert_eq!(parsed.as_str(), *reason);
    }
}
