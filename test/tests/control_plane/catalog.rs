//! ClusterCatalogs on a real API server: pulled from the registry, served over HTTPS, reported.
//!
//! Cases of catalogs.md 2 and 3.

use olm_api::keys::finalizer;
pub(crate) use olm_test::catalog::condition_of as condition;
use olm_test::cluster::Addresses;
use olm_test::prelude::*;

const CONTENT: &str = "---\nschema: olm.package\nname: shop\ndefaultChannel: stable\n---\n\
    schema: olm.channel\npackage: shop\nname: stable\nentries:\n- name: shop.v1\n";

/// The location of an image of a catalog.
fn image(shelf: &Catalog, tag: &str) -> String {
    format!("{}/shelves/{}:{tag}", shelf.plane.addresses.registry, shelf.name)
}

/// Pushes a catalog of one file and returns it by digest.
async fn push(shelf: &Catalog, tag: &str, file: &str, text: &str) -> String {
    let files = [(format!("configs/{file}"), text.as_bytes().to_vec())];
    images::push_catalog(&image(shelf, tag), files.into()).await
}

async fn shelf(name: &str) -> Catalog {
    Catalog::named(cluster::with_controller().await.plane, name)
}

fn create(shelf: &Catalog, image: &str) {
    Catalog::create(shelf.plane, &shelf.name, image);
}

fn client(addresses: &Addresses) -> reqwest::Client {
    // It may be installed already by another test, which is fine.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let pem = std::fs::read(&addresses.controller_ca).expect("the controller's CA");
    let root = reqwest::Certificate::from_pem(&pem).expect("a certificate");
    let builder = reqwest::Client::builder().no_proxy().tls_certs_only([root]);
    builder.build().expect("a client")
}

/// Returns status code, `Last-Modified` and body of a path below the catalog's address.
async fn fetch(shelf: &Catalog, base: &str, path: &str) -> (u16, String, String) {
    let client = client(&shelf.plane.addresses);
    let response = client.get(format!("{base}{path}")).send().await.expect("an answer");
    let modified = response.headers().get("last-modified");
    let modified = modified.map(|value| value.to_str().expect("text").to_owned());
    (
        response.status().as_u16(),
        modified.unwrap_or_default(),
        response.text().await.expect("a body"),
    )
}

fn base(object: &Value) -> String {
    object["status"]["urls"]["base"].as_str().expect("an address").to_owned()
}

/// Returns status code, `Last-Modified` and all blobs of a catalog, from the address in its status.
pub(crate) async fn served_by(shelf: &Catalog, object: &Value) -> (u16, String, String) {
    fetch(shelf, &base(object), "/api/v1/all").await
}

// catalogs.md R1, R7, R8, R9, H9; deploying.md P17
#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_is_served_repaired_switched_off_and_deleted() {
    let shelf = shelf("shelf-tag").await;
    let digest = push(&shelf, "v1", "shop/catalog.yaml", CONTENT).await;
    create(&shelf, &image(&shelf, "v1"));
    let before = shelf.reports("Ready", "Succeeded").await;
    let metadata = &before["metadata"];
    assert_eq!(metadata["finalizers"], json!([finalizer::DELETE_SERVER_CACHE]));
    assert_eq!(metadata["labels"][label::METADATA_NAME], "shelf-tag");
    let hooks = shelf.plane.kubectl(&["get", "mutatingwebhookconfigurations", "--output=name"]);
    assert!(!hooks.contains("catalogd"), "the label needs no webhook: {hooks}");
    assert_eq!(before["status"]["resolvedSource"]["image"]["ref"], digest);
    assert!(before["status"]["lastUnpacked"].is_string());
    assert_eq!(condition(&before, "Serving")["reason"], "Available");
    assert_eq!(condition(&before, "Progressing")["reason"], "Succeeded");
    let base = base(&before);
    assert!(base.starts_with("https://") && base.ends_with("/catalogs/shelf-tag"));
    let (status, _, body) = fetch(&shelf, &base, "/api/v1/all").await;
    assert_eq!(status, 200);
    assert_eq!(
        body,
        "{\"defaultChannel\":\"stable\",\"name\":\"shop\",\"schema\":\"olm.package\"}\n\
         {\"entries\":[{\"name\":\"shop.v1\"}],\"name\":\"stable\",\"package\":\"shop\",\
         \"schema\":\"olm.channel\"}\n"
    );
    let (_, _, body) = fetch(&shelf, &base, "/api/v1/metas?schema=olm.channel").await;
    assert_eq!(body.lines().count(), 1);

    shelf.set_status(&json!({"urls": {"base": "https://elsewhere.example"}}));
    shelf.merge(&json!({"metadata": {"labels": {label::METADATA_NAME: null}}}));
    let repaired = |object: &Value| {
        object["status"]["urls"] == before["status"]["urls"]
            && object["metadata"]["labels"][label::METADATA_NAME] == "shelf-tag"
    };
    shelf.until("repaired", repaired).await;

    shelf.merge(&json!({"spec": {"availabilityMode": "Unavailable"}}));
    let object = shelf.until("let go", |object| object["metadata"]["finalizers"].is_null()).await;
    assert_eq!(condition(&object, "Serving")["reason"], "UserSpecifiedUnavailable");
    for field in ["resolvedSource", "urls", "lastUnpacked"] {
        assert!(object["status"][field].is_null(), "{field}");
    }
    assert_eq!(fetch(&shelf, &base, "/api/v1/all").await.0, 404);
    shelf.merge(&json!({"spec": {"availabilityMode": "Available"}}));
    let object = shelf.reports("Ready", "Succeeded").await;
    assert_eq!(object["metadata"]["finalizers"], json!([finalizer::DELETE_SERVER_CACHE]));
    assert_eq!(fetch(&shelf, &base, "/api/v1/all").await.0, 200);

    shelf.plane.kubectl(&["delete", "clustercatalog", &shelf.name]);
    assert_eq!(fetch(&shelf, &base, "/api/v1/all").await.0, 404);
}

// catalogs.md R2, R4, R10
#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_refused_waited_for_and_replaced_by_good_content_only() {
    let shelf = shelf("shelf-late").await;
    create(&shelf, "foo/bar:latest");
    let object = shelf.reports("Progressing", "Blocked").await;
    let message = condition(&object, "Progressing")["message"].to_string();
    assert!(message.contains("repository name must be canonical"), "{message}");

    shelf.set_image(&image(&shelf, "v1"));
    let object = shelf.reports("Progressing", "Retrying").await;
    assert_eq!(condition(&object, "Serving")["reason"], "Unavailable");
    let message = condition(&object, "Progressing")["message"].to_string();
    assert!(message.starts_with("\"source catalog content: "), "{message}");
    assert!(message.contains("manifest unknown") || message.contains("name unknown"), "{message}");
    let good = push(&shelf, "v1", "catalog.yaml", CONTENT).await;
    shelf.reports("Ready", "Succeeded").await;

    push(&shelf, "v2", "README.md", "No catalog\n").await;
    shelf.set_image(&image(&shelf, "v2"));
    let object = shelf.reports("Progressing", "Retrying").await;
    let message = condition(&object, "Progressing")["message"].to_string();
    assert!(message.contains("error storing fbc: error reading "), "{message}");
    assert!(message.contains("configs/README.md"), "{message}");
    assert_eq!(condition(&object, "Serving")["status"], "True");
    assert_eq!(object["status"]["resolvedSource"]["image"]["ref"], good);
    assert_eq!(fetch(&shelf, &base(&object), "/api/v1/all").await.0, 200);
    shelf.set_image(&good);
    shelf.reports("Ready", "Succeeded").await;
}

/// Waits until a scrape says that a catalog has so many errors and warnings; `None` for nothing.
async fn until_counted(controller: &Controller, catalog: &str, wanted: Option<[u32; 2]>) {
    let of = |severity, count| {
        format!("olm_catalog_findings{{catalog=\"{catalog}\",severity=\"{severity}\"}} {count}")
    };
    let wanted = wanted.map(|[errors, warnings]| [of("error", errors), of("warning", warnings)]);
    let wanted: Vec<_> = wanted.into_iter().flatten().collect();
    let begins = format!("olm_catalog_findings{{catalog=\"{catalog}\"");
    wait::until("the findings are counted", SOON, || async {
        let text = controller.metrics().await;
        let found = text.lines().filter(|line| line.starts_with(&begins));
        let mut found: Vec<_> = found.map(str::to_owned).collect();
        found.sort();
        if found == wanted { Ok(()) } else { Err(found) }
    })
    .await;
}

/// Without its gate, which is on by default and on OpenShift, metas is not served; what is ignored is said at
/// the start.
async fn has_no_metas(controller: &Controller, catalog: &Catalog) {
    for subject in ["feature gate PreflightPermissions", "--pprof-bind-address"] {
        controller.logs(&format!("{subject} is accepted and ignored")).await;
    }
    let base = base(&catalog.get());
    for (path, code) in [("all", 200), ("metas?schema=olm.package", 404)] {
        assert_eq!(fetch(catalog, &base, &format!("/api/v1/{path}")).await.0, code, "{path}");
    }
}

// plugin.md U62, U72
#[tokio::test(flavor = "multi_thread")]
async fn findings_are_told_once_and_stop_nothing() {
    let gates = "--feature-gates=APIV1MetasHandler=false,PreflightPermissions=true";
    let (cluster, mut controller) =
        cluster::started("", &[gates, "--pprof-bind-address=:6060"]).await;
    let plane = cluster.plane;
    let (bundles, entries) = ([Bundle::new("1.0.0")], chain(&["1.0.0"]));
    let mut scene = Scene::empty(cluster, "findings");
    let name = scene.name.clone();
    let properties = [
        json!({"type": "color", "red": true}),
        json!({"type": "olm.gvk", "value":
            {"group": "a.example.com", "version": "v1alpha", "kind": "greens"}}),
    ];
    let properties = properties.map(|property| ("1.0.0", property));
    scene.publish_with(&bundles, &entries, &properties).await;

    let said = async |type_: &str, status: &str| {
        let is_said = |catalog: &Value| condition(catalog, type_)["status"] == status;
        let catalog = scene.until(type_, "clustercatalog", &scene.name, is_said).await;
        condition(&catalog, type_)["message"].as_str().unwrap_or_default().to_owned()
    };
    let message = said("ContentValid", "False").await;
    let at = format!("{name}/catalog.json:3");
    assert_eq!(
        message,
        format!(
            "1 error, 2 warnings in 1 package; {at}: property 1 (color) has no value, but a key \
             \"red\" beside it; hint: indent \"red\" below \"value\"\n\
             {at}: version \"v1alpha\" is not like v1, v1beta2\n\
             {at}: kind \"greens\" begins with a lowercase letter\n\
             all: kubectl olm catalog lint {name}"
        )
    );
    until_counted(&controller, &name, Some([1, 2])).await;
    has_no_metas(&controller, &Catalog::named(plane, &name)).await;
    let events = || scene.events("CatalogFindings");
    wait::value("an Event", SOON, events, |events| *events == [message.as_str()]).await;

    controller.restart(plane);
    until_counted(&controller, &name, Some([1, 2])).await;
    scene.create_namespace();
    scene.grant(&bundles);
    scene.installed(json!({}), "1.0.0").await;
    assert_eq!(said("ContentValid", "False").await, message);
    said("Serving", "True").await;
    let ready = said("Ready", "True").await;
    assert_eq!(ready, "The catalog is served and up to date.");
    assert_eq!(scene.events("CatalogFindings"), [message.as_str()]);

    scene.publish(&bundles, &entries).await;
    let repaired = |catalog: &Value| condition(catalog, "ContentValid")["reason"] == "NoFindings";
    scene.until("the content is good", "clustercatalog", &scene.name, repaired).await;
    until_counted(&controller, &name, Some([0, 0])).await;
    assert_eq!(scene.events("CatalogFindings").len(), 1);
    plane.kubectl(&["delete", "clustercatalog", &name]);
    until_counted(&controller, &name, None).await;
}
