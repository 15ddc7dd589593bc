//! The state of a cluster for the commands: extensions with their revisions, catalogs, and the
//! content of the catalog server for a package. Everything is only read.

mod cache;
mod content;
mod said;
mod snapshot;

use std::sync::Arc;

use futures::future;
use futures::stream::{self, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::client::ClientBuilder;
use olm_api::keys::label;
use olm_api::keys::name::SYSTEM_NAMESPACE;
use olm_cluster::{
    built_in_kinds, classic_providers, installed, join_bounded, kinds, left_version, readable,
    without_secrets,
};
use olm_core::catalog::read::Meta;
use olm_core::extension::{KnownCatalog, Policy, Question, ValidExtension, going_back};
use olm_core::resolve::constraint::Breakage;
use olm_core::resolve::{self, CatalogProblem, Environment, Knowledge, Provider, UpdatePolicy};
use olm_core::revision::{self, Phase};
use olm_core::selector::Selector;
use olm_core::settings::{ControllerSettings, MissingOptionalKinds};
use olm_core::similar;
use olm_core::version::Version;
use tokio::sync::OnceCell;
use tower::util::{MapErrLayer, MapRequestLayer};

use content::CatalogTransport;
pub(crate) use content::{CatalogAccess, Kept, answers, heads};
pub(crate) use snapshot::ExtensionSnapshot;

use crate::connection::{Global, dry};
use crate::limit::limited;
use crate::output::{self, Failure, Outcome, one_line};
use crate::prelude::*;
use crate::settings::{Settings, SettingsFlags};

/// Catalogs that are fetched at the same time: few of the connections that the catalog server gives
/// to one address, which behind the API server is that of all clients.
const AT_ONCE: usize = 4;

/// A connection to a cluster, and what was read of it that does not depend on an extension.
pub(crate) struct Cluster {
    client: Client,
    transport: CatalogTransport,
    flags: SettingsFlags,
    settings: OnceCell<Settings>,
    catalogs: OnceCell<Vec<ClusterCatalog>>,
    state: OnceCell<ClusterState>,
    /// The installed bundles, with the kinds that they define.
    providers: OnceCell<Arc<Vec<Provider>>>,
}

/// The state of the cluster that is common to all extensions.
pub(crate) struct ClusterState {
    pub(crate) settings: Settings,
    /// The version, served kinds and installed bundles of the cluster, without the kinds that these
    /// define.
    pub(crate) environment: Environment,
    /// The installed revisions by the names of their extensions, which are the first providers.
    installed: Vec<(String, ClusterObjectSet)>,
}

impl ClusterState {
    pub(crate) fn controller(&self) -> &ControllerSettings {
        &self.settings.controller
    }

    /// Returns the groups of optional kinds whose objects wait, because the cluster does not serve
    /// them.
    pub(crate) fn unserved(&self) -> Vec<&'static str> {
        match self.controller().missing_optional_kinds {
            MissingOptionalKinds::Fail => Vec::new(),
            MissingOptionalKinds::Defer => self.environment.unserved(revision::OPTIONAL_GROUPS),
        }
    }
}

impl Cluster {
    /// Reads through a client.
    pub(crate) fn over(
        client: Client,
        access: &CatalogAccess,
        settings: &SettingsFlags,
    ) -> anyhow::Result<Self> {
        let transport = CatalogTransport::new(client.clone(), access, settings)?;
        Ok(Self::with(client, transport, settings.clone()))
    }

    fn with(client: Client, transport: CatalogTransport, flags: SettingsFlags) -> Self {
        Self {
            client,
            transport,
            flags,
            settings: OnceCell::new(),
            catalogs: OnceCell::new(),
            state: OnceCell::new(),
            providers: OnceCell::new(),
        }
    }

    /// Returns the same cluster with nothing read yet but whole catalogs that are kept.
    pub(crate) fn anew(&self) -> Self {
        Self::with(self.client.clone(), self.transport.clone(), self.flags.clone())
    }

    /// Reads whole catalogs instead of packages, and keeps them.
    pub(crate) fn keeping(mut self) -> Self {
        self.transport.whole = Some(Arc::default());
        self
    }

    /// Returns whether whole catalogs are read.
    pub(crate) fn is_keeping(&self) -> bool {
        self.transport.whole.is_some()
    }

    /// Makes a client as kubectl would with the same flags. Times that no client can hold are changed in
    /// what it reads ([`readable`]).
    pub(crate) async fn client(global: &Global) -> anyhow::Result<Client> {
        let client = Self::exact_client(global).await?;
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request| {
            let client = client.clone();
            async move { client.send(request).await.map(readable) }
        });
        Ok(Client::new(service, namespace))
    }

    /// Makes the same client for commands that write users' objects back: it changes nothing.
    pub(crate) async fn exact_client(global: &Global) -> anyhow::Result<Client> {
        let mut config = global.config()?;
        if let Some(user) = &global.impersonate {
            config.auth_info.impersonate = Some(user.clone());
            config.auth_info.impersonate_groups = Some(global.impersonate_groups.clone());
        }
        // It would send again for many minutes what a server refuses for want of time.
        config.default_retry = false;
        let api_server = config.cluster_url.clone();
        let without_secrets = without_secrets(&config.auth_info);
        // A credential plugin may take its time.
        let builder = tokio::task::spawn_blocking(|| ClientBuilder::try_from(config)).await?;
        let builder = builder
            .map_err(|error| kube::Error::Service(without_secrets(error.into())))
            .context("making a client")?
            .with_layer(&MapErrLayer::new(without_secrets));
        let client = match global.dry_run {
            None => builder.build(),
            Some(_) => builder.with_layer(&MapRequestLayer::new(dry)).build(),
        };
        Ok(limited(client, &api_server))
    }

    pub(crate) fn own_client(&self) -> &Client {
        &self.client
    }

    pub(crate) async fn extension(&self, name: &str) -> anyhow::Result<ClusterExtension> {
        if let Some(found) = self.find_extension(name).await? {
            return Ok(found);
        }
        // Who may not list them gets no hint.
        let hint = alike(name, &self.extensions().await.unwrap_or_default());
        let text = format!("there is no ClusterExtension {name:?}");
        Err(Failure { text, hint, outcome: Outcome::Failed }.into())
    }

    /// Reads the extensions with these names; fails if there is none with one of them.
    pub(crate) async fn named(&self, names: &[String]) -> anyhow::Result<Vec<ClusterExtension>> {
        let reading = names.iter().map(|name| self.extension(name)).collect();
        join_bounded(reading).await.into_iter().collect()
    }

    pub(crate) async fn find_extension(
        &self,
        name: &str,
    ) -> anyhow::Result<Option<ClusterExtension>> {
        let found = Api::<ClusterExtension>::all(self.client.clone()).get_opt(name).await;
        found.with_context(|| format!("reading ClusterExtension {name}"))
    }

    /// Reads all extensions, by name.
    pub(crate) async fn extensions(&self) -> anyhow::Result<Vec<ClusterExtension>> {
        let api = Api::<ClusterExtension>::all(self.client.clone());
        let listed = api.list(&ListParams::default()).await;
        let mut found = listed.context("listing ClusterExtensions")?.items;
        found.sort_by_key(ClusterExtension::name_any);
        Ok(found)
    }

    /// Returns all catalogs, by name; read once.
    pub(crate) async fn all_catalogs(&self) -> anyhow::Result<&[ClusterCatalog]> {
        let read = || async {
            let catalogs = Api::<ClusterCatalog>::all(self.client.clone());
            let catalogs = catalogs.list(&ListParams::default()).await;
            let mut catalogs = catalogs.context("listing ClusterCatalogs")?.items;
            catalogs.sort_by_key(ClusterCatalog::name_any);
            anyhow::Ok(catalogs)
        };
        self.catalogs.get_or_try_init(read).await.map(Vec::as_slice)
    }

    pub(crate) async fn catalog(client: &Client, name: &str) -> anyhow::Result<ClusterCatalog> {
        let api = Api::<ClusterCatalog>::all(client.clone());
        let found = api.get_opt(name).await;
        if let Some(found) = found.with_context(|| format!("reading ClusterCatalog {name}"))? {
            return Ok(found);
        }
        // Who may not list them gets no hint.
        let all = api.list(&ListParams::default()).await.map(|listed| listed.items);
        let hint = like(name, all.unwrap_or_default().iter().map(ClusterCatalog::name_any));
        let text = format!("there is no ClusterCatalog {name:?}");
        Err(Failure { text, hint, outcome: Outcome::Failed }.into())
    }

    /// Reads the revisions of an extension, the oldest first.
    pub(crate) async fn revisions(&self, extension: &str) -> anyhow::Result<Vec<ClusterObjectSet>> {
        let owned = ListParams::default().labels(&format!("{}={extension}", label::OWNER_NAME));
        let listed = Api::<ClusterObjectSet>::all(self.client.clone()).list(&owned).await;
        let listed = none_if_unserved(listed.map(|list| list.items));
        let mut found =
            listed.with_context(|| format!("listing the ClusterObjectSets of {extension}"))?;
        found
            .retain(|set| revision::extension_of(set).is_some_and(|owner| owner.name == extension));
        revision::sort(&mut found);
        Ok(found)
    }

    /// Reads an extension and everything that its resolution depends on.
    pub(crate) async fn snapshot(&self, name: &str) -> anyhow::Result<ExtensionSnapshot> {
        self.snapshot_of(&self.extension(name).await?).await
    }

    /// Reads everything that the resolution of an extension depends on.
    pub(crate) async fn snapshot_of(
        &self,
        extension: &ClusterExtension,
    ) -> anyhow::Result<ExtensionSnapshot> {
        let name = &extension.name_any();
        let valid = ValidExtension::of(extension);
        let valid = valid.with_context(|| format!("ClusterExtension {name:?} names no package"))?;
        let (state, revisions) = future::join(self.state(), self.revisions(name)).await;
        let (defaults, revisions) = (state?.controller().defaults(), revisions?);
        let (policy, now) = (Policy::of(extension.annotations(), defaults)?, Timestamp::now());
        let back = going_back(&policy, extension, &revisions, now)?;
        let mut question = Question::of(valid, policy, back.as_ref(), &revisions, now);
        if question.asks_what_ran(&revisions) {
            // What may not be read is not known.
            let left = left_version(&self.client, name, &question.filter.package_name).await;
            question.resume(left.unwrap_or_default());
        }
        // What the selector excludes is explained by its content.
        self.asked(name, question, &Selector::default()).await
    }

    /// Reads what the catalogs offer a new extension.
    pub(crate) async fn offers(&self, filter: CatalogFilter) -> anyhow::Result<ExtensionSnapshot> {
        let policy = Policy::of(&BTreeMap::new(), UpdatePolicy::Any)?;
        // An invalid selector is an error of the resolution.
        let read = Selector::new(filter.selector.as_ref()).unwrap_or_default();
        self.asked("", Question::new(filter, policy, Timestamp::now()), &read).await
    }

    /// Reads the state of the cluster, and the content of the catalogs that `read` selects.
    async fn asked(
        &self,
        name: &str,
        question: Question,
        read: &Selector,
    ) -> anyhow::Result<ExtensionSnapshot> {
        let (catalogs, state) = future::join(self.all_catalogs(), self.state()).await;
        let (catalogs, state) = (catalogs?, state?);
        // A catalog whose content cannot be fetched is not a failure: its problem says why.
        let known = catalogs.iter();
        let known = known.map(|catalog| self.known(catalog, &question.filter.package_name, read));
        let catalogs = few(known.collect()).await.into_iter().flatten().collect();
        let options = question.options(state.controller().resolution());
        let environment = Environment { resolving: name.to_owned(), ..state.environment.clone() };
        let is_named = false;
        let mut snapshot = ExtensionSnapshot { question, catalogs, environment, options, is_named };
        if let Some(kinds) = snapshot.counts_installed() {
            snapshot.environment.providers = self.providers(state, kinds).await;
        }
        Ok(snapshot)
    }

    /// Returns the installed bundles; with the kinds that they define, read once, if `kinds` or one
    /// of them asks for those.
    async fn providers(&self, state: &ClusterState, kinds: bool) -> Knowledge<Arc<Vec<Provider>>> {
        let known = match &state.environment.providers {
            Knowledge::Known(known) if kinds || known.iter().any(Provider::asks_for_kinds) => known,
            other => return other.clone(),
        };
        let reading = state.installed.iter().map(|(name, set)| async move {
            // As the controller: what cannot be read defines nothing.
            let phases = self.content(set).await.unwrap_or_default();
            revision::provider(name, set, revision::served_kinds(&phases))
        });
        let reading = reading.collect();
        let read = || async move {
            let classic = known.iter().skip(state.installed.len()).cloned();
            let mut all = few(reading).await;
            all.extend(classic);
            Arc::new(all)
        };
        Knowledge::Known(self.providers.get_or_init(read).await.clone())
    }

    /// Returns the other installed bundles that would break without an extension.
    pub(crate) async fn dependents(&self, extension: &str) -> anyhow::Result<Vec<Breakage>> {
        let state = self.state().await?;
        Ok(resolve::dependents(&Environment {
            resolving: extension.to_owned(),
            providers: self.providers(state, false).await,
            ..state.environment.clone()
        }))
    }

    /// Returns the head of every package by the name of its catalog, and which catalogs could not be
    /// read, and why.
    pub(crate) async fn packages(&self) -> anyhow::Result<(Packages, Vec<(String, String)>)> {
        let (mut found, mut unread) = (Packages::new(), Vec::new());
        let catalogs = self.all_catalogs().await?.iter();
        let enabled = catalogs.filter(|it| it.spec.availability() == AvailabilityMode::Available);
        let reading = enabled.map(|catalog| async move {
            (catalog.name_any(), self.transport.packages(catalog).await)
        });
        for (name, packages) in few(reading.collect()).await {
            match packages {
                Ok(blobs) => found.extend(blobs.into_iter().map(|blob| (name.clone(), blob))),
                Err(error) => unread.push((name, one_line(&error))),
            }
        }
        Ok((found, unread))
    }

    /// Returns the blobs that a catalog has of a package, and maybe others.
    pub(crate) async fn blobs(&self, catalog: &str, package: &str) -> anyhow::Result<Vec<Meta>> {
        let found = self.all_catalogs().await?.iter().find(|found| found.name_any() == catalog);
        let found = found.with_context(|| format!("there is no ClusterCatalog {catalog:?}"))?;
        self.transport.blobs(found, package).await
    }

    pub(crate) async fn content(&self, set: &ClusterObjectSet) -> anyhow::Result<Vec<Phase>> {
        let namespace = self.system_namespace().await;
        let namespace = namespace.unwrap_or_else(|_| SYSTEM_NAMESPACE.to_owned());
        Ok(olm_cluster::content(&self.client, set, &namespace).await?)
    }

    /// Returns the settings of the controller; read once.
    pub(crate) async fn settings(&self) -> anyhow::Result<&Settings> {
        let read = || self.flags.on_cluster(&self.client);
        self.settings.get_or_try_init(read).await
    }

    pub(crate) async fn system_namespace(&self) -> anyhow::Result<String> {
        let found = self.settings().await?.namespace.clone();
        let flagged = || self.flags.namespaces().first().copied().map(str::to_owned);
        found.or_else(flagged).context("the namespace of the controller is not known")
    }

    /// Fails where the controller is upstream's, which does not know an annotation that is to be
    /// written (plugin.md 5).
    pub(crate) async fn heeds(&self, key: &'static str) -> anyhow::Result<()> {
        if self.settings().await?.upstream {
            let text = "this cluster runs upstream's controller";
            return Err(Failure::failed(text, format!("upstream ignores {key}")));
        }
        Ok(())
    }

    /// Returns the state that does not depend on an extension; read once.
    pub(crate) async fn state(&self) -> anyhow::Result<&ClusterState> {
        self.state.get_or_try_init(|| Box::pin(self.read())).await
    }

    async fn read(&self) -> anyhow::Result<ClusterState> {
        let asked = future::join3(self.all_catalogs(), self.settings(), self.environment());
        // The catalogs are kept for the commands that need them, which report that they cannot be read.
        let (_, settings, environment) = asked.await;
        let settings = settings?;
        settings.say();
        let (environment, installed) = environment?;
        Ok(ClusterState { environment, installed, settings: settings.clone() })
    }

    /// Reads the state that constraints are judged by, and the installed revisions.
    async fn environment(&self) -> anyhow::Result<(Environment, Vec<(String, ClusterObjectSet)>)> {
        let client = &self.client;
        let served = async { kinds(client, built_in_kinds(client).await?).await };
        let classic = async {
            if self.settings().await?.controller.counts_classic() {
                return Ok(classic_providers(client).await);
            }
            anyhow::Ok(Ok(Vec::new()))
        };
        let params = ListParams::default();
        let installed = installed(client, &params);
        let version = client.apiserver_version();
        let (version, served, installed, classic) =
            future::join4(version, served, installed, classic).await;
        let version = version.context("reading the version of the cluster")?;
        let served = served.context("reading the served APIs")?;
        let installed = none_if_unserved(installed);
        let installed = installed.context("listing ClusterExtensions and ClusterObjectSets")?;
        let classic = classic?.context("listing ClusterServiceVersions");
        let providers = installed.iter();
        let providers = providers.map(|(name, set)| revision::provider(name, set, BTreeSet::new()));
        // As the controller: what depends on it is not known, and nothing else stops.
        let providers = match classic {
            Ok(classic) => Knowledge::Known(providers.chain(classic).collect::<Vec<_>>().into()),
            Err(error) => {
                output::notice(&format!(
                    "note: the installed bundles are not known: {}",
                    one_line(&error)
                ));
                Knowledge::Unreadable
            }
        };
        let environment = Environment {
            resolving: String::new(),
            kube_version: Version::of_kubernetes(&version.git_version),
            served: Knowledge::Known(served.into()),
            providers,
        };
        Ok((environment, installed))
    }

    async fn known(
        &self,
        catalog: &ClusterCatalog,
        package: &str,
        read: &Selector,
    ) -> Option<KnownCatalog> {
        let known = KnownCatalog::of(catalog)?;
        if !known.is_enabled() || !read.matches(&known.as_catalog().labels) {
            return Some(known);
        }
        let content = self.transport.content(catalog, package).await.map(Arc::new);
        Some(known.with(content.map_err(|error| CatalogProblem::FetchFailed(one_line(&error)))))
    }
}

/// Awaits a few at a time. They are in a list, so that a task may await it:
/// <https://github.com/rust-lang/rust/issues/89976>.
pub(crate) async fn few<T>(asked: Vec<impl Future<Output = T>>) -> Vec<T> {
    stream::iter(asked).buffered(AT_ONCE).collect().await
}

/// Heads of packages, each with the name of its catalog.
pub(crate) type Packages = Vec<(String, serde_json::Value)>;

/// Returns the selector of a single catalog.
pub(crate) fn only(catalog: &str) -> LabelSelector {
    let name = (label::METADATA_NAME.to_owned(), catalog.to_owned());
    LabelSelector { match_labels: Some([name].into()), ..LabelSelector::default() }
}

/// Takes a kind that is not served for one without objects: upstream's controller has no
/// ClusterObjectSets in its Helm mode.
fn none_if_unserved<T: Default>(listed: kube::Result<T>) -> kube::Result<T> {
    match listed {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(T::default()),
        listed => listed,
    }
}

/// Returns which extension may be meant by a name that none has: one that installs the package of this
/// name, else the one whose name is most like it.
pub(crate) fn alike(name: &str, all: &[ClusterExtension]) -> Option<String> {
    if let Some(of_package) = all.iter().find(|it| it.package() == Some(name)) {
        let extension = of_package.name_any();
        return Some(format!("ClusterExtension {extension:?} installs package {name:?}"));
    }
    like(name, all.iter().map(ClusterExtension::name_any))
}

/// Returns which of these names is most like one that is none of them.
fn like(name: &str, all: impl Iterator<Item = String>) -> Option<String> {
    let near = all.filter_map(|found| Some((similar::nearness(name, &found)?, found))).min();
    near.map(|(_, found)| format!("did you mean {found:?}?"))
}

/// Fails if a selector names a single catalog, and that is none of these.
pub(crate) fn refuse_absent(
    selector: Option<&LabelSelector>,
    all: impl Iterator<Item = String> + Clone,
) -> anyhow::Result<()> {
    let labels = selector.and_then(|selector| selector.match_labels.as_ref());
    let name = labels.and_then(|labels| labels.get(label::METADATA_NAME));
    match name {
        Some(name) if !all.clone().any(|known| known == *name) => {
            let (text, hint) = (format!("there is no catalog {name:?}"), like(name, all));
            Err(Failure { text, hint, outcome: Outcome::Failed }.into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use http::{Request, Response};
    use kube::client::Body;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::cases;

    #[test]
    fn a_name_that_no_extension_has() {
        let all = [("lamp", "lamp-operator"), ("lantern", "lantern")].map(|(name, package)| {
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"namespace": "n",
                "source": {"sourceType": "Catalog", "catalog": {"packageName": package}}}}))
            .unwrap()
        });
        for (case, (name, want)) in
            cases::<(String, Option<String>)>("a_name_that_no_extension_has")
        {
            assert_eq!(alike(&name, &all), want, "{case}");
        }
    }

    #[test]
    fn a_catalog_that_is_not_there_may_be_another() {
        let all = || ["demo", "red"].into_iter().map(str::to_owned);
        let refused = |name: &str| refuse_absent(Some(&only(name)), all());
        let failure = Failure::of(&refused("dmeo").unwrap_err());
        assert_eq!(failure.text, "there is no catalog \"dmeo\"");
        assert_eq!(failure.hint.as_deref(), Some("did you mean \"demo\"?"));
        assert!(refused("demo").is_ok());
        let labels = LabelSelector { match_labels: None, ..only("dmeo") };
        assert!(refuse_absent(Some(&labels), all()).is_ok());
    }

    enum Ask {
        Packages,
        Whole,
        Blobs,
        State,
    }

    fn catalog(name: &str) -> Value {
        let base = format!("https://catalogd-service.olmv1-system.svc/catalogs/{name}");
        json!({"metadata": {"name": name}, "status": {"urls": {"base": base}},
            "spec": {"source": {"type": "Image", "image": {"ref": "r/c:1"}}}})
    }

    /// The requests that an API server got, and how many of them were open at the same time.
    #[derive(Default)]
    struct Asked {
        paths: Vec<String>,
        open: usize,
        most: usize,
    }

    impl Asked {
        fn begin(&mut self, path: String) {
            self.paths.push(path);
            self.open += 1;
            self.most = self.most.max(self.open);
        }
    }

    /// Returns a cluster with two catalogs, whose server has nothing else.
    fn cluster() -> (Cluster, Arc<Mutex<Asked>>) {
        let asked = Arc::new(Mutex::new(Asked::default()));
        let seen = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let seen = Arc::clone(&seen);
            async move {
                let path = request.uri().path().to_owned();
                let missing = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                    "status": "Failure", "message": "no", "reason": "NotFound", "code": 404});
                let catalogs = json!({"metadata": {}, "items": [catalog("a"), catalog("b")]});
                let is_list = path.ends_with("/clustercatalogs");
                let (code, answer) = if is_list { (200, catalogs) } else { (404, missing) };
                seen.lock().unwrap().begin(path);
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                seen.lock().unwrap().open -= 1;
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        });
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let access = CatalogAccess { no_cache: true, ..CatalogAccess::default() };
        let client = Client::new(service, "default");
        (Cluster::over(client, &access, &SettingsFlags::default()).unwrap(), asked)
    }

    #[tokio::test]
    async fn catalogs_that_are_not_selected_are_not_read() {
        let (cluster, asked) = cluster();
        let selector = Selector::new(Some(&only("a"))).unwrap();
        for catalog in cluster.all_catalogs().await.unwrap() {
            cluster.known(catalog, "p", &selector).await;
        }
        let asked = asked.lock().unwrap();
        let of =
            |name: &str| asked.paths.iter().any(|it| it.contains(&format!("/catalogs/{name}/")));
        assert!(of("a") && !of("b"), "{:?}", asked.paths);
    }

    // Its own process has the catalogs on OpenShift.
    #[tokio::test]
    async fn the_published_ca_is_looked_for_wherever_the_controller_may_be() {
        let (cluster, asked) = cluster();
        assert!(cluster.transport.published().await.is_none());
        let of = |namespace| format!("/api/v1/namespaces/{namespace}/configmaps/olm-serving-ca");
        let want = ["olmv1-system", "openshift-operator-controller", "openshift-catalogd"].map(of);
        assert_eq!(asked.lock().unwrap().paths, want);
    }

    #[rstest]
    #[case::packages(Ask::Packages, 2)]
    #[case::whole_catalogs(Ask::Whole, 2)]
    #[case::parts_of_a_package(Ask::Blobs, 2)]
    #[case::state(Ask::State, 5)]
    #[tokio::test]
    async fn what_does_not_depend_on_another_answer_is_asked_at_once(
        #[case] ask: Ask,
        #[case] most: usize,
    ) {
        let (cluster, asked) = cluster();
        match ask {
            Ask::Packages => drop(cluster.packages().await),
            Ask::Whole => drop(cluster.keeping().packages().await),
            Ask::Blobs => drop(cluster.blobs("a", "p").await),
            Ask::State => drop(cluster.state().await),
        }
        let asked = asked.lock().unwrap();
        assert_eq!(asked.most, most, "{:?}", asked.paths);
        let lists = asked.paths.iter().filter(|it| it.ends_with("/clustercatalogs"));
        assert_eq!(lists.count(), 1);
    }
}
