//! What the plugin says where something does not answer, or refuses.
//!
//! Source: plugin.md 1.3.

use olm_test::cluster::kubeconfig_through;
use olm_test::prelude::*;

/// What a call may take that waits for nothing: far less than the minutes that retries took.
const AT_ONCE: Duration = Duration::from_mins(1);
const SERVICE: &str = "catalogs-away";

/// Runs the plugin with a kubeconfig; returns its exit code and all that it says, and fails when it
/// takes too long.
fn olm(plane: &ControlPlane, kubeconfig: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let begun = Instant::now();
    let home = tempfile::tempdir().expect("a temporary folder");
    let out = Command::new(paths::built("kubectl-olm"))
        .args(args)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env_remove("KUBECONFIG")
        .env("HOME", home.path())
        .env("XDG_CACHE_HOME", home.path())
        .env("CONTAINERS_REGISTRIES_CONF", &plane.addresses.registries_conf)
        .output()
        .expect("kubectl-olm runs; build it with `cargo build`");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (text, errors) = (text(out.stdout), text(out.stderr));
    assert!(begun.elapsed() < AT_ONCE, "{args:?} took {:?}: {errors}", begun.elapsed());
    (out.status.code(), text, errors)
}

/// Makes a catalog whose Service has no endpoints; nothing runs that would change its status.
fn catalog_away(plane: &ControlPlane) {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": SYSTEM_NAMESPACE},
        "spec": {"ports": [{"port": 443}], "selector": {"app": "nobody"}},
    });
    plane.create(&service);
    plane.create(&objects::catalog("away", "example.com/away:v1"));
    let condition = |type_: &str, reason: &str| {
        json!({"type": type_, "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let digest = format!("example.com/away@sha256:{}", "0".repeat(64));
    let status = json!({"status": {
        "conditions": [condition("Serving", "Available"), condition("Progressing", "Succeeded")],
        "urls": {"base": format!("https://{SERVICE}.{SYSTEM_NAMESPACE}.svc/catalogs/away")},
        "resolvedSource": {"type": "Image", "image": {"ref": digest}},
    }});
    let path = "/apis/olm.operatorframework.io/v1/clustercatalogs/away/status";
    let patched = plane.requests().send(Method::PATCH, path, Some(&status));
    patched.expect("the status is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_server_that_is_away_is_named_at_once() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    catalog_away(plane);
    let kubeconfig = &plane.addresses.kubeconfig;
    for args in [&["search", "lamp"][..], &["show", "lamp"], &["search", "lamp", "--no-cache"]] {
        let (code, text, errors) = olm(plane, kubeconfig, args);
        assert_ne!(code, Some(0), "{args:?}: {text}{errors}");
        let all = format!("{errors}{text}");
        assert!(all.contains(SERVICE) && all.contains("away"), "{args:?}: {all}");
        assert_is_for_people(args, &all);
    }
    let (_, text, errors) = olm(plane, kubeconfig, &["doctor"]);
    let row = text.lines().find(|line| line.contains("the server of away does not answer"));
    assert!(row.is_some_and(|row| row.contains("problem")), "{text}{errors}");
    plane.kubectl(&["delete", "clustercatalog", "away"]);
    plane.kubectl(&["delete", "service", SERVICE, &format!("--namespace={SYSTEM_NAMESPACE}")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_silent_is_named_after_the_limit() {
    let cluster = cluster::shared().await;
    let proxy = Proxy::start(cluster.plane);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let kubeconfig = kubeconfig_through(cluster.plane, &proxy, folder.path());
    proxy.fail(Rule::any().silent(AT_ONCE * 2));
    for args in [&["status"][..], &["catalog", "list"], &["search", "lamp"], &["why", "lamp"]] {
        let args = [args, &["--request-timeout=1s"]].concat();
        let (_, errors) = olm(cluster.plane, &kubeconfig, &args).ends(3);
        let first = errors.lines().next().unwrap_or_default();
        let want = format!("no answer from the API server {}", proxy.url());
        let is_named = first.contains(&want) && first.contains(" within 1 s");
        assert!(is_named, "{args:?}: {errors}");
        assert!(errors.contains("hint: --request-timeout"), "{errors}");
    }
    proxy.clear();
}

/// What only programmers read.
const DEBUG: [&str; 7] =
    ["Status {", "ApiError", "ServiceError", "HyperError", "Some(", "Err(", "ListMeta"];

/// Fails where a text holds what only programmers read, or says the same twice in a line.
fn assert_is_for_people(args: &[&str], text: &str) {
    for pattern in DEBUG {
        assert!(!text.contains(pattern), "{args:?} says {pattern}: {text}");
    }
    for line in text.lines() {
        let mut refusals: Vec<_> = line.split(REFUSAL).skip(1).map(refused).collect();
        let all = refusals.len();
        refusals.sort_unstable();
        refusals.dedup();
        assert_eq!(refusals.len(), all, "{args:?} says it twice: {line}");
    }
}

/// How begins what the proxy says of every request that it refuses.
const REFUSAL: &str = "injected: ";

/// Returns verb and path of a refused request, which follow [`REFUSAL`].
fn refused(said: &str) -> &str {
    let ends = |c: char| c.is_whitespace() || ",;)".contains(c);
    let verb = said.find(' ').map_or(0, |at| at + 1);
    let path = said[verb..].find(ends).unwrap_or(said.len() - verb);
    &said[..verb + path]
}

/// The lines of a list of commands of the plugin, with what their placeholders stand for.
pub(crate) fn commands(list: &str, with: &[(&str, &str)]) -> Vec<String> {
    let lists = paths::yaml("test/tests/control_plane/commands.yaml");
    let lines = lists[list].as_array().expect("a list of commands");
    lines.iter().map(|line| paths::filled(line.as_str().expect("text"), with)).collect()
}

/// Verbs that ask no cluster, and `browse`, which runs until it is stopped.
const OTHERS: [&str; 4] = ["browse", "bundle lint", "catalog build", "completion"];

/// Says whether a verb with these arguments may write.
fn writes(args: &[&str]) -> bool {
    ["approve", "pause", "resume"].contains(&args[0])
        || ["--yes", "apply", "refresh"].iter().any(|word| args.contains(word))
}

#[test]
fn every_verb_is_here_or_asks_no_cluster() {
    let text = std::fs::read_to_string(paths::repository().join("docs/cli.md"));
    let text = text.expect("a document");
    let asked = commands("of a cluster", &[]);
    for verb in text.lines().filter_map(|line| line.strip_prefix("### `kubectl olm ")) {
        let verb = verb.trim_end_matches('`');
        let is_asked = asked.iter().any(|line| format!("{line} ").starts_with(&format!("{verb} ")));
        assert_ne!(is_asked, OTHERS.contains(&verb), "{verb}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_says_in_a_sentence_that_the_api_server_refused() {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0")];
    let (scene, extension) = Scene::shared_first("sentences", &bundles).await;
    let plane = scene.cluster.plane;
    let bundle = scene.folder(&bundles[1]);
    let bundle = bundle.to_string_lossy().into_owned();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let lock: PathBuf = folder.path().join("lock.yaml");
    let (_, text, _) = olm(plane, &plane.addresses.kubeconfig, &["lock", "write", &scene.name]);
    std::fs::write(&lock, text).expect("it can be written");
    let lock = lock.to_string_lossy().into_owned();
    let system = plane.requests().read("namespace", "", "kube-system").expect("it can be read");
    let cluster = &system["metadata"]["uid"];
    let backup = folder.path().join("backup.yaml");
    let entry = json!({"form": "olm-classic-backup/1", "cluster": cluster, "extension": scene.name,
        "namespace": scene.name, "subscription": scene.name, "objects": [], "running": []});
    std::fs::write(&backup, entry.to_string()).expect("it can be written");
    let backup = backup.to_string_lossy().into_owned();
    let proxy = Proxy::start(plane);
    let kubeconfig = kubeconfig_through(plane, &proxy, folder.path());
    let image = format!("{}/{}-catalog:v1", scene.cluster.registry, scene.name);
    let name = scene.name.as_str();
    let with: [(&str, &str); 5] = [
        ("name", name),
        ("image", &image),
        ("folder", &bundle),
        ("lock", &lock),
        ("backup", &backup),
    ];
    let commands = commands("of a cluster", &with);
    for (code, of_writes) in [(403, false), (503, false), (403, true)] {
        let rule = if of_writes { Rule::writes() } else { Rule::any() };
        let rule = proxy.fail(rule.status(code));
        for args in commands.iter().map(|line| line.split(' ').collect::<Vec<_>>()) {
            let is_read = ["why", "plan", "approve", "upgrade"].contains(&args[0])
                || args == ["migrate", "from-classic", name];
            if of_writes && !writes(&args) {
                continue;
            }
            let (ended, text, errors) = olm(plane, &kubeconfig, &args);
            assert_is_for_people(&args, &format!("{errors}{text}"));
            if code >= 500 && is_read {
                assert_eq!(ended, Some(3), "{args:?}: {text}{errors}");
            }
        }
        proxy.stop(rule);
    }
    extension.delete().await;
}
