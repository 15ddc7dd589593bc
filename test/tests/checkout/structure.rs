//! Tests of the structure of the workspace: which crate may depend on which, and where a contract
//! string may be written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use olm_api::conditions::Reason;
use olm_test::paths;
use serde::Deserialize;
use strum::VariantNames as _;

/// The folders of the crates of the workspace.
const CRATES: &str =
    "api src/core src/cluster src/image src/controller src/cli test test/bench hack/xtask";

/// Returns the names of all crates in the normal dependency tree of `package`.
fn dependencies(package: &str) -> Vec<String> {
    let out = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none"])
        .args(["--format", "{p}", "--package", package])
        .current_dir(paths::repository())
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout)
        .expect("crate names are text")
        .lines()
        .filter_map(|line| line.split(' ').next().map(str::to_owned))
        .collect()
}

/// Returns the code of every source file below `folders`: without tests and without comments.
pub(crate) fn code(folders: &[&str]) -> BTreeMap<PathBuf, String> {
    let sources = folders.iter().flat_map(|folder| {
        let enter = |path: &Path| !path.ends_with("testdata") && !path.ends_with("tests");
        paths::below(&paths::repository().join(folder), enter)
    });
    sources
        .filter(|file| paths::ends(file, &[".rs"]) && !paths::ends(file, &["tests.rs"]))
        .map(|file| {
            let text = std::fs::read_to_string(&file).expect("a source file");
            (file, without_tests(&text))
        })
        .collect()
}

/// Leaves out comments and the items that are only compiled for tests; the source is formatted, so
/// that an item ends at its own indentation.
fn without_tests(text: &str) -> String {
    let mut code = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        if trimmed == "#[cfg(test)]" {
            let indentation = line.len() - trimmed.len();
            for line in lines.by_ref() {
                let deeper = line.len() - line.trim_start().len() > indentation;
                if !deeper && line.ends_with([';', ',', '}']) {
                    break;
                }
            }
        } else if !trimmed.starts_with("//") {
            code.push(line);
        }
    }
    code.join("\n")
}

#[test]
fn only_what_is_compiled_for_tests_is_left_out() {
    let text = "mod a;\n#[cfg(test)]\nmod tests;\n// A word.\nfn b() {\n    #[cfg(test)]\n    let c = \
                1;\n    d();\n}\n#[cfg(test)]\nmod more {\n    use x;\n    fn e() {\n    }\n}\nfn f() {}";
    assert_eq!(without_tests(text), "mod a;\nfn b() {\n    d();\n}\nfn f() {}");
}

/// What a crate does not depend on: core on nothing that acts; the wire contract on no client and none of
/// our crates; images know no cluster, and the halves do not know each other; there is one TLS stack and
/// one YAML library (stack.md case 1).
const WITHOUT: [(&str, &[&str]); 8] = [
    ("olm-core", &["tokio", "kube-client", "kube-runtime", "reqwest", "hyper", "rustls"]),
    ("olm-api", &["tokio", "kube-client", "kube-runtime", "olm-core", "olm-image"]),
    ("olm-image", &["kube-client", "kube-runtime"]),
    ("olm-cluster", &["kube-runtime", "olm-image"]),
    ("kubectl-olm", &["olm-controller"]),
    ("olm-controller", &["kubectl-olm"]),
    ("olm-controller", &["ring", "openssl-sys", "native-tls", "serde_yaml"]),
    ("kubectl-olm", &["ring", "openssl-sys", "native-tls", "serde_yaml"]),
];

#[test]
fn crates_do_without_what_they_should() {
    for (package, forbidden) in WITHOUT {
        let mut found = dependencies(package);
        found.retain(|name| forbidden.contains(&name.as_str()));
        assert!(found.is_empty(), "{package} depends on {found:?}");
    }
}

/// What the code of some folders does not say.
#[derive(Deserialize)]
struct Unsaid {
    why: String,
    folders: Vec<String>,
    words: Vec<String>,
    /// Parts of the paths of the only files that this is about, where it is not about all.
    only: Option<Vec<String>>,
    /// Parts of the paths of the files that may say some of it, and what.
    #[serde(default)]
    except: BTreeMap<String, Vec<String>>,
}

#[test]
fn words_stand_only_where_they_may() {
    let rows: Vec<Unsaid> = paths::rows("test/tests/checkout/unsaid.yaml");
    for Unsaid { why, folders, words, only, except } in &rows {
        let folders: Vec<_> = folders.iter().map(String::as_str).collect();
        for (file, code) in code(&folders) {
            let path = file.to_string_lossy();
            let is = |part: &String| path.contains(part.as_str());
            if !only.as_ref().is_none_or(|only| only.iter().any(is)) {
                continue;
            }
            let excepted = except.iter().filter(|(part, _)| is(part));
            let excepted: Vec<_> = excepted.flat_map(|(_, words)| words).collect();
            let says = |line: &str, word: &String| line.contains(word.as_str());
            for line in code.lines().filter(|line| !excepted.iter().any(|it| says(line, it))) {
                let found = words.iter().find(|word| says(line, word));
                assert_eq!(found, None, "{path}: {line}; {why}");
            }
        }
    }
}

/// The string constants of olm-api's `file` that are part of our contract: those with an API group
/// in them, and condition types of more than one word.
fn contract_strings(file: &str) -> Vec<String> {
    let text =
        std::fs::read_to_string(paths::repository().join("api").join(file)).expect("a source file");
    text.lines()
        .filter(|line| line.contains("pub const"))
        .filter_map(|line| line.split('"').nth(1))
        .filter(|value| value.contains("operatorframework.io") || is_distinct(value))
        .map(str::to_owned)
        .collect()
}

/// Says whether a name has more than one word, so that it means nothing else elsewhere.
fn is_distinct(name: &str) -> bool {
    name.chars().filter(char::is_ascii_uppercase).count() > 1
}

#[test]
fn contract_strings_stand_in_one_place() {
    let reasons = Reason::VARIANTS.iter().map(|name| (*name).to_owned());
    let strings: Vec<String> = ["conditions.rs", "keys.rs"]
        .iter()
        .flat_map(|file| contract_strings(file))
        .chain(reasons.filter(|name| is_distinct(name)))
        // These are also kinds and values of flags.
        .filter(|value| !["ClusterExtension", "Unavailable"].contains(&value.as_str()))
        .collect();
    assert!(strings.len() > 40, "the constants were not found");
    for (file, code) in code(&["src"]) {
        for value in &strings {
            assert!(
                !code.contains(&format!("\"{value}\"")),
                "{} spells {value:?}, which olm-api defines",
                file.display()
            );
        }
    }
}

/// For each module of a folder, those of the folder that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Returns what the modules of each folder of the crate in `folder` use of each other, by the path of
/// the folder.
fn uses(folder: &str) -> BTreeMap<Vec<String>, Uses> {
    let root = paths::repository().join(folder);
    let files: Vec<(Vec<String>, String)> = code(&[folder])
        .into_iter()
        .map(|(file, code)| (module(file.strip_prefix(&root).expect("a file of the crate")), code))
        .collect();
    let mut uses = BTreeMap::<Vec<String>, Uses>::new();
    for (at, _) in &files {
        for (depth, name) in at.iter().enumerate() {
            uses.entry(at[..depth].to_vec()).or_default().entry(name.clone()).or_default();
        }
    }
    let origins = origins(&files);
    for (at, code) in &files {
        for mut named in named(code, at) {
            let origin =
                |length: usize, path: &[String]| Some((length, origins.get(&path[..length])?));
            // Names that lead in a circle end here, too.
            for _ in 0..8 {
                let Some((length, origin)) =
                    (1..=named.len()).find_map(|length| origin(length, &named))
                else {
                    break;
                };
                named = [origin.as_slice(), &named[length..]].concat();
            }
            let shared = at.iter().zip(&named).take_while(|(one, other)| one == other).count();
            let (Some(module), Some(other)) = (at.get(shared), named.get(shared)) else { continue };
            let modules = uses.entry(at[..shared].to_vec()).or_default();
            if modules.contains_key(other) {
                modules.entry(module.clone()).or_default().insert(other.clone());
            }
        }
    }
    uses
}

/// Returns where names are defined that a module takes from the modules inside it: who uses them
/// through that module uses the one that defines them.
fn origins(files: &[(Vec<String>, String)]) -> BTreeMap<Vec<String>, Vec<String>> {
    let modules: BTreeSet<&[String]> = files.iter().map(|(at, _)| at.as_slice()).collect();
    let mut origins = BTreeMap::new();
    for (at, code) in files {
        let mut used = Vec::new();
        for (start, _) in code.match_indices("use ") {
            let before = code[..start].rsplit('\n').next().unwrap_or_default().trim_start();
            if ["", "pub ", "pub(crate) ", "pub(super) "].contains(&before) {
                branches(&code[start + "use ".len()..], at.clone(), &mut used);
            }
        }
        for path in used.into_iter().filter(|path| path.len() > at.len() + 1) {
            let shown = [at.as_slice(), &path[path.len() - 1..]].concat();
            let is_a_name = path.last().is_some_and(|name| name != "self");
            let is_inside = modules.contains(&path[..=at.len()]);
            if is_a_name && is_inside && !modules.contains(shown.as_slice()) {
                origins.insert(shown, path);
            }
        }
    }
    origins
}

/// Returns the path of the module in a file: empty for `lib.rs` and `main.rs`.
fn module(file: &Path) -> Vec<String> {
    let path = file.with_extension("");
    let mut path: Vec<_> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    path.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
    path
}

/// Returns the paths of modules and items of its own crate that the code of the module `at` names.
fn named(code: &str, at: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let starts = ["crate::", "super::"].into_iter().flat_map(|start| code.match_indices(start));
    for (start, _) in starts {
        let in_a_path = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
        if code[..start].ends_with(in_a_path) {
            continue;
        }
        let mut rest = &code[start..];
        let mut base = match rest.strip_prefix("crate::") {
            Some(below) => {
                rest = below;
                Vec::new()
            }
            None => at.to_vec(),
        };
        while let Some(above) = rest.strip_prefix("super::") {
            rest = above;
            base.pop();
        }
        branches(rest, base, &mut found);
    }
    found
}

/// Adds the paths of a tree of names, such as `a::{b, c::d}`, to `found`; returns what follows it.
fn branches<'a>(text: &'a str, mut base: Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            match rest.strip_prefix('}') {
                Some(rest) => return rest,
                None if rest.is_empty() || rest.starts_with(';') => return rest,
                None => rest = branches(rest, base.clone(), found),
            }
        }
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    base.push(text[..end].to_owned());
    let rest = &text[end..];
    if let Some(below) = rest.strip_prefix("::") {
        return branches(below, base, found);
    }
    found.push(base);
    &rest[rest.find([',', '}', ';', '\n']).unwrap_or(rest.len())..]
}

/// Returns what a module uses, directly or not.
fn reached<'a>(uses: &'a Uses, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for next in uses.get(module).into_iter().flatten() {
            if reached.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    reached
}

/// Returns the modules that use each other in a circle.
fn circles(uses: &Uses) -> Vec<BTreeSet<&str>> {
    let all: BTreeMap<&str, _> = uses.keys().map(|it| (it.as_str(), reached(uses, it))).collect();
    let mutual = all.iter().map(|(module, reached)| {
        let back = |other: &&&str| all.get(**other).is_some_and(|it| it.contains(module));
        reached.iter().filter(back).copied().collect::<BTreeSet<_>>()
    });
    let found: BTreeSet<_> = mutual.filter(|circle| circle.len() > 1).collect();
    found.into_iter().collect()
}

#[test]
fn modules_use_each_other_in_one_direction() {
    let example: Uses = [("a", "b"), ("b", "c"), ("c", "b")]
        .map(|(module, used)| (module.to_owned(), [used.to_owned()].into()))
        .into();
    assert_eq!(circles(&example), [["b", "c"].into()]);
    let nested =
        named("use super::super::a::{b, c::{self, d}};\ncrate::e::F", &["x".into(), "y".into()]);
    let joined: Vec<_> = nested.iter().map(|path| path.join("::")).collect();
    assert_eq!(joined, ["e::F", "a::b", "a::c::self", "a::c::d"]);
    let path = |text: &str| text.split("::").map(str::to_owned).collect::<Vec<_>>();
    let files = [
        (path("x"), "pub use y::{self, Z};\nuse std::fmt::Debug;".to_owned()),
        (path("x::y"), String::new()),
    ];
    assert_eq!(origins(&files)[&path("x::Z")], path("x::y::Z"));
    assert!(!origins(&files).contains_key(&path("x::Debug")));

    let (mut modules, mut found) = (0, BTreeMap::new());
    for folder in ["src/core", "src/cluster", "src/image", "src/controller", "src/cli"] {
        for (path, uses) in uses(folder) {
            modules += uses.len();
            let circles = circles(&uses);
            let circles: Vec<_> = circles.iter().map(|it| format!("{it:?}")).collect();
            found.insert(format!("{folder}/{}", path.join("/")), circles);
        }
    }
    found.retain(|_, circles| !circles.is_empty());
    assert_eq!(found, BTreeMap::new());
    assert!(modules > 400, "only {modules} modules were found");
}

/// Returns the text of every source file of a crate, and not of a crate inside its folder.
fn sources_of_crate(folder: &Path) -> String {
    let files = paths::below(folder, |path| !path.join("Cargo.toml").exists());
    let sources = files.iter().filter(|file| paths::ends(file, &[".rs"]));
    sources.map(|file| std::fs::read_to_string(file).expect("a source file")).collect()
}

/// Returns the names of the crates that a manifest depends on, those for tests included.
fn named_dependencies(manifest: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut listed = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            listed = line.ends_with("dependencies]");
        } else if listed && line.starts_with(|first: char| first.is_ascii_alphabetic()) {
            names.extend(line.split(['.', ' ', '=']).next());
        }
    }
    names
}

#[test]
fn every_dependency_is_used() {
    let mut counted = 0;
    for folder in CRATES.split(' ') {
        let folder = paths::repository().join(folder);
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let text = sources_of_crate(&folder);
        for name in named_dependencies(&manifest) {
            let word = name.replace('-', "_");
            let used = text
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .any(|found| found == word);
            assert!(used, "{} does not use {name}", folder.display());
            counted += 1;
        }
    }
    assert!(counted > 60, "only {counted} dependencies were found");
}

/// ARCHITECTURE.md, invariant 7: every crate forbids `unsafe` and, outside tests, `unwrap`.
#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let root = std::fs::read_to_string(paths::repository().join("Cargo.toml")).expect("a manifest");
    for lint in ["unsafe_code = \"forbid\"", "unwrap_used = \"warn\""] {
        assert!(root.contains(lint), "the workspace does not say {lint}");
    }
    for folder in CRATES.split(' ').filter(|folder| !folder.starts_with("test")) {
        let manifest = paths::repository().join(folder).join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest).expect("a manifest");
        assert!(
            text.contains("[lints]\nworkspace = true"),
            "{} has lints of its own",
            manifest.display()
        );
    }
}

/// Flags of the controller, and how many of them at most are not under "Rarely needed". To raise one
/// of these numbers is a decision: what is added has to be worth what everybody reads and maintains.
const FLAGS: usize = 59;
const COMMON_FLAGS: usize = 40;
/// Commands of the plugin, those below another one counted each.
const COMMANDS: usize = 40;
/// Annotations that users set.
const ANNOTATIONS: usize = 24;

/// Returns how many lines of a document begin so; in the section with this heading, if one is named.
fn rows(document: &str, section: Option<&str>, begin: &str) -> usize {
    let path = paths::repository().join("docs").join(document);
    let text = std::fs::read_to_string(path).expect("a document");
    let mut inside = section.is_none();
    let lines = text.lines().filter(|line| {
        if let Some(heading) = line.strip_prefix("## ") {
            inside = section.is_none_or(|section| section == heading);
        }
        inside && line.starts_with(begin)
    });
    lines.count()
}

/// The documents are generated from the code, which a test of xtask holds.
#[test]
fn flags_commands_and_annotations_are_counted() {
    let flags = rows("flags.md", None, "| `--");
    assert_eq!(flags, FLAGS);
    assert!(flags - rows("flags.md", Some("Rarely needed"), "| `--") <= COMMON_FLAGS);
    assert_eq!(rows("cli.md", None, "### `kubectl olm "), COMMANDS);
    assert_eq!(rows("annotations.md", Some("Annotations that you set"), "| `"), ANNOTATIONS);
}
