//! Conditions and the messages in them.
