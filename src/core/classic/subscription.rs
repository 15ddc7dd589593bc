//! What a Subscription becomes.

use std::collections::BTreeMap;

use olm_api::keys::{label, policy};
use serde_json::{Value, json};

use super::group::{Group, configuration};
use super::{Answer, Carried, Classic, Migration, source, text, texts};
use crate::error::quote;
use crate::object::Object;
use crate::version::Version;

impl Classic<'_> {
    /// Converts a Subscription, unless its package has an extension already.
    pub(super) fn subscription<'s>(
        &self,
        subscription: &'s Object,
        packages: &mut BTreeMap<&'s str, &'s Object>,
        answer: &mut Answer,
    ) {
        let package = text(subscription, "/spec/name");
        if package.is_empty() {
            let text = "is missing: it names no package";
            return answer.line(subscription, Carried::No, "name", text);
        }
        if let Some(first) = packages.get(package) {
            let text = format!(
                "a cluster holds a package once: {package} is carried from {}",
                first.namespace()
            );
            return answer.line(subscription, Carried::No, format!("name: {package}"), text);
        }
        packages.insert(package, subscription);
        let mut metadata = json!({"name": package});
        answer.line(
            subscription,
            Carried::Yes,
            format!("name: {package}"),
            format!("becomes extension {package}"),
        );
        let version = self.installed(subscription, answer);
        let mut annotations = self.approval(subscription, answer);
        self.conditions(subscription, &mut annotations, answer);
        self.proxies(subscription, &mut annotations, answer);
        let csv = text(subscription, "/status/installedCSV");
        if !csv.is_empty() {
            annotations.insert(policy::ADOPT.to_owned(), json!("CustomResourceDefinition"));
        }
        if is_dependency(subscription) {
            let text = "was installed for another: nothing will install or update it for you";
            answer.line(subscription, Carried::Yes, "metadata.name", text);
        }
        if !annotations.is_empty() {
            metadata["annotations"] = Value::Object(annotations);
        }
        let group = self.group(subscription, answer);
        self.csv(subscription, answer);
        let account = account_name(&group, package);
        let mut spec = json!({
            "namespace": subscription.namespace(),
            "serviceAccount": {"name": account},
            "source": {"sourceType": "Catalog", "catalog": self.filter(subscription, package, answer)},
        });
        if let Some(config) = configuration(subscription, &group, answer) {
            spec["config"] = config;
        }
        let extension = |version: Option<&str>| {
            let mut spec = spec.clone();
            if let Some(version) = version {
                spec["source"]["catalog"]["version"] = json!(version);
            }
            Object::from_value(json!({"apiVersion": olm_api::API_VERSION,
                "kind": "ClusterExtension", "metadata": metadata, "spec": spec}))
        };
        let made = group.account.is_none().then(|| {
            Object::from_value(json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": subscription.namespace()}}))
        });
        let Some(pinned) = extension(version.as_deref()) else {
            return;
        };
        answer.migrations.push(Migration {
            subscription: (subscription.namespace().to_owned(), subscription.name().to_owned()),
            is_dependency: is_dependency(subscription),
            csv: Some(csv.to_owned()).filter(|csv| !csv.is_empty()),
            account: made.flatten(),
            follow: version.and_then(|_| extension(None)),
            extension: pinned,
            is_decided: group.is_decided,
        });
    }

    /// Returns what an extension asks of the catalogs, without version.
    fn filter(&self, subscription: &Object, package: &str, answer: &mut Answer) -> Value {
        let mut filter = json!({"packageName": package});
        let channel = text(subscription, "/spec/channel");
        if channel.is_empty() {
            let text = "is empty: every channel counts; name the package's default channel to \
                        stay within it";
            answer.line(subscription, Carried::No, "channel", text);
        } else {
            filter["channels"] = json!([channel]);
            let text = format!("becomes channels [{channel}]");
            answer.line(subscription, Carried::Yes, format!("channel: {channel}"), text);
        }
        let source = text(subscription, "/spec/source");
        let namespace = text(subscription, "/spec/sourceNamespace");
        let field = format!("source: {source}");
        if !namespace.is_empty() {
            let field = format!("sourceNamespace: {namespace}");
            answer.line(subscription, Carried::NotNeeded, field, "a catalog is in no namespace");
        }
        let known =
            source::is_default(source) || self.find("CatalogSource", namespace, source).is_some();
        let name = source::name(source);
        if !source.is_empty() {
            let labels = json!({label::METADATA_NAME: name});
            filter["selector"] = json!({"matchLabels": labels});
        }
        if known {
            let text = format!("becomes a selector of catalog {name}");
            answer.line(subscription, Carried::Yes, field, text);
        } else {
            let text = format!("catalog {} is not among the sources", quote(source));
            answer.line(subscription, Carried::No, field, text);
        }
        filter
    }

    /// Returns the version that is installed, or that is to be.
    fn installed(&self, subscription: &Object, answer: &mut Answer) -> Option<String> {
        let csv = text(subscription, "/status/installedCSV");
        let starting = text(subscription, "/spec/startingCSV");
        let (field, name) =
            if csv.is_empty() { ("startingCSV", starting) } else { ("installedCSV", csv) };
        if name.is_empty() {
            return None;
        }
        if !csv.is_empty() && !starting.is_empty() {
            let field = format!("startingCSV: {starting}");
            let text = "counts only while nothing is installed";
            answer.line(subscription, Carried::NotNeeded, field, text);
        }
        let found = self.find("ClusterServiceVersion", subscription.namespace(), name);
        let version = found.map(|csv| text(csv, "/spec/version"));
        let version = version.filter(|version| !version.is_empty()).or_else(|| of_name(name));
        let line = format!("{field}: {name}");
        if let Some(version) = version {
            let text = format!("becomes version {}", quote(version));
            answer.line(subscription, Carried::Yes, line, text);
        } else {
            let text =
                "its version is not known: set spec.source.catalog.version before you apply this";
            answer.line(subscription, Carried::No, line, text);
        }
        version.map(str::to_owned)
    }

    /// Returns the annotations that say which updates come by themselves.
    fn approval(
        &self,
        subscription: &Object,
        answer: &mut Answer,
    ) -> serde_json::Map<String, Value> {
        let mut annotations = serde_json::Map::new();
        if text(subscription, "/spec/installPlanApproval") != "Manual" {
            let text = format!(
                "major versions are held ({}: Any follows them as Classic did)",
                policy::UPGRADE
            );
            let field = "installPlanApproval: Automatic";
            answer.line(subscription, Carried::Yes, field, text);
            return annotations;
        }
        annotations.insert(policy::UPGRADE.to_owned(), json!("None"));
        let text = format!("becomes annotation {}: None", policy::UPGRADE);
        let field = "installPlanApproval: Manual";
        answer.line(subscription, Carried::Yes, field, text);
        let waiting = self.all("InstallPlan").filter(|plan| {
            plan.namespace() == subscription.namespace()
                && plan.pointer("/spec/approved") != Some(&Value::Bool(true))
        });
        let current = super::text(subscription, "/status/currentCSV");
        for plan in waiting {
            for name in texts(plan, "/spec/clusterServiceVersionNames") {
                if name == current && name != super::text(subscription, "/status/installedCSV") {
                    let version = of_name(name).unwrap_or(name);
                    let text = format!(
                        "{version} waits; annotation {}: {version} releases it",
                        policy::APPROVE
                    );
                    answer.line(plan, Carried::Yes, format!("waits for approval: {name}"), text);
                }
            }
        }
        annotations
    }
}

fn account_name(group: &Group, package: &str) -> String {
    let made = || format!("{package}-installer");
    group.account.clone().unwrap_or_else(made)
}

/// Says whether Classic made the Subscription by itself, for another: it names those so.
fn is_dependency(subscription: &Object) -> bool {
    let of = |field: &str| text(subscription, &format!("/spec/{field}"));
    let [name, channel] = ["name", "channel"].map(of);
    let [source, namespace] = ["source", "sourceNamespace"].map(of);
    subscription.name() == format!("{name}-{channel}-{source}-{namespace}")
}

/// Returns the version in the name of a bundle.
fn of_name(name: &str) -> Option<&str> {
    let version = name.split_once(".v").or_else(|| name.split_once('.'))?.1;
    version.parse::<Version>().is_ok().then_some(version)
}
