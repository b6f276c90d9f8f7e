//! The check once a second: the free space, the presence of the files, and the recovery of a failed
//! disk.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::entry::checksum;
use super::files::{FileAccess, Files, PAGE_SIZE};
use super::log::{Log, STEP_TIMEOUT};
use super::reader::ReadLimits;
use super::write_buffer::WriteBuffer;

/// The time between two checks.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The longest time between two probes of a disk that stays bad.
const MAX_PROBE_PAUSE: Duration = Duration::from_secs(30);

/// The file that probes write.
const PROBE_FILE: &str = "probe";

/// The monitor of one log.
#[derive(Debug)]
pub(super) struct DiskMonitor {
    log: Arc<Log>,
    limits: ReadLimits,
    /// The time of the next probe, and the pause after it.
    probe: Option<(Instant, Duration)>,
    buffer: WriteBuffer,
}

impl DiskMonitor {
    /// Creates the monitor of `log`, whose reads have these limits.
    pub(super) fn new(log: Arc<Log>, limits: ReadLimits) -> Self {
        Self {
            log,
            limits,
            probe: None,
            buffer: WriteBuffer::default(),
        }
    }

    /// Checks once. Blocks for as long as the disk does.
    pub(super) fn check(&mut self, now: Instant) {
        self.check_space();
        self.check_files();
        self.probe_failed_disk(now);
        let (log, metrics) = (&self.log, &self.log.metrics);
        metrics.tier.used.set(gauge(log.segments.taken()));
        metrics.queued.set(gauge(log.queue.bytes()));
        metrics.pinned.set(gauge(log.index.pinned_bytes.total()));
        metrics
            .chunks
            .set(i64::try_from(log.index.len()).unwrap_or(i64::MAX));
    }

    /// Marks the disk full below `min_free`: it takes nothing then, and the writer frees space. The
    /// writer also ends that state.
    fn check_space(&self) {
        let log = &self.log;
        let Ok(space) = log.files.space(&log.dir) else {
            return;
        };
        log.metrics.free.set(gauge(space.free));
        if space.free < log.min_free() {
            log.health.set_full(true, space.free);
        }
        if log.health.is_full() {
            log.queue.wake_writer();
        }
    }

    /// Detects deleted files: a file without a name, unless the writer unlinked it.
    fn check_files(&self) {
        let log = &self.log;
        let gone = match log.segments.newest() {
            Some(newest) => {
                let unlinked = newest.data.stat().is_ok_and(|stat| !stat.linked);
                unlinked && log.segments.get(newest.number).is_some()
            }
            None => {
                let listed = log.files.list(&log.dir);
                let missing = listed.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
                // The probe makes the directory, if it can.
                missing && !log.health.writes_off()
            }
        };
        if gone {
            log.set_deleted();
        }
    }

    /// Probes a failed disk, at first each second, then less and less often.
    fn probe_failed_disk(&mut self, now: Instant) {
        let health = &self.log.health;
        // Before the index is complete nothing is written, and a note tells of a load that hangs.
        let hangs = self.log.ready.initialized() && self.log.step_time(now) > STEP_TIMEOUT;
        if hangs {
            health.record_write_failure(&"a write does not return");
        }
        if !health.reads_off() && !health.writes_off() {
            self.probe = None;
            return;
        }
        let (due, pause) = self.probe.unwrap_or((now, CHECK_INTERVAL));
        if now < due {
            self.probe = Some((due, pause));
            return;
        }
        self.probe = Some((now + pause, (pause * 2).min(MAX_PROBE_PAUSE)));
        let log = Arc::clone(&self.log);
        // Without the lock, the directory may be another process's.
        let is_written = log.layout.relock().is_ok()
            && probe_writing(&*log.files, &log.dir, &mut self.buffer).is_ok();
        if log.health.writes_off() && is_written && !hangs {
            log.health.resume_writes();
            log.queue.wake_writer();
        }
        if log.health.reads_off() && self.probe_reading() {
            log.health.resume_reads();
        }
    }

    /// Reads one chunk from the disk itself. Returns whether that succeeded in time.
    fn probe_reading(&self) -> bool {
        let Some((key, location, data)) = self.log.sample() else {
            return true;
        };
        data.drop_cached(location.offset, location.taken());
        let began = Instant::now();
        let Ok(bytes) = data.read_at(location.offset, location.len as usize) else {
            // The next probe reads another one: this one may lie in the only bad place.
            self.log.forget(&key, &location);
            return false;
        };
        if checksum(&key, &bytes) != location.sum {
            // It was evicted meanwhile, or is damaged: the disk answers, and only that matters here.
            self.log.forget(&key, &location);
        }
        began.elapsed() < self.probe_limit(location.len)
    }

    /// Returns the time of a probe's read: one that takes longer has not shown that the disk is well.
    pub(super) fn probe_limit(&self, len: u32) -> Duration {
        self.limits.time_limit(0, u64::from(len)) + self.limits.late
    }
}

/// Writes a file, makes it durable, reads it back and deletes it. Blocks.
fn probe_writing(files: &dyn Files, dir: &Path, buffer: &mut WriteBuffer) -> io::Result<()> {
    files.make_dir(dir)?;
    let path = dir.join(PROBE_FILE);
    let page = usize::try_from(PAGE_SIZE).unwrap_or(4096);
    buffer.clear(page);
    buffer.append(&vec![0x5a; page]);
    let written = files.open(&path, FileAccess::Direct).and_then(|file| {
        file.write_at(buffer.bytes(), 0)?;
        file.sync()?;
        file.drop_cached(0, PAGE_SIZE);
        // Read through the file cache, from which the page was dropped: so the rules of the file
        // system for direct reads need not be known.
        let read = files.open(&path, FileAccess::Existing)?.read_at(0, page)?;
        if read == buffer.bytes() {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    });
    let removed = files.unlink(&path);
    written.and(removed)
}

fn gauge(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::files::RealFiles;
    use super::*;

    #[test]
    fn a_disk_that_works_passes_the_probe() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut buffer = WriteBuffer::default();
        probe_writing(&RealFiles, dir.path(), &mut buffer).expect("it works");
        assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 0);
    }
}
