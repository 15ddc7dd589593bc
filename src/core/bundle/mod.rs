//! Reads registry+v1 files into a [`Bundle`] and validates it.
