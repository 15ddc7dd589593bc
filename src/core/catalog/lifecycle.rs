//! Until when the versions of a package are supported, and on which platforms: blobs of schema
//! `io.openshift.operators.lifecycles.v1alpha1`, which catalogs of OpenShift have.
//!
//! Source: enhancement "OLMv0 operator lifecycle and compatibility" of OpenShift. Members that it does
//! not name are ignored.

use std::fmt::Write as _;

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::read::Meta;

const SCHEMA: &str = "io.openshift.operators.lifecycles.v1alpha1";

/// The support of a minor version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// The version, `MAJOR.MINOR`.
    pub name: String,
    /// Its phases, one after the other.
    pub phases: Vec<Phase>,
    /// The platforms that it is made for.
    #[serde(default)]
    pub platform_compatibility: Vec<Platform>,
}

/// A phase of support; both days belong to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Phase {
    /// What it is called.
    pub name: String,
    /// The first day, `YYYY-MM-DD`.
    pub start_date: String,
    /// The last day, `YYYY-MM-DD`.
    pub end_date: String,
}

/// A platform, and its versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Platform {
    /// What it is called, for example `openshift`.
    pub name: String,
    /// The versions, each `MAJOR.MINOR`.
    pub versions: Vec<String>,
}

#[derive(Deserialize)]
struct Blob {
    versions: Vec<Lifecycle>,
}

/// Returns the support of the minor versions of a package. Of several blobs none counts, nor does one
/// of another shape.
pub(super) fn lifecycles(package: &str, metas: &[Meta]) -> Vec<Lifecycle> {
    let mut blobs = metas.iter().filter(|meta| meta.schema == SCHEMA && meta.package == package);
    match (blobs.next(), blobs.next()) {
        (Some(only), None) => {
            let read = serde_json::from_str::<Blob>(&only.json);
            read.map_or_else(|_| Vec::new(), |blob| blob.versions)
        }
        _ => Vec::new(),
    }
}

impl Lifecycle {
    /// Says in which phase the version is and what it is made for.
    ///
    /// Example: `4.17: Full support until 2025-05-25; openshift 4.17, 4.18`.
    pub fn text(&self, today: Date) -> String {
        let mut text = format!("{}: {}", self.name, self.phase(today));
        for platform in &self.platform_compatibility {
            // Writing to a String cannot fail.
            let _ = write!(text, "; {} {}", platform.name, platform.versions.join(", "));
        }
        text
    }

    fn phase(&self, today: Date) -> String {
        let days = self.phases.iter().filter_map(|phase| {
            let day = |text: &str| text.parse::<Date>().ok();
            Some((&phase.name, day(&phase.start_date)?, day(&phase.end_date)?))
        });
        let mut last = None;
        for (name, start, end) in days {
            if today < start {
                return format!("{name} from {start}");
            }
            if today <= end {
                return format!("{name} until {end}");
            }
            last = last.max(Some(end));
        }
        last.map_or_else(|| "support not known".to_owned(), |end| format!("support ended on {end}"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn blob() -> Value {
        let phase = |name: &str, start: &str, end: &str| json!({"name": name, "startDate": start, "endDate": end, "more": 1});
        json!({"schema": SCHEMA, "package": "pot", "more": 1, "versions": [
            {"name": "4.17", "more": 1,
                "phases": [phase("Full support", "2024-10-01", "2025-05-25"),
                    phase("Maintenance support", "2025-05-26", "2026-04-01")],
                "platformCompatibility": [{"name": "openshift", "versions": ["4.17", "4.18"]}]},
            {"name": "4.18", "phases": [phase("Full support", "", "")]}]})
    }

    fn read(blobs: &[Value]) -> Vec<Lifecycle> {
        let metas = blobs.iter().map(|blob| Meta::parse(&blob.to_string()).unwrap());
        lifecycles("pot", &metas.collect::<Vec<_>>())
    }

    #[rstest]
    #[case::before("2024-09-30", "Full support from 2024-10-01")]
    #[case::first_day("2024-10-01", "Full support until 2025-05-25")]
    #[case::last_day("2025-05-25", "Full support until 2025-05-25")]
    #[case::next_phase("2025-05-26", "Maintenance support until 2026-04-01")]
    #[case::over("2026-04-02", "support ended on 2026-04-01")]
    fn the_phase_is_that_of_the_day(#[case] today: &str, #[case] want: &str) {
        let found = read(&[blob()]);
        let today = today.parse().unwrap();
        assert_eq!(found[0].text(today), format!("4.17: {want}; openshift 4.17, 4.18"));
        assert_eq!(found[1].text(today), "4.18: support not known");
    }

    #[test]
    fn blobs_that_contradict_or_cannot_be_read_say_nothing() {
        let other = json!({"schema": SCHEMA, "package": "lid", "versions": []});
        assert_eq!(read(&[blob(), other]).len(), 2);
        assert_eq!(read(&[blob(), blob()]), []);
        assert_eq!(read(&[json!({"schema": SCHEMA, "package": "pot", "versions": "4.17"})]), []);
    }
}
