//! `kubectl olm browse`: what the verbs answer, in a browser.
//!
//! Every document comes from the verb that prints it; the pages are made in `web`. Source: plugin.md 4.

mod routes;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::Arc;

use olm_api::keys::annotation;
use olm_core::rbac::Account;
use olm_core::selector::Selector;
use tokio::sync::Mutex;

use super::{approve, catalog, graph, history, install, plan, rbac, search, show, status, why};
use crate::catalogs::image_files;
use crate::cluster::{Kept, Packages, only};
use crate::commands::prelude::*;
use crate::document::Tree;
use crate::graph::segment;
use crate::offers::{Named, Offers, icon};
use crate::web::{Gate, serve};

#[derive(Debug, Args)]
pub(crate) struct BrowseArgs {
    /// Port to listen on; 0 selects a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Loopback address to listen on
    #[arg(long, value_name = "127.0.0.1|::1", default_value_t = Ipv4Addr::LOCALHOST.into())]
    address: IpAddr,
    /// Open the page in a browser, that of `$BROWSER` if it is set
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    lookup: Lookup,
}

/// Serves the pages until the program is interrupted.
pub(crate) async fn run(args: BrowseArgs, global: Global, out: &mut dyn Write) -> Ended {
    if !args.address.is_loopback() {
        return usage("browse listens on loopback only");
    }
    let offline = args.lookup.is_offline();
    let offers = match args.lookup.offers(&global).await? {
        Offers::Cluster(cluster) => Offers::Cluster(Box::new(cluster.keeping())),
        named @ Offers::Named(_) => named,
    };
    let of = name(&offers, &global);
    let verbs = Verbs { offers, heads: Mutex::default(), findings: Kept::default() };
    let listener = TcpListener::bind(SocketAddr::new(args.address, args.port))
        .with_context(|| format!("listening on {} port {}", args.address, args.port))?;
    let gate = Arc::new(Gate::new(listener.local_addr()?)?);
    writeln!(out, "{}", gate.url())?;
    out.flush()?;
    if args.open {
        open(&gate.opening_url()?);
    }
    serve(listener, routes::pages(Site { gate, verbs, of, offline })).await?;
    Ok(Outcome::Done)
}

/// Hands an address to a browser.
fn open(url: &str) {
    let browser = std::env::var("BROWSER").ok().filter(|it| !it.is_empty());
    let usual = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let browser = browser.unwrap_or_else(|| usual.to_owned());
    let mut command = Command::new(&browser);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null());
    if let Err(error) = command.spawn() {
        notice(&format!("warning: {browser} does not start: {error}"));
    }
}

/// Returns the name of the source: `cluster lab (as admin)`.
fn name(offers: &Offers, global: &Global) -> String {
    let Offers::Cluster(_) = offers else { return "catalogs only".to_owned() };
    let config = global.read_kubeconfig().unwrap_or_default();
    let context = global.context.clone().or(config.current_context);
    let found = config.contexts.into_iter().find(|it| Some(&it.name) == context.as_ref());
    let user = found.and_then(|it| it.context?.user);
    let user = global.impersonate.clone().or(user);
    let user = user.map_or_else(String::new, |user| format!(" (as {user})"));
    format!("cluster {}{user}", context.as_deref().unwrap_or("of this machine"))
}

/// The data of all pages.
struct Site {
    gate: Arc<Gate>,
    verbs: Verbs,
    /// Whose answers these are.
    of: String,
    /// Whether there is no cluster, only catalogs.
    offline: bool,
}

/// The verbs behind the pages. Each answers with the document of a page; null if what is asked about is
/// not there.
struct Verbs {
    offers: Offers,
    /// The heads of packages as they were read last, for their icons.
    heads: Mutex<Option<Arc<Packages>>>,
    /// The documents of what was found in catalogs of the cluster.
    findings: Kept<Value>,
}

/// A part of an extension besides its state.
#[derive(Debug, Clone, Copy, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum Part {
    /// The output of `plan NAME`.
    Plan,
    /// The output of `status NAME -o tree`.
    Objects,
    /// The document of `history NAME`.
    History,
}

/// An icon: its media type and its bytes.
type Icon = (&'static str, Vec<u8>);

impl Verbs {
    /// Returns the cluster, if there is one.
    fn cluster(&self) -> anyhow::Result<Cluster> {
        match self.offers.anew() {
            Offers::Cluster(cluster) => Ok(*cluster),
            Offers::Named(_) => bail!("there is no cluster, only catalogs"),
        }
    }

    async fn icon(&self, catalog: &str, package: &str) -> Option<Icon> {
        let heads = self.heads().await.ok()?;
        let is_meant = |(from, head): &&(String, Value)| {
            from == catalog && head["name"].as_str() == Some(package)
        };
        icon(&heads.iter().find(is_meant)?.1)
    }

    async fn heads(&self) -> anyhow::Result<Arc<Packages>> {
        let mut known = self.heads.lock().await;
        if let Some(heads) = &*known {
            return Ok(Arc::clone(heads));
        }
        let (heads, _) = self.offers.anew().heads().await?;
        Ok(Arc::clone(known.insert(Arc::new(heads))))
    }

    /// The document of `status`.
    async fn installed(&self) -> anyhow::Result<Value> {
        status::document(&self.cluster()?.extensions().await?).value()
    }

    /// `{status, why}` of `status NAME` and `why NAME`, with `conditions`, the `strong` rights of its account
    /// and its `manifest`; `unknown` has what could not be read.
    async fn extension(&self, name: &str) -> anyhow::Result<Value> {
        let cluster = self.cluster()?;
        let Some(extension) = cluster.find_extension(name).await? else { return Ok(Value::Null) };
        let mut unknown = Vec::new();
        let mut or_why = |what: &str, error: &anyhow::Error| {
            unknown.push(json!({"what": what, "why": one_line(error)}));
        };
        let mut status = match status::detailed(&cluster, &extension).await {
            Ok((status, _)) => status.value()?,
            Err(error) => {
                or_why("revisions, Events and kinds", &error);
                status::document(std::slice::from_ref(&extension)).value()?
            }
        };
        let seen = extension.status.as_ref();
        let conditions = seen.map_or(&[][..], |seen| seen.conditions.as_slice());
        let mut page = json!({"status": status["extensions"][0].take(),
            "conditions": conditions,
            "manifest": olm_core::yaml::to_yaml(&for_git(&extension))});
        match why::of_extension(&extension, &cluster).await {
            Ok(why) => page["why"] = serde_json::to_value(why)?,
            Err(error) => or_why("why it gets its version", &error),
        }
        if let Some(account) = rbac::made::account_of(&extension) {
            match rbac::live::strong(cluster.own_client(), &account).await {
                Ok(strong) => page["strong"] = json!(strong),
                Err(error) => or_why("the strongest rights of its account", &error),
            }
        }
        unknown.extend(status["unknown"].as_array().into_iter().flatten().cloned());
        page["unknown"] = unknown.into();
        Ok(page)
    }

    /// `{name, plan|tree|history}`, or `{name, unknown}`.
    async fn part(&self, part: Part, name: &str) -> anyhow::Result<Value> {
        let cluster = self.cluster()?;
        let Some(extension) = cluster.find_extension(name).await? else { return Ok(Value::Null) };
        let (member, answer) = match part {
            Part::Plan => ("plan", planned(&cluster, &extension).await),
            Part::Objects => {
                let tree = Tree::of(&cluster, &extension).await;
                ("tree", tree.and_then(|tree| Ok(serde_json::to_value(tree)?)))
            }
            Part::History => {
                let revisions = cluster.revisions(name).await;
                let document = revisions.and_then(|it| history::document(name, &it).value());
                ("history", document)
            }
        };
        Ok(match answer {
            Ok(answer) => json!({"name": name, member: answer}),
            Err(error) => {
                let part: &str = part.into();
                json!({"name": name, "unknown": [Unknown::new(part, one_line(&error))]})
            }
        })
    }

    /// The document of `search`, for these words, maybe only of what can be installed.
    async fn packages(&self, terms: &[String], installable: bool) -> anyhow::Result<Value> {
        let offers = self.offers.anew();
        self.heads.lock().await.take();
        let found = search::find(&offers, terms, installable, &Selector::default()).await?;
        let found = if installable { found.installable() } else { found };
        found.value()
    }

    /// A package, maybe as one of its channels has it: `{package, picture, rows}` of `show --no-pull` and
    /// `graph`, and what `install` would do: `{chosen, refused, manifest}`.
    async fn package(
        &self,
        catalog: &str,
        package: &str,
        channel: Option<String>,
    ) -> anyhow::Result<Value> {
        let offers = self.offers.anew();
        let Some(summary) = offers.summary(catalog, package).await? else { return Ok(Value::Null) };
        let installed_as = search::installed_as(&offers.extensions().await?, package);
        let filter = CatalogFilter {
            package_name: package.to_owned(),
            channels: channel.iter().cloned().collect(),
            selector: Some(only(catalog)),
            ..CatalogFilter::default()
        };
        let offered = offers.offered(filter.clone()).await;
        let chosen = match &offered {
            Ok(offered) => chosen(offered),
            Err(error) => Err(anyhow::anyhow!("{}", one_line(error))),
        };
        // What is installed decides which way is drawn.
        let snapshot = match (&offers, installed_as.first()) {
            (Offers::Cluster(cluster), Some(name)) => cluster.snapshot(name).await,
            _ => offered,
        };
        let elsewhere = |(from, head): &(String, Value)| {
            from != catalog && head["name"].as_str() == Some(package)
        };
        // Without it the package of another catalog could be installed.
        let heads = self.heads().await;
        let selector = heads.is_ok_and(|heads| heads.iter().any(elsewhere)).then_some(catalog);
        let icon = self.icon(catalog, package).await;
        let filter = CatalogFilter { selector: selector.map(only), ..filter };
        let mut bundles = summary.bundles.iter();
        let chosen = chosen.map(|chosen| chosen.name);
        let bundle = bundles.find(|it| chosen.as_ref().is_ok_and(|name| *name == it.name));
        let namespace = bundle.and_then(|it| it.suggested_namespace.clone());
        let account = Account {
            namespace: namespace.unwrap_or_else(|| "NAMESPACE".to_owned()),
            name: install::installer(package),
        };
        let manifest = install::manifest(package, &account, &filter);
        let mut page = json!({"package": show::document(catalog, summary).value()?,
            "icon": icon.map(|(media_type, _)| media_type), "selector": selector,
            "installedAs": installed_as, "channel": channel,
            "manifest": olm_core::yaml::to_yaml(&manifest)});
        match chosen {
            Ok(name) => page["chosen"] = name.into(),
            Err(error) => page["refused"] = one_line(&error).into(),
        }
        match snapshot.and_then(|snapshot| graph::of_catalog(&snapshot, catalog)) {
            Ok(drawn) => {
                let place = [catalog, package].map(segment).join("/");
                page["picture"] = drawn.picture(&format!("../../bundle/{place}")).into();
                page["rows"] = drawn.draw(Format::Tree).into();
            }
            Err(error) => {
                page["unknown"] = json!([{"what": "the update graph", "why": one_line(&error)}]);
            }
        }
        Ok(page)
    }

    /// The document of `catalog list`.
    async fn catalogs(&self) -> anyhow::Result<Value> {
        match self.offers.anew() {
            Offers::Cluster(cluster) => {
                catalog::list::document(cluster.all_catalogs().await?).value()
            }
            Offers::Named(named) => {
                let catalogs = named.iter().map(Named::listed).collect();
                catalog::list::Catalogs { catalogs }.value()
            }
        }
    }

    /// The document of `catalog lint`.
    async fn findings(&self, name: &str) -> anyhow::Result<Value> {
        match self.offers.anew() {
            Offers::Cluster(cluster) => {
                let mut catalogs = cluster.all_catalogs().await?.iter();
                let Some(found) = catalogs.find(|it| it.name_any() == name) else {
                    return Ok(Value::Null);
                };
                let image = found.resolved_reference();
                self.findings_of(name, image.context("the catalog has not been read yet")?).await
            }
            Offers::Named(named) => match named.iter().find(|it| it.flag.name == name) {
                Some(found) => catalog::lint::answer(found.files().await?).await?.value(),
                None => Ok(Value::Null),
            },
        }
    }

    /// Returns the findings of an image, which is pulled once, also where the browser gives up meanwhile.
    async fn findings_of(&self, catalog: &str, image: &str) -> anyhow::Result<Value> {
        let place = self.findings.place(catalog, image).await;
        let image = image.to_owned();
        let read = async move || catalog::lint::answer(image_files(&image).await?).await?.value();
        tokio::spawn(async move { place.get_or_try_init(read).await.cloned() }).await?
    }
}

/// Returns an extension as a repository holds it: without what the cluster adds.
fn for_git(extension: &ClusterExtension) -> Value {
    let mut metadata = json!({"name": extension.name_any()});
    let annotations = extension.annotations().iter();
    let annotations: BTreeMap<_, _> =
        annotations.filter(|(key, _)| *key != annotation::LAST_APPLIED).collect();
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    if !extension.labels().is_empty() {
        metadata["labels"] = json!(extension.labels());
    }
    json!({"apiVersion": olm_api::API_VERSION, "kind": "ClusterExtension",
        "metadata": metadata, "spec": extension.spec})
}

/// Makes the plan of an extension, as pages show it.
async fn planned(cluster: &Cluster, extension: &ClusterExtension) -> anyhow::Result<Value> {
    let plan = plan::make(cluster, extension, None).await;
    let plan = plan.map_err(|error| anyhow::anyhow!(Failure::of(&error).text))?;
    let mut page = plan::page(&plan);
    page["release"] = approve::release(&plan).into();
    Ok(page)
}
