//! Whether an upgrade of CRDs keeps the objects that are stored.
//!
//! Not checked by this version; who asks for it is told so. Source: applying.md 6.

use olm_api::CrdUpgradeSafetyEnforcement;
use olm_api::conditions::Reason;

use super::Proposal;
use crate::status::Note;

const UNCHECKED: &str = "spec.install.preflight.crdUpgradeSafety.enforcement is Strict, but this \
    version does not check upgrades of CRDs: compare them before you upgrade, or pin \
    spec.source.catalog.version";

pub(super) fn check(proposal: &Proposal<'_>) -> Option<Note> {
    let install = proposal.extension.spec.install.as_ref()?;
    let enforcement = install.preflight.as_ref()?.crd_upgrade_safety.enforcement;
    (enforcement == CrdUpgradeSafetyEnforcement::Strict).then(|| Note {
        reason: Reason::CrdUpgradeSafetyUnchecked,
        message: UNCHECKED.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use olm_api::ClusterExtension;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::extension::{Source, ValidExtension, desired};
    use crate::preflight::run;
    use crate::revision::{Account, BundleRecord, Change};

    // api.md 4.4 row 30
    #[rstest]
    #[case::nothing_asked(None, false)]
    #[case::not_wanted(Some("None"), false)]
    #[case::wanted(Some("Strict"), true)]
    fn who_asks_for_the_check_is_told(#[case] enforcement: Option<&str>, #[case] told: bool) {
        let install = enforcement.map(
            |enforcement| json!({"preflight": {"crdUpgradeSafety": {"enforcement": enforcement}}}),
        );
        let spec = json!({"namespace": "ns", "install": install,
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}});
        let object: ClusterExtension =
            serde_json::from_value(json!({"metadata": {"name": "e"}, "spec": spec})).unwrap();
        let extension = ValidExtension::of(&object).unwrap();
        let account = Account {
            namespace: "ns".to_owned(),
            name: "sa".to_owned(),
        };
        let bundle = BundleRecord {
            name: "p.v1".to_owned(),
            package: "p".to_owned(),
            version: "1.0.0".to_owned(),
            release: None,
            image: "r/p:1".to_owned(),
            constraints: None,
        };
        let source = Source {
            bundle: &bundle,
            digest: "sha256:a",
            properties: None,
            phases: &[],
        };
        let notes = run(&Proposal {
            extension,
            desired: &desired(extension, &account, source),
            change: Change::Install,
        });
        let reasons: Vec<_> = notes.iter().map(|note| note.reason).collect();
        let want = told.then_some(Reason::CrdUpgradeSafetyUnchecked);
        assert_eq!(reasons, Vec::from_iter(want));
    }
}
