//! What the data beside the checkout decides: answers of upstream, tables of other projects, real
//! bundles and a real catalog, from `OLM_SHARED` (by default `../shared`).

mod bundles;
mod crd_safety;
mod crds;
mod foreign;
mod rbac;
mod render;
mod silence;
mod vectors;
