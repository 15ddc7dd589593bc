//! API versions that the oldest supported release of Kubernetes serves and a later one does not.
//!
//! As of Kubernetes 1.36, June 2026, by the lifecycle of its API types. Source: plugin.md 1.4.

/// Returns each removal: an API version, a kind of it, and the minor version of Kubernetes 1 that is the
/// first without.
fn removals() -> impl Iterator<Item = (&'static str, &'static str, u64)> {
    let rows = include_str!("removed_apis.tsv").lines().map(|row| row.split('\t'));
    rows.filter_map(|mut row| Some((row.next()?, row.next()?, row.next()?.parse().ok()?)))
}

/// Returns the minor version of Kubernetes 1 that is the first not to serve a kind in an API version,
/// if that is known.
pub fn removed_in(api_version: &str, kind: &str) -> Option<u64> {
    let found = removals().find(|(version, of, _)| (*version, *of) == (api_version, kind));
    found.map(|(_, _, minor)| minor)
}

/// Returns the API version in which every supported release of Kubernetes serves a kind that bundles
/// ship, unless the group is not of Kubernetes itself.
pub fn served_version(group: &str, kind: &str) -> Option<&'static str> {
    const RBAC: &str = "rbac.authorization.k8s.io/v1";
    #[rustfmt::skip]
    let groups = [
        "", "apps", "extensions", "networking.k8s.io", "policy", "rbac.authorization.k8s.io",
        "scheduling.k8s.io",
    ];
    let served = match kind {
        "ConfigMap" | "Secret" | "Service" | "ServiceAccount" => "v1",
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => RBAC,
        "NetworkPolicy" => "networking.k8s.io/v1",
        "PodDisruptionBudget" => "policy/v1",
        "PriorityClass" => "scheduling.k8s.io/v1",
        _ => return None,
    };
    groups.contains(&group).then_some(served)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixture::cases;

    const CASES: &str = include_str!("testdata/cases.yaml");

    // plugin.md 1.4, U58
    #[test]
    fn a_removal_is_known() {
        for (api_version, kind, want) in
            cases::<(&str, &str, Option<u64>)>(CASES, "a_removal_is_known")
        {
            assert_eq!(removed_in(api_version, kind), want);
        }
    }

    #[test]
    fn a_supported_release_serves_each() {
        /// The oldest of docs/support.md.
        const OLDEST: u64 = 33;
        assert!(removals().all(|(_, _, minor)| minor > OLDEST));
    }

    #[test]
    fn each_kind_of_a_version_stands_once() {
        let all: BTreeSet<_> = removals().map(|(version, kind, _)| (version, kind)).collect();
        assert_eq!(all.len(), include_str!("removed_apis.tsv").lines().count());
    }
}
