//! Which content of a catalog is taken: newer one that is held (paused, too young, suspicious), and
//! that of an image which follows the version of the cluster.

use std::ops::Deref;

use olm_api::keys::policy::{ACCEPT_IMAGE as ACCEPT, MINIMUM_AGE as AGE, PAUSED, QUARANTINE};
use olm_test::prelude::*;

/// A catalog of one package, behind a tag that moves.
struct Moving {
    catalog: Catalog,
    package: Package,
}

impl Deref for Moving {
    type Target = Catalog;

    fn deref(&self) -> &Catalog {
        &self.catalog
    }
}

/// Says whether a condition blocks a catalog with this text.
fn is_blocked(found: &Value, text: &str) -> bool {
    let mut conditions = found["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|it| it["reason"] == "Blocked" && it["message"].to_string().contains(text))
}

impl Moving {
    /// Serves a catalog that has the given versions of a package, and returns the digest of that.
    async fn with(suffix: &str, versions: &[&str]) -> (Self, String) {
        let plane = cluster::with_controller().await.plane;
        let package = Package::new(&format!("moving-{suffix}"));
        let moving = Self { catalog: Catalog::named(plane, &package.name()), package };
        let digest = moving.push(versions).await;
        let mut catalog = objects::catalog(&moving.name, &moving.tag());
        catalog["spec"]["source"]["image"]["pollIntervalMinutes"] = json!(1);
        plane.create(&catalog);
        moving.serves(&digest).await;
        (moving, digest)
    }

    fn tag(&self) -> String {
        format!("{}/{}:latest", self.plane.addresses.registry, self.name)
    }

    /// Moves the tag to content with these versions, and returns its digest.
    async fn push(&self, versions: &[&str]) -> String {
        self.push_as(&self.tag(), versions).await
    }

    /// Pushes content with these versions, and returns its digest.
    async fn push_as(&self, image: &str, versions: &[&str]) -> String {
        let bundle = |version: &&str| ((*version).to_owned(), format!("example.com/b:v{version}"));
        let bundles = versions.iter().map(bundle).collect();
        let files = self.package.catalog_files(&chain(versions), &bundles);
        let pushed = images::push_catalog(image, files).await;
        pushed.rsplit_once('@').expect("a digest").1.to_owned()
    }

    /// Sets an annotation, and waits until whatever is polled next is judged by it.
    async fn decide(&self, annotation: &str, value: &str) {
        self.annotate(annotation, Some(value));
        let priority = self.get()["spec"]["priority"].as_i64().unwrap_or_default();
        self.edit(&json!({"priority": priority + 1})).await;
    }

    /// Changes the spec, and waits until that was acted on.
    async fn edit(&self, spec: &Value) -> Value {
        self.merge(&json!({"spec": spec}));
        let looked = |found: &Value| {
            let ready = condition_of(found, "Ready");
            ready["observedGeneration"] == found["metadata"]["generation"]
        };
        self.until(&format!("it was looked at after {spec}"), looked).await
    }

    async fn serves(&self, digest: &str) -> Value {
        let served = |found: &Value| {
            let reference = found["status"]["resolvedSource"]["image"]["ref"].as_str();
            reference.is_some_and(|it| it.ends_with(digest)) && found["status"]["update"].is_null()
        };
        self.until(&format!("it serves {digest}"), served).await
    }

    /// Waits until content is held for a reason, while other content is served.
    async fn holds(&self, digest: &str, reason: &str, served: &str) {
        let held = |found: &Value| {
            let update = &found["status"]["update"];
            update["reason"] == reason
                && update["ref"].as_str().is_some_and(|it| it.ends_with(digest))
        };
        let found = self.until(&format!("it holds {digest}: {reason}"), held).await;
        let reference = &found["status"]["resolvedSource"]["image"]["ref"];
        assert!(reference.as_str().expect("served").ends_with(served), "{found}");
        let ready = condition_of(&found, "Ready");
        assert_eq!((&ready["status"], &ready["reason"]), (&json!("True"), &json!(reason)));
    }
}

// applying.md 10, catalogs.md 2.4
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_catalog_serves_what_it_served() {
    let (catalog, first) = Moving::with("paused", &["1.0.0"]).await;
    catalog.decide(PAUSED, "true").await;
    let second = catalog.push(&["1.0.0", "1.1.0"]).await;
    catalog.holds(&second, "Paused", &first).await;
    catalog.annotate(PAUSED, None);
    catalog.serves(&second).await;

    // Another repository is a decision about content, but none about the pause.
    catalog.decide(PAUSED, "true").await;
    let tag = format!("{}/{}-other:latest", catalog.plane.addresses.registry, catalog.name);
    let other = catalog.push_as(&tag, &["2.0.0"]).await;
    catalog.edit(&json!({"source": {"image": {"ref": tag}}})).await;
    catalog.holds(&other, "Paused", &second).await;
    catalog.annotate(QUARANTINE, Some("Suspicious"));
    catalog.annotate(PAUSED, None);
    catalog.serves(&other).await;

    catalog.annotate(PAUSED, Some("maybe"));
    let said = catalog.until("it is refused", |found| {
        let text = found["status"]["conditions"].to_string();
        text.contains("unknown value") && text.contains("must be true or false")
    });
    assert!(!said.await["status"]["resolvedSource"].is_null(), "it is served all the same");
    catalog.delete();
}

// applying.md 10
#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn newer_content_is_taken_when_it_is_old_enough() {
    let (catalog, first) = Moving::with("young", &["1.0.0"]).await;
    catalog.decide(AGE, "90s").await;
    let second = catalog.push(&["1.0.0", "1.1.0"]).await;
    catalog.holds(&second, "TooYoung", &first).await;
    // What comes meanwhile waits for its own turn.
    let third = catalog.push(&["1.0.0", "1.1.0", "1.2.0"]).await;
    let what = format!("{second} is taken first");
    let taken = |found: &Value| found["status"]["resolvedSource"].to_string().contains(&second);
    catalog.until(&what, taken).await;
    catalog.holds(&third, "TooYoung", &second).await;
    catalog.annotate(ACCEPT, Some(&third));
    catalog.serves(&third).await;
    catalog.delete();
}

// applying.md 10
#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn content_that_takes_something_away_is_looked_at_first() {
    let (catalog, first) = Moving::with("suspicious", &["1.0.0", "1.1.0"]).await;
    catalog.annotate(QUARANTINE, Some("Suspicious"));
    let harmless = catalog.push(&["1.0.0", "1.1.0", "1.2.0"]).await;
    assert_ne!(harmless, first);
    catalog.serves(&harmless).await;
    let without_head = catalog.push(&["1.0.0", "1.1.0"]).await;
    catalog.holds(&without_head, "Suspicious", &harmless).await;
    let message = catalog.until("it says why", |found| {
        let message = found["status"]["update"]["message"].to_string();
        message.contains("1.2.0, head of channel") && message.contains(&without_head)
    });
    message.await;
    catalog.annotate(ACCEPT, Some(&without_head));
    catalog.serves(&without_head).await;
    catalog.delete();
}

// catalogs.md 2.4
#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_stays_held_whatever_else_is_edited() {
    let (catalog, first) = Moving::with("edited", &["1.0.0", "1.1.0"]).await;
    catalog.decide(QUARANTINE, "Suspicious").await;
    let without_head = catalog.push(&["1.0.0"]).await;
    let edits = [
        json!({"priority": 7}),
        json!({"source": {"image": {"pollIntervalMinutes": 60}}}),
        json!({"availabilityMode": "Unavailable"}),
    ];
    for spec in edits {
        catalog.edit(&spec).await;
        if spec["availabilityMode"].is_string() {
            catalog.edit(&json!({"availabilityMode": "Available"})).await;
        }
        catalog.holds(&without_head, "Suspicious", &first).await;
    }

    // Another reference is a decision.
    let tag = catalog.tag().replace(":latest", ":other");
    let other = catalog.push_as(&tag, &["1.0.0"]).await;
    catalog.edit(&json!({"source": {"image": {"ref": tag}}})).await;
    let found = catalog.serves(&other).await;
    assert_eq!(found["status"]["taken"]["for"], tag);
    catalog.delete();
}

// applying.md 10
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_annotation_keeps_what_is_served() {
    const MISSPELT: &str = "policy.olm.operatorframework.io/quarantne";
    let (catalog, _) = Moving::with("misspelt", &["1.0.0"]).await;
    catalog.decide(MISSPELT, "Suspicious").await;
    let second = catalog.push(&["1.0.0", "1.1.0"]).await;
    let refused = |found: &Value| is_blocked(found, "is unknown: remove it");
    catalog.until("it is refused", refused).await;
    let found = catalog.edit(&json!({"priority": 7})).await;
    let served = found["status"]["resolvedSource"].to_string();
    assert!(refused(&found) && !served.contains(&second) && served.contains('@'), "{found}");
    catalog.annotate(MISSPELT, None);
    catalog.serves(&second).await;
    catalog.delete();
}

// catalogs.md 2.3
#[tokio::test(flavor = "multi_thread")]
async fn an_image_template_is_filled_in_with_the_version_of_the_cluster() {
    const TEMPLATE: &str = "olm.catalogImageTemplate";
    let (catalog, plain) = Moving::with("templated", &["1.0.0"]).await;
    let version = catalog.plane.json(&["version", "--output=json"]);
    let version = version["serverVersion"]["gitVersion"].as_str().expect("a version");
    let minor = version.rsplit_once('.').expect("a patch").0;
    let tag = catalog.tag();
    let repository = tag.strip_suffix(":latest").expect("a tag");
    let image = format!("{repository}:{minor}");
    let templated = catalog.push_as(&image, &["1.0.0", "1.1.0"]).await;
    let template = format!("{repository}:v{{kube_major_version}}.{{kube_minor_version}}");
    catalog.annotate(TEMPLATE, Some(&template));
    let found = catalog.serves(&templated).await;
    assert_eq!(found["status"]["taken"]["for"], template);

    // What cannot be filled in changes nothing.
    let wrong = [
        (format!("{repository}:{{kube_version}}"), "unknown variable"),
        ("teapot".to_owned(), "gives no image"),
    ];
    for (template, said) in wrong {
        catalog.annotate(TEMPLATE, Some(&template));
        let found = catalog.until(said, |found| is_blocked(found, said));
        let reference = &found.await["status"]["resolvedSource"]["image"]["ref"];
        assert!(reference.to_string().contains(&templated), "{reference}");
    }
    catalog.annotate(TEMPLATE, None);
    catalog.serves(&plain).await;
    catalog.delete();
}
