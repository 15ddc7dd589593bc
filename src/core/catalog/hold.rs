//! Whether newer content of a catalog is taken, or held back because an annotation of its
//! ClusterCatalog says so.
//!
//! In: the annotations, the digest that the image's reference names now, since when it is waiting,
//! and what it would change. Out: why it is held. Source: applying.md 10.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use olm_api::conditions::Reason;
use olm_api::keys::policy;

use super::diff::PackageDiff;
use super::named::{named, short};
use crate::annotations::{Carrier, PolicyError, Reader, ValueError, one_of};
use crate::error::quote;

/// What the annotations of a ClusterCatalog specify for newer content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogPolicy {
    paused: bool,
    minimum_age: Option<SignedDuration>,
    quarantine: bool,
    accepted: Option<String>,
}

/// Why newer content is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// The catalog is paused.
    Paused,
    /// It has not been known for long enough; the moment at which it has.
    TooYoung(Timestamp),
    /// It removes or changes packages, channels or versions; a description of each change.
    Suspicious(Vec<String>),
}

impl CatalogPolicy {
    /// Reads the annotations of a ClusterCatalog.
    ///
    /// # Errors
    /// Names all of them that cannot be followed; what is served stays until they can.
    pub fn of(annotations: &BTreeMap<String, String>) -> Result<Self, PolicyError> {
        let mut reader = Reader::of(Carrier::Catalog, annotations);
        let policy = Self {
            paused: reader.paused(),
            minimum_age: reader.read(policy::MINIMUM_AGE, minimum_age),
            quarantine: reader.switch(policy::QUARANTINE, ["Suspicious", "None"]).unwrap_or(false),
            accepted: annotations.get(policy::ACCEPT_IMAGE).cloned(),
        };
        reader.end(policy)
    }

    /// Returns whether content that waits for its minimum age keeps waiting when newer content is
    /// published.
    pub fn keeps_its_turn(&self) -> bool {
        self.minimum_age.is_some()
    }

    /// Returns why content that has been known since `since` is held, regardless of what it
    /// contains.
    pub fn holds(&self, digest: &str, since: Timestamp, now: Timestamp) -> Option<Hold> {
        if self.paused {
            return Some(Hold::Paused);
        }
        let old_enough = since.checked_add(self.minimum_age?).unwrap_or(Timestamp::MAX);
        (now < old_enough && !self.accepts(digest)).then_some(Hold::TooYoung(old_enough))
    }

    /// Returns whether the changes of the content must be examined before it is served.
    pub fn examines(&self, digest: &str) -> bool {
        self.quarantine && !self.accepts(digest)
    }

    /// Returns whether no newer content is served at all.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Returns what to do so that held content is served.
    pub fn way_out(&self, digest: &str) -> String {
        if self.paused {
            return format!("remove annotation {}", policy::PAUSED);
        }
        format!("set annotation {}: {digest}", policy::ACCEPT_IMAGE)
    }

    fn accepts(&self, digest: &str) -> bool {
        self.accepted.as_deref() == Some(digest)
    }
}

/// Returns why content is held that changes packages so; nothing if no change is suspicious.
pub fn suspects(changes: &[PackageDiff]) -> Option<Hold> {
    let found: Vec<_> = changes.iter().flat_map(suspicious).map(|text| short(&text)).collect();
    (!found.is_empty()).then_some(Hold::Suspicious(found))
}

fn suspicious(package: &PackageDiff) -> Vec<String> {
    let name = &package.name;
    if let Some(error) = package.unreadable.as_ref().filter(|_| !package.is_new) {
        return vec![format!("package {} cannot be read: {error}", quote(name))];
    }
    if package.is_gone {
        return vec![format!("package {} is gone", quote(name))];
    }
    let removed: BTreeSet<&str> = package.removed.iter().map(String::as_str).collect();
    let is_removed = |head: &&str| removed.contains(head);
    let heads = package.heads.iter().flat_map(|head| {
        let channel = quote(&head.channel);
        let gone = head.before.split(", ").filter(is_removed);
        let gone =
            gone.map(|version| format!("{name} {version}, head of channel {channel}, is gone"));
        let mut texts: Vec<_> = gone.collect();
        if head.after.is_empty() {
            texts.push(format!("{name}: channel {channel} is gone"));
        }
        texts
    });
    let images = package.changed_images.iter();
    let images = images.map(|image| format!("{name} {} has another image", image.version));
    let changed = package.changed_versions.iter();
    let changed = changed.map(|change| format!("{name} {}: {}", change.version, change.what));
    let default = package.default_channel.iter().filter(|_| !package.is_new);
    let default = default.map(|(before, after)| {
        format!("{name}: default channel {} -> {}", quote(before), quote(after))
    });
    heads.chain(images).chain(changed).chain(default).collect()
}

impl Hold {
    /// Returns the reason in one word.
    pub fn code(&self) -> Reason {
        match self {
            Self::Paused => Reason::Paused,
            Self::TooYoung(_) => Reason::TooYoung,
            Self::Suspicious(_) => Reason::Suspicious,
        }
    }

    /// Returns the text for people: what is held, why, and what to do.
    pub fn text(&self, digest: &str) -> String {
        let accept = policy::ACCEPT_IMAGE;
        match self {
            Self::Paused => format!(
                "newer content {digest} is not served until annotation {} is removed",
                policy::PAUSED
            ),
            Self::TooYoung(until) => format!(
                "newer content {digest} is not served before {until}: to serve it now, set annotation \
                 {accept}: {digest}"
            ),
            Self::Suspicious(changes) => format!(
                "newer content {digest} is not served: {}; to serve it, set annotation {accept}: \
                 {digest}",
                named(changes)
            ),
        }
    }
}

fn minimum_age(text: &str) -> Result<SignedDuration, ValueError> {
    let days = SpanRelativeTo::days_are_24_hours();
    let span = text.parse::<Span>().ok();
    let age = span.and_then(|span| span.to_duration(days).ok()).filter(SignedDuration::is_positive);
    one_of(text, age, "a duration, for example 48h or 7d")
}

#[cfg(test)]
mod tests {
    use super::super::diff::{HeadMove, ImageChange};
    use super::*;
    use crate::error::Chain;
    use crate::fixture::cases;

    const CASES: &str = include_str!("../testdata/catalog/cases.yaml");

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn of(annotations: &[(&str, &str)]) -> Result<CatalogPolicy, PolicyError> {
        let pairs = annotations.iter();
        CatalogPolicy::of(&pairs.map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn newer_content() {
        for (annotations, hours, want) in
            cases::<(Vec<(&str, &str)>, i64, &str)>(CASES, "newer_content")
        {
            let want = match want {
                "served" => None,
                "paused" => Some(Hold::Paused),
                _ => Some(Hold::TooYoung(NOW + SignedDuration::from_hours(1))),
            };
            let since = NOW - SignedDuration::from_hours(hours);
            assert_eq!(of(&annotations).unwrap().holds("sha256:a", since, NOW), want);
        }
    }

    #[test]
    fn unknown_values_are_refused() {
        for (annotation, value) in cases::<(&str, &str)>(CASES, "unknown_values_are_refused") {
            let error = Chain(&of(&[(annotation, value)]).unwrap_err()).to_string();
            let want =
                format!("annotation {annotation} is invalid: unknown value \"{value}\": must be");
            assert!(error.starts_with(&want), "{error}");
        }
    }

    #[test]
    fn unknown_keys_are_refused() {
        let misspelt = "policy.olm.operatorframework.io/quarantne";
        assert_eq!(
            of(&[(misspelt, "Suspicious")]).unwrap_err().to_string(),
            "annotation \"policy.olm.operatorframework.io/quarantne\" is unknown: remove it; no \
             newer content is served until then"
        );
        let several = [(misspelt, "x"), (policy::PAUSED, "x"), (policy::MINIMUM_AGE, "x")];
        let text = Chain(&of(&several).unwrap_err()).to_string();
        assert_eq!(text.matches("annotation ").count(), 3, "{text}");
        assert!(of(&[(policy::PULL_SECRET, "a"), ("example.com/quarantne", "b")]).is_ok());
    }

    #[test]
    fn what_is_taken_away_or_changed_is_suspicious() {
        let harmless = PackageDiff {
            name: "kettle".to_owned(),
            added: vec!["1.1.0".to_owned()],
            removed: vec!["0.9.0".to_owned()],
            heads: vec![HeadMove {
                channel: "stable".to_owned(),
                before: "1.0.0".to_owned(),
                after: "1.1.0".to_owned(),
            }],
            ..PackageDiff::default()
        };
        assert_eq!(suspects(std::slice::from_ref(&harmless)), None);
        let head_gone = PackageDiff {
            removed: vec!["1.0.0".to_owned()],
            changed_images: vec![ImageChange {
                version: "0.9.0".to_owned(),
                before: "a".to_owned(),
                after: "b".to_owned(),
            }],
            ..harmless
        };
        let gone = PackageDiff { name: "pot".to_owned(), is_gone: true, ..PackageDiff::default() };
        let hold = suspects(&[head_gone, gone]).unwrap();
        assert_eq!(
            hold.text("sha256:a"),
            "newer content sha256:a is not served: kettle 1.0.0, head of channel \"stable\", is gone, \
             kettle 0.9.0 has another image, package \"pot\" is gone; to serve it, set annotation \
             policy.olm.operatorframework.io/accept-image: sha256:a"
        );
        let many = Hold::Suspicious(vec!["x".to_owned(); 7]).text("sha256:a");
        assert!(many.contains("x, x, x, x, x and 2 more; "), "{many}");
    }
}
