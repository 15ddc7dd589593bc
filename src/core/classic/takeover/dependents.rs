//! Which other CSVs need what is moved.

use olm_api::keys::annotation::CSV_PROPERTIES;
use serde_json::Value;

use super::{is_copy, provided};
use crate::catalog::{Declared, Steps, need};
use crate::classic::csv::{REQUIRED, names};
use crate::object::Object;
use crate::resolve::Provider;
use crate::revision::{csv_properties, csv_provider};

/// Returns what a CSV provides to the constraints of others; Classic takes its package from the
/// Subscription if its annotation names none.
pub(super) fn provider(csv: &Object, subscription: &Object) -> Option<Provider> {
    let mut provider = csv_provider(&Value::Object(csv.0.clone()))?;
    if provider.package.is_empty() {
        subscription.text_at("/spec/name").clone_into(&mut provider.package);
    }
    Some(provider)
}

/// Returns what another CSV needs of one: an API, or what a constraint among its properties asks for. Those
/// count in their namespace only, in which Classic resolves.
pub(super) fn needs(other: &Object, csv: &Object, provider: Option<&Provider>) -> Option<String> {
    let owned = provided(csv);
    let mut required = REQUIRED.iter().flat_map(|list| names(other, list));
    if let Some(api) = required.find(|api| owned.contains(api)) {
        return Some(format!("needs {api}"));
    }
    let provider = provider.filter(|_| other.namespace() == csv.namespace() && !is_copy(other))?;
    let properties = csv_properties(other.annotation(CSV_PROPERTIES).unwrap_or_default());
    let steps = Steps::default();
    let needs = |declared: &Declared| {
        let constraint = declared.constraint.as_ref().ok();
        match constraint.and_then(|it| provider.meets_part(it, &steps)) {
            Some(true) => Some(format!("needs {}", need(declared))),
            Some(false) => None,
            None => Some(format!("may need this one for {}", need(declared))),
        }
    };
    Declared::of(&properties).iter().find_map(needs)
}
