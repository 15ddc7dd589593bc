//! Progress of long operations, on stderr: one line where a terminal can rewrite it, otherwise lines.
//!
//! Source: plugin.md 1.3.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use olm_image::pull::Transfer;

use super::screen::escaped;
use super::{is_quiet, notice};

/// Shorter operations are not reported.
const BEGIN: Duration = Duration::from_millis(500);
const MOVE: Duration = Duration::from_millis(100);
const LINE: Duration = Duration::from_secs(10);

/// Does work that takes the processor, and shows that it goes on.
pub(crate) async fn during_blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    during(what, &Transfer::default(), tokio::task::spawn_blocking(work)).await?
}

/// Does work, and shows how far it is by what was transferred.
pub(crate) async fn during<T>(what: &str, transfer: &Transfer, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    let begun = Instant::now();
    if is_quiet() {
        return work.await;
    }
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(BEGIN) => {}
    }
    let on_terminal = can_rewrite();
    loop {
        let now = || line(what, &transfer.done, &transfer.total, begun.elapsed());
        if on_terminal {
            rewrite(&now());
        } else {
            notice(&now());
        }
        tokio::select! {
            ended = &mut work => {
                if on_terminal {
                    rewrite("");
                } else if transfer.done.load(Ordering::Relaxed) == 0 {
                    notice(&format!("{what}: done"));
                } else {
                    notice(&now());
                }
                return ended;
            }
            () = tokio::time::sleep(if on_terminal { MOVE } else { LINE }) => {}
        }
    }
}

/// Returns whether stderr is a terminal that knows the escape sequences of [`rewrite`].
fn can_rewrite() -> bool {
    let is_known = |kind: OsString| !kind.is_empty() && kind != "dumb";
    cfg!(unix) && io::stderr().is_terminal() && env::var_os("TERM").is_some_and(is_known)
}

/// Writes over the line of a terminal, which cuts it at its edge. The cursor stays behind the text,
/// so that what the shell writes after an interrupt does not cover it.
fn rewrite(line: &str) {
    let _ = write!(io::stderr().lock(), "\r\u{1b}[?7l{}\u{1b}[K\u{1b}[?7h", escaped(line));
}

/// Returns the progress, for example `pulling a/b:1: 12.3 of 45.1 MB`; without a total also for how
/// long it has gone on, so that what is slow does not look as if it had stopped.
fn line(what: &str, done: &AtomicU64, total: &AtomicU64, since: Duration) -> String {
    let seconds = since.as_secs();
    let megabytes = |bytes: u64| format!("{}.{}", bytes / 1_000_000, bytes / 100_000 % 10);
    match (done.load(Ordering::Relaxed), total.load(Ordering::Relaxed)) {
        (0, 0) => format!("{what}, {seconds} s"),
        (done, 0) => format!("{what}: {} MB, {seconds} s", megabytes(done)),
        (done, total) => format!("{what}: {} of {} MB", megabytes(done), megabytes(total)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // plugin.md U20
    #[test]
    fn a_line_says_how_far_it_is() {
        for (done, total, want) in [
            (0, 0, "pulling a, 12 s"),
            (1_260_000, 0, "pulling a: 1.2 MB, 12 s"),
            (12_345_678, 45_100_000, "pulling a: 12.3 of 45.1 MB"),
        ] {
            let (done, total) = (AtomicU64::new(done), AtomicU64::new(total));
            assert_eq!(line("pulling a", &done, &total, Duration::from_millis(12_900)), want);
        }
    }
}
