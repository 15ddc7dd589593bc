//! A version that was approved, the plan it was approved by, and whether a step needs that.
//!
//! Source: applying.md 10 (F11), decision 35.

use std::collections::BTreeMap;

use olm_api::keys::{annotation, label};
use serde_json::json;

use super::ValidExtension;
use crate::go_json;
use crate::render::without_ca;
use crate::revision::{BundleRecord, Desired, sha256};
use crate::version::VersionRelease;

/// What annotation `approve` releases.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    /// The one version that the update policy does not hold.
    pub version: VersionRelease,
    /// Digest of the plan; nothing else may be written as that version.
    pub plan: Option<String>,
}

/// Which approval a step takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand<'a> {
    /// None.
    Nothing,
    /// None, but this plan is approved, and nothing else may be written.
    Plan(&'a str),
    /// That of its own plan, whatever the extension says; this one is approved, if any is.
    Approval(Option<&'a str>),
}

impl<'a> Demand<'a> {
    /// Returns the plan that is approved.
    pub fn approved(self) -> Option<&'a str> {
        match self {
            Self::Nothing => None,
            Self::Plan(plan) => Some(plan),
            Self::Approval(plan) => plan,
        }
    }

    /// Says whether a plan may be carried out.
    pub fn allows(self, plan: &str) -> bool {
        self == Self::Nothing || self.approved() == Some(plan)
    }
}

/// Returns whether every step of an extension requires approval of its plan: if the controller
/// requires it of all extensions, or the label of the install namespace does. Users who may change
/// neither cannot bypass it.
pub fn requires_approval(
    everywhere: bool,
    namespace_labels: Option<&BTreeMap<String, String>>,
) -> bool {
    let label = namespace_labels.and_then(|labels| labels.get(label::REQUIRE_APPROVAL));
    everywhere || label.is_some_and(|value| value != "false")
}

impl Approval {
    /// Returns the plan that `target` has to be written by: none once it is installed, when the
    /// approval is used up.
    pub(super) fn binding(
        &self,
        target: &BundleRecord,
        installed: Option<&BundleRecord>,
    ) -> Option<&str> {
        let version = target.version_release()?;
        let used = installed.is_some_and(|installed| installed.is_same_bundle(target));
        let concerns = !used && version.precedence(&self.version).is_eq();
        self.plan.as_deref().filter(|_| concerns)
    }
}

/// Returns the digest of a plan: of everything that decides what is applied, and as whom.
///
/// Left out are what others write into it before it is applied (the CA of webhooks), where the
/// image was found, and how long a rollout may take. The order of objects does not count.
///
/// Source: plugin.md 1.5.
pub fn plan_digest(extension: ValidExtension<'_>, desired: &Desired) -> String {
    let recorded = |key: &str| desired.annotations.get(key);
    let objects = desired.phases.iter().flat_map(|phase| &phase.objects);
    let mut objects: Vec<(String, String)> = objects
        .map(|object| {
            let text = go_json::to_string(&without_ca(object).into_value());
            (object.identity().text(), sha256(text.as_bytes()))
        })
        .collect();
    objects.sort();
    let whole = json!({
        "extension": {
            "name": desired.extension.name,
            "namespace": extension.spec.namespace,
            "account": [
                recorded(annotation::SERVICE_ACCOUNT_NAMESPACE),
                recorded(annotation::SERVICE_ACCOUNT_NAME),
            ],
        },
        "bundle": {
            "package": recorded(annotation::PACKAGE_NAME),
            "name": recorded(annotation::BUNDLE_NAME),
            "version": recorded(annotation::BUNDLE_VERSION),
            "release": recorded(annotation::BUNDLE_RELEASE),
        },
        "image": recorded(annotation::BUNDLE_DIGEST),
        "configuration": extension.inline_config(),
        "objects": objects,
    });
    sha256(go_json::to_string(&whole).as_bytes())
}

#[cfg(test)]
mod tests {
    use olm_api::ClusterExtension;
    use olm_api::keys::policy;
    use serde_json::Value;

    use super::*;
    use crate::extension::Policy;
    use crate::fixture::cases;
    use crate::object::Object;
    use crate::revision::Extension;

    const CASES: &str = include_str!("../testdata/extension/cases.yaml");

    const PLAN: &str =
        "2.0.0@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn extension(inline: &Value) -> ClusterExtension {
        let config = json!({"configType": "Inline", "inline": inline});
        crate::fixture::extension(&json!({"spec": {"config": config}}))
    }

    fn desired(image: &str, objects: &[Value]) -> Desired {
        let objects = objects.iter().cloned().filter_map(Object::from_value).collect();
        let extension = Extension { name: "e".into(), uid: String::new() };
        let mut desired = Desired::example(extension, "deploy", objects);
        desired.annotations.insert(annotation::BUNDLE_DIGEST.into(), image.into());
        desired
    }

    fn hook(name: &str, ca: &str) -> Value {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name},
            "kind": "ValidatingWebhookConfiguration",
            "webhooks": [{"name": name, "clientConfig": {"caBundle": ca, "service": {}}}]})
    }

    // plugin.md U35
    #[test]
    fn the_digest_is_of_what_is_applied() {
        let none = extension(&Value::Null);
        let of = |extension: &ClusterExtension, image: &str, objects: &[Value]| {
            plan_digest(ValidExtension::of(extension).unwrap(), &desired(image, objects))
        };
        let plan = of(&none, "sha256:a", &[hook("a", "x"), hook("b", "x")]);
        let approved = format!("1.0.0@{plan}");
        Policy::example(&[(policy::APPROVE, approved.as_str())]);
        let turned = of(&none, "sha256:a", &[hook("b", "x"), hook("a", "other CA")]);
        assert_eq!(plan, turned);
        let configured = extension(&json!({"watchNamespace": "w"}));
        for other in [
            of(&none, "sha256:b", &[hook("a", "x"), hook("b", "x")]),
            of(&configured, "sha256:a", &[hook("a", "x"), hook("b", "x")]),
            of(&none, "sha256:a", &[hook("a", "x"), hook("c", "x")]),
        ] {
            assert_ne!(plan, other);
        }
    }

    // applying.md F11
    #[test]
    fn an_approval_binds_until_it_is_used() {
        let plan = format!("sha256:{}", "0".repeat(64));
        let version = VersionRelease::legacy("2.0.0").unwrap();
        let approval = Approval { version, plan: Some(plan.clone()) };
        let (one, two) = (BundleRecord::example("1.0.0"), BundleRecord::example("2.0.0"));
        assert_eq!(approval.binding(&two, Some(&one)), Some(plan.as_str()));
        assert_eq!(approval.binding(&two, None), Some(plan.as_str()));
        assert_eq!(approval.binding(&one, None), None);
        assert_eq!(approval.binding(&two, Some(&two)), None);
    }

    // applying.md F11
    #[test]
    fn who_may_require_approval() {
        for (everywhere, value, want) in
            cases::<(bool, Option<&str>, bool)>(CASES, "who_may_require_approval")
        {
            let labels = value.map(|value| (label::REQUIRE_APPROVAL.to_owned(), value.to_owned()));
            let labels = BTreeMap::from_iter(labels);
            assert_eq!(requires_approval(everywhere, Some(&labels)), want);
            assert_eq!(requires_approval(everywhere, None), everywhere);
        }
    }

    // applying.md F11
    #[test]
    fn where_approval_is_required_only_that_of_the_plan_lets_it_through() {
        for (annotations, passes) in cases::<(Vec<(&str, &str)>, bool)>(
            CASES,
            "where_approval_is_required_only_that_of_the_plan_lets_it_through",
        ) {
            let read = Policy::example(&annotations);
            let (one, two) = (BundleRecord::example("1.0.0"), BundleRecord::example("2.0.0"));
            let plan = &PLAN["2.0.0@".len()..];
            // An approval that is used up counts for its plan and for nothing else.
            for installed in [None, Some(&one), Some(&two)] {
                let demand = read.demand(&two, installed, true);
                assert_eq!(demand.allows(plan), passes, "{demand:?}");
                assert!(matches!(demand, Demand::Approval(_)), "{demand:?}");
            }
            if annotations.iter().all(|(key, _)| *key != policy::APPROVE) {
                assert_eq!(read.demand(&two, Some(&one), false), Demand::Nothing);
            }
        }
    }
}
