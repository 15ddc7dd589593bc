//! Pulling from the real registry of the local control plane.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use olm_core::error::Chain;
use olm_image::built::{BuiltImage, Compression, Format, ImageBuilder, tar_of};
use olm_image::catalog::CONFIGS_LABEL;
use olm_image::policy::PolicyPath;
use olm_image::push::{PushOptions, push, push_index};
use olm_image::{
    BundleCache, Digest, ImageRef, Platform, PullConfig, PullError, Puller, RegistriesPaths,
    pull_bundle, pull_catalog,
};
use olm_test::prelude::*;
use rcgen::{KeyPair, SigningKey as _};

/// A repository of the registry for one test, and a puller that may use plain HTTP there.
struct Scene {
    registry: String,
    repository: String,
    dir: tempfile::TempDir,
    puller: Puller,
}

fn plain_http() -> PushOptions {
    PushOptions { plain_http: true, ..PushOptions::default() }
}

async fn scene(repository: &str) -> Scene {
    // It may be installed already by another test, which is fine.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let registry = cluster::shared().await.registry;
    let dir = tempfile::tempdir().unwrap();
    let registries = format!("[[registry]]\nlocation = \"{registry}\"\ninsecure = true\n");
    let puller = Puller::new(config(dir.path(), &registries));
    Scene { registry, repository: repository.to_owned(), dir, puller }
}

fn said(err: &PullError) -> String {
    Chain(err).to_string()
}

fn config(dir: &Path, registries: &str) -> PullConfig {
    let file = dir.join("registries.conf");
    std::fs::write(&file, registries).unwrap();
    PullConfig {
        registries: RegistriesPaths::new(Some(file)),
        policy: PolicyPath { file: dir.join("policy.json"), required: false },
        platform: Platform::linux("amd64"),
        ..PullConfig::default()
    }
}

impl Scene {
    fn tag(&self, tag: &str) -> ImageRef {
        format!("{}/{}:{tag}", self.registry, self.repository).parse().unwrap()
    }

    async fn push(&self, tag: &str, image: &BuiltImage) -> ImageRef {
        let to = self.tag(tag);
        push(image, &to, &plain_http()).await.unwrap();
        to
    }

    async fn catalog(&self, image: &ImageRef) -> Result<BTreeMap<String, Vec<u8>>, PullError> {
        let resolved = self.puller.resolve(image).await?;
        Ok(pull_catalog(&self.puller, &resolved).await?.files.to_map().unwrap())
    }
}

fn catalog(content: &str) -> ImageBuilder {
    let files = [("configs/p/catalog.yaml", content.as_bytes()), ("bin/opm", b"elf")];
    ImageBuilder::new().label(CONFIGS_LABEL, "/configs").layer(files).unwrap()
}

fn files(content: &str) -> BTreeMap<String, Vec<u8>> {
    BTreeMap::from([("configs/p/catalog.yaml".into(), content.as_bytes().to_vec())])
}

// catalogs.md O1, O2, O17
#[tokio::test(flavor = "multi_thread")]
async fn every_form_of_image_is_pulled_and_named_by_its_top_digest() {
    let scene = scene("registry-test/forms").await;
    let layer = || tar_of([("configs/p/catalog.yaml", b"data".as_slice())]).unwrap();
    let image = |format, compression| {
        let builder = ImageBuilder::new().label(CONFIGS_LABEL, "configs/").format(format);
        builder.tar(layer(), compression).build().unwrap()
    };
    for (tag, format, compression) in [
        ("oci-gzip", Format::Oci, Compression::Gzip),
        ("oci-zstd", Format::Oci, Compression::Zstd),
        ("oci-plain", Format::Oci, Compression::None),
        ("docker-gzip", Format::Docker, Compression::Gzip),
    ] {
        let built = image(format, compression);
        let pushed = scene.push(tag, &built).await;
        let resolved = scene.puller.resolve(&pushed).await.unwrap();
        assert_eq!(resolved.digest(), &built.digest(), "{tag}");
        let pulled = pull_catalog(&scene.puller, &resolved).await.unwrap();
        assert_eq!(
            resolved.image().to_string(),
            format!("{}/registry-test/forms@{}", scene.registry, built.digest())
        );
        assert_eq!(pulled.files.to_map().unwrap(), files("data"), "{tag}");
    }
    for (tag, format) in [("oci-index", Format::Oci), ("docker-list", Format::Docker)] {
        let other = catalog("other").format(format).platform(Platform::linux("s390x"));
        let images = [other.build().unwrap(), image(format, Compression::Gzip)];
        let digest = push_index(&images, &scene.tag(tag), &plain_http()).await.unwrap();
        let resolved = scene.puller.resolve(&scene.tag(tag)).await.unwrap();
        assert_eq!(resolved.digest(), &digest, "{tag}");
        let by_digest = resolved.image().clone();
        assert_eq!(scene.catalog(&scene.tag(tag)).await.unwrap(), files("data"), "{tag}");
        assert_eq!(scene.catalog(&by_digest).await.unwrap(), files("data"), "{tag}");
    }
    // Without an image of our platform its first one for Linux counts.
    let other = catalog("s390x").platform(Platform::linux("s390x")).build().unwrap();
    push_index(&[other], &scene.tag("other"), &plain_http()).await.unwrap();
    assert_eq!(scene.catalog(&scene.tag("other")).await.unwrap(), files("s390x"));
}

// catalogs.md O13, D6
#[tokio::test(flavor = "multi_thread")]
async fn tag_that_moves_during_a_pull_changes_nothing() {
    let scene = scene("registry-test/moving").await;
    let tag = scene.push("latest", &catalog("one").build().unwrap()).await;
    let resolved = scene.puller.resolve(&tag).await.unwrap();
    scene.push("latest", &catalog("two").build().unwrap()).await;
    let pulled = pull_catalog(&scene.puller, &resolved).await.unwrap();
    assert_eq!(pulled.files.to_map().unwrap(), files("one"));
    assert_eq!(scene.catalog(&tag).await.unwrap(), files("two"));
}

// api.md row 23, catalogs.md 5.3 Errors and Ping, R2
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_pulled_is_reported_in_the_words_of_the_registry_or_the_network() {
    let scene = scene("registry-test/unknown").await;
    let name = format!("{}/registry-test/unknown", scene.registry);
    let err = scene.catalog(&scene.tag("nope")).await.unwrap_err();
    assert!(!err.is_terminal());
    let want =
        format!("error creating image source: reading manifest nope in {name}: manifest unknown");
    assert_eq!(said(&err), want);

    let digest = format!("sha256:{}", "0".repeat(64));
    let image: ImageRef = format!("{name}@{digest}").parse().unwrap();
    let err = scene.catalog(&image).await.unwrap_err();
    let want = format!(
        "error copying image: initializing source docker://{image}: reading manifest {digest} in {name}: manifest unknown"
    );
    assert_eq!(said(&err), want);

    // Plain HTTP needs a word, and nobody answers at a closed port.
    let tag = scene.push("v1", &catalog("x").build().unwrap()).await;
    let strict = Puller::new(config(scene.dir.path(), ""));
    let err = strict.resolve(&tag).await.unwrap_err();
    let registry = &scene.registry;
    assert_eq!(
        said(&err),
        format!(
            "error creating image source: pinging container registry {registry}: Get \"https://{registry}/v2/\": http: server gave HTTP response to HTTPS client"
        )
    );
    let closed: ImageRef = "127.0.0.1:1/a/b:c".parse().unwrap();
    let err = strict.resolve(&closed).await.unwrap_err();
    assert_eq!(
        said(&err),
        "error creating image source: pinging container registry 127.0.0.1:1: Get \"https://127.0.0.1:1/v2/\": Connection refused"
    );
}

// catalogs.md 5.1, 5.2
#[tokio::test(flavor = "multi_thread")]
async fn cached_bundle_needs_no_registry() {
    let scene = scene("registry-test/bundle").await;
    let content = [
        ("manifests/csv.yaml", b"csv".as_slice()),
        ("metadata/annotations.yaml", b"annotations"),
        ("tests/scorecard/config.yaml", b"not kept"),
    ];
    let built = ImageBuilder::new().layer(content).unwrap().build().unwrap();
    let tag = scene.push("v1", &built).await;
    let cache = BundleCache::open(scene.dir.path().join("cache")).unwrap();
    let one = pull_bundle(&scene.puller, &tag, Some((&cache, "ext"))).await.unwrap();
    assert_eq!(
        one.files.keys().collect::<Vec<_>>(),
        ["manifests/csv.yaml", "metadata/annotations.yaml"]
    );
    let blocked = format!("[[registry]]\nlocation = \"{}\"\nblocked = true\n", scene.registry);
    let offline = Puller::new(config(scene.dir.path(), &blocked));
    let two = pull_bundle(&offline, &one.image, Some((&cache, "ext"))).await.unwrap();
    assert_eq!(one, two);
    let err = pull_bundle(&offline, &one.image, Some((&cache, "other"))).await.unwrap_err();
    assert!(said(&err).ends_with("is blocked by the registries configuration"));
}

// catalogs.md O11, O12
#[tokio::test(flavor = "multi_thread")]
async fn mirrors_serve_what_an_unreachable_origin_cannot() {
    let scene = scene("registry-test/mirror").await;
    scene.push("v1", &catalog("mirrored").build().unwrap()).await;
    let mirrored = format!(
        "[[registry]]\nlocation = \"127.0.0.1:1\"\n\
         [[registry.mirror]]\nlocation = \"{}/registry-test\"\ninsecure = true\n\
         pull-from-mirror = \"tag-only\"\n",
        scene.registry
    );
    let puller = Puller::new(config(scene.dir.path(), &mirrored));
    let image: ImageRef = "127.0.0.1:1/mirror:v1".parse().unwrap();
    let resolved = puller.resolve(&image).await.unwrap();
    assert!(resolved.image().to_string().starts_with("127.0.0.1:1/mirror@sha256:"));
    // The mirror is for tags only, yet it serves the content of the tag it resolved.
    let image = pull_catalog(&puller, &resolved).await.unwrap();
    assert_eq!(image.files.to_map().unwrap(), files("mirrored"));

    let missing: ImageRef = "127.0.0.1:1/mirror:v2".parse().unwrap();
    let err = puller.resolve(&missing).await.unwrap_err();
    let at = format!("{}/registry-test/mirror", scene.registry);
    assert_eq!(
        said(&err),
        format!(
            "error creating image source: (Mirrors also failed: [{at}:v2: reading manifest v2 in {at}: manifest unknown]): 127.0.0.1:1/mirror:v2: pinging container registry 127.0.0.1:1: Get \"https://127.0.0.1:1/v2/\": Connection refused"
        )
    );
}

// catalogs.md O15
#[tokio::test(flavor = "multi_thread")]
async fn edited_policy_decides_the_next_pull() {
    let scene = scene("registry-test/policy").await;
    let tag = scene.push("v1", &catalog("x").build().unwrap()).await;
    scene.catalog(&tag).await.unwrap();
    let policy = scene.dir.path().join("policy.json");
    std::fs::write(&policy, r#"{"default": [{"type": "reject"}]}"#).unwrap();
    let err = scene.catalog(&tag).await.unwrap_err();
    assert!(err.is_terminal());
    assert_eq!(
        said(&err),
        format!(
            "error copying image: Source image rejected: Running image docker://{tag} is rejected by policy."
        )
    );
    let signed_by = r#"[{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/k"}]"#;
    std::fs::write(&policy, format!("{{\"default\": {signed_by}}}")).unwrap();
    let err = scene.catalog(&tag).await.unwrap_err();
    assert!(err.is_terminal() && said(&err).contains("\"signedBy\", which"));
    std::fs::write(&policy, "{").unwrap();
    let err = scene.catalog(&tag).await.unwrap_err();
    assert!(!err.is_terminal() && said(&err).contains("policy.json"));
}

/// Signs an image as cosign does.
fn signature(of: &BuiltImage, name: &str, key: &KeyPair) -> BuiltImage {
    let payload = json!({
        "critical": {
            "type": "cosign container image signature",
            "image": {"docker-manifest-digest": of.digest().to_string()},
            "identity": {"docker-reference": name},
        },
        "optional": null,
    });
    let payload = payload.to_string().into_bytes();
    let signature = BASE64_STANDARD.encode(key.sign(&payload).unwrap());
    let mut image = ImageBuilder::new().build().unwrap();
    let blob = |media_type: &str, blob: &[u8]| {
        let digest = Digest::sha256(blob).to_string();
        json!({"mediaType": media_type, "digest": digest, "size": blob.len()})
    };
    let mut layer = blob("application/vnd.dev.cosign.simplesigning.v1+json", &payload);
    layer["annotations"] = json!({"dev.cosignproject.cosign/signature": signature});
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("application/vnd.oci.image.config.v1+json", &image.config),
        "layers": [layer],
    });
    image.manifest = manifest.to_string().into_bytes();
    image.layers = vec![payload];
    image
}

// catalogs.md 5.5
#[tokio::test(flavor = "multi_thread")]
async fn signed_images_are_pulled_and_others_are_refused_with_what_to_do() {
    let scene = scene("registry-test/signed").await;
    let content = [("manifests/csv.yaml", b"csv".as_slice()), ("metadata/annotations.yaml", b"a")];
    let built = catalog("x").layer(content).unwrap().build().unwrap();
    let tag = scene.push("v1", &built).await;
    let images = [tag.clone(), tag.with_digest(built.digest())];
    let keys = [KeyPair::generate().unwrap(), KeyPair::generate().unwrap()];
    let demand = |key: &KeyPair| {
        let rule = json!({
            "type": "sigstoreSigned",
            "keyData": BASE64_STANDARD.encode(key.public_key_pem()),
            "signedIdentity": {"type": "matchRepository"},
        });
        let policy = json!({"default": [rule]}).to_string();
        std::fs::write(scene.dir.path().join("policy.json"), policy).unwrap();
    };
    let refused = async |want: &str| {
        for image in &images {
            let bundle = pull_bundle(&scene.puller, image, None).await.map(|_| ());
            for pulled in [scene.catalog(image).await.map(|_| ()), bundle] {
                let err = pulled.unwrap_err();
                let text = said(&err);
                assert!(text.contains(want) && !err.is_terminal(), "{text}");
            }
        }
    };
    demand(&keys[0]);
    refused("registries.d\" enables signatures for").await;
    let registries = scene.dir.path().join("registries.d");
    std::fs::create_dir(&registries).unwrap();
    let all = "default-docker: {use-sigstore-attachments: true}";
    std::fs::write(registries.join("all.yaml"), all).unwrap();
    refused(" is not signed, and policy.json requires a signature for the default").await;
    let beside = format!("sha256-{}.sig", built.digest().hex());
    scene.push(&beside, &signature(&built, &tag.name(), &keys[1])).await;
    refused("it was made with another key").await;
    scene.push(&beside, &signature(&built, "quay.io/other", &keys[0])).await;
    refused("it is for the name \"quay.io/other\", and policy.json requires").await;

    scene.push(&beside, &signature(&built, &tag.name(), &keys[0])).await;
    let cache = BundleCache::open(scene.dir.path().join("cache")).unwrap();
    for image in &images {
        assert_eq!(scene.catalog(image).await.unwrap(), files("x"));
        let bundle = pull_bundle(&scene.puller, image, Some((&cache, "ext"))).await.unwrap();
        assert_eq!(bundle.files.len(), 2);
    }
    // What is cached satisfied another policy.
    demand(&keys[1]);
    let err = pull_bundle(&scene.puller, &tag, Some((&cache, "ext"))).await.unwrap_err();
    assert!(said(&err).contains("it was made with another key"));
}
