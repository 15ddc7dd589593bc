//! Draws what a program prints as an animated picture of a terminal, for the README.
//!
//! In: lines on standard input, and the moment at which each of them comes. Out: the same lines on
//! standard output, and an SVG that plays them again and again by CSS alone; a viewer without
//! animation shows the last screen. It is not a terminal: of all escape sequences only bold, dim
//! and reset count, and nothing moves the cursor.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read as _, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, iter};

use anyhow::{Context as _, ensure};
use clap::Args;
use olm_core::error::printable;

/// The most lines that are kept and written: more than anyone watches.
const MOST_LINES: usize = 2_000;
/// Bytes of one line, its end and its escape sequences included.
const MOST_LINE_BYTES: u16 = 16 * 1024;
/// The shortest and the longest time between two lines.
const SHORTEST: Duration = Duration::from_millis(30);
const LONGEST: Duration = Duration::from_millis(800);
/// The longest time until the last line, and the time for which the last screen stays.
const MOST_TIME: Duration = Duration::from_secs(45);
const REST: Duration = Duration::from_secs(6);

const COLUMNS: usize = 100;
const TITLE_COLUMNS: usize = 80;
const TAB: usize = 8;
/// Pixels: a row, all rows of the screen, the window, and from the foot of a row to its baseline.
const ROW: usize = 18;
const SCREEN: usize = 30 * ROW;
const WIDTH: usize = 820;
const HEIGHT: usize = 596;
const BASELINE: usize = 5;

const STYLE: &str = r#"text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#c9d1d9;white-space:pre}
.bold{font-weight:700;fill:#f0f6fc}
.dim,.title{fill:#8b949e}
.title{text-anchor:middle}
.window{fill:#0d1117;stroke:#30363d}
.bar{stroke:#30363d}
.button{fill:#30363d}
.cover{fill:#0d1117}
@media (prefers-reduced-motion:reduce){.cover,.scroll{animation:none!important}}"#;

/// Flags of `xtask terminal`.
#[derive(Debug, Args)]
pub(crate) struct TerminalArgs {
    /// The SVG to write
    file: PathBuf,
    /// The text in the title bar
    #[arg(long, default_value = "Terminal")]
    title: String,
}

/// A line as it was read, escape sequences included, and when it came, counted from the start.
struct Line {
    at: Duration,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Bold,
    Dim,
}

/// Reads standard input to its end, copies it to standard output, and writes the picture of it.
pub(crate) fn run(args: &TerminalArgs) -> anyhow::Result<()> {
    let lines = record(io::stdin().lock(), io::stdout().lock())?;
    ensure!(!lines.is_empty(), "standard input was empty");
    fs::write(&args.file, svg(&lines, &args.title))
        .with_context(|| format!("write {}", args.file.display()))
}

/// Returns the lines of `from`, each of which is copied as soon as it comes.
fn record(mut from: impl BufRead, mut to: impl Write) -> anyhow::Result<Vec<Line>> {
    let start = Instant::now();
    let mut lines = Vec::new();
    loop {
        let mut bytes = Vec::new();
        let mut line = from.by_ref().take(MOST_LINE_BYTES.into());
        line.read_until(b'\n', &mut bytes).context("read standard input")?;
        if bytes.is_empty() {
            return Ok(lines);
        }
        let at = start.elapsed();
        to.write_all(&bytes)?;
        to.flush()?;
        ensure!(lines.len() < MOST_LINES, "more than {MOST_LINES} lines");
        ensure!(
            bytes.len() < usize::from(MOST_LINE_BYTES),
            "a line of {MOST_LINE_BYTES} bytes or more"
        );
        lines.push(Line { at, text: without_random(&String::from_utf8_lossy(&bytes)) });
    }
}

/// Returns the text with the demo's folder, which `mktemp` ends with six random characters, named the
/// same in every run.
fn without_random(text: &str) -> String {
    let mut parts = text.split("/tmp/olm-demo-");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| match part.split_at_checked(6) {
        Some((random, after)) if random.bytes().all(|it| it.is_ascii_alphanumeric()) => {
            format!("{before}/tmp/olm-demo{after}")
        }
        _ => format!("{before}/tmp/olm-demo-{part}"),
    })
}

/// Returns the picture.
///
/// All lines stand below each other in a group of which one screen can be seen. As lines come, a
/// cover in the colour of the screen moves down row by row; once it has left the screen, the group
/// moves up. Without animation the cover is outside and the group is where it ends.
fn svg(lines: &[Line], title: &str) -> String {
    let times = times(lines);
    let total = times.last().copied().unwrap_or_default() + REST;
    let start = "0%{transform:translateY(0)}";
    let (mut cover, mut scroll) = (start.to_owned(), start.to_owned());
    let mut text = String::new();
    for ((line, at), foot) in iter::zip(lines, times).zip((ROW..).step_by(ROW)) {
        let percent = at.div_duration_f64(total) * 100.0;
        let _ = if foot <= SCREEN {
            write!(cover, "\n{percent:.3}%{{transform:translateY({foot}px)}}")
        } else {
            write!(scroll, "\n{percent:.3}%{{transform:translateY(-{}px)}}", foot - SCREEN)
        };
        let (y, spans) = (foot - BASELINE, spans(&line.text, COLUMNS));
        let _ = writeln!(text, r#"<text y="{y}">{spans}</text>"#);
    }
    let scrolled = (lines.len() * ROW).saturating_sub(SCREEN);
    let (seconds, title) = (total.as_secs_f64(), spans(title, TITLE_COLUMNS));
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" xml:space="preserve">
<style>
{STYLE}
.cover{{animation:cover {seconds:.2}s step-end infinite}}
.scroll{{animation:scroll {seconds:.2}s step-end infinite}}
@keyframes cover{{{cover}}}
@keyframes scroll{{{scroll}}}
</style>
<clipPath id="screen"><rect width="{WIDTH}" height="{SCREEN}"/></clipPath>
<rect class="window" x=".5" y=".5" width="819" height="595" rx="8"/>
<path class="bar" d="M1 36.5h818"/>
<circle class="button" cx="20" cy="18" r="6"/><circle class="button" cx="40" cy="18" r="6"/><circle class="button" cx="60" cy="18" r="6"/>
<text class="title" x="410" y="23">{title}</text>
<g transform="translate(18 46)" clip-path="url(#screen)">
<g class="scroll" transform="translate(0 -{scrolled})">
{text}</g>
<rect class="cover" width="790" height="{SCREEN}" transform="translate(0 {SCREEN})"/>
</g>
</svg>
"#
    )
}

/// Returns the time of each line, never earlier than that of the line above.
fn times(lines: &[Line]) -> Vec<Duration> {
    let (mut before, mut shown) = (Duration::ZERO, Duration::ZERO);
    let mut times = Vec::new();
    for line in lines {
        shown += line.at.saturating_sub(before).clamp(SHORTEST, LONGEST);
        before = line.at;
        times.push(shown);
    }
    if shown > MOST_TIME {
        let scale = MOST_TIME.div_duration_f64(shown);
        for time in &mut times {
            *time = time.mul_f64(scale);
        }
    }
    times
}

/// Returns the text as XML; a text wider than that many columns ends with `…`.
fn spans(text: &str, columns: usize) -> String {
    let mut cells = cells(text);
    if cells.len() > columns {
        cells.truncate(columns - 1);
        cells.push((Style::Plain, '…'));
    }
    let mut xml = String::new();
    for run in cells.chunk_by(|(one, _), (next, _)| one == next) {
        let text: String = run.iter().map(|(_, character)| character).collect();
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = match run.first().map(|(style, _)| style) {
            Some(Style::Bold) => write!(xml, r#"<tspan class="bold">{text}</tspan>"#),
            Some(Style::Dim) => write!(xml, r#"<tspan class="dim">{text}</tspan>"#),
            Some(Style::Plain) | None => write!(xml, "{text}"),
        };
    }
    xml
}

/// Returns the visible part of the text, one character per column.
fn cells(text: &str) -> Vec<(Style, char)> {
    let mut cells = Vec::new();
    let mut style = Style::Plain;
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => {
                let (after, set) = escape_sequence(rest.as_str());
                rest = after.chars();
                style = set.unwrap_or(style);
            }
            '\t' => cells.resize((cells.len() / TAB + 1) * TAB, (style, ' ')),
            seen if printable(seen) == seen => cells.push((style, seen)),
            _ => {}
        }
    }
    cells
}

/// Returns what follows the escape sequence whose first character, ESC, has been read, and the
/// style it sets. Where a string (of a title, say) ends with BEL or ESC, that is left.
fn escape_sequence(text: &str) -> (&str, Option<Style>) {
    if let Some(text) = text.strip_prefix('[') {
        let end = text.trim_start_matches(|it| matches!(it, ' '..='?'));
        let number = text.strip_suffix(end).unwrap_or_default();
        let style = match (number, end.starts_with('m')) {
            ("" | "0", true) => Some(Style::Plain),
            ("1", true) => Some(Style::Bold),
            ("2", true) => Some(Style::Dim),
            _ => None,
        };
        return (end.strip_prefix(|it| matches!(it, '@'..='~')).unwrap_or(end), style);
    }
    if let Some(text) = text.strip_prefix([']', 'P', 'X', '^', '_']) {
        return (text.trim_start_matches(|it| !matches!(it, '\u{7}' | '\u{1b}')), None);
    }
    let end = text.trim_start_matches(|it| matches!(it, ' '..='/'));
    (end.strip_prefix(|it| matches!(it, '0'..='~')).unwrap_or(end), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seconds: u64, text: &str) -> Line {
        Line { at: Duration::from_secs(seconds), text: without_random(text) }
    }

    #[test]
    fn text_is_escaped_styled_and_cut() {
        assert_eq!(spans("a < b & c", 20), "a &lt; b &amp; c");
        let bold = r#"<tspan class="bold">1.</tspan> x <tspan class="dim">$ y</tspan>"#;
        assert_eq!(spans("\u{1b}[1m1.\u{1b}[0m x \u{1b}[2m$ y\u{1b}[0m", 20), bold);
        assert_eq!(spans("abcdef", 4), "abc…");
    }

    #[test]
    fn what_would_move_the_cursor_is_dropped() {
        let hostile = "a\u{1b}]0;title\u{7}b\u{1b}[2Jc\u{1b}[10;5Hd\u{0}e\u{1b}(Bf\r\u{1b}[31";
        assert_eq!(spans(hostile, 20), "abcdef");
    }

    #[test]
    fn folders_of_a_run_have_one_name() {
        assert_eq!(
            without_random("/tmp/olm-demo-AbC123/x /tmp/olm-demo-"),
            "/tmp/olm-demo/x /tmp/olm-demo-"
        );
    }

    #[test]
    fn times_never_go_back_and_end_in_time() {
        let lines: Vec<Line> = (0..200).map(|at| line(at * 5 % 90, "x")).collect();
        let times = times(&lines);
        assert!(times.is_sorted());
        assert!(times.last().is_some_and(|last| *last <= MOST_TIME));
    }

    #[test]
    fn the_picture_shows_the_last_screen_without_control_characters() {
        let wide = "w".repeat(COLUMNS + 1);
        let text = format!("\u{1b}]0;x\u{7}\u{0}\u{1b}[2J{wide}\u{1b}[3\n");
        let lines: Vec<Line> = (0..40).map(|at| line(at, &text)).collect();
        let picture = svg(&lines, "make\u{7} demo");
        assert!(!picture.contains(|it: char| it.is_control() && it != '\n'));
        let row = format!(">{}…</text>", "w".repeat(COLUMNS - 1));
        assert_eq!(picture.matches(&row).count(), 40);
        assert!(picture.contains("translate(0 -180)"), "ten lines are above the screen");
    }
}
