//! The plugin says what the controller does: asked while the controller stands still, and compared
//! with what it then does; and what is said where the two differ, or where another controller runs.
//!
//! Source: plugin.md 5. The first of the longest tests, so that the others run meanwhile.

use std::slice;

use futures::future::join_all;
use futures::stream::{self, StreamExt as _};
use jiff::SignedDuration;
use olm_api::keys::manager;
use olm_api::keys::name::CONTROLLER_CONFIG;
use olm_test::prelude::*;
use olm_test::scene::serve;
use serde::Deserialize;

use crate::crd_safety::definition;
use crate::moving::upstream;
use crate::plugin::published;
use crate::unavailable::{SHELF, add_broken, change, install, shelve};

const DECIDED: Duration = Duration::from_mins(2);
/// A failure that passes, as of a catalog that is asked while it is started, is over by then.
const PASSES: Duration = Duration::from_mins(1);
/// Rows that are asked about at once.
const ASKED: usize = 2;

/// Starts a controller with one of the components.
fn half(plane: &ControlPlane, name: &str, components: &str) -> Controller {
    Controller::start(plane, ControllerOptions::of(name, &[&format!("--components={components}")]))
}

/// Has the status of an extension say something else, as if its controller had written it.
fn write_status(plane: &ControlPlane, name: &str, status: &Value) {
    let object = format!("{name}/status?fieldManager={}", manager::OPERATOR_CONTROLLER);
    plane.requests().merge("clusterextension", "", &object, &json!({"status": status}));
}

/// The word of the controller stands beside another result, and nowhere else (plugin.md U87); the row is
/// pinned, and its controller stands still.
fn its_word_is_shown(plane: &ControlPlane, name: &str) {
    let asked = || ["why", "plan"].map(|verb| plugin::read(plane, &[verb, name]).1);
    for text in asked() {
        assert!(text.contains("Succeeded: The bundle is installed and available."), "{text}");
        assert!(!text.contains("the controller last said"), "{text}");
    }
    let fault = json!({"reason": "Pinned", "message": "a fault", "newest": "1.1.0"});
    write_status(plane, name, &json!({"update": fault}));
    let pinned = "Pinned: 1.1.0 is available, but version \"1.0.0\" excludes it";
    for text in asked() {
        assert!(text.contains("the controller last said ("), "{text}");
        assert!(text.contains("): Pinned: a fault; now it would be: "), "{text}");
        assert!(text.contains(pinned), "{text}");
    }
}

// plugin.md U85
#[tokio::test(flavor = "multi_thread")]
async fn where_upstream_runs_nothing_is_written_that_it_does_not_know() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let config = format!("configmap {CONTROLLER_CONFIG} --namespace={SYSTEM_NAMESPACE}");
    plane.run(&format!("delete --ignore-not-found {config}"));
    for deployment in &upstream("example.com/operator-controller:v1")[..2] {
        plane.create(deployment);
    }
    let filter = json!({"packageName": "kettle"});
    let client = &cluster.client;
    let extension = Extension::create(client, "kettle", "kettle", "installer", filter).await;
    // What ours would have offered.
    let held = json!({"version": "2.0.0", "newest": "2.0.0", "catalog": "c",
        "reason": "NextMajorHeld", "message": "2.0.0 is available and held"});
    write_status(plane, "kettle", &json!({"conditions": [], "update": held}));

    let note = "note: this cluster runs upstream's controller; the output shows what olm-controller would do";
    for verb in ["why", "plan"] {
        let (_, text, errors) = plugin::read(plane, &[verb, "kettle"]);
        assert_eq!(errors.matches(note).count(), 1, "{verb}: {text}{errors}");
    }
    let before = extension.get().await.metadata.resource_version;
    let writing: [(&[&str], &str); 8] = [
        (&["approve", "kettle", "--version", "2.0.0"], policy::APPROVE),
        (&["pause", "kettle"], policy::PAUSED),
        (&["pause", "--all"], policy::PAUSED),
        (&["rollback", "kettle", "--yes"], policy::ROLLBACK_TO),
        (&["upgrade", "kettle", "--yes"], policy::APPROVE),
        (&["lock", "apply", "any.lock", "--yes"], policy::APPROVE),
        (&["delete", "kettle", "--delete-data", "--yes"], policy::UNINSTALL),
        (&["install", "pot", "--upgrade-policy=Any", "-n", "pot", "--yes"], policy::UPGRADE),
    ];
    for (args, key) in writing {
        let (code, text, errors) = plugin::answer(plane, args);
        let want = format!(
            "error: this cluster runs upstream's controller\nhint: upstream ignores {key}\n"
        );
        assert!(errors.ends_with(&want), "{args:?}: {text}{errors}");
        assert_eq!(code, Some(1), "{args:?}");
    }
    // Where it uses Helm, that kind is not served.
    let revisions = "crd clusterobjectsets.olm.operatorframework.io";
    let allowed = "policy.olm.operatorframework.io/allow-deletion=true";
    plane.run(&format!("annotate {revisions} {allowed}"));
    plane.run(&format!("delete {revisions}"));
    objects_of_a_crd_are_not_deleted_unseen(&cluster, &extension).await;
    assert_eq!(extension.get().await.metadata.resource_version, before);
    whoever_may_not_read_the_settings_is_not_refused(plane, &extension).await;

    // Ours says of itself that it is there.
    plane.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": CONTROLLER_CONFIG, "namespace": SYSTEM_NAMESPACE},
        "data": {"settings.yaml": "schemaVersion: 1"}}));
    plugin::answer(plane, &["pause", "kettle"]).good();
    let after = extension.get().await.metadata.annotations;
    let after = after.unwrap_or_default();
    assert_eq!(after.get(policy::PAUSED).map(String::as_str), Some("true"));
    plane.mend();
}

/// In its Helm mode, upstream makes the extension itself the owner of what it installs.
async fn objects_of_a_crd_are_not_deleted_unseen(cluster: &Cluster, extension: &Extension) {
    let plane = cluster.plane;
    let mut crd = definition("kettle", None);
    crd["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "kettle",
        "uid": extension.get().await.metadata.uid, "controller": true}]);
    plane.create(&crd);
    let named = crd["metadata"]["name"].as_str().expect("a name");
    plane.established(named);
    let group = crd["spec"]["group"].as_str().expect("a group");
    let kind = &crd["spec"]["names"]["kind"];
    plane.create(&json!({"apiVersion": format!("{group}/v1"), "kind": kind,
        "metadata": {"name": "mine", "namespace": "default"}}));
    let (text, errors) = plugin::answer(plane, &["delete", "kettle", "--yes"]).ends(1);
    assert!(text.contains(&format!("{named}: 1 object\n    default: mine\n")), "{text}{errors}");
    let hint = "hint: kubectl delete clusterextensions kettle deletes these objects, too\n";
    assert!(errors.ends_with(hint), "{errors}");
    plane.kubectl(&["delete", "crd", named]);
}

/// Settings that may not be read may be there: what is assumed is said, and nothing is refused on a
/// guess (plugin.md U84).
async fn whoever_may_not_read_the_settings_is_not_refused(
    plane: &ControlPlane,
    extension: &Extension,
) {
    let kinds = ["clusterextensions", "clusterobjectsets", "clustercatalogs"];
    let rules = json!([
        {"apiGroups": ["olm.operatorframework.io"], "resources": kinds, "verbs": ["get", "list", "patch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["use"]},
    ]);
    plane.grant(&objects::grant("pauses", None, &rules, &objects::user("erin")));
    let (_, text, errors) = plugin::read(plane, &["why", "kettle", "--as=erin"]);
    let forbidden = "configmaps \"olm-controller-config\" is forbidden";
    assert!(
        errors.contains("note: the controller's settings are not known (")
            && errors.contains(forbidden)
            && errors.contains("assuming those of a controller without flags"),
        "{text}{errors}"
    );
    assert!(!errors.contains("upstream"), "{errors}");
    for (verb, paused) in [("pause", Some("true")), ("resume", None)] {
        plugin::answer(plane, &[verb, "kettle", "--as=erin"]).good();
        let found = extension.get().await.metadata.annotations;
        let found = found.unwrap_or_default();
        assert_eq!(found.get(policy::PAUSED).map(String::as_str), paused);
    }
}

/// What becomes of the catalogs of a row while nobody acts on extensions.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
enum State {
    #[default]
    Served,
    Disabled,
    /// Another catalog of this priority cannot be read.
    Unreadable(i32),
    /// Only another catalog, of higher priority, offers the next version.
    Elsewhere,
    Deprecated,
    /// The next version needs a package that is not installed.
    Needs,
    /// The next version gives its operator more rights.
    MoreRights,
    /// The next version has an object that the account may not write.
    Lacks,
    /// The next version leaves out an object that the account may not remove.
    Leaves,
    /// The next version has a webhook, and the account may not write the Secret of its certificate.
    Secrets,
    /// The next version narrows a CRD.
    Narrows,
    /// The next version leaves out a CRD whose kind another extension needs.
    Provides,
    /// The next version is installed.
    Newer,
    /// The spec asks for the first version.
    Pinned,
    /// The next version was rolled out, failed, and was taken back.
    TakenBack,
    /// There is no next version; the first one has other content, which is accepted or not.
    Altered(bool),
}

/// The rows of a controller with these flags.
#[derive(Deserialize)]
struct Group {
    flags: Vec<String>,
    rows: Vec<Row>,
}

/// One case: version 1.0.0 is installed, the next one offered.
#[derive(Deserialize)]
struct Row {
    name: String,
    next: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default, rename = "while")]
    state: State,
    /// Whether the next version is to be installed, so that no row passes because nothing happens.
    moves: bool,
    /// What holds it, where that is compared.
    held: Option<String>,
}

impl Row {
    fn bundles(&self) -> [Bundle; 2] {
        let (first, next) = (Bundle::new("1.0.0"), Bundle::new(&self.next));
        let narrowed = |maximum| definition(&self.name, maximum);
        match self.state {
            State::MoreRights => {
                let role = objects::reader(&format!("more-{}", self.name), "secrets");
                [first, next.with_manifest(role)]
            }
            State::Lacks => [first, next.with_second_config_map()],
            State::Leaves => [first.with_second_config_map(), next],
            State::Secrets => {
                [first, next.with_webhook(Package::new(&self.name).validating_webhook())]
            }
            State::Narrows => {
                [first.with_manifest(narrowed(None)), next.with_manifest(narrowed(Some(10)))]
            }
            State::Provides => [first.with_manifest(narrowed(None)), next],
            _ => [first, next],
        }
    }

    /// Installs the first version, with the next one in sight.
    async fn set(&self, cluster: &Cluster) -> (Scene, Extension) {
        let bundles = self.bundles();
        let versions = ["1.0.0", self.next.as_str()];
        let entries = match self.state {
            State::Elsewhere => chain(&versions[..1]),
            _ => chain(&versions),
        };
        let needs = match self.state {
            State::Needs => vec![(
                self.next.as_str(),
                json!({"type": "olm.package.required",
                    "value": {"packageName": "absent", "versionRange": ">=1.0.0"}}),
            )],
            _ => Vec::new(),
        };
        let mut scene = Scene::empty(cluster.clone(), &self.name);
        scene.publish_with(&bundles, &entries, &needs).await;
        scene.create_namespace();
        match self.state {
            State::Lacks => scene.grant(&bundles[..1]),
            State::Leaves => bundles.iter().for_each(|one| scene.grant(slice::from_ref(one))),
            State::Secrets => {
                scene.grant_with(&bundles, &["--webhook-certificates=cert-manager"]);
            }
            _ => scene.grant(&bundles),
        }
        shelve(&scene);
        let extension = install(&scene, "1.0.0").await;
        if self.state == State::Provides {
            depend(cluster, &self.name).await;
        }
        if self.state == State::Newer {
            extension.installed("1.0.0").await;
            extension.patch_catalog(json!({"version": self.next})).await;
        }
        (scene, extension)
    }

    /// The version that is installed before anything is asked.
    fn first(&self) -> &str {
        match self.state {
            State::Newer => &self.next,
            _ => "1.0.0",
        }
    }

    /// Makes it what the row is about.
    async fn change(&self, scene: &mut Scene, extension: &Extension) {
        let plane = scene.cluster.plane;
        match self.state {
            State::Leaves => take_rights(scene),
            State::Served
            | State::Needs
            | State::MoreRights
            | State::Lacks
            | State::Secrets
            | State::Narrows
            | State::Provides
            | State::Newer
            | State::Pinned
            | State::TakenBack => {}
            State::Altered(accepted) => {
                let mut bundle = Bundle::new("1.0.0");
                bundle.data.insert("depth".to_owned(), "20".to_owned());
                let files = scene.package.bundle_files(&bundle);
                let repository = format!("{}/{}-bundle", scene.cluster.registry, scene.name);
                let image = images::push_bundle(&format!("{repository}:v1.0.0"), files).await;
                scene.publish(&[bundle], &chain(&["1.0.0"])).await;
                if accepted {
                    let (_, digest) = image.split_once('@').expect("a digest");
                    scene.annotate(policy::ACCEPT_IMAGE, digest);
                }
            }
            State::Disabled => {
                let name = scene.name.clone();
                change(scene, &name, &json!({"availabilityMode": "Unavailable"}));
                stops_serving(scene, &name).await;
            }
            State::Unreadable(priority) => {
                stops_serving(scene, &add_broken(scene, priority)).await;
            }
            State::Elsewhere => {
                let image = format!("{}/{}-other:v1", scene.cluster.registry, scene.name);
                images::push_catalog(&image, self.catalog(scene)).await;
                let other = format!("{}-other", scene.name);
                serve(&scene.cluster.client, &other, &image).await;
                change(scene, &other, &json!({"priority": 10}));
                let label = format!("{SHELF}={}", scene.name);
                plane.kubectl(&["label", "clustercatalog", &other, &label]);
            }
            State::Deprecated => {
                let mut files = self.catalog(scene);
                scene.package.deprecate(&mut files, &self.next);
                scene.publish_catalog(files).await;
            }
        }
        for (key, value) in &self.annotations {
            scene.annotate(key, &value.replace("{closed}", &closed()));
        }
        if self.state != State::Pinned {
            extension.patch_catalog(json!({"version": null})).await;
        }
        if self.state == State::TakenBack {
            // As the controller leaves it once the deadline is over, which is ten minutes at least.
            let generation = extension.get().await.metadata.generation;
            let name = format!("{}-1", scene.name);
            let recorded = json!({
                annotation::EXTENSION_GENERATION: generation.unwrap_or_default().to_string(),
                annotation::CONTENT_OF: "1",
                annotation::REVERTED: scene.package.bundle_name(&self.next),
            });
            let change = json!({"metadata": {"annotations": recorded}});
            plane.requests().merge("clusterobjectset", "", &name, &change);
        }
    }

    /// The catalog with both versions.
    fn catalog(&self, scene: &Scene) -> BTreeMap<String, Vec<u8>> {
        let versions = ["1.0.0", self.next.as_str()];
        let image = |version: &str| {
            let repository = format!("{}/{}-bundle", scene.cluster.registry, scene.name);
            (version.to_owned(), format!("{repository}:v{version}"))
        };
        let images = versions.map(image).into();
        scene.package.catalog_files(&chain(&versions), &images)
    }
}

/// Installs an extension that needs the kind of a row.
async fn depend(cluster: &Cluster, name: &str) {
    let bundles = [Bundle::new("1.0.0")];
    let group = format!("{name}.example.com");
    let kind = json!({"group": group, "version": "v1", "kind": "Float"});
    let needs = json!({"type": "olm.gvk.required", "value": kind});
    let (suffix, entries) = (format!("{name}needs"), chain(&["1.0.0"]));
    let needs = [("1.0.0", needs)];
    let scene = Scene::set_with(cluster.clone(), &suffix, &bundles, &entries, &needs).await;
    scene.install(json!({})).await.installed("1.0.0").await;
}

/// Takes the rights away that the account has only for what leaves.
fn take_rights(scene: &Scene) {
    let name = format!("olm:{0}:{ACCOUNT}:{0}.v1.0.0", scene.name);
    for kinds in ["clusterrole,clusterrolebinding", "role,rolebinding"] {
        let delete = format!("delete {kinds} {name} --ignore-not-found -n {}", scene.name);
        scene.cluster.plane.run(&delete);
    }
}

async fn stops_serving(scene: &Scene, catalog: &str) {
    let api = Api::<ClusterCatalog>::all(scene.cluster.client.clone());
    wait::object(&api, catalog, &format!("{catalog} is not served"), SOON, |found| {
        let status = found.and_then(|found| found.status.as_ref()).ok_or("nothing is said")?;
        let is = |type_: &str, value: &str| {
            status.conditions.iter().any(|it| it.type_ == type_ && it.status == value)
        };
        if is("Serving", "False") { Ok(()) } else { Err(format!("{:?}", status.conditions)) }
    })
    .await;
}

impl Row {
    /// Compares what was told with what is then done, and with what is said of that; again while they
    /// differ, for the first reconcile may fail and be repeated.
    async fn done(
        &self,
        plane: &'static ControlPlane,
        of_row: &(Scene, Extension),
        told: &Told,
    ) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let differs = self.compared(plane, of_row, told).await;
            if differs.is_empty() || begun.elapsed() > PASSES {
                return differs;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn compared(
        &self,
        plane: &'static ControlPlane,
        (scene, extension): &(Scene, Extension),
        told: &Told,
    ) -> Vec<String> {
        let is_decided = |extension: &ClusterExtension| {
            condition(extension, "Progressing").is_some_and(|found| {
                found.observed_generation == extension.metadata.generation
                    && found.reason != "RollingOut"
            })
        };
        let after = extension.eventually("decided", DECIDED, is_decided).await;
        let revisions = extension.revisions().await.len();
        let mut differs = told.compare(self, &after, revisions);
        if let Some(word) = &self.held {
            let status = plugin::answer(plane, &["status", &scene.name, "-o", "json"]).document();
            let held = &status["extensions"][0]["heldBy"];
            if *held != json!([word]) {
                differs.push(format!("{}: held by {word}, and status says {held}", self.name));
            }
        }
        // And it says so.
        let (again, _) = says(plane, "why", &scene.name).await;
        let again = again.unwrap_or_default();
        let said = &again["controller"]["differs"];
        if !said.is_null() {
            differs.push(format!("{}: {said}", self.name));
        }
        differs
    }
}

/// Returns what a verb of the plugin prints of an extension, and what it says besides.
async fn says(
    plane: &'static ControlPlane,
    verb: &'static str,
    name: &str,
) -> (Option<Value>, String) {
    let name = name.to_owned();
    let asked = tokio::task::spawn_blocking(move || {
        let (_, text, errors) = plugin::read(plane, &[verb, &name, "-o", "json"]);
        (serde_json::from_str(&text).ok(), errors)
    });
    asked.await.expect("the plugin answers")
}

/// What the plugin says of an extension: each answer, if there is one, and what it says besides.
struct Told {
    why: Option<Value>,
    refusal: String,
    plan: Option<Value>,
}

impl Told {
    async fn of(plane: &'static ControlPlane, name: &str) -> Self {
        let asked = (says(plane, "why", name), says(plane, "plan", name));
        let ((why, refusal), (plan, _)) = tokio::join!(asked.0, asked.1);
        Self { why, refusal, plan }
    }

    /// Returns the version that `why` says will be installed.
    fn by_why(&self) -> &str {
        let chosen = self.why.as_ref().filter(|why| why["holds"].is_null());
        let chosen = chosen.and_then(|why| why["selected"]["version"].as_str());
        chosen.unwrap_or("1.0.0")
    }

    /// Returns the version that `plan` says will be installed.
    fn by_plan(&self) -> &str {
        let held = |plan: &Value| plan["heldBy"].as_array().is_some_and(|it| !it.is_empty());
        let goes = self.plan.as_ref().filter(|plan| !held(plan));
        let goes = goes.and_then(|plan| plan["to"]["version"].as_str());
        goes.unwrap_or("1.0.0")
    }

    /// Compares with what the controller has done since.
    fn compare(&self, row: &Row, after: &ClusterExtension, revisions: usize) -> Vec<String> {
        let mut differs = Vec::new();
        let mut same = |what: &str, told: &str, done: &str| {
            if told != done {
                differs.push(format!("{}: {what}: {told:?}, and then: {done:?}", row.name));
            }
        };
        let installed = installed_version(after).unwrap_or_default();
        same("the row", if row.moves { &row.next } else { "1.0.0" }, installed);
        same("why", self.by_why(), installed);
        same("plan", self.by_plan(), installed);
        if self.by_why() != self.by_plan() {
            let errors = &self.refusal;
            same("the two", &format!("{:#?}", self.why), &format!("{:#?} {errors}", self.plan));
        }
        if let Some(word) = &row.held {
            let plan = self.plan.clone().unwrap_or_default();
            same("held by", &plan["heldBy"].to_string(), &json!([word]).to_string());
        }
        if let State::Altered(accepted) = row.state {
            let plan = self.plan.clone().unwrap_or_default();
            let holds = plan["heldBy"].to_string();
            let told = plan["objects"].as_array().is_some_and(|it| !it.is_empty());
            let want = if accepted { "[]" } else { "[\"content\"]" };
            same("held by", &holds, want);
            let made = if accepted { 2 } else { 1 };
            same("revisions", &made.to_string(), &revisions.to_string());
            same("objects change", &told.to_string(), "true");
        }
        let progressing = condition(after, "Progressing").expect("it is there");
        let (reason, message) = (progressing.reason.as_str(), progressing.message.as_str());
        match &self.why {
            // What the controller refuses, the plugin refuses in the same words.
            None => {
                let last = self.refusal.lines().find_map(|line| line.strip_prefix("error: "));
                same("refusal", last.unwrap_or_default(), message);
            }
            Some(why) => {
                if let (Some(said), true) = (why["message"].as_str(), reason == "Retrying") {
                    same("message", said, message);
                }
            }
        }
        differs
    }
}

/// Asks about the rows while nobody acts on extensions, and compares with what is then done.
async fn same(cluster: &Cluster, group: usize, flags: &[String], rows: &[Row]) -> Vec<String> {
    let plane = cluster.plane;
    let name = format!("same-{group}");
    let flagged = flags.iter().map(String::as_str);
    let args: Vec<_> = ["--components=extensions"].into_iter().chain(flagged).collect();
    let mut controller = start(plane, &name, &args).await;
    for flag in flags {
        let (flag, value) = flag.split_once('=').expect("a value");
        let mut words = flag.trim_start_matches('-').split('-');
        let first = words.next().unwrap_or_default().to_owned();
        let member = words.fold(first, |all, word| {
            let (head, tail) = word.split_at(1);
            all + &head.to_uppercase() + tail
        });
        published(cluster, &format!("{member}: {value}")).await;
    }
    let mut set = join_all(rows.iter().map(|row| row.set(cluster))).await;
    for (row, (_, extension)) in rows.iter().zip(&set) {
        extension.installed(row.first()).await;
    }
    controller.kill();
    let changed = rows.iter().zip(&mut set);
    join_all(changed.map(|(row, (scene, extension))| row.change(scene, extension))).await;
    let asked: Vec<_> = set.iter().map(|(scene, _)| Told::of(plane, &scene.name)).collect();
    let told: Vec<_> = stream::iter(asked).buffered(ASKED).collect().await;
    let pinned = rows.iter().zip(&set).find(|(row, _)| row.state == State::Pinned);
    if let Some((_, (scene, _))) = pinned {
        tokio::task::block_in_place(|| its_word_is_shown(plane, &scene.name));
    }
    let before = controller.log().len();
    controller.restart(plane);
    // An annotation does not change the generation: without this, a status of before would count.
    wait::until("it has looked at all of them", DECIDED, || async {
        let log = controller.log();
        let looked = |name: &str| {
            let line = format!("reconcile ending name={name:?}");
            log.get(before..).is_some_and(|since| since.contains(&line))
        };
        let missing = set.iter().map(|(scene, _)| &scene.name).find(|name| !looked(name));
        missing.map_or(Ok(()), |name| Err(name.clone()))
    })
    .await;
    let done = rows.iter().zip(&set).zip(&told);
    let done: Vec<_> = done.map(|((row, of_row), told)| row.done(plane, of_row, told)).collect();
    let differs: Vec<_> = stream::iter(done).buffered(ASKED).collect().await;
    controller.kill();
    differs.concat()
}

/// An update window that is closed for the next hours.
fn closed() -> String {
    let opens = Timestamp::now() + SignedDuration::from_hours(6);
    let opens = opens.strftime("%H:%M").to_string();
    let closes = Timestamp::now() + SignedDuration::from_hours(7);
    format!("{opens}-{} UTC", closes.strftime("%H:%M"))
}

// plugin.md U83
#[tokio::test(flavor = "multi_thread")]
async fn the_controller_does_what_the_plugin_said() {
    let cluster = cluster::own().await;
    let _catalogs = half(cluster.plane, "same-catalogs", "catalogs");
    let mut differs = Vec::new();
    let groups: Vec<Group> = paths::rows("test/tests/control_plane/agreement.yaml");
    for (index, Group { flags, rows }) in groups.iter().enumerate() {
        differs.extend(same(&cluster, index, flags, rows).await);
    }
    assert!(differs.is_empty(), "{}", differs.join("\n"));
}
