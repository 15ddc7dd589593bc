//! The command blocks of README and `docs`: run as a reader would, and compared with what they show.
//!
//! A block in language `console` shows commands after `$ `, each with what it prints. It needs no
//! cluster, unless `cluster` stands behind the language: then it goes on where the last one of its
//! document ended. A line `...` stands for any lines, and where nothing is shown the command has to
//! succeed. Ages, times and digests are compared by their
//! form, blanks by that there are some. `UPDATE_DOCUMENTS=1` writes what is printed into the document.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::iter;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::paths;

/// What stands for any lines.
const ANY: &str = "...";
/// Commands that show what the controller has reported.
const READS: [&str; 6] = [
    "kubectl get ",
    "kubectl describe ",
    "kubectl olm doctor",
    "kubectl olm history ",
    "kubectl olm status ",
    "kubectl olm version",
];
/// Most time it takes to report what a command before has changed.
const SETTLED: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(500);
/// kubectl finds the plugin by itself; where there is no kubectl, the plugin is enough.
const PLUGIN_ALONE: &str = "kubectl() { test \"$1\" = olm && shift && kubectl-olm \"$@\"; }\n";

/// A fenced block of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What stands behind the fence: the language, and more.
    pub info: String,
    /// The lines between the fences.
    pub text: String,
    /// What stands before each line of a block in a list.
    indent: String,
}

/// A command, and what it prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The command, over several lines where it has a document as its input.
    pub command: String,
    /// What is shown of its output.
    pub output: String,
}

/// Returns the paths of README and of the documents for users, from the root of the repository.
pub fn all() -> Vec<String> {
    let documents = paths::inside(&paths::repository().join("docs")).into_iter();
    let documents = documents.filter(|path| paths::ends(path, &[".md"]));
    let name = |path: PathBuf| format!("docs/{}", path.file_name().unwrap_or_default().display());
    iter::once("README.md".to_owned()).chain(documents.map(name)).collect()
}

/// Reads a document.
pub fn read(path: &str) -> String {
    let text = std::fs::read_to_string(paths::repository().join(path));
    text.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the paths of all pages of the repository.
pub fn pages() -> Vec<String> {
    let root = paths::repository();
    let mut pages = paths::below(&root, |_| false);
    for folder in [".github", "config", "docs", "hack"] {
        pages.extend(paths::below(&root.join(folder), |_| true));
    }
    pages.retain(|path| paths::ends(path, &[".md"]));
    let name = |path: &PathBuf| path.strip_prefix(&root).expect("below it").display().to_string();
    pages.iter().map(name).collect()
}

/// Returns the fenced blocks of a document.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut lines = text.lines();
    let mut blocks = Vec::new();
    while let Some(line) = lines.next() {
        let fence = line.split_once("```");
        if let Some((indent, info)) = fence.filter(|(indent, _)| indent.trim().is_empty()) {
            let inside = lines.by_ref().take_while(|line| line.trim() != "```");
            let inside = inside.map(|line| line.strip_prefix(indent).unwrap_or(line));
            let text = inside.fold(String::new(), |text, line| text + line + "\n");
            blocks.push(Block { info: info.to_owned(), text, indent: indent.to_owned() });
        }
    }
    blocks
}

/// Returns the lines of a document outside of fenced blocks.
pub fn outside(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push(line);
        }
    }
    lines
}

/// Returns what follows one of these programs where a document names a command, in its sentences or
/// in a block, up to a pipe.
pub fn commands(text: &str, programs: &[&str]) -> Vec<String> {
    let (outside, blocks) = (outside(text), blocks(text));
    let spans = outside.iter().flat_map(|line| line.split('`').skip(1).step_by(2));
    let inside = blocks.iter().flat_map(|block| block.text.lines());
    let inside = inside.map(|line| line.strip_prefix("$ ").unwrap_or(line));
    let of =
        |it: &str| programs.iter().find_map(|program| it.strip_prefix(program)).map(str::to_owned);
    let commands = spans.chain(inside).filter_map(of);
    let up_to = |it: String| it.split(['|', ';', '>', '\\']).next().map(str::to_owned);
    commands.filter_map(up_to).collect()
}

/// Returns the flags that a command gets.
pub fn given(command: &str) -> Vec<&str> {
    let words = command.split_whitespace().filter_map(|word| word.split('=').next());
    let is_flag = |word: &&str| {
        let name = word.trim_start_matches('-');
        name != *word && name.starts_with(|c: char| c.is_ascii_alphabetic())
    };
    words.filter(is_flag).collect()
}

/// Returns the flags that a text names.
pub fn flags(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| word.starts_with('-')).collect()
}

impl Block {
    /// Returns the block with its fences, and this between them.
    fn fenced(&self, text: &str) -> String {
        let whole = format!("```{}\n{text}```", self.info);
        let indented = whole.lines().map(|line| match line {
            "" => "\n".to_owned(),
            line => format!("{}{line}\n", self.indent),
        });
        indented.collect()
    }

    /// Returns the commands, none if nothing stands after a `$ `.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut end: Option<String> = None;
        for line in self.text.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                let here = command.split_once("<<'").and_then(|(_, it)| it.split('\'').next());
                end = here.map(str::to_owned);
                steps.push(Step { command: command.to_owned(), output: String::new() });
            } else if let Some(step) = steps.last_mut() {
                if let Some(word) = end.take() {
                    step.command.push('\n');
                    step.command.push_str(line);
                    end = Some(word).filter(|word| line != word);
                } else {
                    step.output.push_str(line);
                    step.output.push('\n');
                }
            }
        }
        steps
    }
}

/// A shell as the reader of a document has it: in a checkout, with the programs in `PATH`.
pub struct Shell {
    folder: tempfile::TempDir,
    environment: Vec<(String, PathBuf)>,
    prelude: &'static str,
}

impl Shell {
    /// A shell without a cluster.
    pub fn offline() -> Self {
        Self::with([("KUBECONFIG".to_owned(), "/nonexistent".into())].into(), PLUGIN_ALONE)
    }

    /// A shell with this kubectl and this environment.
    pub fn on_a_cluster(kubectl: &Path, environment: Vec<(String, PathBuf)>) -> Self {
        let shell = Self::with(environment, "");
        symlink(kubectl, shell.folder.path().join("bin/kubectl")).expect("a link");
        shell
    }

    fn with(environment: Vec<(String, PathBuf)>, prelude: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["config", "docs", "hack", "src"] {
            let there = paths::repository().join(name);
            symlink(there, folder.path().join(name)).expect("a link");
        }
        symlink(paths::repository(), folder.path().join("olm-controller")).expect("a link");
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).expect("the folder is made");
        symlink(paths::built("kubectl-olm"), bin.join("kubectl-olm")).expect("a link");
        Self { folder, environment, prelude }
    }

    /// The folder the commands run in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs commands, and returns whether they succeeded and what a terminal would show.
    pub fn run(&self, commands: &str) -> (bool, String) {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.folder().join("bin").display());
        let script = format!("exec 2>&1\n{}{commands}\n", self.prelude);
        let out = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .current_dir(self.folder())
            .envs(self.environment.iter().cloned())
            .env("PATH", path)
            .env("XDG_CACHE_HOME", self.folder().join("cache"))
            .env("NO_COLOR", "1")
            .stdin(std::process::Stdio::null())
            .output()
            .expect("bash starts");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        (out.status.success(), text)
    }

    /// Runs a command of a document, and returns what it prints if that is not what is shown. One of
    /// which nothing is shown has to succeed. What reads a cluster is run again for a while: a reader is
    /// slower than the controller.
    pub fn play(&self, step: &Step) -> Result<(), String> {
        let reads = READS.iter().any(|read| step.command.starts_with(read));
        let began = Instant::now();
        loop {
            let (succeeded, printed) = self.run(&step.command);
            let holds =
                if step.output.is_empty() { succeeded } else { is_shown(&step.output, &printed) };
            if holds {
                return Ok(());
            }
            if !reads || began.elapsed() > SETTLED {
                return Err(printed);
            }
            std::thread::sleep(POLL);
        }
    }
}

/// Plays blocks of a document one after another; returns the document as it should be if something
/// is not as it shows.
pub fn play(shell: &Shell, document: &str, wanted: impl Fn(&Block) -> bool) -> Option<String> {
    let mut corrected = document.to_owned();
    for block in blocks(document).into_iter().filter(wanted) {
        let mut text = String::new();
        for step in block.steps() {
            let printed = shell.play(&step).err().unwrap_or(step.output);
            let _ = write!(text, "$ {}\n{printed}", step.command);
        }
        if text != block.text {
            corrected = corrected.replacen(&block.fenced(&block.text), &block.fenced(&text), 1);
        }
    }
    (corrected != document).then_some(corrected)
}

/// Fails with what differs, or writes it into the document where that is asked for.
pub fn settle(path: &str, corrected: Option<String>) {
    let Some(corrected) = corrected else { return };
    if std::env::var_os("UPDATE_DOCUMENTS").is_some() {
        std::fs::write(paths::repository().join(path), corrected).expect("it is written");
        return;
    }
    let shown = read(path);
    let new: Vec<_> =
        corrected.lines().filter(|line| !shown.lines().any(|it| it == *line)).collect();
    panic!("{path} does not show what is printed (UPDATE_DOCUMENTS=1 writes it): {new:#?}");
}

/// Says whether what is shown is what is printed, but for what differs each time.
fn is_shown(shown: &str, printed: &str) -> bool {
    let shown: Vec<_> = shown.lines().map(settled).collect();
    let printed = printed.lines().filter(|line| !is_progress(line) && !is_log(line));
    let printed: Vec<_> = printed.map(settled).collect();
    follows(&shown, &printed)
}

/// Says whether a line shows how far something is, which is printed only of what takes long.
fn is_progress(line: &str) -> bool {
    let begins = ["pulling ", "reading "].iter().any(|doing| line.starts_with(doing));
    begins && (line.ends_with("...") || line.ends_with(" MB"))
}

/// Says whether a line is one that the libraries of kubectl log by themselves, such as
/// `I0102 15:04:05.000000    1234 reflector.go:664] ...` of a watch that was ended meanwhile.
fn is_log(line: &str) -> bool {
    let level = line.strip_prefix(['I', 'W', 'E']).unwrap_or_default();
    level.bytes().take_while(u8::is_ascii_digit).count() == 4 && line.contains(".go:")
}

fn follows(shown: &[String], printed: &[String]) -> bool {
    match (shown.split_first(), printed.split_first()) {
        (None, None) => true,
        (Some((line, rest)), _) if line == ANY => {
            (0..=printed.len()).any(|skipped| follows(rest, &printed[skipped..]))
        }
        (Some((line, shown)), Some((other, printed))) => line == other && follows(shown, printed),
        _ => false,
    }
}

/// Brings a line into the form in which it is compared.
fn settled(line: &str) -> String {
    let indented = if line.starts_with(' ') { " " } else { "" };
    let words = line.split_whitespace().map(|word| {
        // `14s`, and of kubectl also `2m13s`.
        let is_of_age = |c: char| c.is_ascii_digit() || "smhd".contains(c);
        let begins = word.starts_with(|c: char| c.is_ascii_digit());
        let ends = word.ends_with(|c: char| c.is_ascii_alphabetic());
        if let Some((before, _)) = word.split_once("sha256:") {
            format!("{before}sha256:")
        } else if word.starts_with("20") && word.contains('T') && word.ends_with('Z') {
            "TIME".to_owned()
        } else if begins && ends && word.chars().all(is_of_age) {
            "AGE".to_owned()
        } else {
            word.to_owned()
        }
    });
    let mut words: Vec<String> = words.collect();
    for at in 1..words.len() {
        // A number of seconds.
        if words[at] == "s" && words[at - 1].chars().all(|c| c.is_ascii_digit()) {
            words[at - 1].clear();
        }
    }
    format!("{indented}{}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_commands_with_what_they_print() {
        let document = "# T\n\n```console cluster\n$ a <<'EOF'\nb\nEOF\nc\n$ d\n```\n\n1. `f`\n\n   \
                        ```text\n   $ e\n\n     g\n   ```\n";
        let found = blocks(document);
        let infos: Vec<_> = found.iter().map(|block| block.info.as_str()).collect();
        assert_eq!(infos, ["console cluster", "text"]);
        assert_eq!(found[1].text, "$ e\n\n  g\n");
        assert!(found.iter().all(|block| document.contains(&block.fenced(&block.text))));
        assert_eq!(
            commands(document, &[""]),
            ["f", "a <<'EOF'", "b", "EOF", "c", "d", "e", "", "  g"]
        );
        let steps = found[0].steps();
        assert_eq!(steps.len(), 2);
        assert_eq!(steps[0].command, "a <<'EOF'\nb\nEOF");
        assert_eq!(steps[0].output, "c\n");
        assert_eq!(steps[1].output, "");
    }

    #[test]
    fn what_differs_each_time_is_compared_by_its_form() {
        assert!(is_shown("a  3m  x", "a     12s x"));
        assert!(is_shown("a  14s  x", "a  2m13s x"));
        assert!(is_shown("ready after 14 s", "ready after 2 s"));
        assert!(is_shown(
            "q@sha256:12ab since 2026-01-01T00:00:00Z",
            "q@sha256:9 since 2027-02-03T04:05:06Z"
        ));
        assert!(is_shown("a\n...\nd", "a\nb\nc\nd"));
        assert!(is_shown("a\n...", "a"));
        assert!(!is_shown("a 3m", "a 3"));
        assert!(!is_shown("  a", "a"));
        assert!(!is_shown("a\n...\nd", "a\nb"));
    }
}
