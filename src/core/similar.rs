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

/// Returns how far a name is from a word that may stand for it, or begins it; nothing if it is unlike.
pub fn nearness(word: &str, name: &str) -> Option<usize> {
    let begins = word.len() > 2 && name.starts_with(word);
    let distance = distance(&word.to_lowercase(), &name.to_lowercase(), 2);
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
