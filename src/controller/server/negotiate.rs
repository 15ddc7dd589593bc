//! The headers of a request: conditions, ranges and encodings.
//!
//! Pure; the rules are those of RFC 9110 as upstream's file server applies them (catalogs.md 3.3).

use std::ops::Range;

use http::header::{
    ACCEPT_ENCODING, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, RANGE,
};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};

/// The validators of one state of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Validators {
    /// The whole weak entity tag, for example `W/"sha256:..."`.
    pub(super) etag: String,
    /// In whole seconds.
    pub(super) modified: Timestamp,
}

/// Which bytes are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    Whole,
    Part(Range<u64>),
    /// None that exist, or text that is not a range.
    Unsatisfiable,
}

/// An encoding of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
    Zstd,
}

/// Returns a time as HTTP writes it.
pub(super) fn http_date(time: Timestamp) -> String {
    DateTimePrinter::new().timestamp_to_rfc9110_string(&time).unwrap_or_default()
}

/// Evaluates the conditional headers in the order of RFC 9110, section 13.2.2. Returns the status that
/// ends the request, if one does.
///
/// Our tags are weak, so `If-Match` holds for `*` alone. A date that does not parse is ignored.
pub(super) fn check(headers: &HeaderMap, validators: &Validators) -> Option<StatusCode> {
    if let Some(wanted) = text(headers, &IF_MATCH) {
        if !tags(&wanted).any(|tag| tag == "*") {
            return Some(StatusCode::PRECONDITION_FAILED);
        }
    } else if date(headers, &IF_UNMODIFIED_SINCE).is_some_and(|date| validators.modified > date) {
        return Some(StatusCode::PRECONDITION_FAILED);
    }
    if let Some(held) = text(headers, &IF_NONE_MATCH) {
        let opaque = |tag: &str| tag.trim_start_matches("W/").to_owned();
        if tags(&held).any(|tag| tag == "*" || opaque(tag) == opaque(&validators.etag)) {
            return Some(StatusCode::NOT_MODIFIED);
        }
    } else if date(headers, &IF_MODIFIED_SINCE).is_some_and(|date| validators.modified <= date) {
        return Some(StatusCode::NOT_MODIFIED);
    }
    None
}

/// Returns the best encoding the client takes: zstd before gzip where it likes both equally, the
/// plain bytes where it takes neither.
pub(super) fn encoding(headers: &HeaderMap) -> Encoding {
    let Some(accepted) = text(headers, &ACCEPT_ENCODING) else { return Encoding::Identity };
    let mut other = 0;
    let (mut gzip, mut zstd) = (None, None);
    for item in accepted.split(',') {
        let mut parts = item.split(';');
        let name = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let weight =
            parts.find_map(|part| part.trim().strip_prefix("q=")).map_or(1000, thousandths);
        match name.as_str() {
            "gzip" => gzip = Some(weight),
            "zstd" => zstd = Some(weight),
            "*" => other = weight,
            _ => {}
        }
    }
    let (gzip, zstd) = (gzip.unwrap_or(other), zstd.unwrap_or(other));
    match (gzip, zstd) {
        (0, 0) => Encoding::Identity,
        (gzip, zstd) if zstd >= gzip => Encoding::Zstd,
        _ => Encoding::Gzip,
    }
}

/// Returns the weight of an encoding in thousandths, 0 when it is not a number from 0 to 1.
fn thousandths(weight: &str) -> u16 {
    let (whole, fraction) = weight.split_once('.').unwrap_or((weight, ""));
    match whole {
        "1" => 1000,
        "0" => {
            format!("{fraction:0<3}").get(..3).and_then(|digits| digits.parse().ok()).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Returns which bytes a request asks for, of a resource of `len` bytes. Several ranges are answered
/// with all of it, as RFC 9110, section 14.2, allows.
pub(super) fn asked(headers: &HeaderMap, validators: &Validators, len: u64) -> Asked {
    let Some(wanted) = text(headers, &RANGE) else { return Asked::Whole };
    // A weak tag never allows a range; a date does if it is exactly ours.
    if let Some(condition) = text(headers, &IF_RANGE)
        && parse_date(&condition) != Some(validators.modified)
    {
        return Asked::Whole;
    }
    let Some(wanted) = wanted.strip_prefix("bytes=") else { return Asked::Unsatisfiable };
    if wanted.contains(',') {
        return Asked::Whole;
    }
    match range(wanted.trim(), len) {
        Some(range) if !range.is_empty() => Asked::Part(range),
        Some(_) | None => Asked::Unsatisfiable,
    }
}

/// Reads one range: `a-b`, `a-` or `-n`. Empty when it lies behind the end.
fn range(item: &str, len: u64) -> Option<Range<u64>> {
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    };
    let (first, last) = item.split_once('-')?;
    let (first, last) = (first.trim(), last.trim());
    if first.is_empty() {
        let suffix: u64 = number(last)?;
        return Some(len - suffix.min(len)..len);
    }
    let start: u64 = number(first)?;
    let end = if last.is_empty() {
        len
    } else {
        let last: u64 = number(last)?;
        if last < start {
            return None;
        }
        last.saturating_add(1).min(len)
    };
    Some(start.min(end)..end)
}

fn tags(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim)
}

/// Returns the values of a header, joined as HTTP says several lines are.
fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let values: Vec<_> =
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<Timestamp> {
    parse_date(&text(headers, name)?)
}

fn parse_date(text: &str) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(text.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const NOT_MODIFIED: Option<StatusCode> = Some(StatusCode::NOT_MODIFIED);
    const FAILED: Option<StatusCode> = Some(StatusCode::PRECONDITION_FAILED);
    const MODIFIED: &str = "Tue, 14 Nov 2023 22:13:20 GMT";

    fn validators() -> Validators {
        Validators {
            etag: "W/\"sha256:1\"".to_owned(),
            modified: Timestamp::from_second(1_700_000_000).unwrap(),
        }
    }

    fn headers(list: &[(HeaderName, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn dates_are_written_and_read() {
        assert_eq!(http_date(validators().modified), MODIFIED);
        assert_eq!(parse_date(MODIFIED), Some(validators().modified));
    }

    // catalogs.md H5, H6, 3.3
    #[rstest]
    #[case::none(&[], None)]
    #[case::same_time(&[(IF_MODIFIED_SINCE, MODIFIED)], NOT_MODIFIED)]
    #[case::older(&[(IF_MODIFIED_SINCE, "Tue, 14 Nov 2023 22:13:19 GMT")], None)]
    #[case::nonsense(&[(IF_MODIFIED_SINCE, "nonsense")], None)]
    #[case::tag(&[(IF_NONE_MATCH, "\"x\", W/\"sha256:1\"")], NOT_MODIFIED)]
    #[case::strong_spelling(&[(IF_NONE_MATCH, "\"sha256:1\"")], NOT_MODIFIED)]
    #[case::any(&[(IF_NONE_MATCH, "*")], NOT_MODIFIED)]
    #[case::other_tag_disables_the_date(&[(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, MODIFIED)], None)]
    #[case::if_match(&[(IF_MATCH, "W/\"sha256:1\"")], FAILED)]
    #[case::if_match_any(&[(IF_MATCH, "*")], None)]
    #[case::unmodified(&[(IF_UNMODIFIED_SINCE, MODIFIED)], None)]
    #[case::modified(&[(IF_UNMODIFIED_SINCE, "Tue, 14 Nov 2023 22:13:19 GMT")], FAILED)]
    fn conditions(#[case] list: &[(HeaderName, &str)], #[case] ends: Option<StatusCode>) {
        assert_eq!(check(&headers(list), &validators()), ends);
    }

    // catalogs.md H8
    #[rstest]
    #[case("gzip", Encoding::Gzip)]
    #[case("gzip, zstd", Encoding::Zstd)]
    #[case("gzip;q=1, zstd;q=0.5", Encoding::Gzip)]
    #[case("gzip;q=0", Encoding::Identity)]
    #[case("br", Encoding::Identity)]
    #[case("*", Encoding::Zstd)]
    #[case("*;q=0.1, zstd;q=0", Encoding::Gzip)]
    #[case("GZIP; q=0.333", Encoding::Gzip)]
    #[case("gzip;q=x", Encoding::Identity)]
    #[case("", Encoding::Identity)]
    fn encodings(#[case] accepted: &str, #[case] want: Encoding) {
        assert_eq!(encoding(&headers(&[(ACCEPT_ENCODING, accepted)])), want);
    }

    // catalogs.md 3.3, H4
    #[rstest]
    #[case("bytes=0-9", Asked::Part(0..10))]
    #[case("bytes= 0-9 ", Asked::Part(0..10))]
    #[case("bytes=90-", Asked::Part(90..100))]
    #[case("bytes=-10", Asked::Part(90..100))]
    #[case("bytes=-1000", Asked::Part(0..100))]
    #[case("bytes=50-1000", Asked::Part(50..100))]
    #[case("bytes=0-99999999999999999999", Asked::Unsatisfiable)]
    #[case("bytes=100-", Asked::Unsatisfiable)]
    #[case("bytes=9-5", Asked::Unsatisfiable)]
    #[case("bytes=x", Asked::Unsatisfiable)]
    #[case("bytes=", Asked::Unsatisfiable)]
    #[case("lines=1-2", Asked::Unsatisfiable)]
    #[case::several("bytes=0-0,50-59", Asked::Whole)]
    fn byte_ranges(#[case] wanted: &str, #[case] want: Asked) {
        let headers = headers(&[(RANGE, wanted)]);
        assert_eq!(asked(&headers, &validators(), 100), want);
    }

    #[rstest]
    #[case(MODIFIED, true)]
    #[case("Tue, 14 Nov 2023 22:13:21 GMT", false)]
    #[case("W/\"sha256:1\"", false)]
    fn range_conditions(#[case] condition: &str, #[case] partial: bool) {
        let headers = headers(&[(RANGE, "bytes=0-9"), (IF_RANGE, condition)]);
        let whole = asked(&headers, &validators(), 100) == Asked::Whole;
        assert_eq!(whole, !partial);
    }

    proptest! {
        #[test]
        fn ranges_stay_inside(text in "(bytes=)?[-0-9, ]{0,20}", len in 0u64..50) {
            let headers = headers(&[(RANGE, &text)]);
            if let Asked::Part(part) = asked(&headers, &validators(), len) {
                prop_assert!(part.start < part.end && part.end <= len);
            }
        }
    }
}
