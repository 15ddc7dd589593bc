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

    use super::*;
    use crate::fixture::cases;

    const CASES: &str = include_str!("../testdata/config/cases.yaml");

    #[test]
    fn quantities() {
        for text in cases::<&str>(CASES, "quantities") {
            assert_eq!(check(text), Ok(()));
        }
    }

    #[test]
    fn no_quantities() {
        for (text, want) in cases::<(&str, &str)>(CASES, "no_quantities") {
            let reason = check(text).unwrap_err();
            assert!(reason.starts_with(want), "{text}: {reason}");
        }
    }
}
