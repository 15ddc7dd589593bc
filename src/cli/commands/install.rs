//! `kubectl olm install`: a package, with an account that may install just that.
//!
//! Source: plugin.md 1.4.

use std::future;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use olm_api::UpgradeConstraintPolicy;
use olm_core::bundle::is_subdomain;
use olm_core::catalog::SUGGESTED_NAMESPACE;
use olm_core::error::{first_of, shell_word};
use olm_core::rbac::{Account, BundleObjects, Options, Powers, manifests};
use olm_core::resolve::UpdatePolicy;
use olm_core::revision::{Decision, controller};
use olm_core::version::VersionRange;
use strum::VariantNames as _;

use crate::bundle_source::load_image;
use crate::cluster::{only, refuse_absent};
use crate::commands::cluster_check::{platform, warn_of_closing};
use crate::commands::prelude::*;
use crate::commands::render::{Rendering, print};
use crate::connection::DryRun;
use crate::target::{self, Chosen, chosen_or_why, or_near, warn_of_deprecation};
use crate::verb::words;

/// Differences that are shown of an object.
const DIFFERENCES: usize = 5;

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Package, and the range of versions that may be installed
    #[arg(value_name = "PACKAGE[@RANGE]")]
    package: String,
    /// Version, or range of versions, that may be installed
    #[arg(long = "version", value_name = "RANGE")]
    range: Option<String>,
    /// Name of the extension; by default that of the package
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Create the namespace
    #[arg(long)]
    create_namespace: bool,
    /// Name of the service account; by default that of the extension and "-installer"
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// Rights of the account: exactly those of this bundle, those that stay the same between
    /// versions, or none; by default exact for one version, and stable for anything that updates
    #[arg(long, value_enum)]
    rights: Option<Rights>,
    /// A channel to follow; repeatable; by default all of them
    #[arg(long = "channel", value_name = "CHANNEL")]
    channels: Vec<String>,
    /// Catalog to use, or labels of catalogs; by default all of them
    #[arg(long, value_name = "NAME|KEY=VALUE,...", value_parser = selector)]
    catalog: Option<LabelSelector>,
    /// Upgrade constraint policy: require the update paths of the catalog, or not
    #[arg(long, value_parser = words::<UpgradeConstraintPolicy>(), value_name = "POLICY")]
    policy: Option<UpgradeConstraintPolicy>,
    /// Scope of automatic updates
    #[arg(long, value_parser = UpdatePolicy::VARIANTS.to_vec())]
    upgrade_policy: Option<String>,
    /// Take over existing objects of these kinds, or of all kinds, that have no controlling owner
    #[arg(long, value_name = "KINDS|all")]
    adopt: Option<String>,
    #[command(flatten)]
    rendering: Rendering,
    #[command(flatten)]
    on: OnCluster,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    place: InNamespace,
}

/// Which rights an account gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rights {
    /// Exactly those of the bundle
    Exact,
    /// Without names that change between versions
    Stable,
    /// None: they are there, or come later
    None,
}

/// The objects to write, and the objects that they install.
struct Plan {
    /// Bundle and version.
    bundle: String,
    version: String,
    /// Namespace, account, rights, extension, in this order.
    written: Vec<Object>,
    /// The last of them.
    extension: ClusterExtension,
    /// The objects that the controller will install.
    installed: Vec<Object>,
}

/// Finds the bundle, shows what is to be made, asks, writes and waits.
pub(crate) async fn run(args: InstallArgs, global: &Global, out: &mut dyn Write) -> Ended {
    args.possible()?;
    let rehearsal = args.confirm.rehearsal;
    let global = &rehearsal.of(global);
    let cluster = args.on.connect(global).await?;
    for (key, given) in args.annotations() {
        if given.is_some() {
            cluster.heeds(key).await?;
        }
    }
    refuse_taken(&args, &cluster.extensions().await?)?;
    let plan = plan(&args, &cluster).await?;
    if let Some(output) = rehearsal.document() {
        print(plan.written, output, out)?;
        return Ok(Outcome::Done);
    }
    let (client, out) = (cluster.own_client(), &mut rehearsal.written(out));
    show(&plan, args.rights(), out)?;
    let in_the_way = existing(client, &plan, out).await?;
    let namespace = args.place.require()?;
    let namespaces = Api::<Namespace>::all(client.clone());
    // Who may not look is told by what follows.
    if !args.create_namespace
        && namespaces.get_opt(namespace).await.is_ok_and(|found| found.is_none())
    {
        return Err(Failure::failed(
            format!("namespace {namespace} does not exist"),
            "--create-namespace creates it",
        ));
    }
    if in_the_way {
        return Err(Failure::failed(
            "objects of the bundle already exist",
            "--adopt KINDS or --adopt all takes over those without a controlling owner",
        ));
    }
    if global.dry_run == Some(DryRun::Client) {
        plan.written.iter().try_for_each(|object| out.object(&object.0))?;
        return Ok(Outcome::Done);
    }
    let question = format!("Create {}?", counted(plan.written.len(), "object"));
    args.confirm.agreed(&question, "--yes confirms it, -o yaml prints it")?;
    let mut written = changes::rehearse(client, &plan.written).await;
    // Nothing can be applied in a namespace that a dry run does not make.
    if global.dry_run.is_some() && args.create_namespace && written.is_ok() {
        plan.written.iter().try_for_each(|object| out.object(&object.0))?;
        return Ok(Outcome::Done);
    }
    if written.is_ok() {
        written = changes::apply(client, &plan.written, out).await;
    }
    written.map_err(|error| match error.downcast_ref() {
        Some(kube::Error::Api(status)) if status.code == 403 => Failure::failed(
            one_line(&error),
            "rerun with -o yaml and have an administrator apply it",
        ),
        _ => error,
    })?;
    if !args.wait.is_wanted(global) {
        return Ok(Outcome::Done);
    }
    let mut written = cluster.extension(args.name()).await?;
    // A status that it has by now is already about this installation.
    written.status = None;
    waiting::ready(client, &written, Awaited::Any, args.wait.timeout, out).await
}

impl InstallArgs {
    /// Fails if no cluster could do what they ask for.
    fn possible(&self) -> anyhow::Result<()> {
        if self.range.is_some() && self.package.contains('@') {
            return usage("the versions are named once: PACKAGE@RANGE or --version RANGE");
        }
        if self.package.contains('/') {
            return usage("a package of a catalog is installed, not a directory or an image");
        }
        if !is_subdomain(self.package().0) {
            return usage(format!(
                "{} cannot be the name of a package: PACKAGE@RANGE names it, and the versions that may \
                 be installed",
                quote(self.package().0)
            ));
        }
        if !is_subdomain(self.name()) {
            return usage(format!(
                "{} cannot be the name of a ClusterExtension: --name takes lower-case letters, digits, \"-\" \
                 and \".\"",
                quote(self.name())
            ));
        }
        if self.rendering.differs_from_controller() {
            return usage(
                "--webhook-certificates and --role-placement are for `bundle render` and `rbac`: the \
                 controller has its own",
            );
        }
        Ok(())
    }

    fn package(&self) -> (&str, Option<&str>) {
        match self.package.split_once('@') {
            Some((package, range)) => (package, Some(range)),
            None => (&self.package, self.range.as_deref()),
        }
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.package().0)
    }

    fn account(&self, namespace: &str) -> Account {
        let given = self.service_account.clone();
        Account {
            namespace: namespace.to_owned(),
            name: given.unwrap_or_else(|| installer(self.name())),
        }
    }

    /// Returns the rights that the account gets: what updates by itself outlives its version.
    fn rights(&self) -> Rights {
        let range = self.package().1.and_then(|range| range.parse::<VersionRange>().ok());
        let stays = range.is_some_and(|range| range.is_one_version());
        self.rights.unwrap_or(if stays { Rights::Exact } else { Rights::Stable })
    }

    /// Returns the annotations that flags may give.
    fn annotations(&self) -> [(&'static str, &Option<String>); 2] {
        [(policy::UPGRADE, &self.upgrade_policy), (policy::ADOPT, &self.adopt)]
    }

    fn filter(&self) -> CatalogFilter {
        let (package, range) = self.package();
        CatalogFilter {
            package_name: package.to_owned(),
            version: range.map(str::to_owned),
            channels: self.channels.clone(),
            selector: self.catalog.clone(),
            upgrade_constraint_policy: self.policy,
        }
    }

    /// Returns the extension.
    fn extension(&self, account: &Account, inline: Option<&Value>) -> Value {
        let given = self.annotations().into_iter();
        let annotations: BTreeMap<_, _> =
            given.filter_map(|(key, value)| Some((key, value.as_ref()?))).collect();
        let mut object = manifest(self.name(), account, &self.filter());
        if !annotations.is_empty() {
            object["metadata"]["annotations"] = json!(annotations);
        }
        if let Some(inline) = inline {
            object["spec"]["config"] = json!({"configType": "Inline", "inline": inline});
        }
        object
    }
}

/// Returns an extension that asks for a package of catalogs.
pub(super) fn manifest(name: &str, account: &Account, filter: &CatalogFilter) -> Value {
    json!({"apiVersion": olm_api::API_VERSION, "kind": "ClusterExtension",
    "metadata": {"name": name},
    "spec": {
        "namespace": account.namespace,
        "serviceAccount": {"name": account.name},
        "source": {"sourceType": "Catalog", "catalog": filter},
    }})
}

/// Returns the service account that `install` makes for an extension.
pub(super) fn installer(name: &str) -> String {
    format!("{name}-installer")
}

/// Reads the name of a catalog, or labels of catalogs.
pub(super) fn selector(text: &str) -> Result<LabelSelector, String> {
    if !text.contains('=') {
        return Ok(only(text));
    }
    let labels = text.split(',').map(|label| match label.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => Err(format!("{label:?} is not KEY=VALUE")),
    });
    let labels = labels.collect::<Result<_, _>>()?;
    Ok(LabelSelector { match_labels: Some(labels), ..LabelSelector::default() })
}

/// Fails if an extension installs or requests the package already, or the name is taken.
fn refuse_taken(args: &InstallArgs, extensions: &[ClusterExtension]) -> anyhow::Result<()> {
    let (package, _) = args.package();
    for extension in extensions {
        let name = extension.name_any();
        if extension.package() == Some(package) {
            let is_going = extension.metadata.deletion_timestamp.is_some();
            let (how, hint) = match extension.installed() {
                Some(_) if !is_going => {
                    ("installed as", format!("kubectl olm upgrade {name} moves it"))
                }
                Some(_) => ("installed as", format!("kubectl olm status {name}")),
                None => ("requested by", format!("kubectl olm status {name}")),
            };
            let going = if is_going { ", which is being deleted" } else { "" };
            let text = format!(
                "{} is {how} extension {}{going}; a package can be installed only once",
                quote(package),
                quote(&name)
            );
            return Err(Failure::failed(text, hint));
        }
        if name == args.name() {
            let text = format!("there is an extension {} of another package", quote(&name));
            return Err(Failure::failed(text, "--name gives it another name"));
        }
    }
    Ok(())
}

async fn plan(args: &InstallArgs, cluster: &Cluster) -> anyhow::Result<Plan> {
    let catalogs = cluster.all_catalogs().await?.iter();
    refuse_absent(args.catalog.as_ref(), catalogs.map(ClusterCatalog::name_any))?;
    let snapshot = cluster.offers(args.filter()).await?;
    let (package, _) = args.package();
    let found = or_near(chosen_or_why(&snapshot), (package, false), cluster).await?;
    let Chosen { name, image, version, .. } = found;
    let platform = platform(cluster).await;
    warn_of_deprecation(&snapshot, future::ready(platform)).await;
    warn_of_closing(platform, &snapshot);
    let loaded = load_image(&image).await;
    let (bundle, _) = loaded.with_context(|| format!("{name} ({image})"))?;
    let Ok(namespace) = args.place.require() else {
        let suggested = bundle.csv.annotations.get(SUGGESTED_NAMESPACE);
        let example = suggested.map_or_else(|| "NAMESPACE".to_owned(), |it| shell_word(it));
        return usage(format!("a namespace is required: -n {example}"));
    };
    let account = args.account(namespace);
    let rendering = args.rendering.of_new(Some(cluster), Some(args.name())).await?;
    let rendering = rendering.with_copies(Some(cluster)).await;
    let manifest = args.extension(&account, rendering.inline.as_ref());
    let extension: ClusterExtension = serde_json::from_value(manifest.clone())?;
    target::account(&extension, cluster).await?;
    let installed = rendering.installed(&bundle, namespace)?;
    let objects = BundleObjects { name: &name, objects: &installed };
    let rights = args.rights();
    let options = Options { stable: rights == Rights::Stable, ..Options::default() };
    let bundles: &[_] = if rights == Rights::None { &[] } else { &[objects] };
    let (given, warnings) = manifests(bundles, &account, &options)?;
    for warning in warnings {
        notice(&format!("warning: {warning}"));
    }
    let made = args.create_namespace.then(|| {
        Object::from_value(json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace}}))
    });
    let made = made.flatten().into_iter().chain(given);
    let written = made.chain([Object::from_value(manifest).context("an extension is an object")?]);
    Ok(Plan { bundle: name.clone(), version, written: written.collect(), extension, installed })
}

fn show(plan: &Plan, rights: Rights, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "{} ({})", plan.bundle, plan.version)?;
    let counted = |objects: &[Object]| {
        let mut kinds = BTreeMap::<&str, usize>::new();
        for object in objects {
            *kinds.entry(object.kind()).or_default() += 1;
        }
        kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
    };
    writeln!(out, "  creates   {}", counted(&plan.written))?;
    writeln!(out, "  installs  {}", counted(&plan.installed))?;
    let which = match rights {
        Rights::Exact => "exact: another version may need others",
        Rights::Stable => "stable: without the names that change between versions",
        Rights::None => "none: someone else grants them",
    };
    writeln!(out, "  rights    {which}")?;
    let strong = Powers::of(plan.written.iter()).into_rights().strong();
    if !strong.is_empty() {
        let strong: Vec<_> = strong.into_iter().collect();
        writeln!(out, "  account   {}", strong.join("; "))?;
    }
    Ok(())
}

/// Reports existing objects of an installation and their changes. Returns whether one of them
/// conflicts.
async fn existing(client: &Client, plan: &Plan, out: &mut dyn Write) -> anyhow::Result<bool> {
    let mut in_the_way = false;
    let objects = plan.installed.iter();
    for (object, found) in changes::existing(client, &plan.extension, &[], objects).await {
        let called = changes::named(object);
        match found {
            Err(why) => writeln!(out, "  not known {called}: {why}")?,
            Ok((live, Decision::Adopt)) => {
                let changes = changes_of(client, object, &live).await;
                writeln!(out, "  adopts    {called}: {changes}")?;
            }
            Ok((live, _)) => {
                in_the_way = true;
                match controller(&live) {
                    Some(OwnerReference { kind, name, .. }) => {
                        writeln!(out, "  taken     {called}: by {kind} {name}")?;
                    }
                    None => writeln!(out, "  exists    {called}, without a controlling owner")?,
                }
            }
        }
    }
    Ok(in_the_way)
}

/// Reports the changes of an object when it is taken over.
async fn changes_of(client: &Client, object: &Object, live: &Object) -> String {
    match changes::would_change(client, object, live).await {
        Ok(found) if found.is_empty() => "nothing changes".to_owned(),
        Ok(found) => format!("changes {}", first_of(&found, DIFFERENCES)),
        Err(why) => format!("the changes are not known: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{cases, extension, flags};

    #[test]
    fn rights_last_as_long_as_what_is_asked_for() {
        let lines = cases::<(String, String)>("rights_last_as_long_as_what_is_asked_for");
        for (name, (line, want)) in lines {
            let rights = flags::<InstallArgs>(&line).rights();
            assert_eq!(format!("{rights:?}"), want, "{name}");
        }
    }

    #[test]
    fn a_package_is_said_to_be_installed_where_it_is() {
        type Case = (Value, bool, String, String);
        for (name, case) in cases::<Case>("a_package_is_said_to_be_installed_where_it_is") {
            let (status, is_going, text, hint) = case;
            let going = is_going.then_some("2026-01-01T00:00:00Z");
            let metadata = json!({"deletionTimestamp": going});
            let taken = [extension(&json!({"metadata": metadata, "status": status}))];
            let failure = Failure::of(&refuse_taken(&flags("p"), &taken).unwrap_err());
            assert!(failure.text.starts_with(&text), "{name}: {}", failure.text);
            assert_eq!(failure.hint, Some(hint), "{name}");
        }
    }
}
