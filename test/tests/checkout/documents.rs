//! What README and `docs` show is what the built programs print (plugin.md 6). Blocks that need a
//! cluster are played by `control_plane`. Links lead somewhere, every page is listed, and commands that
//! are only named exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use olm_image::policy::Policy;
use olm_image::registries::{Registries, RegistriesPaths};
use olm_test::documents::{self, Block, Shell};
use olm_test::paths;

use super::words::prose;

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
        documents::settle(&path, documents::play(&Shell::offline(), &text, is_offline));
    }
    assert!(played > 5, "only {played} blocks were found");
}

/// Blocks of commands that are not played, by how they begin, with the tests that run them. None runs
/// Velero, which is not here.
const ELSEWHERE: [(&str, &str); 12] = [
    ("make demo ", "gate"),
    ("make image push ", "documents"),
    ("kubectl apply --server-side -f target/manifests/", "documents"),
    ("kubectl olm catalog add operatorhubio ", "documents"),
    ("helm install olm ", "chart"),
    ("velero restore create ", "documents"),
    ("kubectl annotate --overwrite clusterextension NAME ", "backup"),
    ("for kind in ", "moving"),
    ("oc patch clusterversion version --type json -p '[{\"op\": \"add\"", "moving"),
    ("oc delete deployment ", "moving"),
    ("oc patch clusterversion version --type json -p '[{\"op\": \"remove\"", "moving"),
    ("./build.sh ", "control_plane"),
];

/// Whatever looks like commands is run: after `$ ` by a test of documents, in the pages of alerts by
/// `control_plane`, else by a test that is named here.
#[test]
fn every_block_of_commands_is_run_by_a_test() {
    let played = documents::all();
    let mut elsewhere = Vec::new();
    for page in documents::pages() {
        for block in documents::blocks(&documents::read(&page)) {
            let is_run = match block.info.as_str() {
                "" | "text" | "yaml" => block.steps().is_empty(),
                "console" if page.starts_with("docs/runbooks/") => true,
                "console" | "console cluster" if !block.steps().is_empty() => {
                    played.contains(&page)
                }
                "console" | "sh" => {
                    let begun = |(begin, _): &(&str, &str)| block.text.starts_with(begin);
                    let found = ELSEWHERE.iter().position(begun);
                    elsewhere.extend(found);
                    found.is_some()
                }
                _ => false,
            };
            assert!(is_run, "{page}: nothing runs {}", block.text);
        }
    }
    assert_eq!(elsewhere.len(), ELSEWHERE.len());
    assert!(ELSEWHERE.iter().all(|(_, test)| is_kept_by(test)));
}

/// Commands name targets and variables of make that exist, files of the checkout, and manifests that
/// are made.
#[test]
fn what_commands_name_is_in_the_checkout() {
    let root = paths::repository();
    let (makefile, script) = (documents::read("Makefile"), documents::read("hack/install_yaml.sh"));
    let is_target = |word: &str| {
        makefile
            .lines()
            .any(|line| line.strip_prefix(word).is_some_and(|rest| rest.starts_with(':')))
    };
    let mut counted = 0;
    // Generated, with sentences that begin like a command.
    for page in documents::pages().iter().filter(|page| *page != "docs/cli.md") {
        let text = documents::read(page);
        for command in documents::commands(&text, &["make "]) {
            let command = command.split(" #").next().unwrap_or_default();
            for word in command.split_whitespace().filter(|it| it.starts_with(char::is_alphabetic))
            {
                let variable = word.split_once('=').map(|(name, _)| makefile.contains(name));
                assert!(variable.unwrap_or_else(|| is_target(word)), "{page}: make {word}");
            }
        }
        for command in documents::commands(&text, &[""]) {
            for word in command.split_whitespace() {
                let word = word.trim_end_matches(['.', ',', ':', ';']);
                let path = word.split('*').next().unwrap_or_default();
                let folders = [".github/", "config/", "docs/", "hack/", "src/", "test/"];
                let exists = match path.strip_prefix("target/manifests/") {
                    Some(file) => script.contains(file),
                    None if !folders.iter().any(|it| path.starts_with(it)) => continue,
                    None => root.join(path).exists(),
                };
                assert!(exists, "{page}: there is no {word}");
                counted += 1;
            }
        }
    }
    assert!(counted > 100, "only {counted} files are named");
}

/// What a document shows of a file is read by what reads the file. What Flux, Argo CD and Podman read
/// is YAML at least; our kinds are sent to an API server by `control_plane`.
#[test]
fn files_that_are_shown_can_be_read() {
    let shown = |page: &str, info: &str, begin: &str| {
        let blocks = documents::blocks(&documents::read(page));
        let found = blocks.into_iter().find(|it| it.info == info && it.text.starts_with(begin));
        found.unwrap_or_else(|| panic!("{page} shows no {begin}")).text
    };
    for page in documents::pages() {
        for block in documents::blocks(&documents::read(&page)) {
            let is_yaml = block.info != "yaml" || olm_core::yaml::to_json(&block.text).is_ok();
            assert!(is_yaml, "{page}: {}", block.text);
        }
    }
    let policy = shown("docs/catalogs.md", "text", "{");
    Policy::parse(Path::new("policy.json"), policy.as_bytes()).expect("a policy");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("registries.conf");
    let mirrors = shown("docs/air-gap.md", "text", "# registries.conf");
    std::fs::write(&file, mirrors).expect("it is written");
    let mirrors = Registries::load(&RegistriesPaths::new(Some(file))).expect("registries");
    assert_ne!(mirrors, Registries::default());
    let workflow = shown("docs/authors.md", "yaml", "on: [pull_request]");
    let action = documents::read(".github/actions/check-catalog/action.yml");
    let [workflow, action] =
        [workflow, action].map(|text| olm_core::yaml::to_json(&text).expect("YAML").remove(0));
    let given = workflow["jobs"]["catalog"]["steps"][1]["with"].as_object().expect("inputs");
    assert!(given.keys().all(|name| action["inputs"].get(name).is_some()), "{given:?}");
    let velero = shown("docs/backup.md", "sh", "velero ");
    let kept = "clusterobjectsets.olm.operatorframework.io";
    let kinds = documents::read("config/crd/olm.operatorframework.io_clusterobjectsets.yaml");
    assert!(velero.contains(kept) && kinds.contains(&format!("  name: {kept}\n")));
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

/// Returns the anchors of the headings of a page, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = documents::outside(text).into_iter().filter(|line| line.starts_with('#'));
    let anchors = headings.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    });
    anchors.collect()
}

#[test]
fn anchors_are_those_of_headings_outside_of_code() {
    let text = "# `why` it: holds\n\n```sh\n# no heading\n```\n\n## What is_left\n";
    let wanted = ["what-is_left", "why-it-holds"].map(str::to_owned);
    assert_eq!(anchors(text), BTreeSet::from(wanted));
}

/// A link to a file of the repository leads to one, and to a heading of it.
#[test]
fn links_lead_somewhere() {
    let mut wrong = Vec::new();
    let mut counted = 0;
    for page in documents::pages() {
        let text = documents::read(&page);
        let folder = paths::repository().join(&page);
        let folder = folder.parent().expect("a file is in a folder");
        for link in prose(&text).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            if file.contains("://") {
                continue;
            }
            counted += 1;
            let target = if file.is_empty() {
                Ok(text.clone())
            } else if heading.is_empty() {
                std::fs::metadata(folder.join(file)).map(|_| String::new())
            } else {
                std::fs::read_to_string(folder.join(file))
            };
            let leads = target.is_ok_and(|it| heading.is_empty() || anchors(&it).contains(heading));
            if !leads {
                wrong.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(counted > 300, "only {counted} links were found");
    assert!(wrong.is_empty(), "{} links lead nowhere:\n{}", wrong.len(), wrong.join("\n"));
}

/// Says whether tests have this name, or a generator.
fn is_kept_by(name: &str) -> bool {
    let files = ["test/tests/checkout/NAME.rs", "test/tests/control_plane/NAME.rs"];
    let folders = ["test/tests/control_plane/NAME", "test/tests/NAME"];
    let generators = ["hack/xtask/NAME.rs", "hack/xtask/NAME"];
    let mut all = files.into_iter().chain(folders).chain(generators);
    all.any(|path| paths::repository().join(path.replace("NAME", name)).exists())
}

/// Each page has its line in docs/README.md, from which `hack/docs.sh` makes the contents of the
/// site; those of alerts are listed beside them.
#[test]
fn every_page_is_listed_with_its_reader_and_what_keeps_it_true() {
    let list = documents::read("docs/README.md");
    let mut listed = BTreeSet::from(["docs/README.md".to_owned()]);
    for row in list.lines().filter(|line| line.starts_with("| [")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [page, reader, kept] = cells[..] else { panic!("{row} has other cells") };
        let (_, link) = page.trim_end_matches(')').split_once("](").expect("a link");
        let beside = link.strip_prefix("../").map(str::to_owned);
        listed.insert(beside.unwrap_or_else(|| format!("docs/{link}")));
        assert!(!reader.is_empty(), "{row}");
        let mut by = kept.split('`').skip(1).step_by(2).peekable();
        assert!(by.peek().is_some() || kept == "reviewed with each release", "{row}");
        assert!(by.all(is_kept_by), "{row}");
    }
    let runbooks = documents::read("docs/runbooks/README.md");
    let runbooks = runbooks.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    listed.extend(runbooks.map(|page| format!("docs/runbooks/{page}")));
    let pages: BTreeSet<_> = documents::pages().into_iter().collect();
    assert_eq!(listed, pages);
}

/// Commands that are only named, because they would have to be run elsewhere, exist at least, with
/// their flags.
#[test]
fn every_command_that_is_named_is_one_with_its_flags() {
    let reference = documents::read("docs/cli.md");
    let mut sections = reference.split("\n### `kubectl olm ");
    let of_all = documents::flags(sections.next().unwrap_or_default());
    let sections = sections.filter_map(|section| section.split_once('`'));
    let known: BTreeMap<&str, _> =
        sections.map(|(name, text)| (name, documents::flags(text))).collect();
    let mut counted = 0;
    for page in documents::pages() {
        for command in documents::commands(&documents::read(&page), &["kubectl olm ", "oc olm "]) {
            let words: Vec<_> = command.split_whitespace().collect();
            let names = (1..=words.len().min(2)).map(|length| words[..length].join(" "));
            let of_it = names.rev().find_map(|name| known.get(name.as_str()));
            let of_it = of_it.unwrap_or_else(|| panic!("{page}: there is no {command}"));
            for flag in documents::given(&command) {
                let is_known = of_it.contains(flag) || of_all.contains(flag);
                assert!(is_known, "{page}: {command} has no {flag}");
            }
            counted += 1;
        }
    }
    assert!(counted > 200, "only {counted} commands were found");
}
