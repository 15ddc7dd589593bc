//! Three extensions on one control plane, what is done to them, and the expected end state.

use std::sync::Arc;

use kube::ResourceExt as _;
use olm_test::prelude::*;
use olm_test::proxy::RuleId;
use olm_test::state::{self, State};

use crate::cast::{Actor, cast};
use crate::folder;
use crate::hands::Hand;
use crate::holds::Held;
use crate::life::{Age, Life, Watched};
use crate::setting;
use crate::stage::Stage;
use crate::tenant::Tenant;
use crate::user::User;

/// Minutes that a rollout of 1.1.0 has; fewer cannot be asked for.
pub(crate) const DEADLINE: i64 = 10;
/// How long a stage may take to settle; after an outage this includes the longest retry delay.
pub(crate) const SETTLED: Duration = Duration::from_mins(6);
/// How many of the last faults are printed when something takes long or fails.
const LAST_FAULTS: usize = 15;

/// The cluster, the controller behind its proxy, and the extensions of one test.
pub(crate) struct World {
    pub(crate) plane: &'static ControlPlane,
    pub(crate) client: kube::Client,
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) controller: Controller,
    pub(crate) life: Life,
    pub(crate) held: Held,
    pub(crate) tenant: Tenant,
    pub(crate) actors: Vec<Actor>,
    pub(crate) undisturbed: BTreeMap<Stage, State>,
    /// Extensions of which a revision was deleted by hand or a name was taken, so that revision numbers
    /// differ.
    pub(crate) renumbered: BTreeSet<String>,
    /// Extensions of which a Deployment may have been recreated after a deletion by hand.
    pub(crate) remade: BTreeSet<String>,
    /// Whether the API server or etcd was away, for all controllers of Kubernetes too.
    pub(crate) outage: bool,
    /// UID of every object, from before an orphaning deletion.
    before: BTreeMap<String, String>,
}

impl World {
    /// Starts the controller and makes the packages.
    pub(crate) async fn new(cluster: Cluster, suffix: &str) -> Self {
        let (plane, client) = (cluster.plane, cluster.client.clone());
        let proxy = Arc::new(Proxy::start(plane));
        let (name, way) = (suffix.to_owned(), Arc::clone(&proxy));
        let controller = tokio::task::spawn_blocking(move || {
            let options =
                ControllerOptions { name, args: arguments(), ..ControllerOptions::default() };
            Controller::start_through(plane, &way, options)
        })
        .await
        .expect("the controller starts");
        let actors = cast(&cluster, suffix).await;
        let tenant = Tenant::settle(&cluster, suffix);
        let held = Held::set(&cluster, suffix).await;
        let crds = actors.iter().flat_map(|actor| {
            actor.kinds.iter().map(|kind| (kind.crd.clone(), actor.name().to_owned()))
        });
        let watched =
            Watched { crds: crds.collect(), held: (held.name.clone(), held.digest.clone()) };
        let life = Life::observe(&client, watched);
        for actor in &actors {
            User::live(actor, &life);
        }
        let mut world = Self {
            plane,
            client,
            proxy,
            controller,
            life,
            held,
            tenant,
            actors,
            undisturbed: BTreeMap::new(),
            renumbered: BTreeSet::new(),
            remade: BTreeSet::new(),
            outage: false,
            before: BTreeMap::new(),
        };
        // An uninstall must leave the cluster in this state, but for what users keep of 1.1.0.
        let empty = world.quiet().await;
        world.undisturbed.insert(Stage::Uninstall, empty.clone());
        world.undisturbed.insert(Stage::Empty, empty);
        world
    }

    /// Makes a share of all requests of the controller fail in every way except without a response,
    /// chosen from `random`; `FAULTS` says how many of a thousand.
    pub(crate) fn disturb_requests(&self, random: &mut Random) {
        // In hundredths of the share.
        self.fail(
            [
                (Rule::writes().status(409), 40),
                (Rule::any().status(429), 20),
                (Rule::any().status(500), 32),
                (Rule::any().cut(), 20),
            ],
            random,
        );
    }

    /// Makes some requests of the controller get no response for `SILENCE_SECONDS`, or a tenth of
    /// that, until the rules are stopped; the API server carries out some of the writes among them.
    pub(crate) fn fall_silent(&self, random: &mut Random, long: bool) -> Vec<RuleId> {
        let silence = Duration::from_secs(setting("SILENCE_SECONDS", 30));
        let silence = if long { silence } else { silence / 10 };
        let rules = [(Rule::writes().unanswered(silence), 2), (Rule::any().silent(silence), 2)];
        self.fail(rules, random)
    }

    fn fail<const N: usize>(&self, rules: [(Rule, u64); N], random: &mut Random) -> Vec<RuleId> {
        let share = setting("FAULTS", 50);
        let with_seeds = rules.into_iter().map(|(rule, part)| {
            let seed = random.between(0, u64::MAX - 1);
            rule.per_mille((share * part).div_ceil(100), seed)
        });
        with_seeds.map(|rule| self.proxy.fail(rule)).collect()
    }

    /// Delays all watch events about revisions for the controller, until the rule is stopped.
    pub(crate) fn delay_revisions(&self, time: Duration) -> RuleId {
        self.proxy.fail(Rule::watch("clusterobjectsets").late_events(time))
    }

    /// Plays `stages` without disturbances and records how each ends.
    pub(crate) async fn rehearse(&mut self, stages: &[Stage]) {
        for &stage in stages {
            let started = Instant::now();
            self.begin(stage).await;
            for actor in &self.actors {
                actor.ends(&self.client, stage).await;
            }
            self.have_objects(stage).await;
            let state = match stage {
                Stage::Uninstall => self.empty().await,
                _ => self.quiet().await,
            };
            self.undisturbed.insert(stage, state);
            if stage == Stage::Orphan {
                self.nothing_was_made_anew().await;
            }
            self.nothing_was_lost().await;
            let (objects, took) = (self.undisturbed[&stage].len(), started.elapsed());
            println!("undisturbed {stage:?}: {objects} objects, {took:.1?}");
            self.clear_after(stage).await;
        }
    }

    /// Plays stages that were rehearsed, without disturbances.
    pub(crate) async fn plays(&mut self, stages: &[Stage]) {
        for &stage in stages {
            let started = Instant::now();
            self.begin(stage).await;
            self.ends_as_undisturbed(stage).await;
            self.clear_after(stage).await;
            println!("{stage:?} again: equal, {:.1?}", started.elapsed());
        }
    }

    /// Returns `stage`, or a rollback where nothing can go back to a revision: its only one of 1.0.0 was
    /// deleted by hand.
    pub(crate) async fn possible(&self, stage: Stage) -> Stage {
        if matches!(stage, Stage::StepBack | Stage::Revert) {
            let goes_back = |actor: &&Actor| stage == Stage::StepBack || actor.reverts_in(stage);
            for actor in self.actors.iter().filter(goes_back) {
                if first_revision(&actor.extension(&self.client)).await.is_none() {
                    return Stage::Rollback;
                }
            }
        }
        stage
    }

    /// Waits until every user has an object of each CRD that there is after `stage`.
    async fn have_objects(&self, stage: Stage) {
        wait::until("every user has an object of each CRD", SETTLED, || async {
            let lacks =
                |actor: &&Actor| self.life.objects(actor.name()) < actor.objects_after(stage);
            let lacking: Vec<_> = self.actors.iter().filter(lacks).map(Actor::name).collect();
            if lacking.is_empty() { Ok(()) } else { Err(lacking) }
        })
        .await;
    }

    /// Says whether a key of a state is that of an object that a user keeps, or of its CRD.
    pub(crate) fn belongs_to_users(&self, key: &str) -> bool {
        self.actors.iter().any(|actor| {
            let mut kinds = actor.kinds.iter().filter(|kind| kind.has_key(key));
            kinds.any(|kind| self.life.known(actor.name(), &kind.crd).stays)
        })
    }

    /// Does to all extensions what a user does in `stage`.
    pub(crate) async fn begin(&mut self, stage: Stage) {
        if stage == Stage::Orphan {
            self.before = state::uids(&self.client).await.expect("it can be read");
        }
        if stage == Stage::Revert {
            // Whoever finds that a rollout has timed out need not be who said it.
            self.kill();
            self.time_out().await;
        }
        for actor in &self.actors {
            let extension = actor.extension(&self.client);
            match stage {
                Stage::Install => {
                    self.life.enters(actor.name(), Age::Expected);
                    drop(actor.scene.install(json!({"version": "1.0.0"})).await);
                }
                Stage::Upgrade => {
                    // A version without a CRD that has objects would be refused from here on.
                    let allowed = json!({"crdUpgradeSafety": {"enforcement": "None"}});
                    let spec = json!({"install": {"preflight": allowed},
                        "progressDeadlineMinutes": DEADLINE,
                        "source": {"catalog": {"version": "1.1.0"}}});
                    extension.patch_spec(spec).await;
                }
                Stage::Revert if actor.reverts_in(stage) => {
                    actor.scene.annotate(policy::ON_FAILURE, "Rollback");
                }
                Stage::Rollback | Stage::Revert => {
                    extension.force("1.0.0").await;
                }
                Stage::StepBack => {
                    let first = first_revision(&extension).await.expect("1.0.0 is kept");
                    actor.scene.annotate(policy::ROLLBACK_TO, &first.to_string());
                }
                Stage::Uninstall => {
                    self.life.leaves(actor.name(), actor.removed_crds());
                    self.delete(&extension, &DeleteParams::default()).await;
                }
                Stage::Orphan => {
                    self.life.enters(actor.name(), Age::Released);
                    self.delete(&extension, &DeleteParams::orphan()).await;
                }
                Stage::Folder => folder::delete(self.plane, actor, &self.life).await,
                Stage::Empty => {}
            }
        }
        if stage == Stage::Revert {
            self.restart();
        }
    }

    pub(crate) async fn delete(&self, extension: &Extension, how: &DeleteParams) {
        Api::<ClusterExtension>::all(self.client.clone())
            .delete(&extension.name, how)
            .await
            .expect("it can be deleted");
    }

    /// Deletes something of a random extension by hand; returns what it was.
    pub(crate) async fn by_hand(&mut self, random: &mut Random, stage: Stage) -> Option<String> {
        let hand = Hand::choose(random, stage)?;
        let actor = random.one_of(&self.actors);
        // Whether a CRD has objects is asked before it goes: one that is made in between goes, too.
        let between = self.life.objects(actor.name()) < actor.objects_after(stage);
        if hand == Hand::Revision && stage == Stage::Upgrade && between {
            return None;
        }
        if !hand.delete(&self.client, (actor, stage), &self.life).await {
            return None;
        }
        if hand == Hand::Revision {
            self.renumbered.insert(actor.name().to_owned());
        }
        if matches!(hand, Hand::Revision | Hand::Deployment) {
            self.remade.insert(actor.name().to_owned());
        }
        Some(format!("{hand:?} in {stage:?}"))
    }

    /// Returns a handle on the first extension.
    pub(crate) fn first(&self) -> (&Scene, Extension) {
        let actor = &self.actors[0];
        (&actor.scene, actor.extension(&self.client))
    }

    /// Fails when an object that a user made is not there any more, and has to be.
    pub(crate) async fn nothing_was_lost(&self) {
        for actor in &self.actors {
            for kind in &actor.kinds {
                kind.look(actor.name(), &self.life).await;
            }
        }
        self.nothing_was_wrong();
    }

    /// Fails when something happened that must never happen.
    pub(crate) fn nothing_was_wrong(&self) {
        let wrongs = self.life.take_wrongs();
        assert!(wrongs.is_empty(), "{wrongs:#?}\n{}", self.last_words());
    }

    /// Fails when an object from before an orphaning deletion was recreated.
    pub(crate) async fn nothing_was_made_anew(&self) {
        let now = state::uids(&self.client).await.expect("it can be read");
        let kept = &self.undisturbed[&Stage::Orphan];
        let content = format!("Secret. {SYSTEM_NAMESPACE}/");
        for (key, uid) in &self.before {
            let ours = state::is_ours(key) || key.starts_with(&content);
            if kept.contains(key) || !ours {
                assert_eq!(now.get(key), Some(uid), "{key} did not outlast its extension");
            }
        }
    }

    /// Removes what a stage leaves behind on purpose.
    pub(crate) async fn clear_after(&mut self, stage: Stage) {
        match stage {
            Stage::Empty
            | Stage::Install
            | Stage::Upgrade
            | Stage::Rollback
            | Stage::StepBack
            | Stage::Revert => {}
            Stage::Uninstall
                if self.undisturbed[&stage].len() == self.undisturbed[&Stage::Empty].len() =>
            {
                self.forget();
            }
            Stage::Uninstall | Stage::Orphan | Stage::Folder => self.remove_left(stage).await,
        }
    }

    /// Uninstalls everything, whatever state it is in.
    pub(crate) async fn remove_everything(&mut self) {
        self.restart();
        for actor in &self.actors {
            self.life.enters(actor.name(), Age::Absent);
            let extension = actor.extension(&self.client);
            self.delete(&extension, &DeleteParams::default()).await;
            finish(actor).await;
        }
        // What was recorded before is expected here.
        drop(self.life.take_wrongs());
        self.ends_as_undisturbed(Stage::Empty).await;
    }

    fn forget(&mut self) {
        for actor in &self.actors {
            self.life.enters(actor.name(), Age::Absent);
        }
        self.renumbered.clear();
        self.remade.clear();
    }

    /// Removes what does not exist in a world without extensions, and makes what is missing of it.
    async fn remove_left(&mut self, after: Stage) {
        self.forget();
        // A CRD is gone at once when nothing of it is left.
        for actor in &self.actors {
            finish(actor).await;
        }
        let found = State::read(&self.client).await.expect("it can be read");
        let found = found.without(&self.tenant.keys());
        let mut left: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for key in found.keys_beyond(&self.undisturbed[&Stage::Empty]) {
            let (kind, name) = key.split_once(' ').expect("a key of a state");
            let (namespace, name) = name.split_once('/').expect("a key of a state");
            let object = format!("{}/{name}", kind.trim_end_matches('.'));
            left.entry(namespace.to_owned()).or_default().push(object);
        }
        // Cluster-scoped objects come last: with a CRD, its kind is removed.
        for (namespace, objects) in left.iter().rev() {
            let namespace = format!("--namespace={namespace}");
            let mut command = vec!["delete", "--ignore-not-found", "--wait=false", &namespace];
            command.extend(objects.iter().map(String::as_str));
            tokio::task::block_in_place(|| drop(self.plane.kubectl(&command)));
        }
        if after == Stage::Folder {
            for actor in &self.actors {
                tokio::task::block_in_place(|| actor.restore_folder());
            }
        }
        // What was recorded before is expected here.
        drop(self.life.take_wrongs());
        self.ends_as_undisturbed(Stage::Empty).await;
    }

    /// Expects what the controllers of Kubernetes do after an outage that they saw, from now on:
    /// their caches may be old in a later stage too.
    pub(crate) fn expect_outages(&mut self) {
        self.outage = true;
    }

    /// Records that the first extension is uninstalled now, with what 1.0.0 brings.
    pub(crate) fn first_leaves(&self) {
        let first = &self.actors[0];
        self.life.leaves(first.name(), first.removed_crds());
    }

    /// Starts the controller again as one that takes turns with others.
    pub(crate) fn use_leases(&mut self) {
        self.kill();
        let mut args = arguments();
        args.push("--leader-elect".to_owned());
        self.controller.set_args(&args.iter().map(String::as_str).collect::<Vec<_>>());
        self.restart();
    }

    /// Deletes all Leases of the controller.
    pub(crate) fn delete_leases(&self) {
        let namespace = format!("--namespace={SYSTEM_NAMESPACE}");
        let delete = ["delete", "leases", "--all", &namespace];
        tokio::task::block_in_place(|| drop(self.plane.kubectl(&delete)));
    }

    /// Kills the controller.
    pub(crate) fn kill(&mut self) {
        tokio::task::block_in_place(|| self.controller.kill());
    }

    /// Starts the controller again.
    pub(crate) fn restart(&mut self) {
        tokio::task::block_in_place(|| self.controller.restart(self.plane));
    }

    /// Returns data that helps to understand a failure.
    pub(crate) fn last_words(&self) -> String {
        let faults = self.proxy.log();
        let faults = &faults[faults.len().saturating_sub(LAST_FAULTS)..];
        format!("{}\nthe last faults: {faults:#?}", self.controller.last_words())
    }
}

/// Further arguments of the controller. The log of requests helps to understand a stall. Every
/// extension has objects of its CRDs, and an uninstall ends all the same.
fn arguments() -> Vec<String> {
    vec![format!("--v={}", setting("VERBOSITY", 1)), "--default-uninstall-policy=Delete".to_owned()]
}

/// Takes the finalizers off users' objects, where nothing else may do it; they may be gone already.
async fn finish(actor: &Actor) {
    for kind in &actor.kinds {
        let _ = kind.finish().await;
    }
}

/// Returns the number of the newest revision with 1.0.0, unless it was deleted by hand.
async fn first_revision(extension: &Extension) -> Option<i64> {
    let revisions = extension.revisions().await.into_iter();
    let first = revisions.filter(|set| {
        let version = set.annotations().get(annotation::BUNDLE_VERSION);
        let is_first = version.is_some_and(|version| version == "1.0.0");
        is_first && set.metadata.deletion_timestamp.is_none()
    });
    first.map(|set| set.spec.revision).max()
}
