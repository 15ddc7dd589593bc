//! Fixtures for tests that need a control plane.
