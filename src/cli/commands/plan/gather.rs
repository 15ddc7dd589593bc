//! The input of a plan, read from the cluster, its catalogs and the registry.

use std::error::Error;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use olm_api::UpdateStatus;
use olm_api::conditions::Reason;
use olm_api::keys::annotation;
use olm_cluster::{crds, leaving, reviews};
use olm_core::bundle::{Bundle, BundleError};
use olm_core::extension::holds::{Judgement, RbacPreflight, definitions};
use olm_core::extension::{
    Course, Extras, Policy, Rendering, RevisionSource, StepRights, ValidExtension, desired,
    going_back, issued_again, recorded_issuer, said,
};
use olm_core::plan::{self, Before, Crds, Plan, Proposed};
use olm_core::rbac::{Held, Permissions, trimming};
use olm_core::render::{
    CertificateRequest, CertificateSource, Served, certificate_needs, choose_certificates,
    secret_object,
};
use olm_core::resolve::{Knowledge, ServedKinds};
use olm_core::revision::{
    Account, Decision, Desired, Origin, Phase, compare as changed, is_of_classic, phases,
};
use olm_core::rights::OPENSHIFT;
use olm_core::status::Note;

use crate::bundle_source::load_image;
use crate::cluster::ClusterState;
use crate::commands::cluster_check::platform;
use crate::commands::crd_check::unread;
use crate::commands::prelude::*;
use crate::commands::rbac::live::compare;
use crate::target::{account, pinned, warn_of_deprecation};

/// No bundle can be chosen.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Unresolved {
    text: String,
    /// What stands in the way, if the text does not tell.
    pub(super) obstacle: Option<String>,
}

impl Unresolved {
    pub(super) fn of(error: impl Error, obstacle: Option<String>) -> Self {
        Self { text: Chain(&error).to_string(), obstacle }
    }
}

/// Judges an error of a registry or a cluster: the plan is not known. A bundle that cannot be parsed is
/// refused.
fn unknown(error: &anyhow::Error) -> anyhow::Error {
    let is_read = error.is::<BundleError>();
    let outcome = if is_read { Outcome::Failed } else { Outcome::Unknown };
    Failure { outcome, ..Failure::of(error) }.into()
}

/// An extension as bundles are rendered for it.
struct Renderer<'a> {
    extension: ValidExtension<'a>,
    state: &'a ClusterState,
    /// The previous issuer of its certificates.
    recorded: Option<CertificateSource>,
    served: Served,
    extras: Extras,
}

/// Said of an extension that was moved.
const UNCHANGED: &str = "the running objects are unchanged since OLM Classic; these changes are \
                         applied with the next version";

/// Makes the plan of an extension; with `to`, of a step to that version under its present spec.
pub(crate) async fn make(
    cluster: &Cluster,
    extension: &ClusterExtension,
    to: Option<&str>,
) -> anyhow::Result<Plan> {
    changes::refuse_deleted(extension)?;
    let mut snapshot = cluster.snapshot_of(extension).await?;
    let answer = cluster.answer(extension, &snapshot).await.ok();
    let said = said(extension, &snapshot.question, answer.as_ref());
    let revisions = cluster.revisions(&extension.name_any()).await?;
    let question = &mut snapshot.question;
    let going = going_back(&question.policy, extension, &revisions, question.now);
    let going = going?.filter(|going| !going.is_made);
    if let (Some(going), None) = (going, to) {
        // It is made of what that revision holds, not of its bundle.
        let plan = back(cluster, extension, going.source).await?;
        return Ok(Plan { controller: said, ..plan });
    }
    question.filter.version = to.map(str::to_owned).or(question.filter.version.take());
    let course = course(&snapshot, to.is_some())?;
    let mut notes = warn_of_deprecation(&snapshot, platform(cluster)).await;
    let valid = ValidExtension::of(extension).context("it names no package")?;
    let account = account(extension, cluster).await?;
    let served = issuers(&snapshot.environment.served).map_err(|error| unknown(&error))?;
    let additions = snapshot.question.policy.additions.clone();
    let proxy = cluster.proxies(&additions).await.map_err(|error| unknown(&error))?;
    let renderer = Renderer {
        extension: valid,
        state: cluster.state().await?,
        recorded: recorded_issuer(&revisions),
        served,
        extras: Extras { additions, proxy },
    };
    let loaded = load_image(&course.target.image).await;
    let (bundle, digest) = loaded.map_err(|error| unknown(&error))?;
    let (phases, requests) = renderer.content(&bundle, &course.target)?;
    let source = RevisionSource {
        bundle: &course.target,
        digest: &digest,
        properties: properties(&bundle),
        phases: &phases,
    };
    let before = match states(&revisions).installed {
        None => None,
        Some(set) => Some(renderer.before(cluster, set, &mut notes).await?),
    };
    let question = &snapshot.question;
    let operator = cluster.operator(question, valid, &course.target).await;
    // What is gone back to keeps what it was made of.
    let newest = revisions.last().filter(|_| question.policy.rollback_to.is_none());
    let same = newest.filter(|set| BundleRecord::of(set).is_same_bundle(&course.target));
    if same.is_some_and(is_of_classic) {
        notice(&format!("note: {UNCHANGED}"));
        notes.push(UNCHANGED.to_owned());
    }
    let recorded = same.and_then(|set| set.annotations().get(annotation::BUNDLE_DIGEST));
    let step = Step {
        course: &course,
        policy: &question.policy,
        desired: &desired(valid, &account, source),
        requests: &requests,
        operator: operator
            .map(|held| held.map(|held| held.to_string()))
            .map_err(|error| one_line(&error)),
        reverted: cluster.taken_back(extension, question, &course.target).await?,
        images: recorded.map(|recorded| (recorded.clone(), digest.clone())),
    };
    let plan = step.judged(cluster, valid, &account, (&revisions, before)).await?;
    Ok(Plan { notes, controller: said, ..plan })
}

/// Returns the step to plan. Where a version is `asked` for, a step that it excludes is none, and a
/// version that no step leads to is an error.
fn course(snapshot: &ExtensionSnapshot, asked: bool) -> anyhow::Result<Course> {
    let (catalogs, question) = (snapshot.catalogs(), &snapshot.question);
    let environment = snapshot.environment(&catalogs);
    let course = question.course(&catalogs, &environment, &snapshot.options);
    let course = course.map_err(|error| Unresolved::of(error, snapshot.obstacle()))?;
    let stays = question.installed.as_ref().is_some_and(|it| it.is_same_bundle(&course.target));
    let is_excluded = |held: &UpdateStatus| held.reason == Reason::Pinned.as_str();
    if !(asked && course.held.as_ref().map_or(stays, is_excluded)) {
        return Ok(course);
    }
    let resolution = snapshot.resolve(&catalogs);
    if !resolution.installed_fits {
        resolution.result.map_err(|error| Unresolved::of(error, snapshot.obstacle()))?;
    }
    Ok(match &question.installed {
        Some(installed) => Course {
            target: installed.clone(),
            catalog: question.came_from.clone(),
            forced: false,
            held: None,
        },
        None => course,
    })
}

/// Makes the plan of going back to a revision, of what it holds.
pub(crate) async fn back(
    cluster: &Cluster,
    extension: &ClusterExtension,
    set: &ClusterObjectSet,
) -> anyhow::Result<Plan> {
    let valid = ValidExtension::of(extension).context("it names no package")?;
    let defaults = cluster.state().await?.controller().defaults();
    let policy = Policy::of(extension.annotations(), defaults)?;
    let account = account(extension, cluster).await?;
    let phases = cluster.content(set).await.map_err(|error| unknown(&error))?;
    let course = Course {
        target: BundleRecord::of(set),
        catalog: Origin::of(set).catalog,
        forced: false,
        held: None,
    };
    let recorded = |key: &str| set.annotations().get(key).map(String::as_str);
    let source = RevisionSource {
        bundle: &course.target,
        digest: recorded(annotation::BUNDLE_DIGEST).unwrap_or_default(),
        properties: recorded(annotation::PROPERTIES),
        phases: &phases,
    };
    let desired = desired(valid, &account, source);
    let revisions = cluster.revisions(&extension.name_any()).await?;
    let before = match states(&revisions).installed {
        None => None,
        Some(installed) => {
            let held = cluster.content(installed).await.map_err(|error| unknown(&error))?;
            Some(Before::of(installed, held))
        }
    };
    let objects: Vec<Object> = phases.iter().flat_map(|phase| phase.objects.clone()).collect();
    let step = Step {
        course: &course,
        policy: &policy,
        desired: &desired,
        requests: &issued_again(set, &objects),
        operator: Ok(None),
        reverted: None,
        images: None,
    };
    step.judged(cluster, valid, &account, (&revisions, before)).await
}

/// A step, before the cluster is asked about it.
struct Step<'a> {
    course: &'a Course,
    policy: &'a Policy,
    desired: &'a Desired,
    requests: &'a [CertificateRequest],
    operator: Result<Option<String>, String>,
    reverted: Option<Note>,
    images: Option<(String, String)>,
}

impl Step<'_> {
    async fn judged(
        self,
        cluster: &Cluster,
        extension: ValidExtension<'_>,
        account: &Account,
        (revisions, before): (&[ClusterObjectSet], Option<Before<'_>>),
    ) -> anyhow::Result<Plan> {
        let (client, state) = (cluster.own_client(), cluster.state().await?);
        let old: &[Object] = before.as_ref().map_or(&[], |before| &before.objects);
        // Those of the installed revision come first.
        let (mut present, installed) = (old.to_vec(), old.len());
        for set in states(revisions).rolling {
            // As the controller: what cannot be read does not count.
            let phases = cluster.content(set).await.unwrap_or_default();
            present.extend(phases.into_iter().flat_map(|phase| phase.objects));
        }
        let pull_secrets = cluster.copied(extension.pull_secrets()).await;
        let copies = pull_secrets.iter().map(|name| secret_object(name, &extension.spec.namespace));
        let secrets = self.requests.iter().map(CertificateRequest::secret_object);
        let secrets = secrets.chain(copies).collect();
        let rights = StepRights::of(extension, self.desired, secrets, &present);
        let newest = revisions.last();
        let observed = newest.and_then(|set| set.status.as_ref());
        let observed = observed.iter().flat_map(|status| &status.observed_phases);
        let observed: Vec<_> =
            observed.map(|phase| (phase.name.clone(), phase.digest.clone())).collect();
        let required = cluster.requires_approval(extension).await;
        let mut plan = Plan::of(&Proposed {
            extension,
            policy: self.policy,
            course: self.course,
            change: changed(self.desired, newest, &observed),
            account,
            rights: missing(client, state, account, &rights).await,
            enforced: state.controller().rbac_preflight == RbacPreflight::Enforce,
            crds: crds_of(client, account, self.desired, old).await,
            before,
            desired: self.desired,
            requires_approval: required.map_err(|error| one_line(&error)),
            rules: state.controller().crd_rules(),
            now: Timestamp::now(),
            operator: self.operator,
            reverted: self.reverted,
            images: self.images,
        });
        let known: BTreeSet<_> = present[..installed].iter().map(Object::key).collect();
        let new = self.desired.phases.iter().flat_map(|phase| &phase.objects);
        let new = new.filter(|object| !known.contains(&object.key()));
        for (object, found) in changes::existing(client, extension.object, revisions, new).await {
            match found {
                Ok((_, Decision::Collide(owner))) => plan.note_taken(object, whose(owner)),
                Ok(_) => {}
                Err(why) => {
                    let why = format!("{}: {why}", changes::named(object));
                    plan.unknown.push(plan::Unknown { what: "objects", why });
                    break;
                }
            }
        }
        Ok(plan)
    }
}

/// Returns whose an object is.
fn whose(owner: Option<OwnerReference>) -> String {
    owner.map_or_else(
        || "exists, without a controlling owner".to_owned(),
        |OwnerReference { kind, name, .. }| format!("belongs to {kind} {name}"),
    )
}

impl<'a> Renderer<'a> {
    /// Renders a bundle as the controller does.
    fn content(
        &self,
        bundle: &Bundle,
        target: &BundleRecord,
    ) -> anyhow::Result<(Vec<Phase>, Vec<CertificateRequest>)> {
        let namespace = &self.extension.spec.namespace;
        let needs = certificate_needs(bundle, namespace);
        let settings = self.state.controller();
        let asked = settings.certificates();
        let source = || choose_certificates(asked, self.recorded, self.served, &needs);
        let provider = (!needs.requests.is_empty()).then(|| source().into());
        let (features, extras) = (settings.features(), &self.extras);
        let rendering = Rendering::of(self.extension, target, features, (provider, extras));
        let rendered = rendering.render(bundle)?;
        Ok((phases(rendered.objects)?, rendered.certificate_requests))
    }

    /// Reads the installed objects; where that is not possible, what its bundle becomes now, with a note.
    async fn before(
        &self,
        cluster: &Cluster,
        set: &'a ClusterObjectSet,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Before<'a>> {
        let phases = match cluster.content(set).await {
            Ok(phases) => phases,
            Err(error) => {
                let bundle = BundleRecord::of(set);
                let note = format!(
                    "compared with a new rendering of {}, because its content cannot be read: {}",
                    bundle.name,
                    one_line(&error)
                );
                notice(&format!("note: {note}"));
                notes.push(note);
                let loaded = load_image(&pinned(&bundle, set)?).await;
                let (loaded, _) = loaded.map_err(|error| unknown(&error))?;
                self.content(&loaded, &bundle)?.0
            }
        };
        Ok(Before::of(set, phases))
    }
}

/// Returns the available issuers of certificates on the cluster. Unknown must not be treated as
/// none: the plan would differ from the controller's.
fn issuers(served: &Knowledge<Arc<ServedKinds>>) -> anyhow::Result<Served> {
    let unknown = |what: &str| {
        format!(
            "{what} is not known, and with it who issues certificates of webhooks: kubectl \
             api-resources says why"
        )
    };
    let Knowledge::Known(served) = served else {
        bail!(unknown("which kinds the API server serves"));
    };
    let has = |group: &str, kind: Option<&str>| {
        if served.unreadable_groups.contains(group) {
            bail!(unknown(&format!("the kinds of {group} that the API server serves")));
        }
        let mut kinds = served.kinds.iter();
        Ok(kinds.any(|one| one.group == group && kind.is_none_or(|kind| one.kind == kind)))
    };
    Ok(Served {
        openshift: has(OPENSHIFT, None)?,
        cert_manager: has("cert-manager.io", Some("Certificate"))?,
    })
}

fn properties(bundle: &Bundle) -> Option<&str> {
    bundle.csv.annotations.get(annotation::PROPERTIES).map(String::as_str)
}

/// Returns the rights that the account lacks, or why they are not known.
async fn missing(
    client: &Client,
    state: &ClusterState,
    account: &Account,
    step: &StepRights<'_>,
) -> Result<Judgement, String> {
    let unserved = state.unserved();
    let missing = |held: &Held<'_>| step.missing(&unserved, held);
    let found = compare(client, account, &Permissions::default(), missing).await;
    found.map(|found| found.judgement).map_err(|error| one_line(&error))
}

/// Reads the CRDs that a revision would replace, and those that it does not have any more.
async fn crds_of(
    client: &Client,
    account: &Account,
    desired: &Desired,
    old: &[Object],
) -> Result<Crds, String> {
    let failed = |error: anyhow::Error| one_line(&error);
    let kept: Vec<String> = definitions(desired).map(|crd| crd.name().to_owned()).collect();
    let leaves: Vec<String> = old
        .iter()
        .filter(|object| object.kind() == "CustomResourceDefinition")
        .map(|crd| crd.name().to_owned())
        .filter(|name| !kept.contains(name))
        .collect();
    let live = crds(client, kept).await.map_err(unread).map_err(failed)?;
    let mut empty = BTreeSet::new();
    for name in olm_cluster::empty(client, desired, &live).await {
        // As far as the caller may ask.
        let trim = trimming(&name);
        let answers = reviews(client, account, &[("", &trim)]).await;
        if matches!(answers[..], [Ok(true)]) {
            empty.insert(name);
        }
    }
    let leaving = leaving(client, client, leaves).await.map_err(unread).map_err(failed)?;
    Ok(Crds { live, empty, leaving })
}

#[cfg(test)]
mod tests {
    use olm_core::catalog::Content;
    use olm_core::catalog::read::Meta;
    use olm_core::extension::{KnownCatalog, Question};
    use olm_core::resolve::{Options, UpdatePolicy};

    use super::*;
    use crate::fixture::cases;
    use crate::target::filter;

    // plugin.md 1.3: a plan of what is not known would be another one than the controller's
    #[test]
    fn a_failed_discovery_is_not_taken_for_nothing_served() {
        let stale = ServedKinds {
            unreadable_groups: ["cert-manager.io".to_owned()].into(),
            ..ServedKinds::default()
        };
        let stale = Knowledge::Known(Arc::new(stale));
        for unknown in [Knowledge::Unreadable, Knowledge::NotTold, stale] {
            let Err(error) = issuers(&unknown) else {
                panic!("{unknown:?} is taken for nothing served")
            };
            assert!(error.to_string().contains("is not known"), "{error}");
        }
        let nothing = issuers(&Knowledge::Known(Arc::default())).unwrap();
        assert!(!nothing.openshift && !nothing.cert_manager);
    }

    // plugin.md 1.5
    #[test]
    fn a_version_that_no_step_leads_to_has_no_plan() {
        type Case = (String, String, Option<String>);
        let bundle = |version: &str| {
            let package = json!({"packageName": "p", "version": version});
            json!({"schema": "olm.bundle", "package": "p", "name": format!("p.v{version}"),
                "image": "r.io/p:1", "properties": [{"type": "olm.package", "value": package}]})
        };
        let entries = json!([{"name": "p.v1.0.0"}, {"name": "p.v1.1.0", "replaces": "p.v1.0.0"},
            {"name": "p.v1.2.0"}]);
        let channel =
            json!({"schema": "olm.channel", "package": "p", "name": "a", "entries": entries});
        let mut blobs = vec![json!({"schema": "olm.package", "name": "p"}), channel];
        blobs.extend(["1.0.0", "1.1.0", "1.2.0"].map(bundle));
        let blobs: Vec<_> =
            blobs.iter().map(|blob| Meta::parse(&blob.to_string()).unwrap()).collect();
        let content = Content::from_blobs(&blobs);
        let test = "a_version_that_no_step_leads_to_has_no_plan";
        for (name, (installed, asked, want)) in cases::<Case>(test) {
            let policy = Policy::of(&BTreeMap::new(), UpdatePolicy::Any).unwrap();
            let asked = filter(&format!("p@{asked}"));
            let mut question = Question::new(asked, policy, Timestamp::now());
            question.installed = Some(BundleRecord {
                name: format!("p.v{installed}"),
                package: "p".to_owned(),
                version: installed,
                release: None,
                image: "r.io/p:1".to_owned(),
                constraints: None,
            });
            let catalogs = vec![KnownCatalog::named("c", 0, Ok(content.clone().into()))];
            let snapshot = ExtensionSnapshot::of_named(question, catalogs, Options::default());
            let course = course(&snapshot, true).ok().map(|course| course.target.version);
            assert_eq!(course, want, "{name}");
        }
    }

    // plugin.md 1.3
    #[test]
    fn a_bundle_that_cannot_be_parsed_is_refused() {
        let error = Bundle::from_files(&BTreeMap::new()).unwrap_err();
        assert_eq!(Failure::of(&unknown(&error.into())).outcome, Outcome::Failed);
        assert_eq!(Failure::of(&unknown(&anyhow::anyhow!("down"))).outcome, Outcome::Unknown);
    }

    // plugin.md 1.3
    #[test]
    fn what_may_not_be_read_is_not_known() {
        let message = "clustercatalogs.olm.operatorframework.io is forbidden: User \"dana\" cannot \
                       list resource \"clustercatalogs\" in API group \
                       \"olm.operatorframework.io\" at the cluster scope";
        let status = kube::core::Status::failure(message, "Forbidden").with_code(403).boxed();
        let missing = Failure::of(&unknown(&kube::Error::Api(status).into()));
        assert_eq!(missing.text, "you may not list clustercatalogs");
        assert_eq!((missing.outcome, missing.hint.is_some()), (Outcome::Unknown, true));
    }
}
