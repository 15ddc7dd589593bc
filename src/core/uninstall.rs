//! What deleting an extension does to its CRDs, and so to the objects that users made of them.
//!
//! Source: applying.md 7.3, decision 33.

use std::collections::BTreeMap;

use itertools::Itertools as _;
use olm_api::keys::policy;
use strum::{EnumString, IntoStaticStr, VariantNames};

use crate::error::quote;
use crate::object::Object;

/// How every text begins that says why an uninstall does not start.
pub const BLOCKED: &str = "uninstall blocked: ";

/// In the message of an uninstall that goes on when CRDs and their objects are retained.
pub const CAN_RETAIN: &str = "=RetainCRDs keeps them";
/// CRDs that a text names.
pub(crate) const MAX_NAMED: usize = 10;

/// What becomes of CRDs and their objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
pub enum UninstallPolicy {
    /// They go with everything else.
    Delete,
    /// They stay.
    #[strum(serialize = "RetainCRDs")]
    RetainCrds,
    /// Nothing goes as long as there are objects.
    #[default]
    BlockIfInstances,
}

impl UninstallPolicy {
    /// Returns what the annotations say, else the strictest of what the bundle's author asks for in its
    /// properties and the administrator's default: whoever supplies a bundle can add protection, and
    /// never take it away.
    ///
    /// An annotation with an unknown value protects the objects.
    pub fn chosen(annotations: &BTreeMap<String, String>, asked: &[Self], default: Self) -> Self {
        if let Some(word) = annotations.get(policy::UNINSTALL) {
            return word.parse().unwrap_or(Self::BlockIfInstances);
        }
        asked.iter().copied().fold(default, Self::stricter)
    }

    /// Returns the policy for a revision whose extension is gone, or that does not name it as its owner
    /// any longer, by the annotations of the revision itself and what its bundle asks for: nobody deleted
    /// it as an extension is deleted, so only an annotation on the revision lets users' objects go.
    pub fn without_extension(
        annotations: &BTreeMap<String, String>,
        asked: &[Self],
        default: Self,
    ) -> Self {
        Self::chosen(annotations, asked, default.stricter(Self::BlockIfInstances))
    }

    /// Returns what a revision records of the annotation of its extension, for the case that the
    /// extension goes first: what protects. That objects may go is never recorded.
    pub fn recorded(annotations: &BTreeMap<String, String>) -> Option<Self> {
        annotations.get(policy::UNINSTALL)?;
        let chosen = Self::chosen(annotations, &[], Self::default());
        (chosen != Self::Delete).then_some(chosen)
    }

    /// Returns the one that protects more.
    #[must_use]
    fn stricter(self, other: Self) -> Self {
        let rank = |policy: Self| match policy {
            Self::Delete => 0,
            Self::BlockIfInstances => 1,
            Self::RetainCrds => 2,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

/// The annotation has a value that is not a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "annotation {} is invalid: {} is not one of {}",
    quote(policy::UNINSTALL),
    quote(_0),
    UninstallPolicy::VARIANTS.join(", ")
)]
pub struct UnknownPolicy(String);

/// Fails on an annotation whose value is not a policy.
pub fn check_annotation(annotations: &BTreeMap<String, String>) -> Result<(), UnknownPolicy> {
    match annotations.get(policy::UNINSTALL) {
        Some(word) if word.parse::<UninstallPolicy>().is_err() => Err(UnknownPolicy(word.clone())),
        _ => Ok(()),
    }
}

/// How many objects there are of a CRD, without those of the bundle itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instances {
    /// So many.
    Counted(u64),
    /// That is not known; why.
    Unknown(String),
}

/// Returns why an uninstall does not start, and the ways out: there are objects of these CRDs, or
/// nobody can say that there are none. `extension` is its name, if there is one.
pub fn blocked(extension: Option<&str>, crds: &BTreeMap<String, Instances>) -> Option<String> {
    let mut parts: Vec<String> = crds
        .iter()
        .filter_map(|(crd, instances)| match instances {
            Instances::Counted(0) => None,
            Instances::Counted(1) => Some(format!("1 instance of {crd}")),
            Instances::Counted(count) => Some(format!("{count} instances of {crd}")),
            Instances::Unknown(why) => {
                Some(format!("instances of {crd} cannot be counted ({why})"))
            }
        })
        .collect();
    if parts.is_empty() {
        return None;
    }
    let more = parts.len().saturating_sub(MAX_NAMED);
    parts.truncate(MAX_NAMED);
    if more > 0 {
        parts.push(format!("and {more} more CRDs"));
    }
    let key = policy::UNINSTALL;
    let annotate = match extension {
        Some(name) => format!("kubectl annotate --overwrite clusterextension {name} {key}"),
        None => format!("annotation {key}"),
    };
    Some(format!(
        "{BLOCKED}{}; removal continues when they are gone, or: {annotate}{CAN_RETAIN} \
         and their CRDs, {annotate}=Delete removes them",
        parts.join(", ")
    ))
}

/// Returns why the CRD cannot stay without its operator, if that is so: its objects are converted
/// by a webhook that would go, and its versions differ.
pub fn cannot_stay(crd: &Object) -> Option<String> {
    if !is_converted_by_webhook(crd) {
        return None;
    }
    let served = crd.list_at("/spec/versions").filter(|version| version["served"] == true);
    (!served.map(|version| version.get("schema")).all_equal()).then(|| {
        format!(
            "{BLOCKED}{} cannot be retained: its versions differ and are converted by a webhook \
             that would go with the operator, so that its objects could no longer be read",
            crd.name()
        )
    })
}

/// Says whether a webhook converts the objects of a CRD.
pub fn is_converted_by_webhook(crd: &Object) -> bool {
    crd.text_at("/spec/conversion/strategy") == "Webhook"
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{cases, object};

    const CASES: &str = include_str!("testdata/cases.yaml");

    fn annotated(word: Option<&str>) -> BTreeMap<String, String> {
        let pair = |word: &str| (policy::UNINSTALL.to_owned(), word.to_owned());
        word.map(pair).into_iter().collect()
    }

    fn policy_of(word: &str) -> UninstallPolicy {
        word.parse().unwrap()
    }

    // applying.md 7.3: the annotation wins; a property adds to the flag and takes nothing from it
    #[test]
    fn policies() {
        for (annotation, asked, default, want) in
            cases::<(Option<&str>, Vec<&str>, &str, &str)>(CASES, "policies")
        {
            let asked: Vec<_> = asked.into_iter().map(policy_of).collect();
            let chosen =
                UninstallPolicy::chosen(&annotated(annotation), &asked, policy_of(default));
            assert_eq!(chosen, policy_of(want));
        }
    }

    #[test]
    fn what_an_extension_said_outlives_it() {
        for (annotation, default, recorded, want) in cases::<(Option<&str>, &str, Option<&str>, &str)>(
            CASES,
            "what_an_extension_said_outlives_it",
        ) {
            let record = UninstallPolicy::recorded(&annotated(annotation));
            assert_eq!(record, recorded.map(policy_of));
            let on_revision = annotated(record.map(Into::into));
            let left = UninstallPolicy::without_extension(&on_revision, &[], policy_of(default));
            assert_eq!(left, policy_of(want));
        }
    }

    #[test]
    fn an_annotation_on_the_revision_itself_lets_objects_go() {
        let (annotations, default) = (annotated(Some("Delete")), UninstallPolicy::default());
        let left = UninstallPolicy::without_extension(&annotations, &[], default);
        assert_eq!(left, UninstallPolicy::Delete);
    }

    #[test]
    fn a_value_that_is_no_policy_is_named() {
        assert_eq!(check_annotation(&annotated(Some("RetainCRDs"))), Ok(()));
        let error = check_annotation(&annotated(Some("Keep"))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "annotation \"policy.olm.operatorframework.io/uninstall\" is invalid: \"Keep\" is not \
             one of Delete, RetainCRDs, BlockIfInstances"
        );
    }

    #[test]
    fn what_blocks_is_counted() {
        let crds = BTreeMap::from([
            ("a.example.com".to_owned(), Instances::Counted(0)),
            ("b.example.com".to_owned(), Instances::Counted(3)),
            ("c.example.com".to_owned(), Instances::Unknown("forbidden".to_owned())),
        ]);
        let text = blocked(Some("quay"), &crds).unwrap();
        assert!(
            text.starts_with(
                "uninstall blocked: 3 instances of b.example.com, instances of c.example.com \
                 cannot be counted (forbidden); "
            ),
            "{text}"
        );
        assert!(text.contains("clusterextension quay"), "{text}");
        let empty = BTreeMap::from([("a.example.com".to_owned(), Instances::Counted(0))]);
        assert_eq!(blocked(None, &empty), None);
    }

    #[test]
    fn crds_that_can_stay() {
        for (strategy, one, other, can) in
            cases::<(&str, Value, Value, bool)>(CASES, "crds_that_can_stay")
        {
            let version = |schema: Value| json!({"served": true, "schema": schema});
            let crd = object(json!({"apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition", "metadata": {"name": "foos.example.com"},
                "spec": {"conversion": {"strategy": strategy}, "versions": [version(one), version(other)]}}));
            assert_eq!(cannot_stay(&crd).is_none(), can);
        }
    }
}
