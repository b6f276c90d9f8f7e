//! kill -9 during writes to a disk: written chunks are found again, and no byte is wrong.
//!
//! The child is this very program, told by its environment to write until it is killed. It is
//! killed after it has reported several times that its queue is empty; by then it works on the next
//! chunks.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::registry::Registry;
use tidegate_cache::{Admit, ChunkKey, ChunkStore, DiskSettings, Settings, Tiers};
use tidegate_plan::{Geometry, VersionId};

const CHUNK: usize = 16 << 10;

/// Number of chunks that the child inserts at a time.
const STEP: u32 = 16;

const ROUNDS: u32 = 10;

/// Environment variables with the child's directory and its first number.
const DIRECTORY: &str = "STORE_KILL_DIRECTORY";
const FROM: &str = "STORE_KILL_FROM";

fn key(number: u32) -> ChunkKey {
    ChunkKey {
        version: VersionId(u128::from(number) << 64 | 3),
        index: number,
    }
}

fn content(number: u32) -> Bytes {
    let word = |at: u32| {
        number
            .wrapping_mul(0x9e37_79b9)
            .wrapping_add(at)
            .to_le_bytes()
    };
    let words = 0..u32::try_from(CHUNK / 4).expect("small");
    words.flat_map(word).collect::<Vec<u8>>().into()
}

async fn open(path: &Path) -> Tiers {
    let settings = Settings {
        memory: 0,
        geometry: Geometry::new(CHUNK as u64).expect("a power of two"),
        disks: vec![DiskSettings {
            min_free: 0,
            late: Duration::from_secs(600),
            ..DiskSettings::new(path, 48 << 20)
        }],
        ..Settings::default()
    };
    let tiers = Tiers::open(&settings, &mut Registry::default()).expect("opens");
    tiers.loaded().await;
    tiers
}

#[tokio::test]
#[ignore = "the other test starts it, to kill it"]
async fn writes_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let from = std::env::var(FROM).expect("set");
    let mut next: u32 = from.parse().expect("a number");
    let tiers = open(Path::new(&directory)).await;
    loop {
        for number in next..next + STEP {
            tiers.insert(key(number), content(number), Admit::Disk);
        }
        while tiers.queued() > 0 {
            tokio::task::yield_now().await;
        }
        next += STEP;
        println!("\nwritten {next}");
    }
}

/// Runs the child until it has reported `steps` times; returns the number that it reported last.
fn run_and_kill(directory: &Path, from: u32, steps: usize) -> u32 {
    let program = std::env::current_exe().expect("known");
    let mut child = Command::new(program)
        .args(["writes_until_it_is_killed", "--exact"])
        .args(["--include-ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(FROM, from.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let numbers = lines.map_while(Result::ok).filter_map(|line| {
        let number = line.strip_prefix("written ")?;
        number.parse().ok()
    });
    let written = numbers.take(steps).last().expect("at least one step");
    child.kill().expect("runs still");
    child.wait().expect("ends");
    written
}

#[tokio::test]
async fn what_was_written_before_a_kill_is_there_and_right() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut from = 0;
    for round in 0..ROUNDS {
        let steps = 1 + usize::try_from(round * 37 % 53).expect("small");
        let written = run_and_kill(directory.path(), from, steps);
        let tiers = open(directory.path()).await;
        let mut lost = 0;
        for number in 0..written + 4 * STEP {
            match tiers.get(&key(number), CHUNK).await {
                Some((bytes, _)) => assert!(bytes == content(number), "{number}"),
                None if (from..written).contains(&number) => lost += 1,
                None => {}
            }
        }
        assert_eq!(lost, 0, "round {round}, of {from} to {written}");
        // Chunks that the child was writing at the kill may exist, and are not written again.
        from = written + 4 * STEP;
    }
}
