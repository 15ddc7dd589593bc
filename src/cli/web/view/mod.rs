//! One view a page: the part of a document that a page shows, read from the document itself.

mod catalogs;
mod extensions;
mod packages;
mod shell;

pub(crate) use catalogs::{Catalogs, Findings};
pub(crate) use extensions::{ExtensionPage, Installed, PartPage, PlanFile};
pub(crate) use packages::{PackagePage, Packages, Wanted};
pub(crate) use shell::{Failure, Shell};
