//! Makes messages fit the API: limits their length and removes ports that change.

/// Longest message, in bytes. The API counts characters; bytes are stricter, as upstream.
pub const MESSAGE_LIMIT: usize = 32_768;

const SUFFIX: &str = "\n\n... [message truncated]";

/// Cuts a message so that it takes [`MESSAGE_LIMIT`] bytes at most and says that it was cut.
///
/// The cut never splits a character.
pub fn truncate(message: &mut String) {
    if message.len() <= MESSAGE_LIMIT {
        return;
    }
    message.truncate(message.floor_char_boundary(MESSAGE_LIMIT - SUFFIX.len()));
    message.push_str(SUFFIX);
}

/// Removes `read tcp 10.0.0.1:53124->10.0.0.2:443: ` and the like from network errors.
///
/// The port on our side changes with every attempt; left in, it would rewrite the status each
/// time. Matches `read` or `write`, a blank, `tcp` or `udp`, a blank, two addresses (IPv4, or IPv6
/// in brackets, with or without port) joined by `->`, and a following `: ` if there is one.
/// Source: api.md 4.2.
pub fn sanitize(message: &str) -> String {
    let mut clean = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(character) = rest.chars().next() {
        if let Some(after) = connection(rest) {
            rest = after;
        } else {
            clean.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    clean
}

/// Returns what follows a connection that `text` begins with.
fn connection(text: &str) -> Option<&str> {
    let text = either(text, "read ", "write ")?;
    let text = either(text, "tcp ", "udp ")?;
    let text = address(text)?.strip_prefix("->")?;
    let text = address(text)?;
    Some(text.strip_prefix(": ").unwrap_or(text))
}

fn either<'a>(text: &'a str, one: &str, other: &str) -> Option<&'a str> {
    text.strip_prefix(one).or_else(|| text.strip_prefix(other))
}

/// Returns what follows an address, and its port if it has one.
fn address(text: &str) -> Option<&str> {
    let text = match text.strip_prefix('[') {
        Some(inside) => {
            let (host, after) = inside.split_once(']')?;
            let valid = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.' | '%');
            (!host.is_empty() && host.chars().all(valid)).then_some(after)?
        }
        None => ipv4(text)?,
    };
    let Some(port) = text.strip_prefix(':') else { return Some(text) };
    // A colon without digits separates this layer of the error from the next.
    Some(digits(port).unwrap_or(text))
}

fn ipv4(text: &str) -> Option<&str> {
    let mut text = digits(text)?;
    for _ in 0..3 {
        text = digits(text.strip_prefix('.')?)?;
    }
    Some(text)
}

/// Returns what follows the digits that `text` begins with.
fn digits(text: &str) -> Option<&str> {
    let after = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (after.len() < text.len()).then_some(after)
}
