//! How long each test takes and what it starts, for the table at the end of a run.
//!
//! A line a test or a started process goes to the file `$OLM_TEST_TIMES`; `hack/slowest.sh` makes
//! the table. Without the variable nothing is written.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write as _;
use std::time::Instant;

/// A test that runs; its line is written when the thread of the test ends.
struct Running {
    name: String,
    begun: Instant,
}

impl Drop for Running {
    fn drop(&mut self) {
        let seconds = self.begun.elapsed().as_secs_f64();
        write(&format!("test\t{seconds:.1}\t{}\n", self.name));
    }
}

thread_local! {
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// Begins to measure the test of this thread, which the test program has named after it; what it
/// waited for before, as its turn on a shared control plane, does not count.
pub fn begin() {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default().to_owned();
    RUNNING.with_borrow_mut(|running| {
        running.get_or_insert_with(|| Running { name, begun: Instant::now() });
    });
}

/// Counts a process that a test starts.
pub fn started(what: &str) {
    write(&format!("started\t1\t{what}\n"));
}

/// Appends with one write, because tests of several threads and programs share the file.
fn write(line: &str) {
    let Some(path) = std::env::var_os("OLM_TEST_TIMES") else { return };
    let file = File::options().create(true).append(true).open(path);
    // Never the reason for a test to fail.
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}
