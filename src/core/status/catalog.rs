//! The conditions of a `ClusterCatalog` (api.md 2.5).

use olm_api::conditions::{Reason, types};

use super::Statement;

const SWITCHED_OFF: &str = "Catalog availability mode is set to Unavailable";

/// `Serving` is true: content is served.
pub fn serving() -> Statement {
    Statement::yes(
        types::SERVING,
        Reason::Available,
        "Serving desired content from resolved source",
    )
}

/// `Serving` is false: nothing was unpacked yet, and nothing can be served.
pub fn nothing_unpacked() -> Statement {
    Statement::no(
        types::SERVING,
        Reason::Unavailable,
        "Catalog contents have not been unpacked yet",
    )
}

/// `Serving` is false: the content was removed, because the catalog is being deleted.
pub fn removed() -> Statement {
    Statement::no(types::SERVING, Reason::Unavailable, "")
}

/// `Serving` and `Progressing` of a catalog that is disabled. `Progressing` is true on purpose: the
/// catalog can continue when it is enabled again.
pub fn switched_off() -> [Statement; 2] {
    [
        Statement::no(
            types::SERVING,
            Reason::UserSpecifiedUnavailable,
            SWITCHED_OFF,
        ),
        Statement::yes(types::PROGRESSING, Reason::Succeeded, SWITCHED_OFF),
    ]
}

/// `Progressing` is true: the content is unpacked and stored.
pub fn unpacked() -> Statement {
    Statement::yes(
        types::PROGRESSING,
        Reason::Succeeded,
        "Successfully unpacked and stored content from resolved source",
    )
}
