//! API versions that the oldest supported release of Kubernetes serves and a later one does not.
//!
//! As of Kubernetes 1.36, June 2026, by the lifecycle of its API types. Source: plugin.md 1.4.

/// An API version, kinds of it, and the minor version of Kubernetes 1 that is the first without.
type Removal = (&'static str, &'static [&'static str], u64);

const VALIDATING_POLICY: &[&str] =
    &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];
const MUTATING_POLICY: &[&str] = &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"];
const DEVICES: &[&str] =
    &["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"];

const REMOVALS: &[Removal] = &[
    ("admissionregistration.k8s.io/v1alpha1", MUTATING_POLICY, 38),
    ("admissionregistration.k8s.io/v1beta1", VALIDATING_POLICY, 34),
    ("admissionregistration.k8s.io/v1beta1", MUTATING_POLICY, 40),
    ("certificates.k8s.io/v1alpha1", &["ClusterTrustBundle"], 37),
    ("certificates.k8s.io/v1beta1", &["ClusterTrustBundle"], 40),
    ("certificates.k8s.io/v1beta1", &["PodCertificateRequest"], 41),
    ("coordination.k8s.io/v1alpha2", &["LeaseCandidate"], 38),
    ("coordination.k8s.io/v1beta1", &["LeaseCandidate"], 39),
    ("networking.k8s.io/v1beta1", &["IPAddress", "ServiceCIDR"], 37),
    ("resource.k8s.io/v1alpha3", &["DeviceTaintRule"], 39),
    ("resource.k8s.io/v1beta1", DEVICES, 38),
    ("resource.k8s.io/v1beta2", DEVICES, 39),
    ("resource.k8s.io/v1beta2", &["DeviceTaintRule"], 42),
    ("storage.k8s.io/v1alpha1", &["VolumeAttributesClass"], 35),
    ("storage.k8s.io/v1beta1", &["VolumeAttributesClass"], 37),
    ("storagemigration.k8s.io/v1beta1", &["StorageVersionMigration"], 41),
];

/// Returns the minor version of Kubernetes 1 that is the first not to serve a kind in an API version,
/// if that is known.
pub fn removed_in(api_version: &str, kind: &str) -> Option<u64> {
    let mut removals = REMOVALS.iter();
    let found =
        removals.find(|(version, kinds, _)| *version == api_version && kinds.contains(&kind));
    found.map(|(_, _, minor)| *minor)
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
    use rstest::rstest;

    use super::*;

    // plugin.md 1.4, U58
    #[rstest]
    #[case("storage.k8s.io/v1alpha1", "VolumeAttributesClass", Some(35))]
    #[case("storage.k8s.io/v1", "VolumeAttributesClass", None)]
    #[case("networking.k8s.io/v1beta1", "Ingress", None)]
    #[case("networking.k8s.io/v1beta1", "ServiceCIDR", Some(37))]
    #[case("example.com/v1beta1", "Ingress", None)]
    fn removals(#[case] api_version: &str, #[case] kind: &str, #[case] want: Option<u64>) {
        assert_eq!(removed_in(api_version, kind), want);
    }

    #[test]
    fn a_supported_release_serves_each() {
        /// The oldest of docs/support.md.
        const OLDEST: u64 = 33;
        assert!(REMOVALS.iter().all(|(_, _, minor)| *minor > OLDEST));
    }

    #[test]
    fn each_kind_of_a_version_stands_once() {
        let mut all: Vec<_> = REMOVALS
            .iter()
            .flat_map(|(version, kinds, _)| kinds.iter().map(move |kind| (version, kind)))
            .collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
