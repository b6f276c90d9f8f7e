//! The speed of a cache disk: in sequence and scattered, written and read.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::scratch::Access::{Read, Write};
use super::scratch::Order::{Scattered, Sequence};
use super::scratch::{Access, Order, Pass, PassResult, Scratch};
use super::{DoctorOptions, Progress};
use tidegate_cache::space::Space;
use tidegate_plan::ByteSize;
use tidegate_plan::diagnosis::MeasuredDisk;

/// The size of blocks in sequence.
const BLOCK_SIZE: u64 = 1 << 20;

/// Reads at once: enough for a disk of any kind to show its full speed.
const READ_DEPTH: usize = 4;

/// The smallest useful file: a smaller one fits into the disk's own memory.
const MIN_FILE: u64 = 64 << 20;

/// The part of a disk that stays free whatever the configuration says: a twentieth, at most 1 GiB.
const RESERVE: (u64, u64) = (20, 1 << 30);

/// Measures the disk behind `asked`, with chunks of this size.
///
/// # Errors
/// If it cannot be written to, or is nearly full.
pub(super) async fn measure(
    asked: &tidegate_config::Disk,
    chunk: ByteSize,
    options: &DoctorOptions,
    progress: &mut Progress,
) -> anyhow::Result<MeasuredDisk> {
    let folder = existing_folder(&asked.path)?;
    let space = Space::of(folder);
    let space = space.with_context(|| format!("cannot ask how full {folder:?} is"))?;
    let size = file_size(
        space,
        asked.min_free.0,
        options.scratch.0,
        chunk.0.max(BLOCK_SIZE),
    )?;
    let scratch = Scratch::make(folder, size);
    let scratch = scratch.with_context(|| format!("cannot write in {folder:?}"))?;
    let mut passes = Passes {
        scratch: Arc::new(scratch),
        path: &asked.path,
        time: options.time,
        progress,
    };
    let (large, chunk) = (chunk.0.max(BLOCK_SIZE), chunk.0);
    let write = passes
        .run("writing", (Write, Sequence, large, READ_DEPTH))
        .await?;
    let read = passes
        .run("reading", (Read, Sequence, large, READ_DEPTH))
        .await?;
    let single = passes
        .run("reading single chunks", (Read, Scattered, chunk, 1))
        .await?;
    let chunk_read = passes
        .run("reading chunks", (Read, Scattered, chunk, READ_DEPTH))
        .await?;
    let chunk_write = passes
        .run("writing chunks", (Write, Scattered, chunk, 1))
        .await?;
    Ok(MeasuredDisk {
        path: asked.path.to_string_lossy().into_owned(),
        capacity: match asked.capacity {
            ByteSize(0) => capacity(space, asked.min_free.0),
            written => written,
        },
        min_free: asked.min_free,
        write: write.rate,
        read: read.rate,
        chunk_write: chunk_write.rate,
        chunk_read: chunk_read.rate,
        chunk_time: single.block,
    })
}

/// The passes over one file, one after the other.
struct Passes<'a> {
    scratch: Arc<Scratch>,
    path: &'a Path,
    time: Duration,
    progress: &'a mut Progress,
}

impl Passes<'_> {
    async fn run(
        &mut self,
        what: &str,
        (access, order, block, depth): (Access, Order, u64, usize),
    ) -> anyhow::Result<PassResult> {
        self.progress
            .begin(format_args!("disk {:?}: {what}", self.path));
        let (scratch, time) = (Arc::clone(&self.scratch), self.time);
        let pass = Pass {
            access,
            order,
            block,
            depth,
        };
        let passed = tokio::task::spawn_blocking(move || scratch.pass(pass, time)).await?;
        let passed = self.progress.end(passed);
        passed.with_context(|| format!("{what} failed"))
    }
}

/// Returns the folder, or the nearest existing one above it, in which the gateway would make it.
fn existing_folder(path: &Path) -> anyhow::Result<&Path> {
    let here = |path: &&Path| path.is_dir();
    let above = path
        .ancestors()
        .map(|path| match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        });
    above
        .into_iter()
        .find(here)
        .context("there is no such folder")
}

/// Returns the size of the file: as `wanted`, but at most half of the free space beyond the
/// reserve, in whole blocks.
fn file_size(space: Space, min_free: u64, wanted: u64, block: u64) -> anyhow::Result<u64> {
    let kept = min_free.max((space.total / RESERVE.0).min(RESERVE.1));
    let room = space.free.saturating_sub(kept) / 2;
    let least = wanted.clamp(block, MIN_FILE.max(block));
    if room < least {
        let mib = |bytes: u64| bytes >> 20;
        bail!(
            "it is nearly full: {} MiB are free, of which {} MiB are to stay so, and the \
             measurement needs {} MiB",
            mib(space.free),
            mib(kept),
            mib(least) * 2
        );
    }
    Ok(wanted.max(block).min(room) / block * block)
}

/// Returns a capacity for a cache here: half of the free space beyond `min_free`, in whole GiB
/// if there are any.
fn capacity(space: Space, min_free: u64) -> ByteSize {
    let half = space.free.saturating_sub(min_free) / 2;
    ByteSize(match half >> 30 {
        0 => (half >> 20 << 20).max(1 << 20),
        whole => whole << 30,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn leaves_room_on_a_disk_or_does_not_begin() {
        let space = |free: u64| Space {
            total: 100 * GIB,
            free: free * GIB,
        };
        let size =
            |free, min_free, wanted| file_size(space(free), min_free, wanted, BLOCK_SIZE).ok();
        assert_eq!(size(50, GIB, GIB), Some(GIB));
        assert_eq!(size(2, 0, GIB), Some(GIB / 2), "1 GiB stays free");
        assert_eq!(size(1, 0, GIB), None);
        let small = Space {
            total: GIB,
            free: GIB / 20,
        };
        assert!(file_size(small, 0, GIB, BLOCK_SIZE).is_err(), "a twentieth");
        assert_eq!(size(50, 50 * GIB, GIB), None, "as configured");
        assert_eq!(size(50, 0, 1), Some(BLOCK_SIZE), "one block at least");
        assert_eq!(size(50, 0, 3 * BLOCK_SIZE + 5), Some(3 * BLOCK_SIZE));
    }

    #[test]
    fn a_folder_that_is_yet_to_be_made_lies_on_the_disk_of_its_parent() {
        let folder = tempfile::tempdir().expect("a folder");
        let deep = folder.path().join("a/b");
        assert_eq!(existing_folder(&deep).expect("found"), folder.path());
        assert_eq!(
            existing_folder(Path::new("not-there")).expect("found"),
            Path::new(".")
        );
    }
}
