//! One batch: chunks side by side in a buffer, one write to the data file, one to the index file, and
//! then their entry into the index in memory. They leave the queue last: in between, both hold them.

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

use super::super::entry::{DiskLocation, ENTRY_SIZE, checksum, encode, pages};
use super::super::files::{FileAccess, LogFile};
use super::super::segment::{EMPTY_SEGMENT_SIZE, Segment};
use super::{MAX_BATCH_BYTES, Writer};
use crate::ChunkKey;
use crate::pins::PinId;

/// A chunk to be written.
#[derive(Debug)]
pub(super) struct ChunkWrite {
    pub(super) key: ChunkKey,
    pub(super) bytes: Bytes,
    pub(super) pin: PinId,
    pub(super) from: ChunkOrigin,
}

/// The origin of a chunk that is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum ChunkOrigin {
    /// The queue, with the ticket there.
    Queue(u64),
    /// A nearly empty segment.
    Segment(DiskLocation),
}

/// The segment that is written to.
#[derive(Debug)]
pub(super) struct CurrentSegment {
    pub(super) segment: Arc<Segment>,
    pub(super) out: Arc<dyn LogFile>,
    pub(super) index: Arc<dyn LogFile>,
    /// The offset of the next chunk.
    end: u64,
}

impl Writer {
    /// Writes a batch. `false`: there is no room, and none can be made.
    pub(super) fn try_write(&mut self, batch: &[ChunkWrite]) -> io::Result<bool> {
        let size: u64 = batch.iter().map(|chunk| pages(chunk.bytes.len())).sum();
        let entries = u64::try_from(batch.len() * ENTRY_SIZE).unwrap_or(0);
        if !self.make_room(size + entries + 2 * EMPTY_SEGMENT_SIZE)? {
            return Ok(false);
        }
        let mut rest = batch;
        while !rest.is_empty() {
            let fit = self.fit(rest);
            if fit == 0 {
                self.seal()?;
                self.begin()?;
                continue;
            }
            let (run, later) = rest.split_at(fit);
            self.append(run)?;
            rest = later;
        }
        Ok(true)
    }

    /// Returns how many of these chunks fit the current segment and the buffer.
    fn fit(&self, chunks: &[ChunkWrite]) -> usize {
        let Some(current) = &self.current else {
            return 0;
        };
        let room = self.log.segment().saturating_sub(current.end);
        let room = room.min(MAX_BATCH_BYTES.max(pages(chunks[0].bytes.len())));
        let mut size = 0;
        let fits = |chunk: &&ChunkWrite| {
            size += pages(chunk.bytes.len());
            size <= room
        };
        chunks.iter().take_while(fits).count()
    }

    /// Writes chunks at the end of the current segment, and enters them into the index.
    fn append(&mut self, run: &[ChunkWrite]) -> io::Result<()> {
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        let size: u64 = run.iter().map(|chunk| pages(chunk.bytes.len())).sum();
        self.buffer
            .clear(usize::try_from(size).unwrap_or(usize::MAX));
        let (mut entries, mut locations) = (Vec::with_capacity(run.len() * ENTRY_SIZE), Vec::new());
        let mut offset = current.end;
        for chunk in run {
            let copy = self.buffer.append(&chunk.bytes);
            let location = DiskLocation {
                segment: current.segment.number,
                offset,
                len: u32::try_from(copy.len()).unwrap_or(u32::MAX),
                sum: checksum(&chunk.key, copy),
                pin: chunk.pin,
            };
            entries.extend_from_slice(&encode(&chunk.key, &location));
            locations.push(location);
            offset += location.taken();
        }
        current.out.write_at(self.buffer.bytes(), current.end)?;
        self.unsynced = true;
        let index_end = current.segment.index_len();
        current.index.write_at(&entries, index_end)?;
        current.segment.grow(run.len(), size);
        current.end = offset;
        let metrics = &self.log.metrics;
        metrics
            .written
            .inc_by(size + u64::try_from(entries.len()).unwrap_or(0));
        for (chunk, location) in run.iter().zip(&locations) {
            self.enter(chunk, location);
        }
        Ok(())
    }

    /// Enters a chunk that was written, unless it was removed meanwhile.
    fn enter(&self, chunk: &ChunkWrite, location: &DiskLocation) {
        let log = &self.log;
        let (key, len) = (&chunk.key, u64::from(location.len));
        match chunk.from {
            ChunkOrigin::Queue(ticket) => {
                if !log.queue.is_wanted(key, ticket) || !log.index.insert(key, location) {
                    log.add_hole(key, location);
                    return;
                }
                match log.queue.finish(key, ticket) {
                    Some(pin) => {
                        log.metrics.admitted.inc_by(len);
                        // The pin was changed during the write.
                        if pin != chunk.pin {
                            log.set_pin(key, pin);
                        }
                    }
                    None => log.forget(key, location),
                }
            }
            ChunkOrigin::Segment(old) => {
                log.metrics.rewritten.inc_by(len);
                if log.index.relocate(key, &old, location) {
                    log.add_hole(key, &old);
                } else {
                    log.add_hole(key, location);
                }
            }
        }
    }

    /// Begins a new segment.
    fn begin(&mut self) -> io::Result<()> {
        let log = &self.log;
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let (data_path, index_path) = (
            log.segments.data_path(number),
            log.segments.index_path(number),
        );
        let open = || {
            let out = log.files.open(&data_path, FileAccess::Direct)?;
            let index = log.files.open(&index_path, FileAccess::Cached)?;
            // Nothing of a file that the start did not find.
            out.truncate(0)?;
            index.truncate(0)?;
            let data = log.files.open(&data_path, FileAccess::Existing)?;
            log.files.sync_dir(&log.dir)?;
            io::Result::Ok((out, index, data))
        };
        let (out, index, data) = open().inspect_err(|_| {
            // Best effort: an empty file remains, which the next start deletes.
            for path in [&data_path, &index_path] {
                let _ = log.files.unlink(path);
            }
        })?;
        let segment = Arc::new(Segment::new(number, data, SystemTime::now(), 0));
        log.segments.insert(&segment);
        self.current = Some(CurrentSegment {
            segment,
            out,
            index,
            end: 0,
        });
        Ok(())
    }
}
