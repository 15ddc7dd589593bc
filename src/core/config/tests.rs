use olm_api::conditions::Reason;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::bundle::fixture::modes;
use crate::bundle::is_label;
use crate::error::Chain;
use crate::fixture::{cases, rows, text, texts, word};

const CASES: &str = include_str!("../testdata/config/cases.yaml");

fn on() -> Features {
    Features::default()
}

const OFF: Features =
    Features { single_own_namespace: false, deployment_config: false, webhooks: false };

/// A bundle that supports the modes of these letters.
fn bundle(letters: &str) -> Csv {
    Csv { install_modes: modes(letters), ..Csv::default() }
}

fn answer(letters: &str, inline: Option<&Value>, features: Features) -> String {
    match configure(&bundle(letters), "ops", inline, features) {
        Ok(configuration) => format!("{:?}", configuration.targets),
        Err(error) => error.to_string().replacen("invalid ClusterExtension configuration: ", "", 1),
    }
}

// rendering.md 3.1: absent, null, the install namespace, another namespace
#[test]
fn targets_by_install_mode() {
    let inputs = [
        json!({}),
        json!({"watchNamespace": null}),
        json!({"watchNamespace": "ops"}),
        json!({"watchNamespace": "dev"}),
    ];
    for (letters, want) in cases::<(&str, [&str; 4])>(CASES, "targets_by_install_mode") {
        for (input, want) in inputs.iter().zip(want) {
            assert_eq!(answer(letters, Some(input), on()), want, "{input}");
        }
        assert_eq!(answer(letters, None, on()), want[0]);
    }
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
#[test]
fn a_switched_off_feature_removes_its_key() {
    for (letters, inline, want) in
        cases::<(&str, Value, &str)>(CASES, "a_switched_off_feature_removes_its_key")
    {
        assert_eq!(answer(letters, Some(&inline), OFF), want);
    }
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
#[test]
fn pull_secrets_are_named_by_the_configuration() {
    for (config, want) in
        cases::<(Value, Vec<&str>)>(CASES, "pull_secrets_are_named_by_the_configuration")
    {
        let inline = json!({"deploymentConfig": config});
        assert_eq!(pull_secrets(Some(&inline)).into_iter().collect::<Vec<_>>(), want);
        assert!(pull_secrets(None).is_empty());
    }
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
#[test]
fn what_cannot_be_used_is_terminal() {
    for (config, want) in cases::<(Value, &str)>(CASES, "what_cannot_be_used_is_terminal") {
        let inline = json!({"deploymentConfig": config});
        let error = configure(&bundle("A"), "ops", Some(&inline), on()).unwrap_err();
        let head = "invalid deploymentConfig: failed to unmarshal deploymentConfig: ";
        assert_eq!(error.to_string(), format!("{head}{want}"));
        assert_eq!(error.disposition(), Disposition::Terminal(Reason::InvalidConfiguration));
    }
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

#[test]
fn the_schema_depends_on_the_install_modes() {
    for (letters, format, required) in
        cases::<(&str, Value, bool)>(CASES, "the_schema_depends_on_the_install_modes")
    {
        let schema = schema(&bundle(letters), on());
        let watch = &schema["properties"]["watchNamespace"];
        let name = if required { watch } else { &watch["anyOf"][1] };
        assert_eq!(name["format"], format);
        assert_eq!(schema.get("required").is_some(), required);
        assert!(schema["definitions"].as_object().unwrap().len() > 70);
        assert!(schema["definitions"].get("DeploymentConfig").is_none());
    }
}

#[test]
fn the_example_is_accepted() {
    for letters in cases::<&str>(CASES, "the_example_is_accepted") {
        let long = "n".repeat(63);
        for namespace in ["ops", &long] {
            let example = example(&bundle(letters), namespace, on());
            let inline = &example["inline"];
            let taken = configure(&bundle(letters), namespace, Some(inline), on()).unwrap();
            assert_eq!(taken.warnings, Vec::<String>::new());
            assert!(validator(&schema(&bundle(letters), on())).is_valid(inline));
        }
    }
}

/// Values that are often almost valid.
fn any_config() -> impl Strategy<Value = Value> {
    let leaves =
        [json!(null), json!(true), json!(1), json!(1.5), json!("500m"), json!({}), json!([])];
    let keys = "name env valueFrom volumes secret hostPath path mountPath resources limits tolerations \
        tolerationSeconds affinity nodeAffinity annotations nodeSelector";
    crate::fixture::json(prop::sample::select(leaves.to_vec()), word(keys))
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
