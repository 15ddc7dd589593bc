//! `kubectl olm browse`: what the verbs answer, in a browser.
//!
//! Every document comes from the verb that prints it; the pages are made in `web`. Source: plugin.md 4.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use olm_api::keys::annotation;
use olm_core::rbac::Account;
use olm_core::selector::Selector;
use tokio::sync::{Mutex, OnceCell};

use super::{approve, catalog, graph, history, install, plan, rbac, search, show, status, why};
use crate::catalogs::{Catalogs, image_files};
use crate::cluster::{CatalogAccess, Packages, Whole, only};
use crate::commands::prelude::*;
use crate::document::Tree;
use crate::graph::segment;
use crate::offers::{Named, Offers, icon};
use crate::web::{self, Ask, Documents, Gate, Icon, Part, Site};

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
    let source = if offline {
        args.lookup.on.settings.refuse("no --from is given")?;
        let named = args.lookup.named().await?;
        Source::Named(Arc::new(named), args.lookup.on.access.catalog_ca)
    } else {
        let client = Cluster::client(&global).await?;
        Source::Cluster(client, args.lookup.on.access, Box::new(args.lookup.on.settings))
    };
    let verbs = Verbs {
        source,
        global,
        whole: Whole::default(),
        heads: Mutex::default(),
        findings: Mutex::default(),
    };
    let of = verbs.of();
    let listener = TcpListener::bind(SocketAddr::new(args.address, args.port))
        .with_context(|| format!("listening on {} port {}", args.address, args.port))?;
    let gate = Gate::new(listener.local_addr()?)?;
    writeln!(out, "{}", gate.url())?;
    out.flush()?;
    if args.open {
        open(&gate.opening_url()?);
    }
    web::serve(listener, Site::new(gate, Arc::new(verbs), (of, offline))).await?;
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

/// The source of the documents.
enum Source {
    Cluster(Client, CatalogAccess, Box<SettingsFlags>),
    /// With the file of CA certificates of their servers.
    Named(Arc<Vec<Named>>, Option<PathBuf>),
}

/// The verbs behind the pages.
struct Verbs {
    source: Source,
    global: Global,
    /// Whole catalogs of the cluster.
    whole: Whole,
    /// The heads of packages as they were read last, for their icons.
    heads: Mutex<Option<Arc<Packages>>>,
    findings: Mutex<Findings>,
}

/// Catalogs of the cluster by name, each with its image and the document of what was found in that.
type Findings = BTreeMap<String, (String, Arc<OnceCell<Value>>)>;

impl Documents for Verbs {
    fn answer(&self, ask: Ask) -> BoxFuture<'_, anyhow::Result<Value>> {
        async move {
            match ask {
                Ask::Installed => status::document(&self.cluster()?.extensions().await?).value(),
                Ask::Extension(name) => Box::pin(self.extension(&name)).await,
                Ask::Part(part, name) => self.part(part, &name).await,
                Ask::Packages { terms, installable } => {
                    let offers = self.offers()?;
                    self.heads.lock().await.take();
                    let found =
                        search::find(&offers, &terms, installable, &Selector::default()).await?;
                    let found = if installable { found.installable() } else { found };
                    found.value()
                }
                Ask::Package { catalog, package, channel } => {
                    self.package(&catalog, &package, channel).await
                }
                Ask::Catalogs => self.catalogs().await,
                Ask::Findings(name) => self.findings(&name).await,
            }
        }
        .boxed()
    }

    fn icon<'a>(&'a self, catalog: &'a str, package: &'a str) -> BoxFuture<'a, Option<Icon>> {
        async move {
            let heads = self.heads().await.ok()?;
            let is_meant = |(from, head): &&(String, Value)| {
                from == catalog && head["name"].as_str() == Some(package)
            };
            icon(&heads.iter().find(is_meant)?.1)
        }
        .boxed()
    }
}

impl Verbs {
    /// Returns the name of the source: `cluster lab (as admin)`.
    fn of(&self) -> String {
        let Source::Cluster(..) = self.source else { return "catalogs only".to_owned() };
        let config = self.global.read_kubeconfig().unwrap_or_default();
        let context = self.global.context.clone().or(config.current_context);
        let found = config.contexts.into_iter().find(|it| Some(&it.name) == context.as_ref());
        let user = found.and_then(|it| it.context?.user);
        let user = self.global.impersonate.clone().or(user);
        let user = user.map_or_else(String::new, |user| format!(" (as {user})"));
        format!("cluster {}{user}", context.as_deref().unwrap_or("of this machine"))
    }

    /// Returns the cluster with nothing read yet but catalogs that are still the same: each page shows
    /// what is so now.
    fn cluster(&self) -> anyhow::Result<Cluster> {
        match &self.source {
            Source::Cluster(client, access, settings) => {
                let cluster = Cluster::over(client.clone(), access, settings)?;
                Ok(cluster.keeping(self.whole.clone()))
            }
            Source::Named(..) => anyhow::bail!("there is no cluster, only catalogs"),
        }
    }

    fn offers(&self) -> anyhow::Result<Offers> {
        match &self.source {
            Source::Cluster(..) => Ok(Offers::Cluster(Box::new(self.cluster()?))),
            Source::Named(named, _) => Ok(Offers::Named(Arc::clone(named))),
        }
    }

    async fn heads(&self) -> anyhow::Result<Arc<Packages>> {
        let mut known = self.heads.lock().await;
        if let Some(heads) = &*known {
            return Ok(Arc::clone(heads));
        }
        let (heads, _) = self.offers()?.heads().await?;
        Ok(Arc::clone(known.insert(Arc::new(heads))))
    }

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
                json!({"name": name, "unknown": [{"what": part, "why": one_line(&error)}]})
            }
        })
    }

    async fn package(
        &self,
        catalog: &str,
        package: &str,
        channel: Option<String>,
    ) -> anyhow::Result<Value> {
        let offers = self.offers()?;
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

    async fn catalogs(&self) -> anyhow::Result<Value> {
        match &self.source {
            Source::Cluster(..) => {
                catalog::list::document(self.cluster()?.all_catalogs().await?).value()
            }
            Source::Named(named, _) => {
                let catalogs = named.iter().map(Named::listed).collect();
                catalog::list::Catalogs { catalogs }.value()
            }
        }
    }

    async fn findings(&self, name: &str) -> anyhow::Result<Value> {
        match &self.source {
            Source::Cluster(..) => {
                let cluster = self.cluster()?;
                let mut catalogs = cluster.all_catalogs().await?.iter();
                let Some(found) = catalogs.find(|it| it.name_any() == name) else {
                    return Ok(Value::Null);
                };
                let image = found.resolved_reference();
                self.findings_of(name, image.context("the catalog has not been read yet")?).await
            }
            Source::Named(named, authorities) => {
                let Some(found) = named.iter().find(|it| it.flag.name == name) else {
                    return Ok(Value::Null);
                };
                let files = Catalogs::new(authorities.clone()).files(&found.flag.place).await?;
                catalog::lint::answer(files).await?.value()
            }
        }
    }

    /// Returns the findings of an image, which is pulled once, also where the browser gives up meanwhile.
    async fn findings_of(&self, catalog: &str, image: &str) -> anyhow::Result<Value> {
        let cell = {
            let mut known = self.findings.lock().await;
            let (of, cell) = known.entry(catalog.to_owned()).or_default();
            if of != image {
                (*of, *cell) = (image.to_owned(), Arc::default());
            }
            Arc::clone(cell)
        };
        let image = image.to_owned();
        let read = async move || catalog::lint::answer(image_files(&image).await?).await?.value();
        tokio::spawn(async move { cell.get_or_try_init(read).await.cloned() }).await?
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
