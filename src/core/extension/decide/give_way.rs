//! Whether a rollout gives way to what the catalogs choose.
//!
//! Source: applying.md 1.3, decision 6.

use olm_api::conditions::Reason;

use super::Question;
use crate::catalog::PackageIndex;
use crate::resolve::{Catalog, Resolution};
use crate::revision::BundleRecord;
use crate::status::Note;

impl Question {
    /// Returns why a rollout gives way to the bundle that a resolution chose, if it does: the catalogs
    /// have withdrawn or deprecated its bundle, its workload cannot progress, or it takes too long. A
    /// rollout that progresses is kept, and so is one whose bundle was chosen again.
    ///
    /// `resolution` is what [`Question::resolve`] made of the same catalogs: it starts from the
    /// installed bundle, as if nothing was rolled out, or from the one that takes over what ran.
    pub fn gives_way(
        &self,
        catalogs: &[Catalog<'_>],
        resolution: &Resolution<'_>,
    ) -> Option<String> {
        let rollout = self.rolling.as_ref().filter(|rollout| !rollout.is_return)?;
        let chosen = &resolution.result.as_ref().ok()?.bundle.name;
        if *chosen == rollout.bundle.name {
            return None;
        }
        // What is installed was chosen only because what is newer has to wait: nothing goes back.
        let stays = self.ran().is_some_and(|ran| ran.name == *chosen);
        if stays && resolution.held_back().next().is_some() {
            return None;
        }
        self.fault(&rollout.bundle, rollout.stalled.as_deref(), catalogs, resolution)
    }

    /// Returns the bundle that is there or on its way while a step to another is held.
    pub fn present(&self) -> Option<&BundleRecord> {
        let rolling = self.rolling.as_ref().map(|rollout| &rollout.bundle);
        let unfinished = self.unfinished.as_ref().map(|rollout| &rollout.bundle);
        rolling.or(unfinished).or(self.installed.as_ref())
    }

    /// Returns what is said of a rollout whose place another bundle takes, until that one is rolled
    /// out.
    pub fn superseded(
        &self,
        catalogs: &[Catalog<'_>],
        resolution: &Resolution<'_>,
    ) -> Option<Note> {
        let rollout = self.rolling.as_ref()?;
        let note = |by: &str, given_up: &str, why: &str| Note {
            reason: Reason::RolloutSuperseded,
            message: format!("{by} supersedes the rollout of {given_up}, because {why}"),
        };
        if let Some(why) = self.gives_way(catalogs, resolution) {
            let chosen = &resolution.result.as_ref().ok()?.bundle.name;
            return Some(note(chosen, &rollout.bundle.name, &why));
        }
        let (before, stalled) = rollout.before.as_ref()?;
        let why = self.fault(before, stalled.as_deref(), catalogs, resolution)?;
        Some(note(&rollout.bundle.name, &before.name, &why))
    }

    /// Returns what is said of the rollout to whoever asks why another bundle, or none, is taken.
    pub fn rollout_note(
        &self,
        catalogs: &[Catalog<'_>],
        resolution: &Resolution<'_>,
    ) -> Option<Note> {
        let goes_on = || {
            let rollout = self.rolling.as_ref().filter(|rollout| !rollout.is_return)?;
            let chosen = &resolution.result.as_ref().ok()?.bundle.name;
            let name = &rollout.bundle.name;
            (chosen != name).then(|| Note {
                reason: Reason::RollingOut,
                message: format!(
                    "{name} is rolling out, and is left alone while it progresses and the catalogs \
                     offer it"
                ),
            })
        };
        self.superseded(catalogs, resolution).or_else(goes_on)
    }

    /// Returns what is wrong with a bundle that is rolled out.
    fn fault(
        &self,
        bundle: &BundleRecord,
        stalled: Option<&str>,
        catalogs: &[Catalog<'_>],
        resolution: &Resolution<'_>,
    ) -> Option<String> {
        let name = &bundle.name;
        let reports = &resolution.catalogs;
        let counts =
            |catalog: &&Catalog<'_>| reports.iter().any(|report| report.name == catalog.name);
        let offering: Vec<_> = catalogs
            .iter()
            .filter(counts)
            .filter_map(|catalog| {
                let package = catalog.package(&self.filter.package_name)?;
                self.offers(package, name).then_some((catalog.name, package))
            })
            .collect();
        let is_read = reports.iter().all(|report| report.used && report.problem.is_none());
        match offering.first() {
            None if is_read && !reports.is_empty() => {
                Some(format!("no catalog offers {name} any longer"))
            }
            Some((catalog, _)) if offering.iter().all(|(_, it)| it.is_deprecated(name)) => {
                Some(format!("catalog {catalog} has deprecated {name}"))
            }
            _ => stalled.map(str::to_owned),
        }
    }

    /// Returns whether a package has a bundle, in a requested channel if one is requested.
    fn offers(&self, package: &PackageIndex, name: &str) -> bool {
        let channels = &self.filter.channels;
        let asked = |channel: &str| channels.iter().any(|it| it == channel);
        package.bundle(name).is_some()
            && (channels.is_empty() || package.entries_of(name).any(|(channel, _)| asked(channel)))
    }
}
