//! `kubectl olm migrate from-classic`: what the Subscriptions of OLM Classic become. With `--apply` they
//! are moved, which is in `migrate`.
//!
//! Source: plugin.md 3.

use std::io::{IsTerminal as _, Read as _};

use olm_api::keys::label::COPIED_FROM;
use olm_core::classic::{Answer, Carried, Classic, GROUP, KINDS, Migration, PROXY};
use olm_core::error::shell_word;

use crate::commands::prelude::*;
use crate::commands::render::print;
use crate::workloads::list;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct FromClassicArgs {
    /// Names of Subscriptions; by default all of them
    #[arg(value_name = "SUBSCRIPTION")]
    pub(super) subscriptions: Vec<String>,
    /// Read objects from a file instead of the cluster, from standard input with "-"; repeatable
    #[arg(short, long, value_name = "FILE|-", conflicts_with = "namespace")]
    filename: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) place: InNamespace,
    /// Report how each field is converted; the default on a terminal
    #[arg(long, conflicts_with_all = ["print", "follow"])]
    report: bool,
    /// Print the objects and the steps, even on a terminal
    #[arg(long)]
    print: bool,
    /// Print the final extensions, which follow their channel; with --apply, let them follow it
    #[arg(long)]
    pub(super) follow: bool,
    /// Move running operators: check, back up, hand over, and detach them from OLM Classic
    #[arg(long, conflicts_with_all = ["filename", "report", "print"])]
    apply: bool,
    /// Move every Subscription that is ready
    #[arg(long, requires = "apply", conflicts_with = "subscriptions")]
    pub(super) all: bool,
    /// Backup of everything that is changed or deleted; written first
    #[arg(long, requires = "apply", value_name = "FILE", default_value = BACKUP)]
    pub(super) backup: PathBuf,
    #[command(flatten)]
    on: OnCluster,
    #[command(flatten)]
    pub(super) confirm: Confirm,
    #[command(flatten)]
    pub(super) wait: Wait,
}

/// The default of `--backup`.
const BACKUP: &str = "olm-classic-backup.yaml";

/// Prints what becomes of Subscriptions; changes nothing.
pub(crate) async fn run(args: FromClassicArgs, global: &Global, out: &mut dyn Write) -> Ended {
    if args.apply {
        return apply(&args, global, out).await;
    }
    if args.confirm.rehearsal.output.is_some() {
        return usage("-o belongs to --apply");
    }
    if args.confirm.yes || args.confirm.rehearsal.of(global).dry_run.is_some() {
        return usage("--yes and --dry-run belong to --apply");
    }
    let (objects, unread) = if args.filename.is_empty() {
        let client = Cluster::client(global).await?;
        from_cluster(&client, args.place.namespace.as_deref()).await
    } else {
        let files = from_files(&args.filename).map_err(|error| Failure {
            text: one_line(&error),
            hint: None,
            outcome: Outcome::Unknown,
        });
        (files?, Vec::new())
    };
    for (_, why) in &unread {
        notice(&format!("warning: {why}"));
    }
    let found = || objects.iter().filter(|it| it.kind() == "Subscription");
    if unread.iter().all(|(kind, _)| *kind != "Subscription") {
        if found().next().is_none() {
            let others = objects.iter().any(|it| it.group() == GROUP);
            anyhow::ensure!(others && args.subscriptions.is_empty(), "no Subscriptions found");
            notice("note: no Subscriptions found");
        }
        if let Some(name) =
            args.subscriptions.iter().find(|name| found().all(|it| it.name() != **name))
        {
            bail!("there is no Subscription {name:?}");
        }
    }
    let mut answer = Classic::new(&objects).convert(&args.subscriptions);
    answer.migrations.retain(|migration| migration.is_decided);
    let on_terminal = std::io::stdout().is_terminal();
    if args.report || (on_terminal && !args.print && !args.follow) {
        report(&answer).write(out)?;
    } else if args.follow {
        let follow = answer.migrations.iter().filter_map(|it| it.follow.clone());
        print(follow.collect(), Format::Yaml, out)?;
    } else {
        stream(&answer, out)?;
    }
    Ok(if unread.is_empty() { Outcome::of(!answer.is_whole(), false) } else { Outcome::Unknown })
}

/// Moves Subscriptions.
async fn apply(args: &FromClassicArgs, global: &Global, out: &mut dyn Write) -> Ended {
    if args.subscriptions.is_empty() && !args.all {
        return usage("--apply moves named Subscriptions, or --all of them");
    }
    let global = &args.confirm.rehearsal.of(global);
    let cluster = args.on.connect(global).await?;
    cluster.heeds(policy::ADOPT).await?;
    let (objects, unread) = from_cluster(cluster.own_client(), None).await;
    if let Some((_, why)) = unread.into_iter().next() {
        return Err(Failure { text: why, hint: None, outcome: Outcome::Unknown }.into());
    }
    args.move_running(&cluster, objects, global, out).await
}

fn report(answer: &Answer) -> Table {
    let mut table = Table::new(&["KIND", "OBJECT", "FIELD", "CONVERTED", "RESULT"]);
    for line in &answer.lines {
        let carried = match line.carried {
            Carried::Yes => "yes",
            Carried::NotNeeded => "-",
            Carried::No => "NO",
        };
        table.row([&line.kind, &line.object, &line.field, carried, &line.text].map(plain).into());
    }
    table
}

/// Writes catalogs, accounts and extensions, and the steps as comments.
fn stream(answer: &Answer, out: &mut dyn Write) -> anyhow::Result<()> {
    for line in answer.lines.iter().filter(|line| line.carried == Carried::No) {
        let text = format!("{} {}  {}: {}", line.kind, line.object, line.field, line.text);
        writeln!(out, "# not converted: {}", plain(&text))?;
    }
    let made = answer.migrations.iter().flat_map(|one| one.account.iter().chain([&one.extension]));
    let made = answer.catalogs.iter().chain(made);
    print(made.cloned().collect(), Format::Yaml, out)?;
    for (number, step) in steps(answer).iter().enumerate() {
        writeln!(out, "# {}. {}", number + 1, plain(step))?;
    }
    Ok(())
}

/// Returns the steps in order, with the names of the objects: whoever writes a Subscription chooses what
/// stands in the commands.
fn steps(answer: &Answer) -> Vec<String> {
    let mut steps = Vec::new();
    let names: Vec<_> = answer.catalogs.iter().map(|it| shell_word(it.name())).collect();
    if !names.is_empty() {
        let names = names.join(" ");
        steps.push(format!(
            "Apply the catalogs above and wait: kubectl wait --for=condition=Serving --timeout=5m clustercatalog {names}"
        ));
    }
    for migration in &answer.migrations {
        steps.push(rights(migration));
        let subscription = &migration.subscription;
        let [namespace, name] = [subscription.namespace(), subscription.name()].map(shell_word);
        let csv = match subscription.text_at("/status/installedCSV") {
            "" => String::new(),
            csv => {
                format!(
                    " && kubectl delete clusterserviceversion -n {namespace} {}",
                    shell_word(csv)
                )
            }
        };
        steps.push(format!(
            "Stop the operator of Classic; CRDs and their objects stay: kubectl delete \
             subscription.{GROUP} -n {namespace} {name}{csv}. Where a CRD has a conversion webhook, \
             check first that its versions have the same schema, and set conversion strategy None; \
             otherwise stop here"
        ));
        let extension = shell_word(migration.extension.name());
        steps.push(format!(
            "Apply extension {extension}, which takes the CRDs over, give its account the rights that \
             its annotations need (kubectl olm rbac {extension} --apply), and wait: kubectl wait \
             --for=condition=Ready --timeout=5m clusterextension {extension}"
        ));
    }
    if answer.migrations.iter().any(|migration| migration.follow.is_some()) {
        steps.push(
            "Apply the output of kubectl olm migrate from-classic --follow from before the first \
             step, so that updates continue"
                .to_owned(),
        );
    }
    if !answer.migrations.is_empty() {
        steps.push(
            "To go back: kubectl olm delete NAME --retain-crds, and apply the Subscription again"
                .to_owned(),
        );
    }
    steps
}

/// Returns the step that gives an account its rights, or asks whether it has them.
fn rights(migration: &Migration) -> String {
    let text = |pointer: &str| migration.extension.text_at(pointer);
    let (verb, flag) = if migration.account.is_some() {
        ("Give the account exactly the rights it needs", "--apply")
    } else {
        ("Check whether the account has the rights it needs (--apply gives them)", "--check")
    };
    let mut target = format!("package:{}", text("/spec/source/catalog/packageName"));
    let version = text("/spec/source/catalog/version");
    if !version.is_empty() {
        target = format!("{target}@{version}");
    }
    let watched = match text("/spec/config/inline/watchNamespace") {
        "" => String::new(),
        namespace => format!(" --watch-namespace {}", shell_word(namespace)),
    };
    format!(
        "{verb}: kubectl olm rbac {} -n {} --service-account {}{watched} {flag}",
        shell_word(&target),
        shell_word(text("/spec/namespace")),
        shell_word(text("/spec/serviceAccount/name")),
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

/// Returns which objects of a kind are listed: of CSVs the copies, one in each watched namespace, stay
/// away.
fn selector(kind: &str) -> String {
    let is_copied = kind == "ClusterServiceVersion";
    if is_copied { format!("!{COPIED_FROM}") } else { String::new() }
}

/// Reads the objects of Classic, and says which kinds could not be read; a kind that is not served has
/// none.
async fn from_cluster(
    client: &Client,
    namespace: Option<&str>,
) -> (Vec<Object>, Vec<(&'static str, String)>) {
    let (mut objects, mut unread) = (Vec::new(), Vec::new());
    let kinds = KINDS.map(|(kind, version)| (format!("{GROUP}/{version}"), kind));
    for (api, kind) in kinds.into_iter().chain([(PROXY.0.to_owned(), PROXY.1)]) {
        // A catalog is named by Subscriptions of all namespaces; what else is left out is in none.
        let everywhere = ["CatalogSource", "OLMConfig", PROXY.1];
        let namespace = namespace.filter(|_| !everywhere.contains(&kind));
        match list(client, (&api, kind), namespace, &selector(kind)).await {
            Ok(found) => objects.extend(found),
            Err(error) => unread.push((kind, error.to_string())),
        }
    }
    (objects, unread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_csvs_are_not_read() {
        assert_eq!(selector("ClusterServiceVersion"), "!olm.copiedFrom");
        let others = KINDS.iter().filter(|(kind, ..)| *kind != "ClusterServiceVersion");
        assert!(others.map(|(kind, ..)| selector(kind)).all(|it| it.is_empty()));
    }

    // plugin.md 3
    #[test]
    fn nothing_that_a_subscription_names_is_run_by_a_shell() {
        let of = |kind: &str, spec: Value| {
            let object = json!({"apiVersion": "operators.coreos.com/v1", "kind": kind,
                "metadata": {"name": "lamp", "namespace": "light"}, "spec": spec,
                "status": {"installedCSV": "lamp.v1.0.0; id"}});
            Object::from_value(object).unwrap()
        };
        let objects = [
            of("Subscription", json!({"name": "x$(id)", "channel": "c", "startingCSV": "`id`"})),
            of("OperatorGroup", json!({"targetNamespaces": ["a;id"]})),
        ];
        let steps = steps(&Classic::new(&objects).convert(&[])).join("\n");
        for (hostile, word) in [
            ("x$(id)", "rbac 'package:x$(id)"),
            ("x$(id)", "clusterextension 'x$(id)'"),
            ("x$(id)-installer", "--service-account 'x$(id)-installer'"),
            ("a;id", "--watch-namespace 'a;id'"),
            ("lamp.v1.0.0; id", "-n light 'lamp.v1.0.0; id'"),
        ] {
            assert!(steps.contains(word), "{hostile}: {steps}");
        }
    }
}
