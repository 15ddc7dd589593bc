//! Checks over rendered objects, and the rights they need.
