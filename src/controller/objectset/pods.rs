//! What keeps the pods of a workload from running, as far as its account may read them.
//!
//! Pods are never watched. They are looked at while a workload has not been ready for a while, and
//! then now and again.

use std::time::Duration;

use kube::ResourceExt as _;
use olm_api::ClusterObjectSet;
use olm_core::object::Object;
use olm_core::revision::{pod_fault, pod_selector, pods_hint};
use tokio::time::Instant;

use super::Context;
use super::per_revision::Look;
use crate::apply::Applier;
use crate::cluster::code;

/// How long a workload has to become ready before its pods are looked at.
const FIRST: Duration = Duration::from_secs(10);
/// How often they are looked at then.
const AGAIN: Duration = Duration::from_secs(30);
/// How long an account that may not list them is not asked again.
const REFUSED: Duration = Duration::from_mins(10);

impl Context {
    /// Returns what keeps the pods of a workload that is not ready from running, and when to look again.
    pub(super) async fn pod_fault(
        &self,
        set: &ClusterObjectSet,
        applier: &Applier,
        workload: &Object,
    ) -> Option<(Option<String>, Duration)> {
        pod_selector(workload)?;
        let uid = set.uid().unwrap_or_default();
        let now = Instant::now();
        let known = self.kept.looks.get(&uid);
        let known = known.filter(|known| known.workload == workload.identity());
        let (fault, wait) = match known {
            None => (None, FIRST),
            Some(known) if now < known.next => {
                return Some((known.fault, known.next.duration_since(now)));
            }
            Some(known) => match applier.pods(workload).await {
                Ok(pods) => (pod_fault(&pods), AGAIN),
                Err(err) if matches!(code(&err), 401 | 403) => (pods_hint(workload), REFUSED),
                Err(_) => (known.fault, AGAIN),
            },
        };
        let look = Look { workload: workload.identity(), fault: fault.clone(), next: now + wait };
        self.kept.looks.put(&uid, Some(look));
        Some((fault, wait))
    }
}
