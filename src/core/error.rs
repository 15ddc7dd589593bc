//! How a failure is shown and what a reconciler does about it.
