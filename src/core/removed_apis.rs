//! API versions of Kubernetes that a later version no longer serves.
//!
//! As of Kubernetes 1.36, June 2026: what the lifecycle of its API types says, and of those that are
//! gone from its sources the guide to deprecated APIs. Source: plugin.md 1.4.

/// An API version, kinds of it, and the minor version of Kubernetes 1 that is the first without.
type Removal = (&'static str, &'static [&'static str], u64);

const WORKLOADS: &[&str] =
    &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"];
const WEBHOOKS: &[&str] = &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
const VALIDATING_POLICY: &[&str] =
    &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];
const MUTATING_POLICY: &[&str] = &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"];
const FLOW: &[&str] = &["FlowSchema", "PriorityLevelConfiguration"];
const ROLES: &[&str] = &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
const DEVICES: &[&str] =
    &["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"];
const STORAGE: &[&str] = &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"];

const REMOVALS: &[Removal] = &[
    ("admissionregistration.k8s.io/v1alpha1", VALIDATING_POLICY, 32),
    ("admissionregistration.k8s.io/v1alpha1", MUTATING_POLICY, 38),
    ("admissionregistration.k8s.io/v1beta1", WEBHOOKS, 22),
    ("admissionregistration.k8s.io/v1beta1", VALIDATING_POLICY, 34),
    ("admissionregistration.k8s.io/v1beta1", MUTATING_POLICY, 40),
    ("apiextensions.k8s.io/v1beta1", &["CustomResourceDefinition"], 22),
    ("apiregistration.k8s.io/v1beta1", &["APIService"], 22),
    ("apps/v1beta1", WORKLOADS, 16),
    ("apps/v1beta2", WORKLOADS, 16),
    ("autoscaling/v2beta1", &["HorizontalPodAutoscaler"], 25),
    ("autoscaling/v2beta2", &["HorizontalPodAutoscaler"], 26),
    ("batch/v1beta1", &["CronJob"], 25),
    ("certificates.k8s.io/v1alpha1", &["ClusterTrustBundle"], 37),
    ("certificates.k8s.io/v1beta1", &["CertificateSigningRequest"], 22),
    ("certificates.k8s.io/v1beta1", &["ClusterTrustBundle"], 40),
    ("certificates.k8s.io/v1beta1", &["PodCertificateRequest"], 41),
    ("coordination.k8s.io/v1alpha2", &["LeaseCandidate"], 38),
    ("coordination.k8s.io/v1beta1", &["Lease"], 22),
    ("coordination.k8s.io/v1beta1", &["LeaseCandidate"], 39),
    ("discovery.k8s.io/v1beta1", &["EndpointSlice"], 25),
    ("events.k8s.io/v1beta1", &["Event"], 25),
    ("extensions/v1beta1", WORKLOADS, 16),
    ("extensions/v1beta1", &["NetworkPolicy", "PodSecurityPolicy"], 16),
    ("extensions/v1beta1", &["Ingress"], 22),
    ("flowcontrol.apiserver.k8s.io/v1beta1", FLOW, 26),
    ("flowcontrol.apiserver.k8s.io/v1beta2", FLOW, 29),
    ("flowcontrol.apiserver.k8s.io/v1beta3", FLOW, 32),
    ("networking.k8s.io/v1beta1", &["Ingress", "IngressClass"], 22),
    ("networking.k8s.io/v1beta1", &["IPAddress", "ServiceCIDR"], 37),
    ("node.k8s.io/v1beta1", &["RuntimeClass"], 25),
    ("policy/v1beta1", &["PodDisruptionBudget", "PodSecurityPolicy"], 25),
    ("rbac.authorization.k8s.io/v1beta1", ROLES, 22),
    ("resource.k8s.io/v1alpha3", &["DeviceTaintRule"], 39),
    ("resource.k8s.io/v1beta1", DEVICES, 38),
    ("resource.k8s.io/v1beta2", DEVICES, 39),
    ("resource.k8s.io/v1beta2", &["DeviceTaintRule"], 42),
    ("scheduling.k8s.io/v1beta1", &["PriorityClass"], 22),
    ("storage.k8s.io/v1alpha1", &["CSIStorageCapacity", "VolumeAttachment"], 24),
    ("storage.k8s.io/v1alpha1", &["VolumeAttributesClass"], 35),
    ("storage.k8s.io/v1beta1", STORAGE, 22),
    ("storage.k8s.io/v1beta1", &["CSIStorageCapacity"], 27),
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    // plugin.md 1.4, U58
    #[rstest]
    #[case("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", Some(32))]
    #[case("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", None)]
    #[case("networking.k8s.io/v1beta1", "Ingress", Some(22))]
    #[case("networking.k8s.io/v1beta1", "ServiceCIDR", Some(37))]
    #[case("example.com/v1beta1", "Ingress", None)]
    fn removals(#[case] api_version: &str, #[case] kind: &str, #[case] want: Option<u64>) {
        assert_eq!(removed_in(api_version, kind), want);
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
