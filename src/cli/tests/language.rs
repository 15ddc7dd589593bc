//! What every command has in common (plugin.md 1.3).

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::Command;

use rstest::rstest;

const TEAPOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/graph/teapot.yaml");
const LAMP: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../hack/demo/bundles/lamp-operator/1.0.0"
);

/// Runs the program with a kubeconfig and returns exit code, stdout and stderr.
fn olm(kubeconfig: &str, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-olm"))
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (code, text(output.stdout), text(output.stderr))
}

// plugin.md U3
#[rstest]
#[case("update", &["\"upgrade\"", "\"updates\""])]
#[case("serch", &["'search'"])]
fn a_verb_that_is_unknown_gets_the_nearest_ones(#[case] verb: &str, #[case] near: &[&str]) {
    let (code, _, errors) = olm("", &[verb]);
    assert_eq!(code, 2);
    assert!(near.iter().all(|name| errors.contains(name)), "{errors}");
}

// plugin.md U21, U9
#[rstest]
#[case::none("", "$KUBECONFIG is not set and ~/.kube/config does not exist\n")]
#[case::named("/nonexistent/config", "failed to read kubeconfig from ")]
fn without_a_cluster_the_answer_is_not_known(#[case] kubeconfig: &str, #[case] why: &str) {
    for arguments in [
        &["status"][..],
        &["search"],
        &["why", "a"],
        &["delete", "a", "--yes"],
    ] {
        let (code, out, errors) = olm(kubeconfig, arguments);
        assert_eq!((code, out.as_str()), (3, ""), "{arguments:?}: {errors}");
        assert!(
            errors.starts_with(&format!("error: no cluster: {why}")),
            "{errors}"
        );
        assert!(
            errors.contains("\nhint: --catalog DIR|IMAGE works without one"),
            "{errors}"
        );
    }
}

// plugin.md U7
#[test]
fn with_a_catalog_no_cluster_is_asked() {
    let cluster = TcpListener::bind("127.0.0.1:0").unwrap();
    cluster.set_nonblocking(true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("config");
    let server = format!("http://{}", cluster.local_addr().unwrap());
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
    );
    fs::write(&kubeconfig, text).unwrap();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let catalog = folder.path().join("lamps.yaml");
    let demo = format!("{LAMP}/../../../catalogs/first/lamp-operator.yaml");
    let lamps = fs::read_to_string(demo).unwrap();
    fs::write(&catalog, lamps.replace("${REGISTRY}", "127.0.0.1:1")).unwrap();
    let lamps = catalog.to_str().unwrap();
    // The last two end at the registry, which is not there.
    let asked: [(&[&str], i32); 6] = [
        (&["why", "--package", "teapot", "--catalog", TEAPOT], 0),
        (&["graph", "teapot", "--catalog", TEAPOT], 0),
        (&["resolve", "--package", "teapot", "--catalog", TEAPOT], 0),
        (&["rbac", LAMP, "-n", "a", "--service-account", "b"], 0),
        (&["show", "lamp-operator", "--catalog", lamps], 1),
        (
            &[
                "render",
                "-n",
                "a",
                "--from-catalog",
                "lamp-operator",
                "--catalog",
                lamps,
            ],
            1,
        ),
    ];
    for (arguments, want) in asked {
        let (code, _, errors) = olm(kubeconfig, arguments);
        assert_eq!(code, want, "{arguments:?}: {errors}");
        let untouched = cluster.accept().unwrap_err();
        assert_eq!(untouched.kind(), ErrorKind::WouldBlock, "{arguments:?}");
    }
    // The same kubeconfig, where a cluster is meant.
    let mut asking = Command::new(env!("CARGO_BIN_EXE_kubectl-olm"));
    let mut asking = asking
        .arg("status")
        .env("KUBECONFIG", kubeconfig)
        .spawn()
        .unwrap();
    cluster.set_nonblocking(false).unwrap();
    let connection = cluster.accept();
    asking.kill().unwrap();
    asking.wait().unwrap();
    assert!(connection.is_ok());
}
