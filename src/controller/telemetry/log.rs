//! Log lines on stderr.

#[cfg(test)]
use std::io;
#[cfg(test)]
use std::sync::{Arc, Mutex};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::TryInitError;

/// The library warns of every watch that is refused. Accounts may be allowed less, and then less is
/// watched; what we ourselves are refused is logged by [`crate::cluster`].
const LIBRARY: &str = "kube_runtime::watcher=error";

/// Starts logging to stderr, for people or as one JSON object a line.
///
/// `directives` is a filter as the `tracing` ecosystem writes it, for example `info,kube=warn`;
/// parts that do not parse are ignored. Color is used only on a terminal and without `NO_COLOR`.
pub fn init_logging(json: bool, directives: &str) -> Result<(), TryInitError> {
    use std::io::IsTerminal as _;
    use tracing_subscriber::util::SubscriberInitExt as _;

    let filter = EnvFilter::builder().parse_lossy(format!("{LIBRARY},{directives}"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if json {
        return builder.json().flatten_event(true).finish().try_init();
    }
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    builder.with_ansi(color).finish().try_init()
}

/// What a test has logged.
#[cfg(test)]
#[derive(Clone, Default)]
pub(crate) struct Log(pub(crate) Arc<Mutex<Vec<u8>>>);

#[cfg(test)]
impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
