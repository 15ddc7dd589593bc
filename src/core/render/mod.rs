//! Turns a bundle into the ordered objects that install it.
