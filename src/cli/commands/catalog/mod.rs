//! `kubectl olm catalog`: what is served and how good it is; making catalogs.
//!
//! Source: plugin.md 2.

pub(super) mod build;
pub(super) mod diff;
pub(crate) mod lint;
pub(crate) mod list;
mod refresh;
mod render;
mod serve;
mod wait;

use clap::Subcommand;

use crate::catalogs::{self, FileList};
use crate::commands::prelude::*;

/// Subcommands of `catalog`.
#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    /// List catalogs
    List(list::ListArgs),
    /// Add a catalog
    Add(serve::AddArgs),
    /// Remove a catalog; what was installed from it stays
    Remove(serve::RemoveArgs),
    /// Poll the image of a catalog now
    Refresh(refresh::RefreshArgs),
    /// Check the content of a catalog
    Lint(lint::LintArgs),
    /// Print the blobs of catalogs and bundles
    Render(render::RenderArgs),
    /// Build the image of a catalog
    Build(build::BuildArgs),
    /// Compare a catalog with other content
    Diff(diff::DiffArgs),
}

pub(crate) async fn run(command: CatalogCommand, global: &Global, out: &mut dyn Write) -> Ended {
    match command {
        CatalogCommand::List(args) => list::run(&args, global, out).await,
        CatalogCommand::Add(args) => serve::add(args, global, out).await,
        CatalogCommand::Remove(args) => serve::remove(args, global, out).await,
        CatalogCommand::Refresh(args) => refresh::run(&args, global, out).await,
        CatalogCommand::Lint(args) => lint::run(args, global, out).await,
        CatalogCommand::Render(args) => render::run(args, global, out).await,
        CatalogCommand::Build(args) => build::run(args, out).await,
        CatalogCommand::Diff(args) => diff::run(args, global, out).await,
    }
}

/// Reads the files of a catalog: those of a place, or of the image that the catalog of this name
/// serves on the cluster.
pub(crate) async fn files(place: &str, global: &Global) -> anyhow::Result<FileList> {
    let exists = std::path::Path::new(place).exists();
    if exists && !place.contains(['/', '.']) {
        notice(&format!("note: {place:?} is ./{place} here, not a catalog of the cluster"));
    }
    if exists || place.contains(['/', ':']) || place.parse::<ImageRef>().is_ok() {
        return catalogs::files(place).await;
    }
    let catalog = async { Cluster::catalog(&Cluster::client(global).await?, place).await };
    let catalog =
        catalog.await.with_context(|| format!("{place:?} is not a directory or file here"))?;
    let image = catalog.resolved_reference();
    let image = image.with_context(|| format!("catalog {place} has not been read yet"))?;
    catalogs::image_files(image).await
}
