//! Fixtures for the tests that need a real control plane, and small helpers all tests share.
//!
//! [`cluster`] starts `local-cluster` (see `hack/local-cluster`) and the controller on it;
//! [`wait`] polls a condition with a deadline; [`shared_data`] finds the test data beside the
//! checkout. Nothing here is a stand-in: API server, etcd and registry are the real programs.

pub mod cluster;
pub mod paths;
pub mod wait;
