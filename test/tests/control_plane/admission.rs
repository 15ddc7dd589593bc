//! What the API server accepts and refuses with our CRDs installed (api.md 8, "Admission").

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::core::crd::v1::CustomResourceExt;
use olm_api::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use olm_test::cluster;
use serde_json::{Value, json};

/// One kind on the shared control plane.
struct Kind {
    api: Api<DynamicObject>,
    resource: ApiResource,
}

impl Kind {
    async fn of<K: CustomResourceExt>() -> Self {
        let resource = K::api_resource();
        let client = cluster::shared().await.client;
        Self { api: Api::all_with(client, &resource), resource }
    }

    fn object(&self, name: &str, content: Value) -> DynamicObject {
        let mut value = content;
        value["apiVersion"] = json!(self.resource.api_version);
        value["kind"] = json!(self.resource.kind);
        value["metadata"]["name"] = json!(name);
        serde_json::from_value(value).expect("the object has apiVersion, kind and metadata")
    }

    /// Asks, with a dry run, whether the object would be created; `Err` holds the message.
    async fn ask(&self, content: Value) -> Result<Value, String> {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let object = self.object("asked", content);
        let made = self.api.create(&params, &object).await;
        made.map(|object| object.data).map_err(message)
    }

    async fn make(&self, name: &str, content: Value) {
        let object = self.object(name, content);
        let made = self.api.create(&PostParams::default(), &object).await;
        made.map_err(message).expect("the object is created");
    }

    /// Changes the object with a JSON merge patch; `Err` holds the API server's message.
    async fn change(&self, name: &str, patch: Value) -> Result<(), String> {
        let params = PatchParams::default();
        let changed = self.api.patch(name, &params, &Patch::Merge(patch)).await;
        changed.map(|_| ()).map_err(message)
    }

    async fn change_status(&self, name: &str, patch: Value) -> Result<(), String> {
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        let changed = self.api.patch_status(name, &params, &patch).await;
        changed.map(|_| ()).map_err(message)
    }

    async fn accepts(&self, content: Value) {
        let answer = self.ask(content.clone()).await;
        assert!(answer.is_ok(), "{content} was refused: {answer:?}");
    }

    async fn refuses(&self, content: Value, with: &str) {
        let answer = self.ask(content.clone()).await;
        assert_refused(&content, answer.map(|_| ()), with);
    }
}

fn message(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message,
        other => panic!("no answer of the API server: {other}"),
    }
}

fn assert_refused(what: &Value, answer: Result<(), String>, with: &str) {
    match answer {
        Ok(()) => panic!("{what} was accepted; wanted {with:?}"),
        Err(text) => assert!(text.contains(with), "{what}: {text:?} lacks {with:?}"),
    }
}

mod extensions {
    use super::*;

    async fn kind() -> Kind {
        Kind::of::<ClusterExtension>().await
    }

    fn minimal() -> Value {
        json!({"spec": {"namespace": "n", "serviceAccount": {"name": "olm-sa"},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}}})
    }

    /// A minimal extension with `spec` merged into it.
    fn with(spec: Value) -> Value {
        let mut content = minimal();
        merge(&mut content["spec"], spec);
        content
    }

    fn merge(into: &mut Value, from: Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    if value.is_null() {
                        into.remove(&key);
                    } else {
                        merge(into.entry(key).or_insert(Value::Null), value);
                    }
                }
            }
            (into, from) => *into = from,
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "cases are written in place")]
    fn catalog(filter: Value) -> Value {
        with(json!({"source": {"catalog": filter}}))
    }

    #[tokio::test]
    async fn the_samples_are_accepted() {
        let folder = olm_test::paths::repository().join("config/samples");
        let files = std::fs::read_dir(folder).expect("the folder of samples");
        let mut count = 0;
        for file in files {
            let file = file.expect("a sample").path();
            let text = std::fs::read_to_string(&file).expect("a sample is text");
            let documents = olm_core::yaml::to_json(&text).expect("a sample is YAML");
            for document in documents {
                let kind = match document["kind"].as_str() {
                    Some("ClusterExtension") => kind().await,
                    Some("ClusterCatalog") => Kind::of::<ClusterCatalog>().await,
                    other => panic!("{}: unexpected kind {other:?}", file.display()),
                };
                // What the API server would drop is a mistake in the sample.
                let kept = kind.ask(document.clone()).await;
                let kept = kept.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
                assert_kept(&document["spec"], &kept["spec"]);
                count += 1;
            }
        }
        assert_eq!(count, 6);
    }

    /// Checks that everything sent is in what would be stored, except defaults.
    fn assert_kept(asked: &Value, kept: &Value) {
        match (asked, kept) {
            (Value::Object(asked), Value::Object(kept)) => {
                for (key, value) in asked {
                    assert_kept(value, kept.get(key).unwrap_or(&Value::Null));
                }
            }
            (asked, kept) => assert_eq!(asked, kept),
        }
    }

    // A1 to A3
    #[tokio::test]
    async fn service_account_may_be_named_or_absent_but_not_empty() {
        let kind = kind().await;
        kind.accepts(minimal()).await;
        kind.accepts(with(json!({"serviceAccount": null}))).await;
        let mut empty = minimal();
        empty["spec"]["serviceAccount"] = json!({});
        kind.refuses(empty, "should have at least 1 properties").await;
        kind.refuses(
            with(json!({"serviceAccount": {"name": "x".repeat(254)}})),
            "spec.serviceAccount.name: Too long: may not be more than 253",
        )
        .await;
        kind.refuses(
            with(json!({"serviceAccount": {"name": "-x"}})),
            "name must be a valid DNS1123 subdomain",
        )
        .await;
    }

    // api.md 1.1: nothing is required at the top.
    #[tokio::test]
    async fn an_extension_without_spec_is_admitted() {
        kind().await.accepts(json!({})).await;
    }

    // A4, A5
    #[tokio::test]
    async fn service_account_may_be_cleared_and_set_again_but_not_changed() {
        let kind = kind().await;
        let name = "admission-a4";
        kind.make(name, minimal()).await;
        let set = |name: &str| json!({"spec": {"serviceAccount": {"name": name}}});
        assert_refused(
            &set("b"),
            kind.change(name, set("b")).await,
            "name is immutable once set but may be cleared",
        );
        let cleared = json!({"spec": {"serviceAccount": null}});
        assert_eq!(kind.change(name, cleared).await, Ok(()));
        assert_eq!(kind.change(name, set("b")).await, Ok(()));
    }

    // A6
    #[tokio::test]
    async fn namespace_and_package_never_change() {
        let kind = kind().await;
        let name = "admission-a6";
        kind.make(name, minimal()).await;
        let namespace = json!({"spec": {"namespace": "other"}});
        assert_refused(
            &namespace,
            kind.change(name, namespace.clone()).await,
            "namespace is immutable",
        );
        let package = json!({"spec": {"source": {"catalog": {"packageName": "other"}}}});
        assert_refused(
            &package,
            kind.change(name, package.clone()).await,
            "packageName is immutable",
        );
    }

    // A7: every row of api.md 1.3
    #[tokio::test]
    async fn version_expressions() {
        let kind = kind().await;
        for version in [
            "1.2.3",
            "v1.2.3",
            "1.2.3-a.1+b",
            ">=1.0,<2",
            "^1 || ^3",
            "=>1.2.3",
            "~>1.2",
            "1.x",
            "1.2.*",
            "*",
            " 1.2.3 ",
            "1.x.x",
            "*.*",
            "x.x.x",
            "1.*.*",
            ">=1.0.0 <2.3.*",
            ">=1.0.0 || *",
            ">=1 <2.1.*",
            ">=1 || *",
            "2.*.3",
        ] {
            kind.accepts(catalog(json!({"version": version}))).await;
        }
        for version in [
            "01.2.3",
            "1.2.3.4",
            "1..2.3",
            "==1.2.3",
            "=!1.2.3",
            ">>1.2.3",
            "!1.2.3",
            "1.Y",
            "1.2.3 - 2.3.4",
            ">1 && <2",
            "1.2.3-beta!",
            ">1;<2",
            "|",
            "1.*]",
            "",
        ] {
            let content = catalog(json!({"version": version}));
            kind.refuses(content, "invalid version expression").await;
        }
    }

    // A8, A9
    #[tokio::test]
    async fn lengths_of_versions_and_channels() {
        let kind = kind().await;
        let longest = format!("1.0.0-{}", "a".repeat(58));
        kind.accepts(catalog(json!({"version": longest}))).await;
        kind.refuses(
            catalog(json!({"version": format!("{longest}a")})),
            "spec.source.catalog.version: Too long: may not be more than 64",
        )
        .await;
        let channels: Vec<_> = (0..257).map(|index| format!("c{index}")).collect();
        kind.accepts(catalog(json!({"channels": channels[..256]}))).await;
        kind.refuses(catalog(json!({"channels": channels})), "must have at most 256 items").await;
        for channel in ["some_thing", "a.-b"] {
            kind.refuses(
                catalog(json!({"channels": [channel]})),
                "channels entries must be valid DNS1123 subdomains",
            )
            .await;
        }
        kind.refuses(catalog(json!({"channels": ["x".repeat(254)]})), "Too long").await;
    }

    // A10 to A12
    #[tokio::test]
    async fn unions_need_their_member() {
        let kind = kind().await;
        kind.refuses(
            with(json!({"source": {"catalog": null}})),
            "catalog is required when sourceType is Catalog, and forbidden otherwise",
        )
        .await;
        kind.refuses(
            with(json!({"source": {"sourceType": "Image"}})),
            "spec.source.sourceType: Unsupported value",
        )
        .await;
        kind.refuses(
            with(json!({"install": {}})),
            "at least one of [preflight] are required when install is specified",
        )
        .await;
        kind.refuses(
            with(json!({"install": {"preflight": {}}})),
            "spec.install.preflight.crdUpgradeSafety: Required value",
        )
        .await;
        let inline =
            |value: Value| with(json!({"config": {"configType": "Inline", "inline": value}}));
        kind.refuses(
            inline(json!({})),
            "spec.config.inline in body should have at least 1 properties",
        )
        .await;
        kind.refuses(inline(json!(true)), "spec.config.inline in body must be of type object")
            .await;
        kind.accepts(inline(json!({"a": {"b": [1, {"c": null}]}}))).await;
        kind.refuses(
            with(json!({"config": {"configType": "Inline"}})),
            "inline is required when configType is Inline, and forbidden otherwise",
        )
        .await;
    }

    // A12: nothing of a nested configuration is pruned.
    #[tokio::test]
    async fn configuration_is_stored_as_it_is() {
        let inline = json!({"a": {"b": [1, {"c": "d"}]}, "watchNamespace": "w"});
        let content = with(json!({"config": {"configType": "Inline", "inline": inline}}));
        let stored = kind().await.ask(content).await.unwrap();
        assert_eq!(stored["spec"]["config"]["inline"], inline);
    }

    // A13
    #[tokio::test]
    async fn deadlines_are_ten_minutes_to_twelve_hours() {
        let kind = kind().await;
        for minutes in [10, 360, 720] {
            kind.accepts(with(json!({"progressDeadlineMinutes": minutes}))).await;
        }
        for (minutes, with_) in [
            (9, "should be greater than or equal to 10"),
            (721, "should be less than or equal to 720"),
        ] {
            kind.refuses(with(json!({"progressDeadlineMinutes": minutes})), with_).await;
        }
    }

    // A14
    #[tokio::test]
    async fn upgrade_policy_has_a_default() {
        let stored = kind().await.ask(minimal()).await.unwrap();
        assert_eq!(
            stored["spec"]["source"]["catalog"]["upgradeConstraintPolicy"],
            "CatalogProvided"
        );
    }

    // A15, A16
    #[tokio::test]
    async fn names_of_packages_and_namespaces() {
        let kind = kind().await;
        for package in [".some.package", "a.-b", "some_package", ""] {
            kind.refuses(
                catalog(json!({"packageName": package})),
                "packageName must be a valid DNS1123 subdomain. It must contain only lowercase \
                 alphanumeric characters, hyphens (-) or periods (.), start and end with an \
                 alphanumeric character, and be no longer than 253 characters",
            )
            .await;
        }
        for package in ["some.package", "0my-1package-9name"] {
            kind.accepts(catalog(json!({"packageName": package}))).await;
        }
        kind.refuses(
            catalog(json!({"packageName": "x".repeat(254)})),
            "spec.source.catalog.packageName: Too long: may not be more than 253",
        )
        .await;
        kind.refuses(
            with(json!({"namespace": "dotted.name"})),
            "namespace must be a valid DNS1123 label",
        )
        .await;
        kind.accepts(with(json!({"namespace": "x".repeat(63)}))).await;
        kind.refuses(with(json!({"namespace": "x".repeat(64)})), "Too long").await;
    }
}

mod catalogs {
    use super::*;

    async fn kind() -> Kind {
        Kind::of::<ClusterCatalog>().await
    }

    fn image(reference: &str) -> Value {
        json!({"spec": {"source": {"type": "Image", "image": {"ref": reference}}}})
    }

    // C1: every row of api.md 2.3
    #[tokio::test]
    async fn image_references() {
        let kind = kind().await;
        let digest = format!("quay.io/ns/cat:v1@sha256:{}", "0".repeat(64));
        for reference in [
            "docker.io/foo/bar:v1.0.0",
            "my-subdomain.docker.io:8080/foo/bar:latest",
            "docker.io/foo/bar:latest-",
            "docker.io/test-image@sha256:abcdef123456789abcdef123456789abc",
            &digest,
            "foo/bar:latest",
        ] {
            kind.accepts(image(reference)).await;
        }
        let name = "a valid name is required. valid names must contain lowercase alphanumeric \
            characters separated only by the \".\", \"_\", \"__\", \"-\" characters.";
        let tag = "tag is invalid. valid tags must begin with a word character (alphanumeric + \
            \"_\") followed by word characters or \".\", and \"-\" characters";
        let long_tag = "tag is invalid. the tag must not be more than 127 characters";
        for (reference, with) in [
            (
                "-quay+docker/foo/bar@sha256:abcdef123456789abcdef123456789abc",
                "must start with a valid domain. valid domains must be alphanumeric characters \
                 (lowercase and uppercase) separated by the \".\" character.",
            ),
            ("docker.io/FOO/BAR@sha256:abcdef123456789abcdef123456789abc", name),
            ("docker.io:8080", name),
            ("docker.io/foo/bar", "must end with a digest or a tag"),
            (&format!("docker.io/foo/bar:{}", "x".repeat(128)), long_tag),
            ("docker.io/foo/bar:-foo_bar-", tag),
            (
                "docker.io/foo/bar@99-problems:abcdef123456789abcdef123456789abc",
                "digest algorithm is not valid. valid algorithms must start with an uppercase or \
                 lowercase alpha character followed by alphanumeric characters and may contain \
                 the \"-\", \"_\", \"+\", and \".\" characters.",
            ),
            (
                "docker.io/foo/bar@sha256:abcdef123456789",
                "digest is not valid. the encoded string must be at least 32 characters",
            ),
            (
                "docker.io/foo/bar@sha256:XYZxy123456789abcdef123456789abc",
                "digest is not valid. the encoded string must only contain hex characters (A-F, \
                 a-f, 0-9)",
            ),
            ("host:8080/foo/bar", tag),
            (&format!("host:5000/{}:v1", "x".repeat(125)), long_tag),
        ] {
            kind.refuses(image(reference), with).await;
        }
    }

    // C1, C3
    #[tokio::test]
    async fn polling_needs_a_tag_and_at_least_a_minute() {
        let kind = kind().await;
        let polled = |reference: &str, minutes: i64| {
            let mut content = image(reference);
            content["spec"]["source"]["image"]["pollIntervalMinutes"] = json!(minutes);
            content
        };
        kind.accepts(polled("docker.io/foo/bar:v1", 1)).await;
        kind.refuses(
            polled("docker.io/test-image@sha256:abcdef123456789abcdef123456789abc", 1),
            "cannot specify pollIntervalMinutes while using digest-based image",
        )
        .await;
        kind.refuses(polled("docker.io/foo/bar:v1", 0), "should be greater than or equal to 1")
            .await;
    }

    // C2
    #[tokio::test]
    async fn priority_and_availability_have_defaults() {
        let stored = kind().await.ask(image("docker.io/foo/bar:v1")).await.unwrap();
        assert_eq!(stored["spec"]["priority"], 0);
        assert_eq!(stored["spec"]["availabilityMode"], "Available");
    }

    // api.md 2.1: unlike an extension, a catalog needs a spec.
    #[tokio::test]
    async fn spec_and_image_are_required() {
        let kind = kind().await;
        kind.refuses(json!({}), "spec: Required value").await;
        kind.refuses(
            json!({"spec": {"source": {"type": "Image"}}}),
            "image is required when source type is Image, and forbidden otherwise",
        )
        .await;
    }

    // C4
    #[tokio::test]
    async fn status_is_checked_too() {
        let kind = kind().await;
        let name = "admission-c4";
        let mut unused = image("docker.io/foo/bar:v1");
        // Other tests resolve on this cluster: a catalog that cannot be read would count.
        unused["spec"]["availabilityMode"] = json!("Unavailable");
        kind.make(name, unused).await;
        let url = |base: &str| json!({"status": {"urls": {"base": base}}});
        for (base, with) in
            [("ftp://x", "scheme must be either http or https"), ("no url", "must be a valid URL")]
        {
            assert_refused(&url(base), kind.change_status(name, url(base)).await, with);
        }
        let good = url("https://catalogd-service.olmv1-system.svc/catalogs/x");
        assert_eq!(kind.change_status(name, good).await, Ok(()));
        let tag = json!({"status": {"resolvedSource":
            {"type": "Image", "image": {"ref": "docker.io/foo/bar:v1"}}}});
        assert_refused(&tag, kind.change_status(name, tag.clone()).await, "must end with a digest");
    }
}

mod object_sets {
    use super::*;

    async fn kind() -> Kind {
        Kind::of::<ClusterObjectSet>().await
    }

    fn object() -> Value {
        json!({"object": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "default"}, "data": {"k": "v"}}})
    }

    #[expect(clippy::needless_pass_by_value, reason = "cases are written in place")]
    fn set(spec: Value) -> Value {
        let mut content = json!({"spec": {"lifecycleState": "Active", "revision": 1,
            "collisionProtection": "Prevent"}});
        for (key, value) in spec.as_object().into_iter().flatten() {
            if value.is_null() {
                content["spec"].as_object_mut().unwrap().remove(key);
            } else {
                content["spec"][key] = value.clone();
            }
        }
        content
    }

    fn phase(objects: &[Value]) -> Value {
        json!([{"name": "deploy", "objects": objects}])
    }

    // O1, O3
    #[tokio::test]
    async fn revisions_are_immutable_and_stay_archived() {
        let kind = kind().await;
        let name = "admission-o1";
        // Archived from the start, so that a controller on this cluster does not apply anything.
        let content = set(json!({"phases": phase(&[object()]), "lifecycleState": "Archived"}));
        kind.make(name, content).await;
        for (patch, with) in [
            (json!({"revision": 2}), "revision is immutable"),
            (json!({"collisionProtection": "None"}), "collisionProtection is immutable"),
            (json!({"phases": phase(&[])}), "phases is immutable"),
            (json!({"lifecycleState": "Active"}), "cannot un-archive"),
        ] {
            let patch = json!({"spec": patch});
            assert_refused(&patch, kind.change(name, patch.clone()).await, with);
        }
        let mutable = json!({"spec": {"progressDeadlineMinutes": 10}});
        assert_eq!(kind.change(name, mutable).await, Ok(()));
    }

    // O2
    #[tokio::test]
    async fn phases_may_be_filled_once() {
        let kind = kind().await;
        let fill = json!({"spec": {"phases": phase(&[object()])}});
        for (name, phases) in
            [("admission-o2-empty", json!([])), ("admission-o2-absent", Value::Null)]
        {
            let content = set(json!({"phases": phases, "lifecycleState": "Archived"}));
            kind.make(name, content).await;
            assert_eq!(kind.change(name, fill.clone()).await, Ok(()), "{name}");
            let again = json!({"spec": {"phases": phase(&[])}});
            assert_refused(&again, kind.change(name, again.clone()).await, "phases is immutable");
        }
    }

    // O4
    #[tokio::test]
    async fn limits_of_phases_and_objects() {
        let kind = kind().await;
        let phases = |count: usize| -> Value {
            (0..count).map(|index| json!({"name": format!("p{index}"), "objects": []})).collect()
        };
        kind.accepts(set(json!({"phases": phases(20)}))).await;
        kind.refuses(set(json!({"phases": phases(21)})), "must have at most 20 items").await;
        kind.accepts(set(json!({"phases": phase(&vec![object(); 50])}))).await;
        kind.refuses(
            set(json!({"phases": phase(&vec![object(); 51])})),
            "must have at most 50 items",
        )
        .await;
        kind.refuses(set(json!({"revision": 0})), "should be greater than or equal to 1").await;
        let above = json!({"revision": olm_api::MAX_REVISION + 1});
        kind.refuses(set(above), "should be less than or equal to").await;
        kind.refuses(set(json!({"lifecycleState": null})), "spec.lifecycleState: Required value")
            .await;
        kind.refuses(
            set(json!({"phases": [{"name": "Upper", "objects": []}]})),
            "the value must consist of only lowercase alphanumeric characters and hyphens, and \
             must start and end with an alphanumeric character.",
        )
        .await;
        let twice = json!([{"name": "p", "objects": []}, {"name": "p", "objects": []}]);
        kind.refuses(set(json!({"phases": twice})), "Duplicate value").await;
    }

    // O5
    #[tokio::test]
    async fn an_object_is_written_out_or_referred_to() {
        let kind = kind().await;
        let mut both = object();
        both["ref"] = json!({"name": "s", "key": "k"});
        for entry in [both, json!({})] {
            kind.refuses(
                set(json!({"phases": phase(&[entry])})),
                "exactly one of the fields in [object ref] must be set",
            )
            .await;
        }
        let reference = json!({"ref": {"name": "s", "key": "k"}});
        kind.accepts(set(json!({"phases": phase(&[reference])}))).await;
    }

    // O6
    #[tokio::test]
    async fn probes_are_unions() {
        let kind = kind().await;
        let probe = |selector: Value, assertion: Value| {
            set(json!({"progressionProbes":
                [{"selector": selector, "assertions": [assertion]}]}))
        };
        let works = json!({"type": "FieldValue",
            "fieldValue": {"fieldPath": "status.phase", "value": "Bound"}});
        let label = |label: Value| json!({"type": "Label", "label": label});
        let labels = json!({"a": "b"});
        kind.accepts(probe(label(json!({"matchLabels": labels})), works.clone())).await;
        kind.refuses(
            probe(
                label(json!({"matchLabels": labels,
                    "matchExpressions": [{"key": "a", "operator": "Exists"}]})),
                works.clone(),
            ),
            "exactly one of matchLabels or matchExpressions must be set",
        )
        .await;
        kind.refuses(
            probe(json!({"type": "GroupKind", "label": {"matchLabels": labels}}), works.clone()),
            "groupKind is required when type is GroupKind, and forbidden otherwise",
        )
        .await;
        let group_kind = json!({"type": "GroupKind", "groupKind": {"group": "", "kind": "Pod"}});
        kind.refuses(
            probe(group_kind.clone(), json!({"type": "FieldsEqual"})),
            "fieldsEqual is required when type is FieldsEqual, and forbidden otherwise",
        )
        .await;
        kind.refuses(
            probe(
                group_kind,
                json!({"type": "FieldValue", "fieldValue": {"fieldPath": "a-b", "value": "x"}}),
            ),
            "must contain a valid field path. valid fields contain upper or lower-case \
             alphanumeric characters separated by the \".\" character.",
        )
        .await;
        kind.refuses(set(json!({"progressionProbes": []})), "should have at least 1 items").await;
    }

    // api.md 3.4
    #[tokio::test]
    async fn observed_phases_are_written_once() {
        let kind = kind().await;
        let name = "admission-observed";
        kind.make(name, set(json!({"lifecycleState": "Archived"}))).await;
        let observed = |digest: &str| {
            json!({"status": {"observedPhases":
            [{"name": "p", "digest": digest}]}})
        };
        let bad = observed("sha256:XYZ");
        assert_refused(
            &bad,
            kind.change_status(name, bad.clone()).await,
            "digest must be in the format '<algorithm>:<hex>'",
        );
        assert_eq!(kind.change_status(name, observed("sha256:00")).await, Ok(()));
        let other = observed("sha256:11");
        assert_refused(
            &other,
            kind.change_status(name, other.clone()).await,
            "observedPhases is immutable",
        );
    }
}
