//! How the cluster is reached, as kubectl reaches it.

use std::process::Stdio;

use super::{outcome, program};

// install.md
#[test]
fn a_variable_that_names_no_proxy_is_said() {
    for (name, value) in [("HTTP_PROXY", "ftp://user:SECRET@x:1"), ("HTTPS_PROXY", "http://a b")] {
        let mut command = program(["search", "--from", "http://127.0.0.1:1/c"]);
        let (code, _, errors) = outcome(command.env(name, value).stdin(Stdio::null()));
        assert_eq!(code, 1, "{errors}");
        assert!(errors.contains(&format!("{name} is not the URL of a proxy")), "{errors}");
        assert!(!errors.contains("SECRET"), "{errors}");
    }
}
