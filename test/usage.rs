//! The resources that a process uses.

use std::fmt;
use std::fs;

/// Clock ticks per second: what Linux reports to user space on every architecture.
const TICKS: f64 = 100.0;

/// Memory, processor time and open files of a process.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Resident memory in KiB.
    pub resident: u64,
    /// The highest resident memory so far, in KiB.
    pub peak: u64,
    /// Processor time so far, in seconds.
    pub cpu: f64,
    /// Open descriptors, connections among them.
    pub descriptors: usize,
}

impl Usage {
    /// Reads what the process `pid` uses.
    pub fn of(pid: u32) -> Self {
        let read = |file: &str| {
            fs::read_to_string(format!("/proc/{pid}/{file}")).expect("the process runs")
        };
        let status = read("status");
        let kibibytes = |field: &str| {
            let line = status.lines().find(|line| line.starts_with(field));
            let number = line.and_then(|line| line.split_whitespace().nth(1));
            number.and_then(|text| text.parse().ok()).unwrap_or_default()
        };
        // The second field is the name in parentheses and may contain blanks.
        let stat = read("stat");
        let (_, fields) = stat.rsplit_once(") ").expect("proc(5)");
        let ticks: f64 =
            fields.split(' ').skip(11).take(2).filter_map(|text| text.parse::<f64>().ok()).sum();
        Self {
            resident: kibibytes("VmRSS:"),
            peak: kibibytes("VmHWM:"),
            cpu: ticks / TICKS,
            descriptors: fs::read_dir(format!("/proc/{pid}/fd"))
                .expect("the process is ours")
                .count(),
        }
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (resident, peak) = (self.resident / 1024, self.peak / 1024);
        write!(
            out,
            "{resident} MiB resident (peak {peak} MiB), {:.2} CPU s, {} descriptors",
            self.cpu, self.descriptors
        )
    }
}

#[test]
fn a_process_can_measure_itself() {
    let usage = Usage::of(std::process::id());
    assert!(usage.resident > 0 && usage.peak >= usage.resident && usage.cpu >= 0.0);
}
