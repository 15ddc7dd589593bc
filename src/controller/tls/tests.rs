use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use axum::Router;
use clap::Parser as _;
use rstest::rstest;
use rustls::pki_types::ServerName;
use rustls::version::TLS12;
use rustls::{ClientConnection, ProtocolVersion, RootCertStore, ServerConfig};
use serde_json::{Value, json};

use super::names::LACKING;
use super::*;
use crate::args::Args;
use crate::catalog::{CatalogServer, Published, Trust};
use crate::server::tls::Certificates;
use crate::server::{bind, started};

const SUITE: &str = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";

fn args(flags: &[&str]) -> Result<Args, clap::Error> {
    Args::try_parse_from([&["olm-controller"], flags].concat())
}

fn offer(flags: &[&str]) -> Offer {
    args(flags).unwrap().tls().unwrap()
}

/// A listener, and what trusts it.
struct Listener {
    address: SocketAddr,
    certificates: Certificates,
    profile: CurrentProfile,
    made: rcgen::CertifiedKey<rcgen::KeyPair>,
}

fn listen(profile: Profile) -> Listener {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let profile = CurrentProfile::from(profile);
    let certificates = Certificates::pending(profile.clone());
    let key = made.signing_key.serialize_der().try_into().unwrap();
    let chain = vec![made.cert.der().clone()];
    certificates.present(chain, key).unwrap();
    let address = started(Some(certificates.clone()), Router::new());
    Listener { address, certificates, profile, made }
}

/// The result of a handshake.
#[derive(Debug, PartialEq, Eq)]
struct Agreed {
    version: ProtocolVersion,
    suite: CipherSuite,
    group: NamedGroup,
}

impl Listener {
    /// Makes a handshake as a client that knows everything up to `version`.
    async fn agree(&self, version: &'static SupportedProtocolVersion) -> io::Result<Agreed> {
        let mut roots = RootCertStore::empty();
        roots.add(self.made.cert.der().clone()).unwrap();
        let provider = Arc::new(CryptoProvider {
            kx_groups: ALL_KX_GROUPS.to_vec(),
            ..aws_lc_rs::default_provider()
        });
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let address = self.address;
        let handshake = move || {
            let mut tcp = TcpStream::connect(address)?;
            let mut tls = ClientConnection::new(Arc::new(client), name).unwrap();
            while tls.is_handshaking() {
                tls.complete_io(&mut tcp)?;
            }
            Ok(Agreed {
                version: tls.protocol_version().unwrap(),
                suite: tls.negotiated_cipher_suite().unwrap().suite(),
                group: tls.negotiated_key_exchange_group().unwrap().name(),
            })
        };
        tokio::task::spawn_blocking(handshake).await.unwrap()
    }
}

// deploying.md P37
#[tokio::test]
async fn what_go_has_and_we_have_not_is_left_out_and_said_once() {
    let lacking = LACKING[..10].join(",");
    let flags = [
        "--tls-profile=custom",
        "--tls-custom-version=TLSv1.0",
        &format!("--tls-custom-ciphers={lacking},{SUITE}"),
        "--tls-custom-curves=secp521r1,secp384r1",
    ];
    let warnings = args(&flags).unwrap().warnings();
    let want = format!(
        "the TLS profile is stricter than requested: not supported are TLSv1.0, {}, secp521r1; TLS 1.2 \
         and 1.3 are offered",
        LACKING[..10].join(", ")
    );
    assert_eq!(warnings, [want]);

    let listener = listen(offer(&flags).profile);
    let agreed = listener.agree(&TLS12).await.unwrap();
    let want = Agreed {
        version: ProtocolVersion::TLSv1_2,
        suite: CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        group: NamedGroup::secp384r1,
    };
    assert_eq!(agreed, want);
    let agreed = listener.agree(&TLS13).await.unwrap();
    assert_eq!(agreed.version, ProtocolVersion::TLSv1_3);
    assert_eq!(agreed.group, NamedGroup::secp384r1);
}

// deploying.md P37
#[rstest]
#[case("--tls-profile=strict", "strict")]
#[case("--tls-custom-version=TLSv1.4", "TLSv1.4")]
#[case("--tls-custom-ciphers=TLS_NONE,x", "unknown cipher \"TLS_NONE\"")]
#[case(
    "--tls-custom-ciphers=ECDHE-RSA-AES128-GCM-SHA256",
    "unknown cipher \"ECDHE-RSA-AES128-GCM-SHA256\""
)]
#[case("--tls-custom-curves=P-256", "unknown curve \"P-256\"")]
fn unknown_names_are_refused(#[case] flag: &str, #[case] text: &str) {
    let error = args(&[flag]).unwrap_err();
    assert!(error.to_string().contains(text), "{error}");
}

#[test]
fn without_a_flag_everything_is_offered_as_upstream_does() {
    let all = aws_lc_rs::default_provider();
    let offered = offer(&[]).profile.provider();
    assert_eq!(offered.cipher_suites, all.cipher_suites);
    let names = |provider: &CryptoProvider| -> Vec<_> {
        provider.kx_groups.iter().map(|one| one.name()).collect()
    };
    assert_eq!(names(&offered), names(&all));
    assert_eq!(args(&[]).unwrap().warnings(), [""; 0]);
}

#[rstest]
#[case(&["--tls-profile=Intermediate"], true, "")]
#[case(&["--tls-profile=cluster"], true, "")]
#[case(&["--tls-profile=modern"], false, "")]
#[case(&["--tls-profile=old"], true, "not supported are TLSv1.0; TLS 1.2 and 1.3 are offered")]
#[case(&["--tls-profile=custom", "--tls-custom-ciphers=", "--tls-custom-curves="], true, "")]
#[case(&["--tls-profile=custom", "--tls-custom-version=TLSv1.3"], false, "")]
#[case(&["--tls-profile=custom", "--tls-custom-ciphers=TLS_AES_128_GCM_SHA256"], false,
    "no suite of TLS 1.2 is named; TLS 1.3 alone is offered")]
#[case(&["--tls-profile=custom", "--tls-custom-ciphers=TLS_RSA_WITH_RC4_128_SHA"], false,
    "not supported are TLS_RSA_WITH_RC4_128_SHA; TLS 1.3 alone is offered")]
#[case(&["--tls-custom-version=TLSv1.3"], true, "do nothing without --tls-profile=custom")]
#[tokio::test]
async fn profiles_offer_tls12_or_not(
    #[case] flags: &[&str],
    #[case] tls12: bool,
    #[case] warning: &str,
) {
    let listener = listen(offer(flags).profile);
    assert_eq!(listener.agree(&TLS12).await.is_ok(), tls12);
    listener.agree(&TLS13).await.unwrap();
    let warnings = args(flags).unwrap().warnings();
    assert_eq!(warnings.len(), usize::from(!warning.is_empty()));
    assert!(warnings.concat().contains(warning), "{warnings:?}");
}

#[test]
fn a_profile_without_a_supported_curve_is_refused() {
    let flags = ["--tls-profile=custom", "--tls-custom-curves=secp521r1"];
    let error = args(&flags).unwrap().tls().unwrap_err();
    assert!(error.to_string().contains("secp521r1"), "{error}");
}

#[tokio::test]
async fn another_profile_holds_for_new_connections_and_the_next_certificate() {
    let listener = listen(Profile::default());
    listener.agree(&TLS12).await.unwrap();
    let modern = offer(&["--tls-profile=modern"]).profile;
    assert!(listener.profile.take(modern.clone()));
    assert!(!listener.profile.take(modern));
    listener.certificates.renew();
    listener.agree(&TLS12).await.unwrap_err();
    listener.agree(&TLS13).await.unwrap();
    listener.profile.take(Profile::default());
    let key = listener.made.signing_key.serialize_der().try_into();
    let chain = vec![listener.made.cert.der().clone()];
    listener.certificates.present(chain, key.unwrap()).unwrap();
    listener.agree(&TLS12).await.unwrap();
}

// deploying.md 5.3: what is downloaded comes as the profile says.
#[tokio::test]
async fn the_client_of_catalogs_obeys_the_profile() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = made.signing_key.serialize_der().try_into().unwrap();
    let server = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&TLS12])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = axum_server::tls_rustls::RustlsConfig::from_config(Arc::new(server));
    let accepting = axum_server::from_tcp_rustls(listener, config).unwrap();
    tokio::spawn(accepting.serve(Router::new().into_make_service()));
    let published = Published::default();
    published.take(made.cert.pem());
    let (trust, profile) = (Trust::Published(published), CurrentProfile::default());
    let folder = tempfile::tempdir().unwrap();
    let replica = CatalogServer::replica(folder.path(), trust.clone(), profile.clone()).unwrap();
    let other = CatalogServer::other(folder.path(), trust, profile.clone()).unwrap();
    let base = format!("https://localhost:{port}");
    let get = async |server: &CatalogServer| {
        let error = server.get(&base, "registry/a@sha256:1").await.unwrap_err();
        error.to_string()
    };
    let answered = "error: received unexpected response status code 404";
    assert_eq!(get(&replica).await, answered);
    assert_eq!(get(&other).await, answered);
    profile.take(offer(&["--tls-profile=modern"]).profile);
    for error in [get(&replica).await, get(&other).await] {
        assert!(error.contains("ProtocolVersion"), "{error}");
    }
}

// OpenShift's names, which are OpenSSL's.
#[rstest]
#[case(json!(null), &[])]
#[case(json!({"type": "Intermediate"}), &[])]
#[case(json!({"type": "Old"}), &["--tls-profile=old"])]
#[case(json!({"type": "Modern"}), &["--tls-profile=modern"])]
#[case(json!({"type": "Custom", "custom": {"minTLSVersion": "VersionTLS12", "ciphers":
    ["TLS_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"], "groups": ["SecP256r1"]}}),
    &["--tls-profile=custom", "--tls-custom-ciphers=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "--tls-custom-curves=secp256r1"])]
fn the_profile_of_the_cluster_is_one_of_the_flags(#[case] asked: Value, #[case] flags: &[&str]) {
    assert_eq!(cluster::offer(&asked).unwrap(), offer(flags));
}

#[test]
fn what_the_cluster_asks_for_and_is_not_known_stops_nothing() {
    let custom = |ciphers: &[&str], lowest: &str, groups: &[&str]| {
        cluster::offer(&json!({"type": "Custom", "custom":
            {"ciphers": ciphers, "minTLSVersion": lowest, "groups": groups}}))
    };
    let taken = custom(&["DES-CBC3-SHA"], "VersionTLS11", &[]).unwrap();
    let note = "the TLS profile is stricter than requested: not supported are TLSv1.1, DES-CBC3-SHA; TLS \
                1.3 alone is offered";
    assert_eq!(taken.note.as_deref(), Some(note));
    assert!(custom(&[], "VersionTLS14", &[]).is_err());
    assert!(custom(&[], "VersionTLS12", &["secp521r1"]).is_err());
    assert!(cluster::offer(&json!({"type": "Future"})).is_err());
}
