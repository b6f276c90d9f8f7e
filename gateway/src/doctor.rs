//! `tidegate doctor`: measures memory, cache disks, networks and origins, and suggests settings.
//!
//! It measures the values that [`plan::diagnosis`](tidegate_plan::diagnosis) judges, each for a
//! bounded time and with a bounded number of bytes, and reports its progress. A part that cannot be
//! measured is named with the reason, and the rest goes on.
//!
//! Nothing is listed and nothing is written to an origin: rates are measured with an object that
//! the user names, by its path in the gateway's URLs. Without one, only the time of the bucket's
//! answer is measured. On disks it writes one file without a name, which is gone with the process,
//! however that ends.

mod disk;
mod memory;
mod network;
mod origin;
mod progress;
mod report;
mod scratch;
mod suggestions;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::link::LinkRoute;
use tidegate_config::Config;
use tidegate_origin::Origin;
use tidegate_plan::diagnosis::{CacheSizes, MeasuredDisk, Measurements, Rate, judge};
use tidegate_plan::{ByteSize, ObjectKey};

pub use progress::Progress;
pub use report::Report;
pub use suggestions::{Suggestion, suggestions};

/// The shortest time of a measurement that says something.
pub const MIN_TIME: Duration = Duration::from_millis(100);

/// The options of the measurements.
#[derive(Debug, Clone)]
pub struct DoctorOptions {
    /// Objects to measure origins with, as paths of the public listener, percent-encoded.
    pub objects: Vec<String>,
    /// The host that these paths belong to; needed if routes name hosts.
    pub host: Option<String>,
    /// Folders to measure beside those of the configuration.
    pub disks: Vec<PathBuf>,
    /// The time that one measurement may take.
    pub time: Duration,
    /// The largest size of the file on a disk.
    pub scratch: ByteSize,
    /// The rate at which a client took bytes from the gateway, if that was measured.
    pub client: Option<Rate>,
}

impl Default for DoctorOptions {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            host: None,
            disks: Vec::new(),
            time: Duration::from_secs(3),
            scratch: ByteSize(1 << 30),
            client: None,
        }
    }
}

/// Origins by the names that the configuration gives them.
pub type Origins = BTreeMap<String, Arc<dyn Origin>>;

/// Measures everything, one part after the other, and judges it.
///
/// # Errors
/// If an object is named that no route leads to.
pub async fn run(
    config: &Config,
    options: &DoctorOptions,
    origins: &Origins,
    progress: &mut Progress,
) -> anyhow::Result<Report> {
    let objects = objects(config, options)?;
    let memory = memory::measure(options.time, progress).await?;
    let (disks, mut missing) = measure_disks(config, options, progress).await;
    let (mut networks, mut measured) = (Vec::new(), Vec::new());
    for wanted in &config.origin {
        let Some(origin) = origins.get(&wanted.name) else {
            continue;
        };
        match network::measure(wanted, options.time, progress).await {
            Ok(network) => networks.push(network),
            Err(error) => missing.add(false, format!("network to {:?}: {error:#}", wanted.name)),
        }
        let keys = objects.get(&wanted.name).map_or(&[][..], Vec::as_slice);
        let named = (&*wanted.name, wanted.max_requests);
        match origin::measure(origin, named, keys, options.time, progress).await {
            Ok(origin) => measured.push(origin),
            Err(error) => {
                let line = format!("origin {:?}: {error:#}", wanted.name);
                missing.add(!keys.is_empty(), line);
            }
        }
    }
    let measurements = Measurements {
        memory,
        disks,
        origins: measured,
        networks,
        client: options.client,
        cache: CacheSizes {
            memory: config.cache.memory,
            budget: config.cache.budget,
            chunk: config.cache.chunk,
        },
    };
    Ok(Report {
        diagnosis: judge(&measurements),
        measurements,
        missing: missing.lines,
        lacks_named: missing.lacks_named,
    })
}

/// The parts that could not be measured.
#[derive(Default)]
struct MissingParts {
    lines: Vec<String>,
    /// Whether the command line names one of them.
    lacks_named: bool,
}

impl MissingParts {
    fn add(&mut self, is_named: bool, line: String) {
        self.lacks_named |= is_named;
        self.lines.push(line);
    }
}

/// Measures the disks one after the other.
async fn measure_disks(
    config: &Config,
    options: &DoctorOptions,
    progress: &mut Progress,
) -> (Vec<MeasuredDisk>, MissingParts) {
    let (mut disks, mut missing) = (Vec::new(), MissingParts::default());
    for wanted in measured_disks(config, options) {
        let is_named = options.disks.contains(&wanted.path);
        if is_named && !can_be_made(&wanted.path) {
            let what = "neither this folder nor the one that it would be in exists";
            missing.add(true, format!("disk {:?}: {what}", wanted.path));
            continue;
        }
        match disk::measure(&wanted, config.cache.chunk, options, progress).await {
            Ok(disk) => disks.push(disk),
            Err(error) => missing.add(is_named, format!("disk {:?}: {error:#}", wanted.path)),
        }
    }
    (disks, missing)
}

/// Returns whether a folder exists, or the one that it would be in. Beyond that it may be meant on another disk.
fn can_be_made(path: &Path) -> bool {
    let parent = path.parent().filter(|parent| *parent != "");
    path.is_dir() || parent.unwrap_or(Path::new(".")).is_dir()
}

/// Returns the disks of the configuration, then the named ones that are not among them.
fn measured_disks(config: &Config, options: &DoctorOptions) -> Vec<tidegate_config::Disk> {
    let mut disks = config.cache.disk.clone();
    for path in &options.disks {
        if !disks.iter().any(|disk| disk.path == *path) {
            disks.push(tidegate_config::Disk {
                path: path.clone(),
                ..tidegate_config::Disk::default()
            });
        }
    }
    disks
}

/// Returns the key that each path stands for, by origin.
fn objects(
    config: &Config,
    options: &DoctorOptions,
) -> anyhow::Result<BTreeMap<String, Vec<ObjectKey>>> {
    let host = options.host.as_deref().unwrap_or_default();
    let mut objects: BTreeMap<String, Vec<ObjectKey>> = BTreeMap::new();
    for path in &options.objects {
        ensure!(
            path.starts_with('/'),
            "{path:?} does not begin with `/`: give the path as it stands in the URL"
        );
        let found = LinkRoute::find(config, host, path);
        let LinkRoute { route, below } =
            found.with_context(|| format!("no route has the path {path:?}"))?;
        let key = ObjectKey::from_path(&route.key_prefix, below);
        let key = key.with_context(|| format!("{path:?} names no object"))?;
        objects.entry(route.origin).or_default().push(key);
    }
    Ok(objects)
}
