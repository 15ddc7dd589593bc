//! The verdict as a document, and in words.

use olm_core::extension::Lift;
use olm_core::gate::{MaxVersion, MinorRelease};

use super::apis::RemovedApi;
use crate::commands::prelude::*;

/// Whether a cluster may be updated, and how to remove blockers: `kubectl olm cluster check`.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Verdict {
    /// The version of the cluster; null where no OpenShift release is known.
    pub(super) cluster: Option<String>,
    /// The OpenShift release that is gone to.
    pub(super) target: Option<String>,
    /// The Kubernetes that is gone to.
    pub(super) kubernetes: String,
    /// The Kubernetes that runs.
    #[serde(skip)]
    pub(super) current: String,
    /// Whether the OpenShift release that runs could not be read.
    #[serde(skip)]
    pub(super) is_release_unknown: bool,
    /// Whether nothing that could be read blocks the update.
    pub(super) upgradeable: bool,
    /// The extensions, by name.
    pub(super) extensions: Vec<Judged>,
    /// The release after the one that is gone to.
    pub(super) after: Option<After>,
    /// Objects in API versions that the next Kubernetes no longer serves.
    pub(super) removed_apis: Vec<RemovedApi>,
    /// Data that could not be read.
    pub(super) unknown: Vec<Unknown>,
}

/// An extension.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Judged {
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
    pub(super) in_the_way: bool,
    /// The change that releases the block.
    lift: Option<Lifted>,
    /// What its bundles support, or why that is not known.
    #[serde(skip)]
    max: Result<MaxVersion, String>,
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
    #[serde(skip)]
    lift: Lift,
}

/// A release, and what is in its way.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct After {
    /// The release.
    target: String,
    /// Names of the extensions that are in its way even when what is now was lifted.
    in_the_way: Vec<String>,
}

/// Says whether what bundles support includes a release.
pub(super) fn allows(supports: &Result<MaxVersion, String>, release: MinorRelease) -> bool {
    supports.as_ref().is_ok_and(|supports| supports.supports(release))
}

fn newest(supports: MaxVersion) -> Option<String> {
    match supports {
        MaxVersion::NotDeclared => None,
        MaxVersion::Supports(max) => Some(max.to_string()),
    }
}

impl Verdict {
    fn blocking(&self) -> impl Iterator<Item = &Judged> {
        self.extensions.iter().filter(|one| one.in_the_way)
    }

    /// Adds an extension: name, version and bundle, what that supports, the release that is gone to,
    /// and the change that releases its block.
    pub(super) fn add(
        &mut self,
        (name, version, bundle): (&str, &str, &str),
        max: Result<MaxVersion, String>,
        (target, lift): (Option<MinorRelease>, Option<Lift>),
    ) {
        if let (Some(target), Some(after)) = (target, &mut self.after) {
            let allowed = match &lift {
                Some(Lift::Version { supports, .. }) => supports.supports(target.next()),
                Some(Lift::Removal | Lift::Unknown(_)) => true,
                None => allows(&max, target.next()),
            };
            after.in_the_way.extend((!allowed).then(|| name.to_owned()));
        }
        self.extensions.push(Judged {
            name: name.to_owned(),
            version: version.to_owned(),
            bundle: bundle.to_owned(),
            supports: max.as_ref().ok().copied().and_then(newest),
            error: max.as_ref().err().cloned(),
            in_the_way: target.is_some_and(|target| !allows(&max, target)),
            lift: lift.map(|lift| Lifted::of(name, lift)),
            max,
        });
    }
}

impl After {
    /// Returns the release after the one that is gone to, with nothing in its way.
    pub(super) fn of(target: MinorRelease) -> Self {
        Self { target: target.next().to_string(), in_the_way: Vec::new() }
    }
}

impl Lifted {
    fn of(name: &str, lift: Lift) -> Self {
        let (version, supports) = match &lift {
            Lift::Version { version, supports, .. } => (Some(version.clone()), newest(*supports)),
            Lift::Removal | Lift::Unknown(_) => (None, None),
        };
        Self { version, supports, command: lift.command(name), text: lift.text(name), lift }
    }
}

/// Writes the verdict and what is in the way; what else there is to know goes to standard error.
pub(super) fn text(found: &Verdict, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "{}", headline(found))?;
    let mut table = Table::new(&["NAME", "VERSION", "SUPPORTS", "LIFTED BY", "HOW"]);
    for one in found.blocking() {
        let (by, how) = lifted(one);
        table.row(vec![one.name.clone(), one.version.clone(), limit(one), by, how]);
    }
    if found.blocking().next().is_some() {
        table.write(out)?;
    }
    for removed in &found.removed_apis {
        writeln!(out, "{}", sentence(removed))?;
    }
    if let Some(after) = found.after.as_ref().filter(|after| !after.in_the_way.is_empty()) {
        let blocking = found.extensions.iter().filter(|it| after.in_the_way.contains(&it.name));
        let names = blocking.map(|one| format!("{} ({})", one.name, limit_afterwards(one)));
        let names = names.collect::<Vec<_>>().join(", ");
        notice(&format!("note: {} after it: blocked by {names}", after.target));
    }
    for unknown in &found.unknown {
        notice(&format!("note: not known: {}: {}", unknown.what, unknown.why));
        if let Some(hint) = &unknown.hint {
            notice(&format!("hint: {hint}"));
        }
    }
    Ok(())
}

fn headline(found: &Verdict) -> String {
    let (Some(version), Some(target)) = (&found.cluster, &found.target) else {
        let why = if found.is_release_unknown {
            "which OpenShift release runs is not known"
        } else {
            "this is not OpenShift, and the controller has no --platform-version: nothing declares \
             a limit"
        };
        return format!("Kubernetes {} -> {}: {why}", found.current, found.kubernetes);
    };
    let blocking = found.blocking().count();
    let all = counted(found.extensions.len(), "extension");
    let verb = if blocking == 1 { "blocks" } else { "block" };
    match blocking {
        0 => format!("cluster {version} -> {target}: none of {all} blocks it"),
        _ => format!("cluster {version} -> {target}: {blocking} of {all} {verb} it"),
    }
}

/// Returns the change that releases a hold, and the command for it.
fn lifted(one: &Judged) -> (String, String) {
    let Some(lift) = &one.lift else { return ("not known".to_owned(), "-".to_owned()) };
    let command = lift.command.clone();
    match &lift.lift {
        Lift::Version { version, supports, .. } => (
            format!("{version} ({supports})"),
            command.unwrap_or_else(|| "applied automatically".to_owned()),
        ),
        Lift::Removal => ("none".to_owned(), format!("remove it: {}", command.unwrap_or_default())),
        Lift::Unknown(why) => (format!("not known, {why}"), command.unwrap_or_default()),
    }
}

/// Returns the newest platform version that an extension supports.
fn limit(one: &Judged) -> String {
    match &one.max {
        Ok(max) => max.to_string(),
        Err(error) => format!("not known: {error}"),
    }
}

/// Returns the newest platform version that an extension supports once its hold is released.
fn limit_afterwards(one: &Judged) -> String {
    match one.lift.as_ref().map(|lift| &lift.lift) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use olm_core::extension::LiftStep;

    fn found() -> Verdict {
        let release = |text: &str| MaxVersion::Supports(text.parse().unwrap());
        let lift = Lift::Version {
            version: "3.17.4".to_owned(),
            supports: release("4.19"),
            step: LiftStep::Itself,
        };
        let target = MinorRelease::new(4, 19);
        let mut found = Verdict {
            cluster: Some("4.18.7".to_owned()),
            target: Some(target.to_string()),
            current: "1.31".to_owned(),
            kubernetes: "1.32".to_owned(),
            after: Some(After::of(target)),
            removed_apis: vec![RemovedApi {
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
            ..Verdict::default()
        };
        let lost = Lift::Unknown("catalog redhat cannot be read".to_owned());
        for (name, max, lift) in [
            ("argo", Ok(release("4.20")), None),
            ("clair", Ok(release("4.18")), Some(Lift::Removal)),
            ("lost", Ok(release("4.17")), Some(lost)),
            ("odd", Err("invalid type bool".to_owned()), None),
            ("quay", Ok(release("4.18")), Some(lift)),
        ] {
            let bundle = format!("{name}.v3.16.5");
            found.add((name, "3.16.5", &bundle), max, (Some(target), lift));
        }
        found
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
        let after = found().after.unwrap();
        assert_eq!(
            (after.target.as_str(), after.in_the_way.join(" ").as_str()),
            ("4.20", "odd quay")
        );
    }

    // plugin.md U57
    #[test]
    fn on_plain_kubernetes_nothing_declares_a_limit() {
        let said = headline(&Verdict { cluster: None, target: None, ..found() });
        assert!(said.starts_with("Kubernetes 1.31 -> 1.32: "), "{said}");
        assert!(said.contains("nothing declares a limit"));
    }

    // plugin.md U10
    #[test]
    fn the_document_follows_its_schema() {
        let (_, schema) = crate::document::schema::<Verdict>();
        let schema = serde_json::from_str(&schema).unwrap();
        let schema = jsonschema::validator_for(&schema).unwrap();
        for found in [found(), Verdict::default()] {
            let document = serde_json::to_value(found.headed().unwrap()).unwrap();
            assert!(schema.is_valid(&document), "{document:#}");
        }
    }
}
