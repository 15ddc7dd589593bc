use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::bundle::InstallMode;
use crate::error::Chain;

fn on() -> Features {
    Features::default()
}

const OFF: Features = Features {
    single_own_namespace: false,
    deployment_config: false,
    webhooks: false,
};

/// A bundle that supports the modes of these letters.
fn bundle(letters: &str) -> Csv {
    let install_modes = letters
        .chars()
        .map(|letter| InstallMode {
            mode: match letter {
                'A' => mode::ALL_NAMESPACES,
                'O' => mode::OWN_NAMESPACE,
                'S' => mode::SINGLE_NAMESPACE,
                _ => mode::MULTI_NAMESPACE,
            }
            .to_owned(),
            supported: true,
        })
        .collect();
    Csv {
        install_modes,
        ..Csv::default()
    }
}

fn answer(letters: &str, inline: Option<&Value>, features: Features) -> String {
    match configure(&bundle(letters), "ops", inline, features) {
        Ok(configuration) => format!("{:?}", configuration.targets),
        Err(error) => error.to_string(),
    }
}

const OWN: &str = "invalid configuration: invalid format for field \"watchNamespace\": 'dev' is \
    not valid ownNamespaceInstallMode: invalid value \"dev\": must be \"ops\" (the namespace where \
    the operator is installed) because this operator only supports OwnNamespace install mode";
const SINGLE: &str = "invalid configuration: invalid format for field \"watchNamespace\": 'ops' is \
    not valid singleNamespaceInstallMode: invalid value \"ops\": must be different from \"ops\" \
    (the install namespace) because this operator uses SingleNamespace install mode to watch a \
    different namespace";
const MISSING: &str = "invalid configuration: required field \"watchNamespace\" is missing";
const UNKNOWN: &str = "invalid configuration: unknown field \"watchNamespace\"";
const ALL: &str = r#"[""]"#;
const DEV: &str = r#"["dev"]"#;
const OPS: &str = r#"["ops"]"#;

// rendering.md C5: absent, null, the install namespace, another namespace
#[rstest]
#[case("A", [ALL, UNKNOWN, UNKNOWN, UNKNOWN])]
#[case("O", [MISSING, MISSING, OPS, OWN])]
#[case("S", [MISSING, MISSING, SINGLE, DEV])]
#[case("OS", [MISSING, MISSING, OPS, DEV])]
#[case("AOS", [ALL, ALL, OPS, DEV])]
#[case("AOSM", [ALL, ALL, OPS, DEV])]
fn targets_by_install_mode(#[case] letters: &str, #[case] want: [&str; 4]) {
    let inputs = [
        json!({}),
        json!({"watchNamespace": null}),
        json!({"watchNamespace": "ops"}),
        json!({"watchNamespace": "dev"}),
    ];
    for (input, want) in inputs.iter().zip(want) {
        assert_eq!(
            answer(letters, Some(input), on()),
            want,
            "{letters} {input}"
        );
    }
    assert_eq!(answer(letters, None, on()), want[0]);
}

// rendering.md C5, C6, C7, C8, C9, C10
#[rstest]
#[case::any_of("AO", json!({"watchNamespace": "dev"}),
    "invalid configuration: multiple errors found:\n  - invalid value for field \
     \"watchNamespace\"\n  - invalid type for field \"watchNamespace\": got string, want null\n  \
     - invalid format for field \"watchNamespace\": 'dev' is not valid ownNamespaceInstallMode: \
     invalid value \"dev\": must be \"ops\" (the namespace where the operator is installed) \
     because this operator only supports OwnNamespace install mode")]
#[case::any_of_single("AS", json!({"watchNamespace": "ops"}),
    "invalid configuration: multiple errors found:\n  - invalid value for field \
     \"watchNamespace\"\n  - invalid type for field \"watchNamespace\": got string, want null\n  \
     - invalid format for field \"watchNamespace\": 'ops' is not valid \
     singleNamespaceInstallMode: invalid value \"ops\": must be different from \"ops\" (the \
     install namespace) because this operator uses SingleNamespace install mode to watch a \
     different namespace")]
#[case::number("S", json!({"watchNamespace": 123}),
    "invalid configuration: invalid type for field \"watchNamespace\": got number, want string")]
#[case::too_long("OS", json!({"watchNamespace": "A".repeat(64)}),
    "invalid configuration: multiple errors found:\n  - field \"watchNamespace\" must have maximum \
     length of 63 (len=64)\n  - field \"watchNamespace\" must match pattern \
     \"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$\"")]
#[case::empty("OS", json!({"watchNamespace": ""}),
    "invalid configuration: multiple errors found:\n  - field \"watchNamespace\" must have minimum \
     length of 1 (len=0)\n  - field \"watchNamespace\" must match pattern \
     \"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$\"")]
#[case::dash("OS", json!({"watchNamespace": "a-"}),
    "invalid configuration: field \"watchNamespace\" must match pattern \
     \"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$\"")]
#[case::dot("OS", json!({"watchNamespace": "a.b"}),
    "invalid configuration: field \"watchNamespace\" must match pattern \
     \"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$\"")]
#[case::format_first("O", json!({"watchNamespace": "Bad_Name"}),
    "invalid configuration: invalid format for field \"watchNamespace\": 'Bad_Name' is not valid \
     ownNamespaceInstallMode: invalid value \"Bad_Name\": must be \"ops\" (the namespace where the \
     operator is installed) because this operator only supports OwnNamespace install mode")]
#[case::not_an_object("A", json!(true),
    "invalid configuration: invalid type: got boolean, want object")]
#[case::two_unknown("A", json!({"zeta": 1, "alpha": 2}),
    "invalid configuration: multiple errors found:\n  - unknown field \"alpha\"\n  - unknown field \
     \"zeta\"")]
#[case::longest("OS", json!({"watchNamespace": "a".repeat(63)}), &format!("[{:?}]", "a".repeat(63)))]
fn reports(#[case] letters: &str, #[case] inline: Value, #[case] want: &str) {
    assert_eq!(answer(letters, Some(&inline), on()), want);
}

// rendering.md C19, C20
#[rstest]
#[case("AO", json!({"watchNamespace": "ops"}), UNKNOWN)]
#[case("A", json!({"deploymentConfig": {}}),
    "invalid configuration: unknown field \"deploymentConfig\"")]
fn a_switched_off_feature_removes_its_key(
    #[case] letters: &str,
    #[case] inline: Value,
    #[case] want: &str,
) {
    assert_eq!(answer(letters, Some(&inline), OFF), want);
}

// rendering.md C21
#[test]
fn a_wrong_configuration_is_terminal() {
    let error = configure(&bundle("A"), "ops", Some(&json!({"x": 1})), on()).unwrap_err();
    assert_eq!(
        error.disposition(),
        Disposition::Terminal("InvalidConfiguration")
    );
    let outer = crate::render::RenderError::from(error);
    assert_eq!(
        Chain(&outer).to_string(),
        "invalid ClusterExtension configuration: invalid configuration: unknown field \"x\""
    );
}

proptest! {
    // rendering.md C22 and 3.1: only names that the pattern allows become targets
    #[test]
    fn accepted_targets_are_namespace_names(letters in "[AOS]{1,3}", name in ".{0,5}") {
        let inline = json!({"watchNamespace": name});
        let first = configure(&bundle(&letters), "ops", Some(&inline), on());
        prop_assert_eq!(&first, &configure(&bundle(&letters), "ops", Some(&inline), on()));
        if let Ok(configuration) = first {
            prop_assert!(matches_pattern(&configuration.targets[0]));
        }
    }
}
