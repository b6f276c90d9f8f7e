//! Copies inside a mount (copy_file_range(2)): on the server where the source is published, else from the cache or the
//! spool.

use bytes::Bytes;
use fuser::Errno;

use super::Files;
use super::handle::{Handle, WriteHandle};
use crate::errno;
use tidegate_engine::Object;
use tidegate_plan::ByteRange;
use tidegate_write::Writer;

/// The most bytes of one answer: its length has 32 bits, and the kernel copies whole pages.
const MAX_COPY: u64 = (1 << 32) - (1 << 12);

/// The most bytes that one call copies through this process, so that a program can be killed in between.
const MAX_COPY_THROUGH: u64 = 64 << 20;

/// Bytes that are read and written at once.
const PIECE: u64 = 1 << 20;

/// A range of an open file, by the number of its handle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyEnd {
    pub(crate) handle: u64,
    pub(crate) offset: u64,
}

impl Files {
    /// Copies up to `length` bytes; returns how many. Fewer only at the end of the source, or if the program calls
    /// again for the rest.
    pub(crate) async fn copy_range(
        &self,
        from: CopyEnd,
        (to, thread): (CopyEnd, u32),
        length: u64,
    ) -> Result<u32, Errno> {
        let source = self.open.get(from.handle).ok_or(Errno::EBADF)?;
        let target = self.open.get(to.handle).ok_or(Errno::EBADF)?;
        let write_handle = target.write_handle.as_ref().ok_or(Errno::EBADF)?;
        let end = from.offset.saturating_add(length.min(MAX_COPY));
        let range = ByteRange::new(from.offset, end.min(size_of(&source)?.max(from.offset)));
        if range.is_empty() {
            return Ok(0);
        }
        write_handle.writes(&target.share.node, thread);
        if range.start == to.offset
            && let Some(published) = published(&source).await
        {
            let writer = &write_handle.writer;
            let taken = writer.copy_published(&published, range);
            if self.progressing(writer, taken).await? {
                return Ok(copied(range.len()));
            }
        }
        let end = range.end.min(range.start + MAX_COPY_THROUGH);
        let range = ByteRange::new(range.start, end);
        self.copy_through(&source, range, write_handle, to.offset)
            .await
    }

    /// Copies bytes piece by piece. An error after the first piece is left to the next call.
    async fn copy_through(
        &self,
        source: &Handle,
        range: ByteRange,
        target: &WriteHandle,
        at: u64,
    ) -> Result<u32, Errno> {
        let mut done = 0;
        while done < range.len() {
            let start = range.start + done;
            let piece = ByteRange::new(start, range.end.min(start + PIECE));
            match self
                .copy_piece(source, piece, &target.writer, at + done)
                .await
            {
                Ok(0) => break,
                Ok(length) => done += length,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(copied(done))
    }

    async fn copy_piece(
        &self,
        source: &Handle,
        piece: ByteRange,
        target: &Writer,
        at: u64,
    ) -> Result<u64, Errno> {
        let bytes = match source.draft() {
            Some(writer) => self.read_draft(&writer, piece).await?,
            None => {
                let read = self.read_object(source, piece.start, piece.end);
                Bytes::copy_from_slice(self.bounded(read).await?.as_ref())
            }
        };
        let length = bytes.len() as u64;
        self.progressing(target, target.write_at(at, bytes)).await?;
        Ok(length)
    }
}

fn copied(length: u64) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Returns the length that a handle reads.
fn size_of(handle: &Handle) -> Result<u64, Errno> {
    match handle.draft() {
        Some(writer) => Ok(writer.size()),
        None => version_of(handle).map(|object| object.version().size),
    }
}

/// Returns the version that a handle reads, if it follows no draft.
fn version_of(handle: &Handle) -> Result<Object, Errno> {
    let draft = handle.share.node.file_draft();
    let version = draft.read_by(handle.object.as_ref(), handle.share.entry.born);
    version.ok_or(errno::GONE_BYTES)
}

/// Returns the version in the bucket that has exactly the bytes that a handle reads.
async fn published(handle: &Handle) -> Option<Object> {
    if !handle.share.node.is_linked() {
        // The bucket has it no more.
        return None;
    }
    match handle.draft() {
        Some(writer) if writer.is_dirty() => None,
        Some(writer) => writer.base().await,
        None => version_of(handle).ok(),
    }
}
