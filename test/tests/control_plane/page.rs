//! The page of a cluster over HTTP: what it shows of an extension is what the verbs print.

use olm_test::plugin::Page;
use olm_test::prelude::*;

use crate::plans::with_secrets;

/// Returns a page once it says more than that it waits.
async fn get(page: &Page, path: &str) -> (u16, String) {
    wait::until(&format!("{path} is shown"), SOON, || async {
        let answer = reqwest::get(page.at(path)).await.expect("an answer");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("text");
        if text.contains("<h1>Reading …</h1>") { Err(text) } else { Ok((status, text)) }
    })
    .await
}

async fn shown(page: &Page, path: &str) -> String {
    let (status, text) = get(page, path).await;
    assert_eq!(status, 200, "{path}: {text}");
    text
}

fn verb(scene: &Scene, args: &[&str]) -> Value {
    plugin::answer(scene.cluster.plane, &[args, &["-o", "json"]].concat()).document()
}

/// The page shows what the verbs say of a cluster.
async fn the_cluster(scene: &Scene) {
    let name = &scene.name;
    let page = Page::of(scene.cluster.plane, &[]);

    let status = verb(scene, &["status", name]);
    let row = &status["extensions"][0];
    let text = shown(&page, "").await;
    assert!(text.contains(&format!("/extension/{name}\">{name}</a>")), "{text}");
    let text = shown(&page, &format!("extension/{name}?watch=10")).await;
    let version = row["installed"]["version"].as_str().expect("a version");
    assert!(text.contains(&format!("<span class=\"count\">{version}</span>")), "{text}");
    for holder in row["heldBy"].as_array().expect("a list") {
        let tag = format!("<span class=\"tag\">{}</span>", holder.as_str().expect("a word"));
        assert!(text.contains(&tag), "{tag}: {text}");
    }
    for part in [
        format!("/package/{name}/{name}\">{name}</a>"),
        "<dt>Strongest rights</dt>".to_owned(),
        "<h2 id=\"events\">Events</h2>".to_owned(),
        "<h2 id=\"conditions\">Conditions</h2>".to_owned(),
        "kind: ClusterExtension".to_owned(),
    ] {
        assert!(text.contains(&part), "{part}: {text}");
    }
    for version in ["1.0.0", "1.1.0"] {
        let link =
            format!("/bundle/{name}/{name}/{}\">{version}</a>", scene.package.bundle_name(version));
        assert!(text.contains(&link), "{link}: {text}");
    }
    let text = shown(&page, "packages?q=viewed&installable=only").await;
    assert!(text.contains(&format!("installed as {name}")), "{text}");
    let text = shown(&page, &format!("package/{name}/{name}")).await;
    assert!(text.contains("<svg") && text.contains(">installed"), "{text}");
    let text = shown(&page, "catalogs").await;
    assert!(text.contains(&format!("/catalog/{name}\">none<")), "{text}");
    let text = shown(&page, &format!("catalog/{name}")).await;
    assert!(text.contains("Errors: 0"), "{text}");
    assert_eq!(get(&page, "extension/none").await.0, 404);
    let (status, text) = get(&page, "nothing").await;
    assert!(status == 404 && text.contains("/packages\">packages</a>"), "{text}");
}

/// Returns the text of every cell of a row.
fn cells(text: &str, heading: &str) -> Vec<String> {
    let rows = text.split("<tr>").skip(1);
    let row = rows.map(|row| row.split("</tr>").next().unwrap_or_default());
    let mut row = row.filter(|row| row.contains(heading));
    let row = row.next().unwrap_or_else(|| panic!("{heading}: {text}"));
    let plain = |cell: &str| {
        let parts = cell.split('<').map(|part| part.rsplit('>').next().unwrap_or_default());
        parts.collect::<String>().trim().to_owned()
    };
    row.split("</t").map(plain).filter(|cell| !cell.is_empty()).collect()
}

// plugin.md U81, U82
#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_what_the_verbs_say_as_far_as_it_may_be_read() {
    let scene = with_secrets(cluster::with_controller().await, "viewed").await;
    let extension = scene.installed(json!({"version": "1.0.0"}), "1.0.0").await;
    the_cluster(&scene).await;
    scene.annotate("policy.olm.operatorframework.io/upgrade", "None");
    extension.patch_catalog(json!({"version": null})).await;
    extension.offers("1.1.0", "").await;
    all_of_it(&scene).await;
    as_far_as_it_may_be_read(&scene).await;
    extension.delete().await;
}

/// What the views show whoever may read everything is what the verbs print.
async fn all_of_it(scene: &Scene) {
    let (plane, name) = (scene.cluster.plane, &scene.name);
    let page = Page::of(plane, &[]);

    let at = |part: &str| format!("extension/{name}/{part}");
    let plan = plugin::read(plane, &["plan", name, "-o", "json"]).document();
    let text = shown(&page, &at("plan")).await;
    let digest = plan["digest"].as_str().expect("a digest");
    let digits = &digest["sha256:".len()..][..12];
    let command = format!("kubectl olm approve {name} --plan {digits}</pre>");
    assert!(text.contains(&command), "{command}: {text}");
    let objects = plan["objects"].as_array().expect("objects");
    assert!(objects.len() > 1);
    for object in objects {
        let field = |key: &str| object[key].as_str().unwrap_or_default();
        let called = format!("{}/{}", field("namespace"), field("name"));
        let heading = format!(">{} {}<", field("kind"), called.trim_start_matches('/'));
        assert_eq!(cells(&text, &heading)[1], field("action"), "{heading}");
    }
    let (_, tree, _) = plugin::answer(plane, &["status", name, "-o", "tree"]);
    let text = shown(&page, &at("objects")).await;
    for line in tree.lines().filter(|line| line.starts_with("      ")) {
        let what = line.trim().split("  ").next().expect("an object");
        assert_eq!(cells(&text, &format!(">{what}<"))[2], "✓ ready", "{what}");
    }
    let row = verb(scene, &["history", name])["revisions"][0].take();
    let text = shown(&page, &at("history")).await;
    let since = row["since"].as_str().expect("a time");
    let found = cells(&text, &format!("<time datetime=\"{since}\""));
    assert_eq!(found[1..3], [row["version"].clone(), row["state"].clone()]);
    for part in ["plan", "objects", "history"] {
        assert_eq!(get(&page, &format!("extension/none/{part}")).await.0, 404);
        let text = shown(&page, &at(part)).await;
        assert!(!text.contains("hidden-"), "{part}: {text}");
    }
}

/// What may not be read is said.
async fn as_far_as_it_may_be_read(scene: &Scene) {
    let plane = scene.cluster.plane;
    let at = |part: &str| format!("extension/{}/{part}", scene.name);
    // Who may read neither Secrets nor roles.
    let role = ("ClusterRole", "operator-controller-clusterextension-viewer-role");
    plane.grant(&[objects::binding("viewer-views", None, role, &objects::user("viewer"))]);
    let page = Page::of(plane, &["--as", "viewer"]);
    let text = shown(&page, &at("plan")).await;
    assert!(text.contains("its content cannot be read"), "{text}");
    assert!(text.contains("<dt>account</dt><dd><span class=\"line\">not known: "), "{text}");
    let text = shown(&page, &at("objects")).await;
    assert!(text.contains("Not known: drift"), "{text}");
    // Who may read nothing but the extension.
    let rules = json!([{"apiGroups": ["olm.operatorframework.io"],
        "resources": ["clusterextensions"], "verbs": ["get"]}]);
    plane.grant(&objects::grant("peeps", None, &rules, &objects::user("peeper")));
    let page = Page::of(plane, &["--as", "peeper"]);
    for part in ["plan", "objects", "history"] {
        let text = shown(&page, &at(part)).await;
        assert!(text.contains(&format!("Not known: {part}")), "{part}: {text}");
        let why = text.contains("forbidden") || text.contains("you may not list clusterextensions");
        assert!(why, "{part}: {text}");
    }
}
