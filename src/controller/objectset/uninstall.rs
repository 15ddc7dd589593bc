//! Whether a revision that is being deleted may be taken down: not while users' objects would go
//! with its CRDs unasked.
//!
//! Source: applying.md 7.3.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, ResourceExt as _};
use olm_api::ClusterObjectSet;
use olm_api::keys::annotation;
use olm_core::error::Chain;
use olm_core::object::Object;
use olm_core::uninstall::{Instances, UninstallPolicy, blocked, cannot_stay};

use super::observe::ExtensionState;
use super::{Context, ObjectSetError};
use crate::apply::{Crds, Remover};
use crate::cluster::RequestError;
use crate::revision::controlled_crds;

impl Context {
    /// Returns what becomes of the CRDs of a revision that is being deleted, and of their objects.
    pub(super) fn uninstall_policy(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
    ) -> UninstallPolicy {
        let extension = extension.extension();
        let annotations = extension.map_or_else(|| set.annotations(), |it| it.annotations());
        let properties = set.annotations().get(annotation::PROPERTIES);
        let default = self.settings.uninstall;
        UninstallPolicy::chosen(annotations, properties.map(String::as_str), default)
    }

    /// Returns why nothing of the extension of a revision is removed: neither of this revision nor
    /// of another, so that there is no state between.
    pub(super) async fn uninstall_block(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
        policy: UninstallPolicy,
    ) -> Result<Option<String>, ObjectSetError> {
        if policy == UninstallPolicy::Delete {
            return Ok(None);
        }
        let (crds, owners) = self.installed_crds(set, extension).await?;
        if policy == UninstallPolicy::RetainCrds {
            return Ok(crds.iter().find_map(cannot_stay));
        }
        if crds.is_empty() {
            return Ok(None);
        }
        let counted = match self.as_account(set, extension).await {
            Ok(remover) => {
                let counts = crds.iter().map(|crd| remover.count(crd, &owners));
                let counts = futures::future::try_join_all(counts).await;
                let counts = counts.map_err(RequestError::doing("counting instances of a CRD"))?;
                crds.iter().map(Object::name).zip(counts).collect()
            }
            Err(error) => {
                let why = Instances::Unknown(Chain(&error).to_string());
                let crds = crds.iter().map(Object::name);
                crds.map(|crd| (crd, why.clone())).collect::<Vec<_>>()
            }
        };
        let counted: BTreeMap<_, _> =
            counted.into_iter().map(|(crd, instances)| (crd.to_owned(), instances)).collect();
        let name = extension.extension().map(kube::ResourceExt::name_any);
        Ok(blocked(name.as_deref(), &counted))
    }

    /// Says whether the garbage collector may do the rest: not where that would take CRDs that are
    /// to stay.
    pub(super) async fn may_fall_back(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
        policy: UninstallPolicy,
    ) -> Result<bool, ObjectSetError> {
        if policy != UninstallPolicy::RetainCrds {
            return Ok(true);
        }
        Ok(self.installed_crds(set, extension).await?.0.is_empty())
    }

    async fn as_account(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
    ) -> Result<Remover, ObjectSetError> {
        let account = self.identity(set, extension).await?;
        self.accounts.require(&account).await?;
        Ok(Remover {
            client: self.accounts.client(&account)?,
            kinds: self.kinds.clone(),
            crds: Crds::Removed,
        })
    }

    /// Returns the CRDs that an extension or its revisions control and that are not being deleted, and
    /// the UIDs of those owners. They are read as the controller: neither a lost account nor
    /// lost content nor a lost label hides one.
    async fn installed_crds(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
    ) -> Result<(Vec<Object>, BTreeSet<String>), ObjectSetError> {
        let siblings = self.list_siblings(set).await?;
        let owners: BTreeSet<String> = siblings
            .iter()
            .chain([set])
            .filter_map(kube::ResourceExt::uid)
            .chain(extension.extension().and_then(kube::ResourceExt::uid))
            .collect();
        let api = Api::<CustomResourceDefinition>::all(self.client.clone());
        let mut crds = Vec::new();
        for name in controlled_crds(&self.client, &owners).await? {
            let read = api.get_opt(&name).await;
            let read = read.map_err(RequestError::doing("reading a CRD"))?;
            let read = read.and_then(|crd| serde_json::to_value(crd).ok());
            crds.extend(read.and_then(Object::from_value));
        }
        Ok((crds, owners))
    }
}
