//! The results of a run of benchmarks, in a few lines.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// Returns the folder Criterion writes to.
pub fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    target.join("criterion")
}

/// Returns the median that Criterion measured for a benchmark in its last run; `None` when it was
/// filtered out.
pub fn median(group: &str, name: &str) -> Option<Duration> {
    let file = folder().join(group).join(name).join("new/estimates.json");
    let estimates: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    let nanoseconds = estimates["median"]["point_estimate"].as_f64()?;
    Some(Duration::from_secs_f64(nanoseconds / 1e9))
}

/// Lines with what was measured, how long it took and how long it may take.
#[derive(Debug, Default)]
pub struct Table(Vec<[String; 4]>);

impl Table {
    /// Adds a line; nothing if there is no measurement.
    pub fn add(
        &mut self,
        what: impl Into<String>,
        took: Option<Duration>,
        limit: Option<Duration>,
    ) {
        let Some(took) = took else { return };
        let verdict = match limit {
            Some(limit) if took <= limit => "met",
            Some(_) => "MISSED",
            None => "",
        };
        let limit = limit.map_or_else(String::new, |limit| format!("< {limit:?}"));
        self.0.push([what.into(), shown(took), limit, verdict.to_owned()]);
    }

    /// Adds a line with a number that has no limit.
    pub fn note(&mut self, what: impl Into<String>, value: impl Into<String>) {
        self.0.push([what.into(), value.into(), String::new(), String::new()]);
    }

    /// Returns the table as text.
    pub fn to_text(&self, title: &str) -> String {
        let head = [title, "MEDIAN", "TARGET", ""].map(str::to_owned);
        let lines: Vec<&[String; 4]> = std::iter::once(&head).chain(&self.0).collect();
        let width = |column: usize| {
            let cells = lines.iter().map(|line| line[column].chars().count());
            cells.max().unwrap_or_default()
        };
        let widths = [0, 1, 2].map(width);
        lines.iter().fold(String::new(), |mut text, [what, took, limit, verdict]| {
            let [first, second, third] = widths;
            let line = format!("{what:first$}  {took:>second$}  {limit:third$}  {verdict}");
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", line.trim_end());
            text
        })
    }
}

/// Returns a time with three digits.
fn shown(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..1_000.0 => format!("{micros:.1} µs"),
        ..1_000_000.0 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_whether_the_target_is_met() {
        let mut table = Table::default();
        let ms = Duration::from_millis;
        table.add("fast", Some(ms(1)), Some(ms(10)));
        table.add("slow", Some(ms(1500)), Some(ms(10)));
        table.add("absent", None, None);
        table.note("speed", "25 MB/s");
        let want = "\
WHAT    MEDIAN  TARGET
fast   1.00 ms  < 10ms  met
slow    1.50 s  < 10ms  MISSED
speed  25 MB/s
";
        assert_eq!(table.to_text("WHAT"), want);
    }
}
