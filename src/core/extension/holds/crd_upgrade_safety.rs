//! Whether an upgrade of CRDs keeps the objects that are stored.
//!
//! Source: applying.md 6, decision 36.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use olm_api::CrdUpgradeSafetyEnforcement;
use olm_api::conditions::Reason;
use olm_api::keys::policy;
use serde_json::Value;

use super::{Awaited, Facts, Hold};
use crate::crd_safety::{
    Definition, Finding, MAX_LINES, Rules, Waivers, compare, error_text, first, list,
};
use crate::error::quote;
use crate::extension::ValidExtension;
use crate::object::Object;
use crate::revision::{Desired, controller};
use crate::status::Note;
use crate::status::extension::text::owned_by;
use crate::uninstall::Instances;

/// The CRDs that a revision would replace.
#[derive(Debug, Clone, Copy)]
pub struct CrdUpgrades<'a> {
    /// Those on the cluster, by name.
    pub live: &'a BTreeMap<String, Value>,
    /// Those of them that only wait for a migration, although no object has to be migrated: their
    /// stored versions can be trimmed.
    pub empty: &'a BTreeSet<String>,
    /// Those that earlier revisions made and this one has not, with their objects.
    pub leaving: &'a BTreeMap<String, Instances>,
    /// What is let pass nevertheless.
    pub waivers: &'a Waivers,
    /// Which changes are let pass anyway, see [`rules`].
    pub rules: Rules,
    /// What time it is.
    pub now: Timestamp,
}

impl CrdUpgrades<'_> {
    /// Returns what speaks against a revision, by CRD: first those it has, then those it has not.
    pub fn findings(&self, desired: &Desired) -> Vec<(String, Vec<Finding>)> {
        let kept = definitions(desired).filter_map(|new| {
            let name = new.name();
            let (old, new) = (self.old(name)?, Definition::of_object(new));
            let mut findings = compare(&old, &new, self.rules);
            let refused = compare(&old, &new, Rules::ApiServer).into_iter();
            let known: Vec<_> = findings.iter().map(|it| it.check).collect();
            let refused: Vec<_> = refused.filter(|it| !known.contains(&it.check)).collect();
            findings.extend(refused);
            Some((name.to_owned(), findings))
        });
        // The API server lets them go.
        let leaving = self.leaving.iter().filter(|_| self.rules != Rules::ApiServer);
        let leaving = leaving.map(|(name, objects)| {
            let finding = Finding::of_removal(objects);
            (name.clone(), finding.into_iter().collect())
        });
        kept.chain(leaving).collect()
    }

    /// Returns a CRD of the cluster as the new one has to follow it.
    fn old(&self, name: &str) -> Option<Definition> {
        let old = Definition::of(self.live.get(name)?);
        Some(if self.empty.contains(name) { old.migrated() } else { old })
    }

    /// Returns what must be done before the API server accepts a CRD, regardless of allowed
    /// findings.
    fn first(&self, desired: &Desired, name: &str, findings: &[Finding]) -> Option<String> {
        let new = definitions(desired).find(|crd| crd.name() == name)?;
        first(&self.old(name)?, &Definition::of_object(new), findings)
    }

    /// Returns what to do about a CRD that something else than this extension owns: it would not be
    /// replaced whatever findings are allowed.
    fn taken(&self, extension: &str, name: &str) -> Option<String> {
        let owner = controller(&Object::from_value(self.live.get(name)?.clone())?)?;
        let (kind, name) = (owner.kind.as_str(), owner.name.as_str());
        let of_this = |(of, _)| kind == "ClusterObjectSet" && of == extension;
        // Upstream up to v1.5 made the extension itself the owner.
        let is_own = (kind == "ClusterExtension" && name == extension)
            || name.rsplit_once('-').is_some_and(of_this);
        (!is_own).then(|| owned_by(&format!("{extension}-"), kind, name))
    }
}

/// Says whether an extension wants upgrades of its CRDs to be checked, which is the default.
pub fn is_enforced(extension: ValidExtension<'_>) -> bool {
    let install = extension.spec.install.as_ref();
    let preflight = install.and_then(|install| install.preflight.as_ref());
    preflight.is_none_or(|preflight| {
        preflight.crd_upgrade_safety.enforcement != CrdUpgradeSafetyEnforcement::None
    })
}

/// Returns which changes of its CRDs an extension lets pass, where the checks that are made have these
/// rules: what the API server refuses would only fail later, and for ever.
pub fn rules(extension: ValidExtension<'_>, configured: Rules) -> Rules {
    if is_enforced(extension) { configured } else { Rules::ApiServer }
}

/// Returns the CRDs of a revision.
pub fn definitions(desired: &Desired) -> impl Iterator<Item = &Object> {
    let objects = desired.phases.iter().flat_map(|phase| &phase.objects);
    objects.filter(|object| {
        object.kind() == "CustomResourceDefinition"
            && object.api_version() == "apiextensions.k8s.io/v1"
    })
}

/// Holds a revision whose CRDs could make stored objects invalid, unless that is let pass; one that is
/// there already is not held.
pub(super) fn check(facts: &Facts<'_>) -> Result<Vec<Note>, Hold> {
    let (Some(crds), Some(desired)) = (facts.crds, facts.new_revision()) else {
        return Ok(Vec::new());
    };
    let (mut errors, mut allow, mut waived) = (Vec::new(), BTreeSet::new(), Vec::new());
    let (mut refused, mut first) = (Vec::new(), Vec::new());
    for (name, findings) in crds.findings(desired) {
        let covered = |finding: &Finding| crds.waivers.cover(&name, finding, crds.now);
        let (passing, findings): (Vec<_>, Vec<_>) = findings.into_iter().partition(covered);
        let taken = (!findings.is_empty()).then(|| crds.taken(facts.name(), &name)).flatten();
        if taken.is_none() {
            allow.extend(Waivers::for_all(&name, &findings));
        }
        let text = taken.or_else(|| crds.first(desired, &name, &findings));
        first.extend(text.filter(|text| !first.contains(text)));
        if !passing.is_empty() {
            let passing = list(&passing, MAX_LINES);
            waived.push(format!("CRD {}: {passing}", quote(&name)));
        }
        if let Some(error) = error_text(&name, &findings, MAX_LINES) {
            errors.push(error);
            refused.push(name);
        }
    }
    if errors.is_empty() {
        let message =
            format!("allowed by annotation {}: {}", policy::CRD_SAFETY_ALLOW, waived.join("\n"));
        let note = Note { reason: Reason::CrdUpgradeWaived, message };
        return Ok(if waived.is_empty() { Vec::new() } else { vec![note] });
    }
    if !allow.is_empty() {
        // What is told takes the place of what stands in the annotation.
        allow.extend(crds.waivers.entries(crds.now));
    }
    Err(Hold {
        message: errors.join("\n"),
        note: Note {
            reason: Reason::CrdUpgradeRefused,
            message: advice(facts.name(), first, &allow),
        },
        awaits: Some(Awaited::CustomResourceDefinitions),
        crds: refused,
    })
}

/// Describes how to continue although checks fail (decision 30): what must be done first, and which
/// findings can be allowed.
fn advice(extension: &str, mut texts: Vec<String>, allow: &BTreeSet<String>) -> String {
    if !allow.is_empty() {
        let allow: Vec<_> = allow.iter().map(String::as_str).collect();
        let off = if texts.is_empty() {
            ", or set spec.install.preflight.crdUpgradeSafety.enforcement to None"
        } else {
            ""
        };
        texts.push(format!(
            "this could make stored objects invalid or unreachable; to allow it anyway: kubectl \
             annotate --overwrite clusterextension {extension} {}={} {}=WHY{off}",
            policy::CRD_SAFETY_ALLOW,
            allow.join(","),
            policy::CRD_SAFETY_REASON
        ));
    }
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use olm_api::ClusterExtension;
    use serde_json::json;

    use super::*;
    use crate::extension::holds;
    use crate::extension::{Policy, RevisionSource, desired};
    use crate::revision::{Account, BundleRecord, Change, Phase};

    fn crd(name: &str, pattern: &str) -> Value {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {"scope": "Namespaced", "versions": [{"name": "v1", "schema":
                {"openAPIV3Schema": {"properties": {"a": {"pattern": pattern}}}}}]}})
    }

    fn extension(enforcement: Option<&str>) -> ClusterExtension {
        let check = json!({"preflight": {"crdUpgradeSafety": {"enforcement": enforcement}}});
        crate::fixture::extension(&json!({"spec": {"install": enforcement.map(|_| check)}}))
    }

    /// Checks a revision with CRDs `a` and `b` that narrow the live `a`; `b` is not there.
    /// It leaves out CRD `gone`, which has so many objects.
    fn checked_without(leaving: u64, waivers: &str) -> Result<Vec<Note>, Hold> {
        checked_upgrade(crd("a", ""), &["a", "b"].map(|name| crd(name, "x")), leaving, waivers)
    }

    /// Checks a revision with these CRDs where the live one has another form.
    fn checked_upgrade(
        live: Value,
        crds: &[Value],
        leaving: u64,
        waivers: &str,
    ) -> Result<Vec<Note>, Hold> {
        checked_by(&extension(None), (live, false), crds, leaving, waivers)
    }

    /// The same for this extension; whether stored versions can be trimmed.
    fn checked_by(
        extension: &ClusterExtension,
        (live, empty): (Value, bool),
        crds: &[Value],
        leaving: u64,
        waivers: &str,
    ) -> Result<Vec<Note>, Hold> {
        let objects = crds.iter().filter_map(|crd| Object::from_value(crd.clone())).collect();
        let phases = [Phase { name: "crds".to_owned(), objects }];
        let account = Account { namespace: "ns".to_owned(), name: "sa".to_owned() };
        let bundle = BundleRecord::example("1.0.0");
        let extension = ValidExtension::of(extension).unwrap();
        let source = RevisionSource {
            bundle: &bundle,
            digest: "sha256:a",
            properties: None,
            phases: &phases,
        };
        let live = BTreeMap::from([("a".to_owned(), live)]);
        let policy = Policy::example(&[]);
        let desired = desired(extension, &account, source);
        holds::first(&Facts {
            revision: Some((&desired, Change::Upgrade)),
            crds: Some(CrdUpgrades {
                live: &live,
                empty: &empty.then(|| "a".to_owned()).into_iter().collect(),
                leaving: &[("gone".to_owned(), Instances::Counted(leaving))].into(),
                waivers: &Waivers::parse(waivers).unwrap(),
                rules: rules(extension, Rules::Loosenings),
                now: "2026-12-31T12:00:00Z".parse().unwrap(),
            }),
            ..Facts::of(extension, &policy, &bundle, None)
        })
    }

    fn checked(waivers: &str) -> Result<Vec<Note>, Hold> {
        checked_without(0, waivers)
    }

    // applying.md g7
    #[test]
    fn a_crd_with_objects_is_not_left_out_unasked() {
        let hold = checked_without(2, "a:pattern").unwrap_err();
        assert_eq!(
            hold.message,
            "validating upgrade for CRD \"gone\": definitionRemoval: not part of the new version, \
             and 2 objects of it exist"
        );
        // With what is allowed already, whose place it takes.
        let way_out = "crd-safety-allow=a:pattern,gone:definitionRemoval policy.";
        assert!(hold.note.message.contains(way_out), "{hold:?}");
        assert!(checked_without(2, "pattern, gone:definitionRemoval").is_ok());
        assert!(checked_without(0, "pattern").is_ok());
    }

    // applying.md g2
    #[test]
    fn the_check_is_made_unless_it_is_switched_off() {
        for (enforcement, made) in [(None, true), (Some("Strict"), true), (Some("None"), false)] {
            let extension = extension(enforcement);
            assert_eq!(is_enforced(ValidExtension::of(&extension).unwrap()), made);
        }
    }

    const LINE: &str = "v1: ^.a: pattern: pattern added : \"\" -> \"x\"";

    // api.md 4.4 row 30, applying.md g2 and decision 30
    #[test]
    fn an_unsafe_upgrade_is_refused_with_the_way_out() {
        let hold = checked("b:pattern, a:pattern@2026-12-30").unwrap_err();
        assert_eq!(hold.message, format!("validating upgrade for CRD \"a\": {LINE}"));
        assert_eq!(hold.awaits, Some(Awaited::CustomResourceDefinitions));
        let note = &hold.note;
        assert_eq!(note.reason, Reason::CrdUpgradeRefused);
        // With what is allowed still, whose place it takes.
        let way_out =
            "policy.olm.operatorframework.io/crd-safety-allow=a:pattern,b:pattern policy.";
        assert!(note.message.contains(way_out), "{}", note.message);
    }

    // applying.md 6.4: nothing is offered to be let pass that would collide
    #[test]
    fn a_crd_of_another_extension_is_not_offered_to_be_let_pass() {
        for (kind, owner, want) in [
            ("ClusterObjectSet", "e-3", None),
            ("ClusterExtension", "e", None),
            ("ClusterObjectSet", "e-other-3", Some("ClusterExtension e-other owns objects")),
        ] {
            let mut live = crd("a", "");
            live["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "olm.operatorframework.io/v1", "kind": kind, "name": owner,
                "uid": "u", "controller": true}]);
            let advice = checked_upgrade(live, &[crd("a", "x")], 0, "").unwrap_err().note.message;
            let waiver = "policy.olm.operatorframework.io/crd-safety-allow=a:pattern policy.";
            assert!(advice.contains(want.unwrap_or(waiver)), "{advice}");
            assert_eq!(advice.contains("crd-safety-allow"), want.is_none(), "{advice}");
        }
    }

    /// A CRD of these versions, of which the first is stored.
    fn versions(names: &[&str]) -> Value {
        let mut crd = crd("a", "");
        let versions = names.iter().map(|name| {
            json!({"name": name, "served": true, "storage": *name == names[0],
                "schema": {"openAPIV3Schema": {"type": "object"}}})
        });
        crd["spec"]["versions"] = versions.collect();
        crd["status"] = json!({"storedVersions": ["v1alpha1"]});
        crd
    }

    // applying.md 6.4: what the API server refuses in any case is not offered to be let pass
    #[test]
    fn what_has_to_be_done_first_is_named() {
        for (old, new, want) in [
            (
                versions(&["v1", "v1alpha1"]),
                versions(&["v1"]),
                "keeps each version that objects may be stored in; first: kubectl olm crd migrate a",
            ),
            (
                versions(&["v1alpha1"]),
                versions(&["v1beta1"]),
                "and CRD a stores v1alpha1; first: a version of the bundle whose CRD still has v1alpha1",
            ),
            (
                json!({"spec": {"scope": "Cluster"}}),
                crd("a", ""),
                "the API server never changes scope or kind of CRD a",
            ),
        ] {
            let allowed = "storedVersionRemoval, scope, servedVersionRemoval";
            for (enforcement, waivers) in
                [(None, ""), (None, allowed), (Some("None"), ""), (Some("None"), allowed)]
            {
                let (old, new) = ((old.clone(), false), std::slice::from_ref(&new));
                let hold = checked_by(&extension(enforcement), old, new, 0, waivers).unwrap_err();
                let advice = &hold.note.message;
                assert!(advice.contains(want), "{advice}");
                assert!(!advice.contains("crd-safety-allow"), "{advice}");
                let words = ["field is immutable", "must remain in spec.versions"];
                let refused = words.iter().any(|words| hold.message.contains(words));
                assert_eq!(refused, enforcement.is_some(), "{}", hold.message);
            }
        }
    }

    // applying.md 6.7
    #[test]
    fn without_objects_nothing_has_to_be_migrated() {
        for (old, passes) in [(["v1", "v1alpha1"], true), (["v1alpha1", "v1"], false)] {
            let checked = |enforcement, waivers| {
                let (old, new) = (versions(&old), versions(&["v1"]));
                checked_by(&extension(enforcement), (old, true), &[new], 0, waivers)
            };
            assert_eq!(checked(Some("None"), "").is_ok(), passes);
            assert_eq!(checked(None, "servedVersionRemoval").is_ok(), passes);
            // Its users lose it all the same.
            assert!(checked(None, "").is_err());
        }
    }

    // applying.md 6.1: no more than what the API server refuses
    #[test]
    fn what_is_not_checked_is_not_held() {
        let narrows = [crd("a", "x")];
        let checked = checked_by(&extension(Some("None")), (crd("a", ""), false), &narrows, 2, "");
        assert_eq!(checked, Ok(Vec::new()));
    }

    // applying.md 6.4
    #[test]
    fn a_version_that_is_used_is_not_dropped_unasked() {
        let old = versions(&["v1alpha1", "v1"]);
        let mut new = old.clone();
        new["spec"]["versions"][1]["served"] = json!(false);
        let checked = |waivers| checked_upgrade(old.clone(), &[new.clone()], 0, waivers);
        let hold = checked("").unwrap_err();
        assert_eq!(
            hold.message,
            "validating upgrade for CRD \"a\": servedVersionRemoval: served versions removed : [v1]"
        );
        assert!(hold.note.message.contains("crd-safety-allow=a:servedVersionRemoval policy."));
        assert!(checked("servedVersionRemoval").is_ok());
    }

    // applying.md 6.4, decision 36
    #[test]
    fn what_a_waiver_lets_pass_is_said() {
        let notes = checked("pattern").unwrap();
        assert_eq!(notes.len(), 1);
        assert_eq!(notes[0].reason, Reason::CrdUpgradeWaived);
        assert!(notes[0].message.ends_with(&format!("CRD \"a\": {LINE}")), "{notes:?}");
    }
}
