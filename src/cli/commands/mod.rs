//! The command line as clap reads it, and one file per subcommand: its arguments, and a `run` that
//! prints in one place.
//!
//! A new command needs a variant of [`Command`], a line in [`run`], a place in [`GROUPS`], and an
//! example in `examples.txt`.

pub(crate) mod approve;
pub(crate) mod browse;
pub(crate) mod bundle_lint;
pub(crate) mod catalog;
pub(crate) mod cluster_check;
pub(crate) mod completion;
pub(crate) mod crd_check;
pub(crate) mod crd_migrate;
pub(crate) mod delete;
pub(crate) mod doctor;
pub(crate) mod documents;
mod examples;
pub(crate) mod from_classic;
pub(crate) mod graph;
pub(crate) mod history;
pub(crate) mod images;
pub(crate) mod install;
pub(crate) mod lock;
pub(crate) mod migrate;
pub(crate) mod pause;
pub(crate) mod plan;
pub(crate) mod prelude;
pub(crate) mod range;
pub(crate) mod rbac;
pub(crate) mod render;
pub(crate) mod resolve;
pub(crate) mod rollback;
pub(crate) mod search;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod tree;
pub(crate) mod upgrade;
pub(crate) mod version;
pub(crate) mod why;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::connection::Global;
use crate::output::Ended;

/// Install, upgrade and examine ClusterExtensions
#[derive(Debug, Parser)]
#[command(name = "kubectl-olm", bin_name = "kubectl olm", version)]
pub(crate) struct Cli {
    /// Flags every command accepts.
    #[command(flatten)]
    pub(crate) global: Global,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One subcommand with its own flags.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Search packages in the catalogs of the cluster
    Search(search::SearchArgs),
    /// Show a package, or the bundle that an extension has installed
    Show(show::ShowArgs),
    /// Draw the update graph of a package
    Graph(graph::GraphArgs),
    /// Explain why a ClusterExtension gets its bundle, or none
    Why(Box<why::WhyArgs>),
    /// Show extensions: version, health, updates, blockers
    Status(status::StatusArgs),
    /// Show the history of installed versions
    History(history::HistoryArgs),
    /// Show what would change, and what blocks it
    Plan(Box<plan::PlanArgs>),
    /// Open a read-only web view
    Browse(browse::BrowseArgs),
    /// Install a package, with an account that may install only this package
    // The controller has its own.
    #[command(mut_arg("webhook_certificates", |it| it.hide(true)))]
    #[command(mut_arg("role_placement", |it| it.hide(true)))]
    Install(Box<install::InstallArgs>),
    /// Move an extension to another version
    Upgrade(Box<upgrade::UpgradeArgs>),
    /// Roll back to the content of an earlier revision
    Rollback(rollback::RollbackArgs),
    /// Approve one exact plan
    Approve(Box<approve::ApproveArgs>),
    /// Pause extensions: no updates, no drift repair
    Pause(pause::PauseArgs),
    /// Resume paused extensions
    Resume(pause::PauseArgs),
    /// Delete extensions, after showing the data that goes with them
    Delete(delete::DeleteArgs),
    /// Record, verify and restore installed versions
    #[command(subcommand)]
    Lock(lock::LockCommand),
    /// Print, apply or check the rights that bundles need
    Rbac(Box<rbac::RbacArgs>),
    /// List, add, remove, check and build catalogs
    #[command(subcommand)]
    Catalog(catalog::CatalogCommand),
    /// Validate, show and render bundles; list their images
    #[command(subcommand)]
    Bundle(BundleCommand),
    /// Check CRD upgrades; migrate stored versions
    #[command(subcommand)]
    Crd(CrdCommand),
    /// Check whether the cluster may be updated
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Move to this controller from OLM Classic or from upstream
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Check the cluster; collect a support bundle
    Doctor(doctor::DoctorArgs),
    /// Complete commands in a shell, or through kubectl
    Completion(completion::CompletionArgs),
    /// Print the versions of this build and of the controller
    Version(version::VersionArgs),
    /// Print the bundle that a ClusterExtension would get
    #[command(hide = true)]
    Resolve(resolve::ResolveArgs),
    /// Check versions against a version range
    #[command(hide = true)]
    Range(range::RangeArgs),
    /// Print completions of a command line
    #[command(name = "__complete", hide = true)]
    Complete(completion::CompleteArgs),
}

/// Subcommands of `bundle`.
#[derive(Debug, Subcommand)]
pub(crate) enum BundleCommand {
    /// Validate a bundle and list its requirements
    Lint(bundle_lint::BundleLintArgs),
    /// Show a bundle and how it can be configured
    Show(show::ShowArgs),
    /// Print the objects a bundle becomes
    Render(render::RenderArgs),
    /// List the images of bundles; check that they can be pulled
    Images(images::ImagesArgs),
}

/// Subcommands of `crd`.
#[derive(Debug, Subcommand)]
pub(crate) enum CrdCommand {
    /// Check an upgrade of CRDs to those of a bundle
    Check(crd_check::CrdCheckArgs),
    /// Rewrite all objects of a CRD in its storage version, and remove the other versions from
    /// status.storedVersions
    Migrate(crd_migrate::CrdMigrateArgs),
}

/// Subcommands of `cluster`.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Check whether the cluster may be updated, and how to lift blockers
    Check(cluster_check::ClusterCheckArgs),
}

/// Subcommands of `migrate`.
#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Convert Subscriptions of OLM Classic to ClusterExtensions; move running operators
    FromClassic(Box<from_classic::FromClassicArgs>),
    /// Give moved operators back to OLM Classic
    // It refuses this flag.
    #[command(mut_arg("output", |it| it.hide(true)))]
    Rollback(migrate::RollbackArgs),
    /// Check whether this cluster can be moved from upstream
    FromUpstream(doctor::FromUpstreamArgs),
}

/// The groups of the help, each with its commands (plugin.md 1.1).
pub const GROUPS: [(&str, &[&str]); 6] = [
    ("Look", &["search", "show", "graph", "why", "status", "history", "plan", "browse"]),
    ("Change", &["install", "upgrade", "rollback", "approve", "pause", "resume", "delete", "lock"]),
    ("Rights", &["rbac"]),
    ("Catalogs", &["catalog"]),
    ("Bundles", &["bundle", "crd"]),
    ("Cluster", &["cluster", "migrate", "doctor", "completion", "version"]),
];

/// Words of other tools, and the commands that do the same here: the first that exists is suggested.
const SYNONYMS: [(&[&str], &[&str]); 4] = [
    (&["uninstall", "remove", "rm", "delete"], &["delete", "remove"]),
    (&["list", "ls", "get", "describe"], &["status", "list"]),
    (&["update"], &["upgrade", "refresh"]),
    (&["validate"], &["lint"]),
];

/// Reads the command line.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let mut command = grouped();
    let words: Vec<_> = std::env::args_os().collect();
    let matches = command.try_get_matches_from_mut(&words);
    let matches = matches.map_err(|error| suggest(error, &command, &words))?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Replaces a suggestion of similar letters by one of the same meaning.
fn suggest(mut error: clap::Error, command: &clap::Command, words: &[OsString]) -> clap::Error {
    let (kind, is_verb) = match error.kind() {
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, true),
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, false),
        _ => return error,
    };
    let Some(ContextValue::String(wrong)) = error.get(kind).cloned() else { return error };
    // A flag may have its value: `--flag=value`, `-fvalue`.
    let ends = |word: &str| match word.strip_prefix(&wrong) {
        Some("") => true,
        Some(value) if wrong.starts_with("--") => value.starts_with('='),
        found => found.is_some() && wrong.starts_with('-'),
    };
    let before = words.iter().take_while(|word| !word.to_str().is_some_and(ends));
    let parent = before.fold(command, |at, word| at.find_subcommand(word).unwrap_or(at));
    if is_verb {
        let known = SYNONYMS.iter().find(|(foreign, _)| foreign.contains(&wrong.as_str()));
        let mut ours = known.map_or(&[][..], |(_, ours)| ours).iter();
        if let Some(ours) = ours.find(|name| parent.find_subcommand(name).is_some()) {
            let value = ContextValue::Strings(vec![(*ours).to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, value);
        }
    } else {
        // No value begins with a hyphen: a flag is meant.
        error.remove(ContextKind::Suggested);
        if parent.get_subcommands().any(|command| has_flag(command, &wrong)) {
            error.remove(ContextKind::SuggestedArg);
            let tip = format!("'{wrong}' goes after the command");
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        }
    }
    error
}

fn has_flag(command: &clap::Command, flag: &str) -> bool {
    command.get_arguments().any(|argument| {
        let long = argument.get_long().map(|name| format!("--{name}"));
        let short = argument.get_short().map(|letter| format!("-{letter}"));
        [long, short].iter().flatten().any(|name| name == flag)
    })
}

/// Returns the command line with a help that lists the commands in groups.
pub fn grouped() -> clap::Command {
    let command = examples::added(Cli::command());
    let names = || GROUPS.iter().flat_map(|(_, names)| *names);
    let width = names().map(|name| name.len()).max().unwrap_or(0);
    let mut groups = String::new();
    for (group, names) in GROUPS {
        // Writing to a String cannot fail.
        let _ = writeln!(groups, "{group}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(groups, "  {name:width$}  {about}");
        }
        groups.push('\n');
    }
    command
        .override_usage("kubectl olm <COMMAND> [OPTIONS]")
        .help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{{all-args}}"
        ))
        .mut_subcommands(|command| command.hide(true))
}

/// Runs one command; data goes to `out`.
pub(crate) async fn run(cli: Cli, out: &mut dyn Write) -> Ended {
    let global = &cli.global;
    match cli.command {
        Command::Search(args) => search::run(args, global, out).await,
        Command::Show(args) | Command::Bundle(BundleCommand::Show(args)) => {
            show::run(args, global, out).await
        }
        Command::Graph(args) => graph::run(args, global, out).await,
        Command::Why(args) => Box::pin(why::run(*args, global, out)).await,
        Command::Status(args) => status::run(args, global, out).await,
        Command::History(args) => history::run(args, global, out).await,
        Command::Plan(args) => plan::run(*args, global, out).await,
        Command::Browse(args) => browse::run(args, cli.global, out).await,
        Command::Install(args) => install::run(*args, global, out).await,
        Command::Upgrade(args) => Box::pin(upgrade::run(*args, global, out)).await,
        Command::Rollback(args) => rollback::run(args, global, out).await,
        Command::Approve(args) => approve::run(*args, global, out).await,
        Command::Pause(args) => pause::run(args, true, global, out).await,
        Command::Resume(args) => pause::run(args, false, global, out).await,
        Command::Delete(args) => delete::run(args, global, out).await,
        Command::Lock(command) => lock::run(command, global, out).await,
        Command::Rbac(args) => Box::pin(rbac::run(*args, global, out)).await,
        Command::Catalog(command) => catalog::run(command, global, out).await,
        Command::Bundle(BundleCommand::Lint(args)) => bundle_lint::run(args, out).await,
        Command::Bundle(BundleCommand::Render(args)) => render::run(args, global, out).await,
        Command::Bundle(BundleCommand::Images(args)) => images::run(args, global, out).await,
        Command::Crd(CrdCommand::Check(args)) => crd_check::run(args, global, out).await,
        Command::Crd(CrdCommand::Migrate(args)) => crd_migrate::run(args, global, out).await,
        Command::Cluster(ClusterCommand::Check(args)) => {
            cluster_check::run(args, global, out).await
        }
        Command::Migrate(MigrateCommand::FromClassic(args)) => {
            from_classic::run(*args, global, out).await
        }
        Command::Migrate(MigrateCommand::Rollback(args)) => {
            migrate::rollback(args, global, out).await
        }
        Command::Migrate(MigrateCommand::FromUpstream(args)) => {
            doctor::from_upstream(&args, global, out).await
        }
        Command::Doctor(args) => doctor::run(args, global, out).await,
        Command::Completion(args) => completion::run(&args, out),
        Command::Version(args) => version::run(&args, global, out).await,
        Command::Resolve(args) => resolve::run(args, out).await,
        Command::Range(args) => range::run(args, out).await,
        Command::Complete(args) => completion::complete(&args, out).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // plugin.md U1
    #[test]
    fn each_command_is_in_one_group() {
        let command = Cli::command();
        let visible = command.get_subcommands().filter(|it| !it.is_hide_set());
        let mut visible: Vec<_> = visible.map(clap::Command::get_name).collect();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(visible, grouped);
        insta::assert_snapshot!(super::grouped().render_help());
    }

    // plugin.md 1.1
    #[test]
    fn the_long_help_is_long_only_where_it_says_more() {
        let help = |verb, flag| {
            grouped().try_get_matches_from(["kubectl olm", verb, flag]).unwrap_err().to_string()
        };
        for verb in ["status", "plan", "upgrade", "rollback", "pause", "delete"] {
            assert_eq!(help(verb, "--help"), help(verb, "-h"), "{verb}");
        }
        assert_ne!(help("install", "--help"), help("install", "-h"));
    }
}
