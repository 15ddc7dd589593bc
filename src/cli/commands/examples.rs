//! What the help of a command ends with: examples, which the documents run, and what its exit codes
//! mean besides 0 and 2 (plugin.md 1.1).

use std::fmt::Write as _;

use clap::Command;

/// A command, examples of it, and its exit codes.
type Help = (&'static str, &'static [&'static str], &'static str);

const WRITES: &str = "1 refused or failed, 4 timed out";
const READS: &str = "3 the cluster cannot be asked";

const HELP: [Help; 29] = [
    ("search", &["search lamp"], "1 nothing matches, 3 the answer is incomplete"),
    ("show", &["show lamp-operator"], "1 it cannot be read"),
    ("graph", &["graph lamp"], "1 there is no such package"),
    ("why", &["why lamp", "why lamp 1.1.0"], READS),
    (
        "install",
        &[
            "install lamp-operator@1.0.x --name lamp -n light --create-namespace --dry-run",
            "install lamp-operator@1.0.x --name lamp -n light --create-namespace --yes",
        ],
        WRITES,
    ),
    (
        "status",
        &["status", "status lamp"],
        "1 with --check: not all are ready; 3 the cluster cannot be asked",
    ),
    (
        "plan",
        &["plan lamp --to 1.1.0"],
        "1 something holds it or nothing leads there, 3 something is not known",
    ),
    ("upgrade", &["upgrade lamp --to 1.1.x --yes"], WRITES),
    ("rollback", &["rollback lamp --yes"], WRITES),
    ("history", &["history lamp"], READS),
    ("pause", &["pause lamp"], WRITES),
    ("resume", &["resume lamp"], WRITES),
    ("delete", &["delete lamp --retain-crds --yes"], WRITES),
    (
        "rbac",
        &["rbac lamp --check", "rbac lamp --for-user dana --apply --yes"],
        "1 something is missing (--check) or to be added (--diff), 3 it may not be read",
    ),
    (
        "crd check",
        &["crd check cluster registry.example.com/lamp-operator-bundle:v1.1.0"],
        "1 there are findings",
    ),
    (
        "bundle images",
        &["bundle images lamp -o name"],
        "1 with --check: one is not there; 3 one is not known",
    ),
    ("lock write", &["lock write lamp"], READS),
    ("cluster check", &["cluster check"], "1 something blocks it, 3 something is unknown"),
    ("catalog list", &["catalog list"], READS),
    ("catalog add", &["catalog add lamps registry.example.com/lamps/catalog:v2 --yes"], WRITES),
    ("catalog remove", &["catalog remove more --yes"], WRITES),
    (
        "catalog lint",
        &["catalog lint lamps"],
        "1 errors, with --strict warnings too; 3 a registry did not answer",
    ),
    (
        "catalog build",
        &["catalog build lamps -t registry.example.com/lamps/catalog:v3 --oci image"],
        "1 the lint finds errors",
    ),
    ("catalog render", &["catalog render lamps"], "1 it cannot be read"),
    (
        "catalog diff",
        &[
            "catalog diff registry.example.com/lamps/catalog:v1 registry.example.com/lamps/catalog:v2",
        ],
        "1 somebody could be hurt",
    ),
    (
        "bundle lint",
        &["bundle lint registry.example.com/lamp-operator-bundle:v1.0.0"],
        "1 there are findings",
    ),
    (
        "bundle render",
        &["bundle render registry.example.com/lamp-operator-bundle:v1.0.0 -n light"],
        "1 it cannot be read",
    ),
    (
        "migrate from-classic",
        &["migrate from-classic -f classic.yaml --report"],
        "1 something is not carried or not ready, 3 it could not be read, 4 timed out",
    ),
    ("doctor", &["doctor"], "1 a problem, 3 something is not known"),
];

/// Adds examples and exit codes to the help of every command that has some.
pub(super) fn added(mut command: Command) -> Command {
    for (path, examples, codes) in HELP {
        let mut text = "Examples:\n".to_owned();
        for example in examples {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  kubectl olm {example}");
        }
        let _ = write!(text, "\nExit codes: {codes}");
        let with = |command: Command| command.after_help(text);
        command = match path.split_once(' ') {
            Some((verb, below)) => {
                command.mut_subcommand(verb, |it| it.mut_subcommand(below, with))
            }
            None => command.mut_subcommand(path, with),
        };
    }
    command
}
