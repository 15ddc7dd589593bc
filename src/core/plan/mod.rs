//! What giving an extension a bundle would change, before anything is changed.
//!
//! In: the revision as it would be written, the installed one, and the known state of the cluster.
//! Out: [`Plan`], the document that `kubectl olm plan` prints. Its digest is what the controller
//! compares with an approval before it writes. Source: plugin.md 1.5, applying.md 10 (F11).

mod changes;
mod parts;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use olm_api::ClusterObjectSet;
use olm_api::keys::annotation;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

pub use changes::{Action, FieldChange, ObjectChange, differences};

use crate::crd_safety::{Definition, Rules, Waivers, compare};
use crate::extension::holds::{self, CrdUpgrades, Facts, Hold, Judged, Judgement, definitions};
use crate::extension::{Course, Policy, ValidExtension, plan_digest};
use crate::object::Object;
use crate::rbac::lines;
use crate::revision::{self, BundleRecord, Change, Desired, Phase};
use crate::status::{Note, Said};
use crate::uninstall::Instances;

/// What a plan is made from.
#[derive(Debug)]
pub struct Proposed<'a> {
    pub extension: ValidExtension<'a>,
    /// What its annotations say.
    pub policy: &'a Policy,
    /// Where it goes, and what holds it.
    pub course: &'a Course,
    /// What is installed, if anything is.
    pub before: Option<Before<'a>>,
    /// The revision as it would be written.
    pub desired: &'a Desired,
    /// What writing it changes.
    pub change: Change,
    /// Who writes it.
    pub account: &'a revision::Account,
    /// The rights that the account lacks, or why they are not known.
    pub rights: Result<Judgement, String>,
    /// Whether the step waits for them.
    pub enforced: bool,
    /// The CRDs on the cluster, or why they are not known.
    pub crds: Result<Crds, String>,
    /// Whether every step has to be approved by its plan, or why that is not known.
    pub requires_approval: Result<bool, String>,
    /// Which changes of CRDs are let pass.
    pub rules: Rules,
    /// The present time.
    pub now: Timestamp,
    /// Why the installed operator does not allow an update, or why that is not known.
    pub operator: Result<Option<String>, String>,
    /// The note about the rollout of this bundle, if it was reverted.
    pub reverted: Option<Note>,
    /// Digest of the image that the newest revision of this bundle was made of, and of the one that is
    /// offered.
    pub images: Option<(String, String)>,
}

/// The installed revision.
#[derive(Debug, Clone)]
pub struct Before<'a> {
    pub bundle: BundleRecord,
    /// Annotation `olm.properties`, if it has one.
    pub properties: Option<&'a str>,
    pub objects: Vec<Object>,
}

impl<'a> Before<'a> {
    /// Returns an installed revision with what it holds.
    pub fn of(set: &'a ClusterObjectSet, phases: Vec<Phase>) -> Self {
        Self {
            bundle: BundleRecord::of(set),
            properties: set.annotation(annotation::PROPERTIES),
            objects: phases.into_iter().flat_map(|phase| phase.objects).collect(),
        }
    }
}

/// CRDs on the cluster.
#[derive(Debug, Clone, Default)]
pub struct Crds {
    /// Those that the revision would replace, by name.
    pub live: BTreeMap<String, Value>,
    /// Those of them whose stored versions the controller would trim.
    pub empty: BTreeSet<String>,
    /// Those that it does not have any more, with their objects.
    pub leaving: BTreeMap<String, Instances>,
}

/// The changes that a step of an extension would make: `kubectl olm plan`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Name of the extension.
    pub extension: String,
    /// What is installed; absent where nothing is.
    pub from: Option<Step>,
    /// The planned bundle.
    pub to: Step,
    /// The catalog that offers it, where one was asked.
    pub catalog: Option<String>,
    /// Whether no edge of the catalog allows the step.
    pub forced: bool,
    /// The changes of objects, in the order in which they are applied; those that stay as they are
    /// are left out.
    pub objects: Vec<ObjectChange>,
    /// Findings about the CRDs.
    pub crds: Vec<CrdVerdict>,
    /// The rights that the account lacks, a rule a line.
    pub account: Account,
    /// The rights that the roles of the bundle give to the operator, a rule a line.
    pub operator: Difference,
    /// Webhooks that are called.
    pub webhooks: Difference,
    /// The newest version of OpenShift that the bundle supports.
    pub gate: Gate,
    /// Images that run.
    pub images: Difference,
    /// Findings that would block a rollback afterwards.
    pub rollback: Vec<CrdVerdict>,
    /// What holds it: `policy`, `window`, `move`, `version`, `constraints`, `pause`, `crds`,
    /// `rights`, `increase`, `approval` (every step has to be approved, or another plan is),
    /// `objects` (some exist, and are not taken over), `operator`, `rollback` (its rollout failed
    /// and was taken back), `content` (other content of the installed version that nobody
    /// accepted).
    pub held_by: BTreeSet<&'static str>,
    /// The same with its texts.
    #[serde(skip)]
    pub holds: Vec<Hold>,
    /// What is not known, and why.
    pub unknown: Vec<Unknown>,
    /// Assumptions in place of data that could not be read, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What the status of the extension reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<Said>,
    /// Digest of everything that decides what is applied.
    pub digest: String,
}

/// A bundle.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Step {
    /// Its name.
    pub bundle: String,
    // With its release, as an approval names it.
    pub version: String,
    /// Its image as the catalog writes it.
    pub image: String,
    /// Digest of that image, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What the checks say about one CRD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CrdVerdict {
    pub name: String,
    /// Findings that are not allowed.
    pub findings: Vec<String>,
    /// Findings that an annotation allows.
    pub waived: Vec<String>,
    /// Entries of annotation `crd-safety-allow` that would allow all findings, if any would.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
}

/// Rights.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Account {
    /// Those that are missing, after the account itself if it does not exist.
    pub missing: Vec<String>,
    /// The same as rights, as far as they are known.
    #[serde(skip)]
    pub judgement: Judgement,
}

/// Added and removed entries of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// Added entries.
    pub added: Vec<String>,
    /// Removed entries.
    pub removed: Vec<String>,
}

/// Versions of OpenShift; absent where the bundle declares none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Gate {
    /// Of the installed revision.
    pub from: Option<String>,
    /// Of what would be.
    pub to: Option<String>,
}

/// The member of the document with what holds a step.
const HELD_BY: &str = "heldBy";

/// Something that is not known.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Unknown {
    /// The member of the document.
    pub what: &'static str,
    pub why: String,
}

impl Unknown {
    /// Returns the member in words.
    pub fn label(&self) -> &'static str {
        if self.what == HELD_BY { "held by" } else { self.what }
    }
}

impl Plan {
    /// Makes the plan.
    pub fn of(proposed: &Proposed<'_>) -> Self {
        let desired = proposed.desired;
        let before = proposed.before.as_ref();
        let old: &[Object] = before.map_or(&[], |before| &before.objects);
        let new = || desired.phases.iter().flat_map(|phase| &phase.objects);
        let crds = verdicts(proposed);
        let judgement = proposed.rights.clone().unwrap_or_default();
        let account = judgement.absent.then(|| format!("service account {}", proposed.account));
        let recorded = |key: &str| desired.annotations.get(key).map(String::as_str);
        let operator = parts::granted(old.iter(), new());
        let digest = plan_digest(proposed.extension, desired);
        let objects = changes::changes(old, &desired.phases);
        let holds = holds(proposed, !objects.is_empty());
        Self {
            extension: desired.extension.name.clone(),
            from: before.map(|before| Step::of(&before.bundle)),
            to: Step {
                digest: recorded(annotation::BUNDLE_DIGEST).map(str::to_owned),
                ..Step::of(&proposed.course.target)
            },
            catalog: proposed.course.catalog.clone(),
            forced: proposed.course.forced,
            objects,
            account: Account {
                missing: account.into_iter().chain(lines(&judgement.missing)).collect(),
                judgement,
            },
            operator,
            webhooks: Difference::between(&parts::webhooks(old.iter()), &parts::webhooks(new())),
            gate: Gate {
                from: before.and_then(|before| parts::supported(before.properties)),
                to: parts::supported(recorded(annotation::PROPERTIES)),
            },
            images: Difference::between(&parts::images(old.iter()), &parts::images(new())),
            rollback: way_back(old, desired, proposed.rules),
            held_by: holds.iter().map(Hold::word).collect(),
            holds,
            crds,
            unknown: unknown(proposed),
            notes: Vec::new(),
            controller: None,
            digest,
        }
    }

    /// Returns what annotation `approve` holds to release this plan and no other.
    pub fn approval(&self) -> String {
        format!("{}@{}", self.to.version, self.digest)
    }

    /// Notes whose the object is that is there in place of one that would be made, and is not taken over.
    pub fn note_taken(&mut self, object: &Object, whose: String) {
        let is_it = |change: &&mut ObjectChange| {
            change.action == Action::Create
                && change.api_version == object.api_version()
                && change.kind == object.kind()
                && (change.namespace.as_str(), change.name.as_str())
                    == (object.namespace(), object.name())
        };
        if let Some(change) = self.objects.iter_mut().find(is_it) {
            change.taken = Some(whose);
            self.held_by.insert("objects");
        }
    }

    /// Says whether nothing would change.
    pub fn is_empty(&self) -> bool {
        let same = self.from.as_ref().map(|from| &from.bundle) == Some(&self.to.bundle);
        same && self.objects.is_empty()
    }
}

impl Step {
    fn of(bundle: &BundleRecord) -> Self {
        let version = bundle.version_release().map(|version| version.recorded());
        let BundleRecord { name, version: written, image, .. } = bundle.clone();
        Self { bundle: name, version: version.unwrap_or(written), image, digest: None }
    }
}

impl Difference {
    fn between(old: &BTreeSet<String>, new: &BTreeSet<String>) -> Self {
        Self {
            added: new.difference(old).cloned().collect(),
            removed: old.difference(new).cloned().collect(),
        }
    }
}

/// Judges the CRDs as the check before a revision is written does; those without findings are left
/// out.
fn verdicts(proposed: &Proposed<'_>) -> Vec<CrdVerdict> {
    let Ok(crds) = &proposed.crds else { return Vec::new() };
    let upgrades = upgrades(proposed, crds);
    let found = upgrades.findings(proposed.desired).into_iter();
    let found = found.filter(|(_, findings)| !findings.is_empty());
    found
        .map(|(name, findings)| {
            let covered = |finding: &_| upgrades.waivers.cover(&name, finding, proposed.now);
            let (waived, findings): (Vec<_>, Vec<_>) = findings.into_iter().partition(covered);
            CrdVerdict {
                allow: Waivers::for_all(&name, &findings),
                findings: findings.iter().map(ToString::to_string).collect(),
                waived: waived.iter().map(ToString::to_string).collect(),
                name,
            }
        })
        .collect()
}

/// Returns what would speak against the installed CRDs once those of the revision took their place.
fn way_back(old: &[Object], desired: &Desired, rules: Rules) -> Vec<CrdVerdict> {
    let before = |name: &str| {
        let mut crds = old.iter().filter(|object| object.kind() == CRD);
        crds.find(|crd| crd.name() == name)
    };
    let pairs = definitions(desired).filter_map(|new| Some((before(new.name())?, new)));
    let found = pairs.map(|(old, new)| CrdVerdict {
        name: new.name().to_owned(),
        findings: compare(
            &Definition::of_object(new).written(),
            &Definition::of_object(old),
            rules,
        )
        .iter()
        .map(ToString::to_string)
        .collect(),
        waived: Vec::new(),
        allow: Vec::new(),
    });
    found.filter(|crd| !crd.findings.is_empty()).collect()
}

const CRD: &str = "CustomResourceDefinition";

fn upgrades<'a>(proposed: &'a Proposed<'_>, crds: &'a Crds) -> CrdUpgrades<'a> {
    CrdUpgrades {
        live: &crds.live,
        empty: &crds.empty,
        leaving: &crds.leaving,
        waivers: &proposed.policy.waivers,
        rules: holds::rules(proposed.extension, proposed.rules),
        now: proposed.now,
    }
}

/// Returns what holds the step; what changes nothing takes no approval.
fn holds(proposed: &Proposed<'_>, changes: bool) -> Vec<Hold> {
    let before = proposed.before.as_ref();
    let rights = proposed.rights.as_ref().ok();
    let images = proposed.images.as_ref();
    let (policy, course) = (proposed.policy, proposed.course);
    let installed = before.map(|before| &before.bundle);
    let is_step = changes || installed.is_none_or(|it| !it.is_same_bundle(&course.target));
    let required = proposed.requires_approval.as_ref().is_ok_and(|required| *required);
    holds::all(&Facts {
        takes_approval: required && is_step,
        offered: course.held.as_ref(),
        operator: proposed.operator.as_ref().ok().and_then(Option::as_deref),
        reverted: proposed.reverted.as_ref(),
        images: images.map(|(recorded, offered)| (recorded.as_str(), offered.as_str())),
        revision: Some((proposed.desired, proposed.change)),
        present: before.map(|before| before.objects.as_slice()),
        permissions: rights.map(|judgement| Judged {
            judgement,
            account: proposed.account,
            enforced: proposed.enforced,
        }),
        crds: proposed.crds.as_ref().ok().map(|crds| upgrades(proposed, crds)),
        ..Facts::of(proposed.extension, policy, &course.target, installed)
    })
}

fn unknown(proposed: &Proposed<'_>) -> Vec<Unknown> {
    let all = [
        ("account", proposed.rights.as_ref().err()),
        ("crds", proposed.crds.as_ref().err()),
        (HELD_BY, proposed.requires_approval.as_ref().err()),
        (HELD_BY, proposed.operator.as_ref().err()),
    ];
    let unknown = all.into_iter().filter_map(|(what, why)| Some((what, why?)));
    unknown.map(|(what, why)| Unknown { what, why: why.clone() }).collect()
}
