//! The path of automatic updates from the installed bundle, one resolution per step.

use olm_core::resolve::{Installed, Request, Resolution};
use olm_core::version::VersionRelease;

/// The most steps that are followed.
const MAX_STEPS: usize = 100;

/// One bundle on the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) name: String,
    /// Its version, unless it is an installed one that does not parse.
    pub(super) version: Option<VersionRelease>,
}

/// Returns the installed bundle, if any, and every bundle that automatic updates then go through.
pub(super) fn path<'a>(
    request: &Request,
    first: &Resolution<'_>,
    resolve: impl Fn(&Request) -> Resolution<'a>,
) -> Vec<Step> {
    let installed = request
        .installed
        .iter()
        .map(|installed| Step { name: installed.name.clone(), version: installed.parse().ok() });
    let mut steps: Vec<Step> = installed.collect();
    let mut request = request.clone();
    let mut next = chosen(first);
    while let Some(step) = next {
        if steps.len() > MAX_STEPS || !is_new(&steps, &step) {
            break;
        }
        request.installed = step.version.as_ref().map(|version| Installed {
            name: step.name.clone(),
            version: version.version.to_string(),
            // An empty release ranks like an absent one.
            release: Some(version.release.clone().unwrap_or_default().to_string()),
        });
        steps.push(step);
        next = chosen(&resolve(&request));
    }
    steps
}

fn chosen(resolution: &Resolution<'_>) -> Option<Step> {
    let selected = resolution.result.as_ref().ok()?;
    Some(Step { name: selected.bundle.name.clone(), version: Some(selected.version.clone()) })
}

/// Returns whether a bundle differs from all those before, by name and by version.
fn is_new(steps: &[Step], step: &Step) -> bool {
    let same = |earlier: &Step| {
        let versions = earlier.version.as_ref().zip(step.version.as_ref());
        earlier.name == step.name
            || versions.is_some_and(|(earlier, step)| earlier.precedence(step).is_eq())
    };
    !steps.iter().any(same)
}
