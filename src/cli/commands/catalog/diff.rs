//! `kubectl olm catalog diff`: what another content of a catalog would change.
//!
//! Source: plugin.md 2.1.

use olm_api::keys::annotation::CATALOG_IMAGE_TEMPLATE as TEMPLATE;
use olm_core::catalog::diff::{PackageDiff, diff};
use olm_core::catalog::{Content, template};

use crate::catalogs::{self, FileList, metas};
use crate::commands::prelude::*;

/// Arguments of `catalog diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Present content: directory, file or image; or the name of a catalog of the cluster
    #[arg(value_name = "OLD|NAME")]
    old: String,
    /// New content; for a catalog of the cluster, by default the present content of its image
    new: Option<String>,
    /// Output format
    #[arg(short, long, value_parser = formats(&[]), default_value_t)]
    output: Format,
}

/// The changes between two contents of a catalog: `kubectl olm catalog diff`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Changes {
    /// The packages that change.
    packages: Vec<PackageDiff>,
    /// The extensions that no update would reach any longer.
    extensions: Vec<Stranded>,
}

/// An extension whose installed version nothing would follow.
#[derive(Debug, Serialize, JsonSchema)]
struct Stranded {
    /// Its name.
    name: String,
    /// Its installed version.
    stranded: String,
}

/// Prints the changes; exits with 1 if users lose versions or update paths, or an image changes.
pub(crate) async fn run(args: DiffArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let old = content(&super::files(&args.old, global).await?, &args.old)?;
    let (new, extensions) = if let Some(new) = &args.new {
        (content(&super::files(new, global).await?, new)?, Vec::new())
    } else {
        let cluster = OnCluster::default().connect(global).await?;
        let catalog = Cluster::catalog(cluster.own_client(), &args.old).await?;
        let image = catalog.spec.source.image;
        let image = image.with_context(|| format!("catalog {} has no image", args.old))?;
        let image = match catalog.metadata.annotations.unwrap_or_default().get(TEMPLATE) {
            Some(template) => {
                let info = cluster.own_client().apiserver_version().await?;
                template::fill(template, &info.git_version)?
            }
            None => image.ref_,
        };
        let new = content(&catalogs::image_files(&image).await?, &image)?;
        (new, cluster.extensions().await?)
    };
    let packages = diff(&old, &new);
    let changes = Changes { extensions: stranded(&packages, &extensions), packages };
    if let format @ (Format::Json | Format::Yaml) = args.output {
        changes.write(format, out)?;
    } else {
        for package in &changes.packages {
            write!(out, "{}", plain_lines(package))?;
        }
        for Stranded { name, stranded } in &changes.extensions {
            writeln!(out, "extension {name} would stay at {stranded}")?;
        }
        if changes.packages.is_empty() {
            writeln!(out, "nothing changes")?;
        }
    }
    let is_bad = changes.packages.iter().any(PackageDiff::is_bad);
    Ok(if is_bad { Outcome::Failed } else { Outcome::Done })
}

fn content(files: &FileList, place: &str) -> anyhow::Result<Content> {
    Ok(Content::from_blobs(&metas(files, place)?))
}

/// Returns the extensions whose installed version nothing would follow.
fn stranded(found: &[PackageDiff], extensions: &[ClusterExtension]) -> Vec<Stranded> {
    let of = |extension: &ClusterExtension| {
        let package = extension.package()?;
        let installed = &extension.installed()?.version;
        let package = found.iter().find(|found| found.name == package)?;
        let lost = package.stranded.contains(installed);
        lost.then(|| Stranded { name: extension.name_any(), stranded: installed.clone() })
    };
    extensions.iter().filter_map(of).collect()
}

fn plain_lines(package: &PackageDiff) -> String {
    let mut good = Vec::new();
    if let Some((before, after)) = &package.default_channel {
        good.push(format!("default channel {before:?} -> {after:?}"));
    }
    for head in &package.heads {
        let or_none = |text: &str| if text.is_empty() { "none" } else { text }.to_owned();
        let (before, after) = (or_none(&head.before), or_none(&head.after));
        good.push(format!("head {} {before} -> {after}", head.channel));
    }
    let lists = [
        ("added", &package.added),
        ("removed", &package.removed),
        ("deprecated", &package.deprecated),
    ];
    for (word, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        let names = list.iter().map(|name| if name.is_empty() { "the package" } else { name });
        good.push(format!("{word} {}", names.collect::<Vec<_>>().join(", ")));
    }
    let mut lines = vec![format!("{}: {}", package.name, good.join("; "))];
    if let Some(error) = &package.unreadable {
        lines.push(format!("error: cannot be used: {error}"));
    }
    for change in &package.changed_versions {
        lines.push(format!("{}: {}", change.version, change.what));
    }
    let lists = [
        ("stranded", &package.stranded, "nothing replaces or skips them"),
        ("z-stream", &package.z_stream, "the newest patch is no longer reached"),
    ];
    for (word, list, why) in lists.into_iter().filter(|(_, list, _)| !list.is_empty()) {
        lines.push(format!("error: {word}: {} ({why})", list.join(", ")));
    }
    for image in &package.changed_images {
        lines.push(format!(
            "error: {} has another image: {} -> {}",
            image.version, image.before, image.after
        ));
    }
    lines.iter().map(|line| plain(line)).collect::<Vec<_>>().join("\n  ") + "\n"
}
