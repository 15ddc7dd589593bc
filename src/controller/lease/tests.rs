use std::sync::Mutex;

use jiff::Timestamp;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::election::*;
use super::*;
use crate::cluster::answering::answering;

const START: Moment = Duration::from_secs(5000);

fn after(seconds: u64) -> Moment {
    START + Duration::from_secs(seconds)
}

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn spec(value: Value) -> LeaseSpec {
    serde_json::from_value(value).unwrap()
}

fn held_by(holder: &str, seconds: i32) -> LeaseSpec {
    spec(json!({
        "holderIdentity": holder, "leaseDurationSeconds": seconds, "leaseTransitions": 4,
        "acquireTime": "2020-01-01T00:00:00.000000Z", "renewTime": "2020-01-01T00:00:00.000000Z",
    }))
}

/// A candidate at the far end of the spread.
fn late() -> Election {
    Election::new("us".to_owned(), 1.0)
}

fn early() -> Election {
    Election::new("us".to_owned(), 0.0)
}

/// A candidate that has seen a record of another at the start.
fn seeing(seconds: i32) -> Election {
    let mut election = early();
    election.look(Some(held_by("other", seconds)), START);
    election
}

/// Lets an election that finds no Lease lead from `START` on.
fn leader() -> Election {
    let mut election = early();
    election.look(None, START);
    let spec = election.record(wall(0));
    election.written(spec, START, START);
    election
}

#[test]
fn a_lease_that_is_not_there_is_created() {
    let mut election = early();
    assert_eq!(election.step(START), Step::Look);
    election.look(None, START);
    assert_eq!(election.step(START), Step::Write);
    let written = serde_json::to_value(election.record(wall(0))).unwrap();
    assert_eq!(
        written,
        json!({
            "holderIdentity": "us", "leaseDurationSeconds": 137, "leaseTransitions": 0,
            "acquireTime": "2023-11-14T22:13:20.000000Z",
            "renewTime": "2023-11-14T22:13:20.000000Z",
        })
    );
}

#[test]
fn a_leader_renews_every_26_seconds_and_keeps_what_is_not_its_own() {
    let mut election = early();
    let found = spec(json!({
        "holderIdentity": "", "leaseTransitions": 6, "strategy": "OldestEmulationVersion",
        "preferredHolder": "other",
    }));
    election.look(Some(found), START);
    let taken = election.record(wall(0));
    election.written(taken, START, after(1));
    assert_eq!(election.step(after(1)), Step::Wait(after(26)));
    assert_eq!(election.step(after(26)), Step::Write);
    let renewed = serde_json::to_value(election.record(wall(26))).unwrap();
    assert_eq!(
        renewed,
        json!({
            "holderIdentity": "us", "leaseDurationSeconds": 137, "leaseTransitions": 7,
            "acquireTime": "2023-11-14T22:13:20.000000Z",
            "renewTime": "2023-11-14T22:13:46.000000Z",
            "strategy": "OldestEmulationVersion", "preferredHolder": "other",
        })
    );
}

// Times in the record are other machines' and mean nothing here.
#[rstest]
#[case::short(15)]
#[case::as_ours(137)]
#[case::long(3600)]
fn a_held_lease_is_waited_for_in_full_from_its_first_sight(#[case] seconds: i32) {
    let own = u64::try_from(seconds).unwrap();
    let mut election = late();
    let mut now = START;
    election.look(Some(held_by("other", seconds)), now);
    while now < after(own + 3) {
        match election.step(now) {
            Step::Wait(until) => {
                assert!(until > now && until <= after(own + 3).max(now + Duration::from_secs(26)));
                now = until;
            }
            Step::Look => election.look(Some(held_by("other", seconds)), now),
            step => panic!("{step:?} at {now:?}"),
        }
    }
    assert!(matches!(election.step(now), Step::Write | Step::Look));
    election.look(Some(held_by("other", seconds)), now);
    assert_eq!(election.step(now), Step::Write);
    assert_eq!(election.record(wall(0)).lease_transitions, Some(5));
}

#[test]
fn a_change_of_the_record_starts_the_waiting_anew() {
    let mut election = seeing(15);
    election.look(Some(held_by("other", 15)), after(10));
    assert_eq!(election.step(after(15)), Step::Write);
    let mut renewed = held_by("other", 15);
    renewed.renew_time = None;
    election.look(Some(renewed), after(14));
    assert_eq!(election.step(after(15)), Step::Wait(after(29)));
    assert_eq!(election.step(after(29)), Step::Write);
}

#[test]
fn a_released_lease_is_taken_within_a_second() {
    let mut election = late();
    election.look(Some(held_by("other", 137)), START);
    election.suspect();
    assert_eq!(election.step(after(1)), Step::Look);
    election.look(Some(held_by("", 1)), after(1));
    assert_eq!(election.step(after(1)), Step::Wait(after(2)));
    assert_eq!(election.step(after(2)), Step::Write);
}

#[test]
fn a_candidate_looks_although_it_hears_nothing() {
    let election = seeing(137);
    assert_eq!(election.step(after(1)), Step::Wait(after(26)));
    assert_eq!(election.step(after(26)), Step::Look);
}

#[test]
fn a_failed_try_is_repeated_after_5_seconds_until_107_have_passed() {
    let mut election = leader();
    let mut now = after(26);
    let mut tries = 0;
    loop {
        match election.step(now) {
            Step::Write => {
                tries += 1;
                election.failed(now);
            }
            Step::Wait(until) => now = until,
            step => {
                assert_eq!((step, now), (Step::Lost(Loss::Unrenewed), after(107)));
                break;
            }
        }
    }
    assert_eq!(tries, 17);
}

#[test]
fn the_term_counts_from_before_the_last_good_write_was_sent() {
    let mut election = leader();
    let renewed = election.record(wall(26));
    election.written(renewed, after(26), after(36));
    assert_eq!(election.end(), Some(after(26 + 107)));
    assert_eq!(election.step(after(132)), Step::Write);
    assert_eq!(election.step(after(133)), Step::Lost(Loss::Unrenewed));
}

// deploying.md P30
#[rstest]
#[case::somebody("other")]
#[case::nobody("")]
fn a_leader_whose_name_is_gone_stops_at_once(#[case] holder: &str) {
    let mut election = leader();
    election.look(Some(held_by(holder, 137)), after(1));
    let lost = Step::Lost(Loss::Taken(holder.to_owned()));
    assert_eq!(election.step(after(1)), lost);
}

// deploying.md P30
#[test]
fn a_deleted_lease_is_put_back_by_its_holder_and_waited_for_by_others() {
    let mut holder = leader();
    let before = holder.record(wall(1));
    holder.look(None, after(5));
    assert_eq!(holder.step(after(5)), Step::Write);
    let again = holder.record(wall(5));
    assert_eq!(again.acquire_time, before.acquire_time);
    assert_eq!(again.lease_transitions, before.lease_transitions);

    let mut other = early();
    other.look(Some(held_by("holder", 20)), START);
    other.look(None, after(5));
    assert_eq!(other.step(after(5)), Step::Wait(after(20)));
    assert_eq!(other.step(after(20)), Step::Write);
    assert_eq!(other.record(wall(0)).lease_transitions, Some(0));
}

#[test]
fn a_leaders_record_that_somebody_changed_is_written_again_at_once() {
    let mut election = leader();
    let mut edited = election.record(wall(0));
    edited.lease_duration_seconds = Some(1);
    edited.lease_transitions = Some(99);
    election.look(Some(edited), after(3));
    assert_eq!(election.step(after(3)), Step::Write);
    let written = election.record(wall(3));
    assert_eq!(written.lease_duration_seconds, Some(137));
    assert_eq!(written.lease_transitions, Some(0));
}

#[test]
fn a_write_whose_answer_was_lost_is_continued() {
    let mut election = early();
    election.look(None, START);
    let lost = election.record(wall(0));
    election.failed(after(10));
    election.suspect();
    assert_eq!(election.step(after(11)), Step::Wait(after(15)));
    assert_eq!(election.step(after(15)), Step::Look);
    election.look(Some(lost.clone()), after(15));
    assert_eq!(election.end(), None);
    assert_eq!(election.step(after(15)), Step::Write);
    let continued = election.record(wall(15));
    assert_eq!(continued.acquire_time, lost.acquire_time);
    assert_eq!(continued.lease_transitions, Some(0));
}

// deploying.md P27
#[test]
fn a_release_keeps_transitions_and_lasts_a_second() {
    let mut election = early();
    assert_eq!(election.released(wall(0)), None);
    election.look(Some(held_by("", 1)), START);
    let taken = election.record(wall(0));
    election.written(taken, START, START);
    let released = serde_json::to_value(election.released(wall(7))).unwrap();
    assert_eq!(
        released,
        json!({
            "holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 5,
            "acquireTime": "2023-11-14T22:13:27.000000Z",
            "renewTime": "2023-11-14T22:13:27.000000Z",
        })
    );
    election.look(Some(held_by("other", 137)), after(1));
    assert_eq!(election.released(wall(8)), None);
}

#[test]
fn processes_have_names_of_their_own() {
    let (one, two) = (identity(), identity());
    assert_ne!(one, two);
    let (_, uuid) = one.rsplit_once('_').unwrap();
    let lengths: Vec<_> = uuid.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12]);
    assert_eq!(uuid.as_bytes()[14], b'4');
}

/// A process with a clock of its own, as the simulation below moves it.
#[derive(Default)]
struct Process {
    election: Election,
    /// What its clock is ahead of the simulation's.
    ahead: Duration,
    /// Its request under way: whether it writes, when it was sent, reaches the server, and is
    /// answered.
    request: Option<(bool, u64, u64, u64)>,
    /// What the server will have answered; nothing is lost on the way or failed there.
    answer: Option<Answer>,
    /// The version it last read or wrote, and the record it is writing.
    known: Option<u64>,
    sent: Option<LeaseSpec>,
    frozen_until: u64,
    gone: bool,
}

enum Answer {
    Found(Option<(u64, LeaseSpec)>),
    Written(u64, LeaseSpec),
    Conflict,
}

impl Process {
    fn now(&self, second: u64) -> Moment {
        START + self.ahead + Duration::from_secs(second)
    }

    fn may_write(&self, second: u64) -> bool {
        let end = self.election.end();
        !self.gone && end.is_some_and(|end| self.now(second) < end)
    }

    /// Moves it by one second; `fate` decides about delays and failures.
    fn run(&mut self, second: u64, stored: &mut Option<(u64, LeaseSpec)>, fate: u64) {
        if let Some((writes, _, arrives, _)) = self.request
            && arrives == second
            && !fate.is_multiple_of(11)
        {
            self.answer = Some(self.serve(writes, stored));
        }
        if self.gone || second < self.frozen_until {
            return;
        }
        if fate.is_multiple_of(97) {
            self.frozen_until = second + fate / 97 % 200;
            return;
        }
        let now = self.now(second);
        if let Some((_, sent, _, returns)) = self.request {
            if second < returns && second < sent + 10 {
                return;
            }
            self.request = None;
            let arrived = self.answer.take().filter(|_| second >= returns);
            let sent = self.now(sent);
            match arrived.filter(|_| !fate.is_multiple_of(13)) {
                Some(Answer::Found(found)) => {
                    self.known = found.as_ref().map(|found| found.0);
                    self.election.look(found.map(|found| found.1), now);
                }
                Some(Answer::Written(version, spec)) => {
                    self.known = Some(version);
                    self.election.written(spec, sent, now);
                }
                Some(Answer::Conflict) => self.election.refused(now),
                None => self.election.failed(now),
            }
        }
        match self.election.step(now) {
            Step::Lost(_) => self.gone = true,
            Step::Wait(_) => {}
            step => {
                let writes = step == Step::Write;
                self.sent = writes.then(|| {
                    let second = i64::try_from(second).unwrap();
                    self.election.record(wall(second))
                });
                let arrives = second + 1 + fate / 7 % 12;
                self.request = Some((writes, second, arrives, arrives + fate / 5 % 4));
            }
        }
    }

    /// What the API server does with the request.
    fn serve(&self, writes: bool, stored: &mut Option<(u64, LeaseSpec)>) -> Answer {
        if !writes {
            return Answer::Found(stored.clone());
        }
        if stored.as_ref().map(|stored| stored.0) != self.known {
            return Answer::Conflict;
        }
        let version = self.known.unwrap_or_default() + 1;
        let spec = self.sent.clone().unwrap();
        *stored = Some((version, spec.clone()));
        Answer::Written(version, spec)
    }
}

proptest! {
    // deploying.md P28: clocks that differ, delays, lost answers, refusals and processes that are
    // frozen never make two leaders.
    #[test]
    fn there_are_never_two_leaders(
        fates in proptest::collection::vec(any::<u32>(), 3 * 900),
        ahead in proptest::collection::vec(0_u64..7200, 3),
    ) {
        let mut stored = None;
        let mut processes: Vec<_> = ahead
            .iter()
            .enumerate()
            .map(|(number, ahead)| Process {
                election: Election::new(format!("process-{number}"), 0.0),
                ahead: Duration::from_secs(*ahead),
                ..Process::default()
            })
            .collect();
        for (second, fates) in fates.chunks(3).enumerate() {
            let second = second as u64;
            for (process, fate) in processes.iter_mut().zip(fates) {
                process.run(second, &mut stored, u64::from(*fate));
            }
            let leaders = processes.iter().filter(|one| one.may_write(second)).count();
            prop_assert!(leaders <= 1, "{leaders} leaders at second {second}");
        }
        let tried = stored.is_some();
        prop_assert!(tried);
    }
}

// deploying.md 4.1: who reads a Lease of a backup does not know this cluster any more
#[tokio::test]
async fn a_lease_that_went_back_ends_the_process() {
    let answers = [("7", "us"), ("9", "us"), ("9", "us"), ("8", "them")];
    let left = Mutex::new(answers.into_iter());
    let client = answering(move |_| {
        let (version, holder) = left.lock().unwrap().next().unwrap();
        let metadata = json!({"name": "l", "resourceVersion": version});
        (200, json!({"metadata": metadata, "spec": held_by(holder, 137)}))
    });
    let candidacy = Candidacy {
        namespace: "n".to_owned(),
        name: "l".to_owned(),
        identity: "us".to_owned(),
        manager: "m",
    };
    let mut elector = Elector::new(client, candidacy, Term::pending(), Metrics::default());
    for (version, _) in answers {
        assert!(!elector.went_back, "before {version}");
        elector.look().await;
    }
    let lost = elector.run(watch::Sender::new(false), std::future::pending()).await;
    assert_eq!(lost, Err(Loss::WentBack));
}
