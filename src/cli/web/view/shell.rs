//! What every page has, and the pages that have nothing else.

use askama::Template;
use serde::Deserialize;

/// Versions of a package that are shown at once.
pub(super) const FIRST: usize = 15;

/// What every page has.
#[derive(Debug, Clone, Default)]
pub(in crate::web) struct Shell {
    /// What the addresses of all pages begin with.
    pub(in crate::web) base: String,
    /// Whose answers these are.
    pub(in crate::web) of: String,
    /// When they were read.
    pub(in crate::web) read: String,
    /// Whether there is no cluster.
    pub(in crate::web) offline: bool,
    /// Which part of the site it is.
    pub(in crate::web) part: &'static str,
    /// What packages are listed by, as the end of an address.
    pub(in crate::web) query: String,
    /// Whether the page is read again every few seconds.
    pub(in crate::web) watch: bool,
}

/// What could not be read.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::web) struct Unknown {
    pub(in crate::web) what: String,
    pub(in crate::web) why: String,
}

/// Something that went wrong, or is not there.
#[derive(Template)]
#[template(path = "error.html")]
pub(in crate::web) struct Failure {
    pub(in crate::web) shell: Shell,
    pub(in crate::web) heading: &'static str,
    pub(in crate::web) text: String,
}

/// An answer that is under way.
#[derive(Template)]
#[template(path = "wait.html")]
pub(in crate::web) struct Wait {
    pub(in crate::web) shell: Shell,
    pub(in crate::web) what: String,
}
