//! What `spec.config` may say about the watched namespace.

use olm_core::bundle::{Csv, InstallMode};
use olm_core::config::{Features, configure};
use olm_core::error::Chain;
use olm_core::yaml;
use serde_json::Value;

use super::table::{Table, rows_of, text, texts};

// rendering.md section 3
#[test]
fn configuration_is_taken_and_refused_as_upstream() {
    let mut table = Table::new("bundle.jsonl, config");
    for row in rows_of("bundle.jsonl", "config") {
        table.judge(&row, compare(&row, targets(&row)));
    }
    table.conclude(47);
}

/// Returns the watched namespaces, or why the configuration is refused.
fn targets(row: &Value) -> Result<Vec<String>, String> {
    let modes = texts(row, "installModes").into_iter();
    let csv = Csv {
        install_modes: modes
            .map(|mode| InstallMode { mode: mode.to_owned(), supported: true })
            .collect(),
        ..Csv::default()
    };
    let inline = match row["config"].as_str() {
        None => None,
        Some(text) => {
            let documents = yaml::to_json(text).map_err(|error| Chain(&error).to_string())?;
            documents.into_iter().next()
        }
    };
    configure(&csv, text(row, "installNamespace"), inline.as_ref(), Features::default())
        .map(|configuration| configuration.targets)
        .map_err(|error| Chain(&error).to_string())
}

/// Compares the one watched namespace, where none is all of them, or the parts of the refusal.
fn compare(row: &Value, ours: Result<Vec<String>, String>) -> Result<(), String> {
    let accepted = row["accepted"].as_bool().expect("a verdict");
    let namespace = row["watchNamespace"].as_str().unwrap_or_default();
    match ours {
        Ok(targets) if accepted && targets == [namespace] => Ok(()),
        Ok(targets) => Err(format!("accepted for {targets:?}")),
        Err(error) => {
            let parts = texts(row, "errorContains");
            let same = !accepted && parts.iter().all(|part| error.contains(part));
            if same { Ok(()) } else { Err(error) }
        }
    }
}
