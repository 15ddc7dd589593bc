//! Turns a bundle into the objects that install it.
//!
//! A pure function: same bundle, same settings, same objects in the same order. It checks, in this
//! order, support, configuration, validation and targets, then makes the objects; the first of
//! these steps that fails decides the message. Labels are added, and what must not enter a revision
//! is removed, only in [`handover`].
//!
//! Source: rendering.md sections 2 to 4.

mod additions;
mod api_service;
mod callers;
mod certificate;
mod deployment;
mod deployment_config;
mod manifest;
mod merge;
mod name;
mod quantity;
mod rbac;
mod service;
mod volume;
mod webhook;

pub mod handover;

use serde_json::Value;

use crate::bundle::{self, Bundle, Csv, ValidationError, mode};
use crate::config::{self, ConfigError, DeploymentConfig, Features};
use crate::error::{Classify, Disposition};
use crate::object::{Object, object};

pub(crate) use additions::PROXY_NAMES;
pub use additions::{
    Additions, OPERATOR_CONDITION_API, OPERATOR_CONDITIONS, ProxyVariables, UserRoles,
};
pub use api_service::bindings as api_service_bindings;
pub(crate) use api_service::{READER, reader_name};
pub use callers::{called_services, trust, without_ca};
pub(crate) use certificate::CA_INJECTORS;
use certificate::certificate_requests;
pub use certificate::{
    CertificateNeeds, CertificateProvider, CertificateRequest, CertificateSource, Served,
    certificate_needs, choose_certificates, secret_object,
};
pub(crate) use name::{certificate_name, service_name};
pub use name::{hash, unique};

/// Where an installation that watches another namespace gets its namespaced rights.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    strum::Display,
    strum::EnumString,
    strum::VariantNames,
)]
#[strum(serialize_all = "kebab-case")]
pub enum RolePlacement {
    /// In the watched namespaces only, as upstream.
    TargetsOnly,
    /// In the install namespace too, where the operator keeps its leader-election lease
    /// (rendering.md R11).
    #[default]
    TargetsAndInstall,
}

/// Options of rendering, besides the bundle and its configuration.
#[derive(Debug, Clone)]
pub struct Settings<'a> {
    /// Namespace the operator runs in.
    pub install_namespace: &'a str,
    /// `spec.config.inline` of the extension, or nothing.
    pub inline: Option<&'a Value>,
    /// Which configuration keys and features are enabled.
    pub features: Features,
    /// Where namespaced rights go.
    pub role_placement: RolePlacement,
    /// Issuer of certificates for what the API server calls; with `None`, whoever applies the objects
    /// must provide them.
    pub certificates: Option<CertificateProvider>,
}

/// Options of [`render`], with a configuration that was checked.
#[derive(Debug, Clone)]
pub struct RenderOptions {
    /// Namespace the operator runs in.
    pub install_namespace: String,
    /// Namespaces the operator watches; one empty name means all of them.
    pub targets: Vec<String>,
    /// Where namespaced rights go.
    pub role_placement: RolePlacement,
    /// What the administrator changes about every Deployment.
    pub deployment: Option<DeploymentConfig>,
    /// Issuer of certificates for what the API server calls; with `None`, whoever applies the objects
    /// must provide them.
    pub certificates: Option<CertificateProvider>,
}

/// The result of rendering a bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// The objects, no identity twice; the order has no meaning for applying but never varies.
    pub objects: Vec<Object>,
    /// The certificates that the controller has to issue; empty unless it is their issuer.
    pub certificate_requests: Vec<CertificateRequest>,
    /// Warnings for people, one sentence each; none of them stops anything.
    pub warnings: Vec<String>,
}

/// Why a bundle cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The configuration of the extension does not fit the bundle.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The bundle fails validation.
    #[error(transparent)]
    Invalid(#[from] ValidationError),
    /// No objects can be made of it, or not with these options.
    #[error("{0}")]
    Refused(String),
}

impl Classify for RenderError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Config(error) => error.disposition(),
            // As upstream: the catalog may offer another bundle later.
            Self::Invalid(_) | Self::Refused(_) => Disposition::Retry,
        }
    }
}

/// Renders a bundle for an extension: support, configuration, then [`render`].
pub fn render_configured(
    bundle: &Bundle,
    settings: &Settings<'_>,
) -> Result<Rendered, RenderError> {
    check_support(&bundle.csv, settings.features)?;
    let configuration = config::configure(
        &bundle.csv,
        settings.install_namespace,
        settings.inline,
        settings.features,
    )?;
    let mut rendered = render(
        bundle,
        &RenderOptions {
            install_namespace: settings.install_namespace.to_owned(),
            targets: configuration.targets,
            role_placement: settings.role_placement,
            deployment: configuration.deployment,
            certificates: settings.certificates.clone(),
        },
    )?;
    rendered.warnings.extend(configuration.warnings);
    Ok(rendered)
}

/// Refuses bundles that need unsupported features, whatever the configuration. Without certificates for
/// webhooks there are none for API services.
///
/// Source: rendering.md section 2; the misspelling is upstream's.
pub fn check_support(csv: &Csv, features: Features) -> Result<(), RenderError> {
    let no_mode = [mode::ALL_NAMESPACES, mode::SINGLE_NAMESPACE, mode::OWN_NAMESPACE]
        .iter()
        .all(|mode| !csv.supports(mode));
    let reason = if !csv.api_services.is_empty() && !features.webhooks {
        "apiServiceDefintions are not supported"
    } else if !csv.webhooks.is_empty() && !features.webhooks {
        "webhookDefinitions are not supported"
    } else if !features.single_own_namespace && !csv.supports(mode::ALL_NAMESPACES) {
        "bundle does not support AllNamespaces install mode"
    } else if no_mode {
        "bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] install \
         modes"
    } else {
        return Ok(());
    };
    Err(RenderError::Refused(format!("unsupported bundle: {reason}")))
}

/// Validates a bundle and makes its objects; the caller checks support and configuration.
pub fn render(bundle: &Bundle, options: &RenderOptions) -> Result<Rendered, RenderError> {
    bundle::validate(bundle)?;
    let csv = &bundle.csv;
    check_targets(csv, options)?;
    let mut merged = merge::Merged::default();
    let namespace = options.install_namespace.as_str();
    merged.add_all_generated(rbac::service_accounts(csv, namespace))?;
    merged.add_all_generated(rbac::roles(csv, options))?;
    merged.add_all_generated(rbac::cluster_roles(csv, options))?;
    merged.add_all_generated(api_service::bindings(csv, namespace))?;
    for object in &bundle.crds {
        let crd = webhook::convert(manifest::crd(object), csv, options)?;
        merged.add_manifest(crd)?;
    }
    for object in &bundle.others {
        merged.add_manifest(manifest::other(object, namespace))?;
    }
    merged.add_all_generated(deployment::deployments(csv, options))?;
    merged.add_all_generated(webhook::configurations(csv, options))?;
    merged.add_all_generated(api_service::api_services(csv, options))?;
    merged.add_all_generated(service::services(csv, options)?)?;
    let certificates = options.certificates.as_ref();
    let provided = certificates.map(|provider| provider.objects(csv, namespace));
    merged.add_all_generated(provided.unwrap_or_default())?;
    let objects = merged.into_objects();
    let mut warnings = bundle.warnings.clone();
    warnings.extend(manifest::foreign_subjects(&objects, namespace));
    warnings.extend(manifest::foreign_services(&objects, namespace));
    let issues = certificates.is_some_and(|it| it.source == CertificateSource::SelfSigned);
    let requests = || certificate_requests(csv, namespace);
    Ok(Rendered {
        objects,
        certificate_requests: if issues { requests() } else { Vec::new() },
        warnings,
    })
}

/// Refuses targets that the install modes do not cover.
///
/// Source: rendering.md 3.5.
fn check_targets(csv: &Csv, options: &RenderOptions) -> Result<(), RenderError> {
    let targets = &options.targets;
    let modes = csv.supported_modes().into_iter().collect::<Vec<_>>().join(" ");
    let reason = match targets.as_slice() {
        [] if csv.supports(mode::MULTI_NAMESPACE) => {
            "at least one target namespace must be specified".to_owned()
        }
        [] => "exactly one target namespace must be specified".to_owned(),
        [all] if all.is_empty() => {
            if csv.supports(mode::ALL_NAMESPACES) {
                return Ok(());
            }
            format!("supported install modes [{modes}] do not support targeting all namespaces")
        }
        [own] if *own == options.install_namespace => {
            if csv.supports(mode::OWN_NAMESPACE) {
                return Ok(());
            }
            format!("supported install modes [{modes}] do not support targeting own namespace")
        }
        names => {
            let needed = match names {
                [_] => mode::SINGLE_NAMESPACE,
                _ => mode::MULTI_NAMESPACE,
            };
            if csv.supports(needed) && !names.iter().any(String::is_empty) {
                return Ok(());
            }
            let names = names.join(" ");
            format!("supported install modes [{modes}] do not support target namespaces [{names}]")
        }
    };
    let targets = targets.join(" ");
    Err(RenderError::Refused(format!(
        "invalid option(s): invalid target namespaces [{targets}]: {reason}"
    )))
}

#[cfg(test)]
mod tests;
