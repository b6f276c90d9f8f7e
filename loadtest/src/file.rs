//! Reads a file, for example on a mount, and checks every byte.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::fs::Advice;

use crate::measure::Flow;
use crate::pattern::Pattern;
use crate::random::Random;

/// The longest delay that a paced reader may still catch up.
const SLACK: Duration = Duration::from_millis(100);

/// The step and pace of a read from beginning to end.
#[derive(Debug, Clone, Copy)]
pub struct Sequence {
    /// Bytes of each read.
    pub step: usize,
    /// Bytes per second; if `None`, as fast as possible.
    pub pace: Option<f64>,
}

/// Steps of 1 MiB, as `dd bs=1M` reads.
pub const DD: Sequence = Sequence {
    step: 1 << 20,
    pace: None,
};

/// Steps of one page, as careless programs read.
pub const PAGES: Sequence = Sequence {
    step: 4096,
    pace: None,
};

/// Opens a file and reads all of it.
///
/// # Errors
/// If it cannot be read, or a byte is wrong or missing.
pub async fn sequence(path: PathBuf, pattern: Pattern, how: Sequence) -> Result<Flow> {
    tokio::task::spawn_blocking(move || read(&path, pattern, how)).await?
}

fn read(path: &Path, pattern: Pattern, how: Sequence) -> Result<Flow> {
    let begun = Instant::now();
    let mut file = File::open(path)?;
    let (mut buffer, mut at, mut flow) = (vec![0; how.step], 0, Flow::default());
    let mut due = begun;
    loop {
        let since = Instant::now();
        let len = file.read(&mut buffer)?;
        if len == 0 {
            break;
        }
        flow.came(begun.elapsed(), since.elapsed(), len);
        let right = pattern.matches(at, &buffer[..len]);
        ensure!(right, "wrong bytes from {at} on");
        at += len as u64;
        if let Some(pace) = how.pace {
            due = due.max(Instant::now() - SLACK) + Duration::from_secs_f64(len as f64 / pace);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
    ensure!(at == pattern.len, "ends at {at} instead of {}", pattern.len);
    Ok(flow)
}

/// Reads 4 KiB at random places of a file, one after the other, until `reads` are done or `within`
/// has passed. Returns the reads per second.
///
/// # Errors
/// If it cannot be read, or a byte is wrong.
pub async fn at_random(
    path: PathBuf,
    pattern: Pattern,
    reads: u64,
    within: Duration,
) -> Result<f64> {
    tokio::task::spawn_blocking(move || {
        let file = File::open(path)?;
        rustix::fs::fadvise(&file, 0, None, Advice::Random)?;
        let (mut random, mut buffer) = (Random::new(pattern.seed), [0; 4096]);
        let (begun, mut done) = (Instant::now(), 0);
        while done < reads && begun.elapsed() < within {
            let at = random.below(pattern.len / 4096) * 4096;
            file.read_exact_at(&mut buffer, at)?;
            ensure!(pattern.matches(at, &buffer), "wrong bytes from {at} on");
            done += 1;
        }
        Ok(done as f64 / begun.elapsed().as_secs_f64())
    })
    .await?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_read_to_its_end_and_a_wrong_byte_is_found() {
        let pattern = Pattern {
            seed: 3,
            len: 3_000_001,
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        std::fs::write(&path, pattern.all()).unwrap();
        let flow = sequence(path.clone(), pattern, DD).await.unwrap();
        assert_eq!(flow.bytes, pattern.len);
        std::fs::write(&path, pattern.bytes(0, 3_000_000)).unwrap();
        assert!(sequence(path.clone(), pattern, DD).await.is_err());
        let mut wrong = pattern.all().to_vec();
        wrong[2_000_000] ^= 1;
        std::fs::write(&path, wrong).unwrap();
        assert!(sequence(path, pattern, DD).await.is_err());
    }
}
