//! File-based catalogs: model, reading, package index, deprecations.
