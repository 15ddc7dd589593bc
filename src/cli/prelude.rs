//! The names of other crates that most modules use.

pub(crate) use std::collections::{BTreeMap, BTreeSet};
pub(crate) use std::io::Write;
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::time::Duration;

pub(crate) use anyhow::{Context as _, bail};
pub(crate) use clap::{Args, ValueEnum};
pub(crate) use jiff::Timestamp;
pub(crate) use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    Preconditions,
};
pub(crate) use kube::{Client, ResourceExt as _};
pub(crate) use olm_api::conditions::{status, types};
pub(crate) use olm_api::keys::policy;
pub(crate) use olm_api::{
    AvailabilityMode, CatalogFilter, ClusterCatalog, ClusterExtension, ClusterObjectSet,
};
pub(crate) use olm_core::error::{Chain, plain, quote};
pub(crate) use olm_core::object::Object;
pub(crate) use olm_core::revision::{BundleRecord, states};
pub(crate) use olm_core::yaml;
pub(crate) use olm_image::reference::ImageRef;
pub(crate) use schemars::JsonSchema;
pub(crate) use serde::de::DeserializeOwned;
pub(crate) use serde::{Deserialize, Serialize};
pub(crate) use serde_json::{Value, json};
