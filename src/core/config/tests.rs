use olm_api::conditions::Reason;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::bundle::{InstallMode, is_label, mode};
use crate::error::Chain;
use crate::fixture::{rows, text, texts};

fn on() -> Features {
    Features::default()
}

const OFF: Features =
    Features { single_own_namespace: false, deployment_config: false, webhooks: false };

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
    Csv { install_modes, ..Csv::default() }
}

fn answer(letters: &str, inline: Option<&Value>, features: Features) -> String {
    match configure(&bundle(letters), "ops", inline, features) {
        Ok(configuration) => format!("{:?}", configuration.targets),
        Err(error) => error.to_string().replacen("invalid ClusterExtension configuration: ", "", 1),
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

// rendering.md 3.1: absent, null, the install namespace, another namespace
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
        assert_eq!(answer(letters, Some(input), on()), want, "{letters} {input}");
    }
    assert_eq!(answer(letters, None, on()), want[0]);
}

// rendering.md 3.1, 3.3
#[test]
fn reports() {
    for row in rows(include_str!("../testdata/config/reports.yaml")) {
        let found = answer(text(&row, "modes"), Some(&row["inline"]), on());
        assert_eq!(found, row["want"], "{row}");
    }
}

// rendering.md 3.2, R19 (upstream forgets `watchNamespace` and still takes it)
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

// rendering.md 3
#[test]
fn a_wrong_configuration_is_terminal() {
    let error = configure(&bundle("A"), "ops", Some(&json!({"x": 1})), on()).unwrap_err();
    assert_eq!(error.disposition(), Disposition::Terminal(Reason::InvalidConfiguration));
    let outer = crate::render::RenderError::from(error);
    assert_eq!(
        Chain(&outer).to_string(),
        "invalid ClusterExtension configuration: invalid configuration: unknown field \"x\""
    );
}

proptest! {
    // rendering.md 3.3, 3.1: only names that the pattern allows become targets
    #[test]
    fn accepted_targets_are_namespace_names(letters in "[AOS]{1,3}", name in ".{0,5}") {
        let inline = json!({"watchNamespace": name});
        let first = configure(&bundle(&letters), "ops", Some(&inline), on());
        prop_assert_eq!(&first, &configure(&bundle(&letters), "ops", Some(&inline), on()));
        if let Ok(configuration) = first {
            prop_assert!(is_label(&configuration.targets[0]));
        }
    }
}

/// Returns what the configuration `{"deploymentConfig": config}` results in, as text.
fn changed(config: &Value) -> String {
    answer("A", Some(&json!({"deploymentConfig": config})), on())
}

fn invalid(details: &[&str]) -> String {
    match details {
        [detail] => format!("invalid configuration: {detail}"),
        details => {
            format!("invalid configuration: multiple errors found:\n  - {}", details.join("\n  - "))
        }
    }
}

// rendering.md 3.3, 3.2 (R12: upstream says `validation failed` for the
// nested ones)
#[test]
fn a_wrong_deployment_config_is_told_with_its_path() {
    for row in rows(include_str!("../testdata/config/wrong.yaml")) {
        assert_eq!(changed(&row["config"]), invalid(&texts(&row, "want")), "{row}");
    }
}

// decision 49: a name becomes part of a path, which the controller reads with its own rights
#[rstest]
#[case::none(json!({}), &[])]
#[case::not_a_list(json!({"imagePullSecrets": "a"}), &[])]
#[case::each_once(json!({"imagePullSecrets": [{"name": "b"}, {"name": "a.b"}, {"name": "b"}]}), &["a.b", "b"])]
#[case::no_names(json!({"imagePullSecrets": [{}, {"name": ""}, {"name": 1}, "a"]}), &[])]
#[case::paths(json!({"imagePullSecrets": [{"name": ".."}, {"name": "a/b"}, {"name": "a?b"}, {"name": "A"}]}), &[])]
fn pull_secrets_are_named_by_the_configuration(#[case] config: Value, #[case] want: &[&str]) {
    let inline = json!({"deploymentConfig": config});
    assert_eq!(pull_secrets(Some(&inline)).into_iter().collect::<Vec<_>>(), want);
    assert!(pull_secrets(None).is_empty());
}

// rendering.md 3.2: the keys that nested types require
#[test]
fn a_nested_key_is_required() {
    for row in rows(include_str!("../testdata/config/required.yaml")) {
        let (parents, key) = row.as_str().unwrap().rsplit_once('.').unwrap();
        let config = parents.rsplit('.').fold(json!({"other": 1}), |inner, part| match part {
            "0" => json!([inner]),
            part => json!({ part: inner }),
        });
        let detail = format!("required field \"deploymentConfig.{parents}.{key}\" is missing");
        let text = changed(&config);
        assert!(text.contains(&detail), "{text}");
    }
}

// rendering.md 3.2: numbers become strings, unknown fields are left out and reported
#[test]
fn a_deployment_config_is_taken_as_its_types_say() {
    let config = json!({
        "resources": {"limits": {"cpu": 1, "memory": 1.5}, "more": 1},
        "tolerations": [{"tolerationSeconds": 120.0, "nested": {"a": 1}}],
        "affinity": {},
    });
    let inline = json!({"deploymentConfig": config});
    let configuration = configure(&bundle("A"), "ops", Some(&inline), on()).unwrap();
    let taken = configuration.deployment.unwrap();
    assert_eq!(
        Value::Object(taken.0),
        json!({
            "resources": {"limits": {"cpu": "1", "memory": "1.5"}},
            "tolerations": [{"tolerationSeconds": 120}],
            "affinity": {},
        })
    );
    assert_eq!(
        configuration.warnings,
        ["the configuration has fields that nothing reads, they are left out: \
             deploymentConfig.resources.more, deploymentConfig.tolerations.0.nested"]
    );
    // rendering.md 3.3
    let empty = configure(&bundle("A"), "ops", Some(&json!({"deploymentConfig": {}})), on());
    assert_eq!(empty.unwrap().deployment, Some(DeploymentConfig::default()));
}

// rendering.md 3.3: values that pass the schema but cannot be decoded
#[rstest]
#[case(json!({"resources": {"limits": {"cpu": "much"}}}), "deploymentConfig.resources.limits.cpu: \
    quantities must match the regular expression \
    '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
#[case(json!({"volumes": [{"name": "v", "secret": {"defaultMode": 4_294_967_296_i64}}]}),
    "deploymentConfig.volumes.0.secret.defaultMode: 4294967296 does not fit into int32")]
#[case(json!({"tolerations": [{"tolerationSeconds": 1e300}]}),
    "deploymentConfig.tolerations.0.tolerationSeconds: 1e+300 does not fit into int64")]
fn what_cannot_be_used_is_terminal(#[case] config: Value, #[case] want: &str) {
    let inline = json!({"deploymentConfig": config});
    let error = configure(&bundle("A"), "ops", Some(&inline), on()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("invalid deploymentConfig: failed to unmarshal deploymentConfig: {want}")
    );
    assert_eq!(error.disposition(), Disposition::Terminal(Reason::InvalidConfiguration));
}

fn validator(schema: &Value) -> jsonschema::Validator {
    jsonschema::draft7::new(schema).unwrap()
}

// rendering.md 3.2
#[test]
fn the_schema_of_a_bundle_without_choice() {
    let schema = schema(&bundle("A"), OFF);
    assert_eq!(schema["properties"], json!({}));
    assert_eq!(schema["additionalProperties"], false);
    assert!(schema.get("required").is_none() && schema.get("definitions").is_none());
}

#[rstest]
#[case("O", json!("ownNamespaceInstallMode"), true)]
#[case("S", json!("singleNamespaceInstallMode"), true)]
#[case("OS", Value::Null, true)]
#[case("AO", json!("ownNamespaceInstallMode"), false)]
fn the_schema_depends_on_the_install_modes(
    #[case] letters: &str,
    #[case] format: Value,
    #[case] required: bool,
) {
    let schema = schema(&bundle(letters), on());
    let watch = &schema["properties"]["watchNamespace"];
    let name = if required { watch } else { &watch["anyOf"][1] };
    assert_eq!(name["format"], format);
    assert_eq!(schema.get("required").is_some(), required);
    assert!(schema["definitions"].as_object().unwrap().len() > 70);
    assert!(schema["definitions"].get("DeploymentConfig").is_none());
}

#[rstest]
#[case("A")]
#[case("O")]
#[case("S")]
#[case("OS")]
#[case("AO")]
#[case("AOS")]
fn the_example_is_accepted(#[case] letters: &str) {
    let long = "n".repeat(63);
    for namespace in ["ops", &long] {
        let example = example(&bundle(letters), namespace, on());
        let inline = &example["inline"];
        let taken = configure(&bundle(letters), namespace, Some(inline), on()).unwrap();
        assert_eq!(taken.warnings, Vec::<String>::new());
        assert!(validator(&schema(&bundle(letters), on())).is_valid(inline));
    }
}

/// Values that are often almost valid.
fn any_config() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        Just(json!(1)),
        Just(json!(1.5)),
        Just(json!("500m")),
        Just(json!({})),
        Just(json!([])),
    ];
    let key = prop_oneof![
        Just("name"),
        Just("env"),
        Just("valueFrom"),
        Just("volumes"),
        Just("secret"),
        Just("hostPath"),
        Just("path"),
        Just("mountPath"),
        Just("resources"),
        Just("limits"),
        Just("tolerations"),
        Just("tolerationSeconds"),
        Just("affinity"),
        Just("nodeAffinity"),
        Just("annotations"),
        Just("nodeSelector"),
    ];
    leaf.prop_recursive(5, 24, 3, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            proptest::collection::btree_map(key.clone(), inner, 0..4).prop_map(|map| map
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

proptest! {
    // rendering.md 3.2: the rules and the schema we print agree, and errors repeat
    #[test]
    fn the_schema_accepts_what_the_rules_accept(
        letters in "(A|OS|AOS)",
        config in any_config(),
        watch in prop_oneof![Just(Value::Null), Just(json!("dev")), Just(json!("")), Just(json!(1))],
    ) {
        static SCHEMAS: std::sync::LazyLock<Vec<(&str, jsonschema::Validator)>> =
            std::sync::LazyLock::new(|| {
                let all = ["A", "OS", "AOS"].into_iter();
                all.map(|letters| (letters, validator(&schema(&bundle(letters), on())))).collect()
            });
        let mut inline = json!({"deploymentConfig": config});
        if letters != "A" {
            inline["watchNamespace"] = watch;
        }
        let ours = configure(&bundle(&letters), "ops", Some(&inline), on());
        let by_schema = SCHEMAS.iter().find(|(known, _)| *known == letters).unwrap().1.is_valid(&inline);
        prop_assert_eq!(!matches!(ours, Err(ConfigError::Invalid(_))), by_schema, "{:?}", ours);
        prop_assert_eq!(&ours, &configure(&bundle(&letters), "ops", Some(&inline), on()));
    }
}
