//! `spec.config`: one watched namespace, changed Deployments, pull secrets, and what is refused.

use std::slice;

use olm_test::prelude::*;

use crate::credentials::apply_secret;

fn bundle() -> Bundle {
    Bundle::new("1.0.0").for_one_namespace()
}

/// A scene with an operator that watches one namespace, and the name of another namespace.
async fn scene() -> (Scene, String) {
    let bundle = bundle();
    let mut scene = Scene::empty(cluster::with_controller().await, "configured");
    scene.publish(slice::from_ref(&bundle), &chain(&["1.0.0"])).await;
    scene.create_namespace();
    let other = format!("{}-other", scene.name);
    scene.cluster.plane.kubectl(&["create", "namespace", &other]);
    // Watching the other namespace needs rights there and in the own one, which covers both.
    scene.grant_with(&[bundle], &["--watch-namespace", &other]);
    (scene, other)
}

async fn configure(extension: &Extension, inline: Value) {
    let config = json!({"configType": "Inline", "inline": inline});
    extension.patch_spec(json!({"config": config})).await;
}

/// Waits for the terminal condition with exactly this text after the name of the bundle.
async fn refused(scene: &Scene, extension: &Extension, why: &str) {
    let bundle = scene.package.bundle_name("1.0.0");
    let want = format!("error for resolved bundle {bundle:?} with version \"1.0.0\": {why}");
    extension.says("False", "InvalidConfiguration", &want).await;
}

/// Waits until revision `number` has the Deployment, and returns its pod template.
async fn template(scene: &Scene, extension: &Extension, number: usize) -> Value {
    extension.installed("1.0.0").await;
    wait::until(&format!("revision {number} owns the Deployment"), SOON, || async {
        let revisions = extension.revisions().await;
        let newest = revisions.last().map(kube::ResourceExt::name_any);
        let deployment = scene.get("deployment", &scene.package.deployment()).unwrap_or_default();
        let owner = &deployment["metadata"]["ownerReferences"][0]["name"];
        if revisions.len() == number && newest.as_deref() == owner.as_str() {
            Ok(deployment["spec"]["template"].clone())
        } else {
            Err(format!("{newest:?} of {}, owner {owner}", revisions.len()))
        }
    })
    .await
}

/// Says whether the operator has a Role in a namespace; its name starts with that of the bundle.
fn role_in(scene: &Scene, namespace: &str) -> bool {
    let plane = scene.cluster.plane;
    let names = plane.kubectl(&["get", "roles", "--namespace", namespace, "--output", "name"]);
    let name = format!("role.rbac.authorization.k8s.io/{}.v", scene.name);
    names.lines().any(|line| line.starts_with(&name))
}

/// Two pull secrets that operators' pods may use: one that only the controller's namespace has, and one
/// that the install namespace has as well.
struct PullSecrets<'a> {
    scene: &'a Scene,
    offered: String,
    own: String,
}

impl<'a> PullSecrets<'a> {
    fn of(scene: &'a Scene) -> Self {
        let name = |end: &str| format!("{}-{end}", scene.name);
        let secrets = Self { scene, offered: name("offered"), own: name("own") };
        for name in [&secrets.offered, &secrets.own] {
            secrets.write(SYSTEM_NAMESPACE, name, "first");
            secrets.label(name, &json!("true"));
        }
        secrets.write(&scene.name, &secrets.own, "own");
        secrets
    }

    fn write(&self, namespace: &str, name: &str, password: &str) {
        let document = json!({"auths": {"h.io": {"username": "u", "password": password}}});
        apply_secret(self.scene.cluster.plane, namespace, name, &document);
    }

    fn label(&self, name: &str, value: &Value) {
        let change = json!({"metadata": {"labels": {label::OPERATOR_PULL_SECRET: value}}});
        self.scene.cluster.plane.requests().merge("secret", SYSTEM_NAMESPACE, name, &change);
    }

    fn names(&self) -> Value {
        json!([{"name": self.offered}, {"name": self.own}])
    }

    /// Gives the account the rights that its copies take.
    fn grant(&self, other: &str) {
        let config = json!({"deploymentConfig": {"imagePullSecrets": self.names()}});
        let file = self.scene.folder(&bundle()).with_file_name("config.yaml");
        std::fs::write(&file, config.to_string()).expect("it is written");
        let file = file.to_string_lossy();
        self.scene.grant_with(&[bundle()], &["--watch-namespace", other, "--config", &file]);
    }

    /// Waits until the install namespace has what is offered; nothing, if it is not to be there.
    async fn copied(&self, what: &str, wanted: bool) -> Value {
        let (scene, name) = (self.scene, &self.offered);
        wait::until(what, SOON, || async {
            let copy = scene.get("secret", name);
            let source = scene.cluster.plane.requests().read("secret", SYSTEM_NAMESPACE, name);
            let same = match (&copy, &source) {
                (Some(copy), Some(source)) => wanted && copy["data"] == source["data"],
                (copy, _) => !wanted && copy.is_none(),
            };
            // What is in it is not shown.
            if same { Ok(copy.unwrap_or_default()) } else { Err(copy.is_some()) }
        })
        .await
    }

    /// The copy follows its source; the Secret of the namespace's own is left alone.
    async fn are_followed(&self, extension: &Extension) {
        let own = self.scene.get("secret", &self.own).expect("it is still there");
        let copy = self.copied("it is copied", true).await;
        let uid = extension.get().await.metadata.uid;
        assert_eq!(copy["metadata"]["ownerReferences"][0]["uid"], json!(uid));
        assert_eq!(copy["metadata"]["labels"][label::PULL_SECRET_COPY], "true");
        self.write(SYSTEM_NAMESPACE, &self.offered, "second");
        let copy = self.copied("it is updated", true).await;
        let content = copy["data"][".dockerconfigjson"].as_str().expect("a document");
        let sets = self.scene.cluster.plane.requests().list("clusterobjectset", "", "");
        assert!(!json!(sets).to_string().contains(content));
        self.label(&self.offered, &Value::Null);
        self.copied("it is not offered any more", false).await;
        self.label(&self.offered, &json!("true"));
        self.copied("it is offered again", true).await;
        assert_eq!(extension.revisions().await.len(), 2);
        assert!(own["metadata"]["ownerReferences"].is_null(), "{}", self.own);
        assert_eq!(self.scene.get("secret", &self.own), Some(own));
    }

    fn delete(&self) {
        self.scene
            .cluster
            .plane
            .run(&format!("delete secret {} {} -n {SYSTEM_NAMESPACE}", self.offered, self.own));
    }
}

// rendering.md 3.1, 3.3, 3, 4.8, R11; applying.md 3.4: a changed configuration is a new revision;
// decision 49
#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_is_followed_refused_and_followed_again() {
    let (scene, other) = scene().await;
    let extension = scene.install(json!({})).await;
    let why = "invalid ClusterExtension configuration: invalid configuration: required field \
               \"watchNamespace\" is missing";
    refused(&scene, &extension, why).await;
    assert!(extension.revisions().await.is_empty());

    configure(&extension, json!({"watchNamespace": scene.name})).await;
    let own = template(&scene, &extension, 1).await;
    let watched = "olm.targetNamespaces";
    assert_eq!(own["metadata"]["annotations"][watched], json!(scene.name));
    assert!(role_in(&scene, &scene.name) && !role_in(&scene, &other));

    let secrets = PullSecrets::of(&scene);
    let change = json!({
        "env": [{"name": "DEPTH", "value": "20"}],
        "resources": {"requests": {"cpu": 1, "memory": "64Mi"}},
        "tolerations": [{"key": "buoys", "operator": "Exists"}],
        "annotations": {"example.com/team": "harbor", watched: "everything"},
        "imagePullSecrets": secrets.names(),
    });
    configure(&extension, json!({"watchNamespace": other, "deploymentConfig": change})).await;
    extension.shows("PermissionsSufficient", "False", "PermissionsMissing", "secrets").await;
    assert!(scene.get("secret", &secrets.offered).is_none());
    secrets.grant(&other);
    let template_2 = template(&scene, &extension, 2).await;
    let annotations = &template_2["metadata"]["annotations"];
    assert_eq!(annotations[watched], json!(other));
    assert_eq!(annotations["example.com/team"], "harbor");
    let pod = &template_2["spec"];
    assert_eq!(pod["tolerations"], json!([{"key": "buoys", "operator": "Exists"}]));
    assert_eq!(pod["imagePullSecrets"], secrets.names());
    let container = &pod["containers"][0];
    assert_eq!(container["env"], json!([{"name": "DEPTH", "value": "20"}]));
    assert_eq!(container["resources"]["requests"], json!({"cpu": "1", "memory": "64Mi"}));
    assert!(role_in(&scene, &scene.name) && role_in(&scene, &other));
    secrets.are_followed(&extension).await;

    configure(&extension, json!({"deploymentConfig": {"env": [{"value": "20"}]}})).await;
    let why = "invalid ClusterExtension configuration: invalid configuration: required field \
               \"deploymentConfig.env.0.name\" is missing";
    refused(&scene, &extension, why).await;
    assert!(is(&extension.get().await, "Installed", "True", "Succeeded"));
    assert_eq!(extension.revisions().await.len(), 2);

    let env = json!([{"name": "DEPTH", "value": "30"}]);
    let fixed = json!({"deploymentConfig": {"env": env, "imagePullSecrets": null}});
    configure(&extension, fixed).await;
    let template_3 = template(&scene, &extension, 3).await;
    assert_eq!(template_3["spec"]["containers"][0]["env"], env);
    secrets.copied("nothing names it any more", false).await;
    extension.delete().await;
    secrets.delete();
    assert!(!role_in(&scene, &other));
}
