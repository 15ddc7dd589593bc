//! Makes messages fit the API: limits their length and removes ports that change.

use std::sync::LazyLock;

use regex::Regex;

/// Longest message, in bytes. The API counts characters; bytes are stricter, as upstream.
pub const MESSAGE_LIMIT: usize = 32_768;

const SUFFIX: &str = "\n\n... [message truncated]";

/// Cuts a message so that it takes [`MESSAGE_LIMIT`] bytes at most and says that it was cut.
///
/// The cut never splits a character.
pub fn truncate(message: &mut String) {
    truncate_to(message, MESSAGE_LIMIT);
}

/// Does the same with another limit.
pub(super) fn truncate_to(message: &mut String, limit: usize) {
    if message.len() <= limit {
        return;
    }
    message.truncate(message.floor_char_boundary(limit.saturating_sub(SUFFIX.len())));
    message.push_str(SUFFIX);
}

/// Connections: `read` or `write`, a blank, `tcp` or `udp`, a blank, two addresses (IPv4, or IPv6 in
/// brackets, with or without port) joined by `->`, and a following `: ` if there is one.
static CONNECTION: LazyLock<Regex> = LazyLock::new(|| {
    let address = r"(?:\[[0-9A-Fa-f:.%]+\]|[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+)(?::[0-9]+)?";
    let connection = format!("(?:read|write) (?:tcp|udp) {address}->{address}(?:: )?");
    #[expect(clippy::expect_used, reason = "the pattern is ours, and valid")]
    Regex::new(&connection).expect("a valid pattern")
});

/// Removes `read tcp 10.0.0.1:53124->10.0.0.2:443: ` and the like from network errors.
///
/// The port on our side changes with every attempt; left in, it would rewrite the status each
/// time. Source: api.md 4.2.
pub fn sanitize(message: &str) -> String {
    CONNECTION.replace_all(message, "").into_owned()
}
