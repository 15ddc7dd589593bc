//! What is told about a resolution beside its result: the nearest usable answer, what is held and
//! why, which newer version there is.
//!
//! Source: decision 24, resolution.md 6.1.

use kube::runtime::events::EventType;
use olm_api::UpdateStatus;
use olm_api::conditions::reasons;
use olm_api::keys::policy;
use olm_core::resolve::report::{Headline, explain};
use olm_core::resolve::{Catalog, Environment, Options, Request, Resolution, Warning, pending};
use olm_core::status::Note;
use olm_core::status::extension::text;
use olm_core::version::{Version, VersionRelease};

use super::pass::{Offered, Pass};
use super::resolve::Question;
use super::target::Target;
use super::telling::Telling;

impl Pass {
    /// Adds what is worth knowing about a resolution beside its result: to `Ready`, and to what
    /// Events tell. `headline` is the one sentence about what failed or is held.
    pub(super) fn explain(&mut self, resolution: &Resolution<'_>, headline: Option<Headline>) {
        if let Some(note) = resolution.unavailable_note() {
            self.tell(EventType::Warning, "CatalogUnavailable", note);
        }
        let mut type_ = EventType::Warning;
        if let Ok(selected) = &resolution.result {
            type_ = EventType::Normal;
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
        if let Some(Headline { code, text }) = headline {
            self.tell(type_, code, text.clone());
            self.notes.push(Note {
                reason: code,
                message: text,
            });
        }
    }

    /// Adds the newer version that is offered and not taken.
    pub(super) fn offer(&mut self, offered: Option<UpdateStatus>) {
        if let Some(update) = &offered {
            let message = update.message.clone();
            if update.reason == reasons::PAUSED {
                self.notes.push(Note {
                    reason: reasons::PAUSED,
                    message: message.clone(),
                });
            }
            self.tell(EventType::Normal, "UpgradeAvailable", message);
        }
        self.update = offered.map_or(Offered::Nothing, Offered::Update);
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

/// Returns the one sentence about what failed or is held, if anything did or is.
pub(super) fn headline(
    request: &Request,
    catalogs: &[Catalog<'_>],
    environment: &Environment,
    options: Options,
    resolution: &Resolution<'_>,
) -> Option<Headline> {
    if resolution.result.is_ok() && resolution.held.is_empty() {
        return None;
    }
    explain(request, catalogs, environment, &options).headline()
}

/// Returns the newer version that is offered and not taken.
pub(super) fn offered(
    question: &Question<'_>,
    request: &Request,
    catalogs: &[Catalog<'_>],
    options: Options,
    resolution: &Resolution<'_>,
) -> Option<UpdateStatus> {
    let installed = version_of(question.installed.as_ref()?)?;
    let selected = resolution.result.as_ref().ok();
    let rolling = question.rolling.and_then(version_of);
    let taken = match (&rolling, selected) {
        (Some(rolling), _) => rolling,
        (None, Some(selected)) => &selected.version,
        (None, None) => &installed,
    };
    let update = pending(request, catalogs, &options, resolution, taken);
    let chosen = selected.filter(|it| it.version.precedence(&installed).is_gt());
    if let Some(chosen) = chosen.filter(|_| question.policy.paused) {
        let version = chosen.version.recorded();
        let newest = update.as_ref();
        let newest = newest.map(|update| update.newest.version.recorded());
        return Some(UpdateStatus {
            newest: newest.unwrap_or_else(|| version.clone()),
            catalog: chosen.catalog.to_owned(),
            reason: reasons::PAUSED.to_owned(),
            message: format!("{version} is available; {}", text::paused()),
            version: Some(version),
        });
    }
    update.as_ref().map(UpdateStatus::from)
}

fn version_of(target: &Target) -> Option<VersionRelease> {
    let version = match &target.release {
        Some(release) => VersionRelease::explicit(&target.version, release),
        None => VersionRelease::legacy(&target.version),
    };
    version.ok()
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
