//! What a Subscription becomes.

use olm_api::keys::{label, policy};
use serde_json::{Map, Value, json};

use super::group::configuration;
use super::{Answer, Carried, Classic, Migration, installed, ours, texts};
use crate::error::quote;
use crate::object::{Object, object};
use crate::version::Version;

impl Classic<'_> {
    /// Converts a Subscription, unless its package has an extension already.
    pub(super) fn subscription(&self, subscription: &Object, answer: &mut Answer) {
        let package = subscription.text_at("/spec/name");
        if package.is_empty() {
            let text = "is missing: there is no package name";
            return answer.line(subscription, Carried::No, "name", text);
        }
        let is_same = |it: &&Migration| it.subscription.text_at("/spec/name") == package;
        if let Some(first) = answer.migrations.iter().find(is_same) {
            let text = format!(
                "a package can be installed only once: {package} in {} is converted",
                first.subscription.namespace()
            );
            return answer.line(subscription, Carried::No, format!("name: {package}"), text);
        }
        let text = format!("becomes extension {package}");
        answer.line(subscription, Carried::Yes, format!("name: {package}"), text);
        let version = self.installed(subscription, answer);
        let mut annotations = self.approval(subscription, answer);
        self.conditions(subscription, &mut annotations, answer);
        self.proxies(subscription, &mut annotations, answer);
        if installed(subscription).is_some() {
            annotations.insert(policy::ADOPT.to_owned(), json!("CustomResourceDefinition"));
        }
        if is_dependency(subscription) {
            let text =
                "was installed as a dependency; dependencies are no longer installed automatically";
            answer.line(subscription, Carried::Yes, "metadata.name", text);
        }
        let group = self.group(subscription, answer);
        self.csv(subscription, answer);
        let account = group.account.clone().unwrap_or_else(|| format!("{package}-installer"));
        let mut spec = json!({
            "namespace": subscription.namespace(),
            "serviceAccount": {"name": account},
            "source": {"sourceType": "Catalog", "catalog": self.filter(subscription, package, answer)},
        });
        if let Some(config) = configuration(subscription, &group, answer) {
            spec["config"] = config;
        }
        let extension = |spec| ours("ClusterExtension", package, annotations.clone(), spec);
        let follow = version.as_ref().map(|_| extension(spec.clone()));
        if let Some(version) = version {
            spec["source"]["catalog"]["version"] = json!(version);
        }
        let makes_account = group.account.is_none();
        answer.migrations.push(Migration {
            subscription: subscription.clone(),
            account: makes_account
                .then(|| object("v1", "ServiceAccount", &account, subscription.namespace())),
            extension: extension(spec),
            follow,
            is_decided: group.is_decided,
        });
    }

    /// Returns what an extension asks of the catalogs, without version.
    fn filter(&self, subscription: &Object, package: &str, answer: &mut Answer) -> Value {
        let mut filter = json!({"packageName": package});
        let channel = subscription.text_at("/spec/channel");
        if channel.is_empty() {
            let text = "is empty: all channels are used; to stay in the default channel, set it";
            answer.line(subscription, Carried::No, "channel", text);
        } else {
            filter["channels"] = json!([channel]);
            let text = format!("becomes channels [{channel}]");
            answer.line(subscription, Carried::Yes, format!("channel: {channel}"), text);
        }
        let source = subscription.text_at("/spec/source");
        let namespace = subscription.text_at("/spec/sourceNamespace");
        let field = format!("source: {source}");
        if !namespace.is_empty() {
            let field = format!("sourceNamespace: {namespace}");
            answer.line(subscription, Carried::NotNeeded, field, "catalogs are cluster-scoped");
        }
        let (name, found) = self.catalog(subscription);
        let known = found.is_some() || name != source;
        if !source.is_empty() {
            let labels = json!({label::METADATA_NAME: name});
            filter["selector"] = json!({"matchLabels": labels});
        }
        if known {
            let text = format!("becomes a selector for catalog {name}");
            answer.line(subscription, Carried::Yes, field, text);
        } else {
            let text = format!("CatalogSource {} was not found", quote(source));
            answer.line(subscription, Carried::No, field, text);
        }
        filter
    }

    /// Returns the version that is installed, or that is to be.
    fn installed(&self, subscription: &Object, answer: &mut Answer) -> Option<String> {
        let csv = subscription.text_at("/status/installedCSV");
        let starting = subscription.text_at("/spec/startingCSV");
        let (field, name) =
            if csv.is_empty() { ("startingCSV", starting) } else { ("installedCSV", csv) };
        if name.is_empty() {
            return None;
        }
        if !csv.is_empty() && !starting.is_empty() {
            let field = format!("startingCSV: {starting}");
            let text = "is used only for the first installation";
            answer.line(subscription, Carried::NotNeeded, field, text);
        }
        let found = self.find("ClusterServiceVersion", subscription.namespace(), name);
        let version = found.map(|csv| csv.text_at("/spec/version"));
        let version = version.filter(|version| !version.is_empty()).or_else(|| of_name(name));
        let line = format!("{field}: {name}");
        if let Some(version) = version {
            let text = format!("becomes version {}", quote(version));
            answer.line(subscription, Carried::Yes, line, text);
        } else {
            let text =
                "its version is unknown: set spec.source.catalog.version before you apply this";
            answer.line(subscription, Carried::No, line, text);
        }
        version.map(str::to_owned)
    }

    /// Returns the annotations that say which updates come by themselves.
    fn approval(&self, subscription: &Object, answer: &mut Answer) -> Map<String, Value> {
        let mut annotations = Map::new();
        if subscription.text_at("/spec/installPlanApproval") != "Manual" {
            let text = format!(
                "updates to a new major version are held, unless annotation {} is Any",
                policy::UPGRADE
            );
            answer.line(subscription, Carried::Yes, "installPlanApproval: Automatic", text);
            return annotations;
        }
        annotations.insert(policy::UPGRADE.to_owned(), json!("None"));
        let text = format!("becomes annotation {}: None", policy::UPGRADE);
        answer.line(subscription, Carried::Yes, "installPlanApproval: Manual", text);
        let waiting = self.all("InstallPlan").filter(|plan| {
            plan.namespace() == subscription.namespace()
                && plan.pointer("/spec/approved") != Some(&Value::Bool(true))
        });
        let current = subscription.text_at("/status/currentCSV");
        for plan in waiting {
            for name in texts(plan, "/spec/clusterServiceVersionNames") {
                if name == current && name != subscription.text_at("/status/installedCSV") {
                    let version = of_name(name).unwrap_or(name);
                    let text =
                        format!("to approve it, set annotation {}: {version}", policy::APPROVE);
                    answer.line(plan, Carried::Yes, format!("waits for approval: {name}"), text);
                }
            }
        }
        annotations
    }
}

/// Returns whether OLM Classic created the Subscription as a dependency of another, which its name
/// shows.
pub(super) fn is_dependency(subscription: &Object) -> bool {
    let of = |field: &str| subscription.text_at(&format!("/spec/{field}"));
    let [name, channel] = ["name", "channel"].map(of);
    let [source, namespace] = ["source", "sourceNamespace"].map(of);
    subscription.name() == format!("{name}-{channel}-{source}-{namespace}")
}

/// Returns the version in the name of a bundle: behind the first point that one stands behind.
fn of_name(name: &str) -> Option<&str> {
    let parts = name.match_indices('.').filter_map(|(at, _)| name.get(at + 1..));
    let mut versions = parts.map(|part| part.strip_prefix('v').unwrap_or(part));
    versions.find(|version| version.parse::<Version>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_stands_behind_a_point_of_the_name() {
        let found = ["etcd.v0.9.4", "etcd.0.9.4", "kube.vault.v1.2.3", "etcd", "etcd.latest"];
        let want = [Some("0.9.4"), Some("0.9.4"), Some("1.2.3"), None, None];
        assert_eq!(found.map(of_name), want);
    }
}
