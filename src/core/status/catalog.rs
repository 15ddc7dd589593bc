//! The conditions of a `ClusterCatalog` (api.md 2.5).

use olm_api::conditions::{reasons, types};

use super::Statement;

const SWITCHED_OFF: &str = "Catalog availability mode is set to Unavailable";

/// `Serving` is true: content is served.
pub fn serving() -> Statement {
    Statement::yes(
        types::SERVING,
        reasons::AVAILABLE,
        "Serving desired content from resolved source",
    )
}

/// `Serving` is false: nothing was unpacked yet, and nothing can be served.
pub fn nothing_unpacked() -> Statement {
    Statement::no(
        types::SERVING,
        reasons::UNAVAILABLE,
        "Catalog contents have not been unpacked yet",
    )
}

/// `Serving` is false: the content was removed, because the catalog is being deleted.
pub fn removed() -> Statement {
    Statement::no(types::SERVING, reasons::UNAVAILABLE, "")
}

/// `Serving` and `Progressing` of a catalog that is disabled. `Progressing` is true on purpose: the
/// catalog can continue when it is enabled again.
pub fn switched_off() -> [Statement; 2] {
    [
        Statement::no(
            types::SERVING,
            reasons::USER_SPECIFIED_UNAVAILABLE,
            SWITCHED_OFF,
        ),
        Statement::yes(types::PROGRESSING, reasons::SUCCEEDED, SWITCHED_OFF),
    ]
}

/// `Progressing` is true: the content is unpacked and stored.
pub fn unpacked() -> Statement {
    Statement::yes(
        types::PROGRESSING,
        reasons::SUCCEEDED,
        "Successfully unpacked and stored content from resolved source",
    )
}
