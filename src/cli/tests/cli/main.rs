//! `kubectl olm` as a user runs it: the built program, its exit code, stdout and stderr.

mod browse;
mod crd_check;
mod documents;
mod environment;
mod from_classic;
mod graph;
mod language;
mod making_catalogs;
mod names;
mod rbac;
mod render;
mod resolve_and_range;
mod show_and_lint;
mod terminal;
mod version;
mod why;
