//! The pages of `tests/played`: commands as a user types them, and all that they print.
//!
//! The commands of a block run one after another in a folder of their own, with the fixtures of these
//! tests, `hack`, and `testdata` of olm-core. `2> ` stands before what is said on stderr, and the exit
//! code below a command that fails. `UPDATE_DOCUMENTS=1` writes what is printed into the pages.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use olm_test::documents;
use rstest::rstest;

use super::{TESTS, outcome};

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = fs::read_dir(TESTS).unwrap().map(|entry| entry.unwrap().path());
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let others = ["hack", "src/core/testdata"].map(|path| Path::new(root).join(path));
    for path in fixtures.chain(others) {
        symlink(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

fn run(folder: &Path, command: &str) -> String {
    let plugin = env!("CARGO_BIN_EXE_kubectl-olm");
    let script = format!("kubectl() {{ shift; {plugin} \"$@\"; }}\n{command}\n");
    let mut shell = Command::new("bash");
    shell.args(["-o", "pipefail", "-c", &script]).current_dir(folder).stdin(Stdio::null());
    shell.env("KUBECONFIG", "/nonexistent/config").env("HOME", folder).env("LC_ALL", "C");
    shell.env_remove("BASH_ENV").env_remove("CLICOLOR_FORCE");
    shell.env_remove("XDG_CACHE_HOME").env_remove("XDG_CONFIG_HOME");
    let (code, mut text, errors) = outcome(&mut shell);
    for line in errors.lines() {
        writeln!(text, "{}", format!("2> {line}").trim_end()).unwrap();
    }
    if code != 0 {
        writeln!(text, "exit {code}").unwrap();
    }
    text
}

#[rstest]
fn what_is_shown_is_printed(#[files("tests/played/*.md")] path: PathBuf) {
    let page = fs::read_to_string(&path).unwrap();
    let (mut printed, mut wrong) = (page.clone(), String::new());
    for block in documents::blocks(&page) {
        assert!(!block.steps().is_empty(), "{}: nothing is run in {}", path.display(), block.text);
        let folder = folder();
        let mut text = String::new();
        for step in block.steps() {
            let output = run(folder.path(), &step.command);
            if output != step.output {
                writeln!(wrong, "$ {}\n{output}", step.command).unwrap();
            }
            writeln!(text, "$ {}", step.command).unwrap();
            text.push_str(&output);
        }
        let fenced = |text: &str| format!("```{}\n{text}```", block.info);
        printed = printed.replacen(&fenced(&block.text), &fenced(&text), 1);
    }
    if std::env::var_os("UPDATE_DOCUMENTS").is_some() {
        fs::write(&path, &printed).unwrap();
    } else {
        let name = path.display();
        assert!(wrong.is_empty(), "{name} does not show what is printed:\n{wrong}");
    }
}
