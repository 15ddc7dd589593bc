//! The wire contract of `olm.operatorframework.io/v1`.
