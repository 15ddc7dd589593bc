//! The extension of a revision.

use kube::ResourceExt as _;
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::annotations::{self, Carrier};
use olm_core::revision::extension_reference;

/// The ClusterExtension a revision belongs to, as it is now.
#[derive(Debug, Clone)]
pub(super) enum ExtensionState {
    /// The set is not a revision of one.
    None,
    Alive(Box<ClusterExtension>),
    Deleting(Box<ClusterExtension>),
    /// It is being deleted, and what it installed is to stay.
    Orphaning(Box<ClusterExtension>),
    /// It is gone, or another one has its name.
    Gone,
}

impl ExtensionState {
    pub(super) fn extension(&self) -> Option<&ClusterExtension> {
        match self {
            Self::Alive(extension) | Self::Deleting(extension) | Self::Orphaning(extension) => {
                Some(extension)
            }
            Self::None | Self::Gone => None,
        }
    }

    /// Returns the state for a revision that was read after the extension: the garbage collector
    /// removes the reference from a revision before it removes its finalizer from the extension, so
    /// a missing reference implies that finalizer.
    pub(super) fn seen_from(self, set: &ClusterObjectSet) -> Self {
        match self {
            Self::Deleting(extension) if extension_reference(&set.metadata).is_none() => {
                Self::Orphaning(extension)
            }
            same => same,
        }
    }

    /// Returns why nothing that a revision installed is removed, if the annotations that decide about
    /// it ask for what cannot be done: those of its extension, else its own.
    pub(super) fn removal_hold(&self, set: &ClusterObjectSet) -> Option<String> {
        let (carrier, metadata) = match self {
            Self::Deleting(extension) | Self::Orphaning(extension) => {
                (Carrier::Extension, &extension.metadata)
            }
            Self::None | Self::Gone => (Carrier::ObjectSet, &set.metadata),
            Self::Alive(_) => return None,
        };
        let name = metadata.name.as_deref().unwrap_or_default();
        annotations::removal_hold(carrier, name, metadata.annotations.as_ref()?)
    }

    pub(super) fn is_paused(&self) -> bool {
        let extension = self.extension();
        extension.is_some_and(|extension| annotations::is_paused(extension.annotations()))
    }
}
