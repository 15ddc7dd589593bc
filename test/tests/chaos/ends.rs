//! Whether a stage has ended, and as it does undisturbed.

use std::sync::atomic::{AtomicBool, Ordering};

use olm_test::audit::Request;
use olm_test::extension::UNINSTALL;
use olm_test::prelude::*;
use olm_test::state::State;

use crate::cast::Actor;
use crate::folder;
use crate::stage::Stage;
use crate::world::{SETTLED, World};

/// How long the cluster must not change to count as settled.
const QUIET: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(250);
/// How often everything on the cluster is read to see that it does not change.
const LOOK: Duration = Duration::from_secs(1);
/// After this time the remaining differences are printed, for whoever watches the test.
const SLOW: Duration = Duration::from_secs(45);
/// How many of the last writes are printed then.
const LAST_WRITES: usize = 60;

impl World {
    /// Says whether `stage` is unfinished, as far as OLM's own kinds tell.
    pub(crate) async fn is_unfinished(&self, stage: Stage) -> bool {
        if stage == Stage::Folder {
            // A kind that cannot be listed is being removed.
            return folder::left(self).await != Ok(Vec::new());
        }
        let ours = State::read_ours(&self.client).await;
        ours.is_ok_and(|ours| !self.compared(&self.undisturbed[&stage].ours(), &ours).is_empty())
    }

    /// Returns the differences between the cluster and the undisturbed end of `stage`: OLM's own
    /// kinds first, because reading everything takes long, and everything once those are equal.
    pub(crate) async fn differences(&self, stage: Stage) -> Result<Vec<String>, String> {
        if stage == Stage::Folder {
            return folder::left(self).await;
        }
        let ours = State::read_ours(&self.client).await?;
        let lines = self.compared(&self.undisturbed[&stage].ours(), &ours);
        if lines.is_empty() { self.all_differences(stage).await } else { Ok(lines) }
    }

    async fn all_differences(&self, stage: Stage) -> Result<Vec<String>, String> {
        let found = State::read(&self.client).await?;
        Ok(self.compared(&self.undisturbed[&stage], &found))
    }

    fn compared(&self, expected: &State, found: &State) -> Vec<String> {
        let held = format!("ClusterCatalog.olm.operatorframework.io /{}", self.held.name);
        let held = [held].into();
        // A set of the tenant may have the name of a revision of the undisturbed run.
        let mut expected = expected.clone().without(&held);
        let mut found = found.clone().without(&held).without(&self.tenant.keys());
        for extension in &self.renumbered {
            expected = expected.without_numbers(extension);
            found = found.without_numbers(extension);
        }
        for extension in &self.remade {
            expected = expected.without_roll_outs(extension);
            found = found.without_roll_outs(extension);
        }
        if self.outage {
            for extension in self.actors.iter().map(Actor::name) {
                expected = expected.without_replica_sets(extension);
                found = found.without_replica_sets(extension);
            }
        }
        expected.differences(&found)
    }

    /// Waits until the cluster is as after the undisturbed `stage`, and stays so; fails at once
    /// when something happened meanwhile that must never happen.
    pub(crate) async fn ends_as_undisturbed(&self, stage: Stage) {
        let what = format!("{stage:?} ends as it does undisturbed");
        let within = match stage {
            Stage::Empty | Stage::Uninstall | Stage::Folder => UNINSTALL,
            Stage::Install
            | Stage::Upgrade
            | Stage::Rollback
            | Stage::StepBack
            | Stage::Revert
            | Stage::Orphan => SETTLED,
        };
        let (started, told) = (Instant::now(), AtomicBool::new(false));
        wait::until(&what, within, || async {
            for _ in 0..2 {
                self.nothing_was_wrong();
                match self.differences(stage).await {
                    Ok(lines) if lines.is_empty() => {}
                    Ok(lines) => {
                        if started.elapsed() > SLOW && !told.swap(true, Ordering::Relaxed) {
                            let all = match stage {
                                Stage::Folder => Ok(lines.clone()),
                                _ => self.all_differences(stage).await,
                            };
                            println!("{stage:?} still differs after {SLOW:?}: {all:#?}");
                            self.print_writes(&lines);
                            println!("{}", self.last_words());
                        }
                        tokio::time::sleep(POLL).await;
                        return Err(lines);
                    }
                    Err(error) => return Err(vec![error]),
                }
            }
            self.held.is_looked_at().await.map_err(|text| vec![text])
        })
        .await;
        if stage == Stage::Orphan {
            self.nothing_was_made_anew().await;
        }
        self.nothing_was_lost().await;
    }

    /// Prints the last writes of the objects that these differences name, and of content, whose
    /// names are not in the URL when it is created.
    fn print_writes(&self, lines: &[String]) {
        let named = |write: &Request| {
            // Numbers of revisions may be left out of a difference; hashes are not.
            let last = write.name.rsplit('-').next().unwrap_or_default();
            let content = write.namespace == SYSTEM_NAMESPACE && write.resource == "secrets";
            content || lines.iter().any(|line| line.contains(&format!("{last} ")))
        };
        let writes = audit::writes(&self.plane.addresses.audit_log, "");
        for write in writes.iter().rev().filter(|write| named(write)).take(LAST_WRITES) {
            let Request { received, verb, code, uri, .. } = write;
            println!("{received} {} {verb} {code} {uri}", write.user);
        }
    }

    /// Waits until nothing changes any more and only users' objects are left, and returns the state.
    /// The garbage collector removes the rest in its own time.
    pub(crate) async fn empty(&self) -> State {
        wait::until("only users' objects are left", SETTLED, || async {
            let state = self.quiet().await;
            let mut lines = self.compared(&self.undisturbed[&Stage::Empty], &state);
            lines.retain(|line| {
                let left = line.strip_prefix("left over: ");
                !left.is_some_and(|key| self.belongs_to_users(key))
            });
            if lines.is_empty() { Ok(state) } else { Err(lines) }
        })
        .await
    }

    /// Waits until nothing changes any more, and returns the state.
    pub(crate) async fn quiet(&self) -> State {
        let deadline = Instant::now() + UNINSTALL;
        let (mut last, mut since) = (None, Instant::now());
        loop {
            // A kind that is being removed cannot be listed for a moment.
            let state = State::read(&self.client).await;
            if last.as_ref() != Some(&state) {
                (last, since) = (Some(state), Instant::now());
            } else if since.elapsed() >= QUIET {
                return state.expect("the cluster can be read");
            }
            assert!(Instant::now() < deadline, "the cluster does not settle");
            tokio::time::sleep(LOOK).await;
        }
    }
}
