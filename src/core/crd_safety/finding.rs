//! What a comparison finds, and the text of the verdict.

use std::fmt;

use super::check::Check;
use super::definition::Definition;
use crate::error::quote;
use crate::uninstall::Instances;

/// Most findings of a CRD that a condition lists.
pub const MAX_LINES: usize = 50;

/// What a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SchemaPlace {
    /// The whole CRD.
    Definition,
    /// A schema within a version, or within a pair of served versions (`v1alpha1 -> v1`).
    /// `versions` is the version or the pair; `path` begins with `^`.
    Schema { versions: String, path: String },
}

/// A change that a check does not let pass.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Finding {
    /// What it is about.
    pub place: SchemaPlace,
    /// Which check found it.
    pub check: Check,
    /// What is wrong, in upstream's words.
    pub text: String,
    /// A digest of the keywords that no check handles, if there are any, and of both their values,
    /// which the text leaves out.
    pub(super) unhandled: Option<[u8; 32]>,
}

impl Finding {
    pub(super) fn of_definition(check: Check, text: String) -> Self {
        Self { place: SchemaPlace::Definition, check, text, unhandled: None }
    }

    /// Returns about how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let place = match &self.place {
            SchemaPlace::Definition => 0,
            SchemaPlace::Schema { versions, path } => versions.len() + path.len(),
        };
        size_of::<Self>() + self.text.len() + place
    }

    /// Returns the finding about a CRD that the new version of a bundle no longer has, if there are
    /// objects of it. Upstream deletes it with its objects.
    pub fn of_removal(objects: &Instances) -> Option<Self> {
        let which = match objects {
            // What nobody can count is kept when the revision before is archived.
            Instances::Counted(0) | Instances::Unknown(_) => return None,
            Instances::Counted(1) => "1 object of it exists".to_owned(),
            Instances::Counted(count) => format!("{count} objects of it exist"),
        };
        let text = format!("not part of the new version, and {which}");
        Some(Self::of_definition(Check::DefinitionRemoval, text))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let SchemaPlace::Schema { versions, path } = &self.place {
            write!(f, "{versions}: {path}: ")?;
        }
        let check: &str = self.check.into();
        write!(f, "{check}: {}", self.text)
    }
}

/// Returns what has to be done before the API server accepts that `new` follows `old`, whatever is let
/// pass.
pub fn first(old: &Definition, new: &Definition, findings: &[Finding]) -> Option<String> {
    let refused = |checks: &[Check]| findings.iter().any(|it| checks.contains(&it.check));
    let name = &new.name;
    if refused(&[Check::Scope, Check::Kind]) {
        return Some(format!(
            "the API server never changes scope or kind of CRD {name}: delete its objects and the \
             extension, and install it again"
        ));
    }
    if !refused(&[Check::StoredVersionRemoval]) {
        return None;
    }
    let stored = old.storage().unwrap_or_default();
    let migrate = format!("kubectl olm crd migrate {name}");
    let kept = "the API server keeps each version that objects may be stored in";
    Some(if new.has(stored) {
        format!("{kept}; first: {migrate}")
    } else {
        format!(
            "{kept}, and CRD {name} stores {stored}; first: a version of the bundle whose CRD still \
             has {stored} and stores another, then {migrate}; where no objects exist, delete the \
             extension and install it again"
        )
    })
}

/// Returns what is wrong with the upgrade of a CRD, at most `lines` findings of it, or nothing.
pub fn error_text(name: &str, findings: &[Finding], lines: usize) -> Option<String> {
    let listed = (!findings.is_empty()).then(|| list(findings, lines))?;
    let name = quote(name);
    Some(format!("validating upgrade for CRD {name}: {listed}"))
}

/// Returns findings one a line, at most `lines` of them and how many more there are.
pub fn list(findings: &[Finding], lines: usize) -> String {
    let mut listed: Vec<_> = findings.iter().take(lines).map(Finding::to_string).collect();
    if findings.len() > lines {
        listed.push(format!("... and {} more", findings.len() - lines));
    }
    listed.join("\n")
}
