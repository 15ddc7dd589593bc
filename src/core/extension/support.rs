//! Whether a version is supported, as its catalog tells.
//!
//! Source: api.md 4.5.

use jiff::civil::Date;
use olm_api::conditions::{Reason, types};

use crate::catalog::Lifecycle;
use crate::gate::MinorRelease;
use crate::status::Statement;

/// Returns condition `Supported`; nothing where neither days nor platforms are known.
pub fn supported(
    lifecycle: &Lifecycle,
    today: Date,
    platform: Option<MinorRelease>,
) -> Option<Statement> {
    let text = lifecycle.text(today);
    let end = lifecycle.end();
    if end.is_some_and(|end| end < today) {
        return Some(Statement::no(types::SUPPORTED, Reason::SupportEnded, text));
    }
    if let Some(release) = platform.filter(|release| lifecycle.excludes(*release)) {
        let text = format!("{text}; this cluster is openshift {release}");
        return Some(Statement::no(types::SUPPORTED, Reason::PlatformUnsupported, text));
    }
    end.map(|_| Statement::yes(types::SUPPORTED, Reason::Supported, text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::cases;

    const CASES: &str = include_str!("../testdata/extension/cases.yaml");

    // api.md 4.5
    #[test]
    fn support_ends_and_depends_on_the_platform() {
        for (is_known, today, platform, want) in
            cases::<(bool, &str, Option<&str>, Option<(&str, &str, &str)>)>(
                CASES,
                "support_ends_and_depends_on_the_platform",
            )
        {
            let phase = json!({"name": "Full", "startDate": "2026-01-01", "endDate": "2026-06-30"});
            let phases = Vec::from_iter(is_known.then_some(phase));
            let lifecycle: Lifecycle =
                serde_json::from_value(json!({"name": "1.0", "phases": phases,
                "platformCompatibility": [{"name": "openshift", "versions": ["4.18"]}]}))
                .unwrap();
            let platform = platform.map(|text| text.parse().unwrap());
            let found = supported(&lifecycle, today.parse().unwrap(), platform);
            let found = found.as_ref();
            let found = found.map(|it| (it.status, it.reason.as_str(), it.message.as_str()));
            assert_eq!(found, want);
        }
    }
}
