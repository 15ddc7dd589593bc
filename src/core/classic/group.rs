//! What the `OperatorGroup` of a namespace becomes.

use serde_json::{Map, Value, json};

use super::{Answer, Carried, Classic, has, text, texts};
use crate::object::Object;

/// What an `OperatorGroup` says about the operators of its namespace.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// The one namespace that is watched.
    pub(super) watches: Option<String>,
    /// The account that installs.
    pub(super) account: Option<String>,
}

impl Classic<'_> {
    /// Reads the group of a namespace.
    pub(super) fn group(&self, namespace: &str, answer: &mut Answer) -> Group {
        let mut groups = self.all("OperatorGroup");
        let Some(group) = groups.find(|group| group.namespace() == namespace) else {
            return Group::default();
        };
        let account = text(group, "/spec/serviceAccountName");
        if !account.is_empty() {
            let field = format!("serviceAccountName: {account}");
            answer.line(group, Carried::Yes, field, "becomes serviceAccount.name");
        }
        for field in ["staticProvidedAPIs", "upgradeStrategy"] {
            if has(group, &format!("/spec/{field}")) {
                let text = match field {
                    "upgradeStrategy" => "not needed: a rollout that is stuck is superseded",
                    _ => "not needed: a CRD has one owner",
                };
                answer.line(group, Carried::NotNeeded, field, text);
            }
        }
        Group {
            watches: watched(group, answer),
            account: Some(account.to_owned()).filter(|name| !name.is_empty()),
        }
    }
}

/// Returns the one namespace that a group has its operators watch; nothing for all of them.
fn watched(group: &Object, answer: &mut Answer) -> Option<String> {
    let named = texts(group, "/spec/targetNamespaces");
    let chosen = if named.is_empty() && has(group, "/spec/selector") {
        texts(group, "/status/namespaces")
    } else {
        named
    };
    let mut targets: Vec<_> = chosen.into_iter().filter(|name| !name.is_empty()).collect();
    targets.sort_unstable();
    let field = format!("targetNamespaces: {}", targets.join(", "));
    match targets[..] {
        [] => {
            let text = "watches all namespaces, as an extension does";
            answer.line(group, Carried::NotNeeded, "targetNamespaces", text);
            None
        }
        [only] => {
            answer.line(group, Carried::Yes, field, "becomes watchNamespace");
            Some(only.to_owned())
        }
        _ => {
            let text = format!(
                "watches {} namespaces ({}); an extension watches one or all",
                targets.len(),
                targets.join(", ")
            );
            answer.line(group, Carried::No, field, text);
            None
        }
    }
}

/// Returns the configuration of an extension, and says what becomes of that of a Subscription.
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
