//! `kubectl olm crd-check`: whether custom resource definitions may follow others.
//!
//! The rules are those of the controller. Source: applying.md 6.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::discovery::ApiResource;
use olm_core::crd_safety::{Definition, Finding, Place, Rules, compare, error_text};
use olm_core::yaml;
use serde_json::{Value, json};

use crate::bundle_source::load_files;
use crate::cluster::Cluster;
use crate::connection::Global;
use crate::output::{Format, Outcome, UsageError, write_json, write_yaml};

/// The word for the CRDs on the cluster.
const CLUSTER: &str = "cluster";

/// Flags of `crd-check`.
#[derive(Debug, Args)]
pub(crate) struct CrdCheckArgs {
    /// What is there: `cluster`, the directory of an unpacked bundle, a YAML or JSON file with CRDs,
    /// or the reference of a bundle image
    #[arg(value_name = "cluster|BUNDLE_DIR|FILE|IMAGE")]
    old: String,
    /// What is to follow
    #[arg(value_name = "BUNDLE_DIR|FILE|IMAGE")]
    new: String,
    /// Judge exactly as upstream does: also changes that can make no stored object invalid are
    /// findings
    #[arg(long)]
    crd_safety_compat: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// The verdict about a CRD.
struct Verdict {
    name: String,
    findings: Vec<Finding>,
}

/// Compares; findings end the program with 1.
pub(crate) async fn run(
    args: CrdCheckArgs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    if args.new == CLUSTER {
        let text = "what is to follow is a bundle or a file: `cluster` can only stand first";
        return Err(UsageError(text.to_owned()).into());
    }
    let new = definitions(&args.new).await?;
    let old = if args.old == CLUSTER {
        live(&Cluster::client(global).await?, new.keys()).await?
    } else {
        definitions(&args.old).await?
    };
    let rules = if args.crd_safety_compat {
        Rules::Upstream
    } else {
        Rules::Loosenings
    };
    let verdicts = new.iter().map(|(name, new)| Verdict {
        name: name.clone(),
        findings: old.get(name).map_or_else(Vec::new, |old| {
            compare(&Definition::of(old), &Definition::of(new), rules)
        }),
    });
    let verdicts: Vec<_> = verdicts.collect();
    match args.output {
        Format::Table => write(&verdicts, out)?,
        Format::Json => write_json(out, &as_json(&verdicts))?,
        Format::Yaml => write_yaml(out, &as_json(&verdicts))?,
    }
    let safe = verdicts.iter().all(|verdict| verdict.findings.is_empty());
    Ok(if safe { Outcome::Done } else { Outcome::Failed })
}

fn write(verdicts: &[Verdict], out: &mut dyn Write) -> anyhow::Result<()> {
    for Verdict { name, findings } in verdicts {
        match findings.len() {
            0 => writeln!(out, "{name}: ok")?,
            1 => writeln!(out, "{name}: 1 finding")?,
            count => writeln!(out, "{name}: {count} findings")?,
        }
        for finding in findings {
            writeln!(out, "  {finding}")?;
        }
    }
    Ok(())
}

fn as_json(verdicts: &[Verdict]) -> Value {
    let crds = verdicts.iter().map(|Verdict { name, findings }| {
        json!({
            "crd": name,
            "ok": findings.is_empty(),
            "error": error_text(name, findings, usize::MAX),
            "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        })
    });
    json!({ "crds": crds.collect::<Vec<_>>() })
}

fn finding(finding: &Finding) -> Value {
    let check: &str = finding.check.into();
    let mut members = json!({ "check": check, "text": finding.text });
    if let Place::Schema { versions, path } = &finding.place {
        members["versions"] = json!(versions);
        members["path"] = json!(path);
    }
    members
}

/// Reads the CRDs of a bundle or a file, by name.
async fn definitions(source: &str) -> anyhow::Result<BTreeMap<String, Value>> {
    let texts: Vec<(String, Vec<u8>)> = if Path::new(source).is_file() {
        let text = fs::read(source).with_context(|| format!("reading {source}"))?;
        vec![(source.to_owned(), text)]
    } else {
        let files = load_files(source).await?.into_iter();
        files
            .filter(|(name, _)| name.starts_with("manifests/"))
            .collect()
    };
    let mut found = BTreeMap::new();
    for (name, text) in texts {
        let documents = yaml::to_json(&String::from_utf8_lossy(&text));
        for document in documents.with_context(|| format!("reading {name}"))? {
            collect(document, &mut found);
        }
    }
    if found.is_empty() {
        anyhow::bail!("{source} holds no CustomResourceDefinition of apiextensions.k8s.io/v1");
    }
    Ok(found)
}

/// Adds the CRDs of a document, or of the list that it is.
fn collect(mut document: Value, found: &mut BTreeMap<String, Value>) {
    if let Some(Value::Array(items)) = document.get_mut("items").map(Value::take) {
        for item in items {
            collect(item, found);
        }
    } else if document["kind"] == "CustomResourceDefinition"
        && document["apiVersion"] == "apiextensions.k8s.io/v1"
    {
        let name = document["metadata"]["name"].as_str().unwrap_or_default();
        found.insert(name.to_owned(), document);
    }
}

/// Reads CRDs of the cluster; those that are not there are left out.
pub(crate) async fn live(
    client: &Client,
    names: impl Iterator<Item = &String>,
) -> anyhow::Result<BTreeMap<String, Value>> {
    let kind = ApiResource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
    };
    let api = Api::<DynamicObject>::all_with(client.clone(), &kind);
    let mut found = BTreeMap::new();
    for name in names {
        let crd = api.get_opt(name).await;
        if let Some(crd) = crd.with_context(|| format!("reading CRD {name}"))? {
            found.insert(name.clone(), serde_json::to_value(crd)?);
        }
    }
    Ok(found)
}
