//! The intended differences from upstream's rendering, by bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// An expected difference in a rendering.
pub(crate) struct Known {
    /// The rule of rendering.md that explains it.
    pub(crate) rule: &'static str,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    /// We refuse what upstream renders; the start of the message.
    Refused(&'static str),
    /// The differences, each containing one of these texts; all of them must occur.
    Differs(&'static [&'static str]),
}

const fn refused(rule: &'static str, text: &'static str) -> Known {
    let kind = Kind::Refused(text);
    Known { rule, kind }
}

const fn differs(rule: &'static str, texts: &'static [&'static str]) -> Known {
    let kind = Kind::Differs(texts);
    Known { rule, kind }
}

/// The bundles that render differently, and the rule that explains it (section 8, 4.8, 6.2).
pub(crate) fn known(directory: &str, source: &str) -> Option<Known> {
    let known = match directory {
        "azure-service-operator/1.0.27207" => refused(
            "R7",
            "error parsing objects in \"manifests/azureoperator-webhook-service.yaml\": Object \
             'apiVersion' is missing in Service \"azureoperator-webhook-service\"",
        ),
        "cluster-aas-operator/0.1.5" => refused("R7", "error parsing objects in \"manifests/"),
        "cockroachdb/2.1.1" => refused(
            "R6",
            "unsupported bundle: custom resource definition \"cockroachdbs.charts.helm.k8s.io\" has \
             apiVersion \"apiextensions.k8s.io/v1beta1\", which no supported cluster serves",
        ),
        "group-sync-operator/0.0.11" => refused(
            "R6",
            "unsupported bundle: custom resource definition \"groupsyncs.redhatcop.redhat.io\" has \
             apiVersion \"apiextensions.k8s.io/v1beta1\", which no supported cluster serves",
        ),
        "oadp-operator/0.2.6" => refused("R6", "unsupported bundle: custom resource definition "),
        // A zero value of the bundle stays where upstream's typed decoding drops it.
        "deployment-validation-operator/0.7.12" => {
            differs("6.2", &["containers[0].env[0].value: ours \"\", upstream null"])
        }
        "windup-operator/0.0.21" => differs(
            "6.2",
            &[
                "livenessProbe.initialDelaySeconds: ours 0, upstream null",
                "readinessProbe.initialDelaySeconds: ours 0, upstream null",
            ],
        ),
        "community-kubevirt-hyperconverged/1.18.1" => {
            differs("6.2", &["preserveUnknownFields: ours false, upstream null"])
        }
        // Quantities are not canonicalized.
        "ncn-operator/0.3.18" => differs("4.8", &["cpu: ours \"1000m\", upstream \"1\""]),
        // There is no annotation with value `null`.
        "pelorus-operator/0.0.9" => {
            differs("R13", &["annotations.olm.properties: ours null, upstream \"null\""])
        }
        // The same ClusterRole twice; a manifest of an object that is also generated.
        "nfs-provisioner-operator/0.0.5" | "victoriametrics-operator/0.22.0" => {
            differs("R2", &["ours 1 times, upstream 2"])
        }
        "flink-kubernetes-operator/1.2.0"
        | "kubernetes-imagepuller-operator/1.1.2"
        | "opentelemetry-operator/0.158.0" => {
            differs("R2", &["-service: ours 1 times, upstream 2"])
        }
        "tagger/2.1.17" => {
            differs("R2", &["ServiceAccount inst-ns/tagger: ours 1 times, upstream 2"])
        }
        // Only the chosen issuer writes `caBundle`.
        "sn-operator/0.19.7" if source == "service-ca" => {
            differs("R5", &["annotations.cert-manager.io/inject-ca-from: ours null, upstream"])
        }
        _ => return None,
    };
    Some(known)
}

/// The renderings that differ as a rule says.
#[derive(Default)]
pub(crate) struct Named {
    pub(crate) count: usize,
    bundles: BTreeMap<&'static str, BTreeSet<String>>,
}

impl Named {
    pub(crate) fn add(&mut self, rule: &'static str, bundle: &str) {
        self.count += 1;
        let bundles = self.bundles.entry(rule).or_default();
        bundles.insert(bundle.to_owned());
    }
}

impl fmt::Display for Named {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (rule, bundles) in &self.bundles {
            let bundles = bundles.iter().map(String::as_str).collect::<Vec<_>>();
            writeln!(out, "{rule}: {}", bundles.join(", "))?;
        }
        Ok(())
    }
}
