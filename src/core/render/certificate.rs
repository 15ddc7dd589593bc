//! Which issuer makes the certificates of the servers that the API server calls, and what it needs in
//! the objects.
//!
//! Source: rendering.md 4.11.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use olm_api::keys::annotation;
use serde_json::{Map, Value, json};

use super::name::{certificate_name, issuer_name, service_name};
use super::object;
use crate::bundle::{Bundle, Csv};
use crate::object::Object;

/// Longest common name of a certificate, in bytes (rendering.md R3).
const MAX_COMMON_NAME_BYTES: usize = 64;

/// The CRD of cert-manager's certificates.
const CERTIFICATE_CRD: &str = "certificates.cert-manager.io";

const CERT_MANAGER_VERSION: &str = "cert-manager.io/v1";

/// An issuer of certificates for webhooks and API services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CertificateSource {
    /// cert-manager.
    CertManager,
    /// The service CA of OpenShift.
    ServiceCa,
    /// The controller itself.
    SelfSigned,
}

impl CertificateSource {
    /// Returns the name that flags and annotations use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CertManager => "cert-manager",
            Self::ServiceCa => "service-ca",
            Self::SelfSigned => "self-signed",
        }
    }
}

impl fmt::Display for CertificateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is not that of a [`CertificateSource`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown source of certificates {0:?}")]
pub struct UnknownCertificateSource(pub String);

impl FromStr for CertificateSource {
    type Err = UnknownCertificateSource;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::CertManager, Self::ServiceCa, Self::SelfSigned]
            .into_iter()
            .find(|source| source.as_str() == text)
            .ok_or_else(|| UnknownCertificateSource(text.to_owned()))
    }
}

/// What the cluster serves that matters for the choice of an issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Served {
    /// Whether the API group `config.openshift.io` is served.
    pub openshift: bool,
    /// Whether cert-manager's Certificates are served.
    pub cert_manager: bool,
}

/// Chooses the issuer for a bundle: the requested one, else the one recorded for an earlier
/// revision, else what the cluster offers, else the controller itself.
///
/// Unless it is requested or recorded, cert-manager is not chosen for a bundle that contains it:
/// the install would wait for certificates before the Deployment that issues them exists.
///
/// Source: rendering.md 4.11.
pub fn choose_certificates(
    asked: Option<CertificateSource>,
    recorded: Option<CertificateSource>,
    served: Served,
    needs: &CertificateNeeds,
) -> CertificateSource {
    let offered = || {
        if served.openshift {
            CertificateSource::ServiceCa
        } else if served.cert_manager && !needs.brings_cert_manager {
            CertificateSource::CertManager
        } else {
            CertificateSource::SelfSigned
        }
    };
    asked.or(recorded).unwrap_or_else(offered)
}

/// The certificates a bundle needs, and what matters for the choice of their issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateNeeds {
    /// One request per deployment that serves webhooks or API services, sorted.
    pub requests: Vec<CertificateRequest>,
    /// Whether the bundle contains the CRD of cert-manager's Certificates itself.
    pub brings_cert_manager: bool,
}

/// Returns the certificates a bundle needs when it is installed into a namespace.
pub fn certificate_needs(bundle: &Bundle, namespace: &str) -> CertificateNeeds {
    let owned = bundle.csv.owned_crds.iter().map(String::as_str);
    let shipped = bundle.crds.iter().map(Object::name);
    CertificateNeeds {
        requests: certificate_requests(&bundle.csv, namespace),
        brings_cert_manager: owned.chain(shipped).any(|name| name == CERTIFICATE_CRD),
    }
}

/// An issuer of certificates with the data rendering needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CertificateProvider {
    /// cert-manager.
    CertManager,
    /// The service CA of OpenShift.
    ServiceCa,
    /// The controller itself.
    SelfSigned {
        /// CA certificates that callers trust, as PEM; when empty, `caBundle` is left out.
        ca_bundle: String,
    },
}

/// A certificate that the controller has to issue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CertificateRequest {
    /// Name of the Secret that holds the certificate.
    pub secret: String,
    /// Namespace of the Secret.
    pub namespace: String,
    /// DNS names under which the server is called.
    pub dns_names: Vec<String>,
}

impl CertificateRequest {
    /// Returns the Secret, without data.
    pub fn secret_object(&self) -> Object {
        Object(object("v1", "Secret", &self.secret, &self.namespace))
    }
}

/// Returns the names of the deployments that serve webhooks or API services, sorted.
pub(super) fn called_deployments(csv: &Csv) -> BTreeSet<&str> {
    csv.endpoints().map(|endpoint| endpoint.deployment).collect()
}

/// Returns what the controller has to issue when it is the issuer: one certificate for each
/// deployment that the API server calls, sorted by its name.
pub(super) fn certificate_requests(csv: &Csv, namespace: &str) -> Vec<CertificateRequest> {
    let deployments = called_deployments(csv).into_iter();
    deployments.map(|deployment| request_of_service(&service_name(deployment), namespace)).collect()
}

/// Returns what the server behind a Service needs.
pub(super) fn request_of_service(service: &str, namespace: &str) -> CertificateRequest {
    CertificateRequest {
        secret: certificate_name(service),
        namespace: namespace.to_owned(),
        dns_names: dns_names(service, namespace).into(),
    }
}

fn dns_names(service: &str, namespace: &str) -> [String; 3] {
    let name = format!("{service}.{namespace}");
    let svc = format!("{name}.svc");
    let full = format!("{svc}.cluster.local");
    [name, svc, full]
}

impl CertificateProvider {
    /// Returns which issuer this is.
    pub fn source(&self) -> CertificateSource {
        match self {
            Self::CertManager => CertificateSource::CertManager,
            Self::ServiceCa => CertificateSource::ServiceCa,
            Self::SelfSigned { .. } => CertificateSource::SelfSigned,
        }
    }

    /// Makes callers trust the server: annotates a webhook configuration, a converted CRD or an
    /// APIService.
    ///
    /// Annotations with which another issuer would write the same `caBundle` are removed
    /// (rendering.md R5).
    pub(super) fn annotate_caller(&self, object: &mut Object, service: &str, namespace: &str) {
        let mut annotations = match object.metadata_mut().remove("annotations") {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        };
        match self {
            Self::CertManager => {
                let from = format!("{namespace}/{}", certificate_name(service));
                annotations.insert(annotation::CERT_MANAGER_INJECT_CA_FROM.into(), from.into());
            }
            Self::ServiceCa => {
                remove_cert_manager(&mut annotations);
                annotations.insert(annotation::SERVICE_CA_INJECT.into(), "true".into());
            }
            Self::SelfSigned { .. } => {
                remove_cert_manager(&mut annotations);
                annotations.remove(annotation::SERVICE_CA_INJECT);
            }
        }
        if !annotations.is_empty() {
            let metadata = object.metadata_mut();
            metadata.insert("annotations".to_owned(), Value::Object(annotations));
        }
    }

    /// Returns `caBundle` of a client configuration, if the controller writes it.
    pub(super) fn ca_bundle(&self) -> Option<String> {
        match self {
            Self::SelfSigned { ca_bundle } if !ca_bundle.is_empty() => {
                Some(STANDARD.encode(ca_bundle))
            }
            Self::SelfSigned { .. } | Self::CertManager | Self::ServiceCa => None,
        }
    }

    /// Annotates the Service if that is how its issuer is asked for a certificate.
    pub(super) fn annotate_service(&self, service: &mut Object) {
        if *self == Self::ServiceCa {
            let secret = certificate_name(service.name());
            let annotations = json!({ annotation::SERVICE_CA_SERVING_CERT: secret });
            let metadata = service.metadata_mut();
            metadata.insert("annotations".to_owned(), annotations);
        }
    }

    /// Returns the objects that request the certificates, by deployment.
    pub(super) fn objects(&self, csv: &Csv, namespace: &str) -> Vec<Object> {
        if *self != Self::CertManager {
            return Vec::new();
        }
        certificate_requests(csv, namespace).into_iter().flat_map(cert_manager_objects).collect()
    }
}

fn remove_cert_manager(annotations: &mut Map<String, Value>) {
    annotations.remove(annotation::CERT_MANAGER_INJECT_CA_FROM);
    annotations.remove(annotation::CERT_MANAGER_INJECT_CA_FROM_SECRET);
}

/// Valid for two years, renewed one day before the end, as in OLM Classic.
fn cert_manager_objects(request: CertificateRequest) -> [Object; 2] {
    let CertificateRequest { secret, namespace, dns_names } = request;
    let issuer_name = issuer_name(&secret);
    let mut issuer = object(CERT_MANAGER_VERSION, "Issuer", &issuer_name, &namespace);
    issuer.insert("spec".to_owned(), json!({ "selfSigned": {} }));

    let mut spec = Map::new();
    spec.insert("secretName".to_owned(), json!(secret));
    let common_name = dns_names.first().filter(|name| name.len() <= MAX_COMMON_NAME_BYTES);
    if let Some(name) = common_name {
        spec.insert("commonName".to_owned(), json!(name));
    }
    spec.insert("dnsNames".to_owned(), json!(dns_names));
    spec.insert("usages".to_owned(), json!(["server auth"]));
    spec.insert("duration".to_owned(), json!("17520h0m0s"));
    spec.insert("renewBefore".to_owned(), json!("24h0m0s"));
    spec.insert("issuerRef".to_owned(), json!({ "name": issuer_name }));
    let mut certificate = object(CERT_MANAGER_VERSION, "Certificate", &secret, &namespace);
    certificate.insert("spec".to_owned(), Value::Object(spec));
    [Object(issuer), Object(certificate)]
}
