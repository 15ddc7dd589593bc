//! Which phase an object belongs to, and the order inside a phase.

use olm_core::object::Object;
use olm_core::revision::{Phase, phases};
use serde_json::{Value, json};

use super::table::{Table, rows};

// applying.md 3.2
#[test]
fn objects_are_sorted_into_phases_as_upstream() {
    let mut table = Table::new("phases.jsonl");
    for row in rows("phases.jsonl") {
        let objects = row["objects"].as_array().expect("a list of objects");
        let objects = objects
            .iter()
            .map(|object| Object::from_value(object.clone()).expect("an object"))
            .collect();
        let answer = match phases(objects) {
            Ok(phases) if written(&phases) == row["phases"] => Ok(()),
            Ok(phases) => Err(written(&phases).to_string()),
            Err(error) => Err(error.to_string()),
        };
        table.judge(&row, answer);
    }
    table.conclude(11);
}

/// Phases as a row writes them.
fn written(phases: &[Phase]) -> Value {
    let phases = phases.iter().map(|phase| {
        let objects = phase.objects.iter().map(|object| &object.0);
        json!({"phase": phase.name, "objects": objects.collect::<Vec<_>>()})
    });
    phases.collect()
}
