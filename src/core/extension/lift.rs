//! What lifts the hold that an extension puts on updates of the platform.
//!
//! Source: applying.md 9.7, plugin.md 1.4.

use std::fmt::Write as _;

use olm_api::ClusterObjectSet;

use crate::error::shell_word;
use crate::explain::SpecChange;
use crate::gate::{Bundle, MaxVersion};
use crate::revision::states;

/// What lifts the block of platform updates by an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lift {
    /// The nearest version that supports the release.
    /// `supports` is the newest release of OpenShift that it supports, `step` how it is reached.
    Version { version: String, supports: MaxVersion, step: LiftStep },
    /// No version of the catalogs: the extension has to go.
    Removal,
    /// Not known; holds why.
    Unknown(String),
}

/// How a version is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiftStep {
    /// Nothing has to be done.
    Itself,
    /// The end of the pause.
    Resume,
    /// A change of the request.
    Change(SpecChange),
}

impl Lift {
    /// Returns what is to be typed for the extension of this name, if anything.
    pub fn command(&self, name: &str) -> Option<String> {
        match self {
            Self::Version { step, .. } => match step {
                LiftStep::Itself => None,
                LiftStep::Resume => Some(format!("kubectl olm resume {name}")),
                LiftStep::Change(change) => Some(upgrade(name, change)),
            },
            Self::Removal => Some(format!("kubectl olm delete {name}")),
            Self::Unknown(_) => Some(format!("kubectl olm why {name}")),
        }
    }

    /// Describes it, for the extension with this name.
    pub fn text(&self, name: &str) -> String {
        let mut text = match self {
            // What its bundle declares besides is known once it is pulled.
            Self::Version { version, supports: MaxVersion::NotDeclared, .. } => {
                format!("{version} (its catalog declares no limit) lifts it")
            }
            Self::Version { version, supports, .. } => format!("{version} ({supports}) lifts it"),
            Self::Removal => "no version in the catalogs lifts it".to_owned(),
            Self::Unknown(why) => format!("the version that lifts it is not known, because {why}"),
        };
        // Writing to a String cannot fail.
        let _ = match self.command(name) {
            Some(command) => write!(text, ": {command}"),
            None => write!(text, " and is applied automatically"),
        };
        text
    }
}

fn upgrade(name: &str, change: &SpecChange) -> String {
    let version = shell_word(&change.version);
    let mut command = format!("kubectl olm upgrade {name} --to {version}");
    for channel in change.channels.iter().flatten() {
        // Writing to a String cannot fail.
        let _ = write!(command, " --channel {}", shell_word(channel));
    }
    if change.forced {
        command.push_str(" --force");
    }
    command
}

/// Returns the bundles of one extension that count for the gate: the installed one and the newest
/// that is rolled out (applying.md 9.3). `revisions` are sorted.
pub fn counting<'a>(
    extension: &'a str,
    revisions: impl IntoIterator<Item = &'a ClusterObjectSet>,
) -> impl Iterator<Item = Bundle<'a>> {
    let states = states(revisions);
    let newest = states.rolling.last().copied();
    let counting = states.installed.into_iter().chain(newest);
    counting.map(move |revision| Bundle::recorded(extension, &revision.metadata))
}
