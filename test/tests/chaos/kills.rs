//! The controller is killed (SIGKILL) at random moments.

use std::time::{Duration, Instant};

use olm_test::cluster;

use crate::random::Random;
use crate::world::{Stage, World};
use crate::{STAGE, setting};

/// The longest time from the beginning of a stage, or from the controller's start, to a kill.
const LIFE: Duration = Duration::from_millis(1500);

#[derive(Default)]
struct Tally {
    kills: u64,
    /// Kills that found the stage unfinished.
    in_the_middle: u64,
}

impl Tally {
    /// Plays a stage and kills the controller one to three times meanwhile.
    async fn disturb(&mut self, world: &mut World, random: &mut Random, stage: Stage) {
        world.begin(stage).await;
        for _ in 0..random.between(1, 3) {
            tokio::time::sleep(random.up_to(LIFE)).await;
            world.kill();
            self.kills += 1;
            // What cannot be listed is a kind on its way out.
            let left = world.differences(stage).await;
            self.in_the_middle += u64::from(left != Ok(Vec::new()));
            world.restart();
        }
        world.ends_as_undisturbed(stage).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_at_random_moments_change_no_end() {
    let _alone = STAGE.lock().await;
    let rounds = setting("ROUNDS", 10);
    let mut random = Random::from_environment();
    let mut world = World::new(cluster::shared().await, "kill").await;
    world.rehearse(&Stage::ALL).await;
    // A round without kills must be found equal, or the comparison means nothing.
    for stage in Stage::ALL {
        let started = Instant::now();
        world.begin(stage).await;
        world.ends_as_undisturbed(stage).await;
        println!("{stage:?} again: equal, {:.1?}", started.elapsed());
    }
    let mut tally = Tally::default();
    for round in 1..=rounds {
        let started = Instant::now();
        for stage in Stage::ALL {
            tally.disturb(&mut world, &mut random, stage).await;
        }
        println!(
            "round {round}/{rounds} held ({:.1?}); so far {} kills, {} of them in the middle",
            started.elapsed(),
            tally.kills,
            tally.in_the_middle,
        );
    }
    assert!(
        rounds == 0 || tally.in_the_middle > 0,
        "no kill fell in the middle of anything"
    );
}
