//! `kubectl olm why`: why a ClusterExtension gets the bundle it gets, or none, and what would lead
//! to another version.
//!
//! The request comes from an extension on a cluster, from a manifest, or from flags; the answer is
//! a report by the code that resolves.

mod text;

use olm_api::UpgradeConstraintPolicy;
use olm_core::explain::{Headline, Report};
use olm_core::extension::{Question, said};
use olm_core::resolve::{Catalog, UpdatePolicy};
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

/// Everything a report is made of.
struct Inquiry {
    extension: Option<String>,
    snapshot: ExtensionSnapshot,
    /// Assumptions for settings that could not be read.
    assumed: Option<String>,
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
    let unread: Vec<_> = named.iter().filter_map(Named::unread).collect();
    if let (Some(why), true) = (unread.first(), unread.len() == named.len()) {
        // There is nothing to explain.
        bail!("{why}");
    }
    inquiry.snapshot.catalogs = named.iter().map(Named::known).collect();
    inquiry.answer(&args, out)
}

async fn on_cluster(
    args: WhyArgs,
    (name, version): (&str, Option<String>),
    global: &Global,
    out: &mut dyn Write,
) -> Ended {
    let cluster = args.lookup.on.connect(global).await?;
    let extension = cluster.extension(name).await?;
    let mut inquiry = Inquiry::about(&extension, &cluster).await?;
    args.change(&mut inquiry.snapshot);
    let asked = args.asked(&extension, &inquiry.snapshot.question)?;
    inquiry.holds = inquiry.holds(&cluster, (&extension, &asked)).await?;
    inquiry.version = version;
    let outcome = inquiry.answer(&args, out)?;
    let snapshot = &inquiry.snapshot;
    let package = &snapshot.question.filter.package_name;
    let catalogs = snapshot.catalogs();
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
    let mut inquiry = Inquiry::about(extension, cluster).await?;
    inquiry.holds = inquiry.holds(cluster, (extension, extension)).await?;
    inquiry.explained(|report| {
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
    fn change(&self, snapshot: &mut ExtensionSnapshot) {
        let question = &mut snapshot.question;
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
        // They may have changed the policy.
        snapshot.options = question.options(snapshot.options);
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
    async fn about(extension: &ClusterExtension, cluster: &Cluster) -> anyhow::Result<Self> {
        changes::refuse_deleted(extension)?;
        let snapshot = cluster.snapshot_of(extension).await?;
        let answer = cluster.answer(extension, &snapshot).await.ok();
        Ok(Self {
            extension: extension.metadata.name.clone(),
            said: said(extension, &snapshot.question, answer.as_ref()),
            assumed: cluster.state().await?.settings.assumed.clone(),
            snapshot,
            holds: Vec::new(),
            version: None,
        })
    }

    /// Asks without a cluster, of no catalogs yet.
    fn offline(args: &WhyArgs, manifest: ClusterExtension) -> anyhow::Result<Self> {
        let filter = match &args.package {
            Some(package) => filter(package),
            None => manifest
                .spec
                .and_then(|spec| spec.source.catalog)
                .context("the ClusterExtension names no package")?,
        };
        let annotations = manifest.metadata.annotations.unwrap_or_default();
        let mut snapshot = args.lookup.asked(filter, &annotations)?;
        args.change(&mut snapshot);
        let package = &snapshot.question.filter.package_name;
        snapshot.environment = resolving(&args.environment.read()?, package);
        if let Some(name) = &manifest.metadata.name {
            snapshot.environment.resolving.clone_from(name);
        }
        Ok(Self {
            extension: manifest.metadata.name,
            snapshot,
            assumed: None,
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
    ) -> anyhow::Result<Vec<Headline>> {
        let (question, catalogs) = (&self.snapshot.question, self.snapshot.catalogs());
        let resolution = self.snapshot.resolve(&catalogs);
        let Ok(selected) = &resolution.result else { return Ok(Vec::new()) };
        let package = &question.filter.package_name;
        let support = self.snapshot.options.release_support;
        let target = BundleRecord::selected(selected, package, support);
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
        holds.extend(question.rollout_note(&catalogs, &resolution).map(headline));
        if is_there {
            return Ok(holds);
        }
        match plan::make(cluster, asked, Some(&target.version)).await {
            Ok(plan) => {
                let notes = plan.holds.into_iter().map(|hold| hold.note);
                let stands = holds.first().map(|headline| headline.code);
                let notes = notes.filter(|note| Some(note.reason) != stands);
                let version = (asked.spec != written.spec).then_some(target.version.as_str());
                holds.extend(notes.map(|note| plan::of_version(note, version)));
            }
            Err(error) => {
                let Failure { text, .. } = Failure::of(&error);
                notice(&format!("note: the holds are not known: {text}"));
            }
        }
        Ok(holds)
    }

    /// Explains a resolution and prints the report.
    fn answer(&self, args: &WhyArgs, out: &mut dyn Write) -> Ended {
        self.explained(|report| {
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
        told: impl FnOnce(&Report<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let catalogs = self.snapshot.catalogs();
        let asked = self.snapshot.asked(&catalogs);
        let mut report = self.snapshot.explained(&catalogs, &asked, self.version.as_deref());
        report.assumed = self.assumed.as_deref().into_iter().collect();
        report.controller.clone_from(&self.said);
        report.holds.clone_from(&self.holds);
        report.request.extension = self.extension.as_deref();
        told(&report)
    }
}

#[cfg(test)]
mod tests {
    use olm_core::extension::{KnownCatalog, Policy};
    use olm_core::resolve::Options;

    use super::*;
    use crate::fixture::{extension, flags};

    #[test]
    fn a_catalog_that_a_flag_names_is_left_out_without_its_flag() {
        let policy = Policy::of(&BTreeMap::new(), UpdatePolicy::MinorOnly).unwrap();
        let question = Question::new(filter("p"), policy, Timestamp::now());
        let catalogs = vec![KnownCatalog::named("red", 0, Err("down".to_owned()))];
        let snapshot = ExtensionSnapshot::of_named(question, catalogs, Options::default());
        let catalogs = snapshot.catalogs();
        let asked = snapshot.asked(&catalogs);
        let report = snapshot.explained(&catalogs, &asked, None);
        let hints: Vec<_> = report.hints.iter().map(|hint| hint.text.as_str()).collect();
        assert_eq!(hints, ["to continue without red: leave out --from for it"]);
    }

    #[test]
    fn the_plan_behind_holds_is_of_what_the_flags_ask() {
        let extension = extension(&json!({}));
        let policy = Policy::of(&BTreeMap::new(), UpdatePolicy::MinorOnly).unwrap();
        let question = Question::new(filter("p"), policy, Timestamp::now());
        let mut snapshot = ExtensionSnapshot::of_named(question, Vec::new(), Options::default());
        let args: WhyArgs = flags("e --channel beta --upgrade-policy Any");
        args.change(&mut snapshot);
        assert_eq!(snapshot.options.updates, UpdatePolicy::Any);
        let asked = args.asked(&extension, &snapshot.question).unwrap();
        assert_eq!(asked.annotations()[policy::UPGRADE], "Any");
        let filter = asked.spec.unwrap().source.catalog.unwrap();
        assert_eq!(filter.channels, ["beta"]);
    }
}
