//! Which verb prints which document.

use olm_core::explain::Report;
use olm_core::plan::Plan;

use super::{catalog, cluster_check, doctor, history, images, lock, rbac, search, show, status};
use crate::document::{Document, schema};
use crate::graph::Drawn;

/// Names the documents, each with its type.
macro_rules! documents {
    ($($name:literal: $document:ty;)*) => {
        $(impl Document for $document {
            const SCHEMA: &'static str = $name;
        })*

        /// Returns the JSON Schemas of the documents that the plugin prints: their names, and texts.
        pub fn schemas() -> Vec<(&'static str, String)> {
            vec![$(schema::<$document>()),*]
        }
    };
}

documents! {
    "olm.build": catalog::build::Built<'_>;
    "olm.catalogs": catalog::list::Catalogs;
    "olm.cluster-check": cluster_check::report::Verdict;
    "olm.diff": catalog::diff::Changes;
    "olm.doctor": doctor::Diagnosis;
    "olm.graph": Drawn<'_>;
    "olm.history": history::History<'_>;
    "olm.images": images::Listed<'_>;
    "olm.lint": catalog::lint::Report;
    "olm.lock": lock::Lock;
    "olm.plan": Plan;
    "olm.rbac": rbac::Checked;
    "olm.resolution.report": Report<'_>;
    "olm.search": search::Found;
    "olm.show": show::Known<'_>;
    "olm.status": status::Status;
}
