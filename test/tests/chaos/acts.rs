//! What others do meanwhile, besides deletions by hand: a second tenant, edits of a catalog, quotas;
//! and etcd that is set back.

use jiff::SignedDuration;
use kube::ResourceExt as _;
use olm_api::LifecycleState;
use olm_test::etcd;
use olm_test::prelude::*;
use olm_test::proxy::RuleId;

use crate::hands::newest;
use crate::stage::Stage;
use crate::world::{DEADLINE, World};

/// How long a process with a Lease may take to notice that etcd was set back.
const NOTICED: Duration = Duration::from_mins(2);
/// The longest time from the start of the upgrade until etcd is set back.
const BEFORE: Duration = Duration::from_secs(4);
/// What a quota leaves no room for, of what a step back writes.
const SCARCE: [&str; 6] = [
    "clusterobjectsets",
    "secrets",
    "configmaps",
    "deployments",
    "clusterroles",
    "customresourcedefinitions",
];
/// Most writes that pass before a quota refuses one, and most that it refuses.
const ROOM: u64 = 3;
const REFUSED: u64 = 3;

impl World {
    /// Has the second tenant name a random extension, in some of all cases, before `stage` begins.
    pub(crate) async fn claim(&mut self, random: &mut Random, stage: Stage) -> Option<String> {
        let may = matches!(stage, Stage::Install | Stage::Upgrade) || stage.is_back();
        if !may || !random.per_mille(400) {
            return None;
        }
        let extension = random.one_of(&self.actors).extension(&self.client);
        let (became, takes_name) = self.tenant.claim(random, &extension).await;
        if takes_name {
            self.renumbered.insert(extension.name);
        }
        Some(format!("{became} in {stage:?}"))
    }

    /// Edits the catalog whose content is held, in some of all cases.
    pub(crate) async fn edit(&self, random: &mut Random) -> Option<String> {
        if random.per_mille(300) { Some(self.held.edit(random).await) } else { None }
    }

    /// Has a quota refuse some writes of a step back, in half of all cases, until the rule is stopped.
    pub(crate) fn ration(&self, random: &mut Random, stage: Stage) -> Option<(RuleId, String)> {
        if !stage.is_back() || !random.per_mille(500) {
            return None;
        }
        let scarce = *random.one_of(&SCARCE);
        let (skip, count) = (random.between(0, ROOM), random.between(1, REFUSED));
        let rule = Rule::on(&["create", "patch"], scarce).subresource("");
        let rule = self.proxy.fail(rule.over_quota().later(skip, count));
        Some((rule, format!("quota of {scarce} in {stage:?}")))
    }

    /// Deletes the newest revision of an extension that is stuck, at rest: in half of all cases.
    pub(crate) async fn delete_stuck(
        &mut self,
        random: &mut Random,
        stage: Stage,
    ) -> Option<String> {
        if stage != Stage::Upgrade || !random.per_mille(500) {
            return None;
        }
        let stuck = self.actors.iter().find(|actor| actor.is_stuck_in(stage))?;
        let revisions = stuck.extension(&self.client).revisions().await;
        let of_it = |set: &&ClusterObjectSet| {
            let account = annotation::SERVICE_ACCOUNT_NAMESPACE;
            let annotations = set.metadata.annotations.as_ref();
            let recorded = annotations.and_then(|all| all.get(account)).map(String::as_str);
            set.spec.lifecycle_state == LifecycleState::Active && recorded == Some(stuck.name())
        };
        let newest = revisions.iter().rfind(of_it)?.metadata.name.clone()?;
        let api = Api::<ClusterObjectSet>::all(self.client.clone());
        api.delete(&newest, &DeleteParams::default()).await.expect("it can be deleted");
        let name = stuck.name().to_owned();
        self.renumbered.insert(name.clone());
        self.remade.insert(name);
        Some("Revision of a stuck rollout, at rest".to_owned())
    }

    /// Has the rollout that is stuck be one that timed out, as the controller leaves it, which is not
    /// running: nobody waits ten minutes for that.
    pub(crate) async fn time_out(&self) {
        for actor in self.actors.iter().filter(|actor| actor.reverts_in(Stage::Revert)) {
            let newest = newest(&self.client, actor).await.expect("revisions can be listed");
            let stuck =
                newest.filter(|set| set.annotations()[annotation::BUNDLE_VERSION] == "1.1.0");
            let Some(stuck) = stuck else { continue };
            let begun = Timestamp::now() - SignedDuration::from_mins(DEADLINE + 1);
            let begun = Timestamp::from_second(begun.as_second()).expect("a time").to_string();
            let said = format!(
                "Revision has not rolled out for {DEADLINE} minute(s). Last status: Revision 1.1.0 is \
                 rolling out."
            );
            let path = format!("olm.operatorframework.io/clusterobjectsets/{}", stuck.name_any());
            etcd::change(self.plane, &path, |set| {
                set["metadata"]["creationTimestamp"] = json!(begun);
                let conditions = set["status"]["conditions"].as_array_mut().into_iter().flatten();
                for condition in conditions.filter(|it| it["type"] == "Progressing") {
                    condition["status"] = json!("False");
                    condition["reason"] = json!("ProgressDeadlineExceeded");
                    condition["message"] = json!(said);
                }
            })
            .await;
        }
    }

    /// Sets etcd back to before an upgrade, in the middle of it, and ends what was begun again.
    pub(crate) async fn set_back(&mut self, random: &mut Random) {
        // The Lease tells a process that knows too much.
        self.use_leases();
        self.expect_outages();
        self.begin(Stage::Install).await;
        self.ends_as_undisturbed(Stage::Install).await;
        let (plane, life) = (self.plane, self.life.clone());
        let before = life.observed();
        etcd::back_up(plane).await;
        self.begin(Stage::Upgrade).await;
        tokio::time::sleep(random.up_to(BEFORE)).await;
        tokio::task::block_in_place(|| etcd::restore(plane, || life.go_back(before)));
        self.controller.ended(NOTICED).await;
        // The Leases of the backup name a process that is gone, and would count until they expire.
        self.delete_leases();
        self.restart();
        self.ends_as_undisturbed(Stage::Install).await;
        self.plays(&[Stage::Upgrade, Stage::Rollback, Stage::Uninstall]).await;
    }
}
