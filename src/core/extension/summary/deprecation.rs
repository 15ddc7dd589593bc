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
    use super::*;
    use crate::catalog::Deprecation;
    use crate::fixture::cases;

    const CASES: &str = include_str!("../../testdata/extension/cases.yaml");

    /// Deprecations of everything, of all but the package, or of nothing.
    fn data_of(which: &str) -> Deprecations {
        let mut data = Deprecations::default();
        let all = [
            (schema::PACKAGE, "", "package gone"),
            (schema::PACKAGE, "", ""),
            (schema::PACKAGE, "", "leave it"),
            (schema::CHANNEL, "beta", "beta gone"),
            (schema::CHANNEL, "alpha", "alpha gone"),
            (schema::CHANNEL, "quiet", ""),
            (schema::BUNDLE, "p.v1", "v1 gone"),
        ];
        let from = match which {
            "all" => 0,
            "all but the package" => 3,
            _ => all.len(),
        };
        let entry = |(schema, name, message): &(&str, &str, &str)| Deprecation {
            schema: (*schema).to_owned(),
            name: (*name).to_owned(),
            message: (*message).to_owned(),
        };
        data.entries = all[from..].iter().map(entry).collect();
        data
    }

    // api.md T17
    #[test]
    fn deprecation_family() {
        for (data, channels, installed, want) in
            cases::<(Option<&str>, Vec<String>, Option<&str>, [&str; 4])>(
                CASES,
                "deprecation_family",
            )
        {
            let got = statements(data.map(data_of).as_ref(), &channels, installed);
            let short =
                got.clone().map(|one| format!("{}/{} {}", one.status, one.reason, one.message));
            assert_eq!(short, want);
            let parts =
                [types::PACKAGE_DEPRECATED, types::CHANNEL_DEPRECATED, types::BUNDLE_DEPRECATED];
            let [all, rest @ ..] = got.map(|one| one.type_);
            assert_eq!((all, rest), (types::DEPRECATED, parts));
        }
    }
}
