//! The conditions about deprecation, from catalog data (api.md 4.5).

use olm_api::conditions::{Reason, types};

use super::Statement;

/// The `olm.deprecations` of a catalog about one package.
///
/// Entries keep the order of the catalog; an entry without a message counts as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deprecations {
    /// Message about the package.
    pub package: Option<String>,
    /// Names of channels and the messages about them.
    pub channels: Vec<(String, String)>,
    /// Names of bundles and the messages about them.
    pub bundles: Vec<(String, String)>,
}

impl Deprecations {
    fn package(&self) -> Vec<&str> {
        said(self.package.iter().map(String::as_str))
    }

    fn channels(&self, requested: &[String]) -> Vec<&str> {
        let wanted = |name: &String| requested.is_empty() || requested.contains(name);
        said(of(&self.channels, wanted))
    }

    fn bundle(&self, name: &str) -> Vec<&str> {
        said(of(&self.bundles, |bundle| bundle == name))
    }
}

fn of(
    entries: &[(String, String)],
    wanted: impl Fn(&String) -> bool,
) -> impl Iterator<Item = &str> {
    entries.iter().filter(move |(name, _)| wanted(name)).map(|(_, message)| message.as_str())
}

fn said<'a>(messages: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    messages.filter(|message| !message.is_empty()).collect()
}

const UNKNOWN: &str = "deprecation status unknown: catalog data unavailable";

/// Returns the four conditions about deprecation.
///
/// `data` is what the catalog of the chosen bundle says about the package; without it the
/// conditions are unknown. `channels` are those in the spec; empty means all. `installed` is the
/// name of the installed bundle: the bundle condition is about what runs, not about what was
/// chosen.
pub fn statements(
    data: Option<&Deprecations>,
    channels: &[String],
    installed: Option<&str>,
) -> [Statement; 4] {
    let Some(data) = data else {
        return unknown(installed);
    };
    let package = data.package();
    let channel = data.channels(channels);
    let bundle = installed.map(|name| data.bundle(name)).unwrap_or_default();
    let all = [&package[..], &channel, &bundle].concat();
    let bundle = match installed {
        Some(_) => one(types::BUNDLE_DEPRECATED, &bundle, "bundle not deprecated"),
        None => nothing_installed(),
    };
    [
        one(types::DEPRECATED, &all, "not deprecated"),
        one(types::PACKAGE_DEPRECATED, &package, "package not deprecated"),
        one(types::CHANNEL_DEPRECATED, &channel, "channel not deprecated"),
        bundle,
    ]
}

fn unknown(installed: Option<&str>) -> [Statement; 4] {
    let say = |type_| Statement::unknown(type_, Reason::DeprecationStatusUnknown, UNKNOWN);
    [
        say(types::DEPRECATED),
        say(types::PACKAGE_DEPRECATED),
        say(types::CHANNEL_DEPRECATED),
        installed.map_or_else(nothing_installed, |_| say(types::BUNDLE_DEPRECATED)),
    ]
}

fn nothing_installed() -> Statement {
    Statement::unknown(types::BUNDLE_DEPRECATED, Reason::Absent, "no bundle installed yet")
}

fn one(type_: &'static str, messages: &[&str], otherwise: &str) -> Statement {
    if messages.is_empty() {
        Statement::no(type_, Reason::NotDeprecated, otherwise)
    } else {
        Statement::yes(type_, Reason::Deprecated, messages.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn data() -> Deprecations {
        Deprecations {
            package: Some("package gone".to_owned()),
            channels: vec![
                ("beta".to_owned(), "beta gone".to_owned()),
                ("alpha".to_owned(), "alpha gone".to_owned()),
                ("quiet".to_owned(), String::new()),
            ],
            bundles: vec![("p.v1".to_owned(), "v1 gone".to_owned())],
        }
    }

    fn short(statements: &[Statement; 4]) -> [String; 4] {
        statements.clone().map(|one| format!("{}/{} {}", one.status, one.reason, one.message))
    }

    // api.md T17
    #[rstest]
    #[case::no_data_nothing_installed(None, &[], None, [
        "Unknown/DeprecationStatusUnknown deprecation status unknown: catalog data unavailable",
        "Unknown/DeprecationStatusUnknown deprecation status unknown: catalog data unavailable",
        "Unknown/DeprecationStatusUnknown deprecation status unknown: catalog data unavailable",
        "Unknown/Absent no bundle installed yet",
    ])]
    #[case::no_data_installed(None, &[], Some("p.v1"), [
        "Unknown/DeprecationStatusUnknown deprecation status unknown: catalog data unavailable",
        "Unknown/DeprecationStatusUnknown deprecation status unknown: catalog data unavailable",
        "Unknown/DeprecationStatusUnknown deprecation status unknown: catalog data unavailable",
        "Unknown/DeprecationStatusUnknown deprecation status unknown: catalog data unavailable",
    ])]
    #[case::nothing_deprecated_nothing_installed(Some(Deprecations::default()), &[], None, [
        "False/NotDeprecated not deprecated",
        "False/NotDeprecated package not deprecated",
        "False/NotDeprecated channel not deprecated",
        "Unknown/Absent no bundle installed yet",
    ])]
    #[case::nothing_deprecated_installed(Some(Deprecations::default()), &[], Some("p.v1"), [
        "False/NotDeprecated not deprecated",
        "False/NotDeprecated package not deprecated",
        "False/NotDeprecated channel not deprecated",
        "False/NotDeprecated bundle not deprecated",
    ])]
    #[case::all_three(Some(data()), &[], Some("p.v1"), [
        "True/Deprecated package gone\nbeta gone\nalpha gone\nv1 gone",
        "True/Deprecated package gone",
        "True/Deprecated beta gone\nalpha gone",
        "True/Deprecated v1 gone",
    ])]
    #[case::requested_channel_matches(
        Some(Deprecations { package: None, ..data() }), &["alpha"], Some("p.v2"), [
        "True/Deprecated alpha gone",
        "False/NotDeprecated package not deprecated",
        "True/Deprecated alpha gone",
        "False/NotDeprecated bundle not deprecated",
    ])]
    #[case::requested_channel_does_not_match(
        Some(Deprecations { package: None, ..data() }), &["stable", "quiet"], None, [
        "False/NotDeprecated not deprecated",
        "False/NotDeprecated package not deprecated",
        "False/NotDeprecated channel not deprecated",
        "Unknown/Absent no bundle installed yet",
    ])]
    fn deprecation_family(
        #[case] data: Option<Deprecations>,
        #[case] channels: &[&str],
        #[case] installed: Option<&str>,
        #[case] want: [&str; 4],
    ) {
        let channels: Vec<_> = channels.iter().map(|&name| name.to_owned()).collect();
        let got = statements(data.as_ref(), &channels, installed);
        assert_eq!(short(&got), want);
        assert_eq!(
            got.map(|one| one.type_),
            [
                types::DEPRECATED,
                types::PACKAGE_DEPRECATED,
                types::CHANNEL_DEPRECATED,
                types::BUNDLE_DEPRECATED
            ]
        );
    }
}
