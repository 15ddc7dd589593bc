//! The changes of newer content, one package after the other.

use std::collections::BTreeSet;
use std::io;

use olm_core::catalog::diff::{PackageDiff, quick_diff};

use super::{Content, Staged};

impl Staged {
    /// Returns the changes in packages of the served content. Blocks.
    pub fn changes(&self, served: &Content) -> io::Result<Vec<PackageDiff>> {
        let (old, new) = (served.index(), self.content.index());
        let names: BTreeSet<&str> = old.packages().chain(new.packages()).collect();
        let mut changes = Vec::new();
        for name in names {
            if !self.has_same(served, name)? {
                changes.extend(quick_diff(&served.package(name)?, &self.content.package(name)?));
            }
        }
        Ok(changes)
    }

    /// Returns whether a package is the same in both; at most two blobs are in memory.
    pub(super) fn has_same(&self, served: &Content, package: &str) -> io::Result<bool> {
        let mut new = self.content.index().of_package(package);
        for old in served.index().of_package(package) {
            let Some(new) = new.next().filter(|new| new.len == old.len) else { return Ok(false) };
            if served.meta(&old)? != self.content.meta(&new)? {
                return Ok(false);
            }
        }
        Ok(new.next().is_none())
    }
}
