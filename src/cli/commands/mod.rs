//! The command line as clap reads it, and one file per subcommand: its arguments, and a `run` that
//! prints in one place.
//!
//! A new command needs a variant of [`Command`], a line in [`run`], a place in [`GROUPS`], and an
//! example in `examples.rs`.

pub(crate) mod approve;
pub(crate) mod browse;
pub(crate) mod catalog;
pub(crate) mod cluster_upgrade;
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
pub(crate) mod lint_bundle;
pub(crate) mod lock;
pub(crate) mod pause;
pub(crate) mod plan;
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

use std::fmt::Write as _;
use std::io::Write;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::connection::Global;
use crate::output::Outcome;

/// Install, upgrade and examine ClusterExtensions
#[derive(Debug, Parser)]
#[command(name = "kubectl-olm", bin_name = "kubectl olm", version)]
pub(crate) struct Cli {
    /// Flags every command accepts.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One subcommand with its own flags.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say which bundle a ClusterExtension would get
    Resolve(resolve::ResolveArgs),
    /// Say why a ClusterExtension gets the bundle it gets, or none
    Why(Box<why::WhyArgs>),
    /// Draw the update graph of a package
    Graph(graph::GraphArgs),
    /// Say whether versions are inside a version range
    Range(range::RangeArgs),
    /// Show what a bundle is and how it can be configured
    Show(show::ShowArgs),
    /// Say what is wrong with a bundle and what it needs of a cluster
    LintBundle(lint_bundle::LintBundleArgs),
    /// Say whether CRDs may follow others; rid one of an old stored version
    #[command(subcommand)]
    Crd(CrdCommand),
    /// Say which images bundles take, and whether they can be had from here
    Images(images::ImagesArgs),
    /// Write down what a cluster runs, compare with it, and go there
    #[command(subcommand)]
    Lock(lock::LockCommand),
    /// Print or apply an account with exactly the rights that bundles need, or say what one lacks
    Rbac(Box<rbac::RbacArgs>),
    /// Say whether the cluster may be updated, and what lifts what is in the way
    ClusterUpgrade(cluster_upgrade::ClusterUpgradeArgs),
    /// Print the objects a bundle becomes
    Render(render::RenderArgs),
    /// Say which packages the catalogs of the cluster have
    Search(search::SearchArgs),
    /// Say what is installed, whether it is well, what could be newer and what holds it
    Status(status::StatusArgs),
    /// Install a package, with an account that may install just that
    Install(Box<install::InstallArgs>),
    /// Say what would change, and what stands in the way
    Plan(Box<plan::PlanArgs>),
    /// Release exactly one plan
    Approve(Box<approve::ApproveArgs>),
    /// Move an extension to another version
    Upgrade(Box<upgrade::UpgradeArgs>),
    /// Go back to the content of an earlier revision
    Rollback(rollback::RollbackArgs),
    /// Say what was installed when
    History(history::HistoryArgs),
    /// Touch nothing of extensions for now: no update and no repair
    Pause(pause::PauseArgs),
    /// Go on with paused extensions
    Resume(pause::PauseArgs),
    /// Say which data would go with an extension, and remove it
    Delete(delete::DeleteArgs),
    /// Say which catalogs are served and how good they are; make catalogs
    #[command(subcommand)]
    Catalog(catalog::CatalogCommand),
    /// Say what Subscriptions of OLM Classic become, and what cannot be carried over
    FromClassic(from_classic::FromClassicArgs),
    /// Look at all of it in a browser, read-only
    Browse(browse::BrowseArgs),
    /// Say whether this cluster is fit for extensions, and pack what whoever helps needs
    Doctor(doctor::DoctorArgs),
    /// Complete commands in a shell, or through kubectl
    Completion(completion::CompletionArgs),
    /// Say which build this is
    Version(version::VersionArgs),
    /// Say what may follow on a command line
    #[command(name = "__complete", hide = true)]
    Complete(completion::CompleteArgs),
}

/// What is asked of CRDs.
#[derive(Debug, Subcommand)]
pub(crate) enum CrdCommand {
    /// Say whether the CRDs of a bundle may follow others
    Check(crd_check::CrdCheckArgs),
    /// Store all objects of a CRD in its present version, and drop the others
    Migrate(crd_migrate::CrdMigrateArgs),
}

/// The groups of the help, each with its commands (plugin.md 1.1).
pub const GROUPS: [(&str, &[&str]); 6] = [
    ("Find", &["search", "show", "graph", "why"]),
    (
        "Install and change",
        &[
            "install", "status", "plan", "approve", "upgrade", "rollback", "history", "pause",
            "resume", "delete",
        ],
    ),
    ("Rights and safety", &["rbac", "crd", "images", "lock", "cluster-upgrade"]),
    ("Catalogs and bundles", &["catalog", "lint-bundle", "render", "from-classic"]),
    ("Look and mend", &["browse", "doctor"]),
    ("Other", &["resolve", "range", "version", "completion"]),
];

/// Reads the command line.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let mut command = grouped();
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
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
pub(crate) async fn run(cli: Cli, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    match cli.command {
        Command::Resolve(args) => resolve::run(args, out).await,
        Command::Why(args) => why::run(*args, &cli.global, out).await,
        Command::Graph(args) => graph::run(args, &cli.global, out).await,
        Command::Range(args) => range::run(args, out).await,
        Command::Show(args) => show::run(args, &cli.global, out).await,
        Command::LintBundle(args) => lint_bundle::run(args, out).await,
        Command::Crd(CrdCommand::Check(args)) => crd_check::run(args, &cli.global, out).await,
        Command::Crd(CrdCommand::Migrate(args)) => crd_migrate::run(args, &cli.global, out).await,
        Command::Images(args) => images::run(args, &cli.global, out).await,
        Command::Lock(command) => lock::run(command, &cli.global, out).await,
        Command::ClusterUpgrade(args) => cluster_upgrade::run(args, &cli.global, out).await,
        Command::Render(args) => render::run(args, &cli.global, out).await,
        Command::Rbac(args) => rbac::run(*args, &cli.global, out).await,
        Command::Search(args) => search::run(args, &cli.global, out).await,
        Command::Status(args) => status::run(args, &cli.global, out).await,
        Command::Install(args) => install::run(*args, &cli.global, out).await,
        Command::Plan(args) => plan::run(*args, &cli.global, out).await,
        Command::Approve(args) => approve::run(*args, &cli.global, out).await,
        Command::Upgrade(args) => upgrade::run(*args, &cli.global, out).await,
        Command::Rollback(args) => rollback::run(args, &cli.global, out).await,
        Command::History(args) => history::run(args, &cli.global, out).await,
        Command::Pause(args) => pause::run(args, true, &cli.global, out).await,
        Command::Resume(args) => pause::run(args, false, &cli.global, out).await,
        Command::Delete(args) => delete::run(args, &cli.global, out).await,
        Command::Catalog(command) => catalog::run(command, &cli.global, out).await,
        Command::FromClassic(args) => from_classic::run(args, &cli.global, out).await,
        Command::Browse(args) => browse::run(args, cli.global, out).await,
        Command::Doctor(args) => doctor::run(args, &cli.global, out).await,
        Command::Completion(args) => completion::run(&args, out),
        Command::Version(args) => version::run(&args, out),
        Command::Complete(args) => completion::complete(&args, out),
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
}
