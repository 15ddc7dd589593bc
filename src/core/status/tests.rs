use proptest::prelude::*;

use super::*;
use crate::fixture::cases;

const CASES: &str = include_str!("../testdata/status/cases.yaml");

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn transition_time_moves_with_the_status_alone() {
    let mut conditions = Vec::new();
    assert!(retrying("a").put(&mut conditions, Some(1), at(1)));
    assert!(!retrying("a").put(&mut conditions, Some(1), at(2)));
    assert_eq!(conditions[0].last_transition_time, Time(at(1)));
    assert!(retrying("b").put(&mut conditions, Some(1), at(2)));
    assert_eq!(conditions[0].last_transition_time, Time(at(1)));
    assert!(terminal(Reason::Blocked, "b").put(&mut conditions, Some(1), at(3)));
    assert_eq!(conditions[0].last_transition_time, Time(at(3)));
    assert_eq!(conditions.len(), 1);
}

#[test]
fn a_new_generation_is_a_change() {
    let mut conditions = Vec::new();
    retrying("a").put(&mut conditions, Some(1), at(1));
    assert!(retrying("a").put(&mut conditions, Some(2), at(2)));
    assert_eq!(conditions[0].observed_generation, Some(2));
    assert_eq!(conditions[0].last_transition_time, Time(at(1)));
}

// The API keeps whole seconds; with a fraction, what is read would differ from what was written.
#[test]
fn times_have_no_fraction() {
    let mut conditions = Vec::new();
    retrying("a").put(&mut conditions, None, Timestamp::new(7, 900).unwrap());
    assert_eq!(conditions[0].last_transition_time, Time(at(7)));
}

// api.md 4.2
#[test]
fn a_copied_condition_brings_its_own_time() {
    let mut conditions = Vec::new();
    terminal(Reason::Blocked, "x").put(&mut conditions, Some(1), at(1));
    let mut source = Vec::new();
    object_set::rolled_out("1.0.0").put(&mut source, Some(9), at(5));
    assert!(copy_condition(&mut conditions, &source[0], Some(2)));
    assert_eq!(conditions[0].last_transition_time, Time(at(5)));
    assert_eq!(conditions[0].observed_generation, Some(2));
    assert!(!copy_condition(&mut conditions, &source[0], Some(2)));
}

// api.md T19
#[test]
fn a_long_message_is_cut_and_says_so() {
    for (unit, times) in [("x", 40_000), ("é", 20_000), ("🦀", 10_001)] {
        let mut conditions = Vec::new();
        retrying(unit.repeat(times)).put(&mut conditions, None, at(0));
        let message = &conditions[0].message;
        assert!(message.len() <= MESSAGE_LIMIT && message.len() > MESSAGE_LIMIT - 4);
        assert!(message.ends_with("\n\n... [message truncated]"));
    }
}

#[test]
fn a_message_at_the_limit_stays() {
    let mut message = "x".repeat(MESSAGE_LIMIT);
    truncate(&mut message);
    assert_eq!(message, "x".repeat(MESSAGE_LIMIT));
}

// api.md T20
#[test]
fn ports_that_change_are_removed() {
    for (message, want) in cases::<(&str, &str)>(CASES, "ports_that_change_are_removed") {
        assert_eq!(sanitize(message), want);
    }
}

proptest! {
    #[test]
    fn sanitizing_never_panics_and_never_grows(message in ".*") {
        prop_assert!(sanitize(&message).len() <= message.len());
    }

    #[test]
    fn truncating_keeps_the_beginning(message in "\\PC{0,200}", times in 1usize..400) {
        let long = message.repeat(times);
        let mut cut = long.clone();
        truncate(&mut cut);
        prop_assert!(cut.len() <= MESSAGE_LIMIT);
        let kept = cut.strip_suffix("\n\n... [message truncated]").unwrap_or(&cut);
        prop_assert!(long.starts_with(kept));
    }
}

mod object_sets {
    use super::super::object_set::*;
    use crate::object::Identity;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    fn claim() -> Identity {
        Identity {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "PersistentVolumeClaim".to_owned(),
            namespace: "ns".to_owned(),
            name: "test-pvc".to_owned(),
        }
    }

    // api.md 3.6
    #[test]
    fn probe_lines_name_the_object() {
        let message = r#"value at key "status.phase" != "Bound"; expected: "Bound" got: "Pending""#;
        assert_eq!(
            probe_line(&claim(), message),
            r#"Object PersistentVolumeClaim.v1 ns/test-pvc: value at key "status.phase" != "Bound"; expected: "Bound" got: "Pending""#
        );
        let crd = Identity {
            group: "apiextensions.k8s.io".to_owned(),
            kind: "CustomResourceDefinition".to_owned(),
            namespace: String::new(),
            name: "foos.example.com".to_owned(),
            ..claim()
        };
        assert_eq!(
            probe_line(&crd, "a and b"),
            "Object CustomResourceDefinition.apiextensions.k8s.io/v1 /foos.example.com: a and b"
        );
    }

    // api.md 3.6
    #[test]
    fn blocked_texts_are_upstreams() {
        assert_eq!(
            mutable_secrets(&["a/b".to_owned(), "a/c".to_owned()]),
            "the following secrets are not immutable (referenced secrets must have immutable set to true): a/b, a/c"
        );
    }

    #[test]
    fn collisions_name_the_owner_as_go_prints_it() {
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "K".to_owned(),
            name: "n".to_owned(),
            uid: "u".to_owned(),
            controller: Some(true),
            block_owner_deletion: None,
        };
        let collision = |owner| Collision::of(claim(), owner, None);
        insta::assert_snapshot!(collisions(3, &[collision(Some(owner)), collision(None)]), @r#"
        revision object collisions in phase 3
        Object PersistentVolumeClaim.v1 ns/test-pvc
        Action: "Collision"
        Conflicting Owner: &OwnerReference{Kind:K,Name:n,UID:u,APIVersion:v1,Controller:*true,BlockOwnerDeletion:nil,}

        Object PersistentVolumeClaim.v1 ns/test-pvc
        Action: "Collision"
        Conflicting Owner: nil
        "#);
    }
}

mod catalogs {
    use super::super::catalog;
    use super::*;

    fn ready(statements: impl IntoIterator<Item = Statement>) -> Statement {
        let mut conditions = Vec::new();
        for statement in statements {
            statement.put(&mut conditions, Some(1), at(0));
        }
        catalog_ready(&conditions, Some(1), &[])
    }

    // decision 32
    #[test]
    fn a_catalog_is_ready_when_it_is_served_and_current() {
        let well = ready([catalog::serving(), catalog::unpacked()]);
        assert_eq!((well.status, well.reason.as_str()), ("True", "Succeeded"));
        let stale = ready([catalog::serving(), retrying("source catalog content: x")]);
        assert_eq!(
            (stale.status, stale.reason.as_str(), stale.message.as_str()),
            ("False", "Retrying", "source catalog content: x")
        );
        let off = ready(catalog::switched_off());
        assert_eq!((off.status, off.reason.as_str()), ("False", "UserSpecifiedUnavailable"));
    }
}
