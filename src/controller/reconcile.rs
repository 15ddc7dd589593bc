//! The common part of the three reconcilers: logging, time limits and metrics of an attempt, the
//! next reconcile of an object, and writes of our own kinds and Events.
//!
//! Nothing waits for ever: requests end (`cluster::bounded`), the parts of a reconcile have limits
//! ([`within`]), and what took too long is reported. Unfinished work is looked at again within 30
//! seconds (a revision) or a minute (an extension) although nothing triggered it; settled objects
//! after ten hours, or after `--managed-resync-interval` where the account may not watch.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, Patch, PatchParams};
use kube::core::DeserializeGuard;
use kube::core::object::HasStatus;
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, Resource, ResourceExt as _};
use olm_api::conditions::Reason;
use olm_api::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use olm_core::error::{Chain, Classify, Disposition};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::Instrument as _;

use crate::backoff::{Backoff, MAX_DELAY, RESYNC, jittered, resync};
use crate::cluster::{Sentence, as_manager};
use crate::telemetry::{Metrics, ReconcileResult};
use crate::written::Written;

/// Shortest delay after somebody else wrote an object first. The version that was written is on its way,
/// at once unless the watch is broken.
const AFTER_CONFLICT: Duration = Duration::from_millis(200);
/// Longest delay after that: a watch that broke begins again within this time.
const MAX_AFTER_CONFLICT: Duration = Duration::from_secs(8);

/// A reconcile took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("reconcile took longer than {} seconds", _0.as_secs())]
pub struct TooLong(pub Duration);

/// The time limit of a whole reconcile.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    at: tokio::time::Instant,
    limit: Duration,
}

impl Deadline {
    /// Returns the deadline of what begins now and may take this long.
    pub fn after(limit: Duration) -> Self {
        Self { at: tokio::time::Instant::now() + limit, limit }
    }

    /// Does `work`, and fails when the deadline passes before its end.
    pub async fn hold<T, E: From<TooLong>>(
        self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let ended = tokio::time::timeout_at(self.at, work).await;
        ended.unwrap_or_else(|_| Err(TooLong(self.limit).into()))
    }
}

/// Fails when `work` takes longer than `limit`.
pub async fn within<T, E: From<TooLong>>(
    limit: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    Deadline::after(limit).hold(work).await
}

/// Objects of our own kinds: read, finalizers and status to be written.
pub trait OwnKind:
    Resource<DynamicType = ()>
    + HasStatus<Status: Serialize + PartialEq>
    + Clone
    + Serialize
    + DeserializeOwned
    + std::fmt::Debug
{
    /// Has a status say that it is about this generation of its object.
    fn observe(status: &mut Self::Status, generation: Option<i64>);
}

macro_rules! own_kind {
    ($($kind:ty),*) => {$(
        impl OwnKind for $kind {
            fn observe(status: &mut Self::Status, generation: Option<i64>) {
                status.observed_generation = generation;
            }
        }
    )*};
}
own_kind!(ClusterCatalog, ClusterExtension, ClusterObjectSet);

/// The controller of one of our own kinds: a name, a client, and the memory of attempts.
pub struct Reconciler {
    /// Name in logs and metrics.
    controller: &'static str,
    /// Name of the field manager.
    manager: &'static str,
    client: Client,
    metrics: Metrics,
    recorder: Recorder,
    /// By name.
    failures: Backoff,
    written: Written,
}

impl Reconciler {
    /// Returns a controller called `controller` that writes as field manager `manager`; its delays
    /// begin at `first_delay`.
    pub fn new(
        controller: &'static str,
        manager: &'static str,
        client: Client,
        metrics: Metrics,
        first_delay: Duration,
    ) -> Self {
        let reporter = Reporter::from("olm-controller");
        // The series is there before the first object is.
        metrics.active(controller, 0);
        Self {
            controller,
            manager,
            recorder: Recorder::new(client.clone(), reporter),
            client,
            metrics,
            failures: Backoff::new(first_delay, MAX_DELAY),
            written: Written::default(),
        }
    }

    /// Does `work` for an object: with a span, and counted.
    ///
    /// `work` returns when the object is to be reconciled again although nothing changes; nothing
    /// means never. One that does not follow its schema is left alone until it changes; the others
    /// go on.
    pub async fn attempt<'a, K, E, W>(
        &self,
        object: &'a DeserializeGuard<K>,
        work: impl FnOnce(&'a K) -> W,
    ) -> Result<Action, E>
    where
        K: Resource<DynamicType = ()>,
        E: Classify,
        W: Future<Output = Result<Option<Duration>, E>>,
    {
        let (controller, name) = (self.controller, object.name_any());
        let readable = match &object.0 {
            Ok(readable) => readable,
            Err(unreadable) => {
                let error = &unreadable.error;
                tracing::warn!(controller, name, error, "the object does not follow its schema");
                let note = format!(
                    "the object is invalid for this version of the controller and is not reconciled; its \
                     deletion waits, too, until it is corrected: {error}"
                );
                let event = event(EventType::Warning, Reason::InvalidConfiguration, note);
                self.record(&event, &object.object_ref(&())).await;
                return Ok(Action::await_change());
            }
        };
        let generation = readable.meta().generation;
        // Not as `name`: in JSON that is the name of the span, and a key that is there twice has a log
        // collector refuse the line, or drop one of them.
        let span = tracing::info_span!("reconcile", controller, object = name, generation);
        let started = Instant::now();
        self.metrics.active(controller, 1);
        let ended = work(readable).instrument(span.clone()).await;
        let result = counted(&ended);
        self.metrics.active(controller, -1);
        self.metrics.reconciled(controller, result, started.elapsed());
        span.in_scope(|| tracing::info!(name, "reconcile ending"));
        ended.map(|next| next.map_or_else(Action::await_change, Action::requeue))
    }

    /// Returns when the object `name` is reconciled again after a failure, and logs that.
    pub fn retry(&self, name: &str, error: &impl Classify) -> Duration {
        let controller = self.controller;
        let delay = delay(&self.failures, error, name);
        if error.is_conflict() {
            // Nothing failed: the next version of the object is on its way.
            tracing::debug!(controller, name, error = %Chain(error), ?delay, "concurrent write");
            return delay;
        }
        tracing::warn!(controller, name, error = %Chain(error), ?delay, "reconcile failed");
        delay
    }

    /// Forgets the failures of an object.
    pub fn succeeded(&self, name: &str) {
        self.failures.forget(name);
    }

    /// Forgets an object that is gone.
    pub fn forget<K: Resource>(&self, object: &K) {
        self.succeeded(&object.name_any());
        self.written.forget(&object.uid().unwrap_or_default());
    }

    /// Changes metadata of the version of the object that was read, and of no other.
    ///
    /// # Errors
    /// Fails with a conflict when the object has changed since.
    pub async fn patch_metadata<K: OwnKind>(
        &self,
        object: &K,
        mut metadata: Value,
    ) -> Result<K, kube::Error> {
        metadata["resourceVersion"] = object.resource_version().into();
        let params = PatchParams::apply(self.manager);
        Api::<K>::all(self.client.clone())
            .patch(&object.name_any(), &params, &Patch::Merge(json!({"metadata": metadata})))
            .await
    }

    /// Puts a finalizer on an object; returns the object as it is then, nothing if it was there.
    pub async fn add_finalizer<K: OwnKind>(
        &self,
        object: &K,
        finalizer: &str,
    ) -> Result<Option<K>, kube::Error> {
        if object.finalizers().iter().any(|found| found == finalizer) {
            return Ok(None);
        }
        let mut finalizers = object.finalizers().to_vec();
        finalizers.push(finalizer.to_owned());
        self.patch_metadata(object, json!({"finalizers": finalizers})).await.map(Some)
    }

    /// Takes finalizers off an object. It may be gone, or without them.
    pub async fn remove_finalizers<K: OwnKind>(
        &self,
        object: &K,
        ours: &[&str],
    ) -> Result<(), kube::Error> {
        let mut finalizers = object.finalizers().to_vec();
        finalizers.retain(|found| !ours.contains(&found.as_str()));
        if finalizers.len() == object.finalizers().len() {
            return Ok(());
        }
        match self.patch_metadata(object, json!({"finalizers": finalizers})).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Replaces the status of an object by one about the generation that was read, unless it is what stands on the cluster already. Returns
    /// the object as it was written; nothing when none was, also because the object is gone.
    pub async fn write_status<K: OwnKind>(
        &self,
        object: &K,
        mut status: K::Status,
    ) -> Result<Option<K>, kube::Error> {
        // deploying.md 9.3
        K::observe(&mut status, object.meta().generation);
        let uid = object.uid().unwrap_or_default();
        if object.status() == Some(&status) && self.written.is_current(&uid, &status) {
            return Ok(None);
        }
        self.written.begin(&uid, &status);
        let mut changed = object.clone();
        *changed.status_mut() = Some(status);
        changed.meta_mut().managed_fields = None;
        let params = as_manager(self.manager);
        let api = Api::<K>::all(self.client.clone());
        match api.replace_status(&object.name_any(), &params, &changed).await {
            Ok(answer) => {
                if let Some(status) = answer.status() {
                    self.written.end(&uid, status);
                }
                Ok(Some(answer))
            }
            // With the object goes the reason to report.
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A predicate for objects that a watch brings: it changes with a status that somebody else wrote.
    pub fn status_of_others<K: OwnKind>(
        &self,
        store: &Store<DeserializeGuard<K>>,
        object: &DeserializeGuard<K>,
    ) -> Option<u64> {
        let status = object.0.as_ref().ok()?.status();
        // Nothing is kept for what goes, or is gone.
        if object.meta().deletion_timestamp.is_some() {
            return None;
        }
        store.get(&ObjectRef::from_obj(object))?;
        Some(self.written.foreign(&object.uid().unwrap_or_default(), &status))
    }

    /// Publishes an Event about an object; that it cannot be written is only logged.
    pub async fn publish<K: OwnKind>(
        &self,
        about: &K,
        type_: EventType,
        reason: Reason,
        note: String,
    ) {
        self.record(&event(type_, reason, note), &about.object_ref(&())).await;
    }

    async fn record(&self, event: &Event, about: &ObjectReference) {
        if let Err(error) = self.recorder.publish(event, about).await {
            tracing::debug!(error = %Sentence(&error), reason = event.reason, "event not written");
        }
    }
}

/// Returns when the object `name` is looked at again after a failure.
fn delay(failures: &Backoff, error: &impl Classify, name: &str) -> Duration {
    if error.is_conflict() {
        return failures.next_within(name, MAX_AFTER_CONFLICT).max(AFTER_CONFLICT);
    }
    match error.disposition() {
        Disposition::Terminal(_) => resync(),
        Disposition::Wait(delay) => delay,
        Disposition::RetryAfter(delay) => jittered(delay),
        Disposition::Retry => failures.next(name),
        Disposition::RetryWithin(limit) => failures.next_within(name, limit),
    }
}

/// Longest note of an Event that the API admits, in bytes.
const MAX_NOTE: usize = 1024;
const CUT: &str = " ...";

/// Returns an Event. Those that differ in their note alone would be counted as one, under the first
/// note, if they were about the same action.
pub fn event(type_: EventType, reason: Reason, mut note: String) -> Event {
    let mut hasher = DefaultHasher::new();
    note.hash(&mut hasher);
    if note.len() > MAX_NOTE {
        note.truncate(note.floor_char_boundary(MAX_NOTE - CUT.len()));
        note.push_str(CUT);
    }
    Event {
        type_,
        reason: reason.to_string(),
        action: format!("Reconcile-{:016x}", hasher.finish()),
        note: Some(note),
        secondary: None,
    }
}

/// Returns the metric for the end of a reconcile. A wait for a fixed time or for a person is not a
/// failure, like a requested later reconcile.
fn counted<E: Classify>(ended: &Result<Option<Duration>, E>) -> ReconcileResult {
    match ended {
        Ok(Some(next)) if *next < RESYNC => ReconcileResult::RequeueAfter,
        Ok(_) => ReconcileResult::Success,
        Err(error) => match error.disposition() {
            Disposition::Terminal(_) => ReconcileResult::TerminalError,
            Disposition::Wait(_) => ReconcileResult::RequeueAfter,
            _ if error.awaits_person() => ReconcileResult::RequeueAfter,
            Disposition::Retry | Disposition::RetryWithin(_) | Disposition::RetryAfter(_) => {
                ReconcileResult::Error
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::cluster::answering::{answering, refusal};
    use crate::telemetry::Log;

    #[derive(Debug, thiserror::Error)]
    #[error("boom")]
    enum Failure {
        Of(Disposition),
        AwaitsPerson,
        Conflict,
    }

    impl Classify for Failure {
        fn disposition(&self) -> Disposition {
            match self {
                Self::Of(disposition) => *disposition,
                Self::AwaitsPerson | Self::Conflict => Disposition::Retry,
            }
        }

        fn awaits_person(&self) -> bool {
            matches!(self, Self::AwaitsPerson)
        }

        fn is_conflict(&self) -> bool {
            matches!(self, Self::Conflict)
        }
    }

    const FIRST: Duration = Duration::from_secs(1);
    const CAP: Duration = Duration::from_mins(5);

    #[rstest]
    #[case::terminal(
        Failure::Of(Disposition::Terminal(Reason::Blocked)),
        ReconcileResult::TerminalError
    )]
    #[case::wait(Failure::Of(Disposition::Wait(FIRST)), ReconcileResult::RequeueAfter)]
    #[case::retry(Failure::Of(Disposition::Retry), ReconcileResult::Error)]
    #[case::within(Failure::Of(Disposition::RetryWithin(FIRST)), ReconcileResult::Error)]
    #[case::after(Failure::Of(Disposition::RetryAfter(FIRST)), ReconcileResult::Error)]
    #[case::a_person(Failure::AwaitsPerson, ReconcileResult::RequeueAfter)]
    fn an_end_is_counted_by_what_follows(
        #[case] failure: Failure,
        #[case] result: ReconcileResult,
    ) {
        assert_eq!(counted(&Err(failure)), result);
    }

    #[rstest]
    #[case::on_change(None, ReconcileResult::Success)]
    #[case::resync(Some(resync()), ReconcileResult::Success)]
    #[case::soon(Some(FIRST), ReconcileResult::RequeueAfter)]
    fn a_success_is_counted_by_when_it_comes_back(
        #[case] next: Option<Duration>,
        #[case] result: ReconcileResult,
    ) {
        assert_eq!(counted::<Failure>(&Ok(next)), result);
    }

    #[tokio::test]
    async fn a_line_in_json_names_the_object_and_the_span() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().json().flatten_event(true);
        let subscriber = subscriber.with_writer(move || writer.clone()).finish();
        let _logged = tracing::subscriber::set_default(subscriber);
        let client = answering(|_| refusal(404));
        let reconciler = Reconciler::new("c", "m", client, Metrics::default(), FIRST);
        let mut catalog = ClusterCatalog::default();
        catalog.metadata.name = Some("lamps".to_owned());
        catalog.metadata.generation = Some(3);
        let guarded = DeserializeGuard(Ok(catalog));
        let work = |_: &ClusterCatalog| std::future::ready(Ok::<_, Failure>(None));
        reconciler.attempt(&guarded, work).await.unwrap();
        let line: Value = serde_json::from_slice(&log.0.lock().unwrap()).unwrap();
        let span =
            json!({"name": "reconcile", "controller": "c", "object": "lamps", "generation": 3});
        assert_eq!((&line["span"], &line["name"]), (&span, &json!("lamps")));
    }

    #[test]
    fn a_long_note_is_cut_and_told_from_others() {
        let long = |end: &str| format!("{}{end}", "é".repeat(600));
        let (one, other) = [long("a"), long("b")]
            .map(|note| event(EventType::Warning, Reason::Blocked, note))
            .into();
        let note = one.note.unwrap_or_default();
        assert!(note.len() <= MAX_NOTE && note.ends_with("é ..."), "{note}");
        assert_ne!(one.action, other.action);
    }

    #[test]
    fn only_retries_wait_longer_each_time() {
        let failures = Backoff::new(FIRST, CAP);
        let next = |disposition| delay(&failures, &Failure::Of(disposition), "x");
        assert_eq!(next(Disposition::Wait(CAP)), CAP);
        assert!((CAP..CAP * 2).contains(&next(Disposition::RetryAfter(CAP))));
        let (first, second) = (next(Disposition::Retry), next(Disposition::Retry));
        assert!(first >= FIRST && second >= FIRST * 2, "{first:?} {second:?}");
        assert!(next(Disposition::RetryWithin(FIRST)) < FIRST * 2);
        assert!(next(Disposition::Terminal(Reason::Blocked)) > CAP);
    }

    /// Until a broken watch brings the version that was written, every attempt ends like the first.
    #[test]
    fn an_object_that_stays_old_is_tried_less_and_less() {
        let failures = Backoff::new(Duration::from_millis(5), CAP);
        let next = || delay(&failures, &Failure::Conflict, "x");
        assert_eq!(next(), AFTER_CONFLICT);
        let attempts = (2..20).map(|_| next()).collect::<Vec<_>>();
        assert!(attempts[10] >= AFTER_CONFLICT * 16, "{attempts:?}");
        assert!(attempts.iter().all(|delay| *delay <= MAX_AFTER_CONFLICT.mul_f64(1.2)));
        failures.forget("x");
        assert_eq!(next(), AFTER_CONFLICT);
    }
}
