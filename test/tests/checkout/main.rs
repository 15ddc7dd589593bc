//! Documents, samples, manifests and sources of the checkout hold what they promise; nothing is
//! started.

mod argocd;
mod citations;
mod documents;
mod gate;
mod monitoring;
mod samples;
mod structure;
mod words;
