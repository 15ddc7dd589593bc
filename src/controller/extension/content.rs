//! From a bundle's image to the phases of a revision.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use olm_api::{ClusterExtension, keys};
use olm_core::bundle::{Bundle, Files};
use olm_core::config::Features;
use olm_core::render::{RolePlacement, Settings, handover, render_configured};
use olm_core::revision::{Phase, phases};
use olm_image::Digest;
use serde_json::Value;

use super::error::ContentError;
use super::target::Target;

/// Contents kept in memory, so that the passes of one roll-out render once.
const KEPT: usize = 8;

/// What a bundle becomes in one extension.
#[derive(Debug)]
pub(super) struct Content {
    /// The objects, in phases.
    pub(super) phases: Vec<Phase>,
    /// The bundle's properties, as its annotation holds them.
    pub(super) properties: Option<String>,
    /// What a person should know although it stops nothing.
    pub(super) warnings: Vec<String>,
}

/// Everything content depends on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    digest: Digest,
    package: String,
    version: String,
    extension: String,
    namespace: String,
    inline: Option<Value>,
    features: Features,
}

impl Request {
    /// Returns what to render for `extension` to have `target`, whose image has this digest.
    pub(super) fn new(
        extension: &ClusterExtension,
        target: &Target,
        digest: &Digest,
        features: Features,
    ) -> Self {
        let spec = extension.spec.as_ref();
        let inline = spec
            .and_then(|spec| spec.config.as_ref())
            .and_then(|config| config.inline.clone());
        Self {
            digest: digest.clone(),
            package: target.package.clone(),
            version: target.version.clone(),
            extension: extension.metadata.name.clone().unwrap_or_default(),
            namespace: spec.map(|spec| spec.namespace.clone()).unwrap_or_default(),
            inline: inline.map(Value::Object),
            features,
        }
    }

    /// Renders the files of the bundle.
    pub(super) fn render(&self, files: &Files) -> Result<Content, ContentError> {
        let bundle = Bundle::from_files(files)?;
        let rendered = render_configured(
            &bundle,
            &Settings {
                install_namespace: &self.namespace,
                inline: self.inline.as_ref(),
                features: self.features,
                role_placement: RolePlacement::default(),
                certificates: None,
            },
        )?;
        let objects = handover::prepare_for_revision(
            rendered.objects,
            &self.extension,
            &self.package,
            &self.version,
        );
        Ok(Content {
            phases: phases(objects)?,
            properties: bundle
                .csv
                .annotations
                .get(keys::annotation::PROPERTIES)
                .cloned(),
            warnings: rendered.warnings,
        })
    }
}

/// The contents rendered last.
#[derive(Debug, Default)]
pub struct Rendered(Mutex<VecDeque<(Request, Arc<Content>)>>);

impl Rendered {
    /// Returns what was rendered for this very request.
    pub(super) fn get(&self, request: &Request) -> Option<Arc<Content>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter()
            .find(|(other, _)| other == request)
            .map(|(_, content)| Arc::clone(content))
    }

    /// Keeps a content, in place of the oldest.
    pub(super) fn put(&self, request: Request, content: Arc<Content>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(other, _)| *other != request);
        kept.push_back((request, content));
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }
}
