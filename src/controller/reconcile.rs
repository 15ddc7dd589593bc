//! What the three reconcilers share: how an end is counted, when an object is looked at again after
//! a failure, and how objects of our own kinds are written.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::object::HasStatus;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Client, Resource, ResourceExt as _};
use olm_core::error::{Chain, Classify, Disposition};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::backoff::{Backoff, resync};
use crate::telemetry::ReconcileResult;
use crate::written::Written;

/// Returns how the end of a reconcile is counted. What waits for a fixed time has failed as little
/// as what was asked to come back later.
pub fn counted<T, E: Classify>(result: &Result<T, E>) -> ReconcileResult {
    let Err(error) = result else {
        return ReconcileResult::Success;
    };
    match error.disposition() {
        Disposition::Terminal(_) => ReconcileResult::TerminalError,
        Disposition::Wait(_) => ReconcileResult::RequeueAfter,
        Disposition::Retry | Disposition::RetryWithin(_) => ReconcileResult::Error,
    }
}

/// Returns when the object `name` is looked at again after a failure.
pub fn delay(error: &impl Classify, backoff: &Backoff<String>, name: String) -> Duration {
    match error.disposition() {
        Disposition::Terminal(_) => resync(),
        Disposition::Wait(delay) => delay,
        Disposition::Retry => backoff.next(name),
        Disposition::RetryWithin(limit) => backoff.next_within(name, limit),
    }
}

/// Writes objects of one of our own kinds, as one field manager.
pub struct Own<'a> {
    /// The controller's own client.
    pub client: &'a Client,
    /// Name of the field manager.
    pub manager: &'static str,
}

impl Own<'_> {
    /// Changes metadata of the version of the object that was read, and of no other.
    ///
    /// # Errors
    /// Fails with a conflict when the object has changed since.
    pub async fn patch_metadata<K>(&self, object: &K, mut metadata: Value) -> Result<K, kube::Error>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        metadata["resourceVersion"] = object.resource_version().into();
        let params = PatchParams {
            field_manager: Some(self.manager.to_owned()),
            ..PatchParams::default()
        };
        Api::<K>::all(self.client.clone())
            .patch(
                &object.name_any(),
                &params,
                &Patch::Merge(json!({"metadata": metadata})),
            )
            .await
    }

    /// Replaces the status of an object, unless it is what stands on the cluster already. Returns
    /// the object as it was written; `None` when nothing was, also because the object is gone.
    pub async fn write_status<K>(
        &self,
        written: &Written,
        object: &K,
        status: K::Status,
    ) -> Result<Option<K>, kube::Error>
    where
        K: Resource<DynamicType = ()>
            + HasStatus
            + Clone
            + Serialize
            + DeserializeOwned
            + std::fmt::Debug,
        K::Status: Serialize + PartialEq,
    {
        let uid = object.uid().unwrap_or_default();
        if object.status() == Some(&status) && written.is_current(&uid, &status) {
            return Ok(None);
        }
        let mut changed = object.clone();
        *changed.status_mut() = Some(status);
        changed.meta_mut().managed_fields = None;
        let params = PostParams {
            field_manager: Some(self.manager.to_owned()),
            ..PostParams::default()
        };
        written.begin(&uid);
        let api = Api::<K>::all(self.client.clone());
        match api
            .replace_status(&object.name_any(), &params, &changed)
            .await
        {
            Ok(answer) => {
                if let Some(status) = answer.status() {
                    written.end(&uid, status);
                }
                Ok(Some(answer))
            }
            // With the object goes the reason to report.
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Writes an Event; that it cannot be written is only logged.
pub async fn tell(
    recorder: &Recorder,
    about: &ObjectReference,
    type_: EventType,
    reason: &str,
    note: String,
) {
    let event = Event {
        type_,
        reason: reason.to_owned(),
        note: Some(note),
        action: "Reconcile".to_owned(),
        secondary: None,
    };
    if let Err(error) = recorder.publish(&event, about).await {
        tracing::debug!(error = %Chain(&error), reason, "event not written");
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("boom")]
    struct Failure(Disposition);

    impl Classify for Failure {
        fn disposition(&self) -> Disposition {
            self.0
        }
    }

    const FIRST: Duration = Duration::from_secs(1);
    const CAP: Duration = Duration::from_mins(5);

    #[rstest]
    #[case::terminal(Disposition::Terminal("Blocked"), ReconcileResult::TerminalError)]
    #[case::wait(Disposition::Wait(FIRST), ReconcileResult::RequeueAfter)]
    #[case::retry(Disposition::Retry, ReconcileResult::Error)]
    #[case::within(Disposition::RetryWithin(FIRST), ReconcileResult::Error)]
    fn an_end_is_counted_by_what_follows(
        #[case] disposition: Disposition,
        #[case] result: ReconcileResult,
    ) {
        assert_eq!(counted::<(), _>(&Err(Failure(disposition))), result);
        assert_eq!(counted::<_, Failure>(&Ok(())), ReconcileResult::Success);
    }

    #[test]
    fn only_retries_wait_longer_each_time() {
        let backoff = Backoff::new(FIRST, CAP);
        let next = |disposition| delay(&Failure(disposition), &backoff, "x".to_owned());
        assert_eq!(next(Disposition::Wait(CAP)), CAP);
        let (first, second) = (next(Disposition::Retry), next(Disposition::Retry));
        assert!(
            first >= FIRST && second >= FIRST * 2,
            "{first:?} {second:?}"
        );
        assert!(next(Disposition::RetryWithin(FIRST)) < FIRST * 2);
        assert!(next(Disposition::Terminal("Blocked")) > CAP);
    }
}
