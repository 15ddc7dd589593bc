//! The plan of a reconcile of a ClusterCatalog, decided from the observed state. Pure.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::ResourceExt as _;
use olm_api::conditions::Reason;
use olm_api::keys::{finalizer, label, policy};
use olm_api::{AvailabilityMode, CatalogTakenStatus, CatalogUpdateStatus, ClusterCatalog};
use olm_core::catalog::hold::{CatalogPolicy, Hold};

/// One part in so many of a poll interval is added at random, so that catalogs drift apart.
const JITTER_DIVISOR: u32 = 100;

/// The image that a catalog is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The value in the object: `spec.source.image.ref`, or the template that replaces it.
    pub(super) written: String,
    /// The reference that it gives with the present version of the cluster.
    pub(super) image: String,
}

/// The memory of the last success, in this process only.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Memory {
    /// Identity of the object: another one of the same name has taken nothing yet.
    pub(super) uid: Option<String>,
    pub(super) generation: Option<i64>,
    pub(super) wanted: Wanted,
    pub(super) taken: Option<CatalogTakenStatus>,
    /// The time of the last request to the registry.
    pub(super) polled: Instant,
    /// The same, for people.
    pub(super) polled_at: Timestamp,
    /// The value of annotation `refresh` then.
    pub(super) refreshed: Option<String>,
    /// Fraction from 0 to 1 that stretches this poll interval.
    pub(super) jitter: f64,
}

#[cfg(test)]
impl Memory {
    /// Returns that of an object of this generation that was reconciled just now.
    pub(super) fn example(taken: Option<CatalogTakenStatus>) -> Self {
        let image = "example.com/c:1".to_owned();
        Self {
            uid: None,
            generation: Some(1),
            wanted: Wanted { written: image.clone(), image },
            taken,
            polled: Instant::now(),
            polled_at: Timestamp::UNIX_EPOCH,
            refreshed: None,
            jitter: 0.0,
        }
    }
}

/// The memory of a failure, until the next success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CatalogFailure {
    /// Version of the object after the failure was reported on it.
    pub(super) reported: Option<String>,
    pub(super) retry: Instant,
    /// Version of credentials and files that the image could not be pulled with, if that failed.
    pub(super) pulled_with: Option<u64>,
}

impl CatalogFailure {
    /// Returns whether an image that could not be pulled may succeed with the present
    /// configuration.
    pub(super) fn is_mended(&self, version: u64) -> bool {
        self.pulled_with.is_some_and(|with| with != version)
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    /// Whether the store has content of this very object.
    pub(super) stored: bool,
    /// The last success, unless the last attempt failed.
    pub(super) memory: Option<Memory>,
    /// The last attempt, if it failed.
    pub(super) failure: Option<CatalogFailure>,
    /// Whether newer content that was held may be taken now.
    pub(super) due: bool,
    /// Whether the requested image differs from that of the last success, or is unknown.
    pub(super) moved: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// Remove content, say so, and let go of the object.
    Disable,
    /// Remove content, say so, and let the object go.
    CleanUp,
    /// Others still hold the object that is being deleted, or nobody does.
    NoOp,
    /// Put our finalizer, unless it is switched off, and the label with the name on the object; the
    /// next reconcile continues.
    AddMetadata,
    Fetch,
    /// Everything is here; only the status may need repair.
    Keep,
    /// The last attempt failed, and nothing happened since but that it was reported.
    Wait(Duration),
}

/// Decides what a reconcile does (catalogs.md 2.2 and 2.3).
pub(super) fn plan(catalog: &ClusterCatalog, observed: &Observed, now: Instant) -> Plan {
    let ours = has_finalizer(catalog);
    let deleting = catalog.metadata.deletion_timestamp.is_some();
    let labelled = catalog.labels().get(label::METADATA_NAME) == Some(&catalog.name_any());
    // Policies and selectors read the label of one that is switched off, too.
    if is_off(catalog) && (deleting || labelled) {
        return Plan::Disable;
    }
    if deleting {
        return if ours { Plan::CleanUp } else { Plan::NoOp };
    }
    if !ours || !labelled {
        return Plan::AddMetadata;
    }
    match &observed.memory {
        Some(memory)
            if observed.stored
                && !observed.due
                && !observed.moved
                && memory.generation == catalog.metadata.generation
                && refresh(catalog).is_none_or(|text| memory.refreshed.as_ref() == Some(text))
                && until_poll(catalog, memory, now) != Some(Duration::ZERO) =>
        {
            Plan::Keep
        }
        _ => match observed.failure.as_ref().and_then(|it| left(it, catalog, now)) {
            Some(left) => Plan::Wait(left),
            None => Plan::Fetch,
        },
    }
}

pub(super) fn is_off(catalog: &ClusterCatalog) -> bool {
    catalog.spec.availability() == AvailabilityMode::Unavailable
}

/// Returns the text of the annotation that has the registry asked when it changes.
pub(super) fn refresh(catalog: &ClusterCatalog) -> Option<&String> {
    catalog.annotations().get(policy::REFRESH)
}

/// Returns the remaining wait after a failure; nothing once it is over, or if the object was
/// changed.
///
/// Our own report wakes us like any change. If its text differs from one attempt to the next, as
/// that of a registry which numbers its errors, every attempt would otherwise start another.
fn left(failure: &CatalogFailure, catalog: &ClusterCatalog, now: Instant) -> Option<Duration> {
    let untouched = failure.reported.is_some() && failure.reported == catalog.resource_version();
    let left = failure.retry.saturating_duration_since(now);
    (untouched && !left.is_zero()).then_some(left)
}

/// Returns the newer content that is held back.
pub(super) fn waiting(catalog: &ClusterCatalog) -> Option<&CatalogUpdateStatus> {
    catalog.status.as_ref()?.update.as_ref()
}

/// Returns when newer content that is held may be taken, or is held for another reason than the
/// status says; nothing where that is not a matter of time. What an annotation says that cannot be
/// followed has to be reported at once.
pub(super) fn release(catalog: &ClusterCatalog, now: Timestamp) -> Option<Timestamp> {
    let Ok(policy) = CatalogPolicy::of(catalog.annotations()) else { return Some(now) };
    let waiting = waiting(catalog)?;
    let digest = digest_of(&waiting.ref_);
    match policy.holds(digest, waiting.since.0, now) {
        Some(hold) if hold.code().as_str() != waiting.reason => Some(now),
        Some(Hold::TooYoung(until)) => Some(until),
        Some(Hold::Paused | Hold::Suspicious(_)) => None,
        None => {
            let examined = waiting.reason == Reason::Suspicious.as_str();
            (!(examined && policy.examines(digest))).then_some(now)
        }
    }
}

/// Returns the digest of a reference that has one.
pub(super) fn digest_of(reference: &str) -> &str {
    reference.rsplit_once('@').map_or(reference, |(_, digest)| digest)
}

/// Returns the registry and repository of a reference that has a digest.
pub(super) fn repository_of(reference: &str) -> &str {
    reference.rsplit_once('@').map_or(reference, |(repository, _)| repository)
}

pub(super) fn has_finalizer(catalog: &ClusterCatalog) -> bool {
    catalog.finalizers().iter().any(|name| name == finalizer::DELETE_SERVER_CACHE)
}

/// Returns the interval of polls, if the image is polled.
pub(super) fn poll_interval(catalog: &ClusterCatalog) -> Option<Duration> {
    let minutes = catalog.spec.source.image.as_ref()?.poll_interval_minutes?;
    Some(Duration::from_secs(u64::try_from(minutes).ok()?.saturating_mul(60)))
}

/// Returns how long until the registry is asked again; nothing if it is not polled.
pub(super) fn until_poll(
    catalog: &ClusterCatalog,
    memory: &Memory,
    now: Instant,
) -> Option<Duration> {
    let interval = poll_interval(catalog)?;
    // An interval too long to be added is as good as none.
    let extra = interval.checked_div(JITTER_DIVISOR)?.mul_f64(memory.jitter);
    Some(memory.polled.checked_add(interval.checked_add(extra)?)?.saturating_duration_since(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use rstest::rstest;
    use serde_json::json;

    fn catalog() -> ClusterCatalog {
        serde_json::from_value(json!({
            "apiVersion": olm_api::API_VERSION, "kind": "ClusterCatalog",
            "metadata": {"name": "acme", "generation": 1, "labels": {(label::METADATA_NAME): "acme"},
                "finalizers": [finalizer::DELETE_SERVER_CACHE]},
            "spec": {"source": {"type": "Image",
                "image": {"ref": "example.com/c:1", "pollIntervalMinutes": 5}}},
        }))
        .unwrap()
    }

    fn memory(observed: &mut Observed) -> &mut Memory {
        observed.memory.as_mut().unwrap()
    }

    fn remembered(now: Instant, age: u64) -> Observed {
        Observed {
            stored: true,
            memory: Some(Memory {
                polled: now.checked_sub(Duration::from_secs(age)).unwrap(),
                refreshed: Some("first".to_owned()),
                ..Memory::example(None)
            }),
            ..Observed::default()
        }
    }

    // catalogs.md 2.3
    #[rstest]
    #[case::settled(|_: &mut Observed| {}, Some("first"), Plan::Keep)]
    #[case::spec_changed(|it: &mut Observed| memory(it).generation = Some(2), None, Plan::Fetch)]
    #[case::poll_due(|it: &mut Observed| memory(it).polled -= Duration::from_mins(4), None, Plan::Fetch)]
    #[case::content_lost(|it: &mut Observed| it.stored = false, None, Plan::Fetch)]
    #[case::another_image(|it: &mut Observed| it.moved = true, None, Plan::Fetch)]
    #[case::after_start_or_a_failure(|it: &mut Observed| it.memory = None, None, Plan::Fetch)]
    #[case::asked_for_a_poll(|_: &mut Observed| {}, Some("second"), Plan::Fetch)]
    #[case::no_longer_asked(|_: &mut Observed| {}, None, Plan::Keep)]
    fn fetches_when_something_changed(
        #[case] change: fn(&mut Observed),
        #[case] refresh: Option<&str>,
        #[case] want: Plan,
    ) {
        let now = Instant::now() + Duration::from_secs(10_000);
        let (mut observed, mut catalog) = (remembered(now, 60), catalog());
        change(&mut observed);
        let asked = refresh.map(|text| (policy::REFRESH.to_owned(), text.to_owned()));
        catalog.annotations_mut().extend(asked);
        assert_eq!(plan(&catalog, &observed, now), want);
    }

    // decision 7
    #[test]
    fn own_report_of_a_failure_does_not_cut_the_delay_short() {
        let now = Instant::now();
        let delay = Duration::from_secs(8);
        let failed = |reported: &str| Observed {
            failure: Some(CatalogFailure {
                reported: Some(reported.to_owned()),
                retry: now + delay,
                pulled_with: None,
            }),
            ..Observed::default()
        };
        let mut catalog = catalog();
        catalog.metadata.resource_version = Some("7".to_owned());
        assert_eq!(plan(&catalog, &failed("7"), now), Plan::Wait(delay));
        assert_eq!(plan(&catalog, &failed("7"), now + delay), Plan::Fetch);
        // Somebody else changed the object.
        assert_eq!(plan(&catalog, &failed("6"), now), Plan::Fetch);
    }

    // deploying.md 3.2
    #[test]
    fn only_a_failed_pull_is_mended_by_other_credentials() {
        let failed =
            |pulled_with| CatalogFailure { reported: None, retry: Instant::now(), pulled_with };
        assert!(failed(Some(1)).is_mended(2));
        assert!(!failed(Some(1)).is_mended(1));
        assert!(!failed(None).is_mended(2));
    }

    // catalogs.md R6
    #[test]
    fn polls_after_the_rest_of_the_interval() {
        let now = Instant::now() + Duration::from_secs(10_000);
        let memory = |jitter| Memory { jitter, ..remembered(now, 120).memory.unwrap() };
        let mut catalog = catalog();
        assert_eq!(until_poll(&catalog, &memory(0.0), now), Some(Duration::from_mins(3)));
        let latest = until_poll(&catalog, &memory(1.0), now).unwrap();
        assert!(latest > Duration::from_mins(3) && latest <= Duration::from_secs(183));
        let image = catalog.spec.source.image.as_mut().unwrap();
        image.poll_interval_minutes = Some(i64::MAX);
        until_poll(&catalog, &memory(1.0), now);
        catalog.spec.source.image.as_mut().unwrap().poll_interval_minutes = None;
        assert_eq!(until_poll(&catalog, &memory(0.0), now), None);
    }

    // catalogs.md R1, R8, R9
    #[test]
    fn metadata_comes_first_and_deletion_ends_it() {
        let now = Instant::now();
        let decide = |catalog: &ClusterCatalog| plan(catalog, &Observed::default(), now);
        let mut bare = catalog();
        bare.metadata.finalizers = None;
        assert_eq!(decide(&bare), Plan::AddMetadata);
        let mut unlabeled = catalog();
        unlabeled.metadata.labels = None;
        assert_eq!(decide(&unlabeled), Plan::AddMetadata);
        let mut deleted = catalog();
        deleted.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(decide(&deleted), Plan::CleanUp);
        deleted.metadata.finalizers = Some(vec!["example.com/other".to_owned()]);
        assert_eq!(decide(&deleted), Plan::NoOp);
        let off = |mut catalog: ClusterCatalog| {
            catalog.spec.availability_mode = Some(AvailabilityMode::Unavailable);
            decide(&catalog)
        };
        assert_eq!([bare, unlabeled].map(off), [Plan::Disable, Plan::AddMetadata]);
        deleted.metadata.labels = None;
        assert_eq!(off(deleted), Plan::Disable);
    }
}
