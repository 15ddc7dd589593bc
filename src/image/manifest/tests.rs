use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn digest(of: &str) -> String {
    Digest::sha256(of.as_bytes()).to_string()
}

fn index(platforms: &[Option<(&str, &str)>]) -> Vec<IndexEntry> {
    let entries: Vec<_> = platforms
        .iter()
        .enumerate()
        .map(|(at, platform)| {
            let platform =
                platform.map(|(os, architecture)| json!({"os": os, "architecture": architecture}));
            json!({"mediaType": OCI_IMAGE_MEDIA_TYPE, "digest": digest(&at.to_string()), "size": 1, "platform": platform})
        })
        .collect();
    let document = json!({"schemaVersion": 2, "manifests": entries}).to_string();
    match parse(document.as_bytes(), None).unwrap() {
        Manifest::Index(entries) => entries,
        image @ Manifest::Image { .. } => panic!("{image:?}"),
    }
}

// catalogs.md O2, 5.3 Platform
#[rstest]
#[case::attestation_ignored(&[Some(("unknown", "unknown")), Some(("linux", "amd64"))], "amd64", Some((1, true)))]
#[case::no_platform_is_last(&[None, Some(("linux", "amd64"))], "amd64", Some((1, true)))]
#[case::no_platform_is_better_than_none(&[None, Some(("linux", "arm64"))], "amd64", Some((0, true)))]
#[case::a_platform_without_names_is_none(&[Some(("", "")), Some(("linux", "arm64"))], "amd64", Some((0, true)))]
#[case::first_linux(&[Some(("windows", "amd64")), Some(("linux", "s390x")), Some(("linux", "arm64"))], "amd64", Some((1, false)))]
#[case::nothing(&[Some(("windows", "amd64"))], "amd64", None)]
fn chooses(
    #[case] platforms: &[Option<(&str, &str)>],
    #[case] architecture: &str,
    #[case] want: Option<(usize, bool)>,
) {
    let entries = index(platforms);
    let got = by_fitness(&entries, &Platform::linux(architecture));
    let got = got.first().map(|(entry, matches)| (entry.descriptor.digest.to_string(), *matches));
    assert_eq!(got, want.map(|(at, matches)| (digest(&at.to_string()), matches)));
}

#[test]
fn absent_platform_is_named() {
    assert_eq!(
        unsuited(&Platform::linux("amd64")).to_string(),
        r#"no image found in image index for architecture "amd64", variant "", OS "linux""#
    );
}

fn image(config_type: &str) -> serde_json::Value {
    json!({
        "schemaVersion": 2,
        "mediaType": OCI_IMAGE_MEDIA_TYPE,
        "config": {"mediaType": config_type, "digest": digest("c"), "size": 3},
        "layers": [{"mediaType": "x", "digest": digest("l"), "size": 4, "urls": ["http://10.0.0.1/"]}],
    })
}

// catalogs.md O1, O16
#[rstest]
#[case(IMAGE_CONFIG_MEDIA_TYPE)]
#[case(IMAGE_DOCKER_CONFIG_MEDIA_TYPE)]
fn images_are_read_and_foreign_urls_are_not(#[case] config_type: &str) {
    let manifest = parse(image(config_type).to_string().as_bytes(), None).unwrap();
    let want = |of, size| Descriptor { digest: digest(of).parse().unwrap(), size };
    assert_eq!(manifest, Manifest::Image { config: want("c", 3), layers: vec![want("l", 4)] });
}

// catalogs.md 5.6
#[rstest]
#[case("application/octet-stream")]
#[case("text/html")]
#[case("")]
fn the_type_of_a_configuration_does_not_count_in_a_manifest_of_docker(#[case] config_type: &str) {
    let mut document = image(config_type);
    parse(document.to_string().as_bytes(), None).unwrap_err();
    document["mediaType"] = json!(IMAGE_MANIFEST_MEDIA_TYPE);
    parse(document.to_string().as_bytes(), None).unwrap();
}

// catalogs.md 5.3
#[test]
fn a_character_set_does_not_change_the_media_type_of_an_answer() {
    let mut document = image(IMAGE_CONFIG_MEDIA_TYPE);
    document["mediaType"] = json!(null);
    let answer = format!("{OCI_IMAGE_MEDIA_TYPE}; charset=utf-8");
    parse(document.to_string().as_bytes(), Some(&answer)).unwrap();
}

// catalogs.md O3
#[rstest]
#[case::schema1(json!({"schemaVersion": 1, "fsLayers": []}), "manifest schema 1 is not supported")]
#[case::helm(image("application/vnd.cncf.helm.config.v1+json"),
    r#"not a container image: configuration has media type "application/vnd.cncf.helm.config.v1+json""#)]
#[case::nothing(json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.artifact.manifest.v1+json"}),
    r#"unsupported manifest media type "application/vnd.oci.artifact.manifest.v1+json""#)]
#[case::both(json!({"schemaVersion": 2, "manifests": [], "layers": []}), "manifest is both an image and an image index")]
#[case::shape(json!([]), "invalid manifest: line 1 column ")]
fn other_documents_are_refused(#[case] document: serde_json::Value, #[case] want: &str) {
    let err = parse(document.to_string().as_bytes(), None).unwrap_err();
    assert!(err.to_string().starts_with(want), "{err}");
}

#[rstest]
#[case::error(r#"{"message":"x"}"#, "application/json")]
#[case::error_of_a_manifest(r#"{"errors":[]}"#, OCI_IMAGE_MEDIA_TYPE)]
#[case::page("<html>", "text/html")]
fn an_answer_that_is_no_manifest_may_be_one_later(#[case] body: &str, #[case] content_type: &str) {
    let parsed = parse(body.as_bytes(), Some(content_type)).map(drop);
    let signatures = attached(body.as_bytes(), Some(content_type), "x").map(drop);
    for (what, answer) in [("manifest", parsed), ("manifest of signatures", signatures)] {
        let Err(ManifestError::Invalid(text)) = answer else { panic!("{answer:?}") };
        let want = format!("the answer is not a {what}, its content type is \"{content_type}\"");
        assert_eq!(text, want);
    }
}

#[test]
fn configuration_must_describe_every_layer() {
    let config =
        json!({"config": {"Labels": {"a": "b", "n": null}}, "rootfs": {"diff_ids": [digest("d")]}});
    let config = config.to_string();
    let parsed = parse_config(config.as_bytes(), 1).unwrap();
    assert_eq!(parsed.labels["a"], "b");
    assert_eq!(parsed.labels["n"], "");
    assert!(parse_config(config.as_bytes(), 2).is_err());
    assert!(parse_config(b"{}", 0).is_ok());
}

// catalogs.md 5.8
#[rstest]
#[case::catalog(Limits::catalog(), &[2 << 30], None)]
#[case::large_layer(Limits::catalog(), &[(2 << 30) + 1], Some("layer 1 is 2147483649 bytes, more than 2147483648"))]
#[case::large(Limits::catalog(), &[2 << 30; 5], Some("the layers of the image are 10737418240 bytes together, more than 8589934592"))]
#[case::many(Limits::catalog(), &[0; 257], Some("image has more than 256 layers"))]
#[case::bundle(Limits::bundle(), &[256 << 20], None)]
#[case::large_layer_of_a_bundle(Limits::bundle(), &[1, (256 << 20) + 1], Some("layer 2 is 268435457 bytes, more than 268435456"))]
#[case::large_bundle(Limits::bundle(), &[1, 256 << 20], Some("the layers of the image are 268435457 bytes together, more than 268435456"))]
fn oversized_images_are_refused_before_any_download(
    #[case] limits: Limits,
    #[case] sizes: &[u64],
    #[case] want: Option<&str>,
) {
    let layer = |size: &u64| Descriptor { digest: Digest::sha256(b""), size: *size };
    let layers: Vec<_> = sizes.iter().map(layer).collect();
    let refused = check_layers(&layers, &limits).err().map(|error| error.to_string());
    assert_eq!(refused.as_deref(), want);
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = parse(&bytes, None);
        let _ = parse_config(&bytes, 0);
    }
}
