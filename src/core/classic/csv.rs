//! What becomes of the installed `ClusterServiceVersion`, which an extension has no counterpart of,
//! and of what OLM Classic added to its operator.

use itertools::Itertools as _;
use olm_api::keys::policy;
use serde_json::{Map, Value, json};

use super::{Answer, Carried, Classic, GROUP, has};
use crate::bundle::{Csv, mode};
use crate::config::Features;
use crate::object::{Object, items};
use crate::render::{OPERATOR_CONDITIONS, PROXY_NAMES, ProxyVariables, check_support};

/// Fields of the spec that are treated alike, and what becomes of them.
#[rustfmt::skip]
const FIELDS: [(&[&str], Carried, &str); 8] = [
    (&["install", "installModes", "relatedImages"], Carried::Yes, "come with the bundle"),
    (&[
        "displayName", "description", "keywords", "maintainers", "provider", "links", "icon",
        "maturity",
    ], Carried::NotNeeded, "stay in the bundle, for information only"),
    (&["replaces", "skips"], Carried::NotNeeded, "the catalog contains the update graph"),
    (&["minKubeVersion"], Carried::Yes, "is a constraint of the bundle"),
    (&["labels", "annotations", "selector"], Carried::NotNeeded, "ignored by OLM Classic"),
    (&["nativeAPIs"], Carried::NotNeeded,
        "not checked: the API server rejects kinds that are not served"),
    (&["release"], Carried::NotNeeded, "the newest release of the version is installed"),
    (&["cleanup.enabled"], Carried::NotNeeded,
        "ignored by OLM Classic; to delete the data: kubectl olm delete NAME --delete-data"),
];

/// What a CSV brings.
pub(super) const CRDS: &str = "customresourcedefinitions.owned";
pub(super) const APIS: &str = "apiservicedefinitions.owned";
/// What a CSV needs of others.
pub(super) const REQUIRED: [&str; 2] =
    ["customresourcedefinitions.required", "apiservicedefinitions.required"];

impl Classic<'_> {
    /// Reads the installed CSV of a Subscription.
    pub(super) fn csv(&self, subscription: &Object, answer: &mut Answer) {
        let name = subscription.text_at("/status/installedCSV");
        let Some(csv) = self.find("ClusterServiceVersion", subscription.namespace(), name) else {
            return;
        };
        for (fields, carried, text) in FIELDS {
            let is_given = |field: &&&str| has(csv, &pointer(field));
            let given = fields.iter().filter(is_given).join(", ");
            if !given.is_empty() {
                answer.line(csv, carried, given, text);
            }
        }
        let (served, own) = (
            "must be served first; never installed automatically",
            "come with the bundle, with their own certificate",
        );
        for (field, text) in [
            (APIS, own),
            ("webhookdefinitions", own),
            (REQUIRED[0], served),
            (REQUIRED[1], served),
            (CRDS, "are taken over, with their objects"),
        ] {
            let names = names(csv, field);
            let why = if text == own { refused(csv, field) } else { None };
            if !names.is_empty() {
                let carried = if why.is_some() { Carried::No } else { Carried::Yes };
                let line = format!("{field}: {}", names.join(", "));
                answer.line(csv, carried, line, why.unwrap_or_else(|| text.to_owned()));
            }
        }
        let roles = [
            (CRDS, "user roles", "-admin, -edit, -view and -crdview stay"),
            (APIS, "user roles of APIs", "stay as long as the APIServices"),
        ];
        for (field, line, text) in roles {
            if !names(csv, field).is_empty() {
                let text = format!(
                    "their ClusterRoles {text}, but are not updated; annotation {}: aggregate \
                     creates new ones",
                    policy::USER_ROLES
                );
                answer.line(csv, Carried::NotNeeded, line, text);
            }
        }
        let used = used_of_classic(csv);
        if !used.is_empty() {
            let text = "the operator may look for these objects of OLM Classic, and no longer finds \
                        any of its own: ask its author whether it runs without them";
            answer.line(csv, Carried::No, format!("rights on {used}"), text);
        }
    }

    /// Reads the `OperatorCondition` of the installed CSV. One that the operator or an administrator
    /// wrote is kept, as an annotation of the extension.
    pub(super) fn conditions(
        &self,
        subscription: &Object,
        annotations: &mut Map<String, Value>,
        answer: &mut Answer,
    ) {
        let csv = subscription.text_at("/status/installedCSV");
        let Some(condition) = self.find("OperatorCondition", subscription.namespace(), csv) else {
            return;
        };
        let wanted = format!("annotation {}: Enabled", policy::OPERATOR_CONDITIONS);
        let overridden = has(condition, "/spec/overrides");
        let written = ["/spec/conditions", "/status/conditions"];
        if !overridden && !written.iter().any(|conditions| has(condition, conditions)) {
            let text = format!("none are set; with {wanted} the operator can set them");
            return answer.line(condition, Carried::NotNeeded, "conditions", text);
        }
        annotations.insert(policy::OPERATOR_CONDITIONS.to_owned(), json!("Enabled"));
        answer.line(condition, Carried::Yes, "conditions", format!("become {wanted}"));
        if overridden {
            let text = "are deleted with the CSV: set them again on the OperatorCondition of the \
                        extension";
            answer.line(condition, Carried::No, "overrides", text);
        }
    }

    /// Reads the cluster proxies, which Classic gave to every operator whose Subscription sets
    /// none.
    pub(super) fn proxies(
        &self,
        subscription: &Object,
        annotations: &mut Map<String, Value>,
        answer: &mut Answer,
    ) {
        let statuses = self.all("Proxy").filter_map(|proxy| proxy.pointer("/status"));
        let mut proxies = statuses.map(ProxyVariables::of_status);
        if proxies.all(|proxy| proxy == ProxyVariables::default()) {
            return;
        }
        let env = subscription.list_at("/spec/config/env");
        let mut set = env.filter_map(|it| it["name"].as_str());
        if set.any(|name| PROXY_NAMES.contains(&name)) {
            return;
        }
        annotations.insert(policy::CLUSTER_PROXY.to_owned(), json!("Inject"));
        let text = format!("become annotation {}: Inject", policy::CLUSTER_PROXY);
        answer.line(subscription, Carried::Yes, "cluster proxies", text);
    }
}

/// Returns the names of the definitions in a field of the spec.
pub(super) fn names(csv: &Object, field: &str) -> Vec<String> {
    let name = |it: &Value| {
        let of = |key: &str| it[key].as_str().unwrap_or_default();
        match field.split('.').next() {
            Some("webhookdefinitions") => of("generateName").to_owned(),
            Some("apiservicedefinitions") => format!("{}.{}", of("version"), of("group")),
            _ => of("name").to_owned(),
        }
    };
    // A CRD is owned once for each of its versions.
    csv.list_at(&pointer(field)).map(name).sorted().dedup().collect()
}

/// Returns the resources of Classic that an operator has rights on, but for `OperatorConditions`, which
/// an extension may have. One that also has rights on those of OLM v1 knows both.
pub(super) fn used_of_classic(csv: &Object) -> String {
    let permissions = ["permissions", "clusterPermissions"].into_iter();
    let permissions =
        permissions.flat_map(|key| csv.list_at(&pointer(&format!("install.spec.{key}"))));
    let rules: Vec<&Value> = permissions.flat_map(|it| items(&it["rules"])).collect();
    let of = |group: &'static str| {
        rules.iter().filter(move |rule| items(&rule["apiGroups"]).any(|it| it == group))
    };
    if of(olm_api::GROUP).next().is_some() {
        return String::new();
    }
    let resources = of(GROUP).flat_map(|rule| items(&rule["resources"])).filter_map(Value::as_str);
    let resources = resources.filter_map(|it| it.split('/').next());
    resources.filter(|it| *it != OPERATOR_CONDITIONS).sorted().dedup().join(", ")
}

fn pointer(field: &str) -> String {
    format!("/spec/{}", field.replace('.', "/"))
}

/// Returns why a bundle with this field cannot be installed, whatever else it has.
fn refused(csv: &Object, field: &str) -> Option<String> {
    let field = field.trim_end_matches(".owned");
    let mut spec = json!({"installModes": [{"type": mode::ALL_NAMESPACES, "supported": true}]});
    spec[field] = csv.pointer(&format!("/spec/{field}")).cloned().unwrap_or_default();
    match Csv::from_manifest(&json!({"spec": spec})) {
        Ok(csv) => check_support(&csv, Features::default()).err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    }
}
