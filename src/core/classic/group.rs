//! What the `OperatorGroup` of a namespace becomes.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use olm_api::keys::policy;
use serde_json::{Map, Value, json};

use super::{Answer, Carried, Classic, has, texts};
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

impl Classic<'_> {
    /// Reads the group of a Subscription's namespace.
    pub(super) fn group(&self, subscription: &Object, answer: &mut Answer) -> Group {
        let namespace = subscription.namespace();
        let groups = self.all("OperatorGroup").filter(|group| group.namespace() == namespace);
        let groups: Vec<_> = groups.collect();
        let group = match groups[..] {
            [] => {
                let text = "not found: the extension watches all namespaces";
                answer.line(subscription, Carried::No, "OperatorGroup", text);
                return Group { is_decided: true, ..Group::default() };
            }
            [only] => only,
            _ => {
                let names = groups.iter().map(|group| group.name()).join(", ");
                let text = format!(
                    "conflict: OLM Classic installs nothing while there are several ({names}); keep \
                     one of them"
                );
                for group in groups {
                    answer.line(group, Carried::No, "metadata.namespace", text.clone());
                }
                return Group::default();
            }
        };
        let account = group.text_at("/spec/serviceAccountName");
        if !account.is_empty() {
            let field = format!("serviceAccountName: {account}");
            answer.line(group, Carried::Yes, field, "becomes serviceAccount.name");
        }
        for (field, text) in [
            ("staticProvidedAPIs", "not needed: a CRD belongs to one extension"),
            ("upgradeStrategy", "not needed: the next version replaces a stuck rollout"),
        ] {
            if has(group, &format!("/spec/{field}")) {
                answer.line(group, Carried::NotNeeded, field, text);
            }
        }
        let converted = convert(group, answer);
        let text = format!(
            "are deleted with the OperatorGroup; annotation {} creates roles for users",
            policy::USER_ROLES
        );
        let roles = format!("roles olm.og.{}.*", group.name());
        answer.line(group, Carried::NotNeeded, roles, text);
        Group { account: Some(account.to_owned()).filter(|name| !name.is_empty()), ..converted }
    }
}

/// Returns the field of a group that says which namespaces its operators watch, and these. None are
/// all of them; with a selector, its status does not list them yet.
pub(super) fn watched(group: &Object) -> (&'static str, BTreeSet<&str>) {
    let targets = texts(group, "/spec/targetNamespaces");
    let (field, names) = if targets.is_empty() && selects(group) {
        ("selector", texts(group, "/status/namespaces"))
    } else {
        ("targetNamespaces", targets)
    };
    (field, names.into_iter().filter(|name| !name.is_empty()).collect())
}

fn selects(group: &Object) -> bool {
    ["matchLabels", "matchExpressions"].iter().any(|it| has(group, &format!("/spec/selector/{it}")))
}

/// Returns the one namespace that an extension then watches, if that is known.
fn convert(group: &Object, answer: &mut Answer) -> Group {
    let (field, names) = watched(group);
    if selects(group) && field != "selector" {
        let text = "ignored by OLM Classic, because targetNamespaces is set";
        answer.line(group, Carried::NotNeeded, "selector", text);
    }
    let (count, listed) = (names.len(), names.iter().join(", "));
    let line = format!("{field}: {listed}");
    match names.first() {
        None if field == "selector" => {
            let text = "its status does not list the selected namespaces: set targetNamespaces";
            answer.line(group, Carried::No, field, text);
            return Group::default();
        }
        None => {
            let text = "watches all namespaces, like an extension by default";
            answer.line(group, Carried::NotNeeded, field, text);
        }
        Some(_) if count == 1 => answer.line(group, Carried::Yes, line, "becomes watchNamespace"),
        Some(_) => {
            let text = format!(
                "watches {count} namespaces ({listed}); an extension watches one or all: set \
                 watchNamespace, or it watches all"
            );
            answer.line(group, Carried::No, line, text);
        }
    }
    let watches = names.first().filter(|_| count == 1).map(|only| (*only).to_owned());
    Group { watches, is_decided: true, account: None }
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
            let text = "ignored by OLM Classic";
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
