//! Resources of the node for this process: open files and threads (deploying.md 5.4).

use std::io;
use std::thread::available_parallelism;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Open files that are asked for.
const OPEN_FILES: u64 = 65536;
/// With fewer the log warns.
const FEW_OPEN_FILES: u64 = 1024;
/// Least threads that run tasks: one that computes must not keep probes and Leases waiting.
const MIN_WORKERS: usize = 2;
/// Most threads that run tasks.
const MAX_WORKERS: usize = 8;
/// Threads for work that blocks: files, unpacking, compressing. A download holds one as long as it
/// lasts, and its names are looked up on another: with few of them, slow registries would stop each
/// other and the catalog server.
const BLOCKING: usize = 128;

/// Raises the soft limit of open files, as Go does by itself: container runtimes leave it at 1024.
pub fn raise_open_files() {
    let limits = getrlimit(Resource::Nofile);
    let wanted = open_files(&limits);
    let raised = match wanted {
        Some(current) => set(Rlimit { current: Some(current), ..limits }),
        None => Ok(()),
    };
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    let usable = getrlimit(Resource::Nofile).current;
    if let Some(usable) = usable.filter(|usable| *usable < FEW_OPEN_FILES) {
        tracing::warn!(usable, "the limit of open files is low: raise the hard limit (nofile)");
    }
}

fn set(limits: Rlimit) -> io::Result<()> {
    setrlimit(Resource::Nofile, limits).map_err(io::Error::from)
}

/// Returns the soft limit to be set, if it is to be raised.
fn open_files(limits: &Rlimit) -> Option<u64> {
    let wanted = limits.maximum.map_or(OPEN_FILES, |hard| hard.min(OPEN_FILES));
    limits.current.is_some_and(|soft| soft < wanted).then_some(wanted)
}

/// Returns the runtime of the controller. The quota of the container counts as its processors.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let processors = available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors.clamp(MIN_WORKERS, MAX_WORKERS))
        .max_blocking_threads(BLOCKING)
        .enable_all()
        .build()
}

/// Runs work that computes for long: other tasks of this worker go on elsewhere meanwhile, where the
/// runtime has several workers.
pub fn compute<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(work),
        Ok(_) | Err(_) => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use rstest::rstest;

    use super::*;

    // deploying.md 5.4
    #[test]
    fn tasks_go_on_while_all_workers_compute() {
        let runtime = runtime().unwrap();
        let (mut ends, mut tasks) = (Vec::new(), Vec::new());
        for _ in 0..MAX_WORKERS {
            let (end, ended) = channel();
            let limit = Duration::from_secs(20);
            tasks.push(runtime.spawn(async move { compute(|| ended.recv_timeout(limit)) }));
            ends.push(end);
        }
        let ending = runtime.spawn(async move { ends.iter().try_for_each(|end| end.send(())) });
        runtime.block_on(ending).unwrap().unwrap();
        for task in tasks {
            runtime.block_on(task).unwrap().unwrap();
        }
    }

    #[test]
    fn what_is_computed_is_returned_in_every_runtime() {
        let alone = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(alone.block_on(async { compute(|| 1) }), 1);
        assert_eq!(compute(|| 2), 2);
    }

    // deploying.md P40
    #[rstest]
    #[case::containerd(Some(1024), Some(524_288), Some(65536))]
    #[case::low_hard_limit(Some(1024), Some(4096), Some(4096))]
    #[case::no_hard_limit(Some(1024), None, Some(65536))]
    #[case::enough(Some(100_000), Some(524_288), None)]
    #[case::nothing_to_raise(Some(1024), Some(1024), None)]
    #[case::no_limit(None, None, None)]
    fn open_files_are_raised_and_never_lowered(
        #[case] current: Option<u64>,
        #[case] maximum: Option<u64>,
        #[case] expected: Option<u64>,
    ) {
        assert_eq!(open_files(&Rlimit { current, maximum }), expected);
    }
}
