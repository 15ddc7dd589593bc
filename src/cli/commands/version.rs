//! `kubectl olm version`: which build this is, and which version the controller of the cluster has.

use olm_core::about::Build;

use crate::commands::prelude::*;

/// For so long the cluster is asked.
const PATIENCE: Duration = Duration::from_secs(3);

const BUILD: Build = Build {
    version: concat!("v", env!("CARGO_PKG_VERSION")),
    commit: option_env!("OLM_COMMIT"),
    date: option_env!("OLM_DATE"),
    state: option_env!("OLM_STATE"),
    rustc: env!("OLM_RUSTC"),
    target: env!("OLM_TARGET"),
};

#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Output format
    #[arg(short, long, value_parser = formats(&[]), default_value_t)]
    output: Format,
}

/// Prints the version.
pub(crate) async fn run(args: &VersionArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let controller = tokio::time::timeout(PATIENCE, controller(global)).await.ok().flatten();
    let mut build = BUILD.to_json();
    if let Some(version) = &controller {
        build["controller"] = version.as_str().into();
    }
    match args.output {
        Format::Json => output::write_json(out, &build)?,
        Format::Yaml => output::write_yaml(out, &build)?,
        _ => {
            writeln!(out, "{BUILD}")?;
            if let Some(version) = controller {
                writeln!(out, "controller: {version:?}")?;
            }
        }
    }
    Ok(Outcome::Done)
}

/// Returns the version of the cluster's controller, if there is one that says it.
async fn controller(global: &Global) -> Option<String> {
    let client = Cluster::client(global).await.ok()?;
    let settings = SettingsFlags::default().on_cluster(&client).await.ok()?;
    let version = settings.controller.version;
    (!version.is_empty()).then(|| format!("v{version}"))
}
