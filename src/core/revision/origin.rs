//! How a revision came about, as its annotations record it.
//!
//! Source: plugin.md 1.4 (`history`), applying.md 10 (F10, F23).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use olm_api::keys::{annotation, policy};
use olm_api::{ClusterExtension, ClusterObjectSet};

use crate::status::truncate;

/// The origin of a revision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The catalog that offered its bundle.
    pub catalog: Option<String>,
    /// Who last wrote spec or policy of the extension.
    pub changed_by: Option<String>,
    /// The version that was installed before a forced step.
    pub forced_from: Option<String>,
    /// Number of the earlier revision whose content it has.
    pub content_of: Option<i64>,
    /// The bundle whose rollout failed, and how that stood.
    pub reverted: Option<(String, String)>,
}

/// Annotations of a revision that say how it came about: they stay as they are as long as it is
/// there.
#[rustfmt::skip]
pub(super) const RECORDED: [&str; 8] = [
    annotation::CATALOG, annotation::CHANGED_BY, annotation::FORCED_FROM, annotation::CONTENT_OF,
    annotation::REVERTED, annotation::REVERTED_BECAUSE, policy::CRD_SAFETY_ALLOW,
    policy::CRD_SAFETY_REASON,
];

impl Origin {
    /// Reads what a revision records.
    pub fn of(revision: &ClusterObjectSet) -> Self {
        let text = |key: &str| revision.annotation(key).map(str::to_owned);
        let because = text(annotation::REVERTED_BECAUSE).unwrap_or_default();
        Self {
            catalog: text(annotation::CATALOG),
            changed_by: text(annotation::CHANGED_BY),
            forced_from: text(annotation::FORCED_FROM),
            content_of: text(annotation::CONTENT_OF).and_then(|number| number.parse().ok()),
            reverted: text(annotation::REVERTED).map(|bundle| (bundle, because)),
        }
    }

    /// Returns the annotations that record it.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let (bundle, mut because) = self.reverted.clone().unzip();
        because.iter_mut().for_each(truncate);
        let all = [
            (annotation::CATALOG, self.catalog.clone()),
            (annotation::CHANGED_BY, self.changed_by.clone()),
            (annotation::FORCED_FROM, self.forced_from.clone()),
            (annotation::CONTENT_OF, self.content_of.map(|number| number.to_string())),
            (annotation::REVERTED, bundle),
            (annotation::REVERTED_BECAUSE, because),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    /// Returns a short note if the origin is unusual: a rollback or a forced step.
    pub fn note(&self) -> Option<String> {
        let of = self.content_of.map(|number| format!("content of {number}"));
        let forced = self.forced_from.as_ref();
        let forced = forced.map(|version| format!("forced from {version}"));
        let reverted = self.reverted.as_ref();
        let reverted = reverted.map(|(bundle, because)| format!("{bundle} failed: {because}"));
        let all: Vec<_> = [forced, of, reverted].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// Returns the field manager that last wrote spec or policy annotations of an extension.
pub fn changed_by(extension: &ClusterExtension) -> Option<String> {
    let entries = extension.metadata.managed_fields.iter().flatten();
    let last = entries
        .filter(|entry| decides(entry))
        .max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?;
    last.manager.clone()
}

fn decides(entry: &ManagedFieldsEntry) -> bool {
    let Some(fields) = &entry.fields_v1 else { return false };
    let annotations = fields.0.pointer("/f:metadata/f:annotations");
    let mut keys = annotations.and_then(|it| it.as_object()).into_iter().flatten();
    let policy =
        |key: &str| key.strip_prefix("f:").is_some_and(|key| key.starts_with(policy::PREFIX));
    fields.0.get("f:spec").is_some() || keys.any(|(key, _)| policy(key))
}

#[cfg(test)]
mod tests {
    use olm_api::ClusterObjectSetSpec;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_recorded_is_read() {
        let origin = Origin {
            catalog: Some("community".into()),
            changed_by: Some("argocd".into()),
            forced_from: Some("1.0.0".into()),
            content_of: Some(4),
            reverted: Some(("p.v2".into(), "not ready".into())),
        };
        let mut revision = ClusterObjectSet::new("e-1", ClusterObjectSetSpec::default());
        revision.metadata.annotations = Some(origin.annotations());
        assert_eq!(Origin::of(&revision), origin);
        let note = "forced from 1.0.0; content of 4; p.v2 failed: not ready";
        assert_eq!(origin.note().as_deref(), Some(note));
        assert_eq!(Origin::default().note(), None);
    }

    #[test]
    fn who_decided_last_is_named() {
        let entry = |manager: &str, minute: u8, fields: serde_json::Value| {
            json!({"manager": manager, "time": format!("2026-01-01T00:0{minute}:00Z"),
                "fieldsV1": fields})
        };
        let policy = json!({"f:metadata": {"f:annotations": {
            "f:policy.olm.operatorframework.io/upgrade": {}}}});
        let extension: ClusterExtension = serde_json::from_value(json!({"metadata": {"name": "e",
        "managedFields": [
            entry("argocd", 1, json!({"f:spec": {}})),
            entry("kubectl-olm", 2, policy),
            entry("operator-controller", 3, json!({"f:metadata": {"f:finalizers": {}}})),
        ]}}))
        .unwrap();
        assert_eq!(changed_by(&extension).as_deref(), Some("kubectl-olm"));
    }
}
