//! The kernel's figures of this process, read from `/proc` at each scrape (proc(5)).

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::metric::Metric;
use super::{logging, names};

/// Registers the process's own metrics, and the version of the program.
pub fn register(registry: &mut Registry) {
    names::BUILD.register(
        registry,
        Info::new([("version", env!("CARGO_PKG_VERSION"))]),
    );
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    registry.register_collector(Box::new(Process {
        start: since.unwrap_or_default().as_secs_f64(),
    }));
}

#[derive(Debug)]
struct Process {
    start: f64,
}

impl Collector for Process {
    /// Encodes the figures that can be read, and leaves out the others.
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let mut put = |metric: Metric, value: &dyn ProcessValue| value.put(&mut encoder, metric);
        put(
            names::PROCESS_START_TIME,
            &Some(ConstGauge::new(self.start)),
        )?;
        let stat = std::fs::read_to_string("/proc/self/stat").ok();
        let stat = stat.as_deref().and_then(Stat::parse);
        put(names::PROCESS_CPU, &stat.map(|s| ConstCounter::new(s.cpu)))?;
        put(
            names::PROCESS_RESIDENT_MEMORY,
            &stat.map(|s| ConstGauge::new(s.resident)),
        )?;
        put(
            names::PROCESS_THREADS,
            &stat.map(|s| ConstGauge::new(s.threads)),
        )?;
        put(names::PROCESS_OPEN_FDS, &open_fds().map(ConstGauge::new))?;
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        put(names::PROCESS_MAX_FDS, &limit.current.map(ConstGauge::new))?;
        let dropped = ConstCounter::new(logging::dropped_lines());
        put(names::LOG_LINES_DROPPED, &Some(dropped))
    }
}

/// A value read just now, or none.
trait ProcessValue {
    fn put(&self, encoder: &mut DescriptorEncoder, metric: Metric) -> std::fmt::Result;
}

impl<M: EncodeMetric> ProcessValue for Option<M> {
    fn put(&self, encoder: &mut DescriptorEncoder, metric: Metric) -> std::fmt::Result {
        let Some(value) = self else { return Ok(()) };
        let Metric { name, help, .. } = metric;
        let kind = value.metric_type();
        value.encode(encoder.encode_descriptor(name, help, None, kind)?)
    }
}

/// Counts the open descriptors, without the one that reads the directory.
fn open_fds() -> Option<u64> {
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(count.saturating_sub(1)).ok()
}

/// The exposed fields of `/proc/self/stat`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stat {
    /// Processor time in seconds.
    cpu: f64,
    threads: u64,
    /// Resident memory in bytes.
    resident: u64,
}

impl Stat {
    /// Parses a line. Fields are counted from behind the command's name, which may hold spaces and
    /// parentheses; the first there is the third of proc(5).
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text
            .get(text.rfind(')')? + 1..)?
            .split_whitespace()
            .collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let ticks = rustix::param::clock_ticks_per_second();
        let page = u64::try_from(rustix::param::page_size()).ok()?;
        Some(Self {
            cpu: (field(14)? + field(15)?) as f64 / ticks as f64,
            threads: field(20)?,
            resident: field(24)? * page,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_past_a_name_with_spaces_and_parentheses() {
        let line = "7 (a) b) (c) S 1 7 7 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 9 0 1000 123456 42 \
                    18446744073709551615 1 1";
        let stat = Stat::parse(line).expect("a whole line");
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert!((stat.cpu - 200.0 / ticks).abs() < 1e-9);
        assert_eq!(stat.threads, 9);
        assert_eq!(stat.resident, 42 * rustix::param::page_size() as u64);
        assert_eq!(Stat::parse("7 (x) S 1"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn open_files_are_counted() {
        // Other tests open and close files meanwhile, so many are opened here.
        let before = open_fds().expect("/proc is there");
        let held: Vec<_> = (0..500)
            .map(|_| std::fs::File::open("/proc/self/stat").expect("opens"))
            .collect();
        let during = open_fds().expect("/proc is there");
        assert!(during > before + 250, "{before} {during}");
        drop(held);
    }
}
