//! Kinds that revisions want and the cluster does not serve, and what wakes a revision when one of
//! them appears.
//!
//! Objects of optional kinds are left out meanwhile (decision 21); an object of any other
//! kind holds up its revision (applying.md 3.11). Both wait here for a CRD of the group.

use std::collections::BTreeMap;

use olm_core::object::Identity;

use crate::by_key::ByKey;

/// Which groups each revision misses, with the number of objects it leaves out; none where the
/// whole revision waits.
#[derive(Debug, Default)]
pub(super) struct UnservedKinds(ByKey<BTreeMap<String, usize>>);

impl UnservedKinds {
    /// Notes the objects that `revision` leaves out, in place of what was noted before.
    pub(super) fn note(&self, revision: &str, left_out: &[Identity]) {
        let mut groups = BTreeMap::new();
        for object in left_out {
            *groups.entry(object.group.clone()).or_insert(0) += 1;
        }
        self.0.put(revision, (!groups.is_empty()).then_some(groups));
    }

    /// Notes that `revision` cannot go on without a kind of `group`.
    pub(super) fn await_group(&self, revision: &str, group: &str) {
        self.0.lock().entry(revision.to_owned()).or_default().entry(group.to_owned()).or_insert(0);
    }

    /// Returns the revisions that miss a kind of `group`.
    pub(super) fn waiting_for(&self, group: &str) -> Vec<String> {
        let all = self.0.lock();
        all.iter()
            .filter(|(_, groups)| groups.contains_key(group))
            .map(|(revision, _)| revision.clone())
            .collect()
    }

    /// Returns how many objects are left out, per group.
    pub(super) fn totals(&self) -> BTreeMap<String, usize> {
        let all = self.0.lock();
        let mut totals = BTreeMap::new();
        for (group, count) in all.values().flatten() {
            *totals.entry(group.clone()).or_insert(0) += count;
        }
        totals
    }
}

/// Returns the objects as conditions name them.
pub(super) fn names(objects: &[Identity]) -> Vec<String> {
    objects.iter().map(Identity::text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monitor(name: &str) -> Identity {
        Identity {
            group: "monitoring.coreos.com".to_owned(),
            version: "v1".to_owned(),
            kind: "ServiceMonitor".to_owned(),
            namespace: "ns".to_owned(),
            name: name.to_owned(),
        }
    }

    // decision 21
    #[test]
    fn a_revision_waits_for_the_groups_it_misses_and_no_others() {
        let missing = UnservedKinds::default();
        missing.note("a-1", &[monitor("x"), monitor("y")]);
        missing.await_group("b-1", "acme.example.com");
        assert_eq!(missing.waiting_for("monitoring.coreos.com"), ["a-1"]);
        assert_eq!(missing.waiting_for("acme.example.com"), ["b-1"]);
        assert_eq!(missing.waiting_for("apps"), [""; 0]);
        // They are counted until they are applied.
        missing.note("c-1", &[monitor("z")]);
        assert_eq!(missing.totals()["monitoring.coreos.com"], 3);
        assert_eq!(missing.totals()["acme.example.com"], 0);
        missing.note("a-1", &[]);
        assert_eq!(missing.totals()["monitoring.coreos.com"], 1);
    }
}
