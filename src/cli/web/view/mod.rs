//! One view a page: the part of a document that a page shows, read from the document itself.

mod catalogs;
mod extensions;
mod packages;
mod shell;

pub(super) use catalogs::{Catalogs, Findings};
pub(super) use extensions::{ExtensionPage, Installed, PartPage, PlanFile};
pub(super) use packages::{PackagePage, Packages, Wanted};
pub(super) use shell::{Failure, Shell};
