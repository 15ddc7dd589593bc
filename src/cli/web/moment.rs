//! Times as people name them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Returns how long ago a time is: `3 minutes ago`.
pub(super) fn ago(time: &str) -> String {
    before(time, Timestamp::now())
}

/// Returns a time on the clock of this machine, with its time zone.
pub(super) fn exact(time: &str) -> String {
    let zoned = time.parse::<Timestamp>().map(|time| time.to_zoned(TimeZone::system()));
    zoned.map_or_else(
        |_| time.to_owned(),
        |zoned| zoned.strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
    )
}

fn before(time: &str, now: Timestamp) -> String {
    let Ok(then) = time.parse::<Timestamp>() else { return time.to_owned() };
    let seconds = now.as_second().saturating_sub(then.as_second());
    let (count, unit) = match seconds {
        ..60 => return "just now".to_owned(),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural} ago")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    #[test]
    fn times_are_named_by_how_long_ago_they_are() {
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        let times = cases::<(String, String)>("times_are_named_by_how_long_ago_they_are");
        for (name, (time, want)) in times {
            assert_eq!(before(&time, now), want, "{name}");
        }
    }
}
