use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use strum::VariantNames as _;

use super::conditions::Reason;
use super::*;

fn round_trip<K: DeserializeOwned + serde::Serialize>(kind: &str) {
    let kinds: Value = serde_json::from_str(include_str!("testdata/objects.json")).unwrap();
    for (name, object) in kinds[kind].as_object().unwrap() {
        let mut object = object.clone();
        object["apiVersion"] = API_VERSION.into();
        object["kind"] = kind.into();
        let read: K = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), object, "{name}");
    }
}

// An object without spec is admitted and must be readable (api.md 1.1).
#[test]
fn objects_round_trip() {
    round_trip::<ClusterExtension>("ClusterExtension");
    round_trip::<ClusterCatalog>("ClusterCatalog");
    round_trip::<ClusterObjectSet>("ClusterObjectSet");
}

#[test]
fn a_catalog_always_has_a_priority() {
    let bare = json!({"source": {"type": "Image"}});
    let bare: ClusterCatalogSpec = serde_json::from_value(bare).unwrap();
    assert_eq!(bare.availability(), AvailabilityMode::Available);
    let written = json!({"source": {"type": "Image"}, "priority": 0});
    assert_eq!(serde_json::to_value(bare).unwrap(), written);
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
    let names: Vec<_> = include_str!("testdata/reasons.txt").lines().collect();
    assert_eq!(Reason::VARIANTS, names);
    for reason in Reason::VARIANTS {
        let parsed: Reason = reason.parse().unwrap();
        assert_eq!(parsed.as_str(), *reason);
    }
}
