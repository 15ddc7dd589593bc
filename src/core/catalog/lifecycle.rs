//! Until when the versions of a package are supported, and on which platforms: blobs of schema
//! `io.openshift.operators.lifecycles.v1alpha1`, which catalogs of OpenShift have.
//!
//! Source: enhancement "OLMv0 operator lifecycle and compatibility" of OpenShift. Members that it does
//! not name are ignored.

use std::fmt::Write as _;

use itertools::Itertools as _;
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gate::MinorRelease;
use crate::version::Version;

pub(super) const SCHEMA: &str = "io.openshift.operators.lifecycles.v1alpha1";
/// The name of OpenShift among platforms.
const OPENSHIFT: &str = "openshift";

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
    /// Name of the phase.
    pub name: String,
    /// The first day, `YYYY-MM-DD`.
    pub start_date: String,
    /// The last day, `YYYY-MM-DD`.
    pub end_date: String,
}

/// A platform, and its versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Platform {
    /// Name of the platform, for example `openshift`.
    pub name: String,
    /// The versions, each `MAJOR.MINOR`.
    pub versions: Vec<String>,
}

#[derive(Deserialize)]
struct Versions {
    versions: Vec<Lifecycle>,
}

/// Reads the support of the minor versions of a package; nothing of a blob of another shape.
pub(super) fn lifecycles(json: &str) -> Vec<Lifecycle> {
    let read = serde_json::from_str::<Versions>(json);
    read.map_or_else(|_| Vec::new(), |blob| blob.versions)
}

impl Lifecycle {
    /// Says whether a version belongs to it.
    pub(super) fn covers(&self, version: &Version) -> bool {
        self.name == format!("{}.{}", version.major, version.minor)
    }

    /// Returns the last day of support.
    pub fn end(&self) -> Option<Date> {
        self.days().map(|(_, _, end)| end).max()
    }

    /// Returns whether the version lists the versions of OpenShift that it supports, without this
    /// one.
    pub fn excludes(&self, openshift: MinorRelease) -> bool {
        let named = self.platform_compatibility.iter().filter(|it| it.name == OPENSHIFT);
        let mut versions = named.flat_map(|it| &it.versions).peekable();
        let is_it = |version: &String| {
            version.parse().is_ok_and(|it: MinorRelease| it.as_peer() == openshift.as_peer())
        };
        versions.peek().is_some() && !versions.any(is_it)
    }

    /// Returns the support phase of the version, and the platforms that it supports.
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

    /// Returns the phases whose days can be read.
    fn days(&self) -> impl Iterator<Item = (&str, Date, Date)> {
        self.phases.iter().filter_map(|phase| {
            let day = |text: &str| text.parse::<Date>().ok();
            Some((phase.name.as_str(), day(&phase.start_date)?, day(&phase.end_date)?))
        })
    }

    fn phase(&self, today: Date) -> String {
        let mut last = None;
        for (name, start, end) in self.days().sorted_by_key(|(_, start, _)| *start) {
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
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{cases, content};

    const CASES: &str = include_str!("../testdata/catalog/cases.yaml");

    fn blob() -> Value {
        let phase = |name: &str, start: &str, end: &str| json!({"name": name, "startDate": start, "endDate": end, "more": 1});
        json!({"schema": SCHEMA, "package": "pot", "more": 1, "versions": [
            {"name": "4.17", "more": 1,
                // Their order is the author's.
                "phases": [phase("Maintenance support", "2025-05-26", "2026-04-01"),
                    phase("Full support", "2024-10-01", "2025-05-25")],
                "platformCompatibility": [{"name": "openshift", "versions": ["4.17", "4.18"]}]},
            {"name": "4.18", "phases": [phase("Full support", "", "")]}]})
    }

    fn read(blobs: &[Value]) -> Vec<Lifecycle> {
        let head = json!({"schema": "olm.package", "name": "pot"});
        let content = content(blobs.iter().chain([&head]));
        content.package("pot").unwrap().unwrap().lifecycle.clone()
    }

    #[test]
    fn the_phase_is_that_of_the_day() {
        for (today, want) in cases::<(&str, &str)>(CASES, "the_phase_is_that_of_the_day") {
            let found = read(&[blob()]);
            let today = today.parse().unwrap();
            assert_eq!(found[0].text(today), format!("4.17: {want}; openshift 4.17, 4.18"));
            assert_eq!(found[1].text(today), "4.18: support not known");
            let ends = [found[0].end(), found[1].end()];
            assert_eq!(ends, ["2026-04-01".parse().ok(), None]);
            let (at_18, at_19) = (MinorRelease::new(4, 18), MinorRelease::new(4, 19));
            assert!(
                found[0].excludes(at_19) && !found[0].excludes(at_18) && !found[1].excludes(at_19)
            );
            let covers = |version: &str| found[0].covers(&version.parse().unwrap());
            assert!(covers("4.17.3-rc.1") && !covers("4.1.7"));
        }
    }

    #[test]
    fn a_blob_that_cannot_be_read_says_nothing_and_makes_no_package() {
        let bad = json!({"schema": SCHEMA, "package": "pot", "versions": "4.17"});
        assert_eq!(read(&[bad]), []);
        assert!(content([blob()]).package("pot").is_none());
    }
}
