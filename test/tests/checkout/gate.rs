//! The gate begins with what a newcomer has (`.ci/run`, `hack/newcomer.sh`).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

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
    for target in ["demo", "test"] {
        let (_, recipe) = newcomer(folder.path(), &["make", "-n", target]);
        assert!(recipe.contains("hack/build.sh"), "{recipe}");
        assert!(!recipe.contains("hack/tools.sh"), "{recipe}");
    }
    let (_, recipe) = newcomer(folder.path(), &["make", "-n", "lint"]);
    assert!(recipe.contains("hack/tools.sh"), "{recipe}");
}
