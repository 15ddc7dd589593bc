//! Taking over what upstream's Helm applier, its earlier revisions or somebody installed.

use std::sync::Arc;

use futures::future::{FutureExt as _, join_all};
use olm_test::helm::{self, Release, owner};
use olm_test::package::definition;
use olm_test::prelude::*;
use tokio::sync::{Barrier, Mutex};

use crate::data::archived;

const KEYS: &str = "olm.operatorframework.io";

/// A control plane whose controller goes, and returns, when all of so many extensions are ready for it.
pub(crate) struct Stage {
    controller: Mutex<Controller>,
    all: Barrier,
    cluster: Cluster,
}

impl Stage {
    /// Starts a controller for so many extensions.
    pub(crate) async fn of(extensions: usize) -> Arc<Self> {
        let (cluster, controller) = cluster::started("", &[]).await;
        Self::with(cluster, controller, extensions)
    }

    /// The same with a controller that runs.
    pub(crate) fn with(cluster: Cluster, controller: Controller, extensions: usize) -> Arc<Self> {
        let (controller, all) = (Mutex::new(controller), Barrier::new(extensions));
        Arc::new(Self { controller, all, cluster })
    }

    pub(crate) async fn goes(&self) {
        self.together(Controller::kill).await;
    }

    pub(crate) async fn returns(&self) {
        self.together(|controller| controller.restart(self.cluster.plane)).await;
    }

    async fn together(&self, act: impl Fn(&mut Controller)) {
        if self.all.wait().await.is_leader() {
            let mut controller = self.controller.lock().await;
            act(&mut controller);
        }
        self.all.wait().await;
    }
}

/// An extension that Helm installed, with no controller running.
pub(crate) struct Left {
    pub(crate) scene: Scene,
    pub(crate) stage: Arc<Stage>,
    pub(crate) extension: Extension,
    /// Namespace of the controller, in which releases are kept.
    system: &'static str,
    uid: String,
}

impl Left {
    /// Serves a catalog with these bundles, and makes an extension that nobody looks at.
    pub(crate) async fn of(
        stage: &Arc<Stage>,
        suffix: &str,
        bundles: &[Bundle],
        version: &str,
    ) -> Self {
        Self::on(stage, (suffix, bundles, version), SYSTEM_NAMESPACE).await
    }

    /// The same with another namespace of the controller; other processes go on serving catalogs.
    pub(crate) async fn on(
        stage: &Arc<Stage>,
        (suffix, bundles, version): (&str, &[Bundle], &str),
        system: &'static str,
    ) -> Self {
        let versions: Vec<&str> = bundles.iter().map(|one| one.version.as_str()).collect();
        let scene = Scene::set(stage.cluster.clone(), suffix, bundles, &chain(&versions)).await;
        stage.goes().await;
        let extension = scene.install(json!({"version": version})).await;
        let uid = extension.get().await.metadata.uid.expect("a UID");
        Self { scene, stage: Arc::clone(stage), extension, system, uid }
    }

    /// Creates the objects of a bundle as Helm does.
    pub(crate) fn install(&self, bundle: &Bundle) -> Vec<Value> {
        self.install_for(bundle, &json!([owner(&self.scene.name, &self.uid)]))
    }

    fn install_for(&self, bundle: &Bundle, owners: &Value) -> Vec<Value> {
        let (scene, plane) = (&self.scene, self.scene.cluster.plane);
        let folder = scene.folder(bundle);
        let folder = folder.to_string_lossy();
        let args = ["bundle", "render", &folder, "-n", &scene.name, "-o", "json"];
        let read = plugin::answer(plane, &args).document();
        let objects = read["items"].as_array().expect("a list").clone();
        helm::create(plane, &scene.name, owners, objects)
    }

    /// Writes a release, in chunks.
    pub(crate) fn release(&self, (version, status): (u32, &str), bundle: &str, objects: &[Value]) {
        self.release_by(700, (version, status), bundle, objects);
    }

    fn release_by(
        &self,
        bytes: usize,
        (version, status): (u32, &str),
        bundle: &str,
        objects: &[Value],
    ) {
        let package = &self.scene.package;
        let registry = &self.scene.cluster.registry;
        let image = format!("{registry}/{}-bundle:v{bundle}", self.scene.name);
        let release = Release {
            name: &self.scene.name,
            uid: &self.uid,
            version,
            status,
            labels: json!({
                format!("{KEYS}/bundle-name"): package.bundle_name(bundle),
                format!("{KEYS}/package-name"): package.name(),
                format!("{KEYS}/bundle-version"): bundle,
                format!("{KEYS}/bundle-reference"): image,
            }),
            annotations: json!({"olm.properties": "[]"}),
            objects,
        };
        for secret in release.secrets(self.system, bytes) {
            self.scene.cluster.plane.create(&secret);
        }
    }

    /// An extension whose first bundle Helm has installed, with a release in this state.
    pub(crate) async fn helmed(
        stage: &Arc<Stage>,
        suffix: &str,
        bundles: &[Bundle],
        of_release: &str,
    ) -> Self {
        let left = Self::of(stage, suffix, bundles, "1.0.0").await;
        let objects = left.install(&bundles[0]);
        left.release((1, of_release), "1.0.0", &objects);
        left
    }

    /// Writes a revision as upstream v1.6 to v1.8 did; returns it as an owner.
    fn earlier_revision(&self) -> Value {
        let plane = self.scene.cluster.plane;
        let crd = earlier_revisions();
        plane.kubectl_with_input(&["apply", "-f", "-"], &crd.to_string());
        plane.established(crd["metadata"]["name"].as_str().expect("a name"));
        let name = format!("{}-1", self.scene.name);
        plane.create(
            &json!({"apiVersion": format!("{KEYS}/v1"), "kind": "ClusterExtensionRevision",
            "metadata": {"name": name, "finalizers": [format!("{KEYS}/teardown")],
                "ownerReferences": [owner(&self.scene.name, &self.uid)]}}),
        );
        let of = format!("get clusterextensionrevision {name} -o jsonpath={{.metadata.uid}}");
        let mut reference = owner(&name, &plane.run(&of));
        reference["kind"] = json!("ClusterExtensionRevision");
        reference
    }

    /// Runs the commands that a condition gives for such revisions.
    fn release_earlier(&self, told: &str) {
        for command in told.split("kubectl ").skip(1).take(2) {
            let command = command.split(", ").next().expect("a command");
            self.scene.cluster.plane.run(&command.replace('\'', ""));
        }
    }

    /// Deletes the extension as the user of an upstream that no longer runs.
    fn delete_as_upstreams(&self) {
        let ours = json!({"metadata": {"finalizers": [format!("{KEYS}/cleanup-unpack-cache")]}});
        self.merge("", &ours);
        self.scene.delete("background");
    }

    /// Merges a change into the extension, or a part of it.
    fn merge(&self, part: &str, change: &Value) {
        let (requests, name) = (self.scene.cluster.plane.requests(), &self.scene.name);
        requests.merge("clusterextension", "", &format!("{name}{part}"), change);
    }

    /// Damages the first release, and returns the name of its Secret.
    pub(crate) fn damage_release(&self) -> String {
        let index = format!("sh.helm.release.v1.{}.v1", self.scene.name);
        let broken = json!({"data": {"chunk": "eA=="}});
        let requests = self.scene.cluster.plane.requests();
        requests.merge("secret", SYSTEM_NAMESPACE, &index, &broken);
        index
    }

    /// Says whether the first revision is what Helm installed.
    async fn is_migrated(&self) -> bool {
        let labels = self.extension.revisions().await.remove(0).metadata.labels;
        let label = labels.unwrap_or_default().remove(&format!("{KEYS}/migrated-from-helm"));
        label.as_deref() == Some("true")
    }

    /// Asserts that everything is there that was there before, as it was.
    fn is_whole(&self, before: &BTreeMap<String, String>) {
        let after = self.alive();
        let same = before.iter().all(|(what, state)| after.get(what) == Some(state));
        assert!(same, "{before:?} {after:?}");
    }

    /// Names of the Secrets of releases.
    pub(crate) fn releases(&self) -> Vec<String> {
        let plane = self.scene.cluster.plane;
        let selector = format!("name={},owner=operator-controller", self.scene.name);
        let of = ["get", "secrets", "-n", self.system, "-l", &selector, "-o", "name"];
        plane.kubectl(&of).lines().map(str::to_owned).collect()
    }

    /// UIDs of everything that must stay, pods included, and generations.
    pub(crate) fn alive(&self) -> BTreeMap<String, String> {
        let (scene, plane) = (&self.scene, self.scene.cluster.plane);
        let mut alive = BTreeMap::new();
        let of = ["deployments", "replicasets", "pods", "configmaps", "serviceaccounts"].join(",");
        for (kinds, place) in [(of.as_str(), Some(&scene.name)), ("crds", None)] {
            let mut args = vec!["get", kinds, "-o", "json"];
            if let Some(namespace) = place {
                args.extend(["-n", namespace]);
            }
            let read: Value = plane.json(&args);
            for item in read["items"].as_array().into_iter().flatten() {
                let metadata = &item["metadata"];
                // Those of other extensions come and go.
                let named = metadata["name"].as_str().unwrap_or_default();
                let of_others = named.ends_with(".example.com")
                    && !named.ends_with(&format!(".{}", scene.package.group()));
                if place.is_none() && of_others {
                    continue;
                }
                // Kubernetes makes them in every namespace, in its own time.
                if ["kube-root-ca.crt", "default"].iter().any(|name| metadata["name"] == *name) {
                    continue;
                }
                let what = format!("{} {}", item["kind"], metadata["name"]);
                // The API server counts annotations of a Deployment into its generation.
                let state = match item["kind"].as_str() {
                    Some("Deployment") => &item["spec"],
                    _ => &metadata["generation"],
                };
                alive.insert(what, format!("{} {state}", metadata["uid"]));
            }
        }
        alive
    }
}

pub(crate) fn ready_pod(scene: &Scene) -> Result<(), String> {
    let pods = scene.cluster.plane.kubectl(&["get", "pods", "-n", &scene.name, "-o", "json"]);
    if pods.contains("\"Running\"") { Ok(()) } else { Err(pods) }
}

// applying.md b1, b4
async fn what_helm_installed_becomes_the_first_revision_and_nothing_restarts(stage: &Arc<Stage>) {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0")];
    let left = Left::helmed(stage, "helmed", &bundles, "deployed").await;
    wait::done("the operator runs", SOON, || ready_pod(&left.scene)).await;
    let before = left.alive();
    left.stage.returns().await;
    left.extension.installed("1.0.0").await;
    archived(&left.scene, 1).await;
    assert_eq!(left.extension.revisions().await.len(), 2);
    assert!(left.is_migrated().await);
    let status = left.extension.revisions().await.remove(0).status.expect("a status");
    let succeeded = status.conditions.iter().find(|found| found.type_ == "Succeeded");
    let text = succeeded.map(|found| found.message.as_str());
    assert_eq!(text, Some("Revision succeeded - migrated from Helm release"));
    assert_eq!(left.alive(), before, "everything is the same object, nothing was restarted");
    left.extension.moves_to("1.1.0").await;
    left.extension.delete().await;
}

fn tier(labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "tier", "labels": labels}, "data": {"a": "b"}})
}

// applying.md b2, b4
async fn a_failed_upgrade_counts_as_the_version_before_and_what_is_dropped_goes(
    stage: &Arc<Stage>,
) {
    let bundles = [
        Bundle::new("1.0.0").with_manifest(tier(&json!({"old": "x", "stays": "y"}))),
        Bundle::new("1.1.0").with_manifest(tier(&json!({"stays": "y"}))),
    ];
    let left = Left::of(stage, "helmhistory", &bundles, "1.0.0").await;
    let objects = left.install(&bundles[0]);
    left.release((1, "superseded"), "0.9.0", &[]);
    left.release((2, "deployed"), "1.0.0", &objects);
    left.release((3, "failed"), "1.1.0", &[]);
    left.stage.returns().await;
    left.extension.installed("1.0.0").await;
    let first = left.extension.revisions().await.remove(0);
    let annotations = first.metadata.annotations.unwrap_or_default();
    assert_eq!(annotations[&format!("{KEYS}/bundle-version")], "1.0.0");
    assert_eq!(left.releases().len(), 3, "upstream could go on with them");
    left.extension.moves_to("1.1.0").await;
    let plane = left.scene.cluster.plane;
    let tier = format!("get configmap tier -n {}", left.scene.name);
    let labels = plane.run(&format!("{tier} -o jsonpath={{.metadata.labels}}"));
    assert!(labels.contains("stays") && !labels.contains("old"), "{labels}");
    wait::value("the releases go", SOON, || left.releases(), Vec::is_empty).await;
    left.extension.delete().await;
}

// applying.md 2.3: also where the revision that was made of it is not kept any more
async fn a_release_goes_with_the_first_update_after_many_changes(stage: &Arc<Stage>) {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0")];
    let left = Left::helmed(stage, "helmlate", &bundles, "deployed").await;
    left.stage.returns().await;
    left.extension.installed("1.0.0").await;
    for number in 3..=7 {
        let env = json!([{"name": "NUMBER", "value": number.to_string()}]);
        let config = json!({"configType": "Inline", "inline": {"deploymentConfig": {"env": env}}});
        left.extension.patch_spec(json!({"config": config})).await;
        let is_rolled_out = |set: &Value| {
            let conditions = set["status"]["conditions"].as_array();
            let mut found = conditions.into_iter().flatten();
            found.any(|one| one["type"] == "Succeeded" && one["status"] == "True")
        };
        let name = left.scene.revision(number);
        left.scene.until("it is rolled out", "clusterobjectset", &name, is_rolled_out).await;
    }
    left.scene.gone("clusterobjectset", &left.scene.revision(1)).await;
    assert!(!left.releases().is_empty(), "upstream could go on with it");
    left.extension.moves_to("1.1.0").await;
    wait::value("the release goes", SOON, || left.releases(), Vec::is_empty).await;
    left.extension.delete().await;
}

// applying.md b3
async fn a_release_too_large_for_one_object_is_taken_over(stage: &Arc<Stage>) {
    // Text that gzip makes little of.
    let mut seed = 1_u64;
    let mut noise = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{:016x}", seed ^ (seed >> 29))
    };
    let mut bundle = Bundle::new("1.0.0");
    for index in 0..4 {
        let text: String = (0..48_000).map(|_| noise()).collect();
        bundle = bundle.with_manifest(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("large-{index}")}, "data": {"text": text}}));
    }
    let bundles = [bundle];
    let left = Left::of(stage, "helmlarge", &bundles, "1.0.0").await;
    let objects = left.install(&bundles[0]);
    left.release_by(1_040_384, (1, "deployed"), "1.0.0", &objects);
    let before = left.alive();
    left.stage.returns().await;
    left.extension.installed("1.0.0").await;
    assert!(left.is_migrated().await);
    left.is_whole(&before);
    left.extension.delete().await;
}

// applying.md b2
async fn what_a_failed_first_release_left_is_adopted(stage: &Arc<Stage>) {
    let left = Left::helmed(stage, "helmfailed", &[Bundle::new("1.0.0")], "failed").await;
    let before = left.alive();
    left.stage.returns().await;
    left.extension.installed("1.0.0").await;
    assert!(!left.is_migrated().await);
    let kept = |all: &BTreeMap<String, String>| {
        let mut crds = all.clone();
        crds.retain(|what, _| what.contains("CustomResourceDefinition"));
        crds
    };
    assert_eq!(kept(&left.alive()), kept(&before), "adopted, not made anew");
    left.extension.delete().await;
}

// ours, applying.md 7.3: what was never taken over is protected like everything else
async fn what_helm_installed_does_not_go_with_its_data_before_it_is_taken_over(stage: &Arc<Stage>) {
    let left = Left::helmed(stage, "helmgone", &[Bundle::new("1.0.0")], "deployed").await;
    let (plane, name) = (left.scene.cluster.plane, left.scene.name.clone());
    let installed =
        json!({"status": {"install": {"bundle": {"name": "p.v1", "version": "1.0.0"}}}});
    left.merge("/status", &installed);
    let foreground = ["delete", "clusterextension", &name, "--cascade=foreground", "--wait=false"];
    let refused = plane.try_kubectl(&foreground, "").expect_err("all would go at once");
    assert!(refused.contains("no revision has its objects"), "{refused}");
    left.delete_as_upstreams();
    left.stage.returns().await;
    let crd = left.scene.package.crd();
    let text =
        "uninstall blocked: Helm installed its CRDs, and they would go with all their objects";
    left.extension.shows("Progressing", "False", "Blocked", text).await;
    plane.kubectl(&["get", "crd", &crd]);
    plane.kubectl(&["delete", "clusterextension", &name, "--cascade=orphan", "--wait=false"]);
    left.extension.gone().await;
    assert_eq!(plane.run(&format!("get crd {crd} -o jsonpath={{.metadata.ownerReferences}}")), "");
}

/// The CRD of revisions of upstream v1.6 to v1.8.
pub(crate) fn earlier_revisions() -> Value {
    let mut crd = definition("ClusterExtensionRevision", KEYS);
    crd["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a test"});
    crd["spec"]["scope"] = json!("Cluster");
    crd
}

// ours: revisions of upstream v1.6 to v1.8 are named; what they leave is taken over on request
async fn revisions_of_an_earlier_release_are_named_and_what_they_leave_is_adopted(
    stage: &Arc<Stage>,
) {
    let bundles = [Bundle::new("1.0.0")];
    let left = Left::of(stage, "earlier", &bundles, "1.0.0").await;
    let revision = left.earlier_revision();
    left.install_for(&bundles[0], &json!([revision]));
    left.stage.returns().await;
    let text = format!(
        "taking over the installed objects: ClusterExtensionRevision {}-1 of an earlier release",
        left.scene.name
    );
    let found = left.extension.shows("Progressing", "False", "Blocked", &text).await;
    assert!(left.extension.revisions().await.is_empty());
    left.release_earlier(&condition(&found, "Progressing").expect("a condition").message);
    left.scene.annotate("policy.olm.operatorframework.io/adopt", "all");
    left.extension.installed("1.0.0").await;
    left.extension.delete().await;
}

// applying.md 2.3
async fn what_revisions_of_an_earlier_release_hold_does_not_go_with_its_data(stage: &Arc<Stage>) {
    let bundles = [Bundle::new("1.0.0")];
    let left = Left::of(stage, "earliergone", &bundles, "1.0.0").await;
    let (plane, crd) = (left.scene.cluster.plane, left.scene.package.crd());
    let revision = left.earlier_revision();
    left.install_for(&bundles[0], &json!([revision]));
    left.delete_as_upstreams();
    left.stage.returns().await;
    let text = format!(
        "uninstall blocked: ClusterExtensionRevision {}-1 of an earlier release hold its CRDs",
        left.scene.name
    );
    let found = left.extension.shows("Progressing", "False", "Blocked", &text).await;
    left.release_earlier(&condition(&found, "Progressing").expect("a condition").message);
    left.extension.gone().await;
    assert_eq!(plane.run(&format!("get crd {crd} -o jsonpath={{.metadata.ownerReferences}}")), "");
}

// ours: a release that cannot be read stops this extension, is named, and nothing is installed over it
async fn a_release_that_cannot_be_read_is_named(stage: &Arc<Stage>) {
    let left = Left::helmed(stage, "helmbroken", &[Bundle::new("1.0.0")], "deployed").await;
    let index = left.damage_release();
    // As upstream has left it.
    let bundle = json!({"name": left.scene.package.bundle_name("1.0.0"), "version": "1.0.0"});
    let status = json!({"status": {"install": {"bundle": bundle}, "conditions": [
        {"type": "Installed", "status": "True", "reason": "Succeeded", "message": "Installed bundle",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    left.merge("/status", &status);
    left.stage.returns().await;
    let text =
        format!("taking over the installed objects: Helm release in Secret {index}: not gzip");
    let found = left.extension.shows("Progressing", "True", "Retrying", &text).await;
    assert!(condition(&found, "Installed").is_some_and(|found| found.status == "True"));
    assert_eq!(json!(found.status.expect("a status").install)["bundle"], bundle);
    assert!(left.extension.revisions().await.is_empty());
}

// ours: what somebody installed by hand is taken over on request, unless something else controls it
async fn what_nobody_controls_is_taken_over_on_request(stage: &Arc<Stage>) {
    let bundles = [Bundle::new("1.0.0").with_second_config_map()];
    let left = Left::of(stage, "byhand", &bundles, "1.0.0").await;
    let plane = left.scene.cluster.plane;
    left.install_for(&bundles[0], &json!([]));
    let before = left.alive();
    let second = left.scene.package.second_config_map();
    let namespace = left.scene.name.clone();
    let controlled_by = |owners: &Value| {
        let change = json!({"metadata": {"ownerReferences": owners}});
        plane.requests().merge("configmap", &namespace, &second, &change);
    };
    let installer = left.scene.get("serviceaccount", "installer").expect("it is there");
    controlled_by(&json!([{"apiVersion": "v1", "kind": "ServiceAccount", "name": "installer",
        "uid": installer["metadata"]["uid"], "controller": true}]));
    left.stage.returns().await;
    let first = left.scene.revision(1);
    left.scene.reports(&first, "Object ServiceAccount.v1").await;
    let adopt = "policy.olm.operatorframework.io/adopt";
    left.scene.annotate(adopt, "Deployment.apps, ServiceAccount");
    left.scene.reports(&first, "Owner: nil\\n\\nObject ConfigMap.v1").await;
    left.scene.annotate(adopt, "all");
    left.scene.reports(&first, "Kind:ServiceAccount,Name:installer").await;
    controlled_by(&Value::Null);
    left.extension.installed("1.0.0").await;
    left.is_whole(&before);
    assert_eq!(left.extension.revisions().await.len(), 1);
    // Otherwise a later version could drop nothing of it.
    let taken = plane.requests().read("configmap", &namespace, &second).expect("it is there");
    let entries = taken["metadata"]["managedFields"].as_array().expect("a list");
    let of_data = entries.iter().filter(|entry| entry["fieldsV1"].get("f:data").is_some());
    let managers: Vec<_> = of_data.map(|entry| &entry["manager"]).collect();
    assert_eq!(managers, [olm_api::keys::manager::OBJECTS]);
    left.extension.delete().await;
    assert!(left.scene.get("configmap", &second).is_none());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "from another installer: make test-full"]
async fn what_helm_installed_is_taken_over() {
    let stage = &Stage::of(7).await;
    join_all([
        what_helm_installed_becomes_the_first_revision_and_nothing_restarts(stage).boxed_local(),
        a_failed_upgrade_counts_as_the_version_before_and_what_is_dropped_goes(stage).boxed_local(),
        a_release_goes_with_the_first_update_after_many_changes(stage).boxed_local(),
        a_release_too_large_for_one_object_is_taken_over(stage).boxed_local(),
        what_a_failed_first_release_left_is_adopted(stage).boxed_local(),
        what_helm_installed_does_not_go_with_its_data_before_it_is_taken_over(stage).boxed_local(),
        a_release_that_cannot_be_read_is_named(stage).boxed_local(),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "from another installer: make test-full"]
async fn what_earlier_revisions_and_people_installed_is_taken_over() {
    let stage = &Stage::of(3).await;
    join_all([
        revisions_of_an_earlier_release_are_named_and_what_they_leave_is_adopted(stage)
            .boxed_local(),
        what_revisions_of_an_earlier_release_hold_does_not_go_with_its_data(stage).boxed_local(),
        what_nobody_controls_is_taken_over_on_request(stage).boxed_local(),
    ])
    .await;
}
