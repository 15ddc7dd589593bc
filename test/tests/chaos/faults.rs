//! What the controller needs goes away in the middle of an install, and comes back.

use std::time::{Duration, Instant};

use crate::random::Random;
use crate::world::{Stage, World};
use crate::{STAGE, setting};

/// The longest time from the beginning of the install to the outage.
const BEFORE: Duration = Duration::from_secs(1);

/// An outage of a component: the words that begin and end it, and how long it lasts.
struct Outage {
    component: &'static str,
    begin: &'static str,
    end: &'static str,
    lasts: Duration,
}

impl Outage {
    async fn strike(&self, world: &World) {
        world.control(self.begin, self.component);
        tokio::time::sleep(self.lasts).await;
        world.control(self.end, self.component);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outages_in_the_middle_of_an_install_change_no_end() {
    let _alone = STAGE.lock().await;
    let mut random = Random::from_environment();
    let mut world = World::new("fault").await;
    world.rehearse(&[Stage::Install, Stage::Uninstall]).await;
    let outage = |component, begin, end, lasts| Outage {
        component,
        begin,
        end,
        lasts: Duration::from_secs(lasts),
    };
    let etcd = setting("ETCD_SECONDS", 20);
    let outages = [
        outage("kube-apiserver", "kill", "start", 2),
        outage("etcd", "pause", "resume", etcd),
        outage("etcd", "kill", "start", etcd),
    ];
    for outage in outages {
        world.begin(Stage::Install).await;
        tokio::time::sleep(random.up_to(BEFORE)).await;
        outage.strike(&world).await;
        held(&world, &outage).await;
    }
    registry_goes(&world).await;
}

/// The registry goes before the bundle is there, and the extension says so meanwhile.
async fn registry_goes(world: &World) {
    let outage = Outage {
        component: "registry",
        begin: "kill",
        end: "start",
        lasts: Duration::from_secs(setting("REGISTRY_SECONDS", 60)),
    };
    let started = Instant::now();
    world.control(outage.begin, outage.component);
    world.begin(Stage::Install).await;
    let (_, extension) = world.first();
    extension
        .shows(
            "Progressing",
            "True",
            "Retrying",
            "error for resolved bundle",
        )
        .await;
    tokio::time::sleep(outage.lasts.saturating_sub(started.elapsed())).await;
    world.control(outage.end, outage.component);
    held(world, &outage).await;
}

async fn held(world: &World, outage: &Outage) {
    let started = Instant::now();
    world.ends_as_undisturbed(Stage::Install).await;
    println!(
        "{} {} for {:?}: held, settled {:.1?} after its return",
        outage.component,
        outage.begin,
        outage.lasts,
        started.elapsed(),
    );
    world.begin(Stage::Uninstall).await;
    world.ends_as_undisturbed(Stage::Uninstall).await;
}
