//! Whether an upgrade of CRDs keeps the objects that are stored.
//!
//! Source: applying.md 6, decision 36.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use olm_api::CrdUpgradeSafetyEnforcement;
use olm_api::conditions::Reason;
use olm_api::keys::policy;
use serde_json::Value;

use super::{Awaited, Proposal, Refusal};
use crate::crd_safety::{
    Definition, Finding, MAX_LINES, Rules, Waivers, compare, error_text, list,
};
use crate::error::quote;
use crate::extension::ValidExtension;
use crate::object::Object;
use crate::revision::Desired;
use crate::status::Note;
use crate::uninstall::Instances;

/// The CRDs that a revision would replace.
#[derive(Debug, Clone, Copy)]
pub struct CrdUpgrades<'a> {
    /// Those on the cluster, by name.
    pub live: &'a BTreeMap<String, Value>,
    /// Those that earlier revisions made and this one has not, with their objects.
    pub leaving: &'a BTreeMap<String, Instances>,
    /// What is let pass nevertheless.
    pub waivers: &'a Waivers,
    /// Which changes are let pass anyway.
    pub rules: Rules,
    /// What time it is.
    pub now: Timestamp,
}

impl CrdUpgrades<'_> {
    /// Returns what speaks against a revision, by CRD: first those it has, then those it has not.
    pub fn findings(&self, desired: &Desired) -> Vec<(String, Vec<Finding>)> {
        let kept = definitions(desired).filter_map(|new| {
            let old = Definition::of(self.live.get(new.name())?);
            let findings = compare(&old, &Definition::of_object(new), self.rules);
            Some((new.name().to_owned(), findings))
        });
        let leaving = self.leaving.iter().map(|(name, objects)| {
            let finding = Finding::of_removal(objects);
            (name.clone(), finding.into_iter().collect())
        });
        kept.chain(leaving).collect()
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

/// Returns the CRDs of a revision.
pub fn definitions(desired: &Desired) -> impl Iterator<Item = &Object> {
    let objects = desired.phases.iter().flat_map(|phase| &phase.objects);
    objects.filter(|object| {
        object.kind() == "CustomResourceDefinition"
            && object.api_version() == "apiextensions.k8s.io/v1"
    })
}

pub(super) fn check(proposal: &Proposal<'_>) -> Result<Vec<Note>, Refusal> {
    let Some(crds) = proposal.crds else {
        return Ok(Vec::new());
    };
    let (mut errors, mut allow, mut waived) = (Vec::new(), BTreeSet::new(), Vec::new());
    let mut refused = Vec::new();
    for (name, findings) in crds.findings(proposal.desired) {
        let covered = |finding: &Finding| crds.waivers.cover(&name, finding, crds.now);
        let (passing, findings): (Vec<_>, Vec<_>) = findings.into_iter().partition(covered);
        let checks = findings.iter().map(|finding| <&str>::from(finding.check));
        allow.extend(checks.map(|check| format!("{name}:{check}")));
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
        let message = format!("let pass by {}: {}", policy::CRD_SAFETY_ALLOW, waived.join("\n"));
        let note = Note { reason: Reason::CrdUpgradeWaived, message };
        return Ok(if waived.is_empty() { Vec::new() } else { vec![note] });
    }
    Err(Refusal {
        message: errors.join("\n"),
        awaits: Awaited::CustomResourceDefinitions,
        notes: vec![Note { reason: Reason::CrdUpgradeRefused, message: advice(&allow) }],
        crds: refused,
    })
}

/// Says how to go on although checks do not pass (decision 30).
fn advice(allow: &BTreeSet<String>) -> String {
    let allow: Vec<_> = allow.iter().map(String::as_str).collect();
    format!(
        "the upgrade could make stored objects invalid; to make it all the same: annotate with \
         {}={} and {}=<why>, or set spec.install.preflight.crdUpgradeSafety.enforcement to None",
        policy::CRD_SAFETY_ALLOW,
        allow.join(","),
        policy::CRD_SAFETY_REASON
    )
}

#[cfg(test)]
mod tests {
    use olm_api::ClusterExtension;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::extension::{Demand, Source, desired};
    use crate::preflight::run;
    use crate::revision::{Account, BundleRecord, Change, Phase};

    fn crd(name: &str, pattern: &str) -> Value {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {"scope": "Namespaced", "versions": [{"name": "v1", "schema":
                {"openAPIV3Schema": {"properties": {"a": {"pattern": pattern}}}}}]}})
    }

    fn extension(enforcement: Option<&str>) -> ClusterExtension {
        let install = enforcement.map(
            |enforcement| json!({"preflight": {"crdUpgradeSafety": {"enforcement": enforcement}}}),
        );
        let spec = json!({"namespace": "ns", "install": install,
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}});
        serde_json::from_value(json!({"metadata": {"name": "e"}, "spec": spec})).unwrap()
    }

    /// Checks a revision with CRDs `a` and `b` that narrow the live `a`; `b` is not there.
    /// It leaves out CRD `gone`, which has so many objects.
    fn checked_without(leaving: u64, waivers: &str) -> Result<Vec<Note>, Refusal> {
        let extension = extension(None);
        let objects = ["a", "b"].map(|name| Object::from_value(crd(name, "x")).unwrap());
        let phases = [Phase { name: "crds".to_owned(), objects: objects.into() }];
        let account = Account { namespace: "ns".to_owned(), name: "sa".to_owned() };
        let bundle = BundleRecord {
            name: "p.v1".to_owned(),
            package: "p".to_owned(),
            version: "1.0.0".to_owned(),
            release: None,
            image: "r/p:1".to_owned(),
            constraints: None,
        };
        let extension = ValidExtension::of(&extension).unwrap();
        let source =
            Source { bundle: &bundle, digest: "sha256:a", properties: None, phases: &phases };
        let live = BTreeMap::from([("a".to_owned(), crd("a", ""))]);
        run(&Proposal {
            extension,
            desired: &desired(extension, &account, source),
            change: Change::Upgrade,
            demand: Demand::Nothing,
            installed: None,
            permissions: None,
            crds: Some(CrdUpgrades {
                live: &live,
                leaving: &[("gone".to_owned(), Instances::Counted(leaving))].into(),
                waivers: &Waivers::parse(waivers).unwrap(),
                rules: Rules::Loosenings,
                now: "2026-12-31T12:00:00Z".parse().unwrap(),
            }),
        })
    }

    fn checked(waivers: &str) -> Result<Vec<Note>, Refusal> {
        checked_without(0, waivers)
    }

    // applying.md g7
    #[test]
    fn a_crd_with_objects_is_not_left_out_unasked() {
        let refusal = checked_without(2, "a:pattern").unwrap_err();
        assert_eq!(
            refusal.message,
            "validating upgrade for CRD \"gone\": definitionRemoval: not part of the new version, \
             and 2 objects of it exist"
        );
        let way_out = "crd-safety-allow=gone:definitionRemoval and ";
        assert!(refusal.notes[0].message.contains(way_out), "{refusal:?}");
        assert!(checked_without(2, "pattern, gone:definitionRemoval").is_ok());
        assert!(checked_without(0, "pattern").is_ok());
    }

    // applying.md g2
    #[rstest]
    #[case::unset(None, true)]
    #[case::strict(Some("Strict"), true)]
    #[case::none(Some("None"), false)]
    fn the_check_is_made_unless_it_is_switched_off(
        #[case] enforcement: Option<&str>,
        #[case] made: bool,
    ) {
        let extension = extension(enforcement);
        assert_eq!(is_enforced(ValidExtension::of(&extension).unwrap()), made);
    }

    const LINE: &str = "v1: ^.a: pattern: pattern added : \"\" -> \"x\"";

    // api.md 4.4 row 30, applying.md g2 and decision 30
    #[test]
    fn an_unsafe_upgrade_is_refused_with_the_way_out() {
        let refusal = checked("b:pattern, a:pattern@2026-12-30").unwrap_err();
        assert_eq!(refusal.message, format!("validating upgrade for CRD \"a\": {LINE}"));
        assert_eq!(refusal.awaits, Awaited::CustomResourceDefinitions);
        let note = &refusal.notes[0];
        assert_eq!(note.reason, Reason::CrdUpgradeRefused);
        let way_out = "policy.olm.operatorframework.io/crd-safety-allow=a:pattern and ";
        assert!(note.message.contains(way_out), "{}", note.message);
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
