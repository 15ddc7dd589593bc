//! The OpenShift upgrade gate.
