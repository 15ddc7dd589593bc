//! What is told about a resolution beside its result: the nearest usable answer, what is held and
//! why, which newer version there is.
//!
//! Source: README decision 24, resolution.md 6.1.

use kube::runtime::events::EventType;
use olm_api::UpdateStatus;
use olm_api::conditions::reasons;
use olm_api::keys::policy;
use olm_core::error::Chain;
use olm_core::resolve::{
    Catalog, Exclusion, Held, HeldReason, Options, Reason, Request, Resolution, ResolveError,
    Warning, pending,
};
use olm_core::status::Note;
use olm_core::status::extension::text;
use olm_core::version::{Version, VersionRelease};

use super::pass::Pass;
use super::resolve::Question;
use super::target::Target;
use super::telling::Telling;

impl Pass {
    /// Adds what is worth knowing about a resolution beside its result: to `Ready`, and to what
    /// Events tell. While something is rolled out the result itself is of no interest.
    pub(super) fn explain(&mut self, resolution: &Resolution<'_>, rolling: bool) {
        if let Some(note) = resolution.unavailable_note() {
            self.tell(EventType::Warning, "CatalogUnavailable", note);
        }
        match &resolution.result {
            _ if rolling => return,
            Ok(selected) => {
                for warning in &selected.warnings {
                    let reason = match warning {
                        Warning::SuccessorIsLowerVersion => "SuccessorIsLowerVersion",
                        Warning::BreaksInstalled(_) => "BreaksInstalled",
                        // Told when the step is made.
                        Warning::ForcedStep => continue,
                    };
                    self.tell(EventType::Warning, reason, warning.to_string());
                }
            }
            Err(error) => {
                if let Some((code, message)) = unreachable(resolution, error) {
                    self.tell(EventType::Warning, code, message.clone());
                    let reason = reasons::RETRYING;
                    self.notes.push(Note { reason, message });
                }
            }
        }
        self.notes.extend(lower_version_held(resolution));
    }

    /// Adds the newer version that is offered and not taken.
    pub(super) fn offer(&mut self, offered: Option<(UpdateStatus, &'static str)>) {
        if let Some((update, reason)) = &offered {
            let message = update.message.clone();
            self.tell(EventType::Normal, "UpgradeAvailable", message.clone());
            // What the spec says itself needs no explanation.
            if ![
                reasons::PINNED,
                reasons::RETRYING,
                Reason::NotSuccessor.code(),
            ]
            .contains(reason)
            {
                self.notes.push(Note { reason, message });
            }
        }
        self.update = Some(offered.map(|(update, _)| update));
    }

    fn tell(&mut self, type_: EventType, reason: &'static str, note: String) {
        self.told.get_or_insert_default().push(Telling {
            type_,
            reason,
            note,
        });
    }

    /// Adds what `Ready` explains and an Event tells.
    pub(super) fn note(&mut self, note: Note) {
        self.tell(EventType::Warning, note.reason, note.message.clone());
        self.notes.push(note);
    }
}

/// Returns what is there and cannot be reached when nothing was found, with its reason class.
fn unreachable(
    resolution: &Resolution<'_>,
    error: &ResolveError,
) -> Option<(&'static str, String)> {
    if let ResolveError::Validation { source, .. } = error {
        return Some((source.code(), Chain(error).to_string()));
    }
    let not_successor = |excluded: &&Exclusion<'_>| excluded.reason == Reason::NotSuccessor;
    let found = resolution.excluded.iter().find(not_successor)?;
    let message = format!(
        "{} is in catalog {} but is not a successor of the installed bundle; to force it: \
         upgradeConstraintPolicy SelfCertified",
        found.bundle, found.catalog
    );
    Some((found.reason.code(), message))
}

/// Returns the note about a successor that is lower than what is installed.
fn lower_version_held(resolution: &Resolution<'_>) -> Option<Note> {
    let lower = |held: &&Held<'_>| held.reason == Reason::Held(HeldReason::LowerVersion);
    let held = resolution.held.iter().find(lower)?;
    Some(Note {
        reason: reasons::LOWER_VERSION_HELD,
        message: format!(
            "{} is held, because it is lower than the installed version: edit version, set \
             annotation {}: Any, or use upgradeConstraintPolicy SelfCertified",
            held.bundle,
            policy::UPGRADE,
        ),
    })
}

/// Returns the newer version that is offered and not taken, and the reason in one word.
pub(super) fn offered(
    question: &Question<'_>,
    request: &Request,
    catalogs: &[Catalog<'_>],
    options: &Options,
    resolution: &Resolution<'_>,
) -> Option<(UpdateStatus, &'static str)> {
    let installed = version_of(question.installed.as_ref()?)?;
    let selected = resolution.result.as_ref().ok();
    let rolling = question.rolling.and_then(version_of);
    let taken = match (&rolling, selected) {
        (Some(rolling), _) => rolling,
        (None, Some(selected)) => &selected.version,
        (None, None) => &installed,
    };
    let update = pending(request, catalogs, options, resolution, taken);
    let chosen = selected.filter(|it| it.version.precedence(&installed).is_gt());
    if let Some(chosen) = chosen.filter(|_| question.policy.paused) {
        let version = chosen.version.recorded();
        let newest = update.map(|update| update.newest.version.recorded());
        let status = UpdateStatus {
            newest: newest.unwrap_or_else(|| version.clone()),
            catalog: chosen.catalog.to_owned(),
            reason: reasons::PAUSED.to_owned(),
            message: format!("{version} is available; {}", text::PAUSED),
            version: Some(version),
        };
        return Some((status, reasons::PAUSED));
    }
    let update = update?;
    let offer = update.reachable.as_ref();
    let reason = update.why.code();
    let status = UpdateStatus {
        version: offer.map(|offer| offer.version.recorded()),
        newest: update.newest.version.recorded(),
        catalog: offer.unwrap_or(&update.newest).catalog.to_owned(),
        reason: reason.to_owned(),
        message: update.to_string(),
    };
    Some((status, reason))
}

fn version_of(target: &Target) -> Option<VersionRelease> {
    let version = match &target.release {
        Some(release) => VersionRelease::explicit(&target.version, release),
        None => VersionRelease::legacy(&target.version),
    };
    version.ok()
}

/// Returns the one word for how a resolution ended (resolution.md 6.1).
pub(super) fn result_code(resolution: &Resolution<'_>) -> &'static str {
    let error = match &resolution.result {
        Ok(_) if resolution.held.is_empty() => return "Resolved",
        Ok(_) => return "Held",
        Err(error) => error,
    };
    match error {
        ResolveError::Selector(_) | ResolveError::Range { .. } => "InvalidRequest",
        ResolveError::Walk(_) => "CatalogError",
        ResolveError::NoSingleBundle(error) if error.catalogs.is_empty() => "NoCandidate",
        ResolveError::NoSingleBundle(_) => "Ambiguous",
        ResolveError::Version { .. } | ResolveError::Validation { .. } => "ValidationFailed",
    }
}

/// Returns the note about content that changed under the same version.
pub(super) fn content_changed(installed: &str, offered: &str) -> Note {
    Note {
        reason: reasons::CONTENT_CHANGED,
        message: format!(
            "the catalog offers the installed version with other content: installed {installed}, \
             offered {offered}; to take it set annotation {}: {offered}",
            policy::ACCEPT_IMAGE
        ),
    }
}

/// Returns the reason of the Event about a step that no catalog edge allows.
pub(super) fn forced_step(from: &str, to: &str) -> &'static str {
    let parsed = (from.parse::<Version>(), to.parse::<Version>());
    match parsed {
        (Ok(from), Ok(to)) if to.precedence(&from).is_lt() => "ForcedRollback",
        _ => "ForcedUpgrade",
    }
}
