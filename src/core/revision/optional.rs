//! Kinds that a bundle may contain although the cluster does not serve them.

/// Groups whose objects are left out if the cluster does not serve their kind, instead of failing
/// the install: most public bundles contain a `ServiceMonitor`.
///
/// Source: decision 21.
pub const OPTIONAL_GROUPS: [&str; 3] =
    ["autoscaling.k8s.io", "console.openshift.io", "monitoring.coreos.com"];

/// Says whether objects of this group may wait until the cluster serves their kind.
pub fn is_optional_group(group: &str) -> bool {
    OPTIONAL_GROUPS.contains(&group)
}
