//! Which redirects of a registry are followed, and what is sent along.

use super::*;

fn to(status: u16, location: impl Into<String>) -> Answer {
    answer(status, "").with("Location", location)
}

/// Returns the requests for tokens.
fn tokens(asked: &Mutex<Vec<String>>) -> Vec<String> {
    let asked = asked.lock().unwrap();
    asked.iter().filter(|path| path.starts_with("/token")).cloned().collect()
}

// catalogs.md 8.3, deploying.md P23
#[rstest]
#[case::ping("/v2/", 302)]
#[case::tag("/v2/r/manifests/t", 307)]
#[tokio::test]
async fn requests_for_things_without_a_digest_go_to_no_other_host(
    #[case] from: &'static str,
    #[case] status: u16,
) {
    let built = image();
    let there = built.clone();
    let (elsewhere, asked) = recorded(move |request| honest(&there, request));
    let target = elsewhere.clone();
    let registry = serve(move |request| {
        if request.path == from {
            return to(status, format!("http://{target}{}", request.path));
        }
        honest(&built, request)
    });
    let text = scene(&registry).text().await;
    let want = format!(
        "redirect from \"http://{registry}\" to \"http://{elsewhere}\" refused: only what has a \
         digest may be on another host"
    );
    assert!(text.ends_with(&want), "{text}");
    assert_eq!(*asked.lock().unwrap(), [""; 0]);
}

// catalogs.md 8.3, O8: registry.k8s.io sends everybody to another host, which gets no credential
#[rstest]
#[case::blob("/blobs/", |_: &mut Vec<u8>| {}, None)]
#[case::manifest("/manifests/", |_: &mut Vec<u8>| {}, None)]
#[case::another("/manifests/", |body: &mut Vec<u8>| body.push(b' '), Some("content has digest"))]
#[tokio::test]
async fn what_has_a_digest_may_be_on_another_host(
    #[case] of: &'static str,
    #[case] change: fn(&mut Vec<u8>),
    #[case] want: Option<&str>,
) {
    let built = image();
    let (there, digest) = (built.clone(), built.digest());
    let elsewhere = serve(move |request| {
        if request.header("authorization").is_some() {
            return answer(403, "");
        }
        let mut answer = honest(&there, request);
        if request.path.contains("/manifests/") {
            change(&mut answer.body);
        }
        answer
    });
    let registry = serve(move |request| match request.header("authorization") {
        _ if request.path.starts_with("/token") => answer(200, r#"{"token":"t"}"#),
        None => challenge(&request.headers["host"]),
        Some(_) if request.path.contains(of) => {
            to(307, format!("http://{elsewhere}{}", request.path))
        }
        Some(_) => honest(&built, request),
    });
    let mut scene = scene(&registry);
    scene.credential(user("p"));
    scene.puller.probe(&scene.image).await.unwrap();
    scene.image = scene.image.with_digest(digest);
    match want {
        Some(want) => assert!(scene.text().await.contains(want)),
        None => assert_eq!(scene.pull().await.unwrap(), b"content"),
    }
}

// catalogs.md 8.3, deploying.md P23
#[rstest]
#[case::password(user("p"))]
#[case::identity_token(identity_token(""))]
#[tokio::test]
async fn a_token_service_sends_nobody_to_another_host(#[case] credential: Credential) {
    let (elsewhere, asked) = recorded(|_| answer(200, r#"{"token":"t"}"#));
    let target = elsewhere.clone();
    let built = image();
    let registry = serve(move |request| {
        if request.path.starts_with("/token") {
            return to(307, format!("http://{target}/token"));
        }
        match request.header("authorization") {
            Some("Bearer t") => honest(&built, request),
            _ => challenge(&request.headers["host"]),
        }
    });
    let scene = scene(&registry);
    scene.credential(credential);
    let text = scene.text().await;
    assert_eq!(*asked.lock().unwrap(), [""; 0]);
    assert!(
        text.contains("unable to retrieve auth token: redirect from ")
            && text.contains(&registry)
            && text.contains(&elsewhere),
        "{text}"
    );
}

// catalogs.md 8.3: a refresh token is sent once, to the realm, and to no address the realm names
#[rstest]
#[case::moved(307)]
#[case::moved_for_good(308)]
#[tokio::test]
async fn a_refresh_token_is_sent_once(#[case] status: u16) {
    let (registry, asked) = recorded(move |request| match request.path.as_str() {
        "/token" => to(status, "/token/"),
        path if path.starts_with("/token") => answer(200, r#"{"token":"t"}"#),
        _ => challenge(&request.headers["host"]),
    });
    let scene = scene(&registry);
    scene.credential(identity_token(""));
    let text = scene.text().await;
    assert_eq!(tokens(&asked), ["/token"]);
    assert!(text.ends_with("refused: a refresh token is sent only once"), "{text}");
}

// A registry behind a proxy that normalizes paths stays usable.
#[tokio::test]
async fn redirects_within_a_host_are_followed_with_credentials() {
    let built = image();
    let registry = serve(move |request| {
        let (path, host) = (request.path.as_str(), &request.headers["host"]);
        match path {
            "/v2/" => return to(301, "/v2"),
            "/v2/r/manifests/t" => return to(302, format!("http://{host}/moved/t")),
            _ => {}
        }
        if let Some(query) = path.strip_prefix("/token?") {
            return to(307, format!("token/?{query}"));
        }
        if path.starts_with("/token/") {
            return match request.header("authorization") {
                Some("Basic dTpw") => answer(200, r#"{"token":"t"}"#),
                _ => answer(403, ""),
            };
        }
        if request.header("authorization") != Some("Bearer t") {
            return challenge(host);
        }
        let path = match path {
            "/moved/t" => "/v2/r/manifests/t",
            other => other,
        };
        delivered(&built, path)
    });
    let scene = scene(&registry);
    scene.credential(user("p"));
    assert_eq!(scene.pull().await.unwrap(), b"content");
}

// catalogs.md 8.3: at most 10 redirects
#[tokio::test]
async fn endless_redirects_end() {
    let (registry, asked) = recorded(|request| to(302, format!("{}x", request.path)));
    let text = scene(&registry).text().await;
    assert!(text.ends_with("stopped after 10 redirects"), "{text}");
    // One attempt with HTTPS, which ends before there is a request, and then with HTTP.
    assert_eq!(asked.lock().unwrap().len(), 11);
}

// catalogs.md O8: the host that stores the blobs does not influence requests to the token service
#[tokio::test]
async fn a_storage_host_widens_no_token() {
    let storage = serve(|request| {
        let host = &request.headers["host"];
        let realm = format!("Bearer realm=\"http://{host}/token\",scope=\"repository:*:push\"");
        answer(401, "").with("WWW-Authenticate", realm)
    });
    // No credential was sent there, so that none is blamed.
    let want = format!("401 from {storage}: unauthorized");
    let built = image();
    let (registry, asked) = recorded(move |request| {
        if request.path.starts_with("/token") {
            return answer(200, r#"{"token":"t"}"#);
        }
        if request.header("authorization").is_none() {
            return challenge(&request.headers["host"]);
        }
        if request.path.contains("/blobs/") {
            return to(307, format!("http://{storage}{}", request.path));
        }
        honest(&built, request)
    });
    let text = scene(&registry).text().await;
    assert!(text.ends_with(&want), "{text}");
    assert_eq!(tokens(&asked), ["/token?service=s&scope=repository%3Ar%3Apull"]);
}
