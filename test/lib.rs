//! Fixtures for the tests that need a real control plane, and small helpers all tests share.
//!
//! [`cluster`] starts `local-cluster` (see `hack/local-cluster`) and the controller on it;
//! [`scene`] sets the stage of a test, [`wait`] polls a condition with a deadline, [`bundles`] reads
//! bundle folders, [`release`] makes a catalog of them, [`audit`] says who asked for what, [`state`]
//! compares whole clusters, [`proxy`] loses requests and answers on the way to the API server,
//! [`random`] repeats its numbers, [`webhook`] answers the API server's questions, [`archive`] makes
//! layers nobody should trust. Nothing here is a stand-in: API server, etcd and registry are the real
//! programs.

pub mod archive;
pub mod audit;
pub mod bundles;
pub mod cluster;
pub mod extension;
pub mod images;
pub mod package;
pub mod paths;
pub mod proxy;
pub mod random;
pub mod release;
pub mod scene;
pub mod state;
pub mod usage;
pub mod wait;
pub mod webhook;
