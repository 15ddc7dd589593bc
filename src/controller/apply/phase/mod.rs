//! Applying one phase: look at everything, decide, ask, and only then write.

use std::sync::Arc;

use kube::Client;
use kube::api::{ApiResource, GroupVersionKind, ListParams};
use olm_api::ProgressionProbe;
use olm_cluster::{Content, ResolvedObject, ResolvedPhase};
use olm_core::object::{Identity, Object};
use olm_core::revision::{
    Claim, Decision, Fixed, MAX_PODS, Readiness, evaluate, forbidden_metadata, is_applied,
    is_optional_group, missing_pods, pod_selector, reject_duplicates, stalled, unmet,
};
use olm_core::status::object_set::{self as status, Collision, probe_line, stalled_line};
use serde_json::json;
use tokio::sync::Semaphore;

use super::applied_cache::{AppliedCache, Unready};
use super::endpoint::{Endpoint, kinds_of};
use super::error::ApplyError;
use super::existence::Existence;
use super::object::Observed;
use super::remove::finalizers;
use crate::cluster::{Kind, Kinds, Seen, code, join_bounded, message};

/// Most kilobytes of objects that are written at the same time for one phase, unless a single one is
/// larger. Each write has a time limit, and eight large CRDs at once take a busy API server longer.
const IN_FLIGHT_KIB: usize = 1024;

/// An object that was refused, the immutable field that it keeps, and the answer.
type Refused<'a> = (&'a Object, Option<Fixed>, kube::Error);

#[derive(Debug, Clone, Default)]
pub struct PhaseReport {
    pub wrote: bool,
    /// The first object that is not applied and ready, by its position in the phase, and why.
    pub unready: Option<(usize, Unready)>,
    /// Which object says that it cannot progress, and why.
    pub stalled: Option<String>,
    /// Whether a newer revision controls objects of the phase.
    pub superseded: bool,
    /// Objects left out because the cluster does not serve their optional kind.
    pub deferred: Vec<Identity>,
}

/// Applies the phases of a revision as one account.
pub struct Applier {
    pub claim: Claim,
    /// The generation of the revision.
    pub generation: i64,
    pub probes: Vec<ProgressionProbe>,
    /// Whether it is the first of its extension, and never was complete: its objects are not
    /// expected to be there.
    pub first: bool,
    pub client: Client,
    pub kinds: Arc<Kinds>,
    pub applied: Arc<AppliedCache>,
    /// Whether objects of optional kinds that are not served are left out instead of failing.
    pub defer_optional: bool,
    pub seen: Seen,
    pub existence: Existence,
}

/// An object of a phase as it was found.
enum Found {
    Unserved,
    /// It is known to be applied, and not to have changed since it was probed: why it is not ready, if
    /// it is not.
    Known(Option<Unready>),
    /// Not looked for: the API server will say if it is there.
    Presumed(Endpoint),
    Read(Endpoint, Option<Object>),
}

/// The observed objects of a phase.
struct Observation<'a> {
    /// The objects that have to be processed.
    observed: Vec<Observed<'a>>,
    /// Objects that are known not to be ready, by their position, and why.
    failing: Vec<(usize, Unready)>,
    deferred: Vec<Identity>,
}

impl Applier {
    /// Applies a phase. Nothing of it is written unless all of it may be; only the reference to an
    /// owner that another revision left out is not asked about before.
    pub async fn apply_phase(
        &self,
        index: usize,
        phase: &ResolvedPhase,
    ) -> Result<PhaseReport, ApplyError> {
        let Observation { mut observed, failing, deferred } = self.observe(index, phase).await?;
        reject_collisions(index, &observed)?;
        let writing: Vec<_> = observed.iter_mut().filter(|one| one.needs_write()).collect();
        // One object that is to be made is asked about by making it.
        let alone = matches!(&writing[..], [one] if one.decision == Decision::Create);
        if !alone {
            self.write(index, writing, true).await?;
        }
        reject_collisions(index, &observed)?;
        let writing: Vec<_> = observed.iter_mut().filter(|one| one.needs_write()).collect();
        let wrote = !writing.is_empty();
        if wrote {
            self.existence.confirm(&self.claim.owner).await?;
        }
        self.write(index, writing, false).await?;
        reject_collisions(index, &observed)?;
        let observation = Observation { observed, failing, deferred };
        Ok(PhaseReport { wrote, ..self.judge_phase(observation).await })
    }

    /// Reads a phase and writes nothing: what is not there as this revision would have it is not ready.
    pub async fn observe_phase(
        &self,
        index: usize,
        phase: &ResolvedPhase,
    ) -> Result<PhaseReport, ApplyError> {
        let mut observation = self.observe(index, phase).await?;
        reject_collisions(index, &observation.observed)?;
        let unapplied = observation.observed.iter().filter_map(|one| {
            let why = match one.decision {
                Decision::Create => "not found",
                Decision::Adopt => "not applied yet",
                Decision::Update | Decision::Superseded | Decision::Collide(_) => return None,
            };
            let why = probe_line(&one.wanted.object.identity(), why);
            Some((one.position, Unready { why, stalled: None, told: None }))
        });
        observation.failing.extend(unapplied.collect::<Vec<_>>());
        observation.observed.retain(|one| one.decision != Decision::Adopt);
        Ok(self.judge_phase(observation).await)
    }

    async fn judge_phase(&self, observation: Observation<'_>) -> PhaseReport {
        let Observation { observed, failing: mut unready, deferred } = observation;
        unready.extend(self.probe(&observed).await);
        // Of several, the first in the order of the phase.
        unready.sort();
        PhaseReport {
            wrote: false,
            stalled: unready.iter().find_map(|(_, unready)| unready.stalled.clone()),
            unready: unready.into_iter().next(),
            superseded: observed.iter().any(|one| one.decision == Decision::Superseded),
            deferred,
        }
    }

    /// Fails if an object of any phase belongs to somebody else, as far as the watches know it: before
    /// the first phase is applied. Where nothing is to be expected, only what they know is read.
    pub async fn refuse_collisions(&self, phases: &[ResolvedPhase]) -> Result<(), ApplyError> {
        for (index, phase) in phases.iter().enumerate().filter(|_| self.first) {
            let collisions = self.collisions(phase, true).await;
            if collisions.is_empty() {
                continue;
            }
            // The first phase with any is told, also of those that no watch brought.
            for (index, earlier) in phases[..index].iter().enumerate() {
                reject(index, &self.collisions(earlier, false).await)?;
            }
            reject(index, &collisions)?;
        }
        Ok(())
    }

    /// Returns the objects of a phase that belong to somebody else; with `known`, only of those that the
    /// watches know. What cannot be read now is judged in its phase.
    async fn collisions(&self, phase: &ResolvedPhase, known: bool) -> Vec<Collision> {
        let mut collisions = Vec::new();
        for ResolvedObject { object, protection } in &phase.objects {
            let identity = object.identity();
            if (known && !self.seen.knows(&identity))
                || self.applied.knows(&self.claim.owner.uid, object)
            {
                continue;
            }
            let kind = self.kinds.find(&identity).await.ok().flatten();
            let live = match self.find(object, kind).await {
                Ok(Found::Read(_, live)) => live,
                Ok(Found::Presumed(endpoint)) => endpoint.get(object.name()).await.ok().flatten(),
                _ => continue,
            };
            if let Decision::Collide(owner) = self.claim.decide(live.as_ref(), *protection) {
                collisions.push(Collision::of(identity, owner, live.as_ref()));
            }
        }
        collisions
    }

    async fn observe<'a>(
        &'a self,
        index: usize,
        phase: &'a ResolvedPhase,
    ) -> Result<Observation<'a>, ApplyError> {
        let objects: Vec<&Object> = phase.objects.iter().map(|wanted| &wanted.object).collect();
        let find = |object| async move { self.kinds.find(&object).await };
        let kinds = kinds_of("reading", &objects, find).await?;
        let looking = phase.objects.iter().zip(kinds).map(|(wanted, kind)| async move {
            let found = self.find(&wanted.object, kind).await;
            let found = found.map_err(|err| (wanted.object.identity(), err))?;
            Ok((wanted, found))
        });
        let found = ApplyError::unless_failed("reading", join_bounded(looking.collect()).await)?;
        let (mut observed, mut deferred) = (Vec::new(), Vec::new());
        let mut failing = Vec::new();
        for (position, (wanted, found)) in found.into_iter().enumerate() {
            let (endpoint, live, presumed) = match found {
                Found::Known(None) => continue,
                Found::Known(Some(why)) => {
                    failing.push((position, why));
                    continue;
                }
                Found::Presumed(endpoint) => (endpoint, None, true),
                Found::Read(endpoint, live) => (endpoint, live, false),
                Found::Unserved => {
                    let object = &wanted.object;
                    if !(self.defer_optional && is_optional_group(object.group())) {
                        let object = Box::new(object.identity());
                        return Err(ApplyError::Unserved { phase: index, object });
                    }
                    deferred.push(object.identity());
                    continue;
                }
            };
            let decision = self.claim.decide(live.as_ref(), wanted.protection);
            if let (Decision::Update, Some(live)) = (&decision, &live) {
                self.recognize(&wanted.object, live);
            }
            observed.push(Observed {
                claim: &self.claim,
                generation: self.generation,
                applied: &self.applied,
                position,
                wanted,
                endpoint,
                live,
                presumed,
                decision,
                replaces: false,
            });
        }
        Ok(Observation { observed, failing, deferred })
    }

    /// Takes an object for applied that is as its revision applied it before this process began, so
    /// that nobody has to be asked.
    fn recognize(&self, content: &Object, live: &Object) {
        let owner = &self.claim.owner;
        if !self.applied.knows(&owner.uid, content) && is_applied(content, owner, live) {
            self.applied.record(&owner.uid, content, live);
        }
    }

    /// Looks at one object, as far as that is needed.
    async fn find(&self, object: &Object, kind: Option<Kind>) -> Result<Found, kube::Error> {
        let identity = object.identity();
        let Some(kind) = kind else { return Ok(Found::Unserved) };
        let (seen, uid) = (self.seen.version(&kind, &identity), &self.claim.owner.uid);
        let known = (uid.as_str(), self.generation);
        let probed = seen.and_then(|version| self.applied.probed(known, object, version));
        if let Some(failing) = probed {
            return Ok(Found::Known(failing));
        }
        let endpoint = Endpoint::new(self.client.clone(), &kind, object.namespace());
        if self.first && seen.is_none() && !self.applied.knows(uid, object) {
            return Ok(Found::Presumed(endpoint));
        }
        let live = endpoint.get(object.name()).await?;
        Ok(Found::Read(endpoint, live))
    }

    /// Fails if the API server refused any of these objects, each with what can be done about it.
    fn judge(&self, index: usize, answers: Vec<Result<(), Refused<'_>>>) -> Result<(), ApplyError> {
        let refused = answers.into_iter().filter_map(Result::err);
        let (invalid, failed): (Vec<_>, Vec<_>) = refused.partition(|(_, _, err)| is_invalid(err));
        if !invalid.is_empty() {
            let texts: Vec<String> = invalid
                .iter()
                .map(|(object, kept, err)| {
                    let kept = kept.as_ref().map_or_else(String::new, |kept| format!("; {kept}"));
                    format!("{}: {}{kept}", object.identity().text(), message(err))
                })
                .collect();
            let text = texts.join("\n");
            return Err(ApplyError::InvalidPhase { phase: index, text });
        }
        if failed.is_empty() {
            return Ok(());
        }
        for (object, _, err) in &failed {
            if code(err) == 404 {
                self.kinds.forget(object);
            }
        }
        let failed = failed.into_iter().map(|(object, _, err)| (object.identity(), err));
        Err(ApplyError::of("applying", failed.collect()))
    }

    pub async fn pods(&self, workload: &Object) -> Result<Vec<Object>, kube::Error> {
        let Some(selector) = pod_selector(workload) else { return Ok(Vec::new()) };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
        let kind = Kind { resource, namespaced: true };
        let endpoint = Endpoint::new(self.client.clone(), &kind, workload.namespace());
        endpoint.list(&ListParams::default().labels(&selector).limit(MAX_PODS)).await
    }

    /// Writes objects, or asks whether they would be taken.
    async fn write(
        &self,
        index: usize,
        writing: Vec<&mut Observed<'_>>,
        dry_run: bool,
    ) -> Result<(), ApplyError> {
        let room = &Semaphore::new(IN_FLIGHT_KIB);
        let writes = writing.into_iter().map(|one| async move {
            let _room = room.acquire_many(kib(&one.wanted.object)).await;
            let written = if dry_run { one.dry_run().await } else { one.write().await };
            written.map_err(|err| (&one.wanted.object, one.kept(&err), err))
        });
        self.judge(index, join_bounded(writes.collect()).await)
    }

    /// Returns the objects that are not ready, by their position in the phase, and why. What is found
    /// is remembered.
    async fn probe(&self, observed: &[Observed<'_>]) -> Vec<(usize, Unready)> {
        let mut unready = Vec::new();
        for one in observed {
            let Some(live) = &one.live else { continue };
            let object = one.wanted.object.identity();
            let mut stalled = stalled(live);
            if stalled.is_some()
                && let Some(other) = self.same_kind(live).await
            {
                let by = |why| format!("{why}, by CustomResourceDefinition {other}");
                stalled = stalled.map(by);
            }
            let say = |why: &str| Unready {
                why: probe_line(&object, why),
                stalled: stalled.as_ref().map(|why| stalled_line(&object, why)),
                told: missing_pods(live).or_else(|| unmet(live)),
            };
            let failing = if one.is_terminating() {
                Some(say(&format!("object is being deleted{}", finalizers(live))))
            } else {
                let failing = match evaluate(live, &self.probes) {
                    Readiness::Ready => None,
                    Readiness::NotReady(_) | Readiness::Unknown(_)
                        if self.binds_later(live).await =>
                    {
                        None
                    }
                    Readiness::NotReady(why) | Readiness::Unknown(why) => Some(say(&why)),
                };
                one.record_probed(failing.clone());
                failing
            };
            unready.extend(failing.map(|failing| (one.position, failing)));
        }
        unready
    }

    /// Returns the CRD that has the kind of this one, whose names were not accepted.
    async fn same_kind(&self, crd: &Object) -> Option<String> {
        let (group, kind) = (crd.text_at("/spec/group"), crd.text_at("/spec/names/kind"));
        for version in crd.list_at("/spec/versions") {
            let api_version = format!("{group}/{}", version["name"].as_str()?);
            let instance = Object::from_value(json!({"apiVersion": api_version, "kind": kind}))?;
            if let Ok(Some(served)) = self.kinds.find(&instance.identity()).await {
                let name = format!("{}.{group}", served.resource.plural);
                return (name != crd.name()).then_some(name);
            }
        }
        None
    }

    /// A claim whose class waits for the first consumer never binds before the pods of a later
    /// phase.
    async fn binds_later(&self, live: &Object) -> bool {
        let is_claim = live.kind() == "PersistentVolumeClaim" && live.group().is_empty();
        is_claim && self.kinds.waits_for_consumer(live.text_at("/spec/storageClassName")).await
    }
}

/// Fails on content that no revision may have: an object twice, or metadata that belongs to the API
/// server or to us.
pub(crate) fn check_content(content: &Content) -> Result<(), ApplyError> {
    reject_duplicates(&content.plain())
        .map_err(|err| ApplyError::InvalidRevision(err.to_string()))?;
    let complaints: Vec<String> = content
        .phases
        .iter()
        .flat_map(|phase| &phase.objects)
        .filter_map(|wanted| {
            let fields = forbidden_metadata(&wanted.object);
            let object = wanted.object.identity().text();
            (!fields.is_empty())
                .then(|| format!("{object}: metadata must not have {}", fields.join(", ")))
        })
        .collect();
    if complaints.is_empty() {
        return Ok(());
    }
    Err(ApplyError::InvalidRevision(complaints.join("\n")))
}

/// Returns the length of an object in kilobytes of JSON, at most all that is written at the same time.
fn kib(object: &Object) -> u32 {
    let bytes = serde_json::to_vec(&object.0).map_or(0, |json| json.len());
    u32::try_from((bytes >> 10).min(IN_FLIGHT_KIB)).unwrap_or(u32::MAX)
}

fn reject_collisions(index: usize, observed: &[Observed<'_>]) -> Result<(), ApplyError> {
    let collisions: Vec<Collision> = observed
        .iter()
        .filter_map(|one| {
            let Decision::Collide(owner) = &one.decision else { return None };
            let object = one.wanted.object.identity();
            Some(Collision::of(object, owner.clone(), one.live.as_ref()))
        })
        .collect();
    reject(index, &collisions)
}

fn reject(index: usize, collisions: &[Collision]) -> Result<(), ApplyError> {
    if collisions.is_empty() {
        return Ok(());
    }
    let text = status::collisions(index, collisions);
    Err(ApplyError::Collisions { text, managed: status::managed(collisions) })
}

/// Returns whether the API server refused the object itself, and not the sender.
fn is_invalid(err: &kube::Error) -> bool {
    matches!(code(err), 400 | 405 | 406 | 413 | 415 | 422)
}

#[cfg(test)]
mod tests;
