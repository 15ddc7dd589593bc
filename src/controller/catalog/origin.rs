//! The origin of the content of a catalog.

use jiff::Timestamp;

/// The origin of content.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Name of the catalog.
    pub catalog: String,
    /// Identity of the catalog object; content of another object of the same name is not used.
    pub uid: String,
    /// Reference of the image, by digest.
    pub reference: String,
    /// When the image was unpacked.
    pub unpacked: Timestamp,
}

/// Cuts a time to whole seconds, which is all that HTTP dates and Kubernetes times hold.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
