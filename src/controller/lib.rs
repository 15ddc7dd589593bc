//! The parts of the controller that act.
