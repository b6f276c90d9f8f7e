//! Entries that are read from a segment's index file, or appended after its chunks were written.

use std::io;
use std::sync::Arc;

use super::super::entry::{DiskLocation, ENTRY_SIZE, decode_all, encode, live_entries};
use super::super::files::{FileAccess, LogFile};
use super::super::segment::Segment;
use super::Writer;
use crate::ChunkKey;

impl Writer {
    /// Writes tombstones.
    pub(super) fn write_tombstones(
        &self,
        segment: &Segment,
        dead: &[(ChunkKey, DiskLocation)],
    ) -> io::Result<()> {
        let tombstone = |(key, location): &(ChunkKey, DiskLocation)| {
            (
                *key,
                DiskLocation {
                    len: 0,
                    ..*location
                },
            )
        };
        self.append_entries(segment, dead.iter().map(tombstone))
    }

    /// Writes down the new pins of chunks that were assigned to another pin, or to none, since their
    /// writing.
    pub(super) fn write_pin_changes(&mut self) -> io::Result<()> {
        let mut changes = self.log.take_pin_changes();
        changes.sort_by_key(|(_, location)| location.segment);
        for run in changes.chunk_by(|(_, a), (_, b)| a.segment == b.segment) {
            if let Some(segment) = self.log.segments.get(run[0].1.segment) {
                let stays = |(key, location): &&(ChunkKey, DiskLocation)| {
                    self.log.index.find(key) == Some(*location)
                };
                self.append_entries(&segment, run.iter().filter(stays).copied())?;
            }
        }
        Ok(())
    }

    /// Appends entries of chunks to a segment's index file.
    fn append_entries(
        &self,
        segment: &Segment,
        entries: impl Iterator<Item = (ChunkKey, DiskLocation)>,
    ) -> io::Result<()> {
        let bytes: Vec<u8> = entries
            .flat_map(|(key, location)| encode(&key, &location))
            .collect();
        if bytes.is_empty() {
            return Ok(());
        }
        let index = self.index_file(segment)?;
        index.write_at(&bytes, segment.index_len())?;
        segment.grow(bytes.len() / ENTRY_SIZE, 0);
        let written = u64::try_from(bytes.len()).unwrap_or(0);
        self.log.metrics.written.inc_by(written);
        Ok(())
    }

    /// Reads the entries of a segment's index file, without those that tombstones cancel.
    pub(super) fn read_live_entries(
        &self,
        segment: &Segment,
    ) -> io::Result<Vec<(ChunkKey, DiskLocation)>> {
        let index = self.index_file(segment)?;
        let len = usize::try_from(segment.index_len()).unwrap_or(usize::MAX);
        let bytes = index.read_at(0, len)?;
        if bytes.len() < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let entries = decode_all(&bytes, segment.number);
        if entries.len() * ENTRY_SIZE < len {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(live_entries(entries))
    }

    fn index_file(&self, segment: &Segment) -> io::Result<Arc<dyn LogFile>> {
        match &self.current {
            Some(current) if current.segment.number == segment.number => {
                Ok(Arc::clone(&current.index))
            }
            _ => {
                let path = self.log.segments.index_path(segment.number);
                self.log.files.open(&path, FileAccess::Existing)
            }
        }
    }

    pub(super) fn is_current(&self, number: u32) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| current.segment.number == number)
    }
}
