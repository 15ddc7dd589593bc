//! Texts of the tests of both readers.

use proptest::prelude::*;

/// Returns texts of such parts.
pub(super) fn lines(parts: &'static [&'static str]) -> impl Strategy<Value = String> {
    let part = prop::sample::select(parts);
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}
