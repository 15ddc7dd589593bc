//! One pass over an extension that is to be installed: from what is on the cluster to at most one
//! new revision.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::events::EventType;
use olm_api::conditions::reasons;
use olm_api::keys::{annotation, policy};
use olm_api::{
    CatalogFilter, ClusterExtension, ClusterObjectSet, CollisionProtection,
    CrdUpgradeSafetyEnforcement, LifecycleState, UpdateStatus,
};
use olm_core::bundle::Bundle;
use olm_core::error::Chain;
use olm_core::render::{
    CertificateProvider, CertificateRequest, CertificateSource, certificate_needs,
};
use olm_core::revision::{self, Account, Change, Desired};
use olm_core::status::Note;
use olm_core::status::deprecation::Deprecations;
use olm_core::status::extension::text;
use olm_image::{Digest, ImageRef, PullError, Resolved, pull_bundle};

use super::certificates::{Certificates, is_rolled_out, owner, recorded};
use super::content::{Content, Request};
use super::error::{ContentError, ExtensionError};
use super::explain::forced_step;
use super::policy::Policy;
use super::resolve::Question;
use super::target::{Course, Target, course};
use super::telling::Telling;
use super::{Context, observe};
use crate::backoff::{jittered, resync};
use crate::objectset::{
    Written, complete_content, list_revisions, newest, plan_revision, without_content,
    write_revision,
};

/// How often a roll-out is looked at although its revision tells how it goes on: news that never
/// came costs no more than this.
const LOOK_AT_ROLL_OUT: Duration = Duration::from_mins(1);
/// How often an image is asked for that what runs does not need.
const WITHOUT_IMAGE: Duration = Duration::from_mins(2);

/// What a pass found and did, for its report.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// The revisions at the end of the pass, sorted; absent when they could not be read.
    pub(super) revisions: Option<Vec<ClusterObjectSet>>,
    /// What the catalogs say about deprecation.
    pub(super) deprecations: Asked,
    /// What `Ready` explains besides.
    pub(super) notes: Vec<Note>,
    /// What Events tell; absent when the catalogs were not asked.
    pub(super) told: Option<Vec<Telling>>,
    /// The newer version that is offered and not taken.
    pub(super) update: Offered,
    /// Whether nothing is applied, because the annotation says so.
    pub(super) paused: bool,
    /// When to look again although nothing changes.
    pub(super) look_again: Option<Duration>,
    /// Whether the certificates of webhooks were looked after.
    pub(super) certificates_kept: bool,
}

/// What the catalogs say about deprecation.
#[derive(Debug, Default)]
pub(super) enum Asked {
    /// They were not asked.
    #[default]
    Not,
    /// It is not clear which of them counts.
    Unknown,
    /// What the one that counts says.
    Known(Deprecations),
}

/// The newer version that is offered and not taken.
#[derive(Debug, Default)]
pub(super) enum Offered {
    /// The catalogs were not asked.
    #[default]
    NotAsked,
    /// There is none.
    Nothing,
    /// This one.
    Update(UpdateStatus),
}

/// What a pass works towards.
pub(super) struct Goal {
    pub(super) target: Target,
    /// Reported although the goal is pursued: the newer bundle cannot be had.
    pub(super) held: Option<ExtensionError>,
    /// Whether no edge of the catalog allows the step.
    pub(super) forced: bool,
}

/// A revision and the certificates it needs.
struct Plan<'a> {
    desired: Desired,
    certificates: Certificates,
    requests: &'a [CertificateRequest],
}

impl Goal {
    pub(super) fn keep(target: Target) -> Self {
        Self {
            target,
            held: None,
            forced: false,
        }
    }
}

impl Pass {
    /// Runs the pass; what it finds stays in `self` whether it fails or not.
    pub(super) async fn run(
        &mut self,
        extension: &ClusterExtension,
        ctx: &Context,
    ) -> Result<(), ExtensionError> {
        let result = self.run_to_end(extension, ctx).await;
        self.say_what_is_unchecked(extension);
        result
    }

    async fn run_to_end(
        &mut self,
        extension: &ClusterExtension,
        ctx: &Context,
    ) -> Result<(), ExtensionError> {
        // The state comes first, so that `Installed` is truthful whatever else fails.
        let revisions = list_revisions(&ctx.client, extension)
            .await
            .map_err(ExtensionError::Revisions)?;
        self.revisions = Some(revisions.clone());

        let filter = validated(extension, &revisions)?;
        let account = observe::account(ctx, extension, &revisions).await?;
        let result = self
            .pursue(extension, filter, &account, &revisions, ctx)
            .await;
        // Certificates run out whether or not the catalogs answer.
        self.keep_certificates(extension, &account, &revisions, ctx)
            .await;
        result
    }

    /// Finds out what is to be installed and makes its revision.
    async fn pursue(
        &mut self,
        extension: &ClusterExtension,
        filter: &CatalogFilter,
        account: &Account,
        revisions: &[ClusterObjectSet],
        ctx: &Context,
    ) -> Result<(), ExtensionError> {
        let policy = Policy::of(extension, ctx.settings.updates)?;
        self.paused = policy.paused;
        let mut question = Question {
            extension,
            filter,
            policy: &policy,
            installed: revision::states(revisions).installed.map(Target::of),
            rolling: None,
        };
        let goal = match course(extension, revisions, Timestamp::now()) {
            Course::KeepRolling(target) => {
                // Only what the catalogs say about deprecation and newer versions is wanted, also
                // while a roll-out is under way (api.md D6); what they would choose is not.
                question.rolling = Some(&target);
                if let Err(error) = self.resolve(question, ctx).await {
                    tracing::debug!(error = %Chain(&error), "nothing chosen during a roll-out");
                }
                Goal::keep(target)
            }
            Course::Resolve(installed) => {
                question.installed = installed;
                self.resolve(question, ctx).await?
            }
        };
        if !policy.paused {
            self.enact(extension, account, &goal, revisions, ctx)
                .await?;
        }
        goal.held.map_or(Ok(()), Err)
    }

    /// Returns when to look again although nothing changes.
    pub(super) fn next_look(&self) -> Duration {
        let revisions = self.revisions.as_deref().unwrap_or_default();
        let rolling = !revision::states(revisions).rolling.is_empty();
        let usual = if rolling {
            jittered(LOOK_AT_ROLL_OUT)
        } else {
            resync()
        };
        self.look_again.map_or(usual, |delay| usual.min(delay))
    }

    /// Makes the revision of the goal, if it is not there.
    async fn enact(
        &mut self,
        extension: &ClusterExtension,
        account: &Account,
        goal: &Goal,
        revisions: &[ClusterObjectSet],
        ctx: &Context,
    ) -> Result<(), ExtensionError> {
        let target = &goal.target;
        let failed = |cause: ContentError| ExtensionError::Bundle {
            name: target.name.clone(),
            version: target.version.clone(),
            cause: Box::new(cause),
        };
        let newest = newest(revisions).filter(|newest| Target::of(newest).is_same_bundle(target));
        let resolved = match resolved(extension, target, ctx).await {
            Ok(resolved) => resolved,
            // What runs does not need its image: the newest revision holds its content.
            Err(error) if newest.is_some() && error.is_of_registry() => {
                self.keep_without_image(&error);
                return Ok(());
            }
            Err(error) => return Err(failed(error)),
        };
        if newest.is_some_and(|newest| self.changed_below(extension, newest, &resolved)) {
            return Ok(());
        }
        let asked = content(extension, account, target, &resolved, revisions, ctx);
        let (content, certificates) = match asked.await {
            Ok(both) => both,
            Err(error) if newest.is_some() && error.is_of_registry() => {
                self.keep_without_image(&error);
                return Ok(());
            }
            Err(error) => return Err(failed(error)),
        };
        let plan = Plan {
            desired: desired(extension, account, target, resolved.digest(), &content),
            requests: &content.certificate_requests,
            certificates,
        };
        let written = self.write(extension, account, plan, revisions, ctx).await;
        let written = written.map_err(failed)?;
        if written.change != Change::Unchanged {
            self.announce(extension, goal, &written.name, revisions, ctx)
                .await;
            let revisions = list_revisions(&ctx.client, extension)
                .await
                .map_err(ExtensionError::Revisions)?;
            self.revisions = Some(revisions);
        } else if let Err(error) = restore_content(extension, account, revisions, ctx).await {
            let cause = Chain(&error).to_string();
            tracing::warn!(
                error = cause,
                "lost content of earlier revisions stays lost"
            );
            self.look_again = Some(jittered(WITHOUT_IMAGE));
        }
        Ok(())
    }

    /// Says that what runs is kept as it is, because its image cannot be had, and has it tried
    /// again.
    fn keep_without_image(&mut self, error: &ContentError) {
        let cause = Chain(error).to_string();
        tracing::info!(error = cause, "bundle unavailable, the revision is kept");
        self.look_again = Some(jittered(WITHOUT_IMAGE));
        self.note(Note {
            reason: reasons::BUNDLE_UNAVAILABLE,
            message: format!("what is installed stays as it is, changes of the spec wait: {cause}"),
        });
    }

    /// Says that a check is not made that the extension asks for.
    fn say_what_is_unchecked(&mut self, extension: &ClusterExtension) {
        if asks_for_crd_safety(extension) {
            self.note(Note {
                reason: reasons::CRD_UPGRADE_SAFETY_UNCHECKED,
                message: text::CRD_UPGRADE_SAFETY_UNCHECKED.to_owned(),
            });
        }
    }

    /// Writes a revision, its certificates before it, and removes certificates that it does not
    /// need.
    async fn write(
        &mut self,
        extension: &ClusterExtension,
        account: &Account,
        plan: Plan<'_>,
        revisions: &[ClusterObjectSet],
        ctx: &Context,
    ) -> Result<Written, ContentError> {
        let Plan {
            mut desired,
            certificates,
            requests,
        } = plan;
        let provider = certificates.provider();
        if let Some(provider) = &provider {
            let source = provider.source().to_string();
            let key = policy::WEBHOOK_CERTIFICATES.to_owned();
            desired.annotations.insert(key, source);
        }
        let namespace = &ctx.settings.system_namespace;
        let change = plan_revision(&ctx.client, namespace, &desired, revisions).await?;
        let rolled_out = change == Change::Unchanged && is_rolled_out(revisions);
        self.issue_certificates(extension, account, certificates, rolled_out, ctx)
            .await?;
        let written = write_revision(&ctx.client, namespace, &desired, revisions, change).await?;
        if recorded(revisions) == Some(CertificateSource::SelfSigned) {
            let wanted = match provider {
                Some(CertificateProvider::CertManager | CertificateProvider::ServiceCa) => None,
                Some(CertificateProvider::SelfSigned { .. }) | None => Some(requests),
            };
            self.retire_certificates(extension, account, wanted, rolled_out, ctx)
                .await?;
        }
        Ok(written)
    }

    /// Tells of a new revision.
    async fn announce(
        &self,
        extension: &ClusterExtension,
        goal: &Goal,
        revision: &str,
        before: &[ClusterObjectSet],
        ctx: &Context,
    ) {
        let version = &goal.target.version;
        tracing::info!(revision, version, forced = goal.forced, "revision created");
        let note = format!("revision {revision} of bundle {} created", goal.target.name);
        ctx.tell(extension, EventType::Normal, "RevisionCreated", note)
            .await;
        let installed = revision::states(before).installed.map(Target::of);
        if let (true, Some(installed)) = (goal.forced, installed) {
            let reason = forced_step(&installed.version, version);
            let note = format!(
                "from {} to {version}, which no catalog edge allows",
                installed.version
            );
            ctx.tell(extension, EventType::Warning, reason, note).await;
        }
    }
}

/// Returns the filter of a spec that can be worked with.
fn validated<'a>(
    extension: &'a ClusterExtension,
    revisions: &[ClusterObjectSet],
) -> Result<&'a CatalogFilter, ExtensionError> {
    let spec = extension.spec.as_ref().ok_or(ExtensionError::SpecMissing)?;
    // What is installed goes on; a further revision is refused where it is made.
    if revisions.is_empty() {
        revision::revision_name(&extension.name_any(), revision::next_number(revisions))
            .map_err(ExtensionError::Name)?;
    }
    spec.source
        .catalog
        .as_ref()
        .ok_or(ExtensionError::SpecMissing)
}

/// Says whether an extension asks that upgrades of CRDs are checked.
fn asks_for_crd_safety(extension: &ClusterExtension) -> bool {
    let install = extension
        .spec
        .as_ref()
        .and_then(|spec| spec.install.as_ref());
    let preflight = install.and_then(|install| install.preflight.as_ref());
    let enforcement = preflight.map(|preflight| preflight.crd_upgrade_safety.enforcement);
    enforcement == Some(CrdUpgradeSafetyEnforcement::Strict)
}

/// Resolves the image of a bundle to its digest.
async fn resolved(
    extension: &ClusterExtension,
    target: &Target,
    ctx: &Context,
) -> Result<Resolved, ContentError> {
    let image: ImageRef = target.image.parse().map_err(PullError::from)?;
    let (puller, registry) = (Arc::clone(&ctx.puller), image.registry().to_owned());
    let work = async move { puller.resolve(&image).await };
    let name = extension.name_any();
    let answer = ctx
        .digests
        .wait(&name, &target.image, &registry, work)
        .await;
    Ok(answer.ok_or_else(|| ContentError::Pulling(target.image.clone()))??)
}

/// Pulls and renders a bundle, or finds what was rendered before; and says where the certificates
/// of its webhooks come from.
async fn content(
    extension: &ClusterExtension,
    account: &Account,
    target: &Target,
    resolved: &Resolved,
    revisions: &[ClusterObjectSet],
    ctx: &Context,
) -> Result<(Arc<Content>, Certificates), ContentError> {
    let spec = extension.spec.as_ref();
    let namespace = spec.map(|spec| spec.namespace.clone()).unwrap_or_default();
    let place = (resolved.digest().clone(), namespace);
    let mut loaded = None;
    let needs = if let Some(needs) = ctx.rendered.needs(&place) {
        needs
    } else {
        let bundle = bundle(extension, resolved, revisions, ctx).await?;
        let needs = Arc::new(certificate_needs(&bundle, &place.1));
        ctx.rendered.put_needs(place, Arc::clone(&needs));
        loaded = Some(bundle);
        needs
    };
    let owner = owner(extension);
    let certificates = Certificates::choose(ctx, &owner, account, &needs, revisions).await?;
    let features = ctx.settings.features;
    let provider = certificates.provider();
    let request = Request::new(extension, target, resolved.digest(), features, provider);
    if let Some(content) = ctx.rendered.get(&request) {
        return Ok((content, certificates));
    }
    let bundle = match loaded {
        Some(bundle) => bundle,
        None => bundle(extension, resolved, revisions, ctx).await?,
    };
    let (content, request) = tokio::task::spawn_blocking(move || {
        let content = request.render(&bundle);
        (content, request)
    })
    .await
    .map_err(|error| PullError::Store(std::io::Error::other(error)))?;
    let content = Arc::new(content?);
    for warning in &content.warnings {
        tracing::warn!(warning, "bundle is unusual");
    }
    ctx.rendered.put(request, Arc::clone(&content));
    Ok((content, certificates))
}

/// Makes anew the content that earlier revisions have lost and still need: what is rendered from
/// their bundle, if it is the same.
async fn restore_content(
    extension: &ClusterExtension,
    account: &Account,
    revisions: &[ClusterObjectSet],
    ctx: &Context,
) -> Result<(), ContentError> {
    let namespace = &ctx.settings.system_namespace;
    for set in without_content(&ctx.client, namespace, revisions).await? {
        let target = Target::of(set);
        let resolved = resolved(extension, &target, ctx).await?;
        let asked = content(extension, account, &target, &resolved, revisions, ctx);
        let (content, _) = asked.await?;
        let desired = desired(extension, account, &target, resolved.digest(), &content);
        complete_content(&ctx.client, namespace, &desired, set).await?;
    }
    Ok(())
}

/// Pulls and reads a bundle, in place of those that no revision in use was made of.
async fn bundle(
    extension: &ClusterExtension,
    resolved: &Resolved,
    revisions: &[ClusterObjectSet],
    ctx: &Context,
) -> Result<Bundle, ContentError> {
    let (name, image) = (extension.name_any(), resolved.image().clone());
    let (text, registry) = (image.to_string(), image.registry().to_owned());
    let (puller, cache, owner) = (Arc::clone(&ctx.puller), ctx.bundles.clone(), name.clone());
    let work = async move { pull_bundle(&puller, &image, Some((&cache, &owner))).await };
    let answer = ctx.images.wait(&name, &text, &registry, work).await;
    let bundle = answer.ok_or(ContentError::Pulling(text))??;
    if let Err(error) = ctx.bundles.retain(&name, &in_use(resolved, revisions)) {
        tracing::warn!(%error, "superseded bundles stay on disk");
    }
    let read = tokio::task::spawn_blocking(move || Bundle::from_files(&bundle.files)).await;
    Ok(read.map_err(|error| PullError::Store(std::io::Error::other(error)))??)
}

/// Returns the digests of the bundles that may be asked for again: this one, and those of revisions
/// in use, whose content may have to be made anew.
fn in_use(resolved: &Resolved, revisions: &[ClusterObjectSet]) -> Vec<Digest> {
    let active = revisions
        .iter()
        .filter(|set| set.spec.lifecycle_state == LifecycleState::Active);
    let recorded = active.filter_map(|set| set.annotations().get(annotation::BUNDLE_DIGEST));
    let recorded = recorded.filter_map(|digest| digest.parse().ok());
    recorded.chain([resolved.digest().clone()]).collect()
}

/// Returns the revision a bundle should have, before it has a number.
fn desired(
    extension: &ClusterExtension,
    account: &Account,
    target: &Target,
    digest: &Digest,
    content: &Content,
) -> Desired {
    let mut annotations: BTreeMap<String, String> = target.annotations();
    annotations.extend([
        (annotation::BUNDLE_DIGEST.to_owned(), digest.to_string()),
        (
            annotation::SERVICE_ACCOUNT_NAME.to_owned(),
            account.name.clone(),
        ),
        (
            annotation::SERVICE_ACCOUNT_NAMESPACE.to_owned(),
            account.namespace.clone(),
        ),
        (
            annotation::EXTENSION_GENERATION.to_owned(),
            extension
                .metadata
                .generation
                .unwrap_or_default()
                .to_string(),
        ),
    ]);
    if let Some(properties) = &content.properties {
        annotations.insert(annotation::PROPERTIES.to_owned(), properties.clone());
    }
    Desired {
        extension: owner(extension),
        phases: content.phases.clone(),
        annotations,
        probes: revision::built_in(),
        deadline_minutes: extension
            .spec
            .as_ref()
            .and_then(|spec| spec.progress_deadline_minutes),
        collision_protection: CollisionProtection::Prevent,
    }
}
