//! `kubectl olm browse` over HTTP, offline: who is let in, every page, and what hostile text becomes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{TESTS, kubeconfig, olm, program, serve};

const SHOP: &str = "shop=browse/shop.yaml";
const HOSTILE: &str = "hostile=browse/hostile.yaml";

/// A running `browse`, ended with the test.
struct Page {
    child: Child,
    /// Host and port.
    host: String,
    /// Path that everything is below, without a slash at the end.
    base: String,
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer: status, headers by lower-case name, body.
struct Answer(u16, BTreeMap<String, String>, Vec<u8>);

impl Answer {
    fn text(&self) -> String {
        String::from_utf8(self.2.clone()).unwrap()
    }
}

/// Starts `browse`.
fn start(command: &mut Command) -> Page {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    let rest = url.trim().strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    Page { child, host: host.to_owned(), base: format!("/{}", path.trim_end_matches('/')) }
}

impl Page {
    /// Sends a request with a method, a path and headers.
    fn send(&self, method: &str, path: &str, headers: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap()[9..12].parse().unwrap();
        let headers = lines.map(|line| line.split_once(": ").unwrap());
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Answer(status, headers.collect(), bytes[end + 4..].to_vec())
    }

    fn get(&self, path: &str) -> Answer {
        let path = format!("{}{path}", self.base);
        self.send("GET", &path, &format!("host: {}\r\n", self.host))
    }

    fn page(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.0, 200, "{path}: {}", answer.text());
        answer.text()
    }
}

/// An element: its name and its attributes.
type Element = (String, BTreeMap<String, String>);

/// Reads a page strictly: every element is closed, every attribute is quoted, nothing is left over.
fn elements(page: &str) -> Vec<Element> {
    let mut rest = page.strip_prefix("<!DOCTYPE html>").unwrap();
    let (mut open, mut found) = (Vec::new(), Vec::new());
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        assert!(!text.contains('>'), "{text}");
        for entity in text.split('&').skip(1) {
            let name = entity.split(';').next().unwrap();
            let known = ["amp", "lt", "gt", "quot"].contains(&name) || name.starts_with('#');
            assert!(known, "&{name}; in {text}");
        }
        let end = at + rest[at..].find('>').unwrap();
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let closed = tag.strip_suffix('/');
        let element = attributes(closed.unwrap_or(tag));
        if closed.is_none() {
            open.push(element.0.clone());
        }
        found.push(element);
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
    found
}

fn attributes(tag: &str) -> Element {
    let (name, mut rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
    let mut found = BTreeMap::new();
    while !rest.trim().is_empty() {
        let (key, value) = rest.split_once("=\"").unwrap_or_else(|| panic!("{tag}"));
        let (value, after) = value.split_once('"').unwrap();
        assert_eq!(found.insert(key.trim().to_owned(), value.replace("&#38;", "&")), None, "{tag}");
        rest = after;
    }
    (name.to_owned(), found)
}

/// Checks that nothing on a page runs, and that its elements have no style of their own.
fn harmless(path: &str, elements: &[Element]) {
    for (name, attributes) in elements {
        let never = ["script", "iframe", "style", "object", "base"];
        assert!(!never.contains(&name.as_str()), "{name} of {path}");
        for (key, value) in attributes {
            assert!(!key.starts_with("on") && key != "style", "{key} of {name} of {path}");
            let runs = ["javascript:", "data:"].iter().any(|scheme| value.starts_with(scheme));
            assert!(!runs, "{value} of {name} of {path}");
        }
    }
}

/// Follows every link from the first page on; returns the pages by path.
fn crawl(page: &Page) -> BTreeMap<String, String> {
    let mut open = vec!["/".to_owned()];
    let mut seen = BTreeMap::new();
    while let Some(path) = open.pop() {
        if seen.contains_key(&path) {
            continue;
        }
        let answer = page.get(&path);
        if let Some(to) = answer.1.get("location") {
            open.push(to.strip_prefix(&page.base).unwrap().to_owned());
            seen.insert(path, String::new());
            continue;
        }
        assert_eq!(answer.0, 200, "{path}");
        if !answer.1["content-type"].starts_with("text/html") {
            seen.insert(path, String::new());
            continue;
        }
        let text = answer.text();
        for element in elements(&text) {
            for link in ["href", "src", "action"] {
                if let Some(link) = element.1.get(link) {
                    open.extend(inside(page, &path, link, &element));
                }
            }
        }
        seen.insert(path, text);
    }
    seen
}

/// Returns the path of a link that leads to another page of this site; others may only be followed by
/// a person, and tell nothing of where they were found.
fn inside(page: &Page, from: &str, link: &str, element: &Element) -> Option<String> {
    if let Some(path) = link.strip_prefix(&page.base) {
        return Some(path.to_owned());
    }
    if let Some(below) = link.strip_prefix("../../") {
        let root = from.rsplitn(4, '/').last().unwrap();
        return Some(format!("{root}/{below}"));
    }
    if link.starts_with(['#', '?']) {
        return None;
    }
    let (name, with) = element;
    assert_eq!(name, "a", "{link}");
    assert!(["http://", "https://", "mailto:"].iter().any(|it| link.starts_with(it)), "{link}");
    assert_eq!(with["rel"], "noreferrer noopener", "{link}");
    None
}

/// Serves catalogs named on the command line.
fn offline(catalogs: &[&str]) -> Page {
    let flags = catalogs.iter().flat_map(|it| ["--from", it]);
    start(&mut program(["browse"].into_iter().chain(flags)))
}

// plugin.md U7, U76, U80
#[test]
fn every_page_is_sound_and_every_link_leads_somewhere_without_a_cluster() {
    let cluster = TcpListener::bind("127.0.0.1:0").unwrap();
    cluster.set_nonblocking(true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = kubeconfig(folder.path(), cluster.local_addr().unwrap());
    let page = start(program(["browse", "--from", SHOP]).env("KUBECONFIG", config));
    let pages = crawl(&page);
    let asked = cluster.accept().map_err(|error| error.kind());
    assert_eq!(asked.err(), Some(std::io::ErrorKind::WouldBlock));
    let shown: BTreeSet<_> =
        pages.keys().filter_map(|path| path.split(['/', '?']).nth(1)).collect();
    let want = [
        "",
        "bundle",
        "catalog",
        "catalogs",
        "favicon.svg",
        "icon",
        "package",
        "packages",
        "style.css",
    ];
    assert_eq!(shown, want.into());
    for (path, text) in pages.iter().filter(|(_, text)| !text.is_empty()) {
        let elements = elements(text);
        let named = |name: &str| elements.iter().filter(|it| it.0 == name).count();
        for once in ["h1", "main", "nav"] {
            assert_eq!(named(once), 1, "{once} of {path}");
        }
        harmless(path, &elements);
        let mut ids = BTreeSet::new();
        for (name, attributes) in &elements {
            assert!(name != "img" || attributes.contains_key("alt"), "{path}");
            assert!(name != "th" || attributes.contains_key("scope"), "{path}");
            let id = attributes.get("id");
            assert!(id.is_none_or(|id| ids.insert(id.clone())), "{id:?} of {path}");
        }
    }
}

// plugin.md U78
#[test]
fn only_this_machine_with_the_secret_is_let_in() {
    let page = offline(&[SHOP]);
    let (host, base) = (&page.host, &page.base);
    let port = host.rsplit(':').next().unwrap();
    for row in include_str!("requests.txt").lines().filter(|row| !row.starts_with('#')) {
        let row = row.replace("HOST", host).replace("BASE", base).replace("PORT", port);
        let cells: Vec<_> = row.split(" | ").collect();
        let [want, method, path, headers @ ..] = &cells[..] else { panic!("{row}") };
        let headers: String = headers.iter().flat_map(|it| [it, "\r\n"]).collect();
        let answer = page.send(method, path, &headers);
        assert_eq!(answer.0.to_string(), *want, "{row}");
        let Answer(_, headers, body) = answer;
        let policy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; \
                      base-uri 'none'; frame-ancestors 'none'";
        assert_eq!(headers["content-security-policy"], policy);
        assert_eq!(headers["referrer-policy"], "no-referrer");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["cache-control"], "no-store");
        assert_eq!(headers["cross-origin-opener-policy"], "same-origin");
        assert_eq!(headers["cross-origin-resource-policy"], "same-origin");
        assert!(!headers.contains_key("set-cookie"));
        // Whoever does not know the secret learns nothing.
        assert!(path.starts_with(&format!("{base}/")) || body.is_empty(), "{row}");
    }
}

// plugin.md U78
#[test]
fn the_opening_code_works_once() {
    let folder = tempfile::tempdir().unwrap();
    let (browser, told) = (folder.path().join("browser"), folder.path().join("told"));
    let script =
        format!("#!/bin/sh\nprintf %s \"$1\" > {0}.new && mv {0}.new {0}\n", told.display());
    std::fs::write(&browser, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&browser, mode).unwrap();
    let page = start(program(["browse", "--open", "--from", SHOP]).env("BROWSER", &browser));
    let deadline = Instant::now() + Duration::from_secs(30);
    while !told.exists() {
        assert!(Instant::now() < deadline, "the browser was not started");
        std::thread::sleep(Duration::from_millis(20));
    }
    let told = std::fs::read_to_string(told).unwrap();
    let code = told.strip_prefix(&format!("http://{}", page.host)).unwrap();
    assert!(!told.contains(&page.base));
    let at_host = format!("host: {}\r\n", page.host);
    let first = page.send("GET", code, &at_host);
    assert_eq!((first.0, first.1["location"].clone()), (303, format!("{}/", page.base)));
    assert_eq!(page.send("GET", code, &at_host).0, 404);
}

// plugin.md 4
#[test]
fn the_image_of_a_catalog_is_pulled_once_also_where_the_browser_gives_up() {
    let registry = TcpListener::bind("127.0.0.1:0").unwrap();
    let image = format!("{}/c@sha256:{}", registry.local_addr().unwrap(), "0".repeat(64));
    let catalog = json!({"metadata": {"name": "c"}, "spec": {"source": {"type": "Image",
        "image": {"ref": image}}}, "status": {"resolvedSource": {"type": "Image",
        "image": {"ref": image}}}});
    let list = json!({"apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterCatalogList", "metadata": {}, "items": [catalog]});
    let cluster = serve(move |_, path| {
        let is_list = path.contains("/clustercatalogs");
        if is_list { (200, list.to_string()) } else { (404, String::new()) }
    });
    let folder = tempfile::tempdir().unwrap();
    let config = kubeconfig(folder.path(), cluster);
    let page = start(program(["browse", "-q"]).env("KUBECONFIG", config));
    let ask = || {
        let mut stream = TcpStream::connect(&page.host).unwrap();
        let head = format!("GET {}/catalog/c HTTP/1.1\r\nhost: {}\r\n\r\n", page.base, page.host);
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let first = ask();
    // The registry never answers.
    let pull = registry.accept().unwrap();
    drop(first);
    std::thread::sleep(Duration::from_millis(300));
    let again = ask();
    std::thread::sleep(Duration::from_secs(1));
    registry.set_nonblocking(true).unwrap();
    let pulled = registry.accept().map_err(|error| error.kind());
    assert_eq!(pulled.err(), Some(std::io::ErrorKind::WouldBlock));
    drop((pull, again));
}

// plugin.md U77
#[test]
fn hostile_text_is_shown_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("long.yaml");
    let name = "n".repeat(1_000_000);
    let text = json!({"schema": "olm.package", "name": name, "defaultChannel": name,
        "description": "d".repeat(10_000_000)});
    std::fs::write(&long, text.to_string()).unwrap();
    let page = offline(&[HOSTILE, &format!("long={}", long.display())]);
    let list = page.page("/packages");
    assert!(list.len() < 100_000, "{}", list.len());
    // Strictly read, so that nothing of a catalog is an element or an attribute.
    let links: Vec<_> =
        elements(&list).into_iter().filter_map(|it| it.1.get("href").cloned()).collect();
    let evil = links.iter().find(|it| it.contains("/package/hostile/evil")).unwrap();
    let evil = evil.strip_prefix(&page.base).unwrap().to_owned();
    let text = page.page(&evil);
    harmless("/packages", &elements(&list));
    harmless(&evil, &elements(&text));
    assert!(!text.contains('\u{202e}') && !list.contains('\u{202e}'));
    assert!(!list.contains('\u{1b}'));
    assert!(text.contains("<small>(evil.example)</small>"), "links show their host");
    let icon = page.get(&evil.replacen("/package/", "/icon/", 1));
    assert_eq!((icon.0, icon.1["content-type"].as_str()), (200, "image/svg+xml"));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox";
    assert_eq!(icon.1["content-security-policy"], policy);
    assert_eq!(page.get("/icon/hostile/page").0, 404, "HTML is not an icon");
}

// plugin.md U81, U82
#[test]
fn pages_show_what_the_verbs_print_and_what_is_not_known() {
    let page = offline(&[SHOP, "away=browse/none.yaml"]);
    assert_eq!(document(&["search", "queues", "--from", SHOP])["packages"][0]["version"], "3.2.4");
    let text = page.page("/packages?q=queues&catalog=");
    assert!(text.contains(">Courier</a>") && text.contains(">3.2.4</span>"), "{text}");
    assert!(!text.contains("Lantern"), "{text}");
    assert!(text.contains("Not known: packages of catalog away"), "{text}");
    let shown = document(&["show", "cistern-operator", "--no-pull", "--from", SHOP]);
    let text = page.page("/package/shop/cistern-operator");
    for bundle in shown["bundles"].as_array().unwrap() {
        let version = bundle["version"].as_str().unwrap();
        assert!(text.contains(&format!(">{version}</a>")), "{version}: {text}");
    }
    assert!(text.contains("Channel legacy gets no fixes any more; move to stable."));
    assert!(text.contains("package lantern-operator &#62;=2.0.0 &#60;4.0.0"), "{text}");
    let lint = document(&["catalog", "lint", "browse/shop.yaml"]);
    let text = page.page("/catalog/shop");
    let counts = &lint["counts"];
    let want = format!(
        "Errors: {}, warnings: {}, notes: {}, in 1 file",
        counts["errors"], counts["warnings"], counts["notes"]
    );
    assert!(text.contains(&want), "{want}: {text}");
    let away = page.get("/catalog/away");
    assert_eq!(away.0, 502);
    assert!(away.text().contains("none.yaml"), "{}", away.text());
    assert_eq!(page.get("/catalog/none").0, 404);
}

/// Returns the names of the packages that a list of the shop shows.
fn listed(page: &Page, query: &str) -> Vec<String> {
    let list = page.page(&format!("/packages{query}"));
    let links = elements(&list).into_iter().filter_map(|it| it.1.get("href").cloned());
    let names = links.filter_map(|link| {
        let name = link.split_once("/package/shop/")?.1.to_owned();
        // Each leads back to the same list.
        assert!(name.ends_with(query), "{name}");
        Some(name.split('?').next()?.to_owned())
    });
    names.collect()
}

/// Returns the blobs of a package with one bundle of this version.
fn package(name: &str, version: &str) -> String {
    let version = json!({"packageName": name, "version": version});
    let blobs = [
        json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": name, "name": "stable",
            "entries": [{"name": format!("{name}.v1")}]}),
        json!({"schema": "olm.bundle", "package": name, "name": format!("{name}.v1"),
            "image": "r.example.com/a:1",
            "properties": [{"type": "olm.package", "value": version}]}),
    ];
    blobs.map(|blob| format!("---\n{blob}\n")).concat()
}

// plugin.md 4, U25
#[test]
fn packages_are_listed_by_category_and_by_what_can_be_installed() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("catalog.yaml");
    let shop = std::fs::read_to_string(format!("{TESTS}/browse/shop.yaml")).unwrap();
    std::fs::write(&catalog, shop + &package("anvil", "one")).unwrap();
    let flag = format!("shop={}", catalog.display());
    let page = offline(&[&flag]);
    for (query, want) in [
        ("?category=Storage", &["cistern-operator"][..]),
        ("?category=Developer%20Tools", &["orchard"]),
        ("?category=Developer%20Tools&deprecated=hide", &[]),
        ("?q=o&category=Streaming%20%26%20Messaging", &["courier-operator"]),
        ("?q=anvil", &["anvil"]),
        ("?q=anvil&installable=only", &[]),
        ("?q=no-such-package", &[]),
    ] {
        assert_eq!(listed(&page, query), want, "{query}");
    }
    let all = listed(&page, "");
    let without = |name: &str| all.iter().filter(|it| *it != name).cloned().collect::<Vec<_>>();
    assert_eq!(listed(&page, "?deprecated=hide"), without("orchard"));
    assert_eq!(listed(&page, "?installable=only"), without("anvil"));
    let text = page.page("/packages?q=anvil");
    assert!(text.contains("Cannot be installed: "), "{text}");
    let text = page.page("/package/shop/orchard?q=o&deprecated=hide");
    assert!(text.contains("/packages?q=o&#38;deprecated=hide\">Packages</a>"), "{text}");

    let search = |arguments: &[&str]| document(&[&["search", "--from", &flag], arguments].concat());
    let found = search(&["anvil"])["packages"][0].take();
    assert_eq!(found["installable"], false);
    assert!(found["reasons"][0].as_str().unwrap().contains("anvil"), "{found}");
    let all = search(&["anvil", "--installable"]);
    assert_eq!(all["packages"][0]["installable"], false, "programs see why");
    let found = search(&["orchard"])["packages"][0].take();
    assert_eq!(found["categories"], json!(["Developer Tools"]));
    assert_eq!(found["deprecated"][0]["what"], "package");
}

#[test]
fn every_card_has_a_version_and_long_lists_have_pages() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("catalog.yaml");
    let blobs = (0..133).map(|at| package(&format!("anvil-{at}"), "1.0.0"));
    std::fs::write(&catalog, blobs.collect::<String>()).unwrap();
    let page = offline(&[&format!("shop={}", catalog.display())]);
    for (query, cards, turns) in [
        ("?q=anvil", 60, &["?q=anvil&#38;page=2\">Next ›"][..]),
        ("?q=anvil&page=2", 60, &["/packages?q=anvil\">‹ Previous", "&#38;page=3\">Next ›"]),
        ("?page=3", 13, &["?page=2\">‹ Previous"]),
        ("?page=999", 13, &["?page=2\">‹ Previous"]),
        ("?page=x", 60, &["?page=2\">Next ›"]),
    ] {
        let text = page.page(&format!("/packages{query}"));
        assert_eq!(text.matches("<span class=\"number\">1.0.0</span>").count(), cards, "{text}");
        assert!(turns.iter().all(|turn| text.contains(turn)), "{query}: {text}");
        assert_eq!(text.matches(['‹', '›']).count(), turns.len(), "{query}: {text}");
        assert!(!text.contains("<span>shop</span>"), "{query}: {text}");
    }
}

// plugin.md U81: what `catalog lint` says of a catalog named by its URL
#[test]
fn findings_of_a_catalog_that_is_served() {
    let server = serve(|_, path| {
        assert_eq!(path, "/catalogs/shop/api/v1/all");
        let line = r#"{"schema":"olm.package","name":"Tea Pot","defaultChannel":"none"}"#;
        (200, line.to_owned())
    });
    let url = format!("http://{server}/catalogs/shop");
    let page = offline(&[&url]);
    let text = page.page("/catalog/shop");
    assert!(text.contains("all.jsonl"), "{text}");
    assert!(text.contains("package-name"), "{text}");
}

#[test]
fn the_install_command_names_the_catalog_where_others_have_the_package() {
    let command = |page: &Page| {
        let text = page.page("/package/shop/cistern-operator");
        let rest = text.split_once("kubectl olm install ").unwrap().1;
        rest.split_once("</pre>").unwrap().0.to_owned()
    };
    assert_eq!(command(&offline(&[SHOP])), "cistern-operator -n NAMESPACE");
    let text = offline(&[SHOP]).page("/package/shop/cistern-operator?channel=legacy");
    assert!(text.contains("cistern-operator -n NAMESPACE --channel legacy</pre>"), "{text}");
    assert!(text.contains("<span class=\"number\">1.5.0</span>"), "{text}");
    let two = offline(&[SHOP, "other=browse/shop.yaml"]);
    assert_eq!(command(&two), "cistern-operator -n NAMESPACE --catalog shop");
    // Cards name it, too.
    assert!(two.page("/packages").contains("<span>shop</span>"));
}

/// Returns the document that a verb prints.
fn document(arguments: &[&str]) -> serde_json::Value {
    let (_, text, _) = olm(&[arguments, &["-o", "json"]].concat());
    serde_json::from_str(&text).unwrap()
}

/// Markup is inserted without escaping in one place.
#[test]
fn templates_escape_everything() {
    let web = concat!(env!("CARGO_MANIFEST_DIR"), "/web");
    for file in std::fs::read_dir(format!("{web}/templates")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for raw in ["|safe", "| safe", "|escape(", "{% filter"] {
            assert!(!text.contains(raw), "{raw}");
        }
    }
    let folders = [web.to_owned(), format!("{web}/view")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    for file in files.map(|file| file.unwrap().path()) {
        let source = file.extension().is_some_and(|it| it == "rs") && !file.ends_with("markup.rs");
        if source {
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(!text.contains("HtmlSafe") && !text.contains("escape ="), "{file:?}");
        }
    }
}
