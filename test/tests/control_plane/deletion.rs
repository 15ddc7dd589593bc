//! What deleting an extension does to the objects that users made of its CRDs.

use futures::future::join_all;
use olm_test::prelude::*;
use olm_test::scene::grant;

const POLICY: &str = "policy.olm.operatorframework.io/uninstall";
const RETAINED_BY: &str = "policy.olm.operatorframework.io/retained-by";
const OWNER_NAME: &str = "olm.operatorframework.io/owner-name";
/// Longer than the API server's own counts are old.
const COUNTED: Duration = Duration::from_mins(3);

/// Installs 1.0.0 of a package and makes an object `one` of its CRD.
async fn in_use(suffix: &str) -> (Scene, Extension) {
    let scene = Scene::shared(suffix, &["1.0.0"]).await;
    let extension = scene.installed(json!({}), "1.0.0").await;
    scene.make_instance(&scene.package.crd(), &[]);
    (scene, extension)
}

/// Waits until the removal is blocked for this reason, and returns what `Ready` says.
async fn blocked(extension: &Extension, text: &str) -> String {
    let found = extension.shows("Progressing", "False", "Blocked", text).await;
    let ready = condition(&found, "Ready").expect("Ready is there");
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Blocked"));
    ready.message.clone()
}

// applying.md h6; 7.3
#[tokio::test(flavor = "multi_thread")]
async fn objects_of_users_block_an_uninstall_however_it_is_asked_for() {
    // Their CRDs are looked at again half a minute after the objects are gone.
    join_all(["background", "foreground"].map(|how| async move {
        let (scene, extension) = in_use(&format!("block{how}")).await;
        let crd = scene.package.crd();
        scene.delete(how);
        let text = blocked(&extension, &format!("uninstall blocked: 1 instance of {crd}; ")).await;
        assert!(text.contains(&format!("clusterextension {} {POLICY}=RetainCRDs", scene.name)));
        scene.told("RemovalHeld", "uninstall blocked: ").await;
        scene.is_whole();
        // It gets no update.
        for verb in ["plan", "why"] {
            let (_, errors) = plugin::answer(scene.cluster.plane, &[verb, &scene.name]).ends(1);
            assert!(errors.contains("is being deleted"), "{verb}: {errors}");
        }
        scene.cluster.plane.run(&format!("delete {crd} one -n {}", scene.name));
        extension.gone().await;
        assert!(scene.get("customresourcedefinition", &crd).is_none());
        assert!(scene.get("deployment", &scene.package.deployment()).is_none());
    }))
    .await;
}

/// Fails unless the CRD is kept for the extension, with its object and without an owner.
fn is_retained(scene: &Scene) {
    let crd = scene.package.crd();
    let kept = scene.get("customresourcedefinition", &crd).expect("the CRD stays");
    assert_eq!(kept["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(kept["metadata"]["deletionTimestamp"], Value::Null);
    assert_eq!(kept["metadata"]["labels"][RETAINED_BY], scene.name);
    scene.uid(&crd, "one");
}

// applying.md h5
#[tokio::test(flavor = "multi_thread")]
async fn retained_crds_keep_their_objects_and_are_taken_up_again() {
    let (scene, extension) = in_use("retain").await;
    let crd = scene.package.crd();
    scene.annotate(POLICY, "RetainCRDs");
    scene.delete("background");
    extension.gone().await;
    assert!(scene.get("deployment", &scene.package.deployment()).is_none());
    is_retained(&scene);
    let extension = scene.installed(json!({}), "1.0.0").await;
    let again = scene.get("customresourcedefinition", &crd).expect("the CRD stays");
    let owner = &again["metadata"]["ownerReferences"][0]["name"];
    assert_eq!(*owner, format!("{}-1", scene.name));
    assert_eq!(again["metadata"]["labels"][RETAINED_BY], Value::Null);
    assert!(scene.get(&crd, "one").is_some(), "its object stays");
    only_its_own_events_are_shown(&scene);
    extension.delete().await;
    assert!(scene.get("customresourcedefinition", &crd).is_none());
}

/// The plugin shows no Events of an earlier extension of the name.
fn only_its_own_events_are_shown(scene: &Scene) {
    assert!(scene.events("RevisionCreated").len() > 1, "the cluster has those of both");
    let asked = ["status", &scene.name, "-o", "json"];
    let status = plugin::answer(scene.cluster.plane, &asked).document();
    let events = status["extensions"][0]["events"].as_array().expect("a list");
    let made = events.iter().filter(|event| event["reason"] == "RevisionCreated");
    assert_eq!(made.count(), 1, "{status}");
}

// applying.md 3.9, 7.3
#[tokio::test(flavor = "multi_thread")]
async fn retained_crds_stay_although_content_and_label_are_lost() {
    let (scene, extension) = in_use("retainlost").await;
    let (plane, crd) = (scene.cluster.plane, scene.package.crd());
    // While it is paused, nothing comes back.
    scene.annotate("policy.olm.operatorframework.io/paused", "true");
    extension.shows("Paused", "True", "Paused", "nothing is applied").await;
    for secret in scene.content(OWNER_NAME, &scene.name) {
        plane.kubectl(&["delete", "-n", SYSTEM_NAMESPACE, &secret]);
    }
    let unlabelled = json!({"metadata": {"labels": {OWNER_NAME: null}}});
    plane.requests().merge("customresourcedefinition", "", &crd, &unlabelled);
    scene.annotate(POLICY, "RetainCRDs");
    scene.delete("background");
    extension.gone().await;
    is_retained(&scene);
}

/// Without the account the garbage collector removes what the revision owns, in its own time.
async fn is_collected(scene: &Scene, crd: &str) {
    scene.gone("customresourcedefinition", crd).await;
}

/// Waits until the removal is blocked for this reason, as the API server counts; returns how that is
/// said.
pub(crate) async fn protects(extension: &Extension, text: &str) -> String {
    wait::until("it is blocked", COUNTED, || async {
        let found = extension.get().await;
        let progressing = condition(&found, "Progressing").map(|it| it.message.clone());
        let blocked = progressing.as_ref().is_some_and(|it| it.contains(text));
        if blocked { Ok(progressing.unwrap_or_default()) } else { Err(progressing) }
    })
    .await
}

fn delete_account(scene: &Scene) {
    scene.cluster.plane.run(&format!("delete serviceaccount {ACCOUNT} -n {}", scene.name));
}

// applying.md 7.3, 7.4, h8
#[tokio::test(flavor = "multi_thread")]
async fn without_the_account_objects_are_counted_and_block_until_somebody_decides() {
    let (scene, extension) = in_use("uncounted").await;
    delete_account(&scene);
    scene.delete("background");
    let crd = scene.package.crd();
    protects(&extension, &format!("uninstall blocked: 1 instance of {crd}; ")).await;
    scene.is_whole();
    scene.annotate(POLICY, "Delete");
    extension.gone().await;
    is_collected(&scene, &crd).await;
}

// applying.md 4.5
#[tokio::test(flavor = "multi_thread")]
async fn an_extension_is_removed_by_the_account_that_it_gets_during_its_removal() {
    let (scene, extension) = in_use("goesrehired").await;
    let (crd, plane) = (scene.package.crd(), scene.cluster.plane);
    scene.delete("background");
    blocked(&extension, &format!("uninstall blocked: 1 instance of {crd}; ")).await;
    let folders = [scene.folder(&Bundle::new("1.0.0"))];
    grant(plane, &folders, &scene.name, "second", &[]);
    // The name cannot be changed, but be cleared and set.
    extension.patch_spec(json!({"serviceAccount": null})).await;
    extension.patch_spec(json!({"serviceAccount": {"name": "second"}})).await;
    let records =
        |set: &Value| set["metadata"]["annotations"][annotation::SERVICE_ACCOUNT_NAME] == "second";
    scene.until("it records the account", "clusterobjectset", &scene.revision(1), records).await;
    delete_account(&scene);
    plane.run(&format!("delete {crd} one -n {}", scene.name));
    extension.gone().await;
    assert!(scene.get("deployment", &scene.package.deployment()).is_none());
    assert!(scene.events("UninstallFallback").is_empty(), "the account has removed it");
}

// applying.md 7.4
#[tokio::test(flavor = "multi_thread")]
async fn without_the_account_retained_crds_stay_and_the_removal_ends() {
    let (scene, extension) = in_use("unretained").await;
    delete_account(&scene);
    scene.annotate(POLICY, "RetainCRDs");
    scene.delete("background");
    extension.gone().await;
    let crd = scene.package.crd();
    let kept = scene.get("customresourcedefinition", &crd).expect("the CRD stays");
    assert_eq!(kept["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(kept["metadata"]["deletionTimestamp"], Value::Null);
    scene.uid(&crd, "one");
    let told = scene.events("UninstallFallback");
    assert!(told.iter().any(|note| note.contains("the installed objects stay")), "{told:?}");
}

/// What a pruning tool does: the extension and everything that it stands on at once.
fn delete_folder(scene: &Scene) {
    let plane = scene.cluster.plane;
    scene.delete("background");
    let bindings = plane.json(&["get", "clusterrolebindings", "-o", "json"]);
    let bindings = bindings["items"].as_array().expect("a list").iter();
    let subject = json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": scene.name});
    let ours = bindings.filter(|it| it["subjects"][0] == subject);
    let names: Vec<&str> = ours.filter_map(|it| it["metadata"]["name"].as_str()).collect();
    assert!(!names.is_empty());
    plane.kubectl(&[&["delete", "clusterrolebindings", "--wait=false"], &*names].concat());
    plane.kubectl(&["delete", "namespace", &scene.name, "--wait=false"]);
}

// applying.md 7.4
#[tokio::test(flavor = "multi_thread")]
async fn an_extension_goes_with_the_folder_that_it_came_from() {
    let (scene, extension) = in_use("folder").await;
    let crd = scene.package.crd();
    scene.cluster.plane.kubectl(&["delete", &crd, "one", "-n", &scene.name]);
    delete_folder(&scene);
    extension.gone().await;
    is_collected(&scene, &crd).await;
}

// applying.md 7.4
#[tokio::test(flavor = "multi_thread")]
#[ignore = "waits for counts of the API server: make test-full"]
async fn a_folder_with_objects_elsewhere_goes_once_somebody_decides() {
    let (scene, extension) = in_use("folderused").await;
    let crd = scene.package.crd();
    let one = json!({"apiVersion": format!("{}/v1", scene.package.group()), "kind": "Buoy",
        "metadata": {"name": "one", "namespace": "default"}});
    scene.cluster.plane.requests().create(&crd, "default", &one);
    delete_folder(&scene);
    protects(&extension, &format!(" of {crd}; ")).await;
    let kept = scene.cluster.plane.kubectl(&["get", &crd, "one", "-n", "default", "-o", "name"]);
    assert!(kept.contains("/one"), "{kept}");
    scene.annotate(POLICY, "Delete");
    extension.gone().await;
    is_collected(&scene, &crd).await;
}

// applying.md 7.4
#[tokio::test(flavor = "multi_thread")]
#[ignore = "one more of a kind: make test-full"]
async fn a_folder_with_webhooks_goes() {
    let suffix = "folderhooked";
    let bundle = Bundle::new("1.0.0").with_webhook(Package::new(suffix).validating_webhook());
    let scene = Scene::shared_set(suffix, &[bundle], &chain(&["1.0.0"])).await;
    let extension = scene.installed(json!({}), "1.0.0").await;
    delete_folder(&scene);
    extension.gone().await;
    scene.gone("validatingwebhookconfiguration", &format!("{}.example.com", scene.name)).await;
    is_collected(&scene, &scene.package.crd()).await;
}

/// Runs `kubectl olm delete` and returns its exit code, and what it prints to both streams.
fn olm_delete(scene: &Scene, args: &[&str]) -> (Option<i32>, String) {
    let args = [&["delete", &scene.name], args].concat();
    let answer = tokio::task::block_in_place(|| plugin::answer(scene.cluster.plane, &args));
    let (code, text, errors) = answer;
    (code, text + &errors)
}

// plugin.md 1.4: delete
#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_shows_which_data_would_go_and_asks() {
    let (scene, extension) = in_use("shown").await;
    let crd = scene.package.crd();
    let (code, text) = olm_delete(&scene, &["--yes"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(&format!("  {crd}: 1 object\n    {}: one\n", scene.name)), "{text}");
    assert!(text.contains("--retain-crds keeps them"), "{text}");
    let (code, text) = olm_delete(&scene, &["--delete-data"]);
    assert_eq!(code, Some(2), "nobody can be asked: {text}");
    olm_delete(&scene, &["--delete-data", "--dry-run"]).good();
    let found = extension.get().await;
    assert!(found.metadata.deletion_timestamp.is_none());
    // What held an earlier removal does not hold this one.
    scene.delete("background");
    extension.shows("Ready", "False", "Blocked", "uninstall blocked: ").await;
    let text = olm_delete(&scene, &["--retain-crds", "--yes"]).good();
    assert!(text.contains(&format!("{} deleted after ", scene.name)), "{text}");
    assert!(scene.get(&crd, "one").is_some(), "its object stays");
}

/// Makes a user who may do everything with all objects but delete them.
fn who_may_not_delete(scene: &Scene) -> String {
    let (plane, user) = (scene.cluster.plane, format!("{}-editor", scene.name));
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"],
        "verbs": ["get", "list", "watch", "patch", "update", "use"]}]);
    plane.grant(&objects::grant(&user, None, &rules, &objects::user(&user)));
    user
}

// plugin.md 1.3: what is not deleted now is not decided for later
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_is_refused_decides_nothing_about_data() {
    let (scene, extension) = in_use("undecided").await;
    let user = who_may_not_delete(&scene);
    for before in ["", "RetainCRDs"] {
        scene.annotate(POLICY, before);
        let (code, text) = olm_delete(&scene, &["--delete-data", "--yes", "--as", &user]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("cannot delete resource \"clusterextensions\""), "{text}");
        let found = extension.get().await;
        assert!(found.metadata.deletion_timestamp.is_none());
        let annotations = found.metadata.annotations.unwrap_or_default();
        let left = annotations.get(POLICY).map_or("", String::as_str);
        assert_eq!(left, before, "{text}");
    }
    scene.is_whole();
    extension.delete().await;
}
