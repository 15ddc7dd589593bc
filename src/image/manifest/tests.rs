use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn digest(of: &str) -> String {
    Digest::sha256(of.as_bytes()).to_string()
}

fn index(platforms: &[Option<(&str, &str, &str)>]) -> Vec<IndexEntry> {
    let entries: Vec<_> = platforms
        .iter()
        .enumerate()
        .map(|(at, platform)| {
            let platform = platform.map(
                |(os, architecture, variant)| json!({"os": os, "architecture": architecture, "variant": variant}),
            );
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
#[case::attestation_ignored(&[Some(("unknown", "unknown", "")), Some(("linux", "amd64", ""))], "amd64", Some((1, true)))]
#[case::arm_variants(&[Some(("linux", "arm", "v6")), Some(("linux", "arm", "v7"))], "arm", Some((1, true)))]
#[case::no_platform_is_last(&[None, Some(("linux", "amd64", ""))], "amd64", Some((1, true)))]
#[case::no_platform_is_better_than_none(&[None, Some(("linux", "arm64", ""))], "amd64", Some((0, true)))]
#[case::first_linux(&[Some(("windows", "amd64", "")), Some(("linux", "s390x", "")), Some(("linux", "arm64", ""))], "amd64", Some((1, false)))]
#[case::nothing(&[Some(("windows", "amd64", ""))], "amd64", None)]
fn chooses(
    #[case] platforms: &[Option<(&str, &str, &str)>],
    #[case] architecture: &str,
    #[case] want: Option<(usize, bool)>,
) {
    let entries = index(platforms);
    let got = choose(&entries, &Platform::linux(architecture)).ok();
    let got = got.map(|(entry, matches)| (entry.descriptor.digest.to_string(), matches));
    assert_eq!(got, want.map(|(at, matches)| (digest(&at.to_string()), matches)));
}

#[test]
fn absent_platform_is_named() {
    let err = choose(&[], &Platform::linux("amd64")).unwrap_err();
    assert_eq!(
        err.to_string(),
        r#"no image found in image index for architecture "amd64", variant "", OS "linux""#
    );
}

#[test]
fn zstd_instance_wins_among_equals() {
    let mut entries = index(&[Some(("linux", "amd64", "")), Some(("linux", "amd64", ""))]);
    entries[1].zstd = true;
    let (entry, _) = choose(&entries, &Platform::linux("amd64")).unwrap();
    assert_eq!(entry.descriptor, entries[1].descriptor);
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

#[test]
fn oversized_images_are_refused_before_any_download() {
    let limits = Limits::catalog();
    let layer = |size| Descriptor { digest: Digest::sha256(b""), size };
    assert!(check_layers(&[layer(limits.compressed_layer)], &limits).is_ok());
    assert!(check_layers(&[layer(limits.compressed_layer + 1)], &limits).is_err());
    assert!(check_layers(&vec![layer(limits.compressed_layer); 5], &limits).is_err());
    assert!(check_layers(&vec![layer(0); 257], &limits).is_err());
}

// catalogs.md 5.8
#[test]
fn layers_of_a_bundle_have_a_limit_of_their_own() {
    let limits = Limits::bundle();
    let refusal = |sizes: &[u64]| {
        let layer = |size: &u64| Descriptor { digest: Digest::sha256(b""), size: *size };
        let layers: Vec<_> = sizes.iter().map(layer).collect();
        check_layers(&layers, &limits).unwrap_err().to_string()
    };
    let most = 256 << 20;
    check_layers(&[Descriptor { digest: Digest::sha256(b""), size: most }], &limits).unwrap();
    assert_eq!(refusal(&[1, most + 1]), "layer 2 is 268435457 bytes, more than 268435456");
    let want = "the layers of the image are 268435457 bytes together, more than 268435456";
    assert_eq!(refusal(&[1, most]), want);
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = parse(&bytes, None);
        let _ = parse_config(&bytes, 0);
    }
}
