//! Which build the process is, and what it takes of the machine, under the names every Prometheus
//! client uses.
//!
//! In: the clock of the process and `/proc/self`. What cannot be read keeps its last value.

use std::fs;
use std::sync::atomic::AtomicU64;

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use rustix::time::{ClockId, clock_gettime};

use super::Label;
use super::registered::{Registered, metrics};
use crate::version::BUILD;

metrics! {
    Process {
        build: Family<Label<&'static str, 2>, Gauge> = "olm_build_info", "Which build this is";
        cpu: Counter<f64, AtomicU64> =
            "process_cpu_seconds", "CPU time that the process has used";
        memory: Gauge = "process_resident_memory_bytes", "Resident memory of the process";
        open_files: Gauge = "process_open_fds", "Open file descriptors";
        max_files: Gauge = "process_max_fds", "Limit of open file descriptors";
        start: Gauge =
            "process_start_time_seconds", "Start time of the process, in seconds since 1970";
    }
}

/// Registers the metrics of the process, whose beginning is now.
pub(super) fn register(registered: &mut Registered) {
    let process = Process::new(registered);
    let build = [("version", BUILD.version), ("commit", BUILD.commit())];
    process.build.get_or_create(&build).set(1);
    process.start.set(Timestamp::now().as_second());
    registered.refresh_with(move || process.refresh());
}

impl Process {
    fn refresh(&self) {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        #[expect(clippy::cast_precision_loss, reason = "seconds of a process fit into 52 bits")]
        let seconds = now.tv_sec as f64 + now.tv_nsec as f64 / 1e9;
        self.cpu.inc_by((seconds - self.cpu.get()).max(0.0));
        if let Some(kibibytes) = number("/proc/self/status", "VmRSS:") {
            self.memory.set(kibibytes.saturating_mul(1024));
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // One of them is the folder itself.
            let open = files.count().saturating_sub(1);
            self.open_files.set(i64::try_from(open).unwrap_or(i64::MAX));
        }
        if let Some(limit) = number("/proc/self/limits", "Max open files") {
            self.max_files.set(limit);
        }
    }
}

/// Returns the word behind `key` in a file of the kernel, if it is a number.
fn number(file: &str, key: &str) -> Option<i64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_sees_itself() {
        let mut registered = Registered::default();
        register(&mut registered);
        let text = registered.encode();
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
        };
        assert!(value("process_cpu_seconds_total") > 0.0);
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_max_fds") >= value("process_open_fds"));
        assert!(value("process_start_time_seconds") > 1.7e9);
    }
}
