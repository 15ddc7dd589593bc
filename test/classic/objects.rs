//! The objects of one operator, in the order in which Classic makes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use olm_core::render::hash;
use serde_json::{Map, Value, json};

use super::{CATALOGS, GROUP, Operator, access, create};
use crate::cluster::ControlPlane;

/// What Classic gives every `ClusterServiceVersion` that is not a copy.
pub const FINALIZER: &str = "operators.coreos.com/csv-cleanup";
pub(super) const SINCE: &str = "2026-01-01T00:00:00Z";
pub(super) const V1ALPHA1: &str = "operators.coreos.com/v1alpha1";

/// What the objects of an operator have in common.
pub(super) struct Making<'a> {
    pub(super) plane: &'a ControlPlane,
    /// Namespace of the operator.
    pub(super) namespace: String,
    /// Its package.
    pub(super) package: String,
    /// The created `ClusterServiceVersion`.
    pub(super) csv: Value,
    /// Namespaces that it watches; one empty name means all of them.
    pub(super) targets: Vec<String>,
}

impl Making<'_> {
    /// Name of the `ClusterServiceVersion`.
    pub(super) fn csv_name(&self) -> &str {
        text(&self.csv["metadata"]["name"])
    }

    /// The label that marks all components of an operator.
    pub(super) fn component(&self) -> String {
        let name = format!("{}.{}", self.package, self.namespace);
        let cut: String = name.chars().take(63).collect();
        format!("{GROUP}/{}", cut.trim_end_matches(['.', '-', '_']))
    }

    /// Labels of an object that only the operator has, with more.
    pub(super) fn labels(&self, more: &Value) -> Value {
        let mut labels = Map::new();
        labels.insert("olm.managed".to_owned(), json!("true"));
        labels.insert(self.component(), json!(""));
        labels.extend(more.as_object().cloned().unwrap_or_default());
        labels.into()
    }

    /// Labels that name the owner, in a namespace where it or a copy of it is.
    pub(super) fn owner_labels(&self, namespace: &str) -> Value {
        json!({"olm.owner": self.csv_name(), "olm.owner.namespace": namespace,
            "olm.owner.kind": "ClusterServiceVersion"})
    }

    /// Metadata of an object that the `ClusterServiceVersion` owns.
    pub(super) fn owned(&self, name: &str, more: &Value) -> Value {
        json!({"name": name, "namespace": self.namespace, "labels": self.labels(more),
            "ownerReferences": [owner(&self.csv, false)]})
    }

    /// Creates an object of the operator.
    pub(super) fn make(&self, object: &Value) -> Value {
        create(self.plane, object)
    }
}

/// A reference that does not block deletion.
pub(super) fn owner(object: &Value, controls: bool) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"],
        "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
        "controller": controls, "blockOwnerDeletion": false})
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Merges two objects of texts.
pub(super) fn merged(one: &Value, other: &Value) -> Value {
    let mut all = one.as_object().cloned().unwrap_or_default();
    all.extend(other.as_object().cloned().unwrap_or_default());
    all.into()
}

impl Operator<'_> {
    /// Begins with the objects of an operator; returns the manifests of its bundle besides the
    /// `ClusterServiceVersion`.
    fn making(&self) -> (Making<'_>, Vec<Value>) {
        let plane = self.scene.cluster.plane;
        let (name, namespace) = (self.scene.package.name(), self.scene.name.clone());
        let files = self.scene.package.bundle_files(self.bundle);
        let manifests = files.iter().filter(|(path, _)| path.starts_with("manifests/"));
        let manifests = manifests.map(|(_, bytes)| serde_json::from_slice(bytes).expect("JSON"));
        let (csvs, others): (Vec<Value>, Vec<Value>) =
            manifests.partition(|object: &Value| object["kind"] == "ClusterServiceVersion");
        let mut targets: Vec<_> = self.targets.iter().map(|&name| name.to_owned()).collect();
        if targets.is_empty() {
            targets.push(String::new());
        }
        (Making { plane, namespace, package: name, csv: csvs[0].clone(), targets }, others)
    }

    /// Creates what the catalog operator of Classic makes, for Classic itself to install.
    pub fn present(&self) {
        let (mut making, others) = self.making();
        let group = self.group(&making);
        self.subscription(&making);
        self.crds(&making, &others);
        let mut csv = version(&making, &group);
        csv["spec"]["displayName"] = json!("Buoy");
        csv.as_object_mut().expect("an object").remove("status");
        making.csv = making.make(&csv);
        access::permissions(&making);
    }

    /// Creates everything that Classic makes for the operator; its pods are not waited for.
    pub fn install(&self) {
        let plane = self.scene.cluster.plane;
        let (mut making, others) = self.making();
        self.source(&making);
        let group = self.group(&making);
        let plan = self.subscription(&making);
        making.csv = making.make(&version(&making, &group));
        copies(&making);
        self.crds(&making, &others);
        others.iter().filter(|object| !is_crd(object)).for_each(|object| {
            let mut object = object.clone();
            let name = text(&object["metadata"]["name"]).to_owned();
            object["metadata"] = merged(&object["metadata"], &making.owned(&name, &json!({})));
            making.make(&object);
        });
        access::permissions(&making);
        let served = self.served(&making);
        self.deployments(&making, &served);
        api_services(&making, &served);
        webhooks(&making, &served, &group);
        self.condition(&making);
        access::of_users(&making, &group);
        // Written last, as Classic does.
        let patched = json!({"status": {"phase": "Complete", "catalogSources": [],
            "conditions": [{"type": "Installed", "status": "True", "lastUpdateTime": SINCE,
                "lastTransitionTime": SINCE}]}});
        let path = format!(
            "{}/{plan}/status",
            super::collection(&json!({"apiVersion": V1ALPHA1,
            "kind": "InstallPlan", "metadata": {"namespace": making.namespace}}))
        );
        let written = plane.requests().send(http::Method::PATCH, &path, Some(&patched));
        written.expect("the InstallPlan is complete");
    }

    /// Writes the states of what was put back, as Classic does when it finds the operator running.
    pub fn settle(&self) {
        let (plane, namespace) = (self.scene.cluster.plane, &self.scene.name);
        let csv = self.scene.package.bundle_name(&self.bundle.version);
        let targets = if self.targets.is_empty() { vec![""] } else { self.targets.to_vec() };
        let plan = format!("install-{}", &hash(namespace)[..5]);
        let group = format!("{namespace}-group");
        let v1 = format!("{GROUP}/v1");
        let put = |api: &str, kind: &str, name: &str, status: &Value| {
            let path = super::collection(&json!({"apiVersion": api, "kind": kind,
                "metadata": {"namespace": namespace}}));
            let send = |path: &str, change: Value| {
                let written = plane.requests().send(http::Method::PATCH, path, Some(&change));
                written.unwrap_or_else(|error| panic!("{path}: {error}"));
            };
            send(&format!("{path}/{name}/status"), json!({"status": status}));
            if kind == "ClusterServiceVersion" {
                let finalizers = json!({"metadata": {"finalizers": [FINALIZER]}});
                send(&format!("{path}/{name}"), finalizers);
            }
        };
        let package = self.scene.package.name();
        put(V1ALPHA1, "Subscription", &package, &self.subscribed(&csv, &plan));
        put(V1ALPHA1, "ClusterServiceVersion", &csv, &succeeded());
        put(&v1, "OperatorGroup", &group, &json!({"namespaces": targets, "lastUpdated": SINCE}));
        let kind = format!("operatorgroups.{GROUP}");
        let group = plane.requests().read(&kind, namespace, &group).expect("the group");
        self.label_targets(&group);
        let kind = format!("subscriptions.{GROUP}");
        let subscription = plane.requests().read(&kind, namespace, &package);
        self.wait(&subscription.expect("the Subscription"));
    }

    fn source(&self, making: &Making<'_>) {
        let scene = self.scene;
        let image = format!("{}/{}-catalog:v1", scene.cluster.registry, scene.name);
        making.make(&json!({"apiVersion": V1ALPHA1, "kind": "CatalogSource",
            "metadata": {"name": scene.name, "namespace": CATALOGS},
            "spec": {"sourceType": "grpc", "image": image, "displayName": "Buoys",
                "updateStrategy": {"registryPoll": {"interval": "10m"}}},
            "status": {"connectionState": {"lastObservedState": "READY",
                "address": format!("{}.{CATALOGS}.svc:50051", scene.name)}}}));
    }

    fn group(&self, making: &Making<'_>) -> Value {
        let name = format!("{}-group", making.namespace);
        let apis = format!("Buoy.v1.{}", self.scene.package.group());
        let mut spec = json!({"upgradeStrategy": "Default"});
        if !self.targets.is_empty() {
            spec["targetNamespaces"] = json!(self.targets);
        }
        let group = making.make(&json!({"apiVersion": format!("{GROUP}/v1"),
            "kind": "OperatorGroup",
            "metadata": {"name": name, "namespace": making.namespace,
                "annotations": {"olm.providedAPIs": apis}},
            "spec": spec,
            "status": {"namespaces": making.targets, "lastUpdated": SINCE}}));
        self.label_targets(&group);
        group
    }

    /// Labels the namespaces that a group targets.
    fn label_targets(&self, group: &Value) {
        let label = format!("olm.operatorgroup.uid/{}", text(&group["metadata"]["uid"]));
        let change = json!({"metadata": {"labels": {label: ""}}});
        for target in self.targets {
            self.scene.cluster.plane.requests().merge("namespace", "", target, &change);
        }
    }

    fn deployments(&self, making: &Making<'_>, served: &[(String, String)]) {
        let mut given = variables(self.variables);
        // One proxy in the Subscription replaces all of the cluster.
        if self.variables.iter().all(|(name, _)| !name.ends_with("_PROXY")) {
            given.extend(variables(self.proxies));
        }
        given.push(json!({"name": "OPERATOR_CONDITION_NAME", "value": making.csv_name()}));
        let deployments = making.csv["spec"]["install"]["spec"]["deployments"].as_array();
        for deployment in deployments.expect("a list") {
            let name = text(&deployment["name"]);
            let mut spec = deployment["spec"].clone();
            spec["revisionHistoryLimit"] = json!(1);
            let template = &mut spec["template"];
            let annotations = &template["metadata"]["annotations"];
            let annotations = merged(annotations, &making.csv["metadata"]["annotations"]);
            template["metadata"]["annotations"] = annotations;
            let certificate = served.iter().find(|(called, _)| called == name);
            if let Some((_, certificate)) = certificate {
                template["metadata"]["annotations"]["olmcahash"] = json!(hash(certificate));
                mount(&mut template["spec"], &format!("{name}-service-cert"));
            }
            for container in template["spec"]["containers"].as_array_mut().expect("a list") {
                container["env"] = json!(given);
            }
            let labels = merged(
                &making.owner_labels(&making.namespace),
                &json!({"olm.deployment-spec-hash": hash(&spec.to_string())}),
            );
            making.make(&json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": making.owned(name, &labels), "spec": spec}));
        }
    }

    fn crds(&self, making: &Making<'_>, manifests: &[Value]) {
        let webhooks = making.csv["spec"]["webhookdefinitions"].as_array();
        let converted = webhooks.into_iter().flatten().any(|it| it["type"] == "ConversionWebhook");
        assert!(!converted || self.targets.is_empty(), "Classic refuses it");
        for crd in manifests.iter().filter(|object| is_crd(object)) {
            let mut crd = crd.clone();
            let alongside = format!("{}/{}", making.namespace, making.csv_name());
            let key =
                format!("operatorframework.io/installed-alongside-{}", &hash(&alongside)[..12]);
            crd["metadata"]["labels"] = making.labels(&json!({}));
            crd["metadata"]["annotations"] = json!({key: alongside});
            making.make(&crd);
        }
    }

    /// Makes Service, certificate and what reads it for each Deployment that is called; returns the
    /// name of the Deployment with the certificate.
    fn served(&self, making: &Making<'_>) -> Vec<(String, String)> {
        let mut served: Vec<(String, String)> = Vec::new();
        for definition in self.bundle.webhooks.iter().chain(&self.bundle.api_services) {
            let deployment = text(&definition["deploymentName"]).to_owned();
            if served.iter().any(|(known, _)| *known == deployment) {
                continue;
            }
            let service = format!("{deployment}-service");
            let port = definition["containerPort"].clone();
            making.make(&json!({"apiVersion": "v1", "kind": "Service",
                "metadata": making.owned(&service, &json!({})),
                "spec": {"selector": {"app": deployment},
                    "ports": [{"name": port.to_string(), "port": port, "targetPort": port}]}}));
            let hosts = ["", ".svc", ".svc.cluster.local"]
                .map(|end| format!("{service}.{}{end}", making.namespace));
            let pair = rcgen::generate_simple_self_signed(hosts).expect("a certificate");
            let certificate = pair.cert.pem();
            let encoded = |text: &str| STANDARD.encode(text);
            let mut metadata = making.owned(&format!("{service}-cert"), &json!({}));
            metadata["annotations"] = json!({"olmcahash": hash(&certificate)});
            making.make(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata,
                "type": "kubernetes.io/tls",
                "data": {"tls.crt": encoded(&certificate), "olmCAKey": encoded(&certificate),
                    "tls.key": encoded(&pair.signing_key.serialize_pem())}}));
            access::of_a_server(making, &service, &self.scene.package.deployment());
            served.push((deployment, certificate));
        }
        served
    }

    fn condition(&self, making: &Making<'_>) {
        let (name, account) = (making.csv_name(), self.scene.package.deployment());
        let mut spec = json!({"serviceAccounts": [account], "deployments": [account]});
        if self.conditions {
            spec["conditions"] = json!([{"type": "Upgradeable", "status": "True", "reason": "Idle",
                "message": "nothing moves", "lastTransitionTime": SINCE}]);
        }
        let condition = making.make(&json!({"apiVersion": format!("{GROUP}/v2"),
            "kind": "OperatorCondition",
            "metadata": {"name": name, "namespace": making.namespace,
                "labels": {making.component(): ""},
                "ownerReferences": [owner(&making.csv, true)]},
            "spec": spec}));
        access::of_a_condition(making, &condition, &account);
    }
}

/// Returns the status of a `ClusterServiceVersion` whose operator runs.
fn succeeded() -> Value {
    json!({"phase": "Succeeded", "reason": "InstallSucceeded",
        "message": "install strategy completed with no errors", "lastUpdateTime": SINCE,
        "lastTransitionTime": SINCE, "cleanup": {}})
}

fn is_crd(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

/// Returns the `ClusterServiceVersion` of a bundle as it is when the operator runs.
fn version(making: &Making<'_>, group: &Value) -> Value {
    let mut csv = making.csv.clone();
    let properties = json!({"properties": [{"type": "olm.package", "value":
        {"packageName": making.package, "version": csv["spec"]["version"]}}]});
    csv["metadata"] = json!({
        "name": making.csv_name(), "namespace": making.namespace, "labels": making.labels(&json!({})),
        "finalizers": [FINALIZER],
        "annotations": {
            "olm.operatorGroup": group["metadata"]["name"],
            "olm.operatorNamespace": making.namespace,
            "olm.targetNamespaces": making.targets.join(","),
            "operatorframework.io/properties": properties.to_string(),
        },
    });
    csv["spec"]["cleanup"] = json!({"enabled": false});
    csv["status"] = succeeded();
    csv
}

/// Copies the `ClusterServiceVersion` into the other namespaces that it watches.
fn copies(making: &Making<'_>) {
    let mut targets = making.targets.clone();
    if targets == [""] {
        let all = making.plane.requests().list("namespaces", "", "");
        targets = all.iter().map(|it| text(&it["metadata"]["name"]).to_owned()).collect();
    }
    let place = &making.namespace;
    for target in targets.iter().filter(|target| *target != place) {
        let mut annotations = making.csv["metadata"]["annotations"].clone();
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.remove("olm.targetNamespaces");
        }
        let message = format!("The operator is running in {place} but is managing this namespace");
        let copy = making.make(&json!({"apiVersion": V1ALPHA1, "kind": "ClusterServiceVersion",
            "metadata": {"name": making.csv_name(), "namespace": target,
                "annotations": annotations,
                "labels": {"olm.managed": "true", "olm.copiedFrom": place}},
            "spec": making.csv["spec"],
            "status": {"phase": "Succeeded", "reason": "Copied", "message": message,
                "lastUpdateTime": SINCE, "lastTransitionTime": SINCE, "cleanup": {}}}));
        if making.targets != [""] {
            access::in_a_target(making, &copy);
        }
    }
}

/// Mounts a certificate where operators look for it.
fn mount(pod: &mut Value, secret: &str) {
    let volumes = [
        (
            "apiservice-cert",
            "/apiserver.local.config/certificates",
            "apiserver.crt",
            "apiserver.key",
        ),
        ("webhook-cert", "/tmp/k8s-webhook-server/serving-certs", "tls.crt", "tls.key"),
    ];
    pod["volumes"] = volumes
        .map(|(name, _, certificate, key)| {
            json!({"name": name, "secret": {"secretName": secret, "items": [
                {"key": "tls.crt", "path": certificate}, {"key": "tls.key", "path": key}]}})
        })
        .to_vec()
        .into();
    for container in pod["containers"].as_array_mut().into_iter().flatten() {
        let mounts = volumes.map(|(name, path, ..)| json!({"name": name, "mountPath": path}));
        container["volumeMounts"] = mounts.to_vec().into();
    }
}

/// Has the API server call the webhooks of the operator.
fn webhooks(making: &Making<'_>, served: &[(String, String)], group: &Value) {
    let definitions = making.csv["spec"]["webhookdefinitions"].as_array();
    for definition in definitions.into_iter().flatten() {
        let deployment = text(&definition["deploymentName"]);
        let certificate = served.iter().find(|(called, _)| called == deployment);
        let (_, certificate) = certificate.expect("it is served");
        let client = json!({"caBundle": STANDARD.encode(certificate), "service": {
            "namespace": making.namespace, "name": format!("{deployment}-service"),
            "path": definition["webhookPath"], "port": definition["containerPort"]}});
        let kind = match text(&definition["type"]) {
            "ConversionWebhook" => {
                let conversion = json!({"strategy": "Webhook", "webhook": {"clientConfig": client,
                    "conversionReviewVersions": definition["admissionReviewVersions"]}});
                let change = json!({"spec": {"conversion": conversion}});
                for crd in definition["conversionCRDs"].as_array().into_iter().flatten() {
                    making.plane.requests().merge("crd", "", text(crd), &change);
                }
                continue;
            }
            "MutatingAdmissionWebhook" => "MutatingWebhookConfiguration",
            _ => "ValidatingWebhookConfiguration",
        };
        let name = &definition["generateName"];
        let mut webhook = json!({"name": name, "clientConfig": client});
        for key in [
            "rules",
            "failurePolicy",
            "matchPolicy",
            "objectSelector",
            "sideEffects",
            "timeoutSeconds",
            "admissionReviewVersions",
        ] {
            if !definition[key].is_null() {
                webhook[key] = definition[key].clone();
            }
        }
        if making.targets != [""] {
            let label = format!("olm.operatorgroup.uid/{}", text(&group["metadata"]["uid"]));
            webhook["namespaceSelector"] = json!({"matchLabels": {label: ""}});
        }
        let labels = json!({"olm.webhook-description-generate-name": name,
            "olm.webhook-description-hash": hash(&definition.to_string())});
        let labels = merged(&making.owner_labels(&making.namespace), &labels);
        making.make(&json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"generateName": format!("{}-", text(name)),
                "labels": making.labels(&labels)},
            "webhooks": [webhook]}));
    }
}

/// Has the API server serve the APIs of the operator.
fn api_services(making: &Making<'_>, served: &[(String, String)]) {
    let definitions = making.csv["spec"]["apiservicedefinitions"]["owned"].as_array();
    for definition in definitions.into_iter().flatten() {
        let deployment = text(&definition["deploymentName"]);
        let certificate = served.iter().find(|(called, _)| called == deployment);
        let (_, certificate) = certificate.expect("it is served");
        let (group, version) = (text(&definition["group"]), text(&definition["version"]));
        let labels = making.labels(&making.owner_labels(&making.namespace));
        making.make(&json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("{version}.{group}"), "labels": labels},
            "spec": {"group": group, "version": version, "groupPriorityMinimum": 2000,
                "versionPriority": 15, "caBundle": STANDARD.encode(certificate),
                "service": {"namespace": making.namespace, "name": format!("{deployment}-service"),
                    "port": definition["containerPort"]}}}));
    }
}

/// Returns variables as containers have them.
pub(super) fn variables(given: &[(&str, &str)]) -> Vec<Value> {
    given.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}
