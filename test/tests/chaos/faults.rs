//! What the controller depends on is stopped in the middle of every stage, and started again; at the end
//! etcd is set back to a backup.

use olm_test::prelude::*;

use crate::setting;
use crate::stage::Stage;
use crate::tally::Tally;
use crate::world::World;

/// The longest time from the start of a stage to the outage.
const BEFORE: Duration = Duration::from_secs(1);

/// How long the API server is stopped before it is started again.
const API_SERVER: Duration = Duration::from_secs(2);

/// An outage: the arguments that start and end it, and how long it lasts.
struct Outage {
    component: &'static str,
    begin: &'static str,
    end: &'static str,
    lasts: Duration,
}

/// A current outage. It ends when this value is dropped, even when the test fails: the other tests
/// need what was stopped.
struct Gone<'a> {
    outage: &'a Outage,
    plane: &'a ControlPlane,
    since: Instant,
}

impl Outage {
    fn begin<'a>(&'a self, world: &World) -> Gone<'a> {
        let plane = world.plane;
        tokio::task::block_in_place(|| plane.control(self.begin, self.component));
        Gone { outage: self, plane, since: Instant::now() }
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
async fn outages_in_the_middle_of_any_stage_change_no_end_and_no_life() {
    let mut random = Random::from_environment();
    let mut world = World::new(cluster::new().await, "fault").await;
    world.rehearse(&Stage::ALL).await;
    let etcd = Duration::from_secs(setting("ETCD_SECONDS", 20));
    let registry = Duration::from_secs(setting("REGISTRY_SECONDS", 60));
    let outages = [
        ("registry", "kill", "start", registry),
        ("kube-apiserver", "kill", "start", API_SERVER),
        ("etcd", "pause", "resume", etcd),
        ("etcd", "kill", "start", etcd),
    ];
    let mut tally = Tally::default();
    for (component, begin, end, lasts) in outages {
        let outage = Outage { component, begin, end, lasts };
        for stage in Stage::ALL {
            if component == "registry" {
                // It stops before the bundle is pulled.
                registry_goes(&mut world, &outage, stage).await;
            } else {
                world.expect_outages();
                world.begin(stage).await;
                tokio::time::sleep(random.up_to(BEFORE)).await;
                outage.begin(&world).pass().await;
            }
            held(&mut world, &outage, stage).await;
            tally.count(format!("away: {component} ({begin}) in {stage:?}"));
        }
    }
    let started = Instant::now();
    world.set_back(&mut random).await;
    println!("etcd set back: held, {:.1?}", started.elapsed());
    tally.count("etcd set back in Upgrade");
    tally.add_faults(&world.proxy);
    tally.verdict.add(world.life.verdict());
    println!("{tally}");
}

/// The registry stops before the bundle is pulled, and the extension reports it meanwhile.
async fn registry_goes(world: &mut World, outage: &Outage, stage: Stage) {
    let gone = outage.begin(world);
    world.begin(stage).await;
    if stage == Stage::Install {
        let (_, extension) = world.first();
        extension.shows("Progressing", "True", "Retrying", "error for resolved bundle").await;
    }
    gone.pass().await;
}

async fn held(world: &mut World, outage: &Outage, stage: Stage) {
    let started = Instant::now();
    world.ends_as_undisturbed(stage).await;
    world.clear_after(stage).await;
    println!(
        "{stage:?}, {} {} for {:?}: held, settled {:.1?} after its return",
        outage.component,
        outage.begin,
        outage.lasts,
        started.elapsed(),
    );
}
