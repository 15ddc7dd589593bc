//! `kubectl olm migrate from-classic` as a user runs it, on files.

use super::olm;

const FLEET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/testdata/classic/fleet.yaml");

/// Runs the program and returns exit code, stdout and stderr.
fn run(arguments: &[&str]) -> (i32, String, String) {
    run_on(FLEET, arguments)
}

fn run_on(file: &str, arguments: &[&str]) -> (i32, String, String) {
    olm(&[&["migrate", "from-classic", "-f", file], arguments].concat())
}

// plugin.md U73, U75
#[test]
fn the_stream_ends_with_the_steps() {
    let (code, text, errors) = run(&["teapot"]);
    assert_eq!(code, 1, "an override is not converted: {errors}");
    let comments: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
    insta::assert_snapshot!(comments.join("\n"), @r"
    # not converted: OperatorCondition pots/teapot-blue overrides: are deleted with the CSV: set them again on the OperatorCondition of the extension
    # 1. Apply the catalogs above and wait: kubectl wait --for=condition=Serving --timeout=5m clustercatalog pots
    # 2. Give the account exactly the rights it needs: kubectl olm rbac package:teapot@1.0.0 -n pots --service-account teapot-installer --apply
    # 3. Stop the operator of Classic; CRDs and their objects stay: kubectl delete subscription.operators.coreos.com -n pots teapot && kubectl delete clusterserviceversion -n pots teapot-blue. Where a CRD has a conversion webhook, check first that its versions have the same schema, and set conversion strategy None; otherwise stop here
    # 4. Apply extension teapot, which takes the CRDs over, give its account the rights that its annotations need (kubectl olm rbac teapot --apply), and wait: kubectl wait --for=condition=Ready --timeout=5m clusterextension teapot
    # 5. Apply the output of kubectl olm migrate from-classic --follow from before the first step, so that updates continue
    # 6. To go back: kubectl olm delete NAME --retain-crds, and apply the Subscription again
    ");
    assert_eq!(run(&["teapot"]).1, text);
    let (_, follow, _) = run(&["teapot", "--follow"]);
    assert!(follow.contains("packageName: teapot"), "{follow}");
    assert!(!follow.contains("version:"), "{follow}");
}

#[test]
fn a_report_has_a_line_for_each_field() {
    let (code, text, _) = run(&["--report"]);
    assert_eq!(code, 1);
    let line = "watches 3 namespaces (a, b, c); an extension watches one or all";
    assert!(text.contains(line), "{text}");
    let (code, _, errors) = run(&["kettle"]);
    assert_eq!(code, 1);
    assert!(errors.contains("there is no Subscription \"kettle\""), "{errors}");
}

#[test]
fn a_file_without_subscriptions_is_no_answer() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").unwrap();
    let (code, text, errors) = run_on(file.path().to_str().unwrap(), &[]);
    assert_eq!((code, text.as_str()), (1, ""));
    assert_eq!(errors, "error: no Subscriptions found\n");
    let group = "{apiVersion: operators.coreos.com/v1, kind: OperatorGroup, \
                 metadata: {name: g, namespace: a}}";
    std::fs::write(file.path(), group).unwrap();
    let (code, text, errors) = run_on(file.path().to_str().unwrap(), &["--report"]);
    assert_eq!((code, errors.as_str()), (0, "note: no Subscriptions found\n"));
    assert!(text.contains("no Subscription in its namespace is converted"), "{text}");
}

// plugin.md 3
#[test]
fn moving_is_asked_for_in_one_way() {
    let run = |arguments: &[&str]| {
        let (code, _, errors) = olm(&[&["migrate"], arguments].concat());
        (code, errors)
    };
    for (arguments, want) in [
        (&["from-classic", "--apply"][..], "--apply moves named Subscriptions, or --all of them"),
        (&["from-classic", "--yes", "lamp"], "--yes and --dry-run belong to --apply"),
        (&["from-classic", "--dry-run", "lamp"], "--yes and --dry-run belong to --apply"),
        (&["from-classic", "--all"], "--apply"),
        (&["from-classic", "--backup", "x"], "--apply"),
        (&["from-classic", "--apply", "--all", "lamp"], "cannot be used with"),
        (&["from-classic", "--apply", "--all", "-f", FLEET], "cannot be used with"),
        (&["from-classic", "--apply", "--all", "--report"], "cannot be used with"),
        (&["rollback"], "<FILE>"),
    ] {
        let (code, text) = run(arguments);
        assert_eq!(code, 2, "{arguments:?}: {text}");
        assert!(text.contains(want), "{arguments:?}: {text}");
    }
    let (code, text) = run(&["rollback", "/nonexistent/backup.yaml"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("/nonexistent/backup.yaml: there is no such file"), "{text}");
}
