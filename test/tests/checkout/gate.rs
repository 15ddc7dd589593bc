//! The gate begins with what a newcomer has (`.ci/run`, `hack/newcomer.sh`), the workflows run its
//! steps, and the action for authors of catalogs checks what they give it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use olm_test::documents::Shell;
use olm_test::paths;

/// Runs a command as `hack/newcomer.sh` does, on a machine with `tools` in its home and its PATH.
fn newcomer(folder: &Path, command: &[&str]) -> (bool, String) {
    let path = std::env::var("PATH").expect("a PATH");
    let out = Command::new(paths::repository().join("hack/newcomer.sh"))
        .args(command)
        .env("HOME", folder)
        .env("NEWCOMER", folder.join("newcomer"))
        .env("PATH", format!("{}:{path}", folder.join(".cargo/bin").display()))
        .output()
        .expect("bash runs");
    (out.status.success(), String::from_utf8_lossy(&out.stdout).into_owned())
}

#[test]
fn a_newcomer_has_four_tools_and_none_that_a_later_step_brings() {
    let folder = tempfile::tempdir().expect("a folder");
    let listed = Command::new(paths::repository().join("hack/tools.sh")).arg("--list").output();
    let listed = String::from_utf8(listed.expect("bash runs").stdout).expect("text");
    let tools: Vec<&str> = listed.lines().collect();
    assert!(tools.contains(&"zig"), "{tools:?}");
    let bin = folder.path().join(".cargo/bin");
    fs::create_dir_all(&bin).expect("a folder");
    for tool in &tools {
        let file = bin.join(tool);
        fs::write(&file, "#!/bin/sh\n").expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    for tool in &tools {
        let (found, path) = newcomer(folder.path(), &["sh", "-c", &format!("command -v {tool}")]);
        assert!(!found, "a first step could use {tool}, {path}");
    }
    for tool in ["cargo", "go", "cc", "git", "make"] {
        let (found, _) = newcomer(folder.path(), &["sh", "-c", &format!("command -v {tool}")]);
        assert!(found, "{tool} is missing");
    }
}

#[test]
fn the_gate_begins_with_the_two_commands_of_the_readme_and_they_fetch_no_tool() {
    let gate = fs::read_to_string(paths::repository().join(".ci/run")).expect("the gate");
    let steps: Vec<&str> = gate
        .lines()
        .map(str::trim)
        .filter(|line| {
            ["make ", "hack/", "apt-get ", "cargo ", "rustup "]
                .iter()
                .any(|one| line.starts_with(one))
        })
        .collect();
    assert_eq!(steps[..2], ["hack/newcomer.sh make demo", "hack/newcomer.sh make test"]);
    let folder = tempfile::tempdir().expect("a folder");
    // hack/test.sh runs the last two.
    for target in ["demo", "test", "test-control-plane", "test-unit"] {
        let (_, recipe) = newcomer(folder.path(), &["make", "-n", target]);
        assert!(target == "test-unit" || recipe.contains("hack/build.sh"), "{recipe}");
        assert!(!recipe.contains("hack/tools.sh"), "{recipe}");
    }
    let (_, recipe) = newcomer(folder.path(), &["make", "-n", "lint"]);
    assert!(recipe.contains("hack/tools.sh"), "{recipe}");
}

/// Those of test-corpus need data beside the checkout, which a public runner does not have.
#[test]
fn the_workflow_runs_every_step_of_the_gate_that_needs_only_the_checkout() {
    let gate = paths::repository().join(".ci/run");
    let listed = Command::new(&gate).arg("--list").output().expect("bash runs");
    let listed = String::from_utf8(listed.stdout).expect("text");
    let text = fs::read_to_string(&gate).expect("the gate");
    for step in listed.lines() {
        assert!(text.contains(&format!("\nif begins {step} ")), "{step}");
    }
    let unknown = Command::new(&gate).arg("nothing").output().expect("bash runs");
    assert_eq!(unknown.status.code(), Some(2));

    let workflow = paths::repository().join(".github/workflows/ci.yml");
    let workflow = fs::read_to_string(workflow).expect("the workflow");
    let matrix = workflow.lines().map(str::trim).skip_while(|line| *line != "matrix:").skip(2);
    let run: Vec<_> =
        matrix.map_while(|line| line.strip_prefix("- ")).flat_map(str::split_whitespace).collect();
    let once: BTreeSet<_> = run.iter().copied().collect();
    let wanted: BTreeSet<_> = listed.lines().filter(|step| *step != "test-corpus").collect();
    assert_eq!((once.len(), once), (run.len(), wanted));
    assert!(workflow.contains("run: xargs .ci/run <<< \"$STEPS\""));
}

#[test]
fn the_action_checks_everything_before_it_fails() {
    let shell = Shell::offline();
    let script = paths::repository().join(".github/actions/check-catalog/check.sh");
    let made = "mkdir lamps empty\nsed 's/[$]{REGISTRY}/registry.example.com/' \
                hack/demo/catalogs/first/lamp-operator.yaml > lamps/catalog.yaml";
    let (succeeded, printed) = shell.run(made);
    assert!(succeeded, "{printed}");
    let bundle = "hack/demo/bundles/lamp-operator/1.0.0";
    let check = |bundles: &str| {
        let given = format!("export BUNDLES=$'{bundles}' CATALOG=lamps PUBLISHED=lamps");
        shell.run(&format!("{given}\n'{}'", script.display()))
    };
    let (succeeded, printed) = check(bundle);
    assert!(succeeded, "{printed}");
    let (succeeded, printed) = check(&format!("./empty\\n{bundle}\\n"));
    assert!(!succeeded, "{printed}");
    let lint = format!("bundle lint {bundle}");
    for command in ["bundle lint ./empty", &lint, "catalog lint lamps", "catalog diff lamps lamps"]
    {
        assert!(printed.contains(&format!("$ kubectl olm {command}\n")), "{command}: {printed}");
    }
}
