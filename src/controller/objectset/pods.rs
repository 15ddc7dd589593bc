//! The reasons why the pods of a workload do not run, as far as its account may read them.
//!
//! Pods are never watched. They are looked at while a workload has not been ready for a while, and
//! then now and again.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use olm_api::ClusterObjectSet;
use olm_core::object::Object;
use olm_core::revision::{is_unpulled, pod_fault, pod_selector, pods_hint};
use olm_core::status::object_set::probe_line;
use tokio::time::Instant;

use super::Context;
use super::per_revision::{Look, PodFault};
use crate::apply::Applier;
use crate::cluster::code;

/// The time for a workload to become ready before its pods are read.
const FIRST: Duration = Duration::from_secs(10);
/// The interval of further reads.
const AGAIN: Duration = Duration::from_secs(30);
/// The time before a refused list of pods is retried.
const REFUSED: Duration = Duration::from_mins(10);
/// The time after which missing pods count as refused.
const CREATING: Duration = Duration::from_mins(2);

impl Context {
    /// Returns the reason why the pods of an unready workload do not run, and the time of the next
    /// check. `missing` is the message of its status about pods that do not exist.
    pub(super) async fn pod_fault(
        &self,
        set: &ClusterObjectSet,
        applier: &Applier,
        workload: &Object,
        missing: Option<String>,
    ) -> Option<(Option<PodFault>, Duration)> {
        pod_selector(workload)?;
        let uid = set.uid().unwrap_or_default();
        let now = Instant::now();
        let known = self.kept.looks.get(&uid).filter(|known| known.workload == workload.identity());
        let before = known.as_ref().and_then(|known| known.missing);
        let since = missing.as_ref().map(|_| before.unwrap_or(now));
        let (fault, wait) = match known {
            None => (None, FIRST),
            Some(known) if now < known.next => (known.fault, known.next.duration_since(now)),
            Some(known) => match applier.pods(workload).await {
                Ok(pods) => {
                    let is_lasting = is_unpulled(&pods, Timestamp::now());
                    (pod_fault(&pods).map(|why| PodFault { why, is_lasting }), AGAIN)
                }
                Err(err) if matches!(code(&err), 401 | 403) => {
                    (pods_hint(workload).map(|why| PodFault { why, is_lasting: false }), REFUSED)
                }
                Err(_) => (known.fault, AGAIN),
            },
        };
        let identity = workload.identity();
        let (workload, next) = (identity.clone(), now + wait);
        let look = Look { workload, fault: fault.clone(), missing: since, next };
        self.kept.looks.put(&uid, Some(look));
        // Whether the account may list pods or not, their absence is known.
        let wait = since.map_or(wait, |_| wait.min(AGAIN));
        let fault = refused(missing, since, now).or(fault);
        let line = |why: &str| probe_line(&identity, why);
        Some((fault.map(|found| PodFault { why: line(&found.why), ..found }), wait))
    }
}

/// Returns the message about pods that have been missing for long: that they are refused.
fn refused(missing: Option<String>, since: Option<Instant>, now: Instant) -> Option<PodFault> {
    let is_lasting = now.duration_since(since?) >= CREATING;
    missing.filter(|_| is_lasting).map(|why| PodFault { why, is_lasting })
}

#[cfg(test)]
mod tests {
    use super::*;

    // applying.md 1.3
    #[test]
    fn pods_that_are_missing_for_minutes_are_refused() {
        let since = Instant::now();
        let told = |after: Duration| refused(Some("0 of 1".to_owned()), Some(since), since + after);
        assert!(told(CREATING / 2).is_none());
        assert!(told(CREATING).is_some_and(|fault| fault.is_lasting && fault.why == "0 of 1"));
        assert!(refused(None, None, since).is_none());
    }
}
