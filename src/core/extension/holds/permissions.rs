//! Whether the account may do what the revision takes, before anything is written.
//!
//! Source: applying.md 5.

use std::collections::BTreeSet;

use olm_api::conditions::{Reason, types};
use serde::{Deserialize, Serialize};
use strum::{EnumString, VariantNames};

use super::{Awaited, Facts, Hold};
use crate::rbac::{Permissions, RoleKey, readable, report};
use crate::revision::Account;
use crate::status::{MESSAGE_LIMIT, Note, Statement};

/// What is done about rights that an account lacks.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, VariantNames,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RbacPreflight {
    /// The revision is not written before they are there.
    #[default]
    Enforce,
    /// They are reported, and the revision is written.
    Report,
    /// Nobody looks.
    Off,
}

/// What is known of the rights of an account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Whether there is no such account.
    pub absent: bool,
    /// What it lacks, in the smallest form.
    pub missing: Permissions,
    /// Why that may not be all.
    pub errors: BTreeSet<String>,
    /// Roles outside the bundle that it would have to hold or to bind.
    pub roles: BTreeSet<RoleKey>,
    /// Whether a rule of its names an object `*`, as if that stood for every name.
    pub wildcard_name: bool,
}

impl Judgement {
    /// Returns the report in upstream's text, if a right is missing.
    pub fn report(&self) -> Option<String> {
        report(&self.missing, &self.errors)
    }

    /// Returns condition `PermissionsSufficient`: what is missing, for people.
    pub fn statement(&self, account: &Account) -> Statement {
        if self.missing.is_empty() {
            let message = format!("service account {account} has every right that is needed");
            return Statement::yes(types::PERMISSIONS, Reason::PermissionsSufficient, message);
        }
        let rules = readable(&self.missing, MESSAGE_LIMIT / 4 * 3).join("\n");
        let message = format!("service account {account} may not:\n{rules}");
        Statement::no(types::PERMISSIONS, Reason::PermissionsMissing, message)
    }

    /// Returns what to do about rights that are missing.
    pub fn advice(&self, extension: &str, account: &Account, version: &str) -> String {
        let (what, them) = if self.absent {
            ("does not exist".to_owned(), "it and the rights that it lacks")
        } else {
            (format!("lacks rights that {version} needs"), "them")
        };
        let mut text = format!(
            "service account {account} {what}: kubectl olm rbac {extension} --missing prints {them} \
             for kubectl apply"
        );
        if self.wildcard_name {
            text.push_str(WILDCARD);
        }
        text
    }
}

/// A judgement, of whom, and whether it counts.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    pub judgement: &'a Judgement,
    pub account: &'a Account,
    /// Whether the revision waits for rights that are missing.
    pub enforced: bool,
}

/// Holds a revision whose account lacks rights, and tells what to do; one that is there already is
/// not held.
pub(super) fn check(facts: &Facts<'_>) -> Result<Vec<Note>, Hold> {
    let Some(judged) = facts.permissions else { return Ok(Vec::new()) };
    let absent = judged.judgement.absent;
    let gone = absent.then(|| format!("service account {} does not exist", judged.account));
    let Some(report) = gone.or_else(|| judged.judgement.report()) else { return Ok(Vec::new()) };
    let version = &facts.target.version;
    let advice = judged.judgement.advice(facts.name(), judged.account, version);
    let note = |message| Note { reason: Reason::PermissionsMissing, message };
    if (judged.enforced || absent) && facts.new_revision().is_some() {
        return Err(Hold {
            message: report,
            note: note(advice),
            awaits: Some(Awaited::Permissions),
            crds: Vec::new(),
        });
    }
    Ok(vec![note(format!("{advice}\n{report}"))])
}

const WILDCARD: &str = "; one of its rules has resourceNames [\"*\"], which RBAC reads as an \
    object named *: omit resourceNames to match every object";
