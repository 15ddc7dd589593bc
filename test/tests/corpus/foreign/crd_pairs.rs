//! Whether a CRD may follow another, as crdify and those who use it say.

use olm_core::crd_safety::{Definition, Rules, compare, error_text};
use serde_json::{Value, json};

use super::table::{Table, rows, texts};

// applying.md g1, g3
#[test]
fn pairs_of_crds_are_judged_as_upstream_judges_them() {
    let mut table = Table::new("crd-pairs.jsonl");
    for (index, mut row) in rows("crd-pairs.jsonl").into_iter().enumerate() {
        // Not all rows have a name, and some share it.
        let name = row["name"].as_str().unwrap_or("whole test").to_owned();
        row["name"] = json!(format!("{name} (row {index})"));
        table.judge(&row, judge(&row));
    }
    table.conclude(169);
}

/// Compares verdict and texts; rows for a configuration that OLM does not use ask for none.
fn judge(row: &Value) -> Result<(), String> {
    let (old, new) = (Definition::of(&row["old"]), Definition::of(&row["new"]));
    let findings = compare(&old, &new, Rules::Upstream);
    let ours = error_text(&new.name, &findings, usize::MAX).unwrap_or_default();
    let olm = &row["olm"];
    let verdict = olm["safe"].as_bool();
    let agrees = verdict.is_none_or(|safe| safe == ours.is_empty())
        && texts(olm, "contains").iter().all(|part| ours.contains(part))
        && !texts(olm, "notContains").iter().any(|part| ours.contains(part));
    if agrees { Ok(()) } else { Err(ours) }
}
