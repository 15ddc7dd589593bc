//! What OLM Classic would do with the same channels.
//!
//! In: a package, a request and its resolution. Out: for each requested channel the step Classic
//! would take, and how it differs from the resolved step. Version ranges, priorities, deprecations
//! and releases do not exist in Classic; its dependency resolution is not modeled.
//!
//! Source: resolution.md 6.3; sortChannel and getSubscriptionInstallables of
//! operator-lifecycle-manager.

use olm_api::keys::property;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Installed, Request, Resolution};
use crate::catalog::{Entry, PackageIndex, replacement_chain};

/// What OLM Classic would do in one channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ClassicAccount")]
pub struct ClassicStep<'a> {
    /// Name of the channel.
    pub channel: String,
    /// Name of the bundle it would choose; null if none.
    pub next: Option<&'a str>,
    /// Why it cannot use the channel, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How that differs from the answer: `SameTarget`, `ClassicStays`, `DifferentTarget`,
    /// `ClassicError` or `V1Stays`.
    #[schemars(with = "String")]
    pub difference: Difference,
}

/// How the step of OLM Classic differs from the resolved one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
pub enum Difference {
    /// Both choose the same bundle, or both choose none.
    SameTarget,
    /// Only Classic chooses none.
    ClassicStays,
    /// Both choose a bundle, but not the same.
    DifferentTarget,
    /// Classic cannot use the channel.
    ClassicError,
    /// Only Classic chooses a bundle.
    V1Stays,
}

impl ClassicStep<'_> {
    /// Returns the step in a word: the name of a bundle, `stay`, or `error: ` with the cause.
    pub fn answer(&self) -> String {
        let error = self.error.as_ref().map(|error| format!("error: {error}"));
        error.unwrap_or_else(|| self.next.unwrap_or("stay").to_owned())
    }
}

impl Difference {
    /// Returns the stable code (resolution.md 6.3).
    pub fn code(self) -> &'static str {
        self.into()
    }

    fn between(classic: Option<&str>, resolved: Option<&str>) -> Self {
        match (classic, resolved) {
            _ if classic == resolved => Self::SameTarget,
            (None, _) => Self::ClassicStays,
            (Some(_), None) => Self::V1Stays,
            (Some(_), Some(_)) => Self::DifferentTarget,
        }
    }
}

/// Says what OLM Classic would do in each requested channel, or in the default channel if none is
/// requested; without a default channel the result is empty.
///
/// `package` is the package of the one catalog a subscription would name.
pub fn classic<'a>(
    package: &'a PackageIndex,
    request: &Request,
    resolution: &Resolution<'_>,
) -> Vec<ClassicStep<'a>> {
    let default = Some(&package.default_channel).filter(|name| !name.is_empty());
    let channels = &request.filter.channels;
    let channels: Vec<_> =
        if channels.is_empty() { default.into_iter().collect() } else { channels.iter().collect() };
    let resolved = resolved_step(request, resolution);
    let step = |name: &String| {
        let (next, error, difference) = match next_in(package, name, request.installed.as_ref()) {
            Ok(next) => (next, None, Difference::between(next, resolved)),
            Err(error) => (None, Some(error), Difference::ClassicError),
        };
        ClassicStep { channel: name.clone(), next, error, difference }
    };
    channels.into_iter().map(step).collect()
}

/// Returns the bundle Classic would choose in a channel; nothing if the installed version does not
/// parse.
fn next_in<'a>(
    package: &'a PackageIndex,
    channel: &str,
    installed: Option<&Installed>,
) -> Result<Option<&'a str>, String> {
    let channel = package.channels.get(channel).ok_or("unknown channel")?;
    let chain = replacement_chain(channel)?;
    let follows = |entry: &Entry| {
        installed.is_none_or(|installed| {
            let version = installed.parse();
            version.is_ok_and(|version| entry.leads_from(&installed.name, &version.version))
        })
    };
    let mut candidates = chain.into_iter().filter(|entry| follows(entry));
    let next = candidates.find(|entry| !refused(package, &entry.name));
    let next = next.map(|entry| entry.name.as_str());
    // A range may contain the version of its own entry.
    Ok(next.filter(|next| installed.is_none_or(|installed| installed.name != *next)))
}

/// Says whether Classic never installs a bundle, because of its own property, whatever the
/// package's deprecations say.
fn refused(package: &PackageIndex, bundle: &str) -> bool {
    let mut properties = package.bundle(bundle).into_iter().flat_map(|bundle| &bundle.properties);
    properties.any(|it| it.kind == property::DEPRECATED)
}

/// Returns the bundle that was resolved, unless it is the installed one.
///
/// As in resolution, a bundle of the installed version is the installed one whatever its name.
fn resolved_step<'r>(request: &Request, resolution: &'r Resolution<'_>) -> Option<&'r str> {
    let selected = resolution.result.as_ref().ok()?;
    let stays = request.installed.as_ref().is_some_and(|installed| {
        let version = installed.parse();
        installed.name == selected.bundle.name
            || version.is_ok_and(|version| version.precedence(&selected.version).is_eq())
    });
    (!stays).then_some(selected.bundle.name.as_str())
}
