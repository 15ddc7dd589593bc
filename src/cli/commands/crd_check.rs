//! `kubectl olm crd check`: whether custom resource definitions may follow others.
//!
//! The rules are those of the controller. Source: applying.md 6.

use std::fs;

use olm_cluster::{Unread, crds, judged};
use olm_core::bundle::Files;
use olm_core::crd_safety::{
    Definition, Evidence, Finding, Rules, SchemaPlace, compare, error_text, first,
};
use olm_core::object::items;

use crate::commands::prelude::*;
use crate::output::{write_json, write_yaml};
use crate::target::Source;

/// The word for the CRDs on the cluster.
const CLUSTER: &str = "cluster";
/// Most objects of a CRD that are judged.
const JUDGED: usize = 5000;

#[derive(Debug, Args)]
pub(crate) struct CrdCheckArgs {
    /// Present CRDs: `cluster`, a YAML or JSON file with CRDs, or a bundle: the directory of an
    /// unpacked one, the reference of an image, `PACKAGE[@VERSION]`, or what an extension has
    #[arg(value_name = "cluster|FILE|TARGET")]
    old: String,
    /// New CRDs; of an extension, those that it would get
    #[arg(value_name = "FILE|TARGET")]
    new: String,
    #[command(flatten)]
    lookup: Lookup,
    /// Judge exactly as upstream does: even changes that cannot make a stored object invalid
    /// are findings
    #[arg(long)]
    crd_safety_compat: bool,
    /// Output format
    #[arg(short, long, value_parser = formats(&[]), default_value_t)]
    output: Format,
}

/// The verdict about a CRD.
struct Verdict {
    name: String,
    findings: Vec<Finding>,
    /// The action that is needed before the API server accepts it.
    first: Option<String>,
    /// Evidence of its objects on a cluster about the findings.
    objects: Option<Evidence>,
}

/// Returns what an argument means; nothing where it is a file with CRDs.
fn target(text: &str, lookup: &Lookup) -> Option<Target> {
    let file = Path::new(text);
    // A pipe is neither a regular file nor a directory.
    let is_file = file.exists() && !file.is_dir();
    (!is_file).then(|| lookup.target(text))
}

/// Compares; findings end the program with 1.
pub(crate) async fn run(args: CrdCheckArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let lookup = &args.lookup;
    if args.new == CLUSTER {
        return usage(
            "the second argument must be a bundle or a file: `cluster` can only be the first",
        );
    }
    let is_live = args.old == CLUSTER;
    let (old, new) = (target(&args.old, lookup), target(&args.new, lookup));
    let asks = [&old, &new].into_iter().flatten().any(|it| lookup.asks_cluster(it));
    let cluster = if is_live || asks { Some(args.lookup.on.connect(global).await?) } else { None };
    let sources = (lookup, cluster.as_ref());
    let new = definitions((new, &args.new), sources, <[Source]>::last).await?;
    let old = match &cluster {
        Some(cluster) if is_live => {
            live(cluster.own_client(), new.keys().cloned().collect()).await?
        }
        _ => definitions((old, &args.old), sources, <[Source]>::first).await?,
    };
    let rules = if args.crd_safety_compat { Rules::Upstream } else { Rules::Loosenings };
    let mut verdicts = Vec::new();
    for (name, new) in new {
        let mut verdict = Verdict { name, findings: Vec::new(), first: None, objects: None };
        if let Some(old) = old.get(&verdict.name) {
            // Objects that nobody can ask for are stored in the version that the CRD stores.
            let (old, new) = (Definition::of(old), Definition::of(&new));
            let old = if rules == Rules::Upstream { old } else { old.written() };
            verdict.findings = compare(&old, &new, rules);
            verdict.first = first(&old, &new, &verdict.findings);
        }
        if let (Some(cluster), false) = (&cluster, verdict.findings.is_empty()) {
            let client = cluster.own_client();
            let there = live(client, vec![verdict.name.clone()]).await?;
            if let (Some(crd), Some(new)) = (there.get(&verdict.name), Object::from_value(new)) {
                verdict.objects = Some(judged(client, (crd, &new), JUDGED).await);
            }
        }
        verdicts.push(verdict);
    }
    match args.output {
        Format::Json => write_json(out, &as_json(&verdicts))?,
        Format::Yaml => write_yaml(out, &as_json(&verdicts))?,
        _ => write(&verdicts, out)?,
    }
    for advice in verdicts.iter().filter_map(|verdict| verdict.first.as_ref()) {
        notice(&format!("hint: {advice}"));
    }
    let safe = verdicts.iter().all(|verdict| verdict.findings.is_empty());
    Ok(if safe { Outcome::Done } else { Outcome::Failed })
}

fn write(verdicts: &[Verdict], out: &mut dyn Write) -> anyhow::Result<()> {
    for verdict in verdicts {
        let Verdict { name, findings, objects, .. } = verdict;
        match findings.len() {
            0 => writeln!(out, "{name}: ok")?,
            count => writeln!(out, "{name}: {}", counted(count, "finding"))?,
        }
        for finding in findings {
            writeln!(out, "  {finding}")?;
        }
        if let Some(objects) = objects {
            writeln!(out, "  on the cluster: {objects}")?;
        }
    }
    Ok(())
}

fn as_json(verdicts: &[Verdict]) -> Value {
    let crds = verdicts.iter().map(|verdict| {
        let Verdict { name, findings, .. } = verdict;
        let mut members = json!({
            "crd": name,
            "ok": findings.is_empty(),
            "error": error_text(name, findings, usize::MAX),
            "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        });
        if let Some(found) = &verdict.objects {
            members["objects"] = objects(found);
        }
        members
    });
    json!({ "crds": crds.collect::<Vec<_>>() })
}

fn finding(finding: &Finding) -> Value {
    let check: &str = finding.check.into();
    let mut members = json!({ "check": check, "text": finding.text });
    if let SchemaPlace::Schema { versions, path } = &finding.place {
        members["versions"] = json!(versions);
        members["path"] = json!(path);
    }
    members
}

fn objects(found: &Evidence) -> Value {
    match found {
        Evidence::Known { count, judged, invalid, written, .. } => {
            let invalid =
                invalid.iter().map(|(object, why)| json!({ "object": object, "why": why }));
            json!({ "count": count, "judged": judged, "invalid": invalid.collect::<Vec<_>>(),
                "writtenIn": written })
        }
        Evidence::Unknown(why) => json!({ "unknown": why }),
    }
}

/// Reads the CRDs of a bundle or a file, by name; of several bundles, of the one that `which` names.
async fn definitions(
    (target, text): (Option<Target>, &str),
    (lookup, cluster): (&Lookup, Option<&Cluster>),
    which: fn(&[Source]) -> Option<&Source>,
) -> anyhow::Result<BTreeMap<String, Value>> {
    let is_file = target.is_none();
    let mut texts: Files = match target {
        None => {
            let read = fs::read(text).with_context(|| format!("reading {text}"))?;
            Files::from([(text.to_owned(), read)])
        }
        // Its CRDs count whatever else it lacks.
        Some(Target::Bundle(place)) => load_files(&place).await?,
        Some(target) => {
            let loaded = load(&[target], lookup, cluster, None).await?;
            let source = which(&loaded.sources).with_context(|| format!("{text} has no bundle"))?;
            source.files.clone()
        }
    };
    if !is_file {
        texts.retain(|name, _| name.starts_with("manifests/"));
    }
    let mut found = Found::default();
    for (name, text) in texts {
        let documents = yaml::to_json(&String::from_utf8_lossy(&text));
        for document in documents.with_context(|| format!("reading {name}"))? {
            found.collect(document);
        }
    }
    if found.crds.is_empty() {
        anyhow::bail!("{text} holds no CustomResourceDefinition of apiextensions.k8s.io/v1");
    }
    Ok(found.into_rendered())
}

/// What the manifests of a side hold.
#[derive(Default)]
struct Found {
    /// CRDs by name.
    crds: BTreeMap<String, Value>,
    /// Names of the CRDs that a ClusterServiceVersion has a conversion webhook for.
    converted: Vec<String>,
}

impl Found {
    /// Adds what a document holds, or the list that it is.
    fn collect(&mut self, mut document: Value) {
        if let Some(Value::Array(items)) = document.get_mut("items").map(Value::take) {
            for item in items {
                self.collect(item);
            }
        } else if document["kind"] == "CustomResourceDefinition"
            && document["apiVersion"] == "apiextensions.k8s.io/v1"
        {
            let name = document["metadata"]["name"].as_str().unwrap_or_default();
            self.crds.insert(name.to_owned(), document);
        } else if document["kind"] == "ClusterServiceVersion" {
            let webhooks = items(&document["spec"]["webhookdefinitions"]);
            let converting = webhooks.filter(|webhook| webhook["type"] == "ConversionWebhook");
            let names = converting.flat_map(|webhook| items(&webhook["conversionCRDs"]));
            self.converted.extend(names.filter_map(Value::as_str).map(str::to_owned));
        }
    }

    /// Returns the CRDs as far as rendering changes what is judged.
    fn into_rendered(self) -> BTreeMap<String, Value> {
        let Self { mut crds, converted } = self;
        for name in converted {
            if let Some(Value::Object(spec)) = crds.get_mut(&name).and_then(|it| it.get_mut("spec"))
            {
                spec.insert("conversion".to_owned(), json!({"strategy": "Webhook"}));
            }
        }
        crds
    }
}

/// Reads CRDs of the cluster; those that are not there are left out.
async fn live(client: &Client, names: Vec<String>) -> anyhow::Result<BTreeMap<String, Value>> {
    crds(client, names).await.map_err(unread)
}

/// Returns the error of a CRD that cannot be read.
pub(crate) fn unread(Unread(name, cause): Unread) -> anyhow::Error {
    anyhow::Error::from(cause).context(format!("reading CRD {name}"))
}
