//! ClusterCatalogs: their images are pulled, read, stored and served.

pub mod index;
pub mod store;
