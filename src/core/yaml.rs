//! YAML read the way Go reads it, as JSON values.
