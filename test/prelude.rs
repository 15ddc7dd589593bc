//! What nearly every test names.

pub use std::collections::{BTreeMap, BTreeSet};
pub use std::path::{Path, PathBuf};
pub use std::process::{Command, Stdio};
pub use std::time::{Duration, Instant};

pub use http::Method;
pub use jiff::Timestamp;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
pub use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
pub use olm_api::keys::{self, annotation, label, policy};
pub use olm_api::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
pub use serde_json::{Value, json};

pub use crate::catalog::{Catalog, condition_of};
pub use crate::cluster::{
    self, CONTROLLER_ACCOUNT, Cluster, ControlPlane, Controller, ControllerOptions,
    SYSTEM_NAMESPACE,
};
pub use crate::controller::{clear_leases, start};
pub use crate::extension::{COLLECTED, Extension, ROLLOUT, condition, installed_version, is};
pub use crate::package::{Bundle, Entry, Files, Package, chain};
pub use crate::plugin::Answer as _;
pub use crate::proxy::{Proxy, Rule};
pub use crate::random::Random;
pub use crate::scene::{ACCOUNT, Scene};
pub use crate::wait::SOON;
pub use crate::{audit, images, objects, paths, plugin, wait};
