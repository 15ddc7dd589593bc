//! The findings in words, and as a document.

use olm_core::extension::Lift;
use olm_core::gate::MaxVersion;

use super::apis::RemovedApi;
use super::{Extension, Findings};
use crate::commands::prelude::*;

/// Writes the verdict and what is in the way; what else there is to know goes to standard error.
pub(super) fn text(found: &Findings, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "{}", headline(found))?;
    if found.blocking().next().is_some() {
        table(found).write(out)?;
    }
    for removed in &found.removed {
        writeln!(out, "{}", sentence(removed))?;
    }
    if let Some((after, blocking)) = found.afterwards().filter(|(_, all)| !all.is_empty()) {
        let names: Vec<_> = blocking
            .iter()
            .map(|one| format!("{} ({})", one.name, limit_afterwards(one)))
            .collect();
        notice(&format!("note: {after} after it: blocked by {}", names.join(", ")));
    }
    for unknown in &found.unknown {
        notice(&format!("note: not known: {}: {}", unknown.what, unknown.why));
        if let Some(hint) = &unknown.hint {
            notice(&format!("hint: {hint}"));
        }
    }
    Ok(())
}

fn headline(found: &Findings) -> String {
    let Some((version, target)) = &found.platform else {
        let why = if found.is_release_unknown {
            "which OpenShift release runs is not known"
        } else {
            "this is not OpenShift, and the controller has no --platform-version: nothing declares \
             a limit"
        };
        return format!("Kubernetes 1.{} -> 1.{}: {why}", found.current, found.kubernetes);
    };
    let blocking = found.blocking().count();
    let all = counted(found.extensions.len(), "extension");
    let verb = if blocking == 1 { "blocks" } else { "block" };
    match blocking {
        0 => format!("cluster {version} -> {target}: none of {all} blocks it"),
        _ => format!("cluster {version} -> {target}: {blocking} of {all} {verb} it"),
    }
}

fn table(found: &Findings) -> Table {
    let mut table = Table::new(&["NAME", "VERSION", "SUPPORTS", "LIFTED BY", "HOW"]);
    for one in found.blocking() {
        let (by, how) = lifted(one);
        table.row(vec![one.name.clone(), one.version.clone(), limit(one), by, how]);
    }
    table
}

/// Returns the change that releases a hold, and the command for it.
fn lifted(one: &Extension) -> (String, String) {
    let Some(lift) = &one.lift else { return ("not known".to_owned(), "-".to_owned()) };
    let command = lift.command(&one.name);
    match lift {
        Lift::Version { version, supports, .. } => (
            format!("{version} ({supports})"),
            command.unwrap_or_else(|| "applied automatically".to_owned()),
        ),
        Lift::Removal => ("none".to_owned(), format!("remove it: {}", command.unwrap_or_default())),
        Lift::Unknown(why) => (format!("not known, {why}"), command.unwrap_or_default()),
    }
}

/// Returns the newest platform version that an extension supports.
fn limit(one: &Extension) -> String {
    match &one.supports {
        Ok(supports) => supports.to_string(),
        Err(error) => format!("not known: {error}"),
    }
}

/// Returns the newest platform version that an extension supports once its hold is released.
fn limit_afterwards(one: &Extension) -> String {
    match &one.lift {
        Some(Lift::Version { version, supports, .. }) => format!("{version} {supports}"),
        _ => limit(one),
    }
}

fn sentence(removed: &RemovedApi) -> String {
    let RemovedApi { extension, manager, api_version, kind, objects, removed_in } = removed;
    let by = match extension {
        Some(name) => format!("extension {name}"),
        None => format!("{}, on the cluster,", manager.as_deref().unwrap_or_default()),
    };
    let objects = counted(*objects, "object");
    format!(
        "{by} applies {kind} of {api_version} ({objects}), which Kubernetes {removed_in} does \
         not serve"
    )
}

/// Whether a cluster may be updated, and how to remove blockers: `kubectl olm cluster check`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Verdict {
    /// The version of the cluster; null where no OpenShift release is known.
    cluster: Option<String>,
    /// The OpenShift release that is gone to.
    target: Option<String>,
    /// The Kubernetes that is gone to.
    kubernetes: String,
    /// Whether nothing that could be read blocks the update.
    upgradeable: bool,
    /// The extensions, by name.
    extensions: Vec<Judged>,
    /// The release after the one that is gone to.
    after: Option<After>,
    /// Objects in API versions that the next Kubernetes no longer serves.
    removed_apis: Vec<RemovedApi>,
    /// Data that could not be read.
    unknown: Vec<Unknown>,
}

/// An extension.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Judged {
    /// Its name.
    name: String,
    /// Its installed version.
    version: String,
    /// The bundle that allows the least.
    bundle: String,
    /// Newest OpenShift release; null where none is declared or it cannot be read.
    supports: Option<String>,
    /// Why it cannot be read.
    error: Option<String>,
    /// Whether it blocks the update.
    in_the_way: bool,
    /// The change that releases the block.
    lift: Option<Lifted>,
}

/// A change that releases a hold.
#[derive(Debug, Serialize, JsonSchema)]
struct Lifted {
    /// Nearest version that does; null if none does or it is not known.
    version: Option<String>,
    /// Newest OpenShift release that this version supports.
    supports: Option<String>,
    /// The command to run; null if the change is applied automatically.
    command: Option<String>,
    /// The same in words.
    text: String,
}

/// A release, and what is in its way.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct After {
    /// The release.
    target: String,
    /// Names of the extensions that are in its way even when what is now was lifted.
    in_the_way: Vec<String>,
}

/// Returns the answer for programs.
pub(super) fn document(found: &Findings) -> Verdict {
    let platform = found.platform.as_ref();
    Verdict {
        cluster: platform.map(|(version, _)| version.clone()),
        target: platform.map(|(_, target)| target.to_string()),
        kubernetes: format!("1.{}", found.kubernetes),
        upgradeable: found.blocking().next().is_none() && found.removed.is_empty(),
        extensions: found.extensions.iter().map(|it| judged(it, found)).collect(),
        after: found.afterwards().map(|(after, blocking)| After {
            target: after.to_string(),
            in_the_way: blocking.iter().map(|one| one.name.clone()).collect(),
        }),
        removed_apis: found.removed.clone(),
        unknown: found.unknown.clone(),
    }
}

fn judged(one: &Extension, found: &Findings) -> Judged {
    let target = found.platform.as_ref().map(|(_, target)| *target);
    let supports = |supports: &MaxVersion| match supports {
        MaxVersion::NotDeclared => None,
        MaxVersion::Supports(max) => Some(max.to_string()),
    };
    let lift = one.lift.as_ref().map(|lift| {
        let (version, by) = match lift {
            Lift::Version { version, supports: by, .. } => (Some(version.clone()), supports(by)),
            Lift::Removal | Lift::Unknown(_) => (None, None),
        };
        Lifted {
            version,
            supports: by,
            command: lift.command(&one.name),
            text: lift.text(&one.name),
        }
    });
    Judged {
        name: one.name.clone(),
        version: one.version.clone(),
        bundle: one.bundle.clone(),
        supports: one.supports.as_ref().ok().and_then(supports),
        error: one.supports.as_ref().err().cloned(),
        in_the_way: target.is_some_and(|target| !one.allows(target)),
        lift,
    }
}

#[cfg(test)]
mod tests {
    use olm_core::extension::LiftStep;
    use olm_core::gate::MinorRelease;

    use super::*;

    fn one(name: &str, supports: Result<&str, &str>, lift: Option<Lift>) -> Extension {
        let release = |text: &str| MaxVersion::Supports(text.parse().unwrap());
        Extension {
            name: name.to_owned(),
            version: "3.16.5".to_owned(),
            bundle: format!("{name}.v3.16.5"),
            supports: supports.map(release).map_err(str::to_owned),
            lift,
        }
    }

    fn found() -> Findings {
        let lift = Lift::Version {
            version: "3.17.4".to_owned(),
            supports: MaxVersion::Supports(MinorRelease::new(4, 19)),
            step: LiftStep::Itself,
        };
        Findings {
            is_release_unknown: false,
            platform: Some(("4.18.7".to_owned(), MinorRelease::new(4, 19))),
            current: 31,
            kubernetes: 32,
            extensions: vec![
                one("argo", Ok("4.20"), None),
                one("clair", Ok("4.18"), Some(Lift::Removal)),
                one(
                    "lost",
                    Ok("4.17"),
                    Some(Lift::Unknown("catalog redhat cannot be read".to_owned())),
                ),
                one("odd", Err("invalid type bool"), None),
                one("quay", Ok("4.18"), Some(lift)),
            ],
            removed: vec![RemovedApi {
                extension: Some("argo".to_owned()),
                manager: None,
                api_version: "flowcontrol.apiserver.k8s.io/v1beta3".to_owned(),
                kind: "FlowSchema".to_owned(),
                objects: 2,
                removed_in: "1.32".to_owned(),
            }],
            unknown: vec![Unknown {
                what: "objects of revision odd-1".to_owned(),
                why: "forbidden".to_owned(),
                hint: Some("kubectl auth can-i get secrets".to_owned()),
            }],
        }
    }

    // plugin.md U57, U58
    #[test]
    fn what_is_in_the_way_is_said_with_what_lifts_it() {
        let mut out = Vec::new();
        text(&found(), &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    // plugin.md U57
    #[test]
    fn the_release_after_next_counts_what_lifts_the_first_hold() {
        let found = found();
        let (after, blocking) = found.afterwards().unwrap();
        let names: Vec<_> = blocking.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((after.to_string().as_str(), names), ("4.20", vec!["odd", "quay"]));
    }

    // plugin.md U57
    #[test]
    fn on_plain_kubernetes_nothing_declares_a_limit() {
        let found =
            Findings { platform: None, removed: Vec::new(), unknown: Vec::new(), ..found() };
        let said = headline(&found);
        assert!(said.starts_with("Kubernetes 1.31 -> 1.32: "), "{said}");
        assert!(said.contains("nothing declares a limit"));
        assert_eq!(found.outcome(), crate::output::Outcome::Done);
    }

    // plugin.md U10
    #[test]
    fn the_document_follows_its_schema() {
        let (_, schema) = crate::document::schema::<Verdict>();
        let schema = serde_json::from_str(&schema).unwrap();
        let schema = jsonschema::validator_for(&schema).unwrap();
        for found in [found(), Findings::default()] {
            let document = serde_json::to_value(document(&found).headed().unwrap()).unwrap();
            assert!(schema.is_valid(&document), "{document:#}");
        }
    }
}
