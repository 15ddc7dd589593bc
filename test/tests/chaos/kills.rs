//! The controller is killed (SIGKILL) at random times, while a share of its requests fails, objects are
//! deleted by hand and others do what they may.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use olm_test::prelude::*;
use tokio::task::JoinSet;

use crate::life::{Life, Verdict};
use crate::stage::Stage;
use crate::tally::{IN_THE_MIDDLE, Tally};
use crate::world::World;
use crate::{STAGE, setting};

/// The longest time from the start of a stage, or of the controller, to a kill.
const LIFE: Duration = Duration::from_millis(1500);
/// The delay of watch events about revisions in every third round.
const STALE: Duration = Duration::from_millis(500);

impl Tally {
    /// Plays a stage and kills the controller one to three times meanwhile; in half of all stages
    /// something is deleted by hand, and in some others act.
    async fn disturb(&mut self, world: &mut World, random: &mut Random, stage: Stage) {
        if stage == Stage::Revert {
            self.count("rollout timed out, and is reverted");
        }
        if let Some(claimed) = world.claim(random, stage).await {
            self.count(claimed);
        }
        let quota = world.ration(random, stage).map(|(rule, quota)| {
            self.count(quota);
            rule
        });
        world.begin(stage).await;
        let kills = random.between(1, 3);
        let hand = random.per_mille(500).then(|| random.between(1, kills));
        for kill in 1..=kills {
            tokio::time::sleep(random.up_to(LIFE)).await;
            if hand == Some(kill)
                && let Some(deleted) = world.by_hand(random, stage).await
            {
                self.count(format!("deleted: {deleted}"));
                tokio::time::sleep(random.up_to(LIFE)).await;
            }
            if let Some(edited) = world.edit(random).await {
                self.count(edited);
            }
            world.kill();
            self.count(format!("killed: {stage:?}"));
            if world.is_unfinished(stage).await {
                self.count(IN_THE_MIDDLE);
            }
            if stage == Stage::Revert {
                // As long as it is not reverted: something may have shown progress.
                world.time_out().await;
            }
            world.restart();
        }
        world.ends_as_undisturbed(stage).await;
        if let Some(deleted) = world.delete_stuck(random, stage).await {
            self.count(format!("deleted: {deleted}"));
            world.ends_as_undisturbed(stage).await;
        }
        if let Some(rule) = quota {
            world.proxy.stop(rule);
        }
        if world.tenant.leave().await {
            world.ends_as_undisturbed(stage).await;
        }
        world.clear_after(stage).await;
    }
}

/// State that the worlds of a run share.
struct Run {
    rounds: u64,
    begun: AtomicU64,
    tally: Mutex<Tally>,
    /// What was observed in each world, also in one that failed.
    lives: Mutex<Vec<Life>>,
}

impl Run {
    /// Returns the number of the next round, if there is one.
    fn next(&self) -> Option<u64> {
        let round = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        (round <= self.rounds).then_some(round)
    }

    /// Returns what was compared in all worlds so far.
    fn verdict(&self) -> Verdict {
        let mut all = Verdict::default();
        self.lives().iter().for_each(|life| all.add(life.verdict()));
        all
    }

    fn lives(&self) -> MutexGuard<'_, Vec<Life>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Plays round after round in one world.
async fn play(run: &Run, mut world: World, mut random: Random) {
    run.lives().push(world.life.clone());
    world.rehearse(&Stage::ALL).await;
    // Stages without kills must end the same, or the comparison would be meaningless.
    world.plays(&[Stage::Install, Stage::Upgrade]).await;
    world.rehearse(&[Stage::StepBack, Stage::Orphan]).await;
    world.plays(&[Stage::Install, Stage::Upgrade]).await;
    world.rehearse(&[Stage::Revert]).await;
    world.plays(&[Stage::Uninstall]).await;
    world.disturb_requests(&mut random);
    while let Some(round) = run.next() {
        let (started, mut tally) = (Instant::now(), Tally::default());
        let stages = Stage::drawn(&mut random);
        // Unanswered requests and delayed events take time, so they alternate.
        let slow = match round % 3 {
            0 => vec![world.delay_revisions(STALE)],
            1 => world.fall_silent(&mut random, round % 6 == 1),
            _ => Vec::new(),
        };
        let mut times = Vec::new();
        for stage in stages {
            let begun = Instant::now();
            let stage = world.possible(stage).await;
            tally.disturb(&mut world, &mut random, stage).await;
            times.push(format!("{stage:?} {:.0?}", begun.elapsed()));
        }
        for rule in slow {
            world.proxy.stop(rule);
        }
        tally.count("rounds");
        tally.add_faults(&world.proxy);
        run.tally().add(tally);
        println!(
            "round {round}/{} held ({:.1?}: {}); so far {}",
            run.rounds,
            started.elapsed(),
            times.join(", "),
            run.verdict()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_faults_and_hands_change_no_end_and_no_life() {
    let _alone = STAGE.lock().await;
    let mut random = Random::from_environment();
    let run = Arc::new(Run {
        rounds: setting("ROUNDS", 10),
        begun: AtomicU64::new(0),
        tally: Mutex::default(),
        lives: Mutex::default(),
    });
    let mut worlds = JoinSet::new();
    for world in 0..setting("WORLDS", 1).max(1) {
        let cluster = match world {
            0 => cluster::shared().await,
            _ => cluster::new().await,
        };
        let (run, random) = (Arc::clone(&run), random.another());
        worlds.spawn(async move {
            let world = World::new(cluster, "kill").await;
            play(&run, world, random).await;
        });
    }
    let mut failed = 0;
    while let Some(played) = worlds.join_next().await {
        failed += u64::from(played.is_err());
    }
    let mut tally = run.tally();
    tally.verdict = run.verdict();
    println!("{tally}");
    assert_eq!(failed, 0, "worlds do not hold; what each lost, or how it differs, is above");
    assert!(run.rounds == 0 || tally.has(IN_THE_MIDDLE), "no kill fell in the middle of anything");
}
