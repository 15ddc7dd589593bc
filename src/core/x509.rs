//! Reads fields of X.509 certificates that no verifier returns: when they are valid, and their
//! extensions. What a certificate is worth is decided elsewhere, by `rustls-webpki`.
//!
//! Source: RFC 5280, X.690 (DER).

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const OBJECT_IDENTIFIER: u8 = 0x06;
const OCTETS: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// When a certificate is valid, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first moment.
    pub not_before: Timestamp,
    /// The last moment.
    pub not_after: Timestamp,
}

impl Validity {
    /// Says whether it includes a moment.
    pub fn includes(&self, at: Timestamp) -> bool {
        self.not_before <= at && at <= self.not_after
    }
}

/// Reads when a certificate is valid; `None` for what is not a certificate.
pub fn validity(certificate: &[u8]) -> Option<Validity> {
    // Serial number, signature algorithm, issuer.
    let times = fields(certificate)?.get(3)?.content(SEQUENCE)?;
    let times = elements(times)?;
    Some(Validity { not_before: time(times.first()?)?, not_after: time(times.get(1)?)? })
}

/// Reads the extensions of a certificate: the content of each object identifier, and what the
/// extension holds. `None` for what is not a certificate, and if one of them stands twice.
pub fn extensions(certificate: &[u8]) -> Option<BTreeMap<&[u8], &[u8]>> {
    let fields = fields(certificate)?;
    let mut found = BTreeMap::new();
    let Some(list) = fields.iter().find_map(|field| field.content(EXTENSIONS)) else {
        return Some(found);
    };
    let list = elements(list)?.first()?.content(SEQUENCE)?;
    for extension in elements(list)? {
        let parts = elements(extension.content(SEQUENCE)?)?;
        let name = parts.first()?.content(OBJECT_IDENTIFIER)?;
        // Whether it is critical may stand between them.
        let value = parts.last()?.content(OCTETS)?;
        if found.insert(name, value).is_some() {
            return None;
        }
    }
    Some(found)
}

/// An element of DER.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    pub tag: u8,
    /// What it holds.
    pub content: &'a [u8],
}

impl<'a> Element<'a> {
    fn content(&self, tag: u8) -> Option<&'a [u8]> {
        (self.tag == tag).then_some(self.content)
    }
}

/// Reads elements that follow each other; `None` if anything else is between or after them.
pub fn elements(mut input: &[u8]) -> Option<Vec<Element<'_>>> {
    let mut found = Vec::new();
    while !input.is_empty() {
        let (element, rest) = element(input)?;
        found.push(element);
        input = rest;
    }
    Some(found)
}

/// Returns the fields of a certificate from the serial number on.
fn fields(certificate: &[u8]) -> Option<Vec<Element<'_>>> {
    let (whole, _) = element(certificate)?;
    let (signed, _) = element(whole.content(SEQUENCE)?)?;
    let mut fields = elements(signed.content(SEQUENCE)?)?;
    if fields.first()?.tag == VERSION {
        fields.remove(0);
    }
    Some(fields)
}

/// Splits an element off, and returns what follows.
fn element(input: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        // Four bytes of length are more than any certificate has.
        let count = usize::from(first & 0x7f);
        if !(1..=4).contains(&count) {
            return None;
        }
        let (bytes, rest) = rest.split_at_checked(count)?;
        let length = bytes.iter().fold(0, |length, byte| length * 256 + usize::from(*byte));
        (length, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((Element { tag, content }, rest))
}

/// Reads `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, the only forms RFC 5280 allows.
fn time(element: &Element<'_>) -> Option<Timestamp> {
    let digits = std::str::from_utf8(element.content).ok()?.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (element.tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year: i16 = digits[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (digits[..4].parse().ok()?, &digits[4..]),
        _ => return None,
    };
    let part = |index: usize| rest[index * 2..index * 2 + 2].parse::<i8>().ok();
    let at = DateTime::new(year, part(0)?, part(1)?, part(2)?, part(3)?, part(4)?, 0).ok()?;
    Some(at.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn elements_end_where_they_say() {
        let read = |input: &[u8]| {
            elements(input).map(|found| found.iter().map(|it| it.content.len()).collect::<Vec<_>>())
        };
        assert_eq!(read(&[]), Some(vec![]));
        assert_eq!(read(&[4, 1, 0, 4, 0x81, 2, 0, 0]), Some(vec![1, 2]));
        assert_eq!(read(&[4, 2, 0]), None);
        assert_eq!(read(&[4, 0x80, 0]), None);
        assert_eq!(read(&[4, 0x85, 0, 0, 0, 0, 0]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (validity(&bytes), extensions(&bytes));
        }
    }
}
