//! `kubectl olm catalog`: what is served and how good it is; making catalogs.
//!
//! Source: plugin.md 2.

pub(super) mod build;
pub(super) mod diff;
pub(crate) mod lint;
pub(crate) mod list;
mod render;
mod serve;

use std::io::Write;

use anyhow::Context as _;
use clap::Subcommand;
use olm_image::reference::ImageRef;

use crate::catalogs::{self, FileList};
use crate::cluster::Cluster;
use crate::connection::Global;
use crate::output::Outcome;

/// What is done with catalogs.
#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    /// Say which catalogs are served
    List(list::ListArgs),
    /// Serve another catalog
    Add(serve::AddArgs),
    /// Stop serving a catalog; what was installed from it stays
    Remove(serve::RemoveArgs),
    /// Say what is wrong with the content of a catalog, and where
    Lint(lint::LintArgs),
    /// Print the blobs of catalogs and bundles
    Render(render::RenderArgs),
    /// Make the image of a catalog
    Build(build::BuildArgs),
    /// Say what another content of a catalog would change
    Diff(diff::DiffArgs),
}

/// Runs one of the commands.
pub(crate) async fn run(
    command: CatalogCommand,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    match command {
        CatalogCommand::List(args) => list::run(&args, global, out).await,
        CatalogCommand::Add(args) => serve::add(args, global, out).await,
        CatalogCommand::Remove(args) => serve::remove(args, global, out).await,
        CatalogCommand::Lint(args) => lint::run(args, global, out).await,
        CatalogCommand::Render(args) => render::run(args, global, out).await,
        CatalogCommand::Build(args) => build::run(args, out).await,
        CatalogCommand::Diff(args) => diff::run(args, global, out).await,
    }
}

/// Reads the files of a catalog: those of a place, or of the image that the catalog of this name
/// serves on the cluster.
pub(crate) async fn files(place: &str, global: &Global) -> anyhow::Result<FileList> {
    let is_place = std::path::Path::new(place).exists()
        || place.contains('/')
        || place.parse::<ImageRef>().is_ok();
    if is_place {
        return catalogs::files(place).await;
    }
    let catalog = async { Cluster::catalog(&Cluster::client(global).await?, place).await };
    let catalog =
        catalog.await.with_context(|| format!("{place:?} is not a directory or file here"))?;
    let status = catalog.status.and_then(|status| status.resolved_source);
    let image = status.map(|source| source.image.ref_);
    let image = image.with_context(|| format!("catalog {place} has not been read yet"))?;
    catalogs::files(&image).await
}
