//! The common part of pages, and the pages without other content.

use askama::Template;

/// Versions of a package that are shown at once.
pub(super) const FIRST: usize = 15;

/// The common part of pages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shell {
    /// The prefix of the addresses of all pages.
    pub(crate) base: String,
    /// Whose answers these are.
    pub(crate) of: String,
    /// When they were read.
    pub(crate) read: String,
    pub(crate) offline: bool,
    /// Which part of the site it is.
    pub(crate) part: &'static str,
    /// The filter of packages, as the query of an address.
    pub(crate) query: String,
    /// Whether the page is read again every few seconds.
    pub(crate) watch: bool,
}

/// Something that went wrong, or is not there.
#[derive(Template)]
#[template(path = "error.html")]
pub(crate) struct Failure {
    pub(crate) shell: Shell,
    pub(crate) heading: &'static str,
    pub(crate) text: String,
}
