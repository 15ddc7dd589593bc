//! Quantities as Kubernetes reads them, such as `500m`, `1.5Gi` or `1e3`.

/// Says why a text is not a quantity.
///
/// Reading is as lenient as the API server's: a sign, digits with at most one dot, and a suffix of
/// powers of 1000, of 1024 or of ten. Source: the format that `resource.Quantity` documents.
pub(super) fn check(text: &str) -> Result<(), &'static str> {
    const WRONG: &str = "quantities must match the regular expression \
        '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    if text.is_empty() {
        return Err(WRONG);
    }
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let rest = without_digits(rest);
    let suffix = rest.strip_prefix('.').map_or(rest, without_digits);
    let exponent = suffix.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
    let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if !without_digits(unsigned).is_empty() {
        return Err(WRONG);
    }
    if is_suffix(suffix) { Ok(()) } else { Err("unable to parse quantity's suffix") }
}

fn without_digits(text: &str) -> &str {
    text.trim_start_matches(|digit: char| digit.is_ascii_digit())
}

fn is_suffix(suffix: &str) -> bool {
    let named =
        ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let exponent = suffix.strip_prefix(['e', 'E']);
    named.contains(&suffix) || exponent.is_some_and(|number| number.parse::<i32>().is_ok())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1")]
    #[case("500m")]
    #[case("1.5Gi")]
    #[case("-1")]
    #[case(".5")]
    #[case("1e3")]
    #[case("1E-3")]
    #[case("1E")]
    #[case("1e+21")]
    fn quantities(#[case] text: &str) {
        assert_eq!(check(text), Ok(()));
    }

    #[rstest]
    #[case("", "quantities must match")]
    #[case("a lot", "quantities must match")]
    #[case("1.2.3", "quantities must match")]
    #[case("1 Gi", "quantities must match")]
    #[case("1GiB", "quantities must match")]
    #[case("1gi", "quantities must match")]
    #[case("1mm", "unable to parse quantity's suffix")]
    #[case("1m5", "unable to parse quantity's suffix")]
    fn no_quantities(#[case] text: &str, #[case] want: &str) {
        let reason = check(text).unwrap_err();
        assert!(reason.starts_with(want), "{text}: {reason}");
    }
}
