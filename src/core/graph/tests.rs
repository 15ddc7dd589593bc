//! Pictures of small catalogs.
