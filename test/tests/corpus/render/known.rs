//! The intended differences from upstream's rendering, by bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use olm_test::paths;
use serde::Deserialize;

/// An expected difference in a rendering: a row of `known.yaml`.
#[derive(Deserialize)]
pub(crate) struct Known {
    bundle: String,
    /// The issuer it is expected with, if it is not any.
    source: Option<String>,
    /// The rule of rendering.md that explains it.
    pub(crate) rule: String,
    /// We refuse what upstream renders; the start of the message.
    pub(crate) refused: Option<String>,
    /// The differences, each containing one of these texts; all of them must occur.
    #[serde(default)]
    pub(crate) differs: Vec<String>,
}

/// Returns the rows.
pub(crate) fn rows() -> Vec<Known> {
    paths::rows("test/tests/corpus/render/known.yaml")
}

impl Known {
    pub(crate) fn is_of(&self, bundle: &str, source: &str) -> bool {
        self.bundle == bundle && self.source.as_deref().is_none_or(|own| own == source)
    }
}

/// The renderings that differ as a rule says.
#[derive(Default)]
pub(crate) struct Named {
    pub(crate) count: usize,
    bundles: BTreeMap<String, BTreeSet<String>>,
}

impl Named {
    pub(crate) fn add(&mut self, rule: &str, bundle: &str) {
        self.count += 1;
        let bundles = self.bundles.entry(rule.to_owned()).or_default();
        bundles.insert(bundle.to_owned());
    }
}

impl fmt::Display for Named {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (rule, bundles) in &self.bundles {
            let bundles = bundles.iter().map(String::as_str).collect::<Vec<_>>();
            writeln!(out, "{rule}: {}", bundles.join(", "))?;
        }
        Ok(())
    }
}
