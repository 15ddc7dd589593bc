//! What the controller needs goes away in the middle of an install, and comes back.

use std::time::{Duration, Instant};

use olm_test::cluster::{self, ControlPlane};

use crate::random::Random;
use crate::setting;
use crate::world::{Stage, World};

/// The longest time from the beginning of the install to the outage.
const BEFORE: Duration = Duration::from_secs(1);

/// How long the API server is gone before it is started again.
const API_SERVER: Duration = Duration::from_secs(2);

/// What is taken away: the words that begin and end it, and how long it lasts.
struct Outage {
    component: &'static str,
    begin: &'static str,
    end: &'static str,
    lasts: Duration,
}

/// An outage under way. It ends with this value, also when the test fails meanwhile: the other
/// tests need what was taken.
struct Gone<'a> {
    outage: &'a Outage,
    plane: &'a ControlPlane,
    since: Instant,
}

impl Outage {
    fn begin<'a>(&'a self, world: &World) -> Gone<'a> {
        let plane = world.plane;
        tokio::task::block_in_place(|| plane.control(self.begin, self.component));
        Gone {
            outage: self,
            plane,
            since: Instant::now(),
        }
    }
}

impl Gone<'_> {
    async fn pass(self) {
        let left = self.outage.lasts.saturating_sub(self.since.elapsed());
        tokio::time::sleep(left).await;
    }
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        let Outage { end, component, .. } = self.outage;
        tokio::task::block_in_place(|| self.plane.control(end, component));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outages_in_the_middle_of_an_install_change_no_end() {
    let mut random = Random::from_environment();
    let mut world = World::new(cluster::own().await, "fault").await;
    world.rehearse(&[Stage::Install, Stage::Uninstall]).await;
    let etcd = Duration::from_secs(setting("ETCD_SECONDS", 20));
    let outages = [
        ("kube-apiserver", "kill", "start", API_SERVER),
        ("etcd", "pause", "resume", etcd),
        ("etcd", "kill", "start", etcd),
    ];
    for (component, begin, end, lasts) in outages {
        let outage = Outage {
            component,
            begin,
            end,
            lasts,
        };
        world.begin(Stage::Install).await;
        tokio::time::sleep(random.up_to(BEFORE)).await;
        outage.begin(&world).pass().await;
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
    let gone = outage.begin(world);
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
    gone.pass().await;
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
