//! `kubectl olm migrate from-classic`: what the Subscriptions of OLM Classic become. With `--apply` they
//! are moved, which is in `migrate`.
//!
//! Source: plugin.md 3.

use std::io::{IsTerminal as _, Read as _, Write};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use kube::Client;
use olm_core::classic::{Answer, Carried, Classic, GROUP, KINDS, Migration, PROXY};
use olm_core::object::Object;
use olm_core::yaml;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::commands::migrate::Moving;
use crate::connection::Global;
use crate::graph::plain;
use crate::managed::failure;
use crate::output::{Hinted, Outcome, Table, UsageError, notice, one_line};
use crate::verb::{Confirm, InNamespace, OnCluster, Wait};

/// Flags of `migrate from-classic`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct FromClassicArgs {
    /// Names of Subscriptions; by default all of them
    #[arg(value_name = "SUBSCRIPTION")]
    subscriptions: Vec<String>,
    /// Read objects from a file instead of the cluster, from standard input with "-"; repeatable
    #[arg(short, long, value_name = "FILE|-")]
    filename: Vec<PathBuf>,
    #[command(flatten)]
    place: InNamespace,
    /// Report how each field is converted; on a terminal the default
    #[arg(long, conflicts_with_all = ["print", "follow"])]
    report: bool,
    /// Print the objects and the steps, on a terminal too
    #[arg(long)]
    print: bool,
    /// Print the final extensions, which are not pinned to a version; with --apply make them so
    #[arg(long)]
    follow: bool,
    /// Move running operators: check, back up, hand over, and detach them from OLM Classic
    #[arg(long, conflicts_with_all = ["filename", "report", "print"])]
    apply: bool,
    /// Move every Subscription that is ready
    #[arg(long, requires = "apply", conflicts_with = "subscriptions")]
    all: bool,
    /// File for what is changed or deleted; written before anything else
    #[arg(long, requires = "apply", value_name = "FILE", default_value = BACKUP)]
    backup: PathBuf,
    #[command(flatten)]
    on: OnCluster,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    wait: Wait,
}

/// The default of `--backup`.
const BACKUP: &str = "olm-classic-backup.yaml";

/// Prints what becomes of Subscriptions; changes nothing.
pub(crate) async fn run(
    args: FromClassicArgs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    if args.apply {
        return apply(args, global, out).await;
    }
    if args.confirm.yes || args.confirm.rehearsal.of(global).dry_run.is_some() {
        return Err(UsageError("--yes and --dry-run belong to --apply".to_owned()).into());
    }
    let (objects, unread) = if args.filename.is_empty() {
        let client = Cluster::client(global).await?;
        from_cluster(&client, args.place.namespace.as_deref()).await?
    } else {
        let files = from_files(&args.filename).map_err(|error| Hinted {
            text: one_line(&error),
            hint: None,
            outcome: Outcome::Unknown,
        });
        (files?, Vec::new())
    };
    if unread.is_empty() && objects.iter().all(|it| it.kind() != "Subscription") {
        anyhow::bail!("no Subscriptions found");
    }
    let mut answer = Classic::new(&objects).convert(&args.subscriptions);
    for name in &args.subscriptions {
        let mut found = objects.iter().filter(|it| it.kind() == "Subscription");
        if found.all(|it| it.name() != name) {
            anyhow::bail!("there is no Subscription {name:?}");
        }
    }
    answer.migrations.retain(|migration| migration.is_decided);
    let on_terminal = std::io::stdout().is_terminal();
    if args.report || (on_terminal && !args.print && !args.follow) {
        report(&answer).write(out)?;
    } else if args.follow {
        let follow = answer.migrations.iter().filter_map(|it| it.follow.as_ref());
        write_stream(follow, out)?;
    } else {
        stream(&answer, out)?;
    }
    for why in &unread {
        notice(&format!("warning: {why}"));
    }
    Ok(if !unread.is_empty() {
        Outcome::Unknown
    } else if answer.is_whole() {
        Outcome::Done
    } else {
        Outcome::Failed
    })
}

/// Moves Subscriptions.
async fn apply(
    args: FromClassicArgs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    if args.subscriptions.is_empty() && !args.all {
        let text = "--apply moves named Subscriptions, or --all of them";
        return Err(UsageError(text.to_owned()).into());
    }
    let global = &args.confirm.rehearsal.of(global);
    let cluster = args.on.connect(global).await?;
    let (objects, unread) = from_cluster(cluster.own_client(), None).await?;
    if let Some(why) = unread.first() {
        anyhow::bail!("{why}");
    }
    let moving = Moving {
        names: args.subscriptions,
        namespace: args.place.namespace,
        backup: args.backup,
        follow: args.follow,
        confirm: args.confirm,
        wait: args.wait,
    };
    moving.run(&cluster, objects, global, out).await
}

fn report(answer: &Answer) -> Table {
    let mut table = Table::new(&["KIND", "OBJECT", "FIELD", "CARRIED", "WHAT BECOMES OF IT"]);
    for line in &answer.lines {
        let carried = match line.carried {
            Carried::Yes => "yes",
            Carried::NotNeeded => "-",
            Carried::No => "NO",
        };
        let cells = [line.kind, &line.object, &line.field, carried, &line.text];
        table.row(cells.map(plain).into());
    }
    table
}

/// Writes catalogs, accounts and extensions, and the steps as comments.
fn stream(answer: &Answer, out: &mut dyn Write) -> anyhow::Result<()> {
    for line in answer.lines.iter().filter(|line| line.carried == Carried::No) {
        let text = format!("{} {}  {}: {}", line.kind, line.object, line.field, line.text);
        writeln!(out, "# not carried: {}", plain(&text))?;
    }
    let made = answer
        .migrations
        .iter()
        .flat_map(|migration| migration.account.iter().chain([&migration.extension]));
    write_stream(answer.catalogs.iter().chain(made), out)?;
    for (number, step) in steps(answer).iter().enumerate() {
        writeln!(out, "# {}. {}", number + 1, plain(step))?;
    }
    Ok(())
}

fn write_stream<'a>(
    objects: impl Iterator<Item = &'a Object>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let objects: Vec<Value> = objects.cloned().map(Object::into_value).collect();
    out.write_all(yaml::to_yaml_stream(&objects).as_bytes())?;
    Ok(())
}

/// Returns what is to be done, in its order, with the names of the objects.
fn steps(answer: &Answer) -> Vec<String> {
    let mut steps = Vec::new();
    let names: Vec<_> = answer.catalogs.iter().map(Object::name).collect();
    if !names.is_empty() {
        let names = names.join(" ");
        steps.push(format!(
            "Apply the catalogs above and wait: kubectl wait --for=condition=Serving clustercatalog {names}"
        ));
    }
    for migration in &answer.migrations {
        steps.push(rights(migration));
        let (namespace, name) = &migration.subscription;
        let csv = migration
            .csv
            .as_ref()
            .map(|csv| format!(" && kubectl delete clusterserviceversion -n {namespace} {csv}"));
        steps.push(format!(
            "Stop the operator of Classic; CRDs and their objects stay: kubectl delete \
             subscription.{GROUP} -n {namespace} {name}{}. Where a CRD has a conversion webhook, \
             check first that its versions have the same schema, and set conversion strategy None; \
             else stop here",
            csv.unwrap_or_default()
        ));
        let extension = migration.extension.name();
        steps.push(format!(
            "Apply extension {extension}, which takes the CRDs over, give its account the rights that \
             its annotations need (kubectl olm rbac {extension} --apply), and wait: kubectl wait \
             --for=condition=Ready clusterextension {extension}"
        ));
    }
    if answer.migrations.iter().any(|migration| migration.follow.is_some()) {
        steps.push(
            "Apply what kubectl olm migrate from-classic --follow printed before the first step: updates \
             continue"
                .to_owned(),
        );
    }
    steps.push(
        "The way back: kubectl olm delete NAME --retain-crds, and apply the Subscription again"
            .to_owned(),
    );
    steps
}

/// Returns the step that gives an account its rights, or asks whether it has them.
fn rights(migration: &Migration) -> String {
    let extension = &migration.extension;
    let text = |pointer: &str| {
        extension.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let version = text("/spec/source/catalog/version");
    let at = if version.is_empty() { "" } else { "@" };
    let verb = if migration.account.is_some() {
        "Give the account exactly the rights it takes"
    } else {
        "Ask whether the account has the rights it takes (--apply gives them)"
    };
    let flag = if migration.account.is_some() { "--apply" } else { "--check" };
    format!(
        "{verb}: kubectl olm rbac package:{}{at}{version} -n {} --service-account {} {flag}",
        text("/spec/source/catalog/packageName"),
        text("/spec/namespace"),
        text("/spec/serviceAccount/name"),
    )
}

fn from_files(files: &[PathBuf]) -> anyhow::Result<Vec<Object>> {
    let mut objects = Vec::new();
    for file in files {
        let shown = file.display();
        let text = if file.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        } else {
            std::fs::read_to_string(file).with_context(|| shown.to_string())?
        };
        for document in yaml::to_json(&text).with_context(|| shown.to_string())? {
            let items = match document["items"].as_array() {
                Some(items) => items.clone(),
                None => vec![document],
            };
            for item in items {
                let object = Object::from_value(item);
                objects.push(object.with_context(|| format!("{shown} holds no object"))?);
            }
        }
    }
    Ok(objects)
}

/// Reads the objects of Classic, and says which kinds could not be read; a kind that is not served has
/// none.
async fn from_cluster(
    client: &Client,
    namespace: Option<&str>,
) -> anyhow::Result<(Vec<Object>, Vec<String>)> {
    let (mut objects, mut unread) = (Vec::new(), Vec::new());
    let kinds = KINDS.map(|(kind, version, plural)| (format!("{GROUP}/{version}"), kind, plural));
    let (api, kind, plural) = PROXY;
    for (api, kind, plural) in kinds.into_iter().chain([(api.to_owned(), kind, plural)]) {
        // A catalog is named by Subscriptions of all namespaces; proxies are in none.
        let place = match namespace.filter(|_| !["CatalogSource", PROXY.1].contains(&kind)) {
            Some(namespace) => format!("namespaces/{namespace}/"),
            None => String::new(),
        };
        let path = format!("/apis/{api}/{place}{plural}");
        let request = http::Request::get(path).body(Vec::new())?;
        match client.request::<Value>(request).await {
            Ok(list) => {
                let items = list["items"].as_array().into_iter().flatten();
                objects.extend(items.filter_map(|item| {
                    let mut item = item.clone();
                    item["apiVersion"] = Value::from(api.clone());
                    item["kind"] = Value::from(kind);
                    Object::from_value(item)
                }));
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => unread.push(format!("{plural} could not be read: {}", failure(&error))),
        }
    }
    Ok((objects, unread))
}
