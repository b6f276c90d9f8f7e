//! The bytes of open files.

use std::ops::Range;

use bytes::Bytes;
use fuser::Errno;
use futures_util::{FutureExt as _, StreamExt as _};

use super::Files;
use super::handle::Handle;
use super::open::WHOLE_READ_SIZE;
use crate::errno;
use tidegate_engine::{Error, Object};
use tidegate_plan::ByteRange;
use tidegate_telemetry::trace::{self, Kind};
use tidegate_write::{WriteError, Writer};

/// The bytes of a read, in one piece.
#[derive(Debug)]
pub(crate) enum ReadData {
    /// As the cache has them.
    Shared(Bytes),
    /// Joined from several chunks.
    Joined(Vec<u8>),
}

impl AsRef<[u8]> for ReadData {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Shared(bytes) => bytes,
            Self::Joined(bytes) => bytes,
        }
    }
}

/// The most reads of a mount that wait for a publish: the kernel has so many at a time, of all files.
pub(super) const MAX_PUBLISH_WAITS: usize = 16;

/// The most deadlines that a read waits for a publish that gets on.
const MAX_DEADLINES: u32 = 4;

impl Files {
    /// Reads up to `size` bytes from `offset` on; fewer only at the end of the file.
    pub(crate) async fn read(
        &self,
        handle: u64,
        offset: u64,
        size: u32,
    ) -> Result<ReadData, Errno> {
        let handle = self.open.get(handle).ok_or(Errno::EBADF)?;
        let end = offset.saturating_add(u64::from(size));
        if let Some(writer) = handle.draft() {
            let read = self.read_draft(&writer, ByteRange::new(offset, end));
            return Ok(ReadData::Shared(read.await?));
        }
        self.bounded(self.read_object(&handle, offset, end)).await
    }

    /// Reads bytes of a draft. Those of a closed one that have left the spool are read once it is in the bucket: the
    /// caller waits for that as long as parts of it are sent within each deadline.
    pub(super) async fn read_draft(
        &self,
        writer: &Writer,
        range: ByteRange,
    ) -> Result<Bytes, Errno> {
        loop {
            // Bytes that have left the spool may have to be read back first.
            let read = writer.read_at(range).map(Ok);
            let error = match self.while_moving(writer.progress(), read).await? {
                Ok(bytes) => return Ok(bytes),
                Err(error) => error,
            };
            let is_gone = matches!(error, WriteError::Gone(_));
            if !is_gone || !self.is_published(writer).await? {
                let key = writer.key();
                return Err(errno::unread(&self.unread, &error, key.as_str()));
            }
        }
    }

    /// Waits until a closed draft is in the bucket, and returns whether it is. Ends at once when the mount goes, or where
    /// [`MAX_PUBLISH_WAITS`] reads wait.
    async fn is_published(&self, writer: &Writer) -> Result<bool, Errno> {
        let Ok(_place) = self.publish_waits.try_acquire() else {
            return Ok(false);
        };
        let deadline = self.settings.deadline;
        let published = writer.wait_for_gone_bytes(deadline, MAX_DEADLINES * deadline);
        self.until_stopped(published.map(Ok)).await
    }

    pub(super) async fn read_object(
        &self,
        handle: &Handle,
        offset: u64,
        end: u64,
    ) -> Result<ReadData, Errno> {
        let (node, born) = (&handle.share.node, handle.share.entry.born);
        let now = || {
            let now = node.file_draft().read_by(handle.object.as_ref(), born);
            now.ok_or(Errno::EIO)
        };
        let object = now()?;
        let told = |error| errno::logged(&error, &node.key());
        match self.read_version(Some(handle), &object, offset..end).await {
            Err(error @ (Error::Changed | Error::NotFound)) if self.is_writable() => {
                // It may be in the middle of a rename; its bytes are under the other name. That of a folder is known before
                // the old objects go.
                let mut moved = now()?;
                if moved.id() == object.id() {
                    let _named = node.naming.read().await;
                    moved = now()?;
                }
                if moved.id() == object.id() {
                    return Err(told(error));
                }
                let read = self.read_version(Some(handle), &moved, offset..end);
                read.await.map_err(told)
            }
            read => read.map_err(told),
        }
    }

    /// Reads bytes of a version. A `handle` reports them as a stream.
    pub(super) async fn read_version(
        &self,
        handle: Option<&Handle>,
        object: &Object,
        range: Range<u64>,
    ) -> Result<ReadData, Error> {
        let size = object.version().size;
        let (offset, end) = (range.start, range.end.min(size));
        if offset >= end {
            return Ok(ReadData::Shared(Bytes::new()));
        }
        if end == size && size <= WHOLE_READ_SIZE {
            self.engine
                .record_whole_read(&self.source, object, WHOLE_READ_SIZE);
        }
        let range = ByteRange::new(offset, end);
        let Some(mut span) = trace::span("bytes", Kind::Internal) else {
            return Self::read_range(handle, object, range).await;
        };
        span.set("tidegate.tier", object.locate(range).place());
        // Boxed, so that a read that is not traced does not carry its state.
        let read = Box::pin(Self::read_range(handle, object, range));
        Box::pin(trace::within(Some(&span), read)).await
    }

    /// Reads bytes that the version has.
    async fn read_range(
        handle: Option<&Handle>,
        object: &Object,
        range: ByteRange,
    ) -> Result<ReadData, Error> {
        let mut reader = object.read_at(range);
        if let Some(stream) = handle.and_then(|handle| handle.stream(object)) {
            reader.report_to(stream);
        }
        let whole = usize::try_from(range.len()).unwrap_or(usize::MAX);
        let mut joined = Vec::new();
        while let Some(piece) = reader.next().await {
            let piece = piece?;
            if piece.len() == whole {
                return Ok(ReadData::Shared(piece));
            }
            if joined.capacity() == 0 {
                joined.reserve_exact(whole);
            }
            joined.extend_from_slice(&piece);
        }
        Ok(ReadData::Joined(joined))
    }
}
