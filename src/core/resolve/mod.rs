//! Chooses a bundle from catalog contents, and says why.
