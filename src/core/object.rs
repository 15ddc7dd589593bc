//! A Kubernetes object as a JSON value.
