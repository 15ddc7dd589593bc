//! Label selectors of probes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Says whether labels, given as a lookup function, match a selector.
///
/// All requirements must hold; an empty selector matches everything, an unknown operator nothing.
pub(super) fn matches_labels<'a>(
    selector: &LabelSelector,
    label: impl Fn(&str) -> Option<&'a str>,
) -> bool {
    let exact = selector.match_labels.iter().flatten();
    let expressions = selector.match_expressions.iter().flatten();
    exact.into_iter().all(|(key, value)| label(key) == Some(value))
        && expressions.into_iter().all(|expression| {
            let found = label(&expression.key);
            let listed = || {
                let values = expression.values.iter().flatten();
                found.is_some_and(|found| values.into_iter().any(|value| value == found))
            };
            match expression.operator.as_str() {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}
