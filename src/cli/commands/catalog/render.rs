//! `kubectl olm catalog render`: the blobs of catalogs and of bundles.
//!
//! Source: plugin.md 2.1.

use std::fs;

use olm_core::bundle::{Bundle, BundleError, Files};
use olm_core::catalog::opm::{self, Template};
use olm_core::catalog::read::Meta;
use olm_core::catalog::{CatalogBundle, graph_of_bundles};
use olm_image::pull::PullError;

use crate::catalogs::{self, FileList};
use crate::commands::prelude::*;
use crate::output::objects;

/// Directory that makes a directory a bundle.
const MANIFESTS: &str = "manifests";

/// Arguments of `catalog render`.
#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// Directories, files and images of catalogs and bundles, names of catalogs on the cluster, or
    /// basic and semver templates of opm
    #[arg(value_name = "DIR|FILE|IMAGE|NAME", required = true)]
    sources: Vec<String>,
    /// Only this package; repeatable
    #[arg(long = "package", value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Add the package and the channels that the CSVs of the bundles describe
    #[arg(long)]
    graph_from_csv: bool,
    /// Output format
    #[arg(short, long, value_parser = objects(), default_value = "json")]
    output: Format,
}

/// Prints the blobs of catalogs and bundles, in the order of the arguments.
pub(crate) async fn run(args: RenderArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let (mut metas, mut bundles) = (Vec::new(), Vec::new());
    for source in &args.sources {
        if let Some(template) = template(source)? {
            metas.extend(expanded(source, template).await?);
            continue;
        }
        match read(source, global).await? {
            Source::Bundle(files) => bundles.push(bundle(source, &files)?),
            Source::Catalog(files) => metas.extend(catalogs::metas(&files, source)?),
        }
    }
    let graph = args.graph_from_csv.then(|| graph_of_bundles(&bundles));
    let blobs = graph.into_iter().flatten().map(|blob| blob.to_string());
    for blob in blobs.chain(bundles.iter().map(|bundle| bundle.blob.clone())) {
        metas.push(Meta::parse(&blob)?);
    }
    let of_package = |meta: &&Meta| {
        args.packages.is_empty() || args.packages.iter().any(|package| package == meta.owner())
    };
    let mut count = 0;
    for meta in metas.iter().filter(of_package) {
        count += 1;
        match args.output {
            Format::Yaml => {
                let value: Value = serde_json::from_str(&meta.json)?;
                out.write_all(yaml::to_yaml_stream(&[value]).as_bytes())?;
            }
            _ => writeln!(out, "{}", meta.json)?,
        }
    }
    if count == 0 {
        notice(&match args.packages.as_slice() {
            [] => "nothing to print: no document has a schema".to_owned(),
            packages => format!("nothing of {}", packages.join(", ")),
        });
        return Ok(Outcome::Failed);
    }
    Ok(Outcome::Done)
}

/// Returns the template of opm that a file is, if it is one.
fn template(source: &str) -> anyhow::Result<Option<Template>> {
    if !Path::new(source).is_file() {
        return Ok(None);
    }
    let text = fs::read(source).with_context(|| format!("reading {source}"))?;
    let text = String::from_utf8_lossy(&text);
    // Catalogs are large, and read as a stream.
    if !opm::SCHEMAS.iter().any(|schema| text.contains(schema)) {
        return Ok(None);
    }
    let documents = yaml::to_json(&text).with_context(|| format!("reading {source}"))?;
    let template = documents.first().map(Template::of).transpose();
    Ok(template.with_context(|| source.to_owned())?.flatten())
}

async fn expanded(source: &str, template: Template) -> anyhow::Result<Vec<Meta>> {
    let mut bundles = BTreeMap::new();
    for image in template.images() {
        let read = bundle(&image, &load_files(&image).await?)?;
        bundles.insert(image, read);
    }
    template.expand(&bundles).with_context(|| source.to_owned())
}

enum Source {
    Catalog(FileList),
    Bundle(Files),
}

/// Reads a source once: a bundle is a directory with manifests, or an image that is not a catalog.
async fn read(source: &str, global: &Global) -> anyhow::Result<Source> {
    if Path::new(source).join(MANIFESTS).is_dir() {
        return load_files(source).await.map(Source::Bundle);
    }
    match super::files(source, global).await {
        // Whatever else is wrong with a catalog is not said of a bundle.
        Err(error) if matches!(error.downcast_ref(), Some(PullError::MissingLabel { .. })) => {
            load_files(source).await.map(Source::Bundle).map_err(|_| error)
        }
        files => files.map(Source::Catalog),
    }
}

fn bundle(source: &str, files: &Files) -> anyhow::Result<CatalogBundle> {
    let image = if Path::new(source).is_dir() {
        notice(&format!("note: {} is a directory: \"image\" stays empty", quote(source)));
        ""
    } else {
        source
    };
    let read = || {
        let (bundle, refusal) = Bundle::for_catalog(files)?;
        Ok((CatalogBundle::new(&bundle, files, image)?, refusal))
    };
    let (bundle, refusal) =
        read().map_err(|error: BundleError| anyhow::anyhow!("{source}: {}", Chain(&error)))?;
    if let Some(refusal) = refusal {
        notice(&format!("note: {} cannot be installed: {}", quote(source), Chain(&refusal)));
    }
    Ok(bundle)
}
