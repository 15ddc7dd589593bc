//! What annotations of an extension, and the defaults of the controller, add to the objects of its
//! bundle. Without one nothing is added, and the objects are those of upstream.
//!
//! Source: applying.md 10, api.md 6.3.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use strum::{EnumString, VariantNames};

use super::{object, rbac};
use crate::bundle::{Bundle, Csv, StrategyDeployment};
use crate::object::{Object, list_in};

/// API version of OperatorConditions.
pub const OPERATOR_CONDITION_API: &str = "operators.coreos.com/v2";
/// Their resource.
pub const OPERATOR_CONDITIONS: &str = "operatorconditions";
/// The variable in which an operator finds the name of its OperatorCondition.
const CONDITION_VARIABLE: &str = "OPERATOR_CONDITION_NAME";
const RBAC: &str = "rbac.authorization.k8s.io";

/// What is added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Additions {
    /// Whether the operator gets proxies.
    pub cluster_proxy: bool,
    /// Whether the operator gets an OperatorCondition, which is respected.
    pub operator_conditions: bool,
    /// Roles for the users of the APIs that the bundle provides.
    pub user_roles: UserRoles,
    /// Whether the install namespace is made where it is missing.
    pub create_namespace: bool,
}

/// Roles for the users of the APIs that a bundle provides.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum UserRoles {
    /// There are none.
    #[default]
    None,
    /// They are there, to be bound.
    Create,
    /// They also belong to the roles `view`, `edit` and `admin`.
    Aggregate,
}

/// Proxies as variables, values by name, empty ones left out.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProxyVariables(BTreeMap<String, String>);

impl ProxyVariables {
    /// Returns those of OpenShift's `Proxy`; where there is none, `otherwise`.
    pub fn of_cluster(proxy: Option<&Value>, otherwise: &Self) -> Self {
        proxy.map_or_else(|| otherwise.clone(), |proxy| Self::of_status(&proxy["status"]))
    }

    /// Reads `status` of OpenShift's `Proxy`.
    pub fn of_status(status: &Value) -> Self {
        let values = ["httpProxy", "httpsProxy", "noProxy"];
        let values = values.map(|key| status[key].as_str().map(str::to_owned));
        Self::given(PROXY_NAMES.into_iter().zip(values))
    }

    /// Returns those of an environment, but for a proxy whose URL holds credentials.
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let read = |name: &'static str| {
            // An empty one counts for nothing, as where Go reads them.
            let given = |name: &str| variable(name).filter(|value| !value.is_empty());
            let value = given(name).or_else(|| given(&name.to_lowercase()));
            (name, value.filter(|value| !value.contains('@')))
        };
        Self::given(PROXY_NAMES.into_iter().map(read))
    }

    /// Returns the variables of several; of one name the last.
    pub fn joined<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        Self(all.into_iter().flat_map(|one| one.0.clone()).collect())
    }

    fn given<'a>(all: impl IntoIterator<Item = (&'a str, Option<String>)>) -> Self {
        let given = all.into_iter().filter_map(|(name, value)| {
            Some((name.to_owned(), value.filter(|value| !value.is_empty())?))
        });
        Self(given.collect())
    }
}

/// Reads one variable, `NAME=VALUE`.
impl FromStr for ProxyVariables {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = text.split_once('=').filter(|(name, _)| PROXY_NAMES.contains(name));
        match read {
            Some((name, value)) => Ok(Self::given([(name, Some(value.to_owned()))])),
            None => Err(format!("expected NAME=VALUE with one of {}", PROXY_NAMES.join(", "))),
        }
    }
}

/// Their values may hold credentials.
impl fmt::Debug for ProxyVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Names of the variables that say that the bundle knows its proxies itself.
pub(crate) const PROXY_NAMES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

impl Additions {
    /// Adds to the objects that a bundle was rendered to, for an extension of this name in
    /// `namespace`.
    pub fn add(
        &self,
        objects: &mut Vec<Object>,
        bundle: &Bundle,
        (extension, namespace): (&str, &str),
        proxy: &ProxyVariables,
    ) {
        if self.cluster_proxy && !containers(objects).any(|it| sets_proxy(it)) {
            for container in containers(objects) {
                for name in PROXY_NAMES {
                    if let Some(value) = proxy.0.get(name) {
                        set_variable(container, name, value);
                    }
                }
            }
        }
        if self.operator_conditions {
            for container in containers(objects) {
                set_variable(container, CONDITION_VARIABLE, &bundle.csv.name);
            }
            objects.extend(operator_condition(&bundle.csv, namespace));
        }
        objects.extend(user_roles(bundle, extension, self.user_roles));
    }
}

/// Returns the containers of the Deployments; init containers are none of them.
fn containers(objects: &mut [Object]) -> impl Iterator<Item = &mut Map<String, Value>> {
    let deployments = objects.iter_mut().filter(|object| object.kind() == "Deployment");
    let lists = deployments.filter_map(|object| {
        let spec = object.0.get_mut("spec")?;
        spec.pointer_mut("/template/spec/containers")?.as_array_mut()
    });
    lists.flatten().filter_map(Value::as_object_mut)
}

fn sets_proxy(container: &Map<String, Value>) -> bool {
    let variables = container.get("env").and_then(Value::as_array);
    let mut names = variables.into_iter().flatten().filter_map(|it| it["name"].as_str());
    names.any(|name| PROXY_NAMES.contains(&name))
}

/// Sets a variable of a container, in place of one of that name.
fn set_variable(container: &mut Map<String, Value>, name: &str, value: &str) {
    let variables = list_in(container, "env");
    variables.retain(|known| known["name"] != name);
    variables.push(json!({"name": name, "value": value}));
}

/// Returns the OperatorCondition of an operator, and what lets its pods write it.
fn operator_condition(csv: &Csv, namespace: &str) -> Vec<Object> {
    let name = format!("{}-operator-condition", csv.name);
    let condition = object(OPERATOR_CONDITION_API, "OperatorCondition", &csv.name, namespace);
    let rules = json!([{
        "apiGroups": ["operators.coreos.com"], "resources": [OPERATOR_CONDITIONS],
        "resourceNames": [csv.name], "verbs": ["get", "patch", "update"],
    }]);
    let role = object(&format!("{RBAC}/v1"), "Role", &name, namespace).with("rules", rules);
    let accounts: BTreeSet<&str> =
        csv.deployments.iter().map(StrategyDeployment::service_account).collect();
    let binding = rbac::binding((namespace, &name), &name, namespace, accounts);
    vec![condition, role, binding]
}

/// Returns the name of the role of an extension for a level. No role of Kubernetes (`cluster-admin`)
/// or of OLM Classic begins like it, whatever the extension is called.
fn user_role(extension: &str, level: &str) -> String {
    format!("olm-extension-{extension}-{level}")
}

/// Returns `ClusterRole`s over the kinds of a bundle's CRDs and API services, for who views, edits and
/// administers.
fn user_roles(bundle: &Bundle, extension: &str, kind: UserRoles) -> Vec<Object> {
    let crds = &bundle.crds;
    let apis = bundle.csv.api_services.iter().filter(|api| !api.resource.is_empty());
    let apis: BTreeSet<_> = apis.map(|api| (api.group.as_str(), api.resource.as_str())).collect();
    let defined =
        crds.iter().map(|crd| ["/spec/group", "/spec/names/plural"].map(|at| crd.text_at(at)));
    let resources: Vec<_> = defined.map(|[group, name]| (group, name)).chain(apis).collect();
    if resources.is_empty() || kind == UserRoles::None {
        return Vec::new();
    }
    let levels: [(&str, &[&str]); 3] = [
        ("view", &["get", "list", "watch"]),
        ("edit", &["create", "delete", "get", "list", "patch", "update", "watch"]),
        ("admin", &["*"]),
    ];
    let role = |(level, verbs): (&str, &[&str])| {
        let names: Vec<_> = crds.iter().map(Object::name).collect();
        let definitions = json!({
            "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
            "resourceNames": names, "verbs": ["get"],
        });
        let mut rules = if names.is_empty() { Vec::new() } else { vec![definitions] };
        rules.extend(resources.iter().map(|(group, resource)| {
            json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
        }));
        let name = user_role(extension, level);
        let role = object(&format!("{RBAC}/v1"), "ClusterRole", &name, "");
        let mut role = role.with("rules", rules);
        if kind == UserRoles::Aggregate {
            let label = format!("{RBAC}/aggregate-to-{level}");
            let labels = Map::from_iter([(label, json!("true"))]);
            role.metadata_mut().insert("labels".to_owned(), labels.into());
        }
        role
    };
    levels.map(role).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::fixture::{load, sample};
    use crate::object::Object;

    fn with(additions: &Additions, deployment: &Value) -> Vec<Object> {
        let mut objects = vec![Object::from_value(deployment.clone()).unwrap()];
        let status = json!({"httpProxy": "http://proxy:3128", "noProxy": ".svc", "httpsProxy": ""});
        let found = json!({"status": status});
        let proxy = ProxyVariables::of_cluster(Some(&found), &"HTTPS_PROXY=x".parse().unwrap());
        additions.add(&mut objects, &load(&sample()), ("kettle", "ops"), &proxy);
        objects
    }

    fn deployment(variables: &Value) -> Value {
        let containers = json!([{"name": "a"}, {"name": "b", "env": variables}]);
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"template": {"spec": {"containers": containers, "initContainers": [{"name": "i"}]}}}})
    }

    // applying.md 10
    #[test]
    fn without_annotations_nothing_is_added() {
        let plain = deployment(&json!([]));
        let objects = with(&Additions::default(), &plain);
        assert_eq!(objects, [Object::from_value(plain).unwrap()]);
    }

    // applying.md 10; as OLM Classic did
    #[test]
    fn proxies_reach_every_container_unless_the_bundle_sets_one() {
        let additions = Additions { cluster_proxy: true, ..Additions::default() };
        let variables = |objects: &[Object]| {
            let pod = &objects[0].0["spec"]["template"]["spec"];
            assert_eq!(pod["initContainers"][0].get("env"), None);
            pod["containers"][0].get("env").cloned()
        };
        let want = json!([{"name": "HTTP_PROXY", "value": "http://proxy:3128"},
            {"name": "NO_PROXY", "value": ".svc"}]);
        let own = json!([{"name": "A", "value": "1"}]);
        assert_eq!(variables(&with(&additions, &deployment(&own))), Some(want));
        let own = json!([{"name": "HTTPS_PROXY", "value": "http://mine"}]);
        assert_eq!(variables(&with(&additions, &deployment(&own))), None);
    }

    #[test]
    fn without_a_proxy_object_those_of_the_controller_count() {
        let flags: Vec<ProxyVariables> =
            ["HTTPS_PROXY=http://u:secret@a:1", "NO_PROXY=.svc,10.0.0.0/8"]
                .map(|text| text.parse().unwrap())
                .into();
        let given = ProxyVariables::joined(&flags);
        assert_eq!(ProxyVariables::of_cluster(None, &given), given);
        assert_eq!(format!("{given:?}"), r#"{"HTTPS_PROXY", "NO_PROXY"}"#);
        for wrong in ["PROXY=x", "HTTP_PROXY", "http_proxy=x"] {
            assert!(wrong.parse::<ProxyVariables>().is_err(), "{wrong}");
        }
        let environment = |name: &str| match name {
            "https_proxy" => Some("http://a:1".to_owned()),
            "HTTP_PROXY" => Some("http://u:secret@a:1".to_owned()),
            "HTTPS_PROXY" | "NO_PROXY" => Some(String::new()),
            _ => None,
        };
        let want: ProxyVariables = "HTTPS_PROXY=http://a:1".parse().unwrap();
        assert_eq!(ProxyVariables::of_environment(environment), want);
    }

    // api.md 6.3
    #[test]
    fn no_extension_names_a_role_of_the_cluster() {
        let roles = |extension| user_roles(&load(&sample()), extension, UserRoles::Create);
        let names = |extension| -> Vec<String> {
            roles(extension).iter().map(|role| role.name().to_owned()).collect()
        };
        let levels = ["view", "edit", "admin"];
        assert_eq!(names("cluster"), levels.map(|it| format!("olm-extension-cluster-{it}")));
        let (short, long) = (names("a"), names("a-view"));
        assert!(short.iter().all(|name| !long.contains(name)), "{short:?} {long:?}");
    }

    // applying.md 10, api.md 6.3
    #[test]
    fn conditions_and_roles_are_objects_of_the_bundle() {
        let additions = Additions {
            operator_conditions: true,
            user_roles: UserRoles::Aggregate,
            ..Additions::default()
        };
        let own = json!([{"name": "OPERATOR_CONDITION_NAME", "value": "else"}]);
        let objects = with(&additions, &deployment(&own));
        let values: Vec<_> = objects.into_iter().map(Object::into_value).collect();
        insta::assert_snapshot!(crate::yaml::to_yaml_stream(&values));
    }
}
