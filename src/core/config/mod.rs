//! `spec.config` against the schema a bundle implies.
