//! `kubectl olm plan`: what would change, and what stands in the way.
//!
//! Source: plugin.md 1.5.

mod gather;
mod text;

use olm_core::revision::Account;

use crate::commands::install::{installer, manifest};
use crate::prelude::*;
use crate::target::filter;
use crate::web;
pub(crate) use gather::{Missing, back, make};
pub(crate) use text::{page, short, write as show};

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Name of the extension; or a package, and the range of versions of a new extension
    #[arg(value_name = "NAME|PACKAGE[@RANGE]", required_unless_present = "file")]
    name: Option<String>,
    /// Manifest of a new or changed extension
    #[arg(short, long = "filename", value_name = "FILE", conflicts_with = "name")]
    file: Option<PathBuf>,
    /// Plan for this version, or range of versions
    #[arg(long, value_name = "RANGE")]
    to: Option<String>,
    /// For a package: the service account of the new extension; by default the one that `install`
    /// creates
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
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

/// Makes the plan and prints it.
pub(crate) async fn run(args: PlanArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let cluster = args.on.connect(global).await?;
    let of = match (&args.file, &args.name) {
        (Some(file), _) => read_manifest(file)?.into(),
        (None, name) => args.find(name.as_deref().unwrap_or_default(), &cluster).await?,
    };
    let to = args.to.as_deref().or(of.to.as_deref());
    let mut plan = match make(&cluster, &of.extension, to).await {
        Ok(plan) => plan,
        Err(missing) => return Ok(missing.say(&of.extension)),
    };
    if of.account_comes && plan.held_by.remove("rights") {
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
    // Held or without effect is no; not known and nothing else in the way is not known.
    let is_no = plan.is_empty() || !plan.held_by.is_empty();
    Ok(Outcome::of(is_no, !plan.unknown.is_empty()))
}

/// The input of a plan.
struct Of {
    extension: ClusterExtension,
    /// The versions that were asked for with it.
    to: Option<String>,
    /// Whether its account does not exist yet.
    account_comes: bool,
}

impl From<ClusterExtension> for Of {
    fn from(extension: ClusterExtension) -> Self {
        Self { extension, to: None, account_comes: false }
    }
}

impl PlanArgs {
    /// Finds the extension that an argument means: by its name, by its package, or the one that
    /// `install` would make of a package (plugin.md 1.2).
    async fn find(&self, text: &str, cluster: &Cluster) -> anyhow::Result<Of> {
        let (wanted, is_word) = match Target::of(text, false) {
            Target::Extension(name) => return Ok(cluster.extension(&name).await?.into()),
            Target::Word(word) => match cluster.find_extension(&word).await? {
                Some(found) => return Ok(found.into()),
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
            return Ok(Of { to: filter.version, ..found.into() });
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
        let extension = manifest(package, &account, &filter);
        Ok(Of {
            extension: serde_json::from_value(extension)?,
            to: None,
            account_comes: self.service_account.is_none(),
        })
    }
}

impl Missing {
    /// Prints why there is no plan.
    pub(crate) fn say(&self, extension: &ClusterExtension) -> Outcome {
        notice(&format!("error: {}: {}", extension.name_any(), self.why));
        if let Some(command) = self.leads_on(extension) {
            notice(&format!("hint: to see which versions can be reached: {command}"));
        }
        self.outcome
    }

    /// Returns the command that shows the versions, where none could be chosen: `why` is about an
    /// extension that exists.
    fn leads_on(&self, extension: &ClusterExtension) -> Option<String> {
        if !self.is_unresolved {
            return None;
        }
        match extension.uid() {
            Some(_) => Some(format!("kubectl olm why {}", extension.name_any())),
            None => extension.package().map(|package| format!("kubectl olm show {package}")),
        }
    }
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
    serde_json::from_value(found).with_context(|| format!("reading {shown}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::existing(Some("u"), true, Some("kubectl olm why e"))]
    #[case::new(None, true, Some("kubectl olm show p"))]
    #[case::another_failure(Some("u"), false, None)]
    fn a_command_about_versions_is_named_where_it_works(
        #[case] uid: Option<&str>,
        #[case] is_unresolved: bool,
        #[case] want: Option<&str>,
    ) {
        let extension = json!({"metadata": {"name": "e", "uid": uid}, "spec": {
            "namespace": "n", "serviceAccount": {"name": "a"},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}}});
        let extension: ClusterExtension = serde_json::from_value(extension).unwrap();
        let missing = Missing { outcome: Outcome::Failed, why: String::new(), is_unresolved };
        assert_eq!(missing.leads_on(&extension).as_deref(), want);
    }
}
