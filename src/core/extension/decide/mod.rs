//! What the catalogs are asked for an extension, and what follows from their answer.
//!
//! Source: resolution.md 1.11, 6.1; decisions 5, 22, 24.

mod give_way;
mod lifting;
mod resume;

use jiff::Timestamp;
use olm_api::conditions;
use olm_api::{CatalogFilter, ClusterObjectSet, UpdateStatus};

use super::content::content_changed;
use super::deprecation::counting;
use super::left::Left;
use super::lift::Lift;
use super::policy::{CatalogMove, Policy};
use super::rollout::{Rollout, Unfinished, newest_known};
use crate::bundle::is_subdomain;
use crate::catalog::{Bundle, Declared, Deprecations, Lifecycle};
use crate::error::{Classify, Disposition, quote};
use crate::explain::{Headline, explain};
use crate::resolve::{
    Catalog, Decision, Dependencies, Environment, Options, Reason, Request, Resolution,
    ResolveError, Selected, Warning, Why, newest, pending, resolve,
};
use crate::revision::{BundleRecord, Origin, states};
use crate::status::Note;
use crate::status::extension::text;
use crate::version::{VersionRange, VersionRelease};

/// What an extension asks the catalogs.
#[derive(Debug, Clone)]
pub struct Question {
    /// `spec.source.catalog`.
    pub filter: CatalogFilter,
    /// What its annotations say.
    pub policy: Policy,
    /// The bundle of the last revision that succeeded.
    pub installed: Option<BundleRecord>,
    /// The catalog that it came from, where that is recorded.
    pub came_from: Option<String>,
    /// What is being rolled out, and stays so unless it gives way ([`Question::gives_way`]).
    pub rolling: Option<Rollout>,
    /// The rollout that the catalogs are asked about anew, because it is late or the spec has changed
    /// since; it goes on unless another bundle is chosen.
    pub unfinished: Option<Unfinished>,
    /// The version that ran before all objects lost their owners.
    pub left: Option<Left>,
    /// While nothing is installed, the bundle whose rollout takes over what ran.
    pub taken_over: Option<BundleRecord>,
    /// When it is asked.
    pub now: Timestamp,
}

/// What a resolution has to know besides catalogs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Whether the cluster counts at all: not where constraints are passed over or refused.
    pub cluster: bool,
    /// What is installed.
    pub installed: bool,
    /// The version of Kubernetes.
    pub kubernetes: bool,
}

/// The bundle that an extension should have.
#[derive(Debug, Clone)]
pub struct Goal {
    pub target: BundleRecord,
    /// Reported although the goal is pursued: the newer bundle cannot be had.
    pub held: Option<ResolveError>,
    /// Whether the bundle meets the request nevertheless, as far as that is known.
    pub fits: bool,
    /// Whether no edge of the catalog allows the step.
    pub forced: bool,
    /// The catalog that offers it; nothing where none was asked.
    pub catalog: Option<String>,
}

/// Why no bundle is selected for an extension.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DecisionError {
    /// No bundle was chosen.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The content of the installed bundle is needed and cannot be had, and there is no revision
    /// to fall back on.
    #[error("catalog content unavailable and no revision installed")]
    NoContent,
    /// Objects of another version than those asked for have no owner.
    /// `version` is the one that ran, `range` what is asked for.
    #[error(
        "objects without an owner are of version {version}, which {} excludes: set \
         spec.source.catalog.version to {version} until it is installed, or upgradeConstraintPolicy to \
         SelfCertified to install another version over them",
        quote(range)
    )]
    LeftOut { version: String, range: String },
}

impl Classify for DecisionError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Resolve(error) if error.is_invalid_request() => {
                Disposition::Terminal(conditions::Reason::InvalidConfiguration)
            }
            Self::Resolve(_) | Self::NoContent | Self::LeftOut { .. } => Disposition::Retry,
        }
    }

    /// What the catalogs do not offer comes with a change of them or of the request; that they cannot
    /// be read is a failure.
    fn awaits_person(&self) -> bool {
        match self {
            Self::Resolve(error) => !matches!(error, ResolveError::Walk(_)),
            Self::LeftOut { .. } => true,
            Self::NoContent => false,
        }
    }
}

/// A state that is published as an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whether it is a Warning.
    pub is_warning: bool,
    pub reason: conditions::Reason,
    pub note: String,
}

/// The decision that follows from the content of the catalogs.
#[derive(Debug)]
pub struct Answer {
    /// The bundle that the extension should have, or why none is selected.
    pub goal: Result<Goal, DecisionError>,
    /// The newer version that is offered, but not installed.
    pub update: Option<UpdateStatus>,
    /// The newest version in the selected catalogs, whether or not anything leads to it.
    pub newest: Option<String>,
    /// What is deprecated; nothing when it is not clear which catalog counts.
    pub deprecations: Option<Deprecations>,
    /// Until when and where the installed version is supported, if that catalog has the data.
    pub lifecycle: Option<Lifecycle>,
    /// What lifts the hold on updates of the platform, where that was asked.
    pub lift: Option<Lift>,
    /// Further lines of `Ready`.
    pub notes: Vec<Note>,
    /// Events to publish.
    pub notices: Vec<Notice>,
}

impl Goal {
    /// Goes on with a bundle that was chosen before.
    pub fn keep(target: BundleRecord) -> Self {
        Self { target, held: None, fits: true, forced: false, catalog: None }
    }

    /// Returns how a revision of it comes about. A bundle that was chosen before keeps the catalog that
    /// its revisions record.
    pub fn origin(&self, revisions: &[ClusterObjectSet]) -> Origin {
        let from = states(revisions).installed.filter(|_| self.forced);
        let mut made = revisions.iter().rev().filter(|set| {
            let bundle = BundleRecord::of(set);
            bundle.is_same_bundle(&self.target)
        });
        let recorded = || made.find_map(|set| Origin::of(set).catalog);
        Origin {
            catalog: self.catalog.clone().or_else(recorded),
            forced_from: from.map(|installed| BundleRecord::of(installed).version),
            ..Origin::default()
        }
    }
}

impl Question {
    /// Returns the bundle that update paths begin with.
    fn ran(&self) -> Option<&BundleRecord> {
        self.installed.as_ref().or(self.taken_over.as_ref())
    }

    /// Returns what resolution is asked.
    pub fn request(&self) -> Request {
        let holds = self.policy.catalog_move == CatalogMove::Hold;
        Request {
            filter: self.filter.clone(),
            installed: self.ran().map(BundleRecord::as_installed),
            home: self.came_from.clone(),
            moves_held: holds,
        }
    }

    /// Returns how resolution behaves, as the controller is set and the annotations say.
    pub fn options(&self, settings: Options) -> Options {
        Options { updates: self.policy.updates, closed_until: self.closed_until(), ..settings }
    }

    /// Returns when automatic updates may begin again, while they may not.
    pub fn closed_until(&self) -> Option<Timestamp> {
        let windows = self.policy.windows.as_ref();
        windows.and_then(|windows| windows.closed_until(self.now))
    }

    /// Returns what has to be known of the cluster before the first resolution.
    pub fn needs(&self, catalogs: &[Catalog<'_>], options: &Options) -> Needs {
        let mut needs = Needs {
            cluster: !self.policy.ignore_constraints
                && options.dependencies != Dependencies::Refuse,
            installed: false,
            kubernetes: false,
        };
        if !needs.cluster {
            return needs;
        }
        for bundle in self.bundles(catalogs) {
            needs.installed |= bundle.dependencies().next().is_some();
            needs.kubernetes |= bundle.min_kube_version.is_some();
        }
        needs
    }

    /// Returns whether the kinds that installed bundles define count; they also do where one of those
    /// asks for kinds ([`Provider::asks_for_kinds`](crate::resolve::Provider::asks_for_kinds)).
    pub fn asks_for_kinds(&self, catalogs: &[Catalog<'_>]) -> bool {
        let mut constraints = self.bundles(catalogs).flat_map(|bundle| &bundle.constraints);
        constraints.any(Declared::asks_for_kinds)
    }

    fn bundles<'a>(&self, catalogs: &[Catalog<'a>]) -> impl Iterator<Item = &'a Bundle> {
        let packages = catalogs.iter().filter_map(|it| it.package(&self.filter.package_name));
        packages.flat_map(|package| &package.bundles)
    }

    /// Returns what counts of the cluster: nothing where constraints are passed over or refused.
    pub fn environment(
        &self,
        catalogs: &[Catalog<'_>],
        options: &Options,
        cluster: &Environment,
    ) -> Environment {
        if self.needs(catalogs, options).cluster { cluster.clone() } else { Environment::default() }
    }

    /// Returns whether a resolution replaces the installed bundle: then the bundles that depend on
    /// it must be known.
    pub fn replaces(&self, resolution: &Resolution<'_>) -> bool {
        match (&resolution.result, &self.installed) {
            (Ok(selected), Some(installed)) => selected.bundle.name != installed.name,
            (Err(_), _) | (_, None) => false,
        }
    }

    /// Resolves; for the version that was approved, if the update policy holds it.
    pub fn resolve<'a>(
        &self,
        catalogs: &'a [Catalog<'a>],
        environment: &Environment,
        options: &Options,
    ) -> Resolution<'a> {
        self.decided(catalogs, environment, options).1
    }

    /// Returns the request that decides: for the version that was approved, if the update policy
    /// holds it.
    pub fn deciding_request(
        &self,
        catalogs: &[Catalog<'_>],
        environment: &Environment,
        options: &Options,
    ) -> Request {
        self.decided(catalogs, environment, options).0
    }

    fn decided<'a>(
        &self,
        catalogs: &'a [Catalog<'a>],
        environment: &Environment,
        options: &Options,
    ) -> (Request, Resolution<'a>) {
        let request = self.request();
        let resolution = resolve(&request, catalogs, environment, options);
        let exactly = self.approved(&request, &resolution).map(|exactly| {
            let released = resolve(&exactly, catalogs, environment, options);
            (exactly, released)
        });
        let released = exactly.filter(|(_, released)| {
            let selected = released.result.as_ref();
            selected.is_ok_and(|selected| self.is_approved(&selected.version))
        });
        released.unwrap_or((request, resolution))
    }

    fn is_approved(&self, version: &VersionRelease) -> bool {
        let approved = self.policy.approved.as_ref();
        approved.is_some_and(|approved| approved.version.precedence(version).is_eq())
    }

    /// Returns the request for exactly the approved version, if it is held.
    fn approved(&self, request: &Request, resolution: &Resolution<'_>) -> Option<Request> {
        let approved = &self.policy.approved.as_ref()?.version;
        let held = resolution
            .held
            .iter()
            .any(|held| matches!(held.reason, Reason::Held(_)) && self.is_approved(&held.version));
        let mut exactly = request.clone();
        exactly.filter.version = Some(approved.recorded());
        exactly.moves_held = false;
        held.then_some(exactly)
    }

    /// Returns what follows from a resolution, which [`Question::resolve`] made of the same
    /// catalogs, environment and options.
    pub fn answer(
        &self,
        catalogs: &[Catalog<'_>],
        environment: &Environment,
        options: &Options,
        resolution: &Resolution<'_>,
    ) -> Answer {
        let wanted = (self.filter.package_name.as_str(), self.came_from.as_deref());
        let package = counting(resolution, catalogs, wanted);
        let installed = self.installed.as_ref().and_then(BundleRecord::version_release);
        let lifecycle = package.zip(installed);
        let lifecycle = lifecycle.and_then(|(package, it)| package.lifecycle_of(&it.version));
        let mut answer = Answer {
            goal: Err(DecisionError::NoContent),
            update: self.update(catalogs, options, resolution),
            newest: self.newest(catalogs, options),
            deprecations: package.map(|it| it.deprecations.clone().unwrap_or_default()),
            lifecycle: lifecycle.cloned(),
            lift: None,
            notes: Vec::new(),
            notices: Vec::new(),
        };
        answer.report(resolution);
        let is_worth_it = resolution.result.is_err() || resolution.held_back().next().is_some();
        // While something is rolled out, what would be chosen instead is of no interest.
        let goes_on = resolution.result.is_ok() && self.goes_on(resolution).is_some();
        if is_worth_it && self.rolling.is_none() && !goes_on {
            let request = self.request();
            let report = explain(&request, catalogs, environment, options, None);
            if let Some(Headline { code, text }) = report.headline() {
                answer.say(resolution.result.is_err(), code, text);
            }
        }
        answer.offer(self.policy.paused);
        if let Some(message) = self.is_gone(catalogs, resolution) {
            answer.say(false, conditions::Reason::CatalogGone, message);
        }
        if let Some(note) = self.superseded(catalogs, resolution) {
            answer.note(note);
        }
        let chosen = self.goal(*options, resolution, &mut answer);
        let goal = match &self.rolling {
            Some(rollout) if self.gives_way(catalogs, resolution).is_none() => {
                Ok(Goal::keep(rollout.bundle.clone()))
            }
            _ => chosen,
        };
        answer.notes.extend(self.left.as_ref().and_then(|left| left.note(goal.is_ok())));
        Answer { goal: self.left_out().map_or(goal, Err), ..answer }
    }

    /// Returns the newer version that is offered and not taken.
    pub fn update(
        &self,
        catalogs: &[Catalog<'_>],
        options: &Options,
        resolution: &Resolution<'_>,
    ) -> Option<UpdateStatus> {
        let installed = self.installed.as_ref()?.version_release()?;
        let selected = resolution.result.as_ref().ok();
        let rolling =
            self.rolling.as_ref().filter(|_| self.gives_way(catalogs, resolution).is_none());
        let rolling = rolling.map(|rollout| &rollout.bundle).or_else(|| self.goes_on(resolution));
        let rolling = rolling.and_then(BundleRecord::version_release);
        let taken = match (&rolling, selected) {
            (Some(rolling), _) => rolling,
            (None, Some(selected)) => &selected.version,
            (None, None) => &installed,
        };
        // A step to a lower version does not make the installed one an update.
        let taken = if taken.precedence(&installed).is_lt() { &installed } else { taken };
        let request = self.request();
        let update = pending(&request, catalogs, options, resolution, taken);
        let newer = |it: &&Selected<'_>| it.version.precedence(&installed).is_gt();
        let chosen = selected.filter(newer).map(|it| (it.catalog, &it.version));
        let offer = self.stands_still().and_then(|(reason, until)| {
            // No approval leads on during a rollback.
            let rolled_back = reason == conditions::Reason::RolledBack;
            let held = update.as_ref().filter(|it| rolled_back && matches!(it.why, Why::Held(_)));
            let held = held.and_then(|it| it.reachable.as_ref());
            let (catalog, version) = chosen.or_else(|| held.map(|it| (it.catalog, &it.version)))?;
            let version = version.recorded();
            Some(UpdateStatus {
                newest: newest_known(self.newest(catalogs, options), &version),
                catalog: catalog.to_owned(),
                reason: reason.to_string(),
                message: format!("{version} is available; {until}"),
                version: Some(version),
            })
        });
        offer.or_else(|| update.as_ref().map(UpdateStatus::from))
    }

    fn newest(&self, catalogs: &[Catalog<'_>], options: &Options) -> Option<String> {
        let newest = newest(&self.request(), catalogs, *options);
        newest.map(|offer| offer.version.recorded())
    }

    /// Returns the note about the catalog of the installed bundle, where nothing is chosen only
    /// because that one is gone.
    fn is_gone(&self, catalogs: &[Catalog<'_>], resolution: &Resolution<'_>) -> Option<String> {
        let Decision::Keep(None) = resolution.decision() else { return None };
        if self.goes_on(resolution).is_some() {
            return None;
        }
        let (home, installed) = (self.came_from.as_ref()?, &self.installed.as_ref()?.name);
        let became = match catalogs.iter().find(|catalog| catalog.name == home) {
            None => "was deleted",
            Some(catalog) if !catalog.enabled => "is switched off",
            Some(_) => "is no longer selected",
        };
        Some(format!(
            "catalog {home}, which {installed} came from, {became}, and no other has an update: the \
             installed bundle stays"
        ))
    }

    /// Returns why nothing newer is taken whatever is chosen, and until when.
    pub fn stands_still(&self) -> Option<(conditions::Reason, String)> {
        match self.policy.rollback_to {
            _ if self.policy.paused => Some((conditions::Reason::Paused, text::paused())),
            Some(_) => Some((conditions::Reason::RolledBack, text::rolled_back())),
            None => None,
        }
    }

    fn goal(
        &self,
        options: Options,
        resolution: &Resolution<'_>,
        answer: &mut Answer,
    ) -> Result<Goal, DecisionError> {
        let installed = self.ran();
        Ok(match resolution.decision() {
            Decision::Use(selected) => {
                let package = &self.filter.package_name;
                let catalog = Some(selected.catalog.to_owned());
                let target = BundleRecord::selected(selected, package, options.release_support);
                let same = installed.filter(|installed| installed.is_same_bundle(&target));
                if let (Some(_), Some(bundle)) = (same, self.goes_on(resolution)) {
                    return Ok(Goal::keep(bundle.clone()));
                }
                let Some(installed) = same else {
                    if !is_subdomain(&target.name) {
                        let error = ResolveError::BundleName(target.name);
                        let installed = installed.cloned().ok_or_else(|| error.clone())?;
                        let held = Some(error);
                        return Ok(Goal { held, fits: false, ..Goal::keep(installed) });
                    }
                    let forced = selected.warnings.contains(&Warning::ForcedStep);
                    return Ok(Goal { forced, catalog, ..Goal::keep(target) });
                };
                match content_changed(&self.policy, installed, &target) {
                    Some(note) => {
                        answer.note(note);
                        Goal::keep(installed.clone())
                    }
                    None => Goal { catalog, ..Goal::keep(target) },
                }
            }
            Decision::Keep(error) => {
                let goes_on = self.goes_on(resolution);
                let fits = resolution.installed_fits && goes_on.is_none();
                let kept = goes_on.or(installed).cloned().ok_or(DecisionError::NoContent)?;
                Goal { held: error.cloned(), fits, ..Goal::keep(kept) }
            }
            Decision::Fail(error) => match self.goes_on(resolution) {
                Some(bundle) => Goal::keep(bundle.clone()),
                None => return Err(error.clone().into()),
            },
        })
    }

    /// Returns the bundle of the unfinished rollout, if it goes on although the catalogs do not choose
    /// it now.
    fn goes_on(&self, resolution: &Resolution<'_>) -> Option<&BundleRecord> {
        let Unfinished { bundle, is_as_asked } = self.unfinished.as_ref()?;
        let version = bundle.version_release()?.version;
        let is_asked_for = |range: &str| {
            let range = range.parse::<VersionRange>();
            range.is_ok_and(|range| range.contains_admitting_prereleases(&version))
        };
        let goes_on = match resolution.decision() {
            // The installed bundle is chosen only because newer ones are held now.
            Decision::Use(selected) => {
                self.ran().is_some_and(|ran| ran.name == selected.bundle.name)
                    && resolution.held.iter().any(|held| held.bundle == bundle.name)
            }
            // Unless the spec asks for the installed bundle, and no longer for this one.
            Decision::Keep(_) => {
                let range = self.filter.version.as_deref();
                *is_as_asked || !resolution.installed_fits || range.is_none_or(is_asked_for)
            }
            // The status of a late rollout is more useful than that no catalog can be read.
            Decision::Fail(_) => *is_as_asked,
        };
        goes_on.then_some(bundle)
    }
}

impl Answer {
    /// Adds what Events say about a resolution.
    fn report(&mut self, resolution: &Resolution<'_>) {
        if let Some(note) = resolution.unavailable_note() {
            self.notice(true, conditions::Reason::CatalogUnavailable, note);
        }
        let warnings = resolution.result.iter().flat_map(|it| &it.warnings);
        for warning in warnings {
            let reason = match warning {
                Warning::SuccessorIsLowerVersion => conditions::Reason::SuccessorIsLowerVersion,
                Warning::BreaksInstalled(_) => conditions::Reason::BreaksInstalled,
                // Said when the step is made.
                Warning::ForcedStep => continue,
            };
            self.notice(true, reason, warning.to_string());
        }
    }

    /// Adds what is said about the newer version that is offered, and about a pause.
    fn offer(&mut self, paused: bool) {
        let reason = conditions::Reason::Paused;
        let waits = self.update.as_ref().filter(|update| update.reason == reason.as_str());
        let message = waits.map_or_else(text::paused, |update| update.message.clone());
        self.notes.extend(paused.then_some(Note { reason, message }));
        if let Some(update) = &self.update {
            self.notice(false, conditions::Reason::UpgradeAvailable, update.message.clone());
        }
    }

    /// Adds what `Ready` explains and an Event says.
    fn say(&mut self, is_warning: bool, reason: conditions::Reason, message: String) {
        self.notice(is_warning, reason, message.clone());
        self.notes.push(Note { reason, message });
    }

    /// Adds what `Ready` explains and a warning says.
    fn note(&mut self, note: Note) {
        self.say(true, note.reason, note.message);
    }

    fn notice(&mut self, is_warning: bool, reason: conditions::Reason, note: String) {
        self.notices.push(Notice { is_warning, reason, note });
    }
}

#[cfg(test)]
mod tests;
