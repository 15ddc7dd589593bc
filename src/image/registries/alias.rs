//! Short-name aliases. Nothing here is pulled by a short name, but a file with an alias that other
//! tools on the machine refuse is refused here too.
//!
//! Source: containers-registries.conf(5), `containers/image` (`shortnames.go`).

use olm_core::error::quote;

use crate::reference::{MAX_NAME_BYTES, is_component, is_domain, split_tag};

/// Checks an alias; an empty value removes one of an earlier file.
pub(super) fn check(name: &str, value: &str) -> Result<(), String> {
    let wrong = |what: &str, text: &str, why: &str| Err(format!("{what} {} {why}", quote(text)));
    match parts(name) {
        Err(why) => return wrong("short name", name, why),
        Ok(Some(domain)) if names_registry(domain) => {
            return wrong("short name", name, "names a registry");
        }
        Ok(_) => {}
    }
    if value.is_empty() {
        return Ok(());
    }
    match parts(value) {
        Err(why) => wrong("alias", value, why),
        Ok(Some(domain)) if names_registry(domain) => Ok(()),
        Ok(_) => wrong("alias", value, "does not name a registry and a repository"),
    }
}

/// Returns the first component of a name without tag and digest, if it can be a host.
fn parts(text: &str) -> Result<Option<&str>, &'static str> {
    if text.contains('@') {
        return Err("has a digest");
    }
    let (name, tag) = split_tag(text);
    if tag.is_some() {
        return Err("has a tag");
    }
    if name.len() > MAX_NAME_BYTES {
        return Err("is too long");
    }
    let is_path = |path: &str| path.split('/').all(is_component);
    match name.split_once('/') {
        Some((domain, path)) if is_domain(domain) && is_path(path) => Ok(Some(domain)),
        _ if is_path(name) => Ok(None),
        _ => Err("is not a name of a repository"),
    }
}

fn names_registry(domain: &str) -> bool {
    domain.contains(['.', ':']) || domain == "localhost"
}
