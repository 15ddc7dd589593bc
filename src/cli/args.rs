//! The command line as clap reads it: the global flags and the list of commands.
//!
//! A command is one variant of [`Command`] and one line in [`crate::commands::run`].

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    completion, doctor, graph, lint_bundle, range, rbac, render, resolve, show, updates, version,
    why,
};
use crate::output::UsageError;

/// Install, upgrade and examine ClusterExtensions
#[derive(Debug, Parser)]
#[command(name = "kubectl-olm", bin_name = "kubectl olm", version, about)]
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
    /// Print an account with exactly the rights that bundles need
    Rbac(rbac::RbacArgs),
    /// Print the objects a bundle becomes
    Render(render::RenderArgs),
    /// Say which ClusterExtensions could be newer, and why they are not
    Updates(updates::UpdatesArgs),
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

/// The connection flags of kubectl; commands that work offline accept and ignore them.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Global {
    /// Path to the kubeconfig file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<String>,
    /// Name of the kubeconfig context
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Namespace
    #[arg(long, short = 'n', global = true, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(crate) impersonate: Option<String>,
    /// Group to impersonate; may be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    pub(crate) impersonate_groups: Vec<String>,
    /// File with credentials for registries; by default those of other container tools
    #[arg(long, global = true, value_name = "FILE", help_heading = "Images")]
    pub(crate) auth_file: Option<std::path::PathBuf>,
}

impl Global {
    /// Returns the namespace of `-n`, or a usage error that names the flag.
    pub(crate) fn require_namespace(&self) -> Result<&str, UsageError> {
        self.namespace
            .as_deref()
            .filter(|namespace| !namespace.is_empty())
            .ok_or_else(|| UsageError("a namespace is required: -n NAMESPACE".to_owned()))
    }
}
