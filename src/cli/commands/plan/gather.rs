//! What a plan is made from, read from the cluster, its catalogs and the registry.

use std::collections::BTreeMap;

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, ResourceExt as _};
use olm_api::keys::{annotation, name, policy};
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::bundle::Bundle;
use olm_core::error::Chain;
use olm_core::extension::{Source, ValidExtension, desired};
use olm_core::object::Object;
use olm_core::plan::{Before, Crds, Plan, Proposed};
use olm_core::preflight::definitions;
use olm_core::rbac::{BundleObjects, Permissions};
use olm_core::render::{
    CertificateProvider, CertificateRequest, CertificateSource, RolePlacement, Served, Settings,
    certificate_needs, choose_certificates, handover, render_configured,
};
use olm_core::resolve::Knowledge;
use olm_core::revision::{
    Account, BundleRecord, Desired, Phase, namespace_of, phases, states, unpack,
};
use olm_core::uninstall::Instances;
use serde_json::Value;

use crate::bundle_source::load_image;
use crate::cluster::{Cluster, ClusterState, ExtensionSnapshot};
use crate::commands::crd_check::live;
use crate::commands::rbac::live::{Question, compare};
use crate::output::{Outcome, notice};
use crate::target::pinned;

/// Why there is no plan.
pub(crate) struct Missing {
    pub(crate) outcome: Outcome,
    pub(crate) why: String,
}

impl From<anyhow::Error> for Missing {
    fn from(error: anyhow::Error) -> Self {
        Self {
            outcome: Outcome::Failed,
            why: format!("{error:#}"),
        }
    }
}

impl Missing {
    /// What a registry or a cluster did not tell.
    fn unknown(error: &anyhow::Error) -> Self {
        Self {
            outcome: Outcome::Unknown,
            why: format!("{error:#}"),
        }
    }
}

/// An extension as bundles are rendered for it.
struct Renderer<'a> {
    extension: ValidExtension<'a>,
    state: &'a ClusterState,
    /// Who issued its certificates before.
    recorded: Option<CertificateSource>,
    served: Served,
}

/// What a bundle becomes.
struct Content {
    phases: Vec<Phase>,
    requests: Vec<CertificateRequest>,
}

/// Makes the plan of an extension; with `to`, as if that version were asked for.
pub(crate) async fn make(
    cluster: &Cluster,
    extension: &ClusterExtension,
    to: Option<&str>,
) -> Result<Plan, Missing> {
    let mut snapshot = cluster.snapshot_of(extension).await?;
    let question = &mut snapshot.question;
    question.filter.version = to.map(str::to_owned).or(question.filter.version.take());
    let course = {
        let (catalogs, options) = (snapshot.catalogs(), &snapshot.options);
        let question = &snapshot.question;
        let environment = question.environment(&catalogs, options, &snapshot.environment);
        let course = question.course(&catalogs, &environment, options);
        course.map_err(|error| anyhow::anyhow!("{}", Chain(&error)))?
    };
    let valid = ValidExtension::of(extension).context("it names no package")?;
    let state = cluster.state().await?;
    let account = state.controller().accounts().of_extension(extension);
    let account = account.context("it names no service account")?;
    let revisions = cluster.revisions(&extension.name_any()).await?;
    let renderer = Renderer::new(valid, state, &snapshot, &revisions);
    let loaded = load_image(&course.target.image).await;
    let (bundle, digest) = loaded.map_err(|error| Missing::unknown(&error))?;
    let content = renderer.content(&bundle, &course.target)?;
    let source = Source {
        bundle: &course.target,
        digest: &digest,
        properties: properties(&bundle),
        phases: &content.phases,
    };
    let desired = desired(valid, &account, source);
    let client = cluster.own_client();
    let installed = states(&revisions).installed;
    let before = match installed {
        None => None,
        Some(set) => Some(renderer.before(client, set).await?),
    };
    let old: &[Object] = before.as_ref().map_or(&[], |before| &before.objects);
    Ok(Plan::of(&Proposed {
        extension: valid,
        policy: &snapshot.question.policy,
        course: &course,
        missing: missing(client, state, &account, (&desired, &content.requests)).await,
        crds: crds(client, &desired, old).await,
        before,
        desired: &desired,
        rules: state.controller().crd_rules(),
        now: Timestamp::now(),
    }))
}

impl<'a> Renderer<'a> {
    fn new(
        extension: ValidExtension<'a>,
        state: &'a ClusterState,
        snapshot: &ExtensionSnapshot,
        revisions: &[ClusterObjectSet],
    ) -> Self {
        let recorded = revisions.iter().rev().find_map(|set| {
            let recorded = set.annotations().get(policy::WEBHOOK_CERTIFICATES)?;
            recorded.parse().ok()
        });
        let serves = |group: &str, kind: Option<&str>| match &snapshot.environment.served {
            Knowledge::Known(served) => served
                .kinds
                .iter()
                .any(|one| one.group == group && kind.is_none_or(|kind| one.kind == kind)),
            _ => false,
        };
        Self {
            extension,
            state,
            recorded,
            served: Served {
                openshift: serves("config.openshift.io", None),
                cert_manager: serves("cert-manager.io", Some("Certificate")),
            },
        }
    }

    /// Renders a bundle as the controller does.
    fn content(&self, bundle: &Bundle, target: &BundleRecord) -> anyhow::Result<Content> {
        let namespace = &self.extension.spec.namespace;
        let needs = certificate_needs(bundle, namespace);
        let settings = self.state.controller();
        let asked = settings.certificates();
        let source = || choose_certificates(asked, self.recorded, self.served, &needs);
        let provider = (!needs.requests.is_empty()).then(|| match source() {
            CertificateSource::CertManager => CertificateProvider::CertManager,
            CertificateSource::ServiceCa => CertificateProvider::ServiceCa,
            CertificateSource::SelfSigned => CertificateProvider::SelfSigned {
                ca_bundle: String::new(),
            },
        });
        let inline = self.extension.inline_config();
        let rendered = render_configured(
            bundle,
            &Settings {
                install_namespace: namespace,
                inline: inline.as_ref(),
                features: settings.features(),
                role_placement: RolePlacement::default(),
                certificates: provider,
            },
        )?;
        let name = self.extension.object.name_any();
        let objects = handover::prepare_for_revision(
            rendered.objects,
            &name,
            &target.package,
            &target.version,
        );
        Ok(Content {
            phases: phases(objects)?,
            requests: rendered.certificate_requests,
        })
    }

    /// Reads what is installed; where that is not possible, what its bundle becomes now.
    async fn before(
        &self,
        client: &Client,
        set: &'a ClusterObjectSet,
    ) -> Result<Before<'a>, Missing> {
        let bundle = BundleRecord::of(set);
        let objects = match stored(client, set).await {
            Ok(objects) => objects,
            Err(error) => {
                notice(&format!(
                    "note: compared with what {} becomes now, its content cannot be read: {error:#}",
                    bundle.name
                ));
                let loaded = load_image(&pinned(&bundle, set)?).await;
                let (loaded, _) = loaded.map_err(|error| Missing::unknown(&error))?;
                let content = self.content(&loaded, &bundle)?;
                let phases = content.phases.into_iter();
                phases.flat_map(|phase| phase.objects).collect()
            }
        };
        let properties = set.annotations().get(annotation::PROPERTIES);
        Ok(Before {
            bundle,
            properties: properties.map(String::as_str),
            objects,
        })
    }
}

fn properties(bundle: &Bundle) -> Option<&str> {
    let properties = bundle.csv.annotations.get(annotation::PROPERTIES);
    properties.map(String::as_str)
}

/// Reads the objects that a revision holds.
async fn stored(client: &Client, set: &ClusterObjectSet) -> anyhow::Result<Vec<Object>> {
    let mut secrets: BTreeMap<(String, String), Secret> = BTreeMap::new();
    let mut objects = Vec::new();
    for entry in set.spec.phases.iter().flat_map(|phase| &phase.objects) {
        if let Some(inline) = &entry.object {
            objects.extend(Object::from_value(inline.clone()));
        }
        let Some(stored) = entry.ref_.as_ref().filter(|_| entry.object.is_none()) else {
            continue;
        };
        let place = (
            namespace_of(stored, name::SYSTEM_NAMESPACE),
            stored.name.clone(),
        );
        if !secrets.contains_key(&place) {
            let api = Api::<Secret>::namespaced(client.clone(), &place.0);
            let secret = api.get(&place.1).await;
            let secret = secret.with_context(|| format!("reading Secret {}/{}", place.0, place.1));
            secrets.insert(place.clone(), secret?);
        }
        let data = secrets[&place].data.as_ref();
        let data = data.and_then(|data| data.get(&stored.key));
        let data = data.with_context(|| format!("Secret {} lacks a key", stored.name))?;
        objects.push(unpack(&stored.name, &stored.key, &data.0)?);
    }
    Ok(objects)
}

/// Returns the rights that the account lacks, or why they are not known.
async fn missing(
    client: &Client,
    state: &ClusterState,
    account: &Account,
    (desired, requests): (&Desired, &[CertificateRequest]),
) -> Result<Permissions, String> {
    let objects = desired.phases.iter().flat_map(|phase| &phase.objects);
    let secrets = requests.iter().map(CertificateRequest::secret_object);
    let objects: Vec<Object> = objects.cloned().chain(secrets).collect();
    let question = Question {
        bundles: &[BundleObjects {
            name: &desired.extension.name,
            objects: &objects,
        }],
        account,
        granted: &Permissions::default(),
        unserved: &state.unserved(),
    };
    let found = compare(client, &question).await;
    found
        .map(|found| found.missing)
        .map_err(|error| format!("{error:#}"))
}

/// Reads the CRDs that a revision would replace, and those that it does not have any more.
async fn crds(client: &Client, desired: &Desired, old: &[Object]) -> Result<Crds, String> {
    let failed = |error: anyhow::Error| format!("{error:#}");
    let kept: Vec<String> = definitions(desired)
        .map(|crd| crd.name().to_owned())
        .collect();
    let leaving: Vec<String> = old
        .iter()
        .filter(|object| object.kind() == "CustomResourceDefinition")
        .map(|crd| crd.name().to_owned())
        .filter(|name| !kept.contains(name))
        .collect();
    let mut crds = Crds {
        live: live(client, kept.iter()).await.map_err(failed)?,
        leaving: BTreeMap::new(),
    };
    for (name, crd) in live(client, leaving.iter()).await.map_err(failed)? {
        let counted = count(client, &crd).await;
        let counted = counted.map_or_else(
            |error| Instances::Unknown(failed(error)),
            Instances::Counted,
        );
        crds.leaving.insert(name, counted);
    }
    Ok(crds)
}

/// Counts the objects of a CRD.
async fn count(client: &Client, crd: &Value) -> anyhow::Result<u64> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let versions = crd["spec"]["versions"].as_array();
    let mut versions = versions.into_iter().flatten();
    let version = versions.find(|version| version["served"] == true);
    let version = version.map(|version| text(&version["name"]));
    let version = version.context("no version is served")?;
    let group = text(&crd["spec"]["group"]);
    let resource = ApiResource {
        api_version: format!("{group}/{version}"),
        kind: text(&crd["spec"]["names"]["kind"]),
        plural: text(&crd["spec"]["names"]["plural"]),
        group,
        version,
    };
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let found = api.list_metadata(&ListParams::default().limit(1)).await?;
    let more = found.metadata.remaining_item_count.unwrap_or_default();
    Ok(u64::try_from(found.items.len())? + u64::try_from(more)?)
}
