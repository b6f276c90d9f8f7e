//! Files that the kernel reads by itself, without asking us (FUSE passthrough, Linux 6.9).
//!
//! What is laid out as a plain file (`engine/backing`) is lent to the kernel when it is opened: from
//! then on reads and maps of that handle go to the plain file, at the speed of one. The kernel wants
//! all handles of a node alike, and on the same file: the node's first handle decides for those that
//! come while it is open (`pages`). A handle that is on our side reads as ever.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use fuser::BackingId;
use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use crate::engine::{Backing, Backings, Object};

/// Whether and what a mount lends.
#[derive(Debug)]
pub(super) struct Passthrough {
    backings: Backings,
    /// The kernel can, and has not refused.
    on: AtomicBool,
}

impl Passthrough {
    pub(super) fn new(backings: Backings) -> Self {
        Self {
            backings,
            on: AtomicBool::new(false),
        }
    }

    /// The kernel said whether it can read by itself; and whether we may have it do so.
    pub(super) fn begin(&self, can: bool, may: bool) {
        let lacks = match (can, may) {
            (true, true) => return self.on.store(true, Ordering::Relaxed),
            (false, _) => "Linux 6.9 or newer",
            (true, false) => "CAP_SYS_ADMIN",
        };
        tracing::warn!(
            lacks,
            "the kernel does not read files by itself: `passthrough` is without effect"
        );
    }

    fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// The plain file of an object, to be lent to a node.
    pub(super) fn of(&self, object: &Object) -> Option<Arc<Lent>> {
        let backing = self.is_on().then(|| self.backings.of(object))??;
        Some(Arc::new(Lent {
            backing,
            id: OnceLock::new(),
        }))
    }

    /// Makes a lent file known to the kernel, once. `None`: it refuses, and its handles are read by us.
    pub(super) fn known<'a>(
        &self,
        lent: &'a Lent,
        tell: impl FnOnce(&File) -> io::Result<BackingId>,
    ) -> Option<&'a BackingId> {
        let told = || {
            tell(lent.backing.file())
                .inspect_err(|error| self.refused(error))
                .ok()
        };
        lent.id.get_or_init(told).as_ref()
    }

    fn refused(&self, error: &io::Error) {
        tracing::warn!(
            %error,
            "the kernel refuses to read a file by itself: `passthrough.path` may not lie on an overlay"
        );
        // What may pass is asked for again with the next file.
        if !matches!(
            Errno::from_io_error(error),
            Some(Errno::NOMEM | Errno::NFILE | Errno::MFILE)
        ) {
            self.on.store(false, Ordering::Relaxed);
            self.backings.let_go();
        }
    }

    /// For a handle that is not lent anything: counts what is read through it, if the kernel could do
    /// without us.
    pub(super) fn count(&self, object: &Object) -> Option<Reread> {
        let suits = self.is_on() && self.backings.suits(object);
        suits.then(Reread::default)
    }

    /// A handle is closed: one that was lent something, which was used until now, or one through which this
    /// was read.
    pub(super) fn closed(&self, object: &Object, reread: Option<&Reread>) {
        match reread.map(|reread| reread.0.load(Ordering::Relaxed)) {
            None => drop(self.backings.of(object)),
            Some(read) if read >= object.version().size / 2 => self.backings.lay_out(object),
            Some(_) => {}
        }
    }
}

/// A plain file, as long as a node's handles are on it.
#[derive(Debug)]
pub(super) struct Lent {
    backing: Arc<Backing>,
    id: OnceLock<Option<BackingId>>,
}

/// Bytes that were read through us of what was cached whole when it was opened.
#[derive(Debug, Default)]
pub(super) struct Reread(AtomicU64);

impl Reread {
    pub(super) fn add(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Only who administers the system may have the kernel open files for others (`FUSE_DEV_IOC_BACKING_OPEN`).
pub(super) fn may_lend() -> bool {
    let own = rustix::thread::capabilities(None);
    own.is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN))
}
