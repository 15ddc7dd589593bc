//! What a `ClusterCatalog` says (api.md 2.5).

use olm_api::conditions::{reasons, types};

use super::Statement;
use crate::error::quote;

const SWITCHED_OFF: &str = "Catalog availability mode is set to Unavailable";

/// `Serving`: content is served.
pub fn serving() -> Statement {
    Statement::yes(
        types::SERVING,
        reasons::AVAILABLE,
        "Serving desired content from resolved source",
    )
}

/// `Serving`: nothing was unpacked yet, and nothing can be served.
pub fn nothing_unpacked() -> Statement {
    Statement::no(
        types::SERVING,
        reasons::UNAVAILABLE,
        "Catalog contents have not been unpacked yet",
    )
}

/// `Serving`: the content was removed, because the catalog is being deleted.
pub fn removed() -> Statement {
    Statement::no(types::SERVING, reasons::UNAVAILABLE, "")
}

/// `Serving` and `Progressing` of a catalog that is switched off. `Progressing` is true on
/// purpose: the catalog is ready to go on.
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

/// `Progressing`: the content is unpacked and stored.
pub fn unpacked() -> Statement {
    Statement::yes(
        types::PROGRESSING,
        reasons::SUCCEEDED,
        "Successfully unpacked and stored content from resolved source",
    )
}

/// Text of a failure to get the image or its content.
pub fn source_error(error: &str) -> String {
    format!("source catalog content: {error}")
}

/// Text of a failure to store the content.
pub fn store_error(error: &str) -> String {
    format!("error storing fbc: {error}")
}

/// Text about an image without the label that says where its content is. Goes into
/// [`source_error`]; terminal when the reference is a digest, retried when it is a tag, because a
/// later push may fix it.
pub fn missing_label() -> String {
    let label = olm_api::keys::name::CATALOG_CONFIGS_LABEL;
    format!(
        "catalog image is missing the required label {}",
        quote(label)
    )
}

/// Text about a source without an image, which the schema prevents.
pub fn no_image(catalog: &str) -> String {
    format!(
        "error parsing ClusterCatalog {}, image source is nil",
        quote(catalog)
    )
}
