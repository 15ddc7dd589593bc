//! Progress of long operations, on stderr: a bar on a terminal, otherwise lines.
//!
//! Source: plugin.md 1.3.

use std::io::{self, IsTerminal as _};
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use olm_image::pull::Transfer;

use super::escape::escaped;
use super::{is_quiet, notice};

/// Shorter operations are not reported.
const BEGIN: Duration = Duration::from_millis(500);
const MOVE: Duration = Duration::from_millis(100);
const LINE: Duration = Duration::from_secs(10);
const WITH_END: &str = "{msg} [{wide_bar}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
const WITHOUT_END: &str = "{msg}: {bytes}, {elapsed}";
const WITHOUT_BYTES: &str = "{msg}, {elapsed}";

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
    if is_quiet() {
        return work.await;
    }
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(BEGIN) => {}
    }
    let on_terminal = io::stderr().is_terminal();
    let target =
        if on_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target).with_message(escaped(what));
    loop {
        let (done, total) =
            (transfer.done.load(Ordering::Relaxed), transfer.total.load(Ordering::Relaxed));
        if on_terminal {
            let style = match (done, total) {
                (0, 0) => WITHOUT_BYTES,
                (_, 0) => WITHOUT_END,
                _ => WITH_END,
            };
            // The templates are right.
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            if total > 0 {
                bar.set_length(total);
            }
            bar.set_position(done);
            bar.tick();
        } else {
            notice(&line(what, done, total));
        }
        tokio::select! {
            ended = &mut work => {
                bar.finish_and_clear();
                if !on_terminal {
                    notice(&match transfer.done.load(Ordering::Relaxed) {
                        0 => format!("{what}: done"),
                        done => line(what, done, total),
                    });
                }
                return ended;
            }
            () = tokio::time::sleep(if on_terminal { MOVE } else { LINE }) => {}
        }
    }
}

/// Returns the progress, for example `pulling a/b:1: 12.3 of 45.1 MB`.
fn line(what: &str, done: u64, total: u64) -> String {
    let megabytes = |bytes: u64| format!("{}.{}", bytes / 1_000_000, bytes / 100_000 % 10);
    match (done, total) {
        (0, 0) => format!("{what}..."),
        (done, 0) => format!("{what}: {} MB", megabytes(done)),
        (done, total) => format!("{what}: {} of {} MB", megabytes(done), megabytes(total)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // plugin.md U20
    #[test]
    fn a_line_says_how_far_it_is() {
        assert_eq!(line("pulling a", 0, 0), "pulling a...");
        assert_eq!(line("pulling a", 1_260_000, 0), "pulling a: 1.2 MB");
        assert_eq!(line("pulling a", 12_345_678, 45_100_000), "pulling a: 12.3 of 45.1 MB");
        for template in [WITH_END, WITHOUT_END, WITHOUT_BYTES] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
    }
}
