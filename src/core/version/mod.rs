//! Versions, their precedence, and the two range languages.
