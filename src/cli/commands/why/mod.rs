//! `kubectl olm why`: why a ClusterExtension gets the bundle it gets, or none, and what would lead
//! to another version.
//!
//! The request comes from an extension on a cluster, from a manifest, or from flags; the answer is
//! a report by the code that resolves.

mod text;

use olm_api::UpgradeConstraintPolicy;
use olm_api::conditions::Reason;
use olm_core::error::shell_word;
use olm_core::explain::{Headline, Report, explain};
use olm_core::extension::{self, KnownCatalog, Question, said};
use olm_core::resolve::{Catalog, Environment, Options, UpdatePolicy};
use olm_core::status::{Note, Said};

use crate::commands::plan;
use crate::commands::prelude::*;
use crate::environment::{EnvironmentFlags, resolving};
use crate::offers::Named;
use crate::target::{HIGHEST, about_range, filter, meant};
use crate::verb::{self, words};

/// Flags of `why`.
#[derive(Debug, Args)]
#[command(override_usage = "kubectl olm why NAME [VERSION]\n       \
                      kubectl olm why PACKAGE --from PATH [--installed NAME@VERSION] [VERSION]\n       \
                      kubectl olm why -f FILE --from PATH [--installed NAME@VERSION] [VERSION]")]
pub(crate) struct WhyArgs {
    /// Name of a ClusterExtension of the cluster, or with `--from` of a package, unless `--package`
    /// or `-f` is given; then the version, or the bundle, to explain in detail
    #[arg(value_name = "NAME|VERSION", num_args = 0..=2, value_parser = verb::extension())]
    words: Vec<String>,
    /// Name of the package, instead of a ClusterExtension
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    package: Option<String>,
    /// Manifest of a ClusterExtension, instead of one on the cluster
    #[arg(short, long = "filename", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Ask for this version range instead
    #[arg(long = "version", value_name = "RANGE")]
    range: Option<String>,
    /// Ask for this channel instead; may be repeated
    #[arg(long = "channel", value_name = "NAME")]
    channels: Vec<String>,
    /// Upgrade constraint policy: require a successor of the installed bundle, or not
    #[arg(long, value_parser = words::<UpgradeConstraintPolicy>(), value_name = "POLICY")]
    policy: Option<UpgradeConstraintPolicy>,
    /// Scope of automatic updates
    #[arg(long, value_name = "None|PatchOnly|MinorOnly|Any")]
    upgrade_policy: Option<UpdatePolicy>,
    #[command(flatten)]
    environment: EnvironmentFlags,
    /// Show every bundle
    #[arg(long)]
    all: bool,
    /// Output format
    #[arg(short, long, value_parser = formats(&[]), default_value_t)]
    output: Format,
    #[command(flatten)]
    lookup: Lookup,
}

/// Everything a report is made of but the catalogs.
struct Inquiry {
    extension: Option<String>,
    question: Question,
    environment: Environment,
    /// The options with which the controller resolves it.
    options: Options,
    /// Assumptions for settings that could not be read.
    assumed: Vec<String>,
    /// The status that the controller reported.
    said: Option<Said>,
    holds: Vec<Headline>,
    version: Option<String>,
}

/// Explains one resolution.
pub(crate) async fn run(mut args: WhyArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let mut words = std::mem::take(&mut args.words).into_iter();
    if args.package.is_none() && args.file.is_none() {
        let Some(name) = words.next() else {
            return usage("give a NAME, or --package or -f with --from");
        };
        if !args.lookup.is_offline() {
            args.environment.refuse()?;
            return Box::pin(on_cluster(args, (&name, words.next()), global, out)).await;
        }
        args.package = Some(name);
    }
    if !args.lookup.is_offline() {
        return usage("--from is required with --package and with -f");
    }
    let manifest = args.file.as_deref().map(plan::read_manifest).transpose()?;
    let mut inquiry = Inquiry::offline(&args, manifest.unwrap_or_default())?;
    inquiry.version = words.next();
    if words.next().is_some() {
        return usage("with --package and with -f only a VERSION may follow");
    }
    let named = args.lookup.named().await?;
    if named.iter().all(|catalog| catalog.unread().is_some()) {
        // There is nothing to explain.
        bail!("{}", named.iter().find_map(Named::unread).unwrap_or_default());
    }
    let known: Vec<_> = named.iter().map(Named::known).collect();
    let given: Vec<_> = known.iter().map(KnownCatalog::as_catalog).collect();
    inquiry.answer(&args, &given, out)
}

async fn on_cluster(
    args: WhyArgs,
    (name, version): (&str, Option<String>),
    global: &Global,
    out: &mut dyn Write,
) -> Ended {
    let cluster = args.lookup.on.connect(global).await?;
    let extension = cluster.extension(name).await?;
    let snapshot = cluster.snapshot_of(&extension).await?;
    let catalogs = snapshot.catalogs();
    let mut inquiry = Inquiry::about(&extension, &cluster, &snapshot).await?;
    args.change(&mut inquiry.question);
    // The flags may have changed the policy.
    inquiry.options = inquiry.question.options(snapshot.options);
    let asked = args.asked(&extension, &inquiry.question)?;
    inquiry.holds = inquiry.holds(&cluster, (&extension, &asked), &catalogs).await?;
    inquiry.version = version;
    let outcome = inquiry.answer(&args, &catalogs, out)?;
    let package = &inquiry.question.filter.package_name;
    let has_it =
        |catalog: &Catalog<'_>| catalog.content.is_some_and(|it| it.package(package).is_some());
    if !catalogs.iter().any(has_it)
        && let Some(hint) = meant(package, &cluster).await
    {
        notice(&format!("hint: {hint}"));
    }
    Ok(outcome)
}

/// Returns the report about an extension for programs, with the text of each reason.
pub(crate) async fn of_extension(
    extension: &ClusterExtension,
    cluster: &Cluster,
) -> anyhow::Result<Value> {
    let snapshot = cluster.snapshot_of(extension).await?;
    let catalogs = snapshot.catalogs();
    let mut inquiry = Inquiry::about(extension, cluster, &snapshot).await?;
    inquiry.holds = inquiry.holds(cluster, (extension, extension), &catalogs).await?;
    inquiry.explained(&catalogs, |report| {
        let mut document = serde_json::to_value(report)?;
        for (at, bundle) in report.bundles.iter().enumerate() {
            for (number, reason) in bundle.reasons.iter().enumerate() {
                let text = reason.finding.to_string();
                document["bundles"][at]["reasons"][number]["text"] = text.into();
            }
        }
        Ok(document)
    })
}

impl WhyArgs {
    /// Asks what the flags ask instead.
    fn change(&self, question: &mut Question) {
        let filter = &mut question.filter;
        if let Some(range) = &self.range {
            filter.version = Some(range.clone());
        }
        if !self.channels.is_empty() {
            filter.channels.clone_from(&self.channels);
        }
        if let Some(policy) = self.policy {
            filter.upgrade_constraint_policy = Some(policy);
        }
        if let Some(updates) = self.upgrade_policy {
            question.policy.updates = updates;
        }
        if let Some(installed) = self.environment.bundle() {
            question.installed = Some(installed.clone().into_record(&filter.package_name));
        }
    }

    /// Returns an extension as it would be if it asked what the flags ask.
    fn asked(
        &self,
        extension: &ClusterExtension,
        question: &Question,
    ) -> anyhow::Result<ClusterExtension> {
        let filter = &question.filter;
        let mut change = json!({"spec": {"source": {"catalog": {"channels": filter.channels,
            "upgradeConstraintPolicy": filter.upgrade_constraint_policy}}}});
        if let Some(updates) = self.upgrade_policy {
            change["metadata"]["annotations"] = json!({policy::UPGRADE: updates});
        }
        plan::edited(extension, &change)
    }
}

impl Inquiry {
    async fn about(
        extension: &ClusterExtension,
        cluster: &Cluster,
        snapshot: &ExtensionSnapshot,
    ) -> anyhow::Result<Self> {
        let answer = cluster.answer(extension, snapshot).await.ok();
        Ok(Self {
            extension: extension.metadata.name.clone(),
            said: said(extension, &snapshot.question, answer.as_ref()),
            options: snapshot.options,
            question: snapshot.question.clone(),
            environment: snapshot.environment.clone(),
            assumed: cluster.state().await?.settings.assumed.iter().cloned().collect(),
            holds: Vec::new(),
            version: None,
        })
    }

    fn offline(args: &WhyArgs, manifest: ClusterExtension) -> anyhow::Result<Self> {
        let annotations = manifest.metadata.annotations.unwrap_or_default();
        let settings = args.lookup.on.settings.offline()?;
        let options = settings.resolution();
        let policy = extension::Policy::of(&annotations, settings.defaults())?;
        let filter = match &args.package {
            Some(package) => filter(package),
            None => manifest
                .spec
                .and_then(|spec| spec.source.catalog)
                .context("the ClusterExtension names no package")?,
        };
        let mut question = Question::new(filter, policy, Timestamp::now());
        args.change(&mut question);
        let mut environment = resolving(&args.environment.read()?, &question.filter.package_name);
        if let Some(name) = &manifest.metadata.name {
            environment.resolving.clone_from(name);
        }
        Ok(Self {
            extension: manifest.metadata.name,
            options: question.options(options),
            question,
            environment,
            assumed: Vec::new(),
            said: None,
            holds: Vec::new(),
            version: None,
        })
    }

    /// Finds out what holds the bundle that is chosen and not installed, for an extension as it is, and as
    /// it would be if it asked for that.
    async fn holds(
        &self,
        cluster: &Cluster,
        (written, asked): (&ClusterExtension, &ClusterExtension),
        catalogs: &[Catalog<'_>],
    ) -> anyhow::Result<Vec<Headline>> {
        let question = &self.question;
        let environment = question.environment(catalogs, &self.options, &self.environment);
        let resolution = question.resolve(catalogs, &environment, &self.options);
        let Ok(selected) = &resolution.result else { return Ok(Vec::new()) };
        let package = &question.filter.package_name;
        let target = BundleRecord::selected(selected, package, self.options.release_support);
        let installed = question.installed.as_ref();
        let is_there = installed.is_some_and(|installed| installed.is_same_bundle(&target));
        // What is gone back to may be another bundle than the one that is chosen and there.
        let mut other = question.rolling.iter();
        if is_there && other.all(|other| other.bundle.is_same_bundle(&target)) {
            return Ok(Vec::new());
        }
        let still = question.stands_still();
        let mut holds: Vec<_> =
            still.map(|(code, text)| Headline { code, text }).into_iter().collect();
        let headline = |note: Note| Headline { code: note.reason, text: note.message };
        holds.extend(question.rollout_note(catalogs, &resolution).map(headline));
        if is_there {
            return Ok(holds);
        }
        match plan::make(cluster, asked, Some(&target.version)).await {
            Ok(plan) => {
                let notes = plan.holds.into_iter().map(|hold| hold.note);
                let stands = holds.first().map(|headline| headline.code);
                let notes = notes.filter(|note| Some(note.reason) != stands);
                let version = (asked.spec != written.spec).then_some(target.version.as_str());
                holds.extend(notes.map(|note| of_version(note, version)));
            }
            Err(error) => {
                let Failure { text, .. } = Failure::of(&error);
                notice(&format!("note: the holds are not known: {text}"));
            }
        }
        Ok(holds)
    }

    /// Explains a resolution and prints the report.
    fn answer(&self, args: &WhyArgs, catalogs: &[Catalog<'_>], out: &mut dyn Write) -> Ended {
        self.explained(catalogs, |report| {
            if let format @ (Format::Json | Format::Yaml) = args.output {
                report.write(format, out)?;
            } else {
                out.write_all(text::render(report, args.all)?.as_bytes())?;
            }
            if let Some(hint) = report.request.version.and_then(about_range) {
                notice(&format!("hint: {hint}{HIGHEST}"));
            }
            Ok(Outcome::Done)
        })
    }

    fn explained<T>(
        &self,
        catalogs: &[Catalog<'_>],
        told: impl FnOnce(&Report<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let (question, options) = (&self.question, &self.options);
        let version = self.version.as_deref();
        let environment = question.environment(catalogs, options, &self.environment);
        let request = question.deciding_request(catalogs, &environment, options);
        let mut report = explain(&request, catalogs, &environment, options, version);
        report.assumed = self.assumed.iter().map(String::as_str).collect();
        report.controller.clone_from(&self.said);
        report.holds.clone_from(&self.holds);
        report.request.extension = self.extension.as_deref();
        told(&report)
    }
}

/// Returns a hold; if it is about a version that the spec does not ask for, with the command that prints
/// the rights for that.
fn of_version(note: Note, version: Option<&str>) -> Headline {
    let text = match version.filter(|_| note.reason == Reason::PermissionsMissing) {
        Some(version) => {
            let flag = format!(" --missing --for-upgrade-to {} ", shell_word(version));
            note.message.replace(" --missing ", &flag)
        }
        None => note.message,
    };
    Headline { code: note.reason, text }
}

#[cfg(test)]
mod tests {
    use olm_core::extension::holds::Judgement;
    use olm_core::revision::Account;

    use super::*;
    use crate::fixture::flags;

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
    fn the_plan_behind_holds_is_of_what_the_flags_ask() {
        let extension: ClusterExtension = serde_json::from_value(json!({"metadata": {"name": "e"},
            "spec": {"namespace": "n", "source": {"sourceType": "Catalog",
                "catalog": {"packageName": "p"}}}}))
        .unwrap();
        let policy = extension::Policy::of(&BTreeMap::new(), UpdatePolicy::MinorOnly).unwrap();
        let mut question = Question::new(filter("p"), policy, Timestamp::now());
        let args: WhyArgs = flags("e --channel beta --upgrade-policy Any");
        args.change(&mut question);
        let asked = args.asked(&extension, &question).unwrap();
        assert_eq!(asked.annotations()[policy::UPGRADE], "Any");
        let filter = asked.spec.unwrap().source.catalog.unwrap();
        assert_eq!(filter.channels, ["beta"]);
    }
}
