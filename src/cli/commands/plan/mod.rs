//! `kubectl olm plan`: what would change, and what stands in the way.
//!
//! Source: plugin.md 1.5.

mod gather;
mod text;

use olm_api::conditions::Reason;
use olm_core::error::shell_word;
use olm_core::explain::Headline;
use olm_core::plan::Plan;
use olm_core::revision::Account;
use olm_core::status::Note;

use crate::commands::install::{installer, manifest};
use crate::commands::prelude::*;
use crate::target::{about_range, filter, meant};
use crate::web;
use gather::Unresolved;
pub(crate) use gather::{back, make};
pub(crate) use text::{page, short, write as show};

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Name of the extension; or a package, and the range of versions of a new extension
    #[arg(value_name = "NAME|PACKAGE[@RANGE]", required_unless_present = "file")]
    name: Option<String>,
    /// Manifest of a new or changed extension
    #[arg(
        short,
        long = "filename",
        value_name = "FILE",
        conflicts_with_all = ["name", "namespace", "service_account"]
    )]
    file: Option<PathBuf>,
    /// Plan for this version, or range of versions
    #[arg(long, value_name = "RANGE")]
    to: Option<String>,
    /// For a package: the service account of the new extension; by default the one that `install`
    /// creates
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    #[command(flatten)]
    place: InNamespace,
    /// Show each field that changes; data of Secrets is masked
    #[arg(long)]
    diff: bool,
    #[command(flatten)]
    on: OnCluster,
    /// Output format
    #[arg(short, long, value_parser = formats(&[Format::Html]), default_value_t)]
    output: Format,
}

pub(crate) async fn run(args: PlanArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let cluster = args.on.connect(global).await?;
    let (extension, range) = match (&args.file, &args.name) {
        (Some(file), _) => (read_manifest(file)?, None),
        (None, name) => args.find(name.as_deref().unwrap_or_default(), &cluster).await?,
    };
    let is_new = args.file.is_some() || extension.uid().is_none();
    if !is_new && (args.place.namespace.is_some() || args.service_account.is_some()) {
        return usage(format!(
            "-n and --service-account are for a new extension: ClusterExtension {} exists",
            extension.name_any()
        ));
    }
    let to = args.to.or(range);
    let mut plan = explained(&cluster, &extension, to.as_deref()).await?;
    if let (Some(_), Some(said)) = (&to, &mut plan.controller) {
        // That was about another request.
        said.differs = None;
    }
    let account_comes = is_new && args.file.is_none() && args.service_account.is_none();
    if account_comes && plan.held_by.remove("rights") {
        notice("note: kubectl olm install makes the account, with the rights that it lacks");
    }
    match args.output {
        format @ (Format::Json | Format::Yaml) => plan.write(format, out)?,
        Format::Html => out.write_all(web::plan(page(&plan))?.as_bytes())?,
        _ => {
            text::write(&plan, out)?;
            if args.diff {
                text::write_fields(&plan, out)?;
            }
        }
    }
    if plan.is_empty() {
        let update = extension.status.as_ref().and_then(|status| status.update.as_ref());
        let update = update.filter(|_| to.is_none()).map(|update| format!(": {}", update.message));
        notice(&format!("note: nothing would change{}", update.unwrap_or_default()));
    }
    // Held or without effect is no; not known and nothing else in the way is not known.
    let is_no = plan.is_empty() || !plan.held_by.is_empty();
    Ok(Outcome::of(is_no, !plan.unknown.is_empty()))
}

impl PlanArgs {
    /// Finds the extension that an argument means: by its name, by its package, or the one that
    /// `install` would make of a package (plugin.md 1.2). Returns also the versions of an extension that
    /// are asked for.
    async fn find(
        &self,
        text: &str,
        cluster: &Cluster,
    ) -> anyhow::Result<(ClusterExtension, Option<String>)> {
        let (wanted, is_word) = match Target::of_extension(text, false) {
            Target::Extension(name) => return Ok((cluster.extension(&name).await?, None)),
            Target::Word(word) => match cluster.find_extension(&word).await? {
                Some(found) => return Ok((found, None)),
                None => (word, true),
            },
            Target::Package(wanted) => (wanted, false),
            Target::Bundle(place) => {
                return usage(format!(
                    "{place} is a bundle: a plan is of an extension or a package"
                ));
            }
        };
        let filter = filter(&wanted);
        let package = &filter.package_name;
        let has_it = |found: &ClusterExtension| found.package() == Some(package.as_str());
        if let Some(found) = cluster.extensions().await?.into_iter().find(has_it) {
            return Ok((found, filter.version));
        }
        let namespace = match self.place.require() {
            Err(_) if is_word => bail!(
                "there is no ClusterExtension {package:?}; to plan a new extension of package \
                 {package}, pass -n NAMESPACE"
            ),
            namespace => namespace?,
        };
        let account = Account {
            namespace: namespace.to_owned(),
            name: self.service_account.clone().unwrap_or_else(|| installer(package)),
        };
        Ok((serde_json::from_value(manifest(package, &account, &filter))?, None))
    }
}

/// Makes the plan of an extension as it would be if its spec asked for this version.
pub(crate) async fn make_to(
    cluster: &Cluster,
    extension: &ClusterExtension,
    version: &str,
) -> anyhow::Result<Plan> {
    Box::pin(make(cluster, &asked_for(extension, version)?, Some(version))).await
}

fn asked_for(extension: &ClusterExtension, version: &str) -> anyhow::Result<ClusterExtension> {
    let change = json!({
        "metadata": {"annotations": {policy::ROLLBACK_TO: null}},
        "spec": {"source": {"catalog": {"version": version}}},
    });
    edited(extension, &change)
}

/// Returns an extension as it would be.
pub(crate) fn edited(
    extension: &ClusterExtension,
    change: &Value,
) -> anyhow::Result<ClusterExtension> {
    let mut edited = serde_json::to_value(extension)?;
    json_patch::merge(&mut edited, change);
    let mut edited: ClusterExtension = serde_json::from_value(edited)?;
    // The API server counts no generation for a spec that stays the same.
    if edited.spec != extension.spec {
        edited.metadata.generation = edited.metadata.generation.map(|seen| seen + 1);
    }
    Ok(edited)
}

/// Makes the plan of an extension, for this version if one is asked for. Where there is none, the error
/// says what leads on: where no version could be chosen, a package that may be meant, or else what stands
/// in the way, or the command that shows it.
pub(crate) async fn explained(
    cluster: &Cluster,
    extension: &ClusterExtension,
    to: Option<&str>,
) -> anyhow::Result<Plan> {
    let made = match to {
        Some(version) => make_to(cluster, extension, version).await,
        None => make(cluster, extension, None).await,
    };
    let error = match made {
        Ok(plan) => return Ok(plan),
        Err(error) => error,
    };
    let near = match extension.package().filter(|_| error.is::<Unresolved>()) {
        Some(package) => meant(package, cluster).await,
        None => None,
    };
    Err(hinted(&error, extension, to, near))
}

fn hinted(
    error: &anyhow::Error,
    extension: &ClusterExtension,
    to: Option<&str>,
    near: Option<String>,
) -> anyhow::Error {
    let (name, failure) = (extension.name_any(), Failure::of(error));
    let catalog = extension.spec.as_ref().and_then(|spec| spec.source.catalog.as_ref());
    let asked = catalog.and_then(|catalog| catalog.version.as_deref());
    let form = to.or(asked).and_then(about_range);
    let to = to.map(|range| format!(" --version {}", quote(range))).unwrap_or_default();
    let command = |command| format!("to see which versions can be reached: {command}");
    // `why` is about an extension that exists.
    let way_out = error.downcast_ref::<Unresolved>().and_then(|error| match extension.uid() {
        Some(_) => Some(command(format!("kubectl olm why {name}{to}"))),
        None => error.obstacle.clone().or_else(|| {
            let package = shell_word(extension.package()?);
            Some(command(format!("kubectl olm show {package}")))
        }),
    });
    let hint = near.or(form).or(way_out).or(failure.hint);
    Failure { text: format!("{name}: {}", failure.text), hint, ..failure }.into()
}

/// Returns a hold; if it is about a version that the spec does not ask for, with the command that prints
/// the rights for that.
pub(crate) fn of_version(note: Note, version: Option<&str>) -> Headline {
    let text = match version.filter(|_| note.reason == Reason::PermissionsMissing) {
        Some(version) => {
            let flag = format!(" --missing --for-upgrade-to {} ", shell_word(version));
            note.message.replace(" --missing ", &flag)
        }
        None => note.message,
    };
    Headline { code: note.reason, text }
}

/// Reads the ClusterExtension among the documents of a file.
pub(crate) fn read_manifest(path: &Path) -> anyhow::Result<ClusterExtension> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {shown}"))?;
    let documents = yaml::to_json(&text).with_context(|| format!("reading {shown}"))?;
    let mut extensions =
        documents.into_iter().filter(|document| document["kind"] == "ClusterExtension");
    let found = extensions.next().with_context(|| format!("{shown} holds no ClusterExtension"))?;
    if extensions.next().is_some() {
        return usage(format!("{shown} holds more than one ClusterExtension"));
    }
    let read = serde_path_to_error::deserialize::<_, ClusterExtension>(&found);
    let read = read.with_context(|| format!("reading {shown}"))?;
    for field in unknown_fields(&found, &serde_json::to_value(&read)?) {
        notice(&format!("warning: {shown}: unknown field {}", quote(&field)));
    }
    Ok(read)
}

/// Returns the paths of the fields of a manifest that its kind does not have.
fn unknown_fields(given: &Value, known: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in given.as_object().into_iter().flatten() {
        // What is empty is not written again.
        let is_empty = [json!(null), json!({}), json!([])].contains(value);
        match &known[name] {
            Value::Null if is_empty => {}
            Value::Null => found.push(name.clone()),
            known => {
                let below = unknown_fields(value, known).into_iter();
                found.extend(below.map(|field| format!("{name}.{field}")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use olm_core::extension::ValidExtension;
    use olm_core::extension::holds::Judgement;

    use super::*;
    use crate::fixture::{cases, extension};

    #[test]
    fn a_field_that_the_kind_does_not_have_is_found() {
        let catalog = json!({"packageName": "p", "channel": "a", "channels": [], "version": null});
        let given = json!({"metadata": {"name": "e", "lable": {"a": "b"}}, "spec": {
            "namespace": "n", "installPlanApproval": "Manual",
            "config": {"configType": "Inline", "inline": {"any": {"thing": 1}}},
            "source": {"sourceType": "Catalog", "catalog": catalog}}});
        let read: ClusterExtension = serde_json::from_value(given.clone()).unwrap();
        let mut found = unknown_fields(&given, &serde_json::to_value(&read).unwrap());
        found.sort();
        let want = ["metadata.lable", "spec.installPlanApproval", "spec.source.catalog.channel"];
        assert_eq!(found, want);
    }

    // plugin.md 1.4, 1.5: what would be is planned before it is written
    #[test]
    fn an_edit_is_planned_as_if_it_were_written() {
        let metadata = json!({"generation": 1, "annotations": {policy::ROLLBACK_TO: "1"}});
        let pinned = json!({"source": {"catalog": {"version": "1.0.0"}}});
        let extension = extension(&json!({"metadata": metadata, "spec": pinned}));
        let annotations = json!({"metadata": {"annotations": {"a": "1", "b": null}}});
        let noted = edited(&extension, &annotations).unwrap();
        assert_eq!(noted.metadata.generation, Some(1));
        let noted = noted.annotations().keys().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(noted, ["a", policy::ROLLBACK_TO]);
        for (version, generation) in [("1.0.0", 1), ("2.0.0", 2)] {
            let moved = asked_for(&extension, version).unwrap();
            assert_eq!(moved.metadata.generation, Some(generation));
            assert!(moved.annotations().is_empty());
            let filter = &ValidExtension::of(&moved).unwrap().filter;
            let asked = (filter.package_name.as_str(), filter.version.as_deref());
            assert_eq!(asked, ("p", Some(version)));
        }
    }

    #[test]
    fn rights_are_printed_for_the_version_that_is_asked_about() {
        let account = Account { namespace: "n".to_owned(), name: "a".to_owned() };
        for (version, want) in [
            (None, "kubectl olm rbac e --missing prints them"),
            (Some("1.1.0"), "kubectl olm rbac e --missing --for-upgrade-to 1.1.0 prints them"),
        ] {
            let message = Judgement::default().advice("e", &account, "1.1.0");
            let hold = of_version(Note { reason: Reason::PermissionsMissing, message }, version);
            assert!(hold.text.contains(want), "{}", hold.text);
        }
    }

    #[test]
    fn a_command_about_versions_is_named_where_it_works() {
        type Case = (Option<String>, Option<String>, bool, Option<String>);
        for (name, case) in cases::<Case>("a_command_about_versions_is_named_where_it_works") {
            let (uid, to, is_unresolved, want) = case;
            let extension = extension(&json!({"metadata": {"uid": uid}}));
            let none = Unresolved::of(std::fmt::Error, None);
            let error = if is_unresolved { none.into() } else { anyhow::anyhow!("down") };
            let hint = Failure::of(&hinted(&error, &extension, to.as_deref(), None)).hint;
            let want = want.map(|it| format!("to see which versions can be reached: {it}"));
            assert_eq!(hint, want, "{name}");
        }
    }
}
