//! Which issuer makes the certificates of the servers that the API server calls, and what it needs in
//! the objects.
//!
//! Source: rendering.md 4.11.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use olm_api::keys::annotation;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::name::{certificate_name, issuer_name, service_name};
use super::object;
use crate::bundle::{Bundle, Csv};
use crate::object::{Object, take_map};

/// Longest common name of a certificate, in bytes (rendering.md R3).
const MAX_COMMON_NAME_BYTES: usize = 64;

/// The CRD of cert-manager's certificates.
const CERTIFICATE_CRD: &str = "certificates.cert-manager.io";

const CERT_MANAGER_VERSION: &str = "cert-manager.io/v1";

/// Annotations by which somebody writes `caBundle` into an object.
pub(crate) const CA_INJECTORS: [&str; 4] = [
    annotation::CERT_MANAGER_INJECT_CA_FROM,
    annotation::CERT_MANAGER_INJECT_CA_FROM_SECRET,
    annotation::CERT_MANAGER_INJECT_APISERVER_CA,
    annotation::SERVICE_CA_INJECT,
];

/// An issuer of certificates for webhooks and API services; its text is the name that flags and
/// annotations use.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::Display,
    strum::EnumString,
    strum::VariantNames,
)]
#[strum(serialize_all = "kebab-case")]
pub enum CertificateSource {
    /// cert-manager.
    CertManager,
    /// The service CA of OpenShift.
    ServiceCa,
    /// The controller itself.
    SelfSigned,
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
pub struct CertificateProvider {
    /// Which issuer this is.
    pub source: CertificateSource,
    /// The CA certificates that callers trust, as PEM, where the controller itself issues; when
    /// empty, `caBundle` is left out.
    pub ca_bundle: String,
}

impl From<CertificateSource> for CertificateProvider {
    fn from(source: CertificateSource) -> Self {
        Self { source, ca_bundle: String::new() }
    }
}

/// A certificate that the controller has to issue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
        secret_object(&self.secret, &self.namespace)
    }
}

/// Returns a Secret that the controller writes, without data.
pub fn secret_object(name: &str, namespace: &str) -> Object {
    object("v1", "Secret", name, namespace)
}

/// Returns what the controller has to issue when it is the issuer: one certificate for each
/// deployment that the API server calls, sorted by its name.
pub(super) fn certificate_requests(csv: &Csv, namespace: &str) -> Vec<CertificateRequest> {
    let request = |deployment| request_of_service(&service_name(deployment), namespace);
    called_deployments(csv).into_iter().map(request).collect()
}

/// Returns the names of the deployments that serve webhooks or API services, sorted.
pub(super) fn called_deployments(csv: &Csv) -> BTreeSet<&str> {
    csv.endpoints().map(|endpoint| endpoint.deployment).collect()
}

/// Returns what the server behind a Service needs.
pub(super) fn request_of_service(service: &str, namespace: &str) -> CertificateRequest {
    let ends = ["", ".svc", ".svc.cluster.local"];
    CertificateRequest {
        secret: certificate_name(service),
        namespace: namespace.to_owned(),
        dns_names: ends.map(|end| format!("{service}.{namespace}{end}")).into(),
    }
}

impl CertificateProvider {
    /// Makes callers trust the server: annotates a webhook configuration, a converted CRD or an
    /// APIService.
    ///
    /// Annotations with which another issuer would write the same `caBundle` are removed
    /// (rendering.md R5).
    pub(super) fn annotate_caller(&self, object: &mut Object, service: &str, namespace: &str) {
        let mut annotations = take_map(object.metadata_mut(), "annotations");
        annotations.retain(|key, _| !CA_INJECTORS.contains(&key.as_str()));
        match self.source {
            CertificateSource::CertManager => {
                let from = format!("{namespace}/{}", certificate_name(service));
                annotations.insert(annotation::CERT_MANAGER_INJECT_CA_FROM.into(), from.into());
            }
            CertificateSource::ServiceCa => {
                annotations.insert(annotation::SERVICE_CA_INJECT.into(), "true".into());
            }
            CertificateSource::SelfSigned => {}
        }
        if !annotations.is_empty() {
            let metadata = object.metadata_mut();
            metadata.insert("annotations".to_owned(), Value::Object(annotations));
        }
    }

    /// Returns `caBundle` of a client configuration, if the controller writes it.
    pub(super) fn ca_bundle(&self) -> Option<String> {
        (!self.ca_bundle.is_empty()).then(|| STANDARD.encode(&self.ca_bundle))
    }

    /// Annotates the Service if that is how its issuer is asked for a certificate.
    pub(super) fn annotate_service(&self, service: &mut Object) {
        if self.source == CertificateSource::ServiceCa {
            let secret = certificate_name(service.name());
            let annotations = json!({ annotation::SERVICE_CA_SERVING_CERT: secret });
            let metadata = service.metadata_mut();
            metadata.insert("annotations".to_owned(), annotations);
        }
    }

    /// Returns the objects that request the certificates, by deployment.
    pub(super) fn objects(&self, csv: &Csv, namespace: &str) -> Vec<Object> {
        if self.source != CertificateSource::CertManager {
            return Vec::new();
        }
        certificate_requests(csv, namespace).into_iter().flat_map(cert_manager_objects).collect()
    }
}

/// Valid for two years, renewed one day before the end, as in OLM Classic.
fn cert_manager_objects(request: CertificateRequest) -> [Object; 2] {
    let CertificateRequest { secret, namespace, dns_names } = request;
    let issuer_name = issuer_name(&secret);
    let issuer = object(CERT_MANAGER_VERSION, "Issuer", &issuer_name, &namespace);
    let mut spec = json!({
        "secretName": secret,
        "dnsNames": dns_names,
        "usages": ["server auth"],
        "duration": "17520h0m0s",
        "renewBefore": "24h0m0s",
        "issuerRef": { "name": issuer_name },
    });
    let common_name = dns_names.first().filter(|name| name.len() <= MAX_COMMON_NAME_BYTES);
    if let Some(name) = common_name {
        spec["commonName"] = json!(name);
    }
    let certificate = object(CERT_MANAGER_VERSION, "Certificate", &secret, &namespace);
    [issuer.with("spec", json!({ "selfSigned": {} })), certificate.with("spec", spec)]
}
