//! The controller is killed (SIGKILL) at random moments, while a share of its requests fails and
//! somebody deletes things by hand.

use std::time::{Duration, Instant};

use olm_test::cluster;
use olm_test::random::Random;

use crate::stage::Stage;
use crate::tally::Tally;
use crate::world::World;
use crate::{STAGE, setting};

/// The longest time from the beginning of a stage, or from the controller's start, to a kill.
const LIFE: Duration = Duration::from_millis(1500);
/// How late what a watch of revisions reports comes in some rounds.
const STALE: Duration = Duration::from_millis(500);

impl Tally {
    /// Plays a stage and kills the controller one to three times meanwhile; in half of all stages
    /// somebody deletes something by hand.
    async fn disturb(&mut self, world: &mut World, random: &mut Random, stage: Stage) {
        world.begin(stage).await;
        let kills = random.between(1, 3);
        let hand = random.per_mille(500).then(|| random.between(1, kills));
        for kill in 1..=kills {
            tokio::time::sleep(random.up_to(LIFE)).await;
            if hand == Some(kill)
                && let Some(deleted) = world.by_hand(random, stage).await
            {
                Self::count(&mut self.hands, deleted);
                tokio::time::sleep(random.up_to(LIFE)).await;
            }
            world.kill();
            self.kills += 1;
            // What cannot be listed is a kind on its way out.
            let left = world.differences(stage).await;
            self.in_the_middle += u64::from(left != Ok(Vec::new()));
            world.restart();
        }
        world.ends_as_undisturbed(stage).await;
        world.clear_after(stage).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_faults_and_hands_change_no_end_and_no_life() {
    let _alone = STAGE.lock().await;
    let rounds = setting("ROUNDS", 10);
    let mut random = Random::from_environment();
    let mut world = World::new(cluster::shared().await, "kill").await;
    world.rehearse(&Stage::ALL).await;
    // A round without kills must be found equal, or the comparison means nothing.
    for stage in Stage::WITH_ORPHANING {
        let started = Instant::now();
        if stage == Stage::Orphan {
            world.rehearse(&[stage]).await;
            continue;
        }
        world.begin(stage).await;
        world.ends_as_undisturbed(stage).await;
        println!("{stage:?} again: equal, {:.1?}", started.elapsed());
    }
    world.disturb_requests(&mut random);
    let mut tally = Tally::default();
    for round in 1..=rounds {
        let started = Instant::now();
        let stages = if round % 2 == 0 {
            Stage::WITH_ORPHANING
        } else {
            Stage::ALL
        };
        let stale = (round % 3 == 0).then(|| world.delay_revisions(STALE));
        for stage in stages {
            tally.disturb(&mut world, &mut random, stage).await;
        }
        if let Some(stale) = stale {
            world.proxy.stop(stale);
        }
        tally.rounds += 1;
        println!(
            "round {round}/{rounds} held ({:.1?}); so far {} kills, {} of them in the middle, {} \
             faults, {} deletions by hand",
            started.elapsed(),
            tally.kills,
            tally.in_the_middle,
            world.proxy.injected().values().sum::<u64>(),
            tally.hands.values().sum::<u64>(),
        );
    }
    println!(
        "{}",
        tally.with(world.proxy.requests(), &world.proxy.injected())
    );
    assert!(
        rounds == 0 || tally.in_the_middle > 0,
        "no kill fell in the middle of anything"
    );
}
