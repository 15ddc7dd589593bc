//! Every overlay of `config`, as rendered by kustomize: the program accepts its arguments, and they
//! do what the overlay is for.

use clap::Parser as _;
use olm_controller::args::{Args, Component, ServingCertificates};
use olm_core::rbac::{Permissions, PolicyRule};
use olm_core::rights::{Half, on_secret};
use olm_core::settings::{NamedServiceAccount, WebhookCertificates};
use olm_test::prelude::*;

/// A container of an overlay that runs this program.
struct Container {
    /// Name of its Deployment.
    deployment: String,
    namespace: String,
    account: String,
    args: Args,
    /// The container as rendered, with arguments and mounts.
    spec: Value,
    volumes: Vec<Value>,
}

fn render(overlay: &str) -> Vec<Value> {
    render_folder(&paths::repository().join("config").join(overlay))
}

fn render_folder(folder: &Path) -> Vec<Value> {
    olm_core::yaml::to_json(&cluster::kustomize(folder)).expect("kustomize prints YAML")
}

/// Renders a kustomization beside a checkout.
fn render_text(text: &str) -> Vec<Value> {
    let folder = tempfile::tempdir_in(paths::repository().join("target")).expect("a folder");
    std::fs::write(folder.path().join("kustomization.yaml"), text).expect("it is written");
    render_folder(folder.path())
}

fn containers(overlay: &str) -> Vec<Container> {
    containers_of(overlay, &render(overlay))
}

fn containers_of(overlay: &str, objects: &[Value]) -> Vec<Container> {
    let deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found: Vec<_> = deployments
        .flat_map(|deployment| {
            let pod = &deployment["spec"]["template"]["spec"];
            let containers = pod["containers"].as_array().expect("a pod has containers");
            containers.iter().map(move |container| {
                let args = container["args"].as_array().into_iter().flatten();
                let args = args.map(|arg| arg.as_str().expect("arguments are text").to_owned());
                let args = std::iter::once("olm-controller".to_owned()).chain(args);
                let name = text(&deployment["metadata"]["name"]);
                let args = Args::try_parse_from(args)
                    .unwrap_or_else(|error| panic!("{overlay}, Deployment {name}: {error}"));
                Container {
                    namespace: text(&deployment["metadata"]["namespace"]),
                    account: text(&pod["serviceAccountName"]),
                    deployment: name,
                    args,
                    spec: container.clone(),
                    volumes: pod["volumes"].as_array().cloned().unwrap_or_default(),
                }
            })
        })
        .collect();
    assert!(!found.is_empty(), "{overlay} has no container");
    for container in &found {
        container.is_sound(overlay, objects);
    }
    found
}

impl Container {
    /// Checks what must hold in any overlay.
    fn is_sound(&self, overlay: &str, objects: &[Value]) {
        let place = format!("{overlay}, Deployment {}", self.deployment);
        assert_eq!(self.args.warnings(), [""; 0], "{place}");
        assert!(self.args.leader_elect, "{place} elects no leader");
        assert!(!self.args.allow_excessive_rights, "{place}");
        // Without a certificate nothing is served over TLS and there are no metrics.
        let self_signed = self.args.serving_certificates() == ServingCertificates::SelfSigned;
        assert!(self.args.tls_cert.is_some() || self_signed, "{place}");
        let mounts = self.spec["volumeMounts"].as_array().expect("there are mounts");
        let mounted: Vec<PathBuf> = mounts
            .iter()
            .filter_map(|mount| mount["mountPath"].as_str().map(PathBuf::from))
            .collect();
        let needed = [
            self.args.tls_cert.as_deref(),
            self.args.tls_key.as_deref(),
            Some(self.args.cache_dir.as_path()),
            Some(self.args.cache_path.as_path()),
            self.args.catalogd_cas_dir.as_deref(),
        ];
        for path in needed.into_iter().flatten() {
            let held = mounted.iter().any(|mount| path.starts_with(mount));
            assert!(held, "{place}: nothing is mounted for {}", path.display());
        }
        // The service account exists, and has the rights in the table and no others.
        let of = |kind: &'static str| objects.iter().filter(move |it| it["kind"] == kind);
        let name_and_place = |object: &Value, name: &str| {
            let metadata = &object["metadata"];
            metadata["name"] == name && metadata["namespace"] == self.namespace.as_str()
        };
        let account = of("ServiceAccount").any(|it| name_and_place(it, &self.account));
        assert!(account, "{place}: {}", self.account);
        assert_eq!(self.granted(objects), self.needed(), "{place}");
        if let Some(default) = &self.args.default_service_account {
            let (name, namespace) = (default.name.as_str(), default.namespace.as_str());
            let is = |it: &Value| {
                it["metadata"]["name"] == name && it["metadata"]["namespace"] == namespace
            };
            assert!(of("ServiceAccount").any(is), "{place}: the default account is not made");
        }

        // What is mounted is there, is made by the program, or is filled in by OpenShift.
        let given = |volume: &Value| {
            if let Some(secret) = volume["secret"]["secretName"].as_str() {
                if of("Certificate").any(|it| it["spec"]["secretName"] == secret) {
                    return true;
                }
                let key = "service.beta.openshift.io/serving-cert-secret-name";
                return of("Service").any(|it| {
                    it["metadata"]["annotations"][key] == secret
                        && it["metadata"]["namespace"] == self.namespace.as_str()
                });
            }
            let sources = volume["projected"]["sources"].as_array();
            sources.into_iter().flatten().all(|source| {
                let map = source["configMap"]["name"].as_str().unwrap_or_default();
                let exists = of("ConfigMap").find(|it| name_and_place(it, map));
                let injected = exists.map(
                    |it| &it["metadata"]["labels"]["config.openshift.io/inject-trusted-cabundle"],
                );
                // OpenShift puts the first into every namespace, an administrator writes the second.
                injected.is_some_and(|it| it == "true")
                    || ["openshift-service-ca.crt", "olm-registries"].contains(&map)
            })
        };
        for volume in &self.volumes {
            let known = ["emptyDir", "hostPath", "projected", "secret"];
            let known = known.iter().any(|kind| volume[*kind].is_object());
            assert!(known && given(volume), "{place}: {volume}");
        }
    }

    /// Returns what the table says that the account needs.
    fn needed(&self) -> Permissions {
        let mut needed = Permissions::default();
        let runs = |component| self.runs(component);
        if runs(Component::Extensions) || runs(Component::Gate) {
            needed.extend(&Half::Extensions.permissions(&self.namespace));
        }
        if runs(Component::Catalogs) {
            needed.extend(&Half::Catalogs.permissions(&self.namespace));
        }
        if let Some(secret) = &self.args.global_pull_secret.0 {
            needed.extend(&on_secret(&secret.namespace, &secret.name));
        }
        needed
    }

    /// Returns what the roles of an overlay that are bound to the account grant.
    fn granted(&self, objects: &[Value]) -> Permissions {
        let bound = objects.iter().filter(|binding| {
            let mut subjects = binding["subjects"].as_array().into_iter().flatten();
            subjects.any(|subject| {
                subject["name"] == self.account.as_str()
                    && subject["namespace"] == self.namespace.as_str()
            })
        });
        let mut granted = Permissions::default();
        for binding in bound {
            let role = objects.iter().find(|role| {
                role["kind"] == binding["roleRef"]["kind"]
                    && role["metadata"]["name"] == binding["roleRef"]["name"]
                    && role["metadata"]["namespace"] == binding["metadata"]["namespace"]
            });
            let role = role.unwrap_or_else(|| panic!("{} exists", binding["roleRef"]));
            let place = binding["metadata"]["namespace"].as_str();
            for rule in role["rules"].as_array().into_iter().flatten() {
                granted.insert_rule(place.unwrap_or_default(), &PolicyRule::from_value(rule));
            }
        }
        granted
    }

    fn runs(&self, component: Component) -> bool {
        self.args.runs(component, "olm-controller")
    }
}

#[test]
fn the_default_overlay_is_one_process_with_accounts_of_its_own() {
    let containers = containers("default");
    let [all] = &containers[..] else {
        panic!("{} containers", containers.len());
    };
    for component in [Component::Catalogs, Component::Extensions, Component::Gate] {
        assert!(all.runs(component));
    }
    assert_eq!(all.args.certificates(), WebhookCertificates::Auto);
    assert_eq!(all.args.named_service_account, NamedServiceAccount::Use);
    assert_eq!(all.args.default_service_account, None);
}

/// Returns the names of the policies that are bound to deny, sorted.
fn bound(objects: &[Value]) -> Vec<&str> {
    let of = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let mut names: Vec<&str> = of("ValidatingAdmissionPolicy")
        .filter(|policy| policy["spec"]["failurePolicy"] == "Fail")
        .filter_map(|policy| policy["metadata"]["name"].as_str())
        .filter(|name| {
            of("ValidatingAdmissionPolicyBinding").any(|binding| {
                binding["spec"]["policyName"] == *name
                    && binding["spec"]["validationActions"][0] == "Deny"
            })
        })
        .collect();
    names.sort_unstable();
    names
}

// deploying.md 6.1, 6.2, 6.3
#[test]
fn every_overlay_but_upstreams_asks_who_names_an_account() {
    let with_default = "resources: [../../config/default]\n\
                        components: [../../config/components/default-account]\n";
    let usual = "clusterextension-approve clusterextension-serviceaccount-use \
                 clusterobjectset-serviceaccount-use olm-crd-deletion olm-name-length";
    for (overlay, objects, policies, flag) in [
        ("default", render("default"), usual, "--account-policy=require"),
        ("openshift", render("openshift"), usual, "--account-policy=require"),
        ("upstream-compatible", render("upstream-compatible"), "", "--account-policy=off"),
        (
            "default-account",
            render_text(with_default),
            "clusterextension-approve clusterextension-default-account \
             clusterextension-serviceaccount-use clusterobjectset-serviceaccount-use olm-crd-deletion \
             olm-name-length",
            "--default-service-account=olmv1-system/olm-default-installer",
        ),
    ] {
        assert_eq!(bound(&objects).join(" "), policies, "{overlay}");
        let containers = containers_of(overlay, &objects);
        let extensions = containers.iter().find(|it| it.runs(Component::Extensions));
        let args = extensions.expect("it runs somewhere").spec["args"].as_array();
        assert!(args.is_some_and(|args| args.contains(&json!(flag))), "{overlay}");
    }
}

// deploying.md P9
#[test]
fn another_namespace_is_a_kustomization_of_three_lines() {
    let objects = render_text("namespace: elsewhere\nresources: [../../config/default]\n");
    let left: Vec<_> =
        objects.iter().filter(|object| object.to_string().contains("olmv1-system")).collect();
    assert!(left.is_empty(), "{left:#?}");
}

// deploying.md 2.2, 2.3, 5.5
#[test]
fn services_probes_and_network_policies_name_ports_that_are_bound() {
    for overlay in ["default", "openshift", "upstream-compatible"] {
        let objects = render(overlay);
        let of = |kind: &'static str| objects.iter().filter(move |it| it["kind"] == kind);
        for deployment in of("Deployment") {
            let template = &deployment["spec"]["template"];
            let labels = &template["metadata"]["labels"];
            let container = &template["spec"]["containers"][0];
            let ports = container["ports"].as_array().expect("ports").iter();
            let bound: Vec<_> = ports.map(|port| &port["containerPort"]).collect();
            let args = container["args"].to_string();
            for port in &bound {
                assert!(args.contains(&format!("=:{port}\"")), "{overlay}: {port} in {args}");
            }
            for probe in ["livenessProbe", "readinessProbe"] {
                assert!(bound.contains(&&container[probe]["httpGet"]["port"]), "{overlay}");
            }
            let selects = |selector: &Value| {
                let selector = selector.as_object().expect("a selector");
                selector.iter().all(|(key, value)| labels[key] == *value)
            };
            let services = of("Service").filter(|service| selects(&service["spec"]["selector"]));
            let mut served = 0;
            for port in services.flat_map(|it| it["spec"]["ports"].as_array().into_iter().flatten())
            {
                served += 1;
                assert!(bound.contains(&&port["targetPort"]), "{overlay}: {port}");
            }
            assert!(served > 0, "{overlay}: no Service selects {labels}");
            let policies = of("NetworkPolicy").filter(|policy| {
                let labels = &policy["spec"]["podSelector"]["matchLabels"];
                !labels.is_null() && selects(labels)
            });
            let rules =
                policies.flat_map(|it| it["spec"]["ingress"].as_array().into_iter().flatten());
            let open: Vec<_> = rules
                .flat_map(|rule| rule["ports"].as_array().into_iter().flatten())
                .map(|port| &port["port"])
                .collect();
            assert!(!open.is_empty(), "{overlay}: nothing reaches {labels}");
        }
    }
}

// deploying.md 2.6
#[test]
fn on_openshift_each_half_has_a_namespace_and_certificates_of_the_service_ca() {
    let containers = containers("openshift");
    let places = containers.iter().map(|it| it.namespace.as_str());
    let mut places: Vec<_> = places.collect();
    places.sort_unstable();
    assert_eq!(places, ["openshift-catalogd", "openshift-operator-controller"]);
    let objects = render("openshift");
    let left = objects.iter().filter(|it| it.to_string().contains("olmv1-system"));
    assert_eq!(left.count(), 0);
    let denying =
        ["catalogd", "operator-controller"].map(|it| format!("{it}-default-deny-all-traffic"));
    let denying = denying.each_ref().map(|name| {
        let policy = objects.iter().find(|it| it["metadata"]["name"] == **name);
        policy.map(|policy| &policy["spec"]["podSelector"])
    });
    assert_eq!(denying, [Some(&json!({})); 2]);
    for container in &containers {
        let mounts = container.spec["volumeMounts"].to_string();
        assert!(mounts.contains("/etc/containers") && mounts.contains("/etc/docker"));
    }
    for component in [Component::Catalogs, Component::Extensions, Component::Gate] {
        assert!(containers.iter().any(|container| container.runs(component)));
    }
    for container in containers.iter().filter(|it| it.runs(Component::Extensions)) {
        let certificates = container.args.certificates();
        assert_eq!(certificates, WebhookCertificates::ServiceCa);
        assert_eq!(container.args.named_service_account, NamedServiceAccount::Use);
    }
}

// deploying.md 2.6
#[test]
fn openshift_with_one_node_runs_one_replica_of_each_half_without_a_budget() {
    let resources = "resources: [../../config/openshift]\n";
    let component = "components: [../../config/components/single-node]\n";
    for (text, replicas, budgets) in
        [(resources.to_owned(), 2, 2), (format!("{resources}{component}"), 1, 0)]
    {
        let objects = render_text(&text);
        let of = |kind: &'static str| objects.iter().filter(move |it| it["kind"] == kind);
        let found: Vec<_> = of("Deployment").map(|it| &it["spec"]["replicas"]).collect();
        assert_eq!(found, [replicas, replicas]);
        assert_eq!(of("PodDisruptionBudget").count(), budgets);
    }
}

// Components that change Deployments change every process.
#[test]
fn components_reach_every_process() {
    for overlay in ["default", "upstream-compatible"] {
        let bare = containers(overlay);
        let with = |component: &str| {
            let objects = render_text(&format!(
                "resources: [../../config/{overlay}]\n\
                 components: [../../config/components/{component}]\n"
            ));
            let containers = containers_of(&format!("{overlay} with {component}"), &objects);
            let flags = |it: &Container| it.spec["args"].as_array().cloned().unwrap_or_default();
            for (before, after) in bare.iter().zip(&containers) {
                assert_eq!(before.deployment, after.deployment);
                assert!(flags(after).starts_with(&flags(before)), "{overlay}: {component}");
            }
            assert_eq!(bare.len(), containers.len(), "{overlay}: {component}");
            (containers, objects)
        };
        for container in with("registries").0 {
            let mounts = container.spec["volumeMounts"].to_string();
            assert!(mounts.contains("/etc/containers"), "{overlay}: {}", container.deployment);
        }
        for container in with("cert-manager").0 {
            let source = container.args.serving_certificates();
            assert_eq!(source, ServingCertificates::Files, "{overlay}: {}", container.deployment);
        }
        let (_, objects) = with("monitoring");
        let of = |kind: &'static str| objects.iter().filter(move |it| it["kind"] == kind);
        let monitor = of("ServiceMonitor").next().expect("the component has one");
        let labels = monitor["spec"]["selector"]["matchLabels"].as_object().expect("labels");
        let services = of("Service").filter(|service| {
            labels.iter().all(|(key, value)| service["metadata"]["labels"][key] == *value)
        });
        let scraped: Vec<_> = services.map(|it| &it["spec"]["selector"]).collect();
        let running = of("Deployment").map(|it| &it["spec"]["selector"]["matchLabels"]);
        assert_eq!(scraped, running.collect::<Vec<_>>(), "{overlay}");

        let (containers, objects) = with("ha");
        let of = |kind: &'static str| objects.iter().filter(move |it| it["kind"] == kind);
        assert!(of("Deployment").all(|it| it["spec"]["replicas"] == 2), "{overlay}");
        let budgets: Vec<_> = of("PodDisruptionBudget").map(|it| &it["spec"]["selector"]).collect();
        let selectors: Vec<_> = of("Deployment").map(|it| &it["spec"]["selector"]).collect();
        assert_eq!(budgets, selectors, "{overlay}");
        assert_eq!(budgets.len(), containers.len(), "{overlay}");
    }
}

#[test]
fn the_upstream_compatible_overlay_behaves_as_upstream() {
    let containers = containers("upstream-compatible");
    assert_eq!(containers.len(), 2);
    let with = |component| {
        let mut found = containers.iter().filter(move |it| it.runs(component));
        found.next().expect("the component runs somewhere")
    };
    let (catalogs, extensions) = (with(Component::Catalogs), with(Component::Extensions));
    assert_ne!(catalogs.deployment, extensions.deployment);
    assert_ne!(catalogs.account, extensions.account);
    let args = &extensions.args;
    assert_eq!(args.certificates(), WebhookCertificates::CertManager);
    assert_eq!(args.named_service_account, NamedServiceAccount::Ignore);
    assert!(args.default_service_account.is_some(), "upstream has one account");
}
