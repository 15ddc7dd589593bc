//! Extensions: the documents of `status`, `why`, `plan` and `history`.

use askama::Template;
use olm_api::conditions::{Reason, types};
use serde::Deserialize;
use serde_json::Value;

use super::shell::{FIRST, Shell};
use crate::document::{ExtensionRow, Happened, Ready, RevisionRow, Tree, Unknown};

/// The document of `status`.
#[derive(Template, Deserialize)]
#[template(path = "installed.html")]
pub(crate) struct Installed {
    #[serde(skip)]
    pub(crate) shell: Shell,
    extensions: Vec<ExtensionRow>,
}

impl Happened {
    fn is_warning(&self) -> bool {
        self.type_.as_deref() == Some("Warning")
    }
}

impl Ready {
    fn is_true(&self) -> bool {
        self.status.as_deref() == Some("True")
    }

    /// In one word why it is not ready.
    fn word(&self) -> &str {
        self.reason.as_deref().unwrap_or("Unknown")
    }

    /// Returns the class that colors it, its mark and its word; a rollout is not a failure.
    fn mark(&self) -> (&'static str, &'static str, &str) {
        let under_way = [Reason::RollingOut, Reason::Reconciling, Reason::Uninstalling];
        match &self.reason {
            _ if self.is_true() => ("good", "✓", "ready"),
            Some(reason) if !under_way.iter().any(|it| it.as_str() == reason) => {
                ("bad", "✗", self.word())
            }
            _ => ("warning", "…", self.word()),
        }
    }
}

/// An extension: the documents of `status NAME` and `why NAME`, its conditions, the strongest rights of
/// its account and the extension itself as YAML.
#[derive(Template, Deserialize)]
#[template(path = "extension.html")]
pub(crate) struct ExtensionPage {
    #[serde(skip)]
    pub(crate) shell: Shell,
    status: ExtensionRow,
    why: Option<Why>,
    #[serde(default)]
    conditions: Vec<Condition>,
    strong: Option<Vec<String>>,
    manifest: Option<String>,
    #[serde(default)]
    unknown: Vec<Unknown>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: String,
    last_transition_time: String,
}

impl ExtensionPage {
    /// Returns its deprecations with their messages.
    fn deprecations(&self) -> Vec<(&'static str, &str)> {
        let named = [
            (types::PACKAGE_DEPRECATED, "The package"),
            (types::CHANNEL_DEPRECATED, "A channel that it follows"),
            (types::BUNDLE_DEPRECATED, "The installed version"),
        ];
        let found = named.into_iter().filter_map(|(type_, what)| {
            let found =
                self.conditions.iter().find(|it| it.type_ == type_ && it.status == "True")?;
            Some((what, found.message.as_str()))
        });
        found.collect()
    }
}

/// The document of `why`.
#[derive(Deserialize)]
struct Why {
    #[serde(default)]
    assumed: Vec<String>,
    result: String,
    message: Option<String>,
    #[serde(default)]
    holds: Vec<Hint>,
    selected: Option<Selected>,
    bundles: Vec<Candidate>,
    hints: Vec<Hint>,
}

impl Why {
    /// Returns the candidates that are shown at once, and the others.
    fn candidates(&self) -> (&[Candidate], &[Candidate]) {
        self.bundles.split_at(self.bundles.len().min(FIRST))
    }
}

#[derive(Deserialize)]
struct Selected {
    catalog: String,
    bundle: String,
    version: String,
}

#[derive(Deserialize)]
struct Candidate {
    catalog: String,
    name: String,
    version: Option<String>,
    channels: Vec<String>,
    verdict: String,
    reasons: Vec<Hint>,
}

impl Candidate {
    fn version(&self) -> &str {
        self.version.as_ref().unwrap_or(&self.name)
    }
}

#[derive(Deserialize)]
struct Hint {
    text: String,
}

/// Another view of an extension, or what is not known of it.
#[derive(Template, Deserialize)]
#[template(path = "part.html")]
pub(crate) struct PartPage {
    #[serde(skip)]
    pub(crate) shell: Shell,
    #[serde(skip)]
    pub(crate) part: &'static str,
    name: String,
    plan: Option<PlanFile>,
    tree: Option<Tree>,
    history: Option<History>,
    #[serde(default)]
    unknown: Vec<Unknown>,
}

/// The document of `plan`, and the same in words.
#[derive(Template, Deserialize)]
#[template(path = "plan.html")]
pub(crate) struct PlanFile {
    plan: Plan,
    headline: String,
    rows: Vec<(String, Vec<String>)>,
    release: Option<String>,
}

impl PlanFile {
    pub(crate) fn title(&self) -> String {
        format!("{}: plan", self.plan.extension)
    }
}

#[derive(Deserialize)]
struct Plan {
    extension: String,
    objects: Vec<Change>,
    #[serde(default)]
    notes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Change {
    action: String,
    phase: Option<String>,
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    #[serde(default)]
    fields: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    path: String,
    from: Value,
    to: Value,
}

impl Field {
    /// Returns the old and the new value.
    fn values(&self) -> Vec<(&'static str, String)> {
        let both = [("-", &self.from), ("+", &self.to)].into_iter();
        let there = both.filter(|(_, value)| !value.is_null());
        there.map(|(sign, value)| (sign, value.to_string())).collect()
    }
}

/// The document of `history`.
#[derive(Deserialize)]
struct History {
    revisions: Vec<RevisionRow>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{cases, condition};

    fn page(mut document: Value) -> String {
        document["status"]["name"] = "lamp".into();
        for member in ["heldBy", "do"] {
            document["status"][member] = json!([]);
        }
        let page: ExtensionPage = serde_json::from_value(document).unwrap();
        page.render().unwrap()
    }

    #[test]
    fn what_is_under_way_has_not_failed() {
        type Case = (String, Value, String);
        for (name, (status, reason, want)) in cases::<Case>("what_is_under_way_has_not_failed") {
            let ready = json!({"status": status, "reason": reason, "message": "x"});
            let page = page(json!({"status": {"ready": ready}}));
            assert!(page.contains(&want), "{name}: {page}");
        }
    }

    #[test]
    fn an_extension_shows_what_its_catalog_its_account_and_its_events_say() {
        let condition = |type_: &str, message| condition(type_, "True", "Deprecated", message);
        let page = page(json!({
            "status": {"ready": {"status": "True"}, "package": "lamp-operator",
                "catalog": {"name": "lamps", "serving": "True", "priority": 0},
                "serviceAccount": "lamp-installer",
                "events": [{"last": "2026-01-01T00:00:00Z", "type": "Warning", "reason": "Held",
                    "message": "2.0.0 is held", "count": 3}]},
            "conditions": [condition("Deprecated", "x"), condition("BundleDeprecated", "flickers")],
            "strong": ["reads every Secret"],
            "manifest": "kind: ClusterExtension\n",
        }));
        for want in [
            "<strong>The installed version is deprecated</strong></p><p>flickers</p>",
            "<a href=\"/package/lamps/lamp-operator\">lamp-operator</a>",
            "<span class=\"tag warn\">reads every Secret</span>",
            "2.0.0 is held (3 times)",
            "datetime=\"2026-01-01T00:00:00Z\"",
            "<pre>kind: ClusterExtension\n</pre>",
        ] {
            assert!(page.contains(want), "{want}: {page}");
        }
    }
}
