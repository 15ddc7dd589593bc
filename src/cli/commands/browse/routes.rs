//! The addresses below the secret, and which document and view each shows.

use std::fmt::Display;
use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::middleware::from_fn_with_state;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use axum::routing::{MethodRouter, get};
use http::StatusCode;
use http::header::{self, HeaderValue};

use super::{Part, Site};
use crate::commands::prelude::*;
use crate::web::view::{self, Shell};
use crate::web::{self, guard};

/// Seconds between two readings of a page that is watched.
const WATCH: &str = "10";
/// The content security policy of icons: nothing but their own styles.
const ICON_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";
const FAVICON: &str = include_str!("../../web/favicon.svg");

type Words = Query<BTreeMap<String, String>>;
type Here = State<Arc<Site>>;

/// Returns every page; `guard` stands before all of them.
pub(super) fn pages(site: Site) -> Router {
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
        .layer(from_fn_with_state(Arc::clone(&site.gate), guard))
        .with_state(Arc::new(site))
}

async fn installed(State(site): Here, Query(words): Words) -> Response {
    if site.offline {
        return Redirect::to(&format!("{}/packages", site.gate.base())).into_response();
    }
    let (shell, asked) = (site.shell("installed", &words), site.verbs.installed());
    let fill = |view: &mut view::Installed, shell| view.shell = shell;
    site.page(shell, "the list of extensions", asked, fill).await
}

async fn extension(State(site): Here, Path(name): Path<String>, Query(words): Words) -> Response {
    let (shell, asked) = (site.shell("installed", &words), site.verbs.extension(&name));
    let fill = |view: &mut view::ExtensionPage, shell| view.shell = shell;
    site.page(shell, format!("extension {name}"), Box::pin(asked), fill).await
}

/// Shows one of the views of an extension.
fn part(part: Part) -> MethodRouter<Arc<Site>> {
    let answer = async move |State(site): Here, Path(name): Path<String>, Query(words): Words| {
        let (shell, asked) = (site.shell("installed", &words), site.verbs.part(part, &name));
        let word = part.into();
        let fill = |view: &mut view::PartPage, shell| (view.shell, view.part) = (shell, word);
        site.page(shell, format!("{word} of extension {name}"), Box::pin(asked), fill).await
    };
    get(answer)
}

async fn packages(State(site): Here, Query(words): Words) -> Response {
    let (shell, wanted) = (site.shell("packages", &words), view::Wanted::of(&words));
    let terms: Vec<_> = wanted.q.split_whitespace().map(str::to_owned).collect();
    let asked = site.verbs.packages(&terms, wanted.installable);
    let fill = |view: &mut view::Packages, shell| (view.shell, view.wanted) = (shell, wanted);
    site.page(shell, "the list of packages", Box::pin(asked), fill).await
}

async fn package(
    State(site): Here,
    Path((catalog, package)): Path<(String, String)>,
    Query(words): Words,
) -> Response {
    let shell = site.shell("packages", &words);
    let channel = words.get("channel").filter(|name| !name.is_empty()).cloned();
    let asked = site.verbs.package(&catalog, &package, channel);
    let fill = |view: &mut view::PackagePage, shell| view.shell = shell;
    let what = format!("package {package} of catalog {catalog}");
    site.page(shell, what, Box::pin(asked), fill).await
}

async fn bundle(
    State(site): Here,
    Path((catalog, package, bundle)): Path<(String, String, String)>,
) -> Response {
    let shell = site.shell("packages", &BTreeMap::new());
    let asked = site.verbs.package(&catalog, &package, None);
    let show = |shell, mut view: view::PackagePage| {
        view.shell = shell;
        view.bundle(&bundle)
    };
    let what = format!("package {package} of catalog {catalog}");
    site.page_within(shell, what, Box::pin(asked), show).await
}

async fn icon(State(site): Here, Path((catalog, package)): Path<(String, String)>) -> Response {
    match site.verbs.icon(&catalog, &package).await {
        Some((media_type, bytes)) => {
            let policy = (header::CONTENT_SECURITY_POLICY, ICON_POLICY);
            ([policy, (header::CONTENT_TYPE, media_type)], bytes).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn catalogs(State(site): Here) -> Response {
    let shell = site.shell("catalogs", &BTreeMap::new());
    let fill = |view: &mut view::Catalogs, shell| view.shell = shell;
    site.page(shell, "the list of catalogs", site.verbs.catalogs(), fill).await
}

async fn findings(State(site): Here, Path(name): Path<String>) -> Response {
    let shell = site.shell("catalogs", &BTreeMap::new());
    let fill = |view: &mut view::Findings, shell| (view.shell, view.name) = (shell, name.clone());
    site.page(shell, format!("catalog {name}"), site.verbs.findings(&name), fill).await
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

    /// Shows a document; `fill` adds what is not in it.
    async fn page<V: DeserializeOwned + Template>(
        &self,
        shell: Shell,
        what: impl Display,
        asked: impl Future<Output = anyhow::Result<Value>>,
        fill: impl FnOnce(&mut V, Shell),
    ) -> Response {
        let show = |shell, mut view| {
            fill(&mut view, shell);
            Some(view)
        };
        self.page_within(shell, what, asked, show).await
    }

    /// Shows what `show` takes from a document; nothing if that is not in it.
    async fn page_within<V: DeserializeOwned, T: Template>(
        &self,
        shell: Shell,
        what: impl Display,
        asked: impl Future<Output = anyhow::Result<Value>>,
        show: impl FnOnce(Shell, V) -> Option<T>,
    ) -> Response {
        let watch = shell.watch;
        let mut page = match asked.await.and_then(web::view_of) {
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
