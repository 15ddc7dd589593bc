//! The addresses below the secret, and which document and view each shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::middleware::from_fn_with_state;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use axum::routing::{MethodRouter, get};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::StatusCode;
use http::header::{self, HeaderValue};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::view::{self, Shell};
use super::{Part, Site, clean, gate};
use crate::output::one_line;

/// Seconds between two readings of a page that is watched.
const WATCH: &str = "10";
/// The content security policy of icons: nothing but their own styles.
const ICON_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";
const FAVICON: &str = include_str!("favicon.svg");

type Words = Query<BTreeMap<String, String>>;
type Here = State<Arc<Site>>;

/// Returns every page; `guard` stands before all of them.
pub(super) fn pages(site: Arc<Site>) -> Router {
    let base = site.gate.base();
    let at = |path: &str| format!("{base}{path}");
    Router::new()
        .route(&at("/"), get(installed))
        .route(&at("/extension/{name}"), get(extension))
        .route(&at("/extension/{name}/plan"), part(Part::Plan))
        .route(&at("/extension/{name}/objects"), part(Part::Objects))
        .route(&at("/extension/{name}/history"), part(Part::History))
        .route(&at("/packages"), get(packages))
        .route(&at("/package/{catalog}/{package}"), get(package))
        .route(&at("/bundle/{catalog}/{package}/{bundle}"), get(bundle))
        .route(&at("/icon/{catalog}/{package}"), get(icon))
        .route(&at("/catalogs"), get(catalogs))
        .route(&at("/catalog/{name}"), get(findings))
        .route(&at("/style.css"), get(stylesheet))
        .route(&at("/favicon.svg"), get(async || picture(FAVICON)))
        .fallback(nowhere)
        .layer(from_fn_with_state(Arc::clone(&site), gate::guard))
        .with_state(site)
}

async fn installed(State(site): Here, Query(words): Words) -> Response {
    if site.offline {
        return Redirect::to(&format!("{}/packages", site.gate.base())).into_response();
    }
    let fill = |view: &mut view::Installed, shell| view.shell = shell;
    let answer = site.verbs.installed().boxed();
    page(site.shell("installed", &words), ("the list of extensions", answer), fill).await
}

async fn extension(State(site): Here, Path(name): Path<String>, Query(words): Words) -> Response {
    let (what, answer) = (format!("extension {name}"), site.verbs.extension(&name).boxed());
    let fill = |view: &mut view::ExtensionPage, shell| view.shell = shell;
    page(site.shell("installed", &words), (&what, answer), fill).await
}

/// Shows one of the views of an extension.
fn part(part: Part) -> MethodRouter<Arc<Site>> {
    let answer = async move |State(site): Here, Path(name): Path<String>, Query(words): Words| {
        let word: &'static str = part.into();
        let what = format!("{word} of extension {name}");
        let fill = |view: &mut view::PartPage, shell| (view.shell, view.part) = (shell, word);
        let answer = site.verbs.part(part, &name).boxed();
        page(site.shell("installed", &words), (&what, answer), fill).await
    };
    get(answer)
}

async fn packages(State(site): Here, Query(words): Words) -> Response {
    let wanted = view::Wanted::of(&words);
    let terms: Vec<_> = wanted.q.split_whitespace().map(str::to_owned).collect();
    let answer = site.verbs.packages(&terms, wanted.installable).boxed();
    let fill = |view: &mut view::Packages, shell| (view.shell, view.wanted) = (shell, wanted);
    page(site.shell("packages", &words), ("the list of packages", answer), fill).await
}

async fn package(
    State(site): Here,
    Path((catalog, package)): Path<(String, String)>,
    Query(words): Words,
) -> Response {
    let channel = words.get("channel").filter(|name| !name.is_empty()).cloned();
    let answer = site.verbs.package(&catalog, &package, channel).boxed();
    let fill = |view: &mut view::PackagePage, shell| view.shell = shell;
    let what = format!("package {package} of catalog {catalog}");
    page(site.shell("packages", &words), (&what, answer), fill).await
}

async fn bundle(
    State(site): Here,
    Path((catalog, package, bundle)): Path<(String, String, String)>,
) -> Response {
    let answer = site.verbs.package(&catalog, &package, None).boxed();
    let show = |shell, mut view: view::PackagePage| {
        view.shell = shell;
        view.bundle(&bundle)
    };
    let what = format!("package {package} of catalog {catalog}");
    page_within(site.shell("packages", &BTreeMap::new()), (&what, answer), show).await
}

async fn icon(State(site): Here, Path((catalog, package)): Path<(String, String)>) -> Response {
    match site.verbs.icon(&catalog, &package).boxed().await {
        Some((media_type, bytes)) => {
            let policy = (header::CONTENT_SECURITY_POLICY, ICON_POLICY);
            ([policy, (header::CONTENT_TYPE, media_type)], bytes).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn catalogs(State(site): Here) -> Response {
    let answer = site.verbs.catalogs().boxed();
    let fill = |view: &mut view::Catalogs, shell| view.shell = shell;
    page(site.shell("catalogs", &BTreeMap::new()), ("the list of catalogs", answer), fill).await
}

async fn findings(State(site): Here, Path(name): Path<String>) -> Response {
    let (what, answer) = (format!("catalog {name}"), site.verbs.findings(&name).boxed());
    let fill = |view: &mut view::Findings, shell| {
        (view.shell, view.name) = (shell, name.clone());
    };
    page(site.shell("catalogs", &BTreeMap::new()), (&what, answer), fill).await
}

async fn nowhere(State(site): Here) -> Response {
    let shell = site.shell("", &BTreeMap::new());
    failed(StatusCode::NOT_FOUND, shell, "There is no page at this address.")
}

async fn stylesheet() -> Response {
    let css = [(header::CONTENT_TYPE, "text/css; charset=utf-8")];
    (css, crate::graph::stylesheet()).into_response()
}

fn picture(svg: &'static str) -> Response {
    ([(header::CONTENT_TYPE, "image/svg+xml")], svg).into_response()
}

impl Site {
    fn shell(&self, part: &'static str, words: &BTreeMap<String, String>) -> Shell {
        Shell {
            base: self.gate.base(),
            of: self.of.clone(),
            read: jiff::Zoned::now().strftime("%H:%M:%S %Z").to_string(),
            offline: self.offline,
            part,
            query: view::Wanted::of(words).query(),
            watch: words.get("watch").is_some_and(|every| every == WATCH),
        }
    }
}

/// What is asked for, in words, and its document.
type Asked<'a> = (&'a str, BoxFuture<'a, anyhow::Result<Value>>);

/// Shows a document; `fill` adds what is not in it.
async fn page<V: DeserializeOwned + Template>(
    shell: Shell,
    asked: Asked<'_>,
    fill: impl FnOnce(&mut V, Shell),
) -> Response {
    let show = |shell, mut view| {
        fill(&mut view, shell);
        Some(view)
    };
    page_within(shell, asked, show).await
}

/// Shows what `show` takes from a document; nothing if that is not in it.
async fn page_within<V: DeserializeOwned, T: Template>(
    shell: Shell,
    (what, answer): Asked<'_>,
    show: impl FnOnce(Shell, V) -> Option<T>,
) -> Response {
    let watch = shell.watch;
    let read = answer.await.and_then(|mut document| {
        clean::document(&mut document);
        Ok(serde_json::from_value::<Option<V>>(document)?)
    });
    let mut page = match read {
        Ok(view) => {
            if let Some(page) = view.and_then(|view| show(shell.clone(), view)) {
                html(StatusCode::OK, &page)
            } else {
                let text = format!("There is no {what}, or nothing of that name in it.");
                failed(StatusCode::NOT_FOUND, shell, &text)
            }
        }
        Err(error) => failed(StatusCode::BAD_GATEWAY, shell, &one_line(&error)),
    };
    if watch {
        page.headers_mut().insert(header::REFRESH, HeaderValue::from_static(WATCH));
    }
    page
}

fn failed(status: StatusCode, shell: Shell, text: &str) -> Response {
    let heading = if status == StatusCode::NOT_FOUND { "Not found" } else { "Not known" };
    let text = olm_core::error::plain(text);
    let page = view::Failure { shell, heading, text };
    html(status, &page)
}

fn html(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => (status, Html(text)).into_response(),
        // Writing to a String cannot fail.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
