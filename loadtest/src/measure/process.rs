//! CPU time and memory of processes, from `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// A process and its descendants: a server with its workers.
#[derive(Debug, Clone, Copy)]
pub struct ProcessTree {
    root: u32,
}

/// CPU time and memory of a process tree so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// CPU time, in user and kernel mode.
    pub cpu: Duration,
    /// Peak resident memory in bytes, summed over the processes.
    pub peak_rss: u64,
}

impl std::ops::Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            peak_rss: self.peak_rss + other.peak_rss,
        }
    }
}

impl ProcessTree {
    /// Returns the tree of the process `root` and its descendants.
    #[must_use]
    pub const fn new(root: u32) -> Self {
        Self { root }
    }

    /// Returns the usage of all its processes so far.
    ///
    /// # Errors
    /// If the root process is gone.
    pub fn usage(self) -> Result<Usage> {
        let mut total = usage_of(self.root)?;
        for pid in descendants(self.root) {
            // A process that ended meanwhile is not counted.
            if let Ok(used) = usage_of(pid) {
                total = total + used;
            }
        }
        Ok(total)
    }

    /// Returns the resident memory of the root process alone, in bytes.
    ///
    /// # Errors
    /// If it is gone.
    pub fn resident(self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.root))?;
        field(&status, "VmRSS:").context("/proc/PID/status is not as expected")
    }

    /// Returns the resident memory of all its processes, in bytes.
    ///
    /// # Errors
    /// If the root process is gone.
    pub fn resident_of_all(self) -> Result<u64> {
        let of_others = descendants(self.root).into_iter();
        let of_others = of_others.filter_map(|pid| Self::new(pid).resident().ok());
        Ok(self.resident()? + of_others.sum::<u64>())
    }
}

/// The ticks of all the machine's processors so far.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    idle: u64,
    all: u64,
}

impl Machine {
    /// Reads the ticks up to this moment.
    ///
    /// # Errors
    /// If `/proc/stat` differs from proc_stat(5).
    pub fn now() -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        machine_ticks(&stat).context("/proc/stat is not as expected")
    }

    /// Returns the idle share of the time since `earlier`. If it is near zero, the figure measures
    /// the machine, not the peer.
    #[must_use]
    pub fn idle_share_since(self, earlier: Self) -> f64 {
        (self.idle - earlier.idle) as f64 / (self.all - earlier.all).max(1) as f64
    }
}

/// Parses the first line: user, nice, system, idle, iowait, irq, softirq, steal. Guest time is part
/// of user time.
fn machine_ticks(stat: &str) -> Option<Machine> {
    let fields = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .take(8);
    let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some(Machine {
        idle,
        all: ticks.iter().sum(),
    })
}

fn usage_of(pid: u32) -> Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} is gone"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(Usage {
        cpu: from_ticks(cpu_ticks(&stat).context("/proc/PID/stat is not as expected")?),
        peak_rss: peak_rss(&status).unwrap_or(0),
    })
}

/// Sums fields 14 and 15 of proc_pid_stat(5); the second field, a name, may hold spaces and
/// brackets.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse::<u64>(), fields.next()?.parse::<u64>());
    Some(user.ok()? + system.ok()?)
}

/// Returns `VmHWM` of proc_pid_status(5), in bytes.
fn peak_rss(status: &str) -> Option<u64> {
    field(status, "VmHWM:")
}

/// Returns a field of proc_pid_status(5) that is in KiB, in bytes.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

fn descendants(root: u32) -> Vec<u32> {
    let mut found = vec![];
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        let children = children_of(pid);
        found.extend(&children);
        open.extend(children);
    }
    found
}

fn children_of(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return vec![];
    };
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

fn from_ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 100 23 0 0 20 0 1 0 5 6 7";
        assert_eq!(cpu_ticks(stat), Some(123));
    }

    #[test]
    fn waiting_for_disks_is_idle_time_and_guests_are_not_counted_twice() {
        let before = machine_ticks("cpu  10 0 10 100 0 0 0 0 10 0\ncpu0 1 2").unwrap();
        let now = machine_ticks("cpu  40 0 40 130 10 0 0 0 30 0\n").unwrap();
        assert!((now.idle_share_since(before) - 0.4).abs() < 1e-9);
    }

    #[test]
    fn the_peak_is_read_in_bytes() {
        assert_eq!(
            peak_rss("Name:\tx\nVmHWM:\t    1234 kB\n"),
            Some(1234 * 1024)
        );
    }

    #[test]
    fn this_process_has_used_memory() {
        let used = ProcessTree::new(std::process::id()).usage().unwrap();
        assert!(used.peak_rss > 100_000);
    }
}
