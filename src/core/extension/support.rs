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
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn phase() -> Value {
        json!([{"name": "Full", "startDate": "2026-01-01", "endDate": "2026-06-30"}])
    }

    // api.md 4.5
    #[rstest]
    #[case::supported(phase(), "2026-06-30", Some("4.18"), Some((
        "True", Reason::Supported, "1.0: Full until 2026-06-30; openshift 4.18"
    )))]
    #[case::no_openshift(phase(), "2026-06-30", None, Some((
        "True", Reason::Supported, "1.0: Full until 2026-06-30; openshift 4.18"
    )))]
    #[case::over(phase(), "2026-07-01", Some("4.19"), Some((
        "False", Reason::SupportEnded, "1.0: support ended on 2026-06-30; openshift 4.18"
    )))]
    #[case::platform(phase(), "2026-01-01", Some("4.19"), Some((
        "False", Reason::PlatformUnsupported,
        "1.0: Full until 2026-06-30; openshift 4.18; this cluster is openshift 4.19"
    )))]
    #[case::platform_alone(json!([]), "2026-01-01", Some("4.19"), Some((
        "False", Reason::PlatformUnsupported,
        "1.0: support not known; openshift 4.18; this cluster is openshift 4.19"
    )))]
    #[case::not_known(json!([]), "2026-01-01", Some("4.18"), None)]
    fn support_ends_and_depends_on_the_platform(
        #[case] phases: Value,
        #[case] today: &str,
        #[case] platform: Option<&str>,
        #[case] want: Option<(&str, Reason, &str)>,
    ) {
        let lifecycle: Lifecycle = serde_json::from_value(json!({"name": "1.0", "phases": phases,
            "platformCompatibility": [{"name": "openshift", "versions": ["4.18"]}]}))
        .unwrap();
        let platform = platform.map(|text| text.parse().unwrap());
        let found = supported(&lifecycle, today.parse().unwrap(), platform);
        let found = found.as_ref().map(|it| (it.status, it.reason, it.message.as_str()));
        assert_eq!(found, want);
    }
}
