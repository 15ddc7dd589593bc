//! What README shows of the plugin is what the built program prints.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::Path;
use std::process::Command;

use rstest::rstest;

/// Returns the console blocks of README as command and output.
fn examples() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let blocks = readme.split("```console\n").skip(1);
    blocks
        .filter_map(|block| block.split("```").next()?.strip_prefix("$ kubectl olm "))
        .map(|block| {
            let (command, output) = block.split_once('\n').unwrap();
            (command.to_owned(), output.to_owned())
        })
        .collect()
}

/// Runs the program in the root of the repository, as a reader would.
fn run(command: &str) -> String {
    let words = command.split_whitespace();
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-olm"))
        .args(words.map(|word| word.trim_matches('\'')))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}");
    String::from_utf8(output.stdout).unwrap()
}

#[rstest]
#[case("why")]
#[case("graph")]
fn readme_shows_what_is_printed(#[case] name: &str) {
    let examples = examples();
    let found = examples
        .iter()
        .find(|(command, _)| command.starts_with(name));
    let (command, output) = found.unwrap_or_else(|| panic!("README has no example of {name}"));
    let printed = run(command);
    // A picture is not printed in README: it is the file beside its catalog.
    if printed.starts_with("<svg") {
        assert_eq!(printed, include_str!("graph/teapot.svg"));
    } else {
        assert_eq!(printed, *output);
    }
}
