//! Times as people name them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::output::age;

/// Returns how long ago a time is, as tables print it: `3m ago`.
pub(super) fn ago(time: &str) -> String {
    let then = time.parse::<Timestamp>();
    then.map_or_else(|_| time.to_owned(), |then| format!("{} ago", age(then, Timestamp::now())))
}

/// Returns a time on the clock of this machine, with its time zone.
pub(super) fn exact(time: &str) -> String {
    let zoned = time.parse::<Timestamp>().map(|time| time.to_zoned(TimeZone::system()));
    zoned.map_or_else(
        |_| time.to_owned(),
        |zoned| zoned.strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
    )
}
