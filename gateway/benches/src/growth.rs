//! `growth FOLDER [small]`: the cost of the stores as they grow (`just growth`).
//!
//! It fills the metadata store with keys and a cache disk with chunks, through the stores' own
//! interface, and opens each again in a new process. A look-up must cost the same at every size, a
//! chunk on disk at most 112 bytes of memory, and a start with a million chunks at most 2 s. It needs
//! 20 GB in FOLDER (`small`: 1 GB), and removes what it wrote.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prometheus_client::registry::Registry;
use tidegate_cache::{
    Admit, ChunkKey, ChunkStore as _, DiskSettings, Entry, Lookup, Meta, MetaStore as _, Record,
    Settings, Tiers,
};
use tidegate_plan::{ETag, Geometry, ObjectId, ObjectKey, OriginId, Timestamp, Version, VersionId};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Bytes of a chunk: the smallest, so that many fit on a disk.
const CHUNK: u64 = 4096;
/// Look-ups that are timed.
const LOOKUPS: u64 = 20_000;
/// Keys that are put before the store is made durable once.
const BATCH: u64 = 20_000;
/// The most bytes by which the state may grow while only missing keys are put.
const OF_STATE: f64 = (1 << 20) as f64;
/// The most memory a chunk on disk may take, in bytes.
const OF_CHUNK: f64 = 112.0;
/// The time within which a disk with a million chunks must serve all of them.
const LOAD: Duration = Duration::from_secs(2);
/// The most a look-up may cost at the largest size, over its cost at the middle one.
const FLAT: f64 = 2.0;

/// The sizes of the small form, which shows that all of it works: times of a busy machine prove nothing.
const SMALL: [u64; 2] = [1000, 100_000];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build()?;
    match args[..] {
        [folder] => all(
            folder.as_ref(),
            &[1000, 100_000, 10_000_000],
            &[1000, 1_000_000, 4_000_000],
        ),
        [folder, "small"] => all(folder.as_ref(), &SMALL, &SMALL),
        [folder, step, count] => {
            let (folder, count) = (Path::new(folder), count.parse()?);
            let figures = match step {
                "put-keys" => runtime.block_on(put_keys(folder, count)),
                "find-keys" => runtime.block_on(find_keys(folder, count)),
                "put-missing" => runtime.block_on(put_missing(folder, count)),
                "put-chunks" => runtime.block_on(put_chunks(folder, count)),
                "find-chunks" => runtime.block_on(find_chunks(folder, count)),
                _ => Err("unknown step".into()),
            }?;
            let figures: Vec<String> = figures.iter().map(f64::to_string).collect();
            println!("{}", figures.join(" "));
            Ok(())
        }
        _ => Err("usage: growth FOLDER [small]".into()),
    }
}

/// Runs all sizes and checks the targets.
fn all(folder: &Path, keys: &[u64], chunks: &[u64]) -> Result<()> {
    let mut missed = Vec::new();
    all_keys(folder, keys, &mut missed)?;
    missing_keys(folder, *keys.last().ok_or("no size")?, &mut missed)?;
    all_chunks(folder, chunks, &mut missed)?;
    let reached = missed.is_empty().then_some(());
    reached.ok_or_else(|| missed.join("; ").into())
}

fn all_keys(folder: &Path, sizes: &[u64], missed: &mut Vec<String>) -> Result<()> {
    println!(
        "keys: 1,000 put/s, bytes a row on disk, ms to open, ns in memory, ns of a row, MB in memory"
    );
    let mut rows = Vec::new();
    for &count in sizes {
        let of = Folder::new(folder)?;
        let put = of.step("put-keys", count)?;
        let found = of.step("find-keys", count)?;
        let (row, ms) = (put[1] / count as f64, found[0] * 1e3);
        let figures = [put[0] / 1e3, row, ms, found[1], found[2], found[3] / 1e6];
        show(count, &figures);
        rows.push([found[1], found[2]]);
    }
    check_flat("keys", &rows, missed);
    Ok(())
}

fn missing_keys(folder: &Path, count: u64, missed: &mut Vec<String>) -> Result<()> {
    println!("missing keys: 1,000 put/s, MB of state before and after, MB in memory");
    let of = Folder::new(folder)?;
    let put = of.step("put-missing", count)?;
    let figures = [put[0] / 1e3, put[1] / 1e6, put[2] / 1e6, put[3] / 1e6];
    show(count, &figures);
    if put[2] > put[1] + OF_STATE {
        missed.push("missing keys take space on disk".to_owned());
    }
    Ok(())
}

fn all_chunks(folder: &Path, sizes: &[u64], missed: &mut Vec<String>) -> Result<()> {
    println!(
        "chunks on disk: 1,000 put/s, ms until all are known, bytes of memory each, ns to locate, µs to read"
    );
    let mut rows = Vec::new();
    for &count in sizes {
        let of = Folder::new(folder)?;
        let put = of.step("put-chunks", count)?;
        let found = of.step("find-chunks", count)?;
        let (load, read) = (found[0] * 1e3, found[3] / 1e3);
        show(count, &[put[0] / 1e3, load, found[1], found[2], read]);
        rows.push([found[2], found[3]]);
        // Below that, what a disk takes without chunks tells more.
        if count >= 1_000_000 && found[1] > OF_CHUNK {
            missed.push(format!("{:.0} bytes a chunk", found[1]));
        }
        if count <= 1_000_000 && found[0] > LOAD.as_secs_f64() {
            missed.push(format!("{:.1} s to load {count} chunks", found[0]));
        }
    }
    check_flat("chunks", &rows, missed);
    Ok(())
}

/// Compares the look-ups at the largest size with those at the one before, of three sizes.
fn check_flat(name: &str, rows: &[[f64; 2]], missed: &mut Vec<String>) {
    if let [_, before, last] = rows {
        for (before, last) in before.iter().zip(last) {
            if *last > FLAT * before {
                missed.push(format!(
                    "look-ups of {name}: {last:.0} ns after {before:.0}"
                ));
            }
        }
    }
}

fn show(count: u64, figures: &[f64]) {
    let figures: Vec<String> = figures.iter().map(|one| format!("{one:>10.1}")).collect();
    println!("{count:>10} {}", figures.join(" "));
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(parent: &Path) -> Result<Self> {
        let path = parent.join(format!("growth-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Runs a step in a process of its own: memory is counted from the start.
    fn step(&self, step: &str, count: u64) -> Result<Vec<f64>> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        let ran = command
            .arg(&self.0)
            .arg(step)
            .arg(count.to_string())
            .output()?;
        let text = String::from_utf8(ran.stdout)?;
        if !ran.status.success() {
            return Err(format!("{step}: {}", String::from_utf8_lossy(&ran.stderr)).into());
        }
        let figures = text.split_whitespace().map(str::parse);
        Ok(figures.collect::<std::result::Result<_, _>>()?)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays is seen by its name.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns keys put a second, and the bytes of the state.
async fn put_keys(folder: &Path, count: u64) -> Result<Vec<f64>> {
    let meta = open_meta(folder)?;
    let started = Instant::now();
    for number in 0..count {
        let id = object(number);
        let version = version(number)?;
        let record = Record {
            id: meta.address(&id, &version, meta.generation(&id).await),
            version: Arc::new(version),
            confirmed: Timestamp::from_secs(1_800_000_000),
            must_confirm: false,
            written: None,
        };
        meta.put(&id, Entry::Present(Arc::new(record)));
        if number % BATCH == BATCH - 1 {
            meta.flush().await;
        }
    }
    meta.close().await;
    let rate = count as f64 / started.elapsed().as_secs_f64();
    Ok(vec![rate, bytes_in(folder)? as f64])
}

/// Returns the seconds to open the state, the nanoseconds of a look-up that memory answers and of one
/// that reads its row, and the bytes of memory.
async fn find_keys(folder: &Path, count: u64) -> Result<Vec<f64>> {
    let started = Instant::now();
    let meta = open_meta(folder)?;
    let opened = started.elapsed();
    let mut rows = Vec::new();
    for number in numbers(count) {
        let id = object(number);
        let started = Instant::now();
        let found = meta.load(&id).await;
        rows.push(started.elapsed());
        is_of(number, found)?;
    }
    // Each key once, as they came into memory: their rows lie apart.
    let ids: Vec<_> = numbers(count).map(object).collect();
    let mut known = Vec::new();
    for some in ids.chunks(100) {
        let started = Instant::now();
        let found = some.iter().filter(|id| meta.peek(id).is_some()).count();
        known.push(started.elapsed() / 100);
        if found < some.len() {
            return Err("a key is not in memory".into());
        }
    }
    let taken = resident()?;
    let figures = [opened.as_secs_f64(), median(known), median(rows), taken];
    meta.close().await;
    Ok(figures.to_vec())
}

/// Returns keys put a second, the bytes of the state before and after, and the bytes of memory.
async fn put_missing(folder: &Path, count: u64) -> Result<Vec<f64>> {
    let meta = open_meta(folder)?;
    meta.flush().await;
    let before = bytes_in(folder)? as f64;
    let started = Instant::now();
    for number in 0..count {
        let since = Timestamp::from_secs(1_800_000_000);
        meta.put(&object(number), Entry::Missing { since });
        if number % BATCH == BATCH - 1 {
            meta.flush().await;
        }
    }
    meta.flush().await;
    let rate = count as f64 / started.elapsed().as_secs_f64();
    let figures = [rate, before, bytes_in(folder)? as f64, resident()?];
    meta.close().await;
    Ok(figures.to_vec())
}

/// Returns chunks put a second.
async fn put_chunks(folder: &Path, count: u64) -> Result<Vec<f64>> {
    let tiers = open_tiers(folder, count)?;
    tiers.loaded().await;
    let started = Instant::now();
    for number in 0..count {
        // A full queue refuses: the disk's thread gets the time that it needs.
        while tiers.backlog().ok_or("the disk takes nothing")? > 0.5 {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        tiers.insert(chunk(number), content(number), Admit::Disk);
    }
    tiers.close().await;
    Ok(vec![count as f64 / started.elapsed().as_secs_f64()])
}

/// Returns the seconds until all chunks are known, the bytes of memory that each takes, and the
/// nanoseconds to locate and to read one.
async fn find_chunks(folder: &Path, count: u64) -> Result<Vec<f64>> {
    let before = resident()?;
    let started = Instant::now();
    let tiers = open_tiers(folder, count)?;
    tiers.loaded().await;
    let loaded = started.elapsed();
    let each = (resident()? - before) / count as f64;
    let (mut located, mut read) = (Vec::new(), Vec::new());
    let rules = Lookup {
        patient: true,
        ..Lookup::default()
    };
    for number in numbers(count) {
        let key = chunk(number);
        let started = Instant::now();
        let tier = tiers.locate(&key);
        located.push(started.elapsed());
        tier.ok_or_else(|| format!("chunk {number} is lost"))?;
        if read.len() < 2000 {
            let started = Instant::now();
            let found = tiers.look_up(&key, CHUNK as usize, rules).await;
            read.push(started.elapsed());
            let (bytes, _) = found.ok_or_else(|| format!("chunk {number} cannot be read"))?;
            (bytes == content(number))
                .then_some(())
                .ok_or("wrong bytes")?;
        }
    }
    let figures = [loaded.as_secs_f64(), each, median(located), median(read)];
    tiers.close().await;
    Ok(figures.to_vec())
}

fn open_meta(folder: &Path) -> Result<Meta> {
    let settings = Settings {
        state: Some(folder.join("state")),
        state_size: u64::MAX,
        ..Settings::default()
    };
    Ok(Meta::open(&settings, &mut Registry::default())?)
}

fn open_tiers(folder: &Path, count: u64) -> Result<Tiers> {
    let disk = DiskSettings {
        min_free: 1 << 20,
        ..DiskSettings::new(
            folder.join("disk"),
            count * (CHUNK + 512) * 5 / 4 + (1 << 30),
        )
    };
    let settings = Settings {
        memory: 0,
        geometry: Geometry::new(CHUNK).ok_or("no chunk size")?,
        disks: vec![disk],
        ..Settings::default()
    };
    Ok(Tiers::open(&settings, &mut Registry::default())?)
}

/// Returns the numbers whose look-ups are timed, in no order.
fn numbers(count: u64) -> impl Iterator<Item = u64> {
    (0..LOOKUPS).map(move |at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count)
}

fn object(number: u64) -> ObjectId {
    let key = format!(
        "2026/{:02}/a-photograph-{number:08}-768x512.jpg",
        number % 12 + 1
    );
    ObjectId {
        origin: OriginId(7),
        key: ObjectKey::new(&key).expect("a valid key"),
    }
}

fn version(number: u64) -> Result<Version> {
    let header = |name: &'static str, value: &'static str| {
        (
            http::HeaderName::from_static(name),
            http::HeaderValue::from_static(value),
        )
    };
    Ok(Version {
        etag: ETag::parse(&format!("\"{number:032x}\"")).ok_or("no ETag")?,
        size: 35 << 10,
        last_modified: Some(Timestamp::from_secs(1_790_000_000)),
        version_id: None,
        headers: vec![header("content-type", "image/jpeg")],
    })
}

fn is_of(number: u64, found: Option<Entry>) -> Result<()> {
    match found {
        Some(Entry::Present(record)) if record.version.etag == version(number)?.etag => Ok(()),
        found => Err(format!("key {number}: {found:?}").into()),
    }
}

fn chunk(number: u64) -> ChunkKey {
    // Addresses are hashes: the upper bits must differ, too.
    let mixed = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    ChunkKey {
        version: VersionId(mixed),
        index: 0,
    }
}

fn content(number: u64) -> Bytes {
    let mut bytes = vec![0; CHUNK as usize];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes.into()
}

/// Returns the bytes that the files in a folder take up.
fn bytes_in(folder: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes += if about.is_dir() {
            bytes_in(&entry.path())?
        } else {
            about.blocks() * 512
        };
    }
    Ok(bytes)
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line
        .and_then(|line| line.split_whitespace().next())
        .ok_or("no VmRSS")?;
    Ok(kib.parse::<f64>()? * 1024.0)
}

/// Returns the median in nanoseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_nanos() as f64
}
