//! The conditions of a `ClusterCatalog` (api.md 2.5).

use olm_api::conditions::{Reason, types};

use super::Statement;

const NOTHING_UNPACKED: &str = "Catalog contents have not been unpacked yet";
const SWITCHED_OFF: &str = "Catalog availability mode is set to Unavailable";

/// `Serving` is true: content is served.
pub fn serving() -> Statement {
    let text = "Serving desired content from resolved source";
    Statement::yes(types::SERVING, Reason::Available, text)
}

/// `Serving` is false: nothing was unpacked yet, and nothing can be served.
pub fn nothing_unpacked() -> Statement {
    Statement::no(types::SERVING, Reason::Unavailable, NOTHING_UNPACKED)
}

/// `ContentValid` is not known: nothing was unpacked yet.
pub fn nothing_read() -> Statement {
    Statement::unknown(types::CONTENT_VALID, Reason::NotRead, NOTHING_UNPACKED)
}

/// `ContentValid`: what the lint found in the content, if it found anything.
pub fn examined(findings: Option<String>) -> Statement {
    if let Some(findings) = findings {
        return Statement::no(types::CONTENT_VALID, Reason::Findings, findings);
    }
    let text = "The content has neither errors nor warnings.";
    Statement::yes(types::CONTENT_VALID, Reason::NoFindings, text)
}

/// The content was removed, because the catalog is being deleted.
pub fn removed() -> [Statement; 2] {
    [
        Statement::no(types::SERVING, Reason::Unavailable, ""),
        Statement::unknown(types::CONTENT_VALID, Reason::NotRead, ""),
    ]
}

/// The content was removed, because the catalog is disabled. `Progressing` is true on purpose: the
/// catalog can continue when it is enabled again.
pub fn switched_off() -> [Statement; 3] {
    [
        Statement::no(types::SERVING, Reason::UserSpecifiedUnavailable, SWITCHED_OFF),
        Statement::yes(types::PROGRESSING, Reason::Succeeded, SWITCHED_OFF),
        Statement::unknown(types::CONTENT_VALID, Reason::NotRead, SWITCHED_OFF),
    ]
}

/// `Progressing` is true: the content is unpacked and stored.
pub fn unpacked() -> Statement {
    let text = "Successfully unpacked and stored content from resolved source";
    Statement::yes(types::PROGRESSING, Reason::Succeeded, text)
}
