//! The flags of every command: which cluster is meant, as whom, and with which credentials images
//! are pulled.

use std::path::PathBuf;

use clap::Args;

use crate::output::UsageError;

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
    /// File with credentials for registries; by default that of `REGISTRY_AUTH_FILE`, else those of other tools
    #[arg(long, global = true, value_name = "FILE", help_heading = "Images")]
    pub(crate) auth_file: Option<PathBuf>,
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
