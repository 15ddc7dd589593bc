//! Which policy annotations an object of a kind may carry, and how they are read.
//!
//! An unknown key may be one that protects data, so it is never ignored (applying.md 10). Unknown
//! values are refused, never replaced by a default.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;
use std::str::FromStr;

use itertools::Itertools as _;
use olm_api::keys::policy;

use crate::error::{Chain, quote};
use crate::uninstall;

/// Begins the message of a removal that waits for an annotation to be corrected.
pub const REMOVAL_BLOCKED: &str = "removal blocked: ";

/// A kind whose objects carry policy annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray)]
pub enum Carrier {
    /// ClusterExtensions.
    Extension,
    /// ClusterCatalogs.
    Catalog,
    /// ClusterObjectSets, made by the controller or by hand.
    ObjectSet,
}

impl Carrier {
    /// Returns the keys that are supported on objects of the kind.
    #[rustfmt::skip]
    pub fn understood(self) -> &'static [&'static str] {
        match self {
            Self::Extension => &[
                policy::ACCEPT_IMAGE, policy::ADOPT, policy::APPROVE, policy::CATALOG_MOVE,
                policy::CLUSTER_PROXY, policy::CRD_SAFETY_ALLOW, policy::CRD_SAFETY_REASON,
                policy::CREATE_NAMESPACE, policy::FORCE, policy::ON_FAILURE,
                policy::OPERATOR_CONDITIONS, policy::PAUSED, policy::PERMISSION_INCREASE,
                policy::ROLLBACK_TO, policy::UNINSTALL, policy::UPDATE_WINDOW, policy::UPGRADE,
                policy::USER_ROLES,
            ],
            Self::Catalog => &[
                policy::ACCEPT_IMAGE, policy::MINIMUM_AGE, policy::PAUSED, policy::PULL_SECRET,
                policy::QUARANTINE, policy::REFRESH,
            ],
            Self::ObjectSet => &[
                policy::CRD_SAFETY_ALLOW, policy::CRD_SAFETY_REASON, policy::PAUSED,
                policy::UNINSTALL, policy::WEBHOOK_CERTIFICATES,
            ],
        }
    }

    /// Returns the name of the kind as kubectl takes it.
    fn resource(self) -> &'static str {
        match self {
            Self::Extension => "clusterextension",
            Self::Catalog => "clustercatalog",
            Self::ObjectSet => "clusterobjectset",
        }
    }

    /// Returns what is not done while an annotation cannot be followed.
    fn stands_still(self) -> &'static str {
        match self {
            Self::Extension | Self::ObjectSet => "nothing is reconciled",
            Self::Catalog => "no newer content is served",
        }
    }
}

/// An annotation that cannot be followed; nothing is changed until it can.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It asks for what is not known, or not done.
    #[error("{_0}: remove it; {} until then", _1.stands_still())]
    Key(UnsupportedKey, Carrier),
    /// Its value is not one of those that are known.
    #[error("annotation {annotation} is invalid")]
    Value { annotation: &'static str, source: ValueError },
    /// Upgrades of CRDs are let pass for no reason.
    #[error(
        "annotation {} requires annotation {}",
        policy::CRD_SAFETY_ALLOW,
        policy::CRD_SAFETY_REASON
    )]
    NoReason,
    /// Several cannot be followed.
    #[error("{}", _0.iter().map(|it| Chain(it)).join("; "))]
    Several(Vec<Self>),
}

/// Why the value of an annotation is not one of those that are known.
pub type ValueError = Box<dyn Error + Send + Sync>;

/// The value of an annotation is not one of a few words.
#[derive(Debug, thiserror::Error)]
#[error("unknown value {}: must be {must_be}", quote(found))]
struct UnknownWord {
    found: String,
    must_be: Cow<'static, str>,
}

/// The annotations of an object that are read one after the other.
pub(crate) struct Reader<'a> {
    annotations: &'a BTreeMap<String, String>,
    /// What cannot be followed of those that were read.
    wrong: Vec<PolicyError>,
}

impl<'a> Reader<'a> {
    pub(crate) fn of(carrier: Carrier, annotations: &'a BTreeMap<String, String>) -> Self {
        let unsupported = unsupported_keys(carrier, annotations);
        Self { annotations, wrong: unsupported.map(|it| PolicyError::Key(it, carrier)).collect() }
    }

    pub(crate) fn read<T>(
        &mut self,
        annotation: &'static str,
        parse: impl FnOnce(&str) -> Result<T, ValueError>,
    ) -> Option<T> {
        let read = parse(self.annotations.get(annotation)?);
        read.map_err(|source| self.refuse(PolicyError::Value { annotation, source })).ok()
    }

    /// Reads an annotation that has one of two words: whether it is the first.
    pub(crate) fn switch(
        &mut self,
        annotation: &'static str,
        [on, off]: [&'static str; 2],
    ) -> Option<bool> {
        self.read(annotation, |text| {
            let known = [on, off].contains(&text).then_some(text == on);
            one_of(text, known, format!("{on} or {off}"))
        })
    }

    /// Reads an annotation that has one of a few words.
    pub(crate) fn word<T: FromStr>(
        &mut self,
        annotation: &'static str,
        must_be: &'static str,
    ) -> Option<T> {
        self.read(annotation, |text| one_of(text, text.parse().ok(), must_be))
    }

    pub(crate) fn paused(&mut self) -> bool {
        self.word(policy::PAUSED, "true or false").unwrap_or(false)
    }

    pub(crate) fn refuse(&mut self, wrong: PolicyError) {
        self.wrong.push(wrong);
    }

    /// Returns what was read, if nothing was wrong; otherwise all that was.
    pub(crate) fn end<T>(mut self, read: T) -> Result<T, PolicyError> {
        if self.wrong.len() > 1 {
            return Err(PolicyError::Several(self.wrong));
        }
        self.wrong.pop().map_or(Ok(read), Err)
    }
}

pub(crate) fn one_of<T>(
    text: &str,
    read: Option<T>,
    must_be: impl Into<Cow<'static, str>>,
) -> Result<T, ValueError> {
    read.ok_or_else(|| UnknownWord { found: text.to_owned(), must_be: must_be.into() }.into())
}

/// A policy annotation that would be ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedKey {
    /// The key is unknown.
    #[error("annotation {} is unknown", quote(_0))]
    Unknown(String),
    /// Nobody knows what is to become of objects when the extension is deleted.
    #[error(transparent)]
    Uninstall(uninstall::UnknownPolicy),
}

impl UnsupportedKey {
    pub fn key(&self) -> &str {
        match self {
            Self::Unknown(key) => key,
            Self::Uninstall(_) => policy::UNINSTALL,
        }
    }
}

/// Returns the annotations with the policy prefix that are not supported on a kind, or say what is not.
pub fn unsupported_keys(
    carrier: Carrier,
    annotations: &BTreeMap<String, String>,
) -> impl Iterator<Item = UnsupportedKey> {
    let understood = carrier.understood();
    let unknown = annotations
        .keys()
        .filter(|key| key.starts_with(policy::PREFIX) && !understood.contains(&key.as_str()));
    let unknown = unknown.cloned().map(UnsupportedKey::Unknown);
    unknown.chain(uninstall::check_annotation(annotations).err().map(UnsupportedKey::Uninstall))
}

/// Returns whether the annotations of a ClusterObjectSet ask for a pause.
///
/// # Errors
/// Names all of them that cannot be followed.
pub fn paused(annotations: &BTreeMap<String, String>) -> Result<bool, PolicyError> {
    let mut reader = Reader::of(Carrier::ObjectSet, annotations);
    let paused = reader.paused();
    reader.end(paused)
}

/// Returns why nothing of the object `name` is removed, and what to do, if its annotations ask for
/// what this version cannot do.
pub fn removal_hold(
    carrier: Carrier,
    name: &str,
    annotations: &BTreeMap<String, String>,
) -> Option<String> {
    let unsupported: Vec<_> = unsupported_keys(carrier, annotations).collect();
    let keys = unsupported.iter().map(|it| format!(" {}-", it.key())).join("");
    let resource = carrier.resource();
    (!unsupported.is_empty()).then(|| {
        format!(
            "{REMOVAL_BLOCKED}{}; to remove anyway: kubectl annotate {resource} {name}{keys}",
            unsupported.iter().join("; ")
        )
    })
}

/// Says whether the annotations ask for a pause: nothing is applied.
pub fn is_paused(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(policy::PAUSED).map(String::as_str) == Some("true")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    const CASES: &str = include_str!("testdata/cases.yaml");

    fn annotations(key: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(key.to_owned(), "x".to_owned())])
    }

    #[test]
    fn keys() {
        for (kind, key, unknown) in cases::<(&str, &str, Option<&str>)>(CASES, "keys") {
            let carrier = match kind {
                "ClusterExtension" => Carrier::Extension,
                "ClusterCatalog" => Carrier::Catalog,
                _ => Carrier::ObjectSet,
            };
            let got = unsupported_keys(carrier, &annotations(key)).next().map(|it| it.to_string());
            let want =
                unknown.map(|it| format!("annotation \"{}{it}\" is unknown", policy::PREFIX));
            assert_eq!(got, want);
        }
    }

    // applying.md 10
    #[test]
    fn a_pause_of_a_cluster_object_set_is_true_or_false() {
        let paused = |word: Option<&str>| {
            let annotation = word.map(|word| (policy::PAUSED.to_owned(), word.to_owned()));
            super::paused(&annotation.into_iter().collect()).ok()
        };
        assert_eq!(
            [None, Some("false"), Some("true"), Some("True")].map(paused),
            [Some(false), Some(false), Some(true), None]
        );
        let both = [policy::PAUSED, policy::FORCE].into_iter().flat_map(annotations);
        let text = super::paused(&both.collect()).unwrap_err().to_string();
        let [force, paused] = [policy::FORCE, policy::PAUSED].map(|key| text.find(key).unwrap());
        assert!(force < paused, "{text}");
    }

    #[test]
    fn a_hold_says_the_way_out() {
        let hold = |carrier, key| removal_hold(carrier, "e", &annotations(key));
        assert_eq!(hold(Carrier::Extension, policy::FORCE), None);
        let text = hold(Carrier::Extension, policy::UNINSTALL).unwrap();
        let way_out =
            "kubectl annotate clusterextension e policy.olm.operatorframework.io/uninstall-";
        assert!(text.ends_with(way_out), "{text}");
        let text = hold(Carrier::ObjectSet, policy::FORCE).unwrap();
        let way_out = "kubectl annotate clusterobjectset e policy.olm.operatorframework.io/force-";
        assert!(text.ends_with(way_out), "{text}");
        let several = [policy::QUARANTINE, policy::UNINSTALL].into_iter().flat_map(annotations);
        let text = removal_hold(Carrier::Extension, "e", &several.collect()).unwrap();
        let way_out = "is not one of Delete, RetainCRDs, BlockIfInstances; to remove anyway: kubectl \
            annotate clusterextension e policy.olm.operatorframework.io/quarantine- \
            policy.olm.operatorframework.io/uninstall-";
        assert!(text.ends_with(way_out), "{text}");
    }
}
