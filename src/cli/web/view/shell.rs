//! The common part of pages, and the pages without other content.

use askama::Template;

/// Versions of a package that are shown at once.
pub(super) const FIRST: usize = 15;

/// The common part of pages.
#[derive(Debug, Clone, Default)]
pub(in crate::web) struct Shell {
    /// The prefix of the addresses of all pages.
    pub(in crate::web) base: String,
    /// Whose answers these are.
    pub(in crate::web) of: String,
    /// When they were read.
    pub(in crate::web) read: String,
    pub(in crate::web) offline: bool,
    /// Which part of the site it is.
    pub(in crate::web) part: &'static str,
    /// The filter of packages, as the query of an address.
    pub(in crate::web) query: String,
    /// Whether the page is read again every few seconds.
    pub(in crate::web) watch: bool,
}

/// Something that went wrong, or is not there.
#[derive(Template)]
#[template(path = "error.html")]
pub(in crate::web) struct Failure {
    pub(in crate::web) shell: Shell,
    pub(in crate::web) heading: &'static str,
    pub(in crate::web) text: String,
}
