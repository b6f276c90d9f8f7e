//! Open files: which version each is on, whose pages the kernel may use for it, and its bytes.

use std::sync::Arc;

use bytes::Bytes;
use fuser::{Errno, FopenFlags, OpenAccMode, OpenFlags};
use futures_util::StreamExt as _;

use super::super::errno;
use super::super::nodes::Node;
use super::super::pages::Opening;
use super::Files;
use crate::engine::names::Facts;
use crate::engine::{Object, Open};
use crate::plan::{ByteRange, RangeSpec};

/// Objects up to this size come whole with the request that opens them; of a larger one a chunk
/// does. What only looks at beginnings, as a library's scan does, costs a chunk a file.
const WHOLE: u64 = 1 << 20;

/// A file, held open on one version.
#[derive(Debug)]
pub(super) struct Handle {
    node: Arc<Node>,
    object: Object,
    /// It reads through the kernel's pages.
    _paged: Option<Paged>,
}

/// The right to read a node's pages, until it is dropped.
#[derive(Debug)]
struct Paged(Arc<Node>);

impl Drop for Paged {
    fn drop(&mut self) {
        self.0.pages().close();
    }
}

/// The bytes of a read, in one piece.
#[derive(Debug)]
pub(in crate::fuse) enum Data {
    /// As the cache has them.
    Shared(Bytes),
    /// Put together from several chunks.
    Joined(Vec<u8>),
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Shared(bytes) => bytes,
            Self::Joined(bytes) => bytes,
        }
    }
}

impl Files {
    /// Opens a file on the version that it has now.
    pub(in crate::fuse) async fn open(
        &self,
        ino: u64,
        flags: OpenFlags,
    ) -> Result<(u64, FopenFlags), Errno> {
        let node = self.file_node(ino)?;
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return Err(Errno::EROFS);
        }
        let size = node.pages().size();
        let first = match size {
            Some(0) => None,
            Some(size) if size <= WHOLE => Some(size - 1),
            _ => Some(0),
        };
        let first = first.map(|last| RangeSpec::Bounded { first: 0, last });
        let how = Open {
            first,
            ..Open::default()
        };
        let object = self.object(&node, how).await?;
        let past_pages = flags.0 & i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or(0);
        let (paged, reply) = match past_pages {
            0 => self.see_to_pages(&node, &object).await,
            _ => (None, FopenFlags::FOPEN_DIRECT_IO),
        };
        self.metrics.handles.inc();
        let handle = self.open.open(Handle {
            node,
            object,
            _paged: paged,
        });
        Ok((handle, reply))
    }

    /// Sees to it that the kernel's pages are of this version, or that the handle does not use them.
    async fn see_to_pages(&self, node: &Arc<Node>, object: &Object) -> (Option<Paged>, FopenFlags) {
        let facts = Facts::of(object.version());
        let _turn = node.turn.lock().await;
        let opening = node.pages().open(object.id(), &facts);
        if opening == Opening::Direct {
            return (None, FopenFlags::FOPEN_DIRECT_IO);
        }
        let paged = Paged(node.clone());
        // Told before the handle is there: the next one that finds it open keeps the pages.
        let right = opening == Opening::Keep || self.drop_pages(node.ino).await;
        let flags = match right {
            true => FopenFlags::FOPEN_KEEP_CACHE,
            false => FopenFlags::empty(),
        };
        (Some(paged), flags)
    }

    async fn drop_pages(&self, ino: u64) -> bool {
        let Some(kernel) = self.kernel.get().cloned() else {
            return false;
        };
        // The kernel may wait for a page that is being read.
        let told = tokio::task::spawn_blocking(move || kernel.drop_pages(ino));
        told.await.unwrap_or(false)
    }

    pub(in crate::fuse) fn close(&self, handle: u64) {
        if self.open.close(handle).is_some() {
            self.metrics.handles.dec();
        }
    }

    /// Up to `size` bytes from `offset` on; fewer only where the file ends.
    pub(in crate::fuse) async fn read(
        &self,
        handle: u64,
        offset: u64,
        size: u32,
    ) -> Result<Data, Errno> {
        let handle = self.open.get(handle).ok_or(Errno::EBADF)?;
        let end = offset
            .saturating_add(u64::from(size))
            .min(handle.object.version().size);
        if offset >= end {
            return Ok(Data::Shared(Bytes::new()));
        }
        let mut reader = handle.object.read_at(ByteRange::new(offset, end));
        let whole = usize::try_from(end - offset).unwrap_or(usize::MAX);
        let mut joined = Vec::new();
        while let Some(piece) = reader.next().await {
            let piece = piece.map_err(|error| errno::logged(&error, &handle.node.key))?;
            if piece.len() == whole {
                return Ok(Data::Shared(piece));
            }
            if joined.capacity() == 0 {
                joined.reserve_exact(whole);
            }
            joined.extend_from_slice(&piece);
        }
        Ok(Data::Joined(joined))
    }
}
