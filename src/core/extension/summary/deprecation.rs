//! The conditions about deprecation, from catalog data (api.md 4.5).

use olm_api::conditions::{Reason, types};

use crate::catalog::{Deprecations, schema};
use crate::status::Statement;

const UNKNOWN: &str = "deprecation status unknown: catalog data unavailable";

/// Returns the four conditions about deprecation.
///
/// `data` is what the catalog of the chosen bundle says about the package; without it the
/// conditions are unknown. `channels` are those in the spec; empty means all. `installed` is the
/// name of the installed bundle: the bundle condition is about what runs, not about what was
/// chosen. An entry without a message counts as absent.
pub(super) fn statements(
    data: Option<&Deprecations>,
    channels: &[String],
    installed: Option<&str>,
) -> [Statement; 4] {
    let Some(data) = data else { return unknown(installed) };
    let said = |schema: &str, wanted: &dyn Fn(&String) -> bool| -> Vec<&str> {
        let entries = data.entries.iter().filter(|it| it.schema == schema && wanted(&it.name));
        entries.map(|it| it.message.as_str()).filter(|message| !message.is_empty()).collect()
    };
    let package = said(schema::PACKAGE, &|_| true);
    let channel = said(schema::CHANNEL, &|name| channels.is_empty() || channels.contains(name));
    let bundle = said(schema::BUNDLE, &|name| installed == Some(name));
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
    use crate::catalog::Deprecation;

    fn data() -> Deprecations {
        let mut data = Deprecations::default();
        data.entries = [
            (schema::PACKAGE, "", "package gone"),
            (schema::PACKAGE, "", ""),
            (schema::PACKAGE, "", "leave it"),
            (schema::CHANNEL, "beta", "beta gone"),
            (schema::CHANNEL, "alpha", "alpha gone"),
            (schema::CHANNEL, "quiet", ""),
            (schema::BUNDLE, "p.v1", "v1 gone"),
        ]
        .map(|(schema, name, message)| Deprecation {
            schema: schema.to_owned(),
            name: name.to_owned(),
            message: message.to_owned(),
        })
        .into();
        data
    }

    fn without_package() -> Deprecations {
        let mut data = data();
        data.entries.retain(|entry| entry.schema != schema::PACKAGE);
        data
    }

    fn short(statements: &[Statement; 4]) -> [String; 4] {
        statements.clone().map(|one| format!("{}/{} {}", one.status, one.reason, one.message))
    }

    const NO_DATA: &str =
        "Unknown/DeprecationStatusUnknown deprecation status unknown: catalog data unavailable";
    const ABSENT: &str = "Unknown/Absent no bundle installed yet";
    const SOUND: &str = "False/NotDeprecated not deprecated";
    const PACKAGE: &str = "False/NotDeprecated package not deprecated";
    const CHANNEL: &str = "False/NotDeprecated channel not deprecated";
    const BUNDLE: &str = "False/NotDeprecated bundle not deprecated";

    // api.md T17
    #[rstest]
    #[case::no_data_nothing_installed(None, &[], None, [NO_DATA, NO_DATA, NO_DATA, ABSENT])]
    #[case::no_data_installed(None, &[], Some("p.v1"), [NO_DATA; 4])]
    #[case::nothing_deprecated_nothing_installed(
        Some(Deprecations::default()), &[], None, [SOUND, PACKAGE, CHANNEL, ABSENT])]
    #[case::nothing_deprecated_installed(
        Some(Deprecations::default()), &[], Some("p.v1"), [SOUND, PACKAGE, CHANNEL, BUNDLE])]
    #[case::all_three(Some(data()), &[], Some("p.v1"), [
        "True/Deprecated package gone\nleave it\nbeta gone\nalpha gone\nv1 gone",
        "True/Deprecated package gone\nleave it",
        "True/Deprecated beta gone\nalpha gone",
        "True/Deprecated v1 gone",
    ])]
    #[case::requested_channel_matches(
        Some(without_package()), &["alpha"], Some("p.v2"),
        ["True/Deprecated alpha gone", PACKAGE, "True/Deprecated alpha gone", BUNDLE])]
    #[case::requested_channel_does_not_match(
        Some(without_package()), &["stable", "quiet"], None,
        [SOUND, PACKAGE, CHANNEL, ABSENT])]
    fn deprecation_family(
        #[case] data: Option<Deprecations>,
        #[case] channels: &[&str],
        #[case] installed: Option<&str>,
        #[case] want: [&str; 4],
    ) {
        let channels: Vec<_> = channels.iter().map(|&name| name.to_owned()).collect();
        let got = statements(data.as_ref(), &channels, installed);
        assert_eq!(short(&got), want);
        let parts =
            [types::PACKAGE_DEPRECATED, types::CHANNEL_DEPRECATED, types::BUNDLE_DEPRECATED];
        let [all, rest @ ..] = got.map(|one| one.type_);
        assert_eq!((all, rest), (types::DEPRECATED, parts));
    }
}
