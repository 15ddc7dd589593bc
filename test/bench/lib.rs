//! A catalog of any size generated from numbers only, for benchmarks, and the tables they print.

pub mod catalog;
pub mod table;

/// Returns `bytes` bytes (in characters of one byte) of `sample` repeated with a running number, so
/// that it does not compress to almost nothing.
pub(crate) fn text(sample: &str, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + sample.len() + 20);
    let mut number: u64 = 0x9E37_79B9_7F4A_7C15;
    while text.len() < bytes {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.push_str(sample);
        text.push_str(&number.to_string());
        text.push(' ');
    }
    text.truncate(bytes);
    text
}
