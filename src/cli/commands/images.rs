//! `kubectl olm bundle images`: which images bundles take, and whether they can be had from here.
//!
//! Source: plugin.md 1.4.

use olm_cluster::join_bounded;
use olm_core::catalog::CatalogBundle;
use olm_core::catalog::lint::Pinned;
use olm_image::manifest::Platform;
use olm_image::pull::{CopyError, PullError, Puller};
use olm_image::reference::pinned;
use olm_image::registries::cluster::{KINDS, configuration};
use olm_image::registry::RequestError;

use crate::catalogs::named_files;
use crate::commands::catalog::lint::{missing, named_images};
use crate::commands::prelude::*;
use crate::puller::{config, puller_with};

#[derive(Debug, Args)]
pub(crate) struct ImagesArgs {
    /// Bundles, packages and extensions; with `--from` alone all packages
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Request the manifest of each, through the mirrors of this machine and of the cluster, with
    /// the credentials of this machine
    #[arg(long)]
    check: bool,
    /// With --check: platform that each image must have, for example linux/arm64
    #[arg(long, value_name = "OS/ARCHITECTURE", value_parser = platform, requires = "check")]
    platform: Option<Platform>,
    #[command(flatten)]
    lookup: Lookup,
    /// Output format
    #[arg(short, long, value_parser = formats(&[Format::Name, Format::Imageset]), default_value_t)]
    output: Format,
}

/// Whether an image exists; `Err` contains the reason why this is unknown.
type Found = Result<Result<(), String>, String>;

/// Lists the images, and asks for them.
pub(crate) async fn run(args: ImagesArgs, global: &Global, out: &mut dyn Write) -> Ended {
    if args.targets.is_empty() && !args.lookup.is_offline() {
        return usage("a target, or --from");
    }
    let images = named(&args, global).await?;
    let mut found = BTreeMap::new();
    if args.check {
        found = check(&args, global, images.keys()).await?;
    }
    let listed = document(&images, &found);
    match args.output {
        format @ (Format::Json | Format::Yaml) => listed.write(format, out)?,
        Format::Name => {
            for image in images.keys() {
                writeln!(out, "{image}")?;
            }
        }
        Format::Imageset => output::write_yaml(out, &image_set(&images))?,
        _ if args.check => listed.write_found(out)?,
        _ => listed.table().write(out)?,
    }
    Ok(Outcome::of(listed.missing().next().is_some(), !listed.unknown.is_empty()))
}

/// Images, each with the bundles that take it.
type Images = BTreeMap<String, BTreeSet<String>>;

async fn named(args: &ImagesArgs, global: &Global) -> anyhow::Result<Images> {
    let mut images = Images::new();
    if args.targets.is_empty() {
        let authorities = args.lookup.on.access.catalog_ca.as_deref();
        for catalog in &args.lookup.catalogs {
            for (image, first) in named_images(&named_files(&catalog.place, authorities).await?)? {
                images.entry(image).or_default().insert(first.name);
            }
        }
        return Ok(images);
    }
    let targets: Vec<_> = args.targets.iter().map(|it| args.lookup.target(it)).collect();
    let cluster = args.lookup.cluster_for(&targets, global).await?;
    let loaded = load(&targets, &args.lookup, cluster.as_ref(), None).await?;
    for source in &loaded.sources {
        let bundle = CatalogBundle::new(&source.bundle, &source.files, &source.image)?;
        for image in bundle.images {
            images.entry(image).or_default().insert(source.bundle.csv.name.clone());
        }
    }
    Ok(images)
}

/// Asks for each image once.
async fn check(
    args: &ImagesArgs,
    global: &Global,
    images: impl Iterator<Item = &String>,
) -> anyhow::Result<BTreeMap<String, Found>> {
    let mut config = config();
    if let Ok(client) = Cluster::client(global).await {
        config.registries.more.extend(mirrors(&client).await);
    }
    if let Some(platform) = &args.platform {
        config.platform = platform.clone();
    }
    let puller = &puller_with(config)?;
    let asked = images.map(|image| async move {
        let found = ask(puller, image, args.platform.is_some()).await;
        (image.clone(), found)
    });
    Ok(join_bounded(asked.collect()).await.into_iter().collect())
}

async fn ask(puller: &Puller, text: &str, with_platform: bool) -> Found {
    let image = text.parse::<ImageRef>().map_err(|error| Chain(&error).to_string())?;
    if !with_platform {
        return missing(puller, &image).await.map_or(Ok(Ok(())), |why| why.map(Err));
    }
    let suits = async { puller.image(&puller.resolve(&image).await?).await };
    match suits.await {
        Ok(image) if image.suits() => Ok(Ok(())),
        Ok(_) => Ok(Err("not for this platform".to_owned())),
        Err(error) if is_missing(&error) => Ok(Err(Chain(&error).to_string())),
        Err(error) => Err(Chain(&error).to_string()),
    }
}

/// Returns whether a registry was reached and does not have the image, or another thing in its place.
fn is_missing(error: &PullError) -> bool {
    // An index may name a manifest that does not exist.
    let is_absent =
        |error: &RequestError| matches!(error, RequestError::Answer { status: 404, .. });
    error.is_not_found()
        || matches!(error, PullError::Copy(CopyError::Request(_, source)) if is_absent(source))
        || matches!(error, PullError::Copy(CopyError::Manifest(_)))
}

/// Reads the mirrors that the nodes of a cluster are told of, if it has such kinds.
async fn mirrors(client: &Client) -> Option<String> {
    let mut lists = Vec::new();
    for (path, key, _) in KINDS {
        match olm_cluster::read(client, path).await {
            Ok(list) => lists.extend(list.map(|list| (key, list))),
            Err(error) => {
                let why = failure(&error);
                notice(&format!("note: mirrors of the cluster are not known: {why}"));
                return None;
            }
        }
    }
    (!lists.is_empty()).then(|| configuration(&lists))
}

/// Which images bundles take: `kubectl olm bundle images`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Listed<'a> {
    images: Vec<Row<'a>>,
    /// Images of which `--check` could not find out whether they are there.
    unknown: Vec<Unknown>,
}

impl<'a> Listed<'a> {
    /// Returns the images that are not there, each with why.
    fn missing(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.images.iter().filter_map(|row| Some((row.image, row.asked.as_ref()?.why?.as_str())))
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&["IMAGE", "BY", "BUNDLES"]);
        for Row { image, by_tag, bundles, .. } in &self.images {
            let by = if *by_tag { "tag" } else { "digest" };
            let bundles: Vec<&str> = bundles.iter().map(String::as_str).collect();
            table.row(vec![(*image).to_owned(), by.to_owned(), bundles.join(",")]);
        }
        table
    }

    fn write_found(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (missing, unknown) = (self.missing().count(), self.unknown.len());
        let there = self.images.len() - missing - unknown;
        let not_known = if unknown == 0 { String::new() } else { format!(", {unknown} not known") };
        let images = counted(self.images.len(), "image");
        writeln!(out, "{images} from here: {there} found, {missing} not{not_known}")?;
        let unknown = self.unknown.iter().map(|it| (it.what.as_str(), it.why.as_str()));
        let mut rest: Vec<_> = self.missing().chain(unknown).collect();
        rest.sort_unstable();
        let mut table = Table::default();
        for (image, why) in rest {
            table.row(vec![image.to_owned(), why.to_owned()]);
        }
        Ok(table.write(out)?)
    }
}

/// An image.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    /// Its reference.
    image: &'a str,
    /// Whether the reference has a tag, which may be moved to another image.
    by_tag: bool,
    /// Names of the bundles that take it.
    bundles: &'a BTreeSet<String>,
    #[serde(flatten)]
    asked: Option<Asked<'a>>,
}

/// Whether an image exists; absent if this was not checked, or is unknown.
#[derive(Debug, Serialize, JsonSchema)]
struct Asked<'a> {
    /// Whether it can be pulled from here; absent if this was not checked, or is unknown.
    found: bool,
    /// Why it cannot.
    why: Option<&'a String>,
}

fn document<'a>(images: &'a Images, found: &'a BTreeMap<String, Found>) -> Listed<'a> {
    let unknown = found.iter().filter_map(|(image, found)| {
        let why = found.as_ref().err()?;
        Some(Unknown::new(image, why))
    });
    let image = |(image, bundles): (&'a String, &'a BTreeSet<String>)| {
        let found = found.get(image).and_then(|found| found.as_ref().ok());
        Row {
            image,
            by_tag: !matches!(pinned(image), Ok(Pinned::Digest)),
            bundles,
            asked: found.map(|found| Asked { found: found.is_ok(), why: found.as_ref().err() }),
        }
    };
    Listed { images: images.iter().map(image).collect(), unknown: unknown.collect() }
}

/// Returns the configuration with which oc-mirror v2 copies the images.
fn image_set(images: &Images) -> Value {
    let names: Vec<_> = images.keys().map(|image| json!({"name": image})).collect();
    json!({"apiVersion": "mirror.openshift.io/v2alpha1", "kind": "ImageSetConfiguration",
        "mirror": {"additionalImages": names}})
}

/// Reads `os/architecture[/variant]`.
fn platform(text: &str) -> anyhow::Result<Platform> {
    let mut parts = text.split('/').map(str::to_owned);
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(os), Some(architecture), variant, None) if !architecture.is_empty() => {
            Ok(Platform { os, architecture, variant })
        }
        _ => bail!("not a platform such as linux/arm64"),
    }
}
