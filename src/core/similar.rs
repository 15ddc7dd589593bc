//! Words that a person may have meant.

/// The largest edit distance of a name that is suggested.
pub const MAX_DISTANCE: usize = 2;

/// Returns the edit distance of two words, unless it is more than `most`.
///
/// Words whose lengths differ by more are not compared: that would take time and memory for the product
/// of the lengths, and words of catalogs and bundles can have any length.
pub fn distance(one: &str, other: &str, most: usize) -> Option<usize> {
    let lengths = one.chars().count().abs_diff(other.chars().count());
    let distance = (lengths <= most).then(|| strsim::damerau_levenshtein(one, other));
    distance.filter(|distance| *distance <= most)
}

/// Returns how much a name differs from what a person typed: the edit distance, or how many characters
/// are missing at its end; `None` if the two are not similar.
pub fn nearness(word: &str, name: &str) -> Option<usize> {
    let begins = word.len() > 2 && name.starts_with(word);
    let distance = distance(&word.to_lowercase(), &name.to_lowercase(), MAX_DISTANCE);
    distance.or_else(|| begins.then(|| name.len() - word.len()))
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
