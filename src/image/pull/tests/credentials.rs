//! Which credentials reach whom, and what is told of them.

use super::*;

/// A registry that requires, as `authorization`, the token its service returned last.
fn guarded(
    built: BuiltImage,
    most: usize,
    grant: impl Fn(&Request) -> bool + Send + Sync + 'static,
) -> String {
    let state = Mutex::new((0, 0));
    serve(move |request| {
        let (given, used) = &mut *state.lock().unwrap();
        if request.path.starts_with("/token") {
            if !grant(request) {
                let body = r#"{"errors":[{"code":"UNAUTHORIZED","message":"bad password"}]}"#;
                return answer(401, body);
            }
            (*given, *used) = (*given + 1, 0);
            // As some services do where a token does not expire.
            let life = [300, 0, -1][*given % 3];
            let body = format!(r#"{{"token":"t{given}","access_token":null,"expires_in":{life}}}"#);
            return answer(200, body);
        }
        let wanted = format!("Bearer t{given}");
        if request.header("authorization") == Some(&wanted) && *used < most {
            *used += 1;
            return honest(&built, request);
        }
        challenge(&request.headers["host"])
    })
}

// catalogs.md O6
#[tokio::test]
async fn token_that_expires_during_the_pull_is_renewed() {
    let registry = guarded(image(), 1, |request| {
        request.path == "/token?service=s&scope=repository%3Ar%3Apull"
    });
    assert_eq!(scene(&registry).pull().await.unwrap(), b"content");
}

// catalogs.md O7
#[tokio::test]
async fn credentials_reach_the_token_service() {
    let registry = guarded(image(), 99, |request| {
        request.path.contains("account=u") && request.header("authorization") == Some("Basic dTpw")
    });
    let scene = scene(&registry);
    let text = scene.text().await;
    let refused = |reason: &str| {
        format!(
            "unable to retrieve auth token: 401 from {registry}: unauthorized: bad password \
             ({reason})"
        )
    };
    let anonymous = refused("no credential: no source is configured");
    assert!(text.ends_with(&anonymous), "{text}");
    scene.credential(user("wrong"));
    let text = scene.text().await;
    let wrong = refused(&format!("credential: key \"{registry}\" of Secret ns/name"));
    assert!(text.ends_with(&wrong), "{text}");
    scene.credential(user("p"));
    assert_eq!(scene.pull().await.unwrap(), b"content");
}

// catalogs.md 5.3
#[rstest]
#[case::basic("Basic realm=\"x\"", "Basic dTpw", user("p"))]
#[case::basic_beside_a_token("Basic realm=\"x\"", "Basic dTpw", identity_token("p"))]
#[case::bearer("Bearer realm=\"http://{host}/token\"", "Bearer t", user("p"))]
#[tokio::test]
async fn credentials_are_sent_where_only_the_repository_asks(
    #[case] challenge: &'static str,
    #[case] wanted: &'static str,
    #[case] credential: Credential,
) {
    let built = image();
    let registry = serve(move |request| {
        let given = request.header("authorization");
        match request.path.as_str() {
            "/v2/" => answer(200, "{}"),
            path if path.starts_with("/token") && given == Some("Basic dTpw") => {
                answer(200, r#"{"token":"t"}"#)
            }
            _ if given == Some(wanted) => honest(&built, request),
            _ => {
                let challenge = challenge.replace("{host}", &request.headers["host"]);
                answer(401, "").with("WWW-Authenticate", challenge)
            }
        }
    });
    let scene = scene(&registry);
    scene.pull().await.unwrap_err();
    scene.credential(credential);
    assert_eq!(scene.pull().await.unwrap(), b"content");
}

// deploying.md 3.1
#[tokio::test]
async fn files_of_the_user_are_read_by_each_pull_and_asked_last() {
    let built = image();
    let registry = serve(move |request| match request.header("authorization") {
        Some("Basic dTpw") => honest(&built, request),
        _ => answer(401, "").with("WWW-Authenticate", "Basic realm=\"x\""),
    });
    let mut scene = scene(&registry);
    let file = scene.dir.path().join("auth.json");
    scene.puller = Puller::new(PullConfig {
        auth: AuthFiles::of_user(Some(file.clone())),
        ..scene.puller.config().clone()
    });
    let at = file.display();
    let missing = format!("no key for {registry}/r; reading {at}: No such file or directory");
    let text = scene.text().await;
    assert!(text.contains(&missing), "{text}");
    let write = |auth: &str| {
        let document = format!(r#"{{"auths":{{"{registry}":{{"auth":"{auth}"}}}}}}"#);
        std::fs::write(&file, document).unwrap();
    };
    write("dTp3cm9uZw==");
    let text = scene.text().await;
    let used = format!("(credential: key \"{registry}\" of {at})");
    assert!(text.ends_with(&used), "{text}");
    write("dTpw");
    assert_eq!(scene.pull().await.unwrap(), b"content");
    scene.credential(user("other"));
    let text = scene.text().await;
    assert!(text.ends_with("of Secret ns/name)"), "{text}");
}

// deploying.md 3.3: why a registry refuses can be told from the text, and what to do about it.
#[rstest]
#[case::unauthorized(401, "401 from {}: no (credential: key \"{}\" of Secret ns/name)")]
#[case::forbidden(
    403,
    "403 from {}: no (credential: key \"{}\" of Secret ns/name, which may not pull this)"
)]
#[case::not_found(404, "reading manifest t in {}/r: no")]
#[case::busy(
    429,
    "429 from {}: no (the limit of requests is reached; credential: key \"{}\" of Secret ns/name)"
)]
#[tokio::test]
async fn refusals_differ_by_what_can_be_done(#[case] status: u16, #[case] want: &str) {
    let registry = serve(move |request| match request.path.as_str() {
        "/v2/" => answer(200, ""),
        // So long that it is not waited for.
        _ => answer(status, r#"{"errors":[{"message":"no"}]}"#).with("Retry-After", "3600"),
    });
    let scene = scene(&registry);
    scene.credential(user("hunter2"));
    let text = scene.text().await;
    let want = want.replace("{}", &registry);
    assert!(text.ends_with(&want), "{text} is not {want}");
    assert!(!text.contains("hunter2"));
}

// catalogs.md O7
#[tokio::test]
async fn identity_token_is_traded() {
    let registry = guarded(image(), 99, |request| {
        request.body
            == "grant_type=refresh_token&service=s&client_id=olm-controller&scope=repository%3Ar%3Apull&refresh_token=secret"
    });
    let scene = scene(&registry);
    scene.credential(identity_token("p"));
    assert_eq!(scene.pull().await.unwrap(), b"content");
}

// A service would not give another one, and may count what it refuses.
#[tokio::test]
async fn a_registry_token_is_sent_as_it_is_and_once() {
    let (registry, asked) = recorded(|request| challenge(&request.headers["host"]));
    let scene = scene(&registry);
    scene.credential(Credential::RegistryToken(SecretString::new("secret")));
    scene.text().await;
    assert_eq!(*asked.lock().unwrap(), ["/v2/", "/v2/r/manifests/t"]);
}
