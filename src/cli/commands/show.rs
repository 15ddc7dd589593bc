//! `kubectl olm show`: what a bundle is, and which `spec.config` it takes.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use olm_core::bundle::{Bundle, constraints};
use olm_core::catalog::{BundleSummary, ChannelSummary, Summary};
use olm_core::config::{Features, example, schema};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::bundle_source::{CatalogArgs, load_files};
use crate::connection::Global;
use crate::describe::Description;
use crate::document::{Document as _, Unknown};
use crate::graph::{plain, visible};
use crate::offers::Offers;
use crate::output::{Format, KeyValues, Outcome, Table, notice, write_json, write_yaml};

/// Flags of `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// With `--catalog` a package, by default its highest version; otherwise the directory of an
    /// unpacked bundle, or the reference of a bundle image
    #[arg(value_name = "PACKAGE[@VERSION]|BUNDLE_DIR|IMAGE")]
    bundle: String,
    /// The catalogs of the package.
    #[command(flatten)]
    offered: CatalogArgs,
    /// Say what the catalogs know of a package, and pull nothing
    #[arg(long, requires = "catalogs", conflicts_with = "schema")]
    no_pull: bool,
    /// Print the JSON Schema of `spec.config.inline` and nothing else
    #[arg(long, conflicts_with = "output")]
    schema: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Shows one bundle.
pub(crate) async fn run(
    args: ShowArgs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    if args.no_pull {
        return known(&args, None, out).await;
    }
    let files = if args.offered.any() && !Path::new(&args.bundle).is_dir() {
        let image = args.offered.image(&args.bundle).await?;
        match load_files(&image).await {
            Ok(files) => files,
            Err(cause) if args.schema => {
                notice(&format!("error: configuration not known: {cause:#}"));
                return Ok(Outcome::Unknown);
            }
            Err(cause) => {
                let cause = format!("{cause:#}");
                notice(&format!("note: configuration not shown: {cause}"));
                return known(&args, Some(&cause), out).await;
            }
        }
    } else {
        load_files(&args.bundle).await?
    };
    let bundle = Bundle::from_files(&files)?;
    let description = Description::of(&bundle, constraints(&bundle, &files)?);
    let features = Features::default();
    let schema = schema(&bundle.csv, features);
    if args.schema {
        write_json(out, &schema)?;
        return Ok(Outcome::Done);
    }
    let namespace = global.namespace.as_deref().unwrap_or(&bundle.package);
    let example = example(&bundle.csv, namespace, features);
    let whole = || -> anyhow::Result<Value> {
        let mut whole = serde_json::to_value(&description)?;
        whole["schema"] = schema.clone();
        whole["example"] = json!({ "spec": { "config": example } });
        Ok(whole)
    };
    match args.output {
        Format::Table => write(&description, &schema, &example, out)?,
        Format::Json => write_json(out, &whole()?)?,
        Format::Yaml => write_yaml(out, &whole()?)?,
    }
    Ok(Outcome::Done)
}

/// Shows what the first of the catalogs that has a package says of it; `unpulled` is why its image
/// says nothing.
async fn known(
    args: &ShowArgs,
    unpulled: Option<&str>,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let offers = Offers::Named(Arc::new(args.offered.read().await));
    let package = args.bundle.split('@').next().unwrap_or_default();
    for catalog in args.offered.names() {
        let Some(summary) = offers.summary(catalog, package).await? else {
            continue;
        };
        let unknown = unpulled.map(|why| Unknown::new("configuration", why));
        match args.output {
            Format::Table => sheet(catalog, &summary).write(out)?,
            format => {
                let mut document = document(catalog, summary);
                document.unknown.extend(unknown);
                document.write(format, out)?;
            }
        }
        return Ok(Outcome::Done);
    }
    anyhow::bail!("no catalog has package {package:?}")
}

fn sheet(catalog: &str, summary: &Summary) -> KeyValues {
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
        let deprecated = it.deprecated.as_ref();
        let deprecated = deprecated.map_or_else(String::new, |why| format!("; deprecated: {why}"));
        let text = format!(
            "{}{default}: head {head}, entries: {}{deprecated}",
            it.name, it.entries
        );
        plain(&text)
    };
    sheet.lines("Channels", summary.channels.iter().map(channel));
    let bundle = |it: &BundleSummary| {
        let name = it.version.as_ref().unwrap_or(&it.name);
        let mut text = format!("{name} in {}", it.channels.join(", "));
        for need in &it.needs {
            text = text + "; needs " + need;
        }
        if let Some(why) = &it.deprecated {
            text = text + "; deprecated: " + why;
        }
        plain(&text)
    };
    sheet.lines("Bundles", summary.bundles.iter().map(bundle));
    sheet
}

/// What a catalog says about a package, its image left aside: `kubectl olm show`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Known<'a> {
    /// The catalog.
    catalog: &'a str,
    #[serde(flatten)]
    summary: Summary,
    /// What only the image says, where that could not be pulled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<Unknown>,
}

/// Returns what a catalog knows of a package, for programs.
pub(crate) fn document(catalog: &str, summary: Summary) -> Known<'_> {
    Known {
        catalog,
        summary,
        unknown: Vec::new(),
    }
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
    writeln!(
        out,
        "\nConfiguration (`--schema` prints it as a JSON Schema):\n"
    )?;
    keys(schema).write(out)?;
    writeln!(out, "\nExample:\n")?;
    write_yaml(out, &json!({ "spec": { "config": example } }))
}

/// Lists the keys of the configuration with their types.
fn keys(schema: &Value) -> Table {
    let mut table = Table::new(&["KEY", "TYPE"]);
    let properties = |schema: &Value| {
        schema["properties"]
            .as_object()
            .cloned()
            .unwrap_or_default()
    };
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
        let name = reference.rsplit('/').next().unwrap_or_default();
        return name.to_owned();
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
