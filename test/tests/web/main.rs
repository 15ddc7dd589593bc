//! The page in a real browser: `make test-web`.
//!
//! Every page is opened in both color schemes and at 320 px, links are followed, a hostile catalog does
//! nothing, the keyboard is enough, and pictures of the pages are compared loosely with those in
//! `docs/img`. `UPDATE_SCREENSHOTS=1` writes these anew, and every page for a person to look at.

mod browser;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use browser::Browser;
use olm_test::plugin::Page;
use olm_test::prelude::*;

/// Asks for pictures.
const UPDATE: &str = "UPDATE_SCREENSHOTS";
/// How different a picture may be: fonts differ from machine to machine.
const ALIKE: f64 = 0.04;
/// How long a page may take to come.
const PATIENCE: Duration = Duration::from_secs(30);
/// Windows, in pixels.
const WIDE: (u32, u32) = (1280, 900);
const NARROW: (u32, u32) = (320, 700);
/// Most bytes of a picture in the documents.
const MAX_PICTURE: usize = 100_000;

/// Starts the page of catalogs of the plugin's own tests, and of others that are named by path.
fn page(arguments: &[&str]) -> Page {
    Page::open(|command| {
        command.args(arguments).current_dir(paths::repository().join("src/cli/tests/browse"));
    })
}

/// Opens every page that links lead to, from the first on; `look` examines each.
async fn walk(browser: &Browser, page: &Page, look: impl AsyncFn(&str)) -> BTreeSet<String> {
    let mut open = vec![page.url.clone()];
    let mut seen = BTreeSet::new();
    while let Some(url) = open.pop() {
        if !seen.insert(url.clone()) {
            continue;
        }
        browser.open(&url).await;
        look(&url).await;
        let script = "return [...document.querySelectorAll('a[href]')].map(a => \
                      (a.href.baseVal ? new URL(a.href.baseVal, location) : new URL(a.href)))\
                      .map(url => { url.hash = ''; return url.href })";
        let links = browser.script(script, json!([])).await;
        let links = links.as_array().expect("links").iter();
        let links = links.map(|link| link.as_str().expect("an address").to_owned());
        open.extend(links.filter(|link| link.starts_with(&page.url)));
    }
    seen
}

/// Waits until a page with this in its address is there.
async fn arrives(browser: &Browser, part: &str) {
    wait::until(&format!("{part} comes"), PATIENCE, || async {
        let address = browser.address().await;
        let ready = browser.script("return document.readyState", json!([])).await == "complete";
        if ready && address.contains(part) { Ok(()) } else { Err(address) }
    })
    .await;
}

/// Shows a page in a scheme and size, in which each script must find nothing wrong.
async fn is_right(browser: &Browser, scheme: &str, (width, height): (u32, u32), scripts: &[&str]) {
    browser.look(scheme, width, height).await;
    for script in scripts {
        let wrong = browser.script(script, json!([])).await;
        let url = browser.address().await;
        assert_eq!(wrong, json!([]), "{url} in {scheme}, {width} pixels wide");
    }
}

/// Text whose color is too near to that behind it, and elements without a name.
const UNREADABLE: &str = include_str!("unreadable.js");

/// Edges that are not in one line, and numbers that may be broken.
const ASKEW: &str = include_str!("askew.js");

/// How much wider than the window a page is, if it is.
const TOO_WIDE: &str = "const { scrollWidth, clientWidth } = document.documentElement; \
                        return scrollWidth === clientWidth ? [] : [scrollWidth, clientWidth]";

/// Writes pictures of a whole page for a person, if that is asked for.
async fn picture(browser: &Browser, scheme: &str, name: &str) {
    if std::env::var_os(UPDATE).is_none() {
        return;
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = name.chars().map(plain).take(100).collect();
    let folder = paths::repository().join("target/screenshots");
    std::fs::create_dir_all(&folder).expect("a folder");
    for width in [1280, 380] {
        browser.look(scheme, width, 900).await;
        let height = "return Math.min(document.documentElement.scrollHeight, 10000)";
        let height = browser.script(height, json!([])).await.as_u64().expect("a height");
        browser.look(scheme, width, u32::try_from(height).expect("a height")).await;
        let bytes = BASE64_STANDARD.decode(browser.screenshot().await).expect("base64");
        let file = folder.join(format!("{name}-{width}-{scheme}.png"));
        std::fs::write(file, bytes).expect("a picture");
    }
}

// plugin.md U76, U79, U80
#[tokio::test]
async fn every_page_is_readable_in_both_schemes_and_at_320_pixels() {
    let page = page(&["--from", "shop=shop.yaml"]);
    let browser = Browser::start().await;
    for scheme in ["light", "dark"] {
        let seen = walk(&browser, &page, async |url| {
            picture(&browser, scheme, &url.replace(&page.url, "shop-")).await;
            is_right(&browser, scheme, WIDE, &[UNREADABLE, ASKEW, TOO_WIDE]).await;
            is_right(&browser, scheme, NARROW, &[ASKEW, TOO_WIDE]).await;
        })
        .await;
        assert!(seen.len() > 25, "{seen:?}");
    }
    assert_eq!(browser.complaints().await, [""; 0]);
    assert_eq!(browser.foreign(), [""; 0]);
}

// plugin.md U76, U79, U80
#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_of_an_extension_is_readable() {
    let cluster = cluster::with_controller().await;
    let scene = Scene::of(cluster, "browsed", &["1.0.0", "1.1.0"]).await;
    let extension = scene.installed(json!({"version": "1.0.0"}), "1.0.0").await;
    let (plane, name) = (scene.cluster.plane, scene.name.as_str());
    let plan = plugin::ask(plane, &["plan", name, "--to", "1.1.0", "-o", "html"]);
    let file = tempfile::Builder::new().suffix(".html").tempfile().expect("a file");
    std::fs::write(&file, plan).expect("a file");
    let file = format!("file://{}", file.path().display());
    let page = Page::of(plane, &[]);
    let browser = Browser::start().await;
    for scheme in ["light", "dark"] {
        let look = async |url: &str| {
            let name = url.replace(&page.url, "cluster-").replace(&file, "plan");
            picture(&browser, scheme, &name).await;
            is_right(&browser, scheme, WIDE, &[UNREADABLE]).await;
            is_right(&browser, scheme, NARROW, &[TOO_WIDE]).await;
        };
        let seen = walk(&browser, &page, look).await;
        for part in ["", "/plan", "/objects", "/history"] {
            let url = page.at(&format!("extension/{name}{part}"));
            assert!(seen.contains(&url), "{url}: {seen:?}");
        }
        browser.open(&file).await;
        look(&file).await;
    }
    assert_eq!(browser.complaints().await, [""; 0]);
    assert_eq!(browser.foreign(), [""; 0]);
    extension.delete().await;
}

// plugin.md U77, U79
#[tokio::test]
async fn a_hostile_catalog_does_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = folder.path().join("long.yaml");
    let name = "n".repeat(1_000_000);
    let text = json!({"schema": "olm.package", "name": name, "defaultChannel": name,
        "description": "d".repeat(1_000_000)});
    std::fs::write(&long, text.to_string()).expect("a file");
    let long = format!("long={}", long.display());
    let page = page(&["--from", "hostile=hostile.yaml", "--from", &long]);
    let browser = Browser::start().await;
    // The name of 1 MB is cut, and its page with it is not there.
    let mut paths = vec!["packages", "catalogs", "catalog/hostile", "icon/hostile/none"];
    let evil = "evil%3Cscript%3Edocument.title%3D%22owned%22%3C%2Fscript%3E";
    let (package, icon) = (format!("package/hostile/{evil}"), format!("icon/hostile/{evil}"));
    paths.extend([package.as_str(), icon.as_str()]);
    for path in paths {
        browser.open(&page.at(path)).await;
        let title = browser.script("return document.title", json!([])).await;
        assert_ne!(title, json!("owned"), "{path}");
        if !path.starts_with("icon") {
            let active = "return [...document.querySelectorAll('script, iframe, object, [onclick], \
                          [onerror], [onmouseover], a[href^=javascript]')].map(it => it.outerHTML)";
            is_right(&browser, "light", NARROW, &[TOO_WIDE, active]).await;
        }
    }
    assert_eq!(browser.foreign(), [""; 0]);
    let complaints = browser.complaints().await;
    // Refused, and not there: nothing else is said.
    let refused = ["404", "Content Security Policy", "Blocked script execution"];
    let run = complaints.iter().find(|it| !refused.iter().any(|word| it.contains(word)));
    assert_eq!(run, None);
}

/// Returns what has the focus: its name, else its text.
async fn focused(browser: &Browser) -> String {
    let script = "const it = document.activeElement; \
                  return it.name || (it.href && it.href.baseVal) || it.textContent.trim()";
    let found = browser.script(script, json!([])).await;
    found.as_str().unwrap_or_default().to_owned()
}

/// Presses Tab until something has the focus, which must be seen.
async fn tab_to(browser: &Browser, wanted: &str) {
    for _ in 0..60 {
        browser.press("\u{e004}").await;
        let script = "const style = getComputedStyle(document.activeElement);
                      return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2";
        let visible = browser.script(script, json!([])).await;
        let found = focused(browser).await;
        assert_eq!(visible, Value::Bool(true), "{found} has the focus and does not show it");
        if found == wanted {
            return;
        }
    }
    panic!("Tab does not lead to {wanted}");
}

// plugin.md U80, U81
#[tokio::test]
async fn the_keyboard_is_enough_to_search_and_to_read() {
    let page = page(&["--from", "shop=shop.yaml"]);
    let browser = Browser::start().await;
    browser.look("light", WIDE.0, WIDE.1).await;
    browser.open(&page.url).await;
    tab_to(&browser, "Skip to the content").await;
    browser.press("\u{e007}").await;
    tab_to(&browser, "q").await;
    browser.press("backups\u{e007}").await;
    arrives(&browser, "q=backups").await;
    tab_to(&browser, "Cistern").await;
    browser.press("\u{e007}").await;
    arrives(&browser, "/package/shop/cistern-operator").await;
    // The picture scrolls by keyboard, and its boxes are links.
    let bundle = "../../bundle/shop/cistern-operator/cistern-operator.v1.8.0";
    tab_to(&browser, bundle).await;
    browser.press("\u{e007}").await;
    arrives(&browser, "/bundle/shop/cistern-operator/cistern-operator.v1.8.0").await;
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[tokio::test]
async fn pages_look_as_the_documents_show_them() {
    let page = page(&["--from", "shop=shop.yaml"]);
    let browser = Browser::start().await;
    let update = std::env::var_os(UPDATE).is_some();
    let folder = paths::repository().join("docs/img");
    for (name, path) in [("packages", "packages"), ("package", "package/shop/cistern-operator")] {
        for scheme in ["light", "dark"] {
            browser.look(scheme, 960, 660).await;
            browser.open(&page.at(path)).await;
            let seen = browser.screenshot().await;
            let file: PathBuf = folder.join(format!("{name}-{scheme}.png"));
            let bytes = BASE64_STANDARD.decode(&seen).expect("base64");
            assert!(bytes.len() <= MAX_PICTURE, "{name}: {} bytes", bytes.len());
            if update {
                std::fs::write(&file, bytes).expect("a picture");
                continue;
            }
            let kept =
                std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let difference = browser.difference(&seen, &BASE64_STANDARD.encode(kept)).await;
            assert!(difference < ALIKE, "{}: {difference}; UPDATE_SCREENSHOTS=1", file.display());
        }
    }
}
