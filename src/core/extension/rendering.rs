//! How a bundle is rendered for an extension: as its spec, its annotations and the cluster want it.

use serde_json::Value;

use super::ValidExtension;
use crate::bundle::Bundle;
use crate::config::Features;
use crate::render::{
    Additions, CertificateProvider, ProxyVariables, RenderError, Rendered, RolePlacement, Settings,
    handover, render_configured,
};
use crate::revision::BundleRecord;

/// What the annotations of an extension add, and what that depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Extras {
    /// What is added.
    pub additions: Additions,
    /// The proxies that operators get if they get any.
    pub proxy: ProxyVariables,
}

/// Everything that what is rendered depends on, but for the bundle.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rendering {
    package: String,
    version: String,
    extension: String,
    namespace: String,
    inline: Option<Value>,
    features: Features,
    certificates: Option<CertificateProvider>,
    extras: Extras,
}

impl Rendering {
    /// Returns how `target` is rendered for an extension.
    pub fn of(
        extension: ValidExtension<'_>,
        target: &BundleRecord,
        features: Features,
        (certificates, extras): (Option<CertificateProvider>, &Extras),
    ) -> Self {
        Self {
            package: target.package.clone(),
            version: target.version.clone(),
            extension: extension.object.metadata.name.clone().unwrap_or_default(),
            namespace: extension.spec.namespace.clone(),
            inline: extension.inline_config(),
            features,
            certificates,
            extras: extras.clone(),
        }
    }

    /// Returns the name of the extension.
    pub fn extension(&self) -> &str {
        &self.extension
    }

    /// Returns the proxies that operators get if they get any.
    pub fn proxy(&self) -> &ProxyVariables {
        &self.extras.proxy
    }

    /// Renders the bundle to the objects of a revision.
    pub fn render(&self, bundle: &Bundle) -> Result<Rendered, RenderError> {
        let mut rendered = render_configured(
            bundle,
            &Settings {
                install_namespace: &self.namespace,
                inline: self.inline.as_ref(),
                features: self.features,
                role_placement: RolePlacement::default(),
                certificates: self.certificates.clone(),
            },
        )?;
        let place = (self.extension.as_str(), self.namespace.as_str());
        let Extras { additions, proxy } = &self.extras;
        additions.add(&mut rendered.objects, bundle, place, proxy);
        rendered.objects = handover::prepare_for_revision(
            rendered.objects,
            &self.extension,
            &self.package,
            &self.version,
        );
        Ok(rendered)
    }
}
