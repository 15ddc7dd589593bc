//! Leader election, decided from the observed records of the Lease and their times. No I/O and no
//! clock.
//!
//! The rules are client-go's (`tools/leaderelection`), so that its electors and this one exclude
//! each other. Times in the record are written for others and never compared with our own clock: a
//! record counts as long as it was not seen to change for its own duration. Source: deploying.md
//! 4.1.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// The time for which others respect our record.
const DURATION: i32 = 137;
/// The interval of renewals.
const RENEW: Duration = Duration::from_secs(26);
/// Delay after a failed try.
const RETRY: Duration = Duration::from_secs(5);
/// A holder that could not write for so long gives up, 30 seconds before others take the Lease.
pub(super) const DEADLINE: Duration = Duration::from_secs(107);
/// Delay after a write that came too late, so that two writers never spin.
const AFTER_CONFLICT: Duration = Duration::from_millis(100);
/// The interval of reads by a candidate without an event of the watch.
const LOOK: Duration = Duration::from_secs(26);
/// Within this time candidates take a Lease that was given up.
const AFTER_RELEASE: Duration = Duration::from_secs(1);
/// Within this time candidates take a Lease whose holder is silent.
const AFTER_EXPIRY: Duration = Duration::from_secs(3);

/// A moment: time since the machine started.
pub(super) type Moment = Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Look,
    Write,
    /// Nothing before this moment, unless the Lease changes.
    Wait(Moment),
    Lost(Loss),
}

/// Why a leader leads no longer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    #[error("it could not be renewed for {} seconds", DEADLINE.as_secs())]
    Unrenewed,
    /// Somebody else holds it, or somebody took our name off it.
    #[error("its holder is now {0:?}")]
    Taken(String),
    /// The cluster is not the one that was seen before.
    #[error(
        "the API server went back to an earlier state, its etcd was restored from a backup; the \
         state of this process is outdated"
    )]
    WentBack,
}

/// One process and one Lease.
#[derive(Debug, Default)]
pub(super) struct Election {
    identity: String,
    /// The position of this candidate among all, from 0 to 1.
    spread: f64,
    /// The record, if the Lease was there at the last look.
    seen: Option<LeaseSpec>,
    /// Whether the Lease must be read before anything else.
    stale: bool,
    looked: Moment,
    /// The time at which the Lease may be acquired, according to the observed records.
    free: Moment,
    /// No request before this moment, after one failed.
    pause: Moment,
    lead: Option<Lead>,
}

#[derive(Debug)]
struct Lead {
    /// The record as it was written.
    spec: LeaseSpec,
    /// The time of the last successful write.
    renewed: Moment,
}

impl Election {
    /// Returns a candidate; `spread` is random, from 0 to 1.
    pub(super) fn new(identity: String, spread: f64) -> Self {
        Self { identity, spread, stale: true, ..Self::default() }
    }

    pub(super) fn step(&self, now: Moment) -> Step {
        let (due, end) = match &self.lead {
            Some(lead) => {
                let end = lead.renewed + DEADLINE;
                if now >= end {
                    return Step::Lost(Loss::Unrenewed);
                }
                if let Some(spec) = self.seen.as_ref().filter(|spec| !self.is_ours(spec)) {
                    return Step::Lost(Loss::Taken(holder(spec).unwrap_or_default().to_owned()));
                }
                // Without a Lease, or with a record that somebody changed, others soon take it.
                let stands = self.seen.as_ref() == Some(&lead.spec);
                let due = if stands { lead.renewed + RENEW } else { now };
                (due, end)
            }
            None => (self.free, self.looked + LOOK),
        };
        let leads = self.lead.is_some();
        if now < self.pause {
            return Step::Wait(if leads { self.pause.min(end) } else { self.pause });
        }
        let overdue = !leads && now >= end;
        if self.stale || overdue {
            Step::Look
        } else if now >= due {
            Step::Write
        } else {
            Step::Wait(due.min(end))
        }
    }

    /// Notes that the Lease changed, or may have.
    pub(super) fn suspect(&mut self) {
        self.stale = true;
    }

    /// Notes what was read: the record, or that there is no Lease.
    pub(super) fn look(&mut self, found: Option<LeaseSpec>, now: Moment) {
        let first = self.looked.is_zero();
        self.stale = false;
        self.looked = now;
        if self.seen == found && !first {
            return;
        }
        self.free = match &found {
            Some(spec) if self.is_ours(spec) => now,
            Some(spec) if holder(spec).is_some() => {
                now + duration(spec) + AFTER_EXPIRY.mul_f64(self.spread)
            }
            // The holder of a Lease that was deleted puts it back; until then it counts as before.
            None if self.seen.as_ref().is_some_and(|it| holder(it).is_some()) => self.free,
            Some(_) | None => now + AFTER_RELEASE.mul_f64(self.spread),
        };
        self.seen = found;
    }

    /// Returns the record to be written at the time `time` of the wall clock.
    pub(super) fn record(&self, time: Timestamp) -> LeaseSpec {
        let time = MicroTime(time);
        let led = self.lead.as_ref().map(|lead| &lead.spec);
        let mut spec = self.seen.as_ref().or(led).cloned().unwrap_or_default();
        // A record of ours counts also when the answer to its write was lost.
        let ours = led.or(self.seen.as_ref().filter(|spec| self.is_ours(spec)));
        (spec.acquire_time, spec.lease_transitions) = if let Some(ours) = ours {
            (ours.acquire_time.clone(), ours.lease_transitions)
        } else {
            let before = self.seen.as_ref().map(|spec| spec.lease_transitions);
            let next = before.map_or(0, |it| it.unwrap_or_default().saturating_add(1));
            (Some(time.clone()), Some(next))
        };
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = Some(DURATION);
        spec.renew_time = Some(time);
        spec
    }

    /// Returns the record that gives the Lease up.
    pub(super) fn released(&self, time: Timestamp) -> Option<LeaseSpec> {
        self.lead.as_ref()?;
        let mut spec = self.seen.clone().filter(|spec| self.is_ours(spec))?;
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.acquire_time = Some(MicroTime(time));
        spec.renew_time = Some(MicroTime(time));
        Some(spec)
    }

    /// Notes that the record was written by a request sent at `sent`.
    pub(super) fn written(&mut self, spec: LeaseSpec, sent: Moment, now: Moment) {
        self.seen = Some(spec.clone());
        self.stale = false;
        self.looked = now;
        self.pause = Moment::ZERO;
        self.lead = Some(Lead { spec, renewed: sent });
    }

    pub(super) fn failed(&mut self, now: Moment) {
        self.pause = now + RETRY;
    }

    /// Notes that a write met another Lease than the one last read.
    pub(super) fn refused(&mut self, now: Moment) {
        self.stale = true;
        self.pause = now + AFTER_CONFLICT;
    }

    pub(super) fn holder(&self) -> Option<&str> {
        self.seen.as_ref().and_then(holder)
    }

    /// Returns until when this process leads, if it does.
    pub(super) fn end(&self) -> Option<Moment> {
        self.lead.as_ref().map(|lead| lead.renewed + DEADLINE)
    }

    fn is_ours(&self, spec: &LeaseSpec) -> bool {
        holder(spec) == Some(&self.identity)
    }
}

/// Returns the holder of a Lease, if there is one; it may be an empty name.
fn holder(spec: &LeaseSpec) -> Option<&str> {
    spec.holder_identity.as_deref().filter(|name| !name.is_empty())
}

/// Returns for how long a Lease is held unless its holder writes again.
fn duration(spec: &LeaseSpec) -> Duration {
    let seconds = spec.lease_duration_seconds.unwrap_or_default();
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}
