//! What README and `docs` show is what the built programs print (plugin.md 6). Blocks that need a
//! cluster are played by `control_plane`.

use olm_test::documents::{self, Block, Shell};

fn is_offline(block: &Block) -> bool {
    block.info == "console" && !block.steps().is_empty()
}

/// plugin.md U4
#[test]
fn what_needs_no_cluster_is_printed_as_shown() {
    let mut played = 0;
    for path in documents::all() {
        let text = documents::read(&path);
        played += documents::blocks(&text).iter().filter(|it| is_offline(it)).count();
        let corrected = documents::play(&Shell::offline(), &text, is_offline);
        documents::settle(&path, corrected);
    }
    assert!(played > 5, "only {played} blocks were found");
}

/// Whatever looks like commands is run: with `$ ` by a test of documents, in README's five minutes by
/// a test of its own. What is in another language is output, or not a command.
#[test]
fn every_block_of_commands_is_run_by_a_test() {
    for path in documents::all() {
        let text = documents::read(&path);
        let own = text.split("## Five minutes on a cluster").next();
        for block in documents::blocks(own.unwrap_or_default()) {
            let is_known = ["", "console", "console cluster", "sh", "text", "yaml"];
            assert!(is_known.contains(&block.info.as_str()), "{path}: {}", block.info);
            let is_run = block.info.starts_with("console");
            assert!(!is_run || !block.steps().is_empty(), "{path}: {}", block.text);
        }
    }
}

/// plugin.md U1: each example of the help is a command that a document shows and a test runs.
#[test]
fn every_example_of_the_help_is_run() {
    let all: Vec<_> = documents::all().iter().map(|path| documents::read(path)).collect();
    let blocks = all.iter().flat_map(|text| documents::blocks(text));
    let run: Vec<_> = blocks
        .filter(|block| block.info.starts_with("console"))
        .flat_map(|block| block.steps())
        .collect();
    let reference = documents::read("docs/cli.md");
    let examples = reference.lines().filter(|line| line.starts_with("  kubectl olm "));
    let mut counted = 0;
    for example in examples.map(str::trim) {
        let is_run = run.iter().any(|step| step.command.starts_with(example));
        assert!(is_run, "no document runs {example}");
        counted += 1;
    }
    assert!(counted > 20, "only {counted} examples were found");
}

/// A link to a file of the repository leads to one, and to a heading of it.
#[test]
fn links_lead_somewhere() {
    for path in documents::all() {
        let text = documents::read(&path);
        let folder = olm_test::paths::repository().join(&path);
        let folder = folder.parent().expect("a file is in a folder");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            if file.contains("://") {
                continue;
            }
            let target = if file.is_empty() {
                text.clone()
            } else {
                let found = folder.join(file);
                assert!(found.exists(), "{path}: {link}");
                std::fs::read_to_string(found).unwrap_or_default()
            };
            let anchor = |line: &str| {
                let title = line.trim_start_matches('#').trim().to_lowercase();
                let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
                kept.collect::<String>().replace(' ', "-")
            };
            let mut headings = target.lines().filter(|line| line.starts_with('#'));
            assert!(
                heading.is_empty() || headings.any(|line| anchor(line) == heading),
                "{path}: {link}"
            );
        }
    }
}
