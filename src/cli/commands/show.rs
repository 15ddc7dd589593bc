//! `kubectl olm show`: what a bundle is, and which `spec.config` it takes.

use jiff::tz::TimeZone;
use olm_core::bundle::{Bundle, constraints};
use olm_core::catalog::{BundleSummary, ChannelSummary, Summary};
use olm_core::config::{Features, example, schema};
use olm_core::error::plain_lines;

use crate::bundle_source::IMAGE;
use crate::commands::prelude::*;
use crate::describe::Description;
use crate::graph::visible;
use crate::offers::Offers;
use crate::output::{KeyValues, write_json, write_yaml};
use crate::target::{Chosen, chosen_or_why, filter, or_like, or_near, pinned};

/// Bundles that are listed of a package.
const NEWEST: usize = 10;
const NO_PACKAGE: &str = "--no-pull needs a package";

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A package, by default its highest version; what an extension has installed; the directory of
    /// an unpacked bundle, or the reference of a bundle image
    #[arg(value_name = "PACKAGE[@RANGE]|EXTENSION|BUNDLE_DIR|IMAGE")]
    bundle: String,
    #[command(flatten)]
    place: InNamespace,
    #[command(flatten)]
    lookup: Lookup,
    /// Show only what the catalogs contain about a package; pull no image
    #[arg(long, conflicts_with = "schema")]
    no_pull: bool,
    /// List every bundle of a package
    #[arg(long)]
    long: bool,
    /// Print the JSON Schema of `spec.config.inline` and nothing else
    #[arg(long, conflicts_with = "output")]
    schema: bool,
    /// Output format
    #[arg(short, long, value_parser = formats(&[]), default_value_t)]
    output: Format,
}

/// The subject.
struct Subject {
    /// Directory or image, or why there is none.
    place: anyhow::Result<String>,
    /// Whether a version is asked for.
    is_narrowed: bool,
    /// Catalog and what it says of the package, where a package is asked for.
    known: Option<(String, Summary)>,
}

impl Subject {
    async fn of(args: &ShowArgs, global: &Global) -> anyhow::Result<Self> {
        let target = args.lookup.target(&args.bundle);
        let offers = match target {
            Target::Bundle(place) => {
                return Ok(Self { place: Ok(place), is_narrowed: false, known: None });
            }
            _ => args.lookup.offers(global).await?,
        };
        let (wanted, is_word) = match (target, &offers) {
            (Target::Extension(_), _) if args.no_pull => return usage(NO_PACKAGE),
            (Target::Extension(name), Offers::Cluster(cluster)) => {
                return Self::installed(&name, cluster).await;
            }
            (Target::Word(word), Offers::Cluster(cluster)) => {
                // Without its bundle nothing is known of an extension.
                if !args.no_pull && cluster.find_extension(&word).await?.is_some() {
                    return Self::installed(&word, cluster).await;
                }
                (word, true)
            }
            (Target::Extension(name), Offers::Named(_)) => {
                return usage(format!(
                    "extension {name} is on a cluster, which --from does not read"
                ));
            }
            (Target::Package(wanted) | Target::Word(wanted) | Target::Bundle(wanted), _) => {
                (wanted, false)
            }
        };
        let filter = filter(&wanted);
        let (package, is_narrowed) = (filter.package_name.clone(), filter.version.is_some());
        let found = chosen_or_why(&offers.offered(filter).await?);
        let found = match &offers {
            Offers::Cluster(cluster) => or_near(found, (&wanted, is_word), cluster).await,
            Offers::Named(_) => or_like(found, &package, &offers).await,
        };
        let (place, catalog) = match found {
            Ok(Chosen { name, image, catalog, .. }) => {
                notice(&format!("{name} of catalog {catalog}: {image}"));
                (Ok(format!("{IMAGE}{image}")), catalog)
            }
            Err(error) => {
                let (heads, _) = offers.heads().await?;
                let has_it = |(_, blob): &(String, Value)| blob["name"] == package;
                match heads.into_iter().find(has_it) {
                    Some((catalog, _)) => (Err(error), catalog),
                    None => return Err(error),
                }
            }
        };
        let summary = offers.summary(&catalog, &package).await?;
        Ok(Self { place, is_narrowed, known: summary.map(|summary| (catalog, summary)) })
    }

    /// The bundle that an extension has installed, by the digest that its revision records.
    async fn installed(name: &str, cluster: &Cluster) -> anyhow::Result<Self> {
        let revisions = cluster.revisions(name).await?;
        let set = states(&revisions).installed;
        let set = set.with_context(|| format!("extension {name:?} has nothing installed"))?;
        let record = BundleRecord::of(set);
        let place = pinned(&record, set)?;
        notice(&format!("{} of extension {name}: {place}", record.name));
        Ok(Self { place: Ok(format!("{IMAGE}{place}")), is_narrowed: false, known: None })
    }
}

/// Shows one bundle.
pub(crate) async fn run(args: ShowArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let Subject { place, is_narrowed, known } = Subject::of(&args, global).await?;
    // What the catalogs know is shown all the same.
    let refused = place.as_ref().err().filter(|_| is_narrowed);
    let refused = refused.map(|cause| Failure::of(cause).outcome);
    let files = match place {
        Ok(_) if args.no_pull => Ok(None),
        Ok(place) => load_files(&place).await.map(Some),
        Err(cause) => Err(cause),
    };
    let files = match (files, &known) {
        (Ok(Some(files)), _) => files,
        (Ok(None), None) => return usage(NO_PACKAGE),
        (Err(cause), None) => return Err(cause),
        (Err(cause), Some(_)) if args.schema => {
            tell("error: configuration not known", &cause);
            return Ok(refused.unwrap_or(Outcome::Unknown));
        }
        (told, Some(known)) => {
            let cause = told.err();
            if let Some(cause) = &cause {
                let level = if refused.is_some() { "error" } else { "note" };
                let what = if args.no_pull { "" } else { ": configuration not shown" };
                tell(&format!("{level}{what}"), cause);
            }
            let unpulled = cause.filter(|_| !args.no_pull).map(|cause| one_line(&cause));
            write_known(&args, known, unpulled, out)?;
            return Ok(refused.unwrap_or(Outcome::Done));
        }
    };
    let bundle = Bundle::from_files(&files)?;
    let description = Description::of(&bundle, constraints(&files)?);
    let features = Features::default();
    let schema = schema(&bundle.csv, features);
    if args.schema {
        write_json(out, &schema)?;
        return Ok(Outcome::Done);
    }
    let namespace = args.place.namespace.as_deref().unwrap_or(&bundle.package);
    let example = example(&bundle.csv, namespace, features);
    let whole = || -> anyhow::Result<Value> {
        let mut whole = serde_json::to_value(&description)?;
        whole["schema"] = schema.clone();
        whole["example"] = json!({ "spec": { "config": example } });
        if let Some((catalog, summary)) = &known {
            whole["offered"] = serde_json::to_value(document(catalog, summary.clone()).headed()?)?;
        }
        Ok(whole)
    };
    match args.output {
        Format::Json => write_json(out, &whole()?)?,
        Format::Yaml => write_yaml(out, &whole()?)?,
        _ => {
            if let Some((catalog, summary)) = &known {
                sheet(&args, catalog, summary).write(out)?;
                writeln!(out)?;
            }
            write(&description, &schema, &example, out)?;
        }
    }
    Ok(Outcome::Done)
}

/// Says why there is no bundle to show, and the way out.
fn tell(what: &str, cause: &anyhow::Error) {
    let Failure { text, hint, .. } = Failure::of(cause);
    notice(&format!("{what}: {text}"));
    if let Some(hint) = hint {
        notice(&format!("hint: {hint}"));
    }
}

/// Shows what a catalog says of a package; `unpulled` is why its image says nothing.
fn write_known(
    args: &ShowArgs,
    (catalog, summary): &(String, Summary),
    unpulled: Option<String>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if args.output == Format::Table {
        return Ok(sheet(args, catalog, summary).write(out)?);
    }
    let mut document = document(catalog, summary.clone());
    document.unknown.extend(unpulled.map(|why| Unknown::new("configuration", why)));
    document.write(args.output, out)
}

fn sheet(args: &ShowArgs, catalog: &str, summary: &Summary) -> KeyValues {
    let mut sheet = KeyValues::default();
    let shown = |text: &Option<String>| text.as_deref().map(plain);
    sheet.line("Package", plain(&summary.package));
    sheet.lines("Name", shown(&summary.display_name));
    sheet.lines("Provider", shown(&summary.provider));
    sheet.lines("About", shown(&summary.description));
    sheet.line("Catalog", catalog.to_owned());
    let deprecated = summary.deprecated.iter().flat_map(|text| text.lines());
    sheet.lines("Deprecated", deprecated.map(visible));
    let channel = |it: &ChannelSummary| {
        let default = if it.default { " (default)" } else { "" };
        let head = it.head.as_deref().unwrap_or("none");
        let text = format!("{}{default}: head {head}, entries: {}", it.name, it.entries);
        plain(&text) + &why(it.deprecated.as_deref())
    };
    sheet.lines("Channels", summary.channels.iter().map(channel));
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let support = summary.lifecycle.iter().rev().map(|it| plain(&it.text(today)));
    sheet.lines("Support", support);
    let bundle = |it: &BundleSummary| {
        let mut text = format!("{} in {}", it.version(), it.channels.join(", "));
        for need in &it.needs {
            text = text + "; needs " + need;
        }
        plain(&text) + &why(it.deprecated.as_deref())
    };
    let all = &summary.bundles;
    let shown = if args.long { all.len() } else { NEWEST };
    let more = all.len().saturating_sub(shown);
    let more = (more > 0).then(|| format!("and {more} more (--long)"));
    sheet.lines("Bundles", all.iter().take(shown).map(bundle).chain(more));
    sheet
}

/// Returns why something is deprecated, if it is.
fn why(deprecated: Option<&str>) -> String {
    deprecated.map_or_else(String::new, |why| format!("; deprecated: {}", plain_lines(why)))
}

/// The data of a catalog about a package, without its image: `kubectl olm show`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Known<'a> {
    /// The catalog.
    catalog: &'a str,
    #[serde(flatten)]
    summary: Summary,
    /// Data that only the image has, if it could not be pulled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<Unknown>,
}

/// Returns the data of a catalog about a package, for programs.
pub(crate) fn document(catalog: &str, summary: Summary) -> Known<'_> {
    Known { catalog, summary, unknown: Vec::new() }
}

fn write(
    description: &Description,
    schema: &Value,
    example: &Value,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut sheet = KeyValues::default();
    description.write(&mut sheet);
    sheet.write(out)?;
    writeln!(out, "\nConfiguration (`--schema` prints it as a JSON Schema):\n")?;
    keys(schema).write(out)?;
    writeln!(out, "\nExample:\n")?;
    write_yaml(out, &json!({ "spec": { "config": example } }))
}

/// Lists the keys of the configuration with their types.
fn keys(schema: &Value) -> Table {
    let mut table = Table::new(&["KEY", "TYPE"]);
    let properties = |schema: &Value| schema["properties"].as_object().cloned().unwrap_or_default();
    for (key, property) in properties(schema).into_iter().rev() {
        if key == "deploymentConfig" {
            for (below, property) in properties(&property) {
                table.row(vec![format!("{key}.{below}"), type_of(&property)]);
            }
        } else {
            table.row(vec![key, type_of(&property)]);
        }
    }
    table
}

/// Returns the words for a type of the schema.
fn type_of(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return reference.rsplit('/').next().unwrap_or_default().to_owned();
    }
    if let Some(branches) = schema["anyOf"].as_array() {
        let branches: Vec<String> = branches.iter().map(type_of).collect();
        return branches.join(" or ");
    }
    let inner = |key| type_of(&schema[key]);
    match schema["type"].as_str().unwrap_or_default() {
        "array" => format!("list of {}", inner("items")),
        "object" => format!("map of {}", inner("additionalProperties")),
        scalar => scalar.to_owned(),
    }
}
