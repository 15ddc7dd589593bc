//! The names under which clients reach our listeners.
//!
//! Source: deploying.md 2.4.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use jiff::Timestamp;
use olm_api::keys::name;

use super::plan::{LOCALHOST, PROFILE};
use crate::x509::Ca;

const RESOLV_CONF: &str = "/etc/resolv.conf";
const LOOPBACK: [&str; 2] = ["127.0.0.1", "::1"];

/// Returns the names that certificates of this process are for: both Services in every form, this
/// machine, and the host of `--external-address`. A name that no certificate can be issued for is
/// left out. Blocks for a moment.
pub(super) fn names(namespace: &str, external: Option<&str>) -> Vec<String> {
    let resolver = std::fs::read_to_string(Path::new(RESOLV_CONF)).unwrap_or_default();
    let mut names = wanted(namespace, &resolver, external);
    names.retain(|name| {
        let usable = is_usable(name);
        if !usable {
            tracing::warn!(name, "no certificate can be issued for this name");
        }
        usable
    });
    names
}

fn wanted(namespace: &str, resolver: &str, external: Option<&str>) -> Vec<String> {
    let domain = cluster_domain(resolver);
    let mut names = Vec::new();
    for service in [name::SERVICE_CATALOGD, name::SERVICE_OPERATOR_CONTROLLER] {
        let short = format!("{service}.{namespace}.svc");
        let long = domain.map(|domain| format!("{short}.{domain}"));
        names.push(short);
        names.extend(long);
    }
    names.push(LOCALHOST.to_owned());
    names.extend(LOOPBACK.map(str::to_owned));
    let external = external.map(host).filter(|host| !host.is_empty());
    names.extend(external.filter(|host| !names.contains(host)));
    names
}

/// Returns the domain of the cluster: what follows `svc.` in the search list of a pod.
fn cluster_domain(resolver: &str) -> Option<&str> {
    // The last list counts.
    let list = resolver.lines().rev().find_map(|line| line.trim().strip_prefix("search"))?;
    list.split_whitespace().find_map(|entry| entry.trim_end_matches('.').strip_prefix("svc."))
}

/// Returns the host of a host or a host with a port.
fn host(address: &str) -> String {
    if let Ok(address) = address.parse::<SocketAddr>() {
        return address.ip().to_string();
    }
    if let Ok(address) = address.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return address.to_string();
    }
    let host = address.split_once(':').map_or(address, |(host, _)| host);
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Returns whether a CA made for a name can vouch for it.
fn is_usable(name: &str) -> bool {
    let names = [name.to_owned()];
    let now = Timestamp::now();
    Ca::generate(&PROFILE, &names, now).is_ok_and(|ca| ca.signs_for(&names, now))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    // deploying.md 2.4
    #[test]
    fn both_services_and_this_machine_are_named() {
        let resolver = "nameserver 10.96.0.10\nsearch ops.svc.corp.test svc.corp.test corp.test\n";
        assert_eq!(
            wanted("ops", resolver, Some("olm.example.com:8443")),
            [
                "catalogd-service.ops.svc",
                "catalogd-service.ops.svc.corp.test",
                "operator-controller-service.ops.svc",
                "operator-controller-service.ops.svc.corp.test",
                "localhost",
                "127.0.0.1",
                "::1",
                "olm.example.com",
            ]
        );
        assert_eq!(wanted("ops", "", Some("127.0.0.1:1")).len(), 5);
    }

    #[rstest]
    #[case::pod(
        "search a.svc.cluster.local svc.cluster.local cluster.local",
        Some("cluster.local")
    )]
    #[case::dot("search\tsvc.c.test.", Some("c.test"))]
    #[case::last_counts("search svc.a\nsearch svc.b", Some("b"))]
    #[case::machine("search example.com", None)]
    #[case::none("nameserver 1.1.1.1", None)]
    fn the_cluster_domain_is_read_from_the_search_list(
        #[case] text: &str,
        #[case] want: Option<&str>,
    ) {
        assert_eq!(cluster_domain(text), want);
    }

    #[rstest]
    #[case("OLM.example.com", "olm.example.com")]
    #[case("olm.example.com.:443", "olm.example.com")]
    #[case("192.0.2.1", "192.0.2.1")]
    #[case("192.0.2.1:8443", "192.0.2.1")]
    #[case("[2001:db8::1]:8443", "2001:db8::1")]
    #[case("[2001:db8::1]", "2001:db8::1")]
    #[case("2001:db8::1", "2001:db8::1")]
    fn an_external_address_is_a_host_with_or_without_a_port(
        #[case] address: &str,
        #[case] want: &str,
    ) {
        assert_eq!(host(address), want);
    }

    #[rstest]
    #[case("olm.example.com", true)]
    #[case("2001:db8::1", true)]
    #[case("*.example.com", false)]
    #[case("olm example", false)]
    #[case("", false)]
    #[case("ö.example.com", false)]
    fn names_that_no_client_accepts_are_known(#[case] name: &str, #[case] usable: bool) {
        assert_eq!(is_usable(name), usable);
    }
}
