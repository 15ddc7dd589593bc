//! Tests on a real kube-apiserver, etcd and image registry, with the controller as a local process
//! that has only the rights of `config/rbac`.

mod accounts;
mod admission;
mod bad_input;
mod catalog;
mod configuration;
mod constraints;
mod crash;
mod credentials;
mod data;
mod dead_ends;
mod doctor;
mod faults;
mod flags;
mod gate;
mod halves;
mod identity;
mod install;
mod lease;
mod manifests;
mod objectset;
mod operation;
mod optional;
mod overlays;
mod plugin;
mod proxy;
mod readme;
mod registry;
mod render;
mod replicas;
mod rights;
mod serving;
mod silence;
mod unavailable;
mod updates;
mod webhooks;
