//! Tests on a real kube-apiserver, etcd and image registry, with the controller as a local
//! process that has the rights of `config/rbac` and nothing more.

mod accounts;
mod admission;
mod bad_input;
mod catalog;
mod configuration;
mod constraints;
mod crash;
mod data;
mod dead_ends;
mod flags;
mod gate;
mod halves;
mod identity;
mod install;
mod lease;
mod objectset;
mod optional;
mod overlays;
mod plugin;
mod proxy;
mod registry;
mod render;
mod rights;
mod silence;
mod unavailable;
mod updates;
mod webhooks;
