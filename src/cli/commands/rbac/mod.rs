//! `kubectl olm rbac`: a service account with exactly the rights that bundles need, and what a live
//! one lacks or has too much.
//!
//! What is printed is ready for `kubectl apply -f -`. It contains no Namespace: the user owns it,
//! and it must exist, as must every other namespace in which the bundles have objects.
//!
//! Source: plugin.md 1.4, applying.md 5.

pub(crate) mod live;
pub(crate) mod made;

use std::fmt::Write as _;

use k8s_openapi::api::rbac;
use olm_api::keys::name;
use olm_core::extension::holds::Judgement;
use olm_core::rbac::{
    Account, BundleObjects, Held, Missing, Options, Permissions, PolicyRule, Subject,
    gives_stable_rights, impersonate_manifests, lines, manifests, missing, missing_manifests,
    readable, required, use_manifests,
};
use olm_core::revision::NotNamespaced;

use crate::commands::prelude::*;
use crate::commands::render::{Rendering, print};
use crate::target::Loaded;
use live::{Findings, compare};

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct RbacArgs {
    /// Directories of unpacked bundles, references of bundle images, packages, or an extension; the
    /// account can install each bundle, upgrade among them and remove them. A plain name is an
    /// extension of the cluster, else a package; prefixes dir:, image:, package: and extension:
    /// select one
    #[arg(value_name = "BUNDLE_DIR|IMAGE|PACKAGE[@RANGE]|EXTENSION", required = true)]
    targets: Vec<String>,
    /// Name of the service account; by default that of the extension
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// Modes other than printing the account.
    #[command(flatten)]
    mode: Mode,
    /// For an extension: add the rights for the bundle that it would get within this range
    #[arg(long, value_name = "RANGE")]
    for_upgrade_to: Option<String>,
    /// With --apply, for an extension: delete roles and bindings that were created for its account
    /// and are not applied
    #[arg(long, requires = "apply")]
    prune: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    place: InNamespace,
    #[command(flatten)]
    lookup: Lookup,
    /// Also let this user name the account in a ClusterExtension; repeatable
    #[arg(long, value_name = "NAME")]
    for_user: Vec<String>,
    /// Also let the users of this group name the account in a ClusterExtension; repeatable
    #[arg(long, value_name = "NAME")]
    for_group: Vec<String>,
    /// Also let the controller act as the account, as component narrow-impersonation
    /// requires; the value names another controller account than that of the manifests
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = controller
    )]
    controller_role: Option<Account>,
    /// Add `list` and `watch` on whole resources: one watch per kind instead of one per object
    #[arg(long)]
    with_watch: bool,
    /// Grant rights that stay the same between versions, without names for roles, bindings and
    /// objects of the namespace; an account that has such rights keeps them
    #[arg(long)]
    stable: bool,
    /// Grant `escalate` and `bind` instead of the rules of the bundles' roles: fewer rules,
    /// but far more powerful
    #[arg(long)]
    use_bind_escalate: bool,
    /// The options of rendering.
    #[command(flatten)]
    rendering: Rendering,
}

/// The mode of the command.
#[derive(Debug, Clone, Copy, Args)]
#[group(multiple = false)]
#[expect(clippy::struct_excessive_bools, reason = "flags that exclude each other")]
struct Mode {
    /// Show missing (exit code 1) and excess rights of the account, by binding
    #[arg(long)]
    check: bool,
    /// Print only roles and bindings with the missing rights
    #[arg(long)]
    missing: bool,
    /// Compare the rights of the bundles with those of the installed one
    #[arg(long, conflicts_with = "output")]
    diff: bool,
    /// Apply the output, as the caller
    #[arg(long)]
    apply: bool,
}

/// A rendered bundle and its source.
struct Rendered {
    source: String,
    name: String,
    objects: Vec<Object>,
}

/// Everything that is known before the account on the cluster is looked at.
struct Subjects {
    account: Account,
    /// The install namespace; that of the account unless an extension has the default account.
    namespace: String,
    rendered: Vec<Rendered>,
    /// The name of the installed bundle, of an extension that has one.
    installed: Option<String>,
    /// Which rights it is to have.
    options: Options,
}

impl Subjects {
    fn bundles(&self) -> Vec<BundleObjects<'_>> {
        let bundles = self.rendered.iter();
        bundles.map(|it| BundleObjects { name: &it.name, objects: &it.objects }).collect()
    }
}

impl RbacArgs {
    fn targets(&self) -> Vec<Target> {
        let Mode { check, missing, diff, .. } = self.mode;
        let of_extension = check || missing || diff || self.for_upgrade_to.is_some();
        let offline = self.lookup.is_offline();
        let read = if of_extension { Target::of_extension } else { Target::of };
        self.targets.iter().map(|text| read(text, offline)).collect()
    }
}

/// Computes the rights, and does with them what is asked for.
pub(crate) async fn run(args: RbacArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let global = &args.confirm.rehearsal.of(global);
    if args.confirm.yes && !args.mode.apply {
        return usage("--yes goes with --apply");
    }
    if args.mode.check && args.confirm.rehearsal.output == Some(Format::Name) {
        return usage("-o name: with --check only json and yaml are possible");
    }
    let targets = args.targets();
    let bundles_alone = !targets.iter().any(|it| args.lookup.asks_cluster(it));
    if bundles_alone {
        // Whatever is wrong with the flags is said before anything is pulled.
        account(&args, None)?;
        if args.mode.diff || args.for_upgrade_to.is_some() {
            return usage("--diff and --for-upgrade-to need an extension");
        }
    }
    let Mode { check, missing, apply, .. } = args.mode;
    let cluster = if bundles_alone && !(check || missing || apply) {
        None
    } else {
        Some(args.lookup.on.connect(global).await?)
    };
    let people = people(&args)?;
    let upgrade = args.for_upgrade_to.as_deref();
    let loaded = load(&targets, &args.lookup, cluster.as_ref(), upgrade).await?;
    let extension = loaded.extension.as_ref().map(|it| it.name.clone());
    let rendering = match &loaded.extension {
        Some(extension) => args.rendering.of_extension(extension)?,
        None => args.rendering.of_new(cluster.as_ref(), None).await?,
    };
    let rendering = rendering.with_copies(cluster.as_ref()).await;
    let mut subjects = subjects(&args, loaded, &rendering)?;
    if let (Some(cluster), false) = (&cluster, subjects.options.stable) {
        // What cannot be read has none.
        let made = made::made(cluster.own_client(), &subjects.account).await.unwrap_or_default();
        let is_stable = |one: &Managed| gives_stable_rights(&one.object.name_any());
        subjects.options.stable = made.iter().any(is_stable);
    }
    match &cluster {
        Some(cluster) if check || missing => look(&args, cluster, &subjects, out).await,
        _ if args.mode.diff => diff(&subjects, out),
        cluster => {
            let objects = generated(&args, &subjects, &people)?;
            let writes = apply && args.confirm.rehearsal.document().is_none();
            if let Some(cluster) = cluster.as_ref().filter(|_| writes) {
                let surplus = if args.prune {
                    surplus(cluster, &subjects.account, extension.as_deref(), &objects).await?
                } else {
                    Vec::new()
                };
                let (client, hint) = (cluster.own_client(), "without --apply it is printed");
                changes::yields_rights(client, &objects, hint, global.dry_run.is_some()).await?;
                return write(client, &objects, &surplus, args.confirm, out).await;
            }
            let output = args.confirm.rehearsal.output.unwrap_or(Format::Yaml);
            if output == Format::Yaml {
                out.write_all(header(&subjects.rendered, &subjects.account).as_bytes())?;
            }
            print(objects, output, out)?;
            Ok(Outcome::Done)
        }
    }
}

/// Returns the objects that were created for the account of an extension and are not among these.
async fn surplus(
    cluster: &Cluster,
    account: &Account,
    extension: Option<&str>,
    objects: &[Object],
) -> anyhow::Result<Vec<Managed>> {
    let Some(name) = extension else {
        return usage(
            "--prune needs an extension: it is unknown what else the account of a bundle is used for",
        );
    };
    if let Some(other) = made::shared_with(&cluster.extensions().await?, account, name, &[]) {
        bail!(
            "{account} is the account of extension {} too: --prune would take its rights",
            quote(&other)
        );
    }
    let surplus = made::besides(cluster.own_client(), account, objects).await;
    Ok(changes::unkept(surplus.context("listing roles and bindings")?))
}

/// Applies objects in their order, and deletes others, once the caller agrees.
async fn write(
    client: &Client,
    objects: &[Object],
    surplus: &[Managed],
    confirm: Confirm,
    out: &mut dyn Write,
) -> Ended {
    let out = &mut confirm.rehearsal.written(out);
    if !confirm.yes {
        for object in objects {
            notice(&format!("  {}", changes::named(object)));
        }
        for one in surplus {
            notice(&format!("  delete {}", one.named()));
        }
    }
    let mut question = format!("Apply {}", counted(objects.len(), "object"));
    if !surplus.is_empty() {
        let _ = write!(question, ", and delete {}", surplus.len());
    }
    question.push('?');
    confirm.agreed(&question, "--yes confirms it, without --apply it is printed")?;
    changes::apply(client, objects, out).await?;
    for one in surplus {
        let deleted = made::delete(client, one).await;
        deleted.with_context(|| format!("deleting {}", one.text()))?;
        writeln!(out, "{} deleted", one.named())?;
    }
    Ok(Outcome::Done)
}

/// Returns the account that is meant, in the namespace that is meant.
fn account(args: &RbacArgs, loaded: Option<&Loaded>) -> anyhow::Result<Account> {
    let extension = loaded.and_then(|loaded| loaded.extension.as_ref());
    let namespace = match (extension, &args.place.namespace) {
        (Some(extension), None) => extension.namespace.clone(),
        _ => args.place.require()?.to_owned(),
    };
    if let Some(name) = args.service_account.as_ref().filter(|name| !name.is_empty()) {
        let name = name.clone();
        return Ok(Account { namespace, name });
    }
    let Some(extension) = extension else {
        return usage("a service account is required: --service-account NAME");
    };
    match &extension.account {
        Some(account) if account.namespace == namespace => Ok(account.clone()),
        // It can be looked at, wherever it is.
        Some(account) if args.mode.check || args.mode.missing => Ok(account.clone()),
        Some(account) => bail!(
            "extension {} is installed by {account}, the default account, which this command does \
             not create; use --service-account NAME for an account in namespace {namespace}",
            quote(&extension.name)
        ),
        None => bail!(
            "extension {} names no service account: --service-account NAME",
            quote(&extension.name)
        ),
    }
}

fn subjects(args: &RbacArgs, loaded: Loaded, rendering: &Rendering) -> anyhow::Result<Subjects> {
    let account = account(args, Some(&loaded))?;
    let namespace = match (&loaded.extension, &args.place.namespace) {
        (Some(extension), None) => extension.namespace.clone(),
        (_, Some(namespace)) => namespace.clone(),
        (None, None) => account.namespace.clone(),
    };
    let mut rendered = Vec::with_capacity(loaded.sources.len());
    for source in loaded.sources {
        let objects = rendering.installed(&source.bundle, &namespace);
        rendered.push(Rendered {
            objects: objects.with_context(|| source.called.clone())?,
            name: source.bundle.csv.name,
            source: source.called,
        });
    }
    rendered.sort_by(|a, b| (&a.name, &a.source).cmp(&(&b.name, &b.source)));
    let extension = loaded.extension.as_ref();
    let creates = extension.filter(|extension| extension.additions.create_namespace);
    Ok(Subjects {
        options: Options {
            create_namespace: creates.map(|extension| extension.namespace.clone()),
            collection_watch: args.with_watch,
            stable: args.stable,
            bind_escalate: args.use_bind_escalate,
        },
        account,
        namespace,
        rendered,
        installed: loaded.extension.and_then(|extension| extension.installed),
    })
}

/// Returns the account with everything it needs.
fn generated(
    args: &RbacArgs,
    subjects: &Subjects,
    people: &[Subject],
) -> anyhow::Result<Vec<Object>> {
    let (mut objects, warnings) =
        manifests(&subjects.bundles(), &subjects.account, &subjects.options)?;
    objects.extend(use_manifests(&subjects.account, people));
    if let Some(controller) = &args.controller_role {
        objects.extend(impersonate_manifests(&subjects.account, controller));
    }
    for warning in warnings {
        notice(&format!("warning: {warning}"));
    }
    Ok(objects)
}

/// Looks at the account on the cluster.
async fn look(
    args: &RbacArgs,
    cluster: &Cluster,
    subjects: &Subjects,
    out: &mut dyn Write,
) -> Ended {
    let account = &subjects.account;
    let bundles = subjects.bundles();
    let granted = required(&bundles, &subjects.namespace, &subjects.options)?.all();
    let compared = async {
        let unserved = cluster.state().await?.unserved();
        // What leaves with an upgrade is among them: the installed bundle is one of an extension's.
        let each = |held: &Held<'_>| {
            let lacks = |it| missing(it, &subjects.namespace, &[], &unserved, held);
            bundles.iter().map(lacks).fold(Missing::default(), Missing::and)
        };
        compare(cluster.own_client(), account, &granted, each).await
    };
    let found = compared.await.map_err(|error| {
        let text = format!("the rights of {account} are not known: {}", one_line(&error));
        Failure::unknown(
            text,
            "this requires the right to list roles, clusterroles and their bindings",
        )
    })?;
    let judgement = &found.judgement;
    for error in &judgement.errors {
        notice(&format!("note: more rights may be missing: {error}"));
    }
    if judgement.wildcard_name {
        notice(
            "hint: one of its rules has resourceNames [\"*\"], which RBAC reads as an object \
             named *: omit resourceNames to match every object",
        );
    }
    let output = args.confirm.rehearsal.output;
    if args.mode.missing {
        let objects = lacking(account, judgement)?;
        if objects.is_empty() {
            notice(&format!("service account {account} lacks nothing"));
            return Ok(Outcome::Done);
        }
        print(objects, output.unwrap_or(Format::Yaml), out)?;
        return Ok(Outcome::Done);
    }
    if let Some(format @ (Format::Json | Format::Yaml)) = output {
        document(account, &found).write(format, out)?;
    } else {
        table(subjects, &found, out)?;
    }
    let is_enough = judgement.missing.is_empty() && !judgement.absent;
    Ok(if is_enough { Outcome::Done } else { Outcome::Failed })
}

/// Returns roles and bindings with rights that an account lacks, behind itself if it does not exist.
pub(crate) fn lacking(
    account: &Account,
    Judgement { missing, absent, .. }: &Judgement,
) -> anyhow::Result<Vec<Object>> {
    let itself = if *absent { manifests(&[], account, &Options::default())?.0 } else { Vec::new() };
    Ok(itself.into_iter().chain(missing_manifests(account, missing)).collect())
}

/// Which rights an account lacks, and which it has too many of: `kubectl olm rbac --check`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Checked {
    /// Namespace and name of the account.
    account: String,
    /// Whether it is there.
    account_exists: bool,
    /// The missing rights.
    missing: Vec<Place>,
    /// The excessive rights, by the binding that grants them.
    excess: Vec<Excess>,
    /// Why more may be missing or given than is known.
    unknown: BTreeSet<String>,
}

/// Rights in a namespace.
#[derive(Debug, Serialize, JsonSchema)]
struct Place {
    /// Its name; empty for the whole cluster.
    namespace: String,
    /// The rules, as a role has them.
    #[schemars(with = "Vec<rbac::v1::PolicyRule>")]
    rules: Vec<Value>,
}

/// Rights that a binding gives for nothing.
#[derive(Debug, Serialize, JsonSchema)]
struct Excess {
    binding: Binding,
    /// Name of the role that it binds.
    role: String,
    /// The rights.
    rules: Vec<Place>,
}

/// A binding of an account.
#[derive(Debug, Serialize, JsonSchema)]
struct Binding {
    /// Namespace of the `RoleBinding`; empty for a `ClusterRoleBinding`.
    namespace: String,
    /// Its name.
    name: String,
}

fn document(account: &Account, found: &Findings) -> Checked {
    let places = |rights: &Permissions| {
        let place = |namespace: &str| Place {
            namespace: namespace.to_owned(),
            rules: rights.rules(namespace).iter().map(PolicyRule::to_value).collect(),
        };
        rights.namespaces().map(place).collect()
    };
    let excess = found.excess.iter().map(|(grant, rights)| Excess {
        binding: Binding { namespace: grant.namespace.clone(), name: grant.name.clone() },
        role: grant.role.name.clone(),
        rules: places(rights),
    });
    Checked {
        account: account.to_string(),
        account_exists: !found.judgement.absent,
        missing: places(&found.judgement.missing),
        excess: excess.collect(),
        unknown: found.judgement.errors.clone(),
    }
}

fn table(subjects: &Subjects, found: &Findings, out: &mut dyn Write) -> anyhow::Result<()> {
    let (account, judgement) = (&subjects.account, &found.judgement);
    if judgement.absent {
        writeln!(out, "missing  service account {account}")?;
    }
    let mut rows = |what: &str, rights: &Permissions, by: &str| -> anyhow::Result<()> {
        let mut lines = readable(rights, usize::MAX).into_iter();
        Ok(lines.try_for_each(|line| writeln!(out, "{what:<7}  {line}{by}"))?)
    };
    rows("missing", &judgement.missing, "")?;
    for (grant, rights) in &found.excess {
        let binding = match grant.namespace.as_str() {
            "" => format!("ClusterRoleBinding {}", grant.name),
            namespace => format!("RoleBinding {namespace}/{}", grant.name),
        };
        rows("excess", rights, &format!(" by {binding} ({})", grant.role.name))?;
    }
    if !found.excess.is_empty() {
        notice(&format!("warning: {account} has more rights than the bundles need"));
    } else if judgement.missing.is_empty() && !judgement.absent {
        let which = if subjects.options.stable {
            "has exactly the stable rights of the bundles"
        } else {
            "has exactly the rights that the bundles need"
        };
        writeln!(out, "{account} {which}")?;
    }
    Ok(())
}

/// Compares what the bundles take with what the installed one takes.
fn diff(subjects: &Subjects, out: &mut dyn Write) -> Ended {
    let Some(installed) = &subjects.installed else {
        bail!("nothing is installed that the rights could be compared with");
    };
    let (now, next): (Vec<_>, Vec<_>) =
        subjects.bundles().into_iter().partition(|bundle| bundle.name == installed);
    if next.is_empty() {
        notice(&format!("{installed} is the bundle to install; there is no difference"));
        return Ok(Outcome::Done);
    }
    let all = |bundles: &[BundleObjects<'_>]| {
        required(bundles, &subjects.account.namespace, &subjects.options)
            .map(|required| required.all())
    };
    let (now, next) = (all(&now)?, all(&next)?);
    let added = next.missing(&now);
    for line in lines(&now.missing(&next)) {
        writeln!(out, "- {line}")?;
    }
    for line in lines(&added) {
        writeln!(out, "+ {line}")?;
    }
    Ok(if added.is_empty() { Outcome::Done } else { Outcome::Failed })
}

/// Returns the controller's service account: that of `config/default` unless another is named.
fn controller(text: &str) -> Result<Account, NotNamespaced> {
    if !text.is_empty() {
        return text.parse();
    }
    Ok(Account {
        namespace: name::SYSTEM_NAMESPACE.to_owned(),
        name: name::CONTROLLER_ACCOUNT.to_owned(),
    })
}

/// Returns the users and groups that get the right to name the service account. There is one Role
/// for all and a binding for each: applying a second output lets somebody else in and nobody out.
fn people(args: &RbacArgs) -> anyhow::Result<Vec<Subject>> {
    let users = args.for_user.iter().cloned().map(Subject::User);
    let groups = args.for_group.iter().cloned().map(Subject::Group);
    if args.for_user.iter().chain(&args.for_group).any(String::is_empty) {
        return usage("--for-user and --for-group need a name");
    }
    Ok(users.chain(groups).collect())
}

/// Names the bundles in a YAML comment, so that a saved file shows what the rights are for.
fn header(bundles: &[Rendered], account: &Account) -> String {
    let mut header = format!(
        "# What service account {account} needs to install, keep, upgrade among and remove:\n"
    );
    for Rendered { source, name, .. } in bundles {
        // Quoted, so that a line break in a path cannot end the comment.
        let _ = writeln!(header, "#   {name} from {}", quote(source));
    }
    header
}
