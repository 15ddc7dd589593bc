//! Words that a person may have meant.

/// Returns the number of characters in which two words differ, unless it is more than `most`.
///
/// Words that are much longer than the other are not compared: that takes the product of both
/// lengths, and a catalog or a bundle may hold words of any length.
pub fn distance(one: &str, other: &str, most: usize) -> Option<usize> {
    let lengths = one.chars().count().abs_diff(other.chars().count());
    let distance = (lengths <= most).then(|| strsim::damerau_levenshtein(one, other));
    distance.filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_words_are_compared() {
        assert_eq!(distance("kettle", "ketlte", 2), Some(1));
        assert_eq!(distance("kettle", "kétle", 2), Some(2));
        assert_eq!(distance("kettle", "teapot", 2), None);
        // Its distance would take 80 GB.
        assert_eq!(distance(&"a".repeat(100_000), &"a".repeat(100_003), 2), None);
    }
}
