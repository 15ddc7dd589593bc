//! Answers of the API server by the name of the question; a refusal is an answer too.

use jiff::fmt::rfc2822;
use kube::ResourceExt;
use olm_api::keys::name;
use olm_cluster::{join_bounded, reviews};
use olm_core::object::items;
use olm_core::rbac::{Permissions, lines};
use olm_core::revision::Account;
use olm_core::rights::Half;

use crate::cluster::answers;
use crate::commands::prelude::*;

pub(super) const VERSION: &str = "version";
pub(super) const CATALOGS: &str = "clustercatalogs";
pub(super) const EXTENSIONS: &str = "clusterextensions";
pub(super) const REVISIONS: &str = "clusterobjectsets";
/// Revisions of upstream before they were ClusterObjectSets.
pub(super) const OLDER_REVISIONS: &str = "clusterextensionrevisions";
pub(super) const DEPLOYMENTS: &str = "deployments";
pub(super) const PODS: &str = "pods";
/// Why the servers of catalogs do not answer, by the name of the catalog.
pub(super) const SERVERS: &str = "catalog-servers";
pub(super) const CONFIG: &str = "configmaps";
pub(super) const LEASES: [&str; 2] = [name::LEASE_OPERATOR_CONTROLLER, name::LEASE_CATALOGD];
pub(super) const POLICIES: &str = "validatingadmissionpolicies";
/// The rights that the accounts of the controllers lack.
pub(super) const RIGHTS: &str = "controller-rights";
pub(super) const BINDINGS: &str = "validatingadmissionpolicybindings";

/// The other questions: name and path. Our objects, and those of upstream, carry a label.
const QUESTIONS: &str = include_str!("questions.tsv");

/// The name of the question for a CRD of ours.
pub(super) fn crd(kind: &str) -> String {
    format!("{kind}.olm.operatorframework.io")
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The requested object does not exist.
    Absent,
    /// The caller may not know, or the API server did not answer.
    Failed(String),
}

/// Every answer of one reading.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) answers: BTreeMap<String, Result<Value, Refusal>>,
    /// The time of the reads, by the clock of this machine.
    pub(super) now: Timestamp,
    /// The clock of the API server at that time.
    pub(super) server_time: Option<Timestamp>,
}

/// Returns every question: its name and its path.
fn questions() -> impl Iterator<Item = (String, String)> {
    let named = |question: &str, resource: &str, name: &str| {
        (question.to_owned(), format!("{resource}?fieldSelector=metadata.name%3D{name}"))
    };
    let leases = "/apis/coordination.k8s.io/v1/leases";
    let leases = LEASES.map(|lease| named(lease, leases, lease));
    let config = named(CONFIG, "/api/v1/configmaps", name::CONTROLLER_CONFIG);
    let others = QUESTIONS.lines().filter_map(|row| row.split_once('\t'));
    let others = others.map(|(question, path)| (question.to_owned(), path.to_owned()));
    others.chain(leases).chain([config])
}

impl Facts {
    /// Asks everything. What cannot be known stands in the answer.
    pub(super) async fn read(client: &Client) -> Self {
        let (version, server_time) = version(client).await;
        let asked = questions().map(async |(name, path)| (name, get(client, &path).await));
        let asked: Vec<_> = asked.collect();
        let mut answers: BTreeMap<_, _> = join_bounded(asked).await.into_iter().collect();
        answers.insert(VERSION.to_owned(), version);
        let mut facts = Self { answers, now: Timestamp::now(), server_time };
        let servers = facts.servers(client).await;
        facts.answers.insert(SERVERS.to_owned(), servers);
        let pods = facts.pods(client).await;
        facts.answers.insert(PODS.to_owned(), pods);
        let rights = facts.rights(client).await;
        facts.answers.insert(RIGHTS.to_owned(), rights);
        facts
    }

    async fn pods(&self, client: &Client) -> Result<Value, Refusal> {
        let mut all = Vec::new();
        for namespace in self.namespaces()? {
            let mut listed = get(client, &format!("/api/v1/namespaces/{namespace}/pods")).await?;
            if let Some(items) = listed["items"].as_array_mut() {
                all.append(items);
            }
        }
        Ok(json!({ "items": all }))
    }

    /// Namespaces with a Deployment of a controller.
    fn namespaces(&self) -> Result<BTreeSet<String>, Refusal> {
        let deployments: Vec<Value> = self.items(DEPLOYMENTS)?;
        let named = deployments.iter().filter_map(|it| it["metadata"]["namespace"].as_str());
        Ok(named.map(str::to_owned).collect())
    }

    /// Returns those of the items that belong to a controller, by their namespace: anyone may create
    /// an object with the same name. Returns all of them if no controller is known.
    pub(super) fn of_controllers<T: ResourceExt>(&self, mut items: Vec<T>) -> Vec<T> {
        let deployments: Vec<Value> = self.items(DEPLOYMENTS).unwrap_or_default();
        let places: BTreeSet<_> = deployments.iter().flat_map(places).collect();
        items.retain(|item| {
            places.is_empty() || item.namespace().is_some_and(|it| places.contains(it.as_str()))
        });
        items
    }

    /// Asks what the accounts of the controllers lack of what they need.
    async fn rights(&self, client: &Client) -> Result<Value, Refusal> {
        let mut needed = BTreeMap::<Account, Permissions>::new();
        for deployment in self.items::<Value>(DEPLOYMENTS)? {
            let (account, rights) = needs(&deployment);
            needed.entry(account).or_default().extend(&rights);
        }
        let mut all = Vec::new();
        for (account, needed) in needed {
            let missing = lacking(client, &account, &needed).await.map_err(refusal)?;
            all.push(json!({"account": account.to_string(), "missing": lines(&missing)}));
        }
        Ok(json!({ "items": all }))
    }

    pub(super) fn one(&self, name: &str) -> Result<&Value, Refusal> {
        match self.answers.get(name) {
            Some(Ok(value)) => Ok(value),
            Some(Err(refusal)) => Err(refusal.clone()),
            None => Err(Refusal::Absent),
        }
    }

    /// Asks the servers of the catalogs; those that answer are left out.
    async fn servers(&self, client: &Client) -> Result<Value, Refusal> {
        let catalogs: Vec<ClusterCatalog> = self.items(CATALOGS)?;
        let asked = catalogs.iter().map(async |catalog| {
            let why = answers(client, catalog).await?.err()?;
            Some((catalog.name_any(), Value::from(why)))
        });
        let silent = join_bounded(asked.collect()).await;
        Ok(Value::Object(silent.into_iter().flatten().collect()))
    }

    pub(super) fn items<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>, Refusal> {
        let read = items(&self.one(name)?["items"]).map(|item| T::deserialize(item));
        let read: Result<_, _> = read.collect();
        read.map_err(|error| Refusal::Failed(format!("{name}: {error}")))
    }
}

/// Returns the arguments of a controller's Deployment.
pub(super) fn args(deployment: &Value) -> impl Iterator<Item = &str> {
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    items(args).filter_map(Value::as_str)
}

/// Returns the namespaces of a controller's Deployment, and those that it is told to use.
fn places(deployment: &Value) -> impl Iterator<Item = &str> {
    let told = args(deployment).filter_map(|arg| match arg.split_once('=')? {
        ("--extension-lease" | "--catalog-lease", lease) => Some(lease.split_once('/')?.0),
        ("--system-namespace", namespace) => Some(namespace),
        _ => None,
    });
    deployment["metadata"]["namespace"].as_str().into_iter().chain(told)
}

/// Returns the account of a controller's Deployment, and what it needs.
fn needs(deployment: &Value) -> (Account, Permissions) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pod = &deployment["spec"]["template"]["spec"];
    let account = Account {
        namespace: text(&deployment["metadata"]["namespace"]),
        name: text(&pod["serviceAccountName"]),
    };
    let value = |flag: &str| args(deployment).find_map(|arg| arg.strip_prefix(flag));
    let components = value("--components=");
    let runs = |part: &str| components.is_none_or(|all| all.split(',').any(|it| it == part));
    let halves = [
        (Half::Extensions, runs("extensions") || runs("gate"), "--extension-lease="),
        (Half::Catalogs, runs("catalogs"), "--catalog-lease="),
    ];
    let mut needed = Permissions::default();
    for (half, _, flag) in halves.into_iter().filter(|(_, runs, _)| *runs) {
        let default = (account.namespace.as_str(), half.lease());
        let lease = value(flag).map_or(Some(default), |place| place.split_once('/'));
        needed.extend(&half.needed(&account.namespace, lease));
    }
    (account, needed)
}

/// Returns which of the rights that an account needs it does not have.
pub(super) async fn lacking(
    client: &Client,
    account: &Account,
    needed: &Permissions,
) -> kube::Result<Permissions> {
    let needed: Vec<_> = needed.iter().collect();
    let answers = reviews(client, account, &needed).await;
    let mut missing = Permissions::default();
    for (answer, (namespace, right)) in answers.into_iter().zip(needed) {
        if !answer? {
            missing.insert(namespace, right.clone());
        }
    }
    Ok(missing)
}

/// Asks for a path; the value as the API server has it.
pub(super) async fn get(client: &Client, path: &str) -> Result<Value, Refusal> {
    olm_cluster::get(client, path).await.map_err(refusal)
}

pub(super) fn refusal(error: kube::Error) -> Refusal {
    match error {
        kube::Error::Api(status) if status.code == 404 => Refusal::Absent,
        error => Refusal::Failed(failure(&error)),
    }
}

/// Returns the version of the API server, and its clock.
async fn version(client: &Client) -> (Result<Value, Refusal>, Option<Timestamp>) {
    let answer = async {
        let request = http::Request::get("/version").body(kube::client::Body::empty())?;
        let response = client.send(request).await?;
        let date = response.headers().get(http::header::DATE);
        let date = date.and_then(|date| rfc2822::parse(date.to_str().ok()?).ok());
        let bytes = response.into_body().collect_bytes().await?;
        anyhow::Ok((serde_json::from_slice(&bytes)?, date.map(|date| date.timestamp())))
    };
    match answer.await {
        Ok((version, date)) => (Ok(version), date),
        Err(error) => (Err(Refusal::Failed(one_line(&error))), None),
    }
}
