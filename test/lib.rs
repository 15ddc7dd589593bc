//! Fixtures for the tests that need a real control plane, and small helpers for all tests.
//!
//! [`cluster`] starts `local-cluster` (see `hack/local-cluster`) and the controller on it;
//! [`prelude`] has what nearly all tests name, [`scene`] prepares what a test needs, [`extension`] and [`catalog`] are handles on our objects, [`objects`] has what many of them make, [`wait`] polls a condition with a deadline, [`bundles`]
//! reads bundle folders, [`release`] makes a catalog from them, [`audit`] reads the audit log,
//! [`requests`] sends requests without a process each, [`state`] compares whole clusters, [`etcd`] sets one back, [`proxy`] fails requests and responses between controller and
//! API server, [`random`] has repeatable random numbers, [`webhook`] serves admission webhooks,
//! [`archive`] makes hostile layers, [`classic`] the objects of OLM Classic, [`documents`] plays what README and `docs` show,
//! [`private`] starts a registry that asks for credentials and issues its tokens, [`timed`] measures
//! each test. Nothing here is a mock: API server, etcd and registry are the real programs.

pub mod archive;
pub mod audit;
pub mod bundles;
pub mod catalog;
pub mod classic;
pub mod cluster;
mod controller;
pub mod documents;
pub mod etcd;
pub mod extension;
pub mod helm;
pub mod images;
mod kubectl;
pub mod objects;
pub mod package;
pub mod paths;
pub mod plugin;
mod pool;
pub mod prelude;
pub mod private;
pub mod proxy;
pub mod random;
pub mod release;
pub mod requests;
pub mod scene;
pub mod state;
pub mod timed;
pub mod usage;
pub mod wait;
pub mod webhook;
