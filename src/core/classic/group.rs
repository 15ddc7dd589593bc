//! What the `OperatorGroup` of a namespace becomes.

use olm_api::keys::policy;
use serde_json::{Map, Value, json};

use super::{Answer, Carried, Classic, has, text, texts};
use crate::object::Object;

/// What the `OperatorGroup` of a namespace means for its operators.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// The one namespace that is watched.
    pub(super) watches: Option<String>,
    /// The account that installs.
    pub(super) account: Option<String>,
    /// Which namespaces are watched is known.
    pub(super) is_decided: bool,
}

/// Namespaces that a group has its operators watch.
enum Watched {
    All,
    One(String),
    Several,
    Unknown,
}

impl Classic<'_> {
    /// Reads the group of a Subscription's namespace.
    pub(super) fn group(&self, subscription: &Object, answer: &mut Answer) -> Group {
        let namespace = subscription.namespace();
        let groups = self.all("OperatorGroup").filter(|group| group.namespace() == namespace);
        let groups: Vec<_> = groups.collect();
        let group = match groups[..] {
            [] => {
                let text = "is not among the objects: the extension watches all namespaces";
                answer.line(subscription, Carried::No, "OperatorGroup", text);
                return Group { is_decided: true, ..Group::default() };
            }
            [only] => only,
            _ => {
                let names: Vec<_> = groups.iter().map(|group| group.name()).collect();
                let text = format!(
                    "conflict: OLM Classic installs nothing beside {}; keep one of them",
                    names.join(", ")
                );
                for group in groups {
                    answer.line(group, Carried::No, "metadata.namespace", text.clone());
                }
                return Group::default();
            }
        };
        let account = text(group, "/spec/serviceAccountName");
        if !account.is_empty() {
            let field = format!("serviceAccountName: {account}");
            answer.line(group, Carried::Yes, field, "becomes serviceAccount.name");
        }
        for (field, text) in [
            ("staticProvidedAPIs", "not needed: a CRD has one owner"),
            ("upgradeStrategy", "not needed: a rollout that is stuck is superseded"),
        ] {
            if has(group, &format!("/spec/{field}")) {
                answer.line(group, Carried::NotNeeded, field, text);
            }
        }
        let watched = watched(group, answer);
        let text =
            format!("go with the group: annotation {} makes others for users", policy::USER_ROLES);
        let roles = format!("roles olm.og.{}.*", group.name());
        answer.line(group, Carried::NotNeeded, roles, text);
        Group {
            is_decided: !matches!(watched, Watched::Unknown),
            watches: if let Watched::One(only) = watched { Some(only) } else { None },
            account: Some(account.to_owned()).filter(|name| !name.is_empty()),
        }
    }
}

/// Returns the namespaces that a group has its operators watch.
fn watched(group: &Object, answer: &mut Answer) -> Watched {
    let selects = ["matchLabels", "matchExpressions"]
        .iter()
        .any(|part| has(group, &format!("/spec/selector/{part}")));
    let mut targets = texts(group, "/spec/targetNamespaces");
    let mut field = "targetNamespaces";
    if selects && targets.is_empty() {
        field = "selector";
        targets = texts(group, "/status/namespaces");
        if targets.is_empty() {
            let text = "its status does not name the namespaces that it selects: set \
                        targetNamespaces";
            answer.line(group, Carried::No, field, text);
            return Watched::Unknown;
        }
    } else if selects {
        let text = "OLM Classic ignores it beside targetNamespaces";
        answer.line(group, Carried::NotNeeded, "selector", text);
    }
    targets.retain(|name| !name.is_empty());
    targets.sort_unstable();
    let line = format!("{field}: {}", targets.join(", "));
    match targets[..] {
        [] => {
            let text = "watches all namespaces, as an extension does";
            answer.line(group, Carried::NotNeeded, field, text);
            Watched::All
        }
        [only] => {
            answer.line(group, Carried::Yes, line, "becomes watchNamespace");
            Watched::One(only.to_owned())
        }
        _ => {
            let text = format!(
                "watches {} namespaces ({}); an extension watches one or all",
                targets.len(),
                targets.join(", ")
            );
            answer.line(group, Carried::No, line, text);
            Watched::Several
        }
    }
}

/// Returns the configuration of an extension, with a line for each field of a Subscription's.
pub(super) fn configuration(
    subscription: &Object,
    group: &Group,
    answer: &mut Answer,
) -> Option<Value> {
    let mut inline = Map::new();
    if let Some(namespace) = &group.watches {
        inline.insert("watchNamespace".to_owned(), json!(namespace));
    }
    let config = subscription.pointer("/spec/config").and_then(Value::as_object);
    let mut deployment = Map::new();
    for (key, value) in config.into_iter().flatten() {
        if key == "selector" {
            let text = "OLM Classic reads it, but does nothing with it";
            answer.line(subscription, Carried::NotNeeded, "config.selector", text);
            continue;
        }
        let text = format!("becomes config.inline.deploymentConfig.{key}");
        answer.line(subscription, Carried::Yes, format!("config.{key}"), text);
        deployment.insert(key.clone(), value.clone());
    }
    if !deployment.is_empty() {
        inline.insert("deploymentConfig".to_owned(), Value::Object(deployment));
    }
    (!inline.is_empty()).then(|| json!({"configType": "Inline", "inline": inline}))
}
