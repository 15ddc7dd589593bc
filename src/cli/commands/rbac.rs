//! `kubectl olm rbac`: a service account with exactly the rights that bundles need.
//!
//! The output is ready for `kubectl apply -f -`. It contains no Namespace: the user owns it, and it
//! must exist, as must every other namespace in which the bundles have objects.

use std::fmt::Write as _;
use std::io::Write;

use anyhow::Context as _;
use clap::Args;
use olm_api::keys::name;
use olm_core::error::quote;
use olm_core::object::Object;
use olm_core::rbac::{
    Account, BundleObjects, FinalizersRule, Options, Subject, impersonate_manifests, manifests,
    use_manifests,
};
use olm_core::revision::NotNamespaced;

use crate::bundle_source::load_bundle_source;
use crate::commands::render::{Output, Rendering, print};
use crate::connection::Global;
use crate::output::{Outcome, UsageError, notice};

/// Flags of `rbac`.
#[derive(Debug, Args)]
pub(crate) struct RbacArgs {
    /// Directories of unpacked bundles, or references of bundle images; the account can install
    /// each, upgrade among them and remove them
    #[arg(value_name = "BUNDLE_DIR|IMAGE", required = true)]
    bundles: Vec<String>,
    /// Name of the service account
    #[arg(long, value_name = "NAME")]
    service_account: String,
    /// Also let this user name the account in a ClusterExtension; repeatable
    #[arg(long, value_name = "NAME")]
    for_user: Vec<String>,
    /// Also let the users of this group name the account in a ClusterExtension; repeatable
    #[arg(long, value_name = "NAME")]
    for_group: Vec<String>,
    /// Also let the controller act as the account, where it may not act as any (component
    /// narrow-impersonation); another controller account than that of the manifests may be named
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = controller
    )]
    controller_role: Option<Account>,
    /// Add `list` and `watch` on whole resources: one watch a kind instead of one an object
    #[arg(long)]
    with_watch: bool,
    /// Leave roles and bindings unnamed, because their names change between versions
    #[arg(long)]
    stable: bool,
    /// Grant `escalate` and `bind` instead of the rules of the bundles' roles: shorter, far
    /// stronger
    #[arg(long)]
    use_bind_escalate: bool,
    /// Add what upstream's controller needs besides, for one extension or for all
    #[arg(
        long,
        value_name = "EXTENSION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    compat_finalizers_rule: Option<String>,
    /// How the bundles are rendered.
    #[command(flatten)]
    rendering: Rendering,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// A rendered bundle and its source.
struct Rendered {
    source: String,
    name: String,
    objects: Vec<Object>,
}

/// Renders the bundles and prints the service account with its roles and bindings.
pub(crate) async fn run(
    args: RbacArgs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let account = Account {
        namespace: global.require_namespace()?.to_owned(),
        name: args.service_account.clone(),
    };
    if account.name.is_empty() {
        let text = "a service account is required: --service-account NAME";
        return Err(UsageError(text.to_owned()).into());
    }
    let people = people(&args)?;
    let mut rendered = Vec::with_capacity(args.bundles.len());
    for source in &args.bundles {
        let bundle = load(source, &args, &account.namespace).await;
        rendered.push(bundle.with_context(|| source.clone())?);
    }
    rendered.sort_by(|a, b| (&a.name, &a.source).cmp(&(&b.name, &b.source)));
    let bundles: Vec<BundleObjects<'_>> = rendered
        .iter()
        .map(|bundle| BundleObjects {
            name: &bundle.name,
            objects: &bundle.objects,
        })
        .collect();
    let (mut objects, warnings) = manifests(&bundles, &account, &options(&args))?;
    objects.extend(use_manifests(&account, &people));
    if let Some(controller) = &args.controller_role {
        objects.extend(impersonate_manifests(&account, controller));
    }
    for warning in warnings {
        notice(&format!("warning: {warning}"));
    }
    if args.output == Output::Yaml {
        out.write_all(header(&rendered, &account).as_bytes())?;
    }
    print(objects, args.output, out)?;
    Ok(Outcome::Done)
}

async fn load(source: &str, args: &RbacArgs, namespace: &str) -> anyhow::Result<Rendered> {
    let bundle = load_bundle_source(source).await?;
    Ok(Rendered {
        source: source.to_owned(),
        objects: args.rendering.installed(&bundle, namespace)?,
        name: bundle.csv.name,
    })
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

/// Returns the users and groups that get the right to name the service account.
fn people(args: &RbacArgs) -> Result<Vec<Subject>, UsageError> {
    let users = args.for_user.iter().cloned().map(Subject::User);
    let groups = args.for_group.iter().cloned().map(Subject::Group);
    if args
        .for_user
        .iter()
        .chain(&args.for_group)
        .any(String::is_empty)
    {
        let text = "--for-user and --for-group take a name";
        return Err(UsageError(text.to_owned()));
    }
    Ok(users.chain(groups).collect())
}

fn options(args: &RbacArgs) -> Options {
    let finalizers = args.compat_finalizers_rule.as_deref();
    Options {
        collection_watch: args.with_watch,
        stable: args.stable,
        bind_escalate: args.use_bind_escalate,
        compat_finalizers: finalizers.map(|name| match name {
            "" => FinalizersRule::Any,
            name => FinalizersRule::Named(name.to_owned()),
        }),
    }
}

/// Names the bundles in a YAML comment, so that a saved file shows what the rights are for.
fn header(bundles: &[Rendered], account: &Account) -> String {
    let mut header = format!(
        "# What service account {}/{} needs to install, keep, upgrade among and remove:\n",
        account.namespace, account.name
    );
    for Rendered { source, name, .. } in bundles {
        // Quoted, so that a line break in a path cannot end the comment.
        let _ = writeln!(header, "#   {name} from {}", quote(source));
    }
    header
}
