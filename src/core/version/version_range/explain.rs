//! Why a range refuses a version.

use itertools::Itertools as _;

use super::{Term, VersionRange};
use crate::version::Version;

impl VersionRange {
    /// Returns, for every group, the first term a version does not satisfy, as written.
    ///
    /// Prereleases are compared like any version. A group whose terms all hold contributes nothing,
    /// so the list is empty if only the rule about prereleases excludes the version.
    ///
    /// Example: `>=1.0 <2.0 || 3.x` refuses 2.5.0 for `<2.0` and `3.x`.
    pub fn refusing_terms(&self, version: &Version) -> Vec<&str> {
        let refusing = |terms: &'_ Vec<Term>| terms.iter().position(|term| !term.holds(version));
        self.groups.iter().filter_map(|terms| Some(terms[refusing(terms)?].text.as_str())).collect()
    }

    /// Returns a range that contains a prerelease and is otherwise this one: `-0` is added to the
    /// first term for which that is enough. `None` if there is no such term.
    ///
    /// Example: for 1.5.0-rc.1, `>=1.0.0 <2.0.0` becomes `>=1.0.0-0 <2.0.0`.
    pub fn admitting(&self, version: &Version) -> Option<String> {
        let groups = self.groups.iter().enumerate();
        let positions =
            groups.flat_map(|(group, terms)| (0..terms.len()).map(move |term| (group, term)));
        positions.map(|position| self.with_prereleases_at(position)).find(|text| {
            let range = text.parse::<Self>();
            range.is_ok_and(|range| range.contains(version))
        })
    }

    /// Writes the range with `-0` after one of its terms.
    fn with_prereleases_at(&self, position: (usize, usize)) -> String {
        let term = |place, term: &Term| {
            let mark = if place == position { "-0" } else { "" };
            format!("{}{mark}", term.text)
        };
        let group = |(group, terms): (usize, &Vec<Term>)| {
            terms.iter().enumerate().map(|(place, it)| term((group, place), it)).join(" ")
        };
        self.groups.iter().enumerate().map(group).join(" || ")
    }
}
