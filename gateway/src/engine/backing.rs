//! Whole objects as plain files, for a frontend that has the kernel read them by itself (FUSE
//! passthrough).
//!
//! An object that is cached whole, and had to be read through us all the same, is *laid out*: copied
//! from the tiers into a file, behind everything else, one object at a time. The file has no name
//! (`O_TMPFILE`): it is gone with the process, however that ends, and no other version can be met in
//! it. It is seen by nobody before it is whole. Nothing is asked of any origin for it.
//!
//! Which of them stay says the `shelf`. Once a second the file system is looked at, and what it is to
//! have free is given back; and the disk under the folder: while it fails nothing is lent, and once it is
//! switched off nothing is kept.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use rustix::fs::FallocateFlags;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::core::Core;
use super::watch::{Scope, Watch};
use super::{Engine, Found, Object};
use crate::plan::admission::LEAST_PLAIN;
use crate::plan::{ByteRange, OriginId};
use crate::store::space::Space;
use crate::store::{ChunkKey, Entry, private};
use crate::telemetry::names;

mod shelf;

pub use shelf::Backing;
use shelf::{Closer, Room, Shelf};

/// The most files: each takes a descriptor.
pub const MOST: usize = 1024;

/// How much of an object's beginning and end says whether it is cached, when it is opened.
const ENDS: u64 = 16 << 20;

/// How much is written before the disk is waited for: a reader's turn is behind it.
const DIRTY: u64 = 4 << 20;

/// After a failure nothing is laid out for so long.
const PAUSE: Duration = Duration::from_secs(60);

/// How often the file system and the disk are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// While somebody reads a chunk's disk its copying waits, so long at a time and so often.
const GIVE_WAY: Duration = Duration::from_millis(20);
const GIVES_WAY: u32 = 50;

/// Where plain files lie, and how much they may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// A folder; it is made where it is missing.
    pub folder: PathBuf,
    /// Bytes of files at most, those included that left the shelf while they were open. What a program has
    /// closed and has mapped still cannot be seen, and does not count.
    pub size: u64,
    /// Bytes that stay free on the file system, whoever fills it.
    pub min_free: u64,
}

/// What can be said of the disk under the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Under {
    /// It may be read.
    Sound,
    /// It is slow, or fails.
    Failing,
    /// It was switched off, and may be about to be unmounted.
    Off,
}

/// Says how the disk under the folder is; asked once a second.
pub type Ask = Box<dyn Fn() -> Under + Send + Sync>;

/// Plain files of whole objects. Clones are one.
#[derive(Debug, Clone)]
pub struct Backings(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    settings: Settings,
    /// The file system that the folder is on.
    device: AtomicU64,
    under: Ask,
    /// The disk is sound.
    lends: AtomicBool,
    shelf: Mutex<Shelf>,
    closer: Closer,
    /// Who lays something out.
    turn: Arc<Semaphore>,
    /// Who looks at the file system.
    looks: Arc<Semaphore>,
    /// Until then nothing is laid out.
    pause: Mutex<Option<Instant>>,
    laid_out: Family<[(&'static str, &'static str); 1], Counter>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("settings", &self.settings)
            .field("shelf", &self.shelf)
            .finish_non_exhaustive()
    }
}

/// Why an object is not laid out after all.
#[derive(Debug)]
enum GivenUp {
    /// A chunk is not in the cache, or the object has another version by now.
    Gone,
    /// There is no room that others may leave for it.
    NoRoom,
    /// The file system fails.
    Failed(io::Error),
}

impl From<io::Error> for GivenUp {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Backings {
    /// Plain files of this engine's objects. Blocks.
    ///
    /// # Errors
    /// The folder cannot be made, or no file can be made in it.
    pub fn start(engine: &Engine, settings: Settings, under: Ask) -> io::Result<Self> {
        let device = device(&settings.folder)?;
        let core = engine.core.clone();
        let inner = Arc::new(Inner {
            core: core.clone(),
            shelf: Mutex::new(Shelf::new(settings.size, MOST)),
            closer: Closer::start()?,
            settings,
            device: AtomicU64::new(device),
            lends: AtomicBool::new(under() == Under::Sound),
            under,
            turn: Arc::new(Semaphore::new(1)),
            looks: Arc::new(Semaphore::new(1)),
            pause: Mutex::default(),
            laid_out: Family::default(),
        });
        let watcher: Arc<dyn Watch> = inner.clone();
        engine.watch(Arc::downgrade(&watcher));
        let (watched, stop) = (Arc::downgrade(&inner), core.stop.clone());
        core.spawn(async move {
            tokio::select! {
                () = keep_watch(watched) => {}
                () = stop.cancelled() => {}
            }
        });
        Ok(Self(inner))
    }

    /// Makes what is counted part of what `/metrics` shows.
    pub fn register(&self, registry: &mut Registry) {
        names::PASSTHROUGH_LAID_OUT.register(registry, self.0.laid_out.clone());
        names::PASSTHROUGH_BYTES.register(registry, self.0.shelf().taken());
    }

    /// The plain file of an object's version, if it is laid out, and the disk under it is sound.
    #[must_use]
    pub fn of(&self, object: &Object) -> Option<Arc<Backing>> {
        let found = self.0.shelf().take(object.id());
        found.filter(|_| self.0.lends.load(Ordering::Relaxed))
    }

    /// Whether an object can be laid out, as far as can be told at once: it has the size for it, and its
    /// beginning and end are cached.
    #[must_use]
    pub fn suits(&self, object: &Object) -> bool {
        let size = object.version().size;
        let ends = [
            ByteRange::new(0, size.min(ENDS)),
            ByteRange::new(size.saturating_sub(ENDS), size),
        ];
        let cached = |range| matches!(object.locate(range), Found::All(_));
        (LEAST_PLAIN..=self.0.settings.size).contains(&size) && ends.into_iter().all(cached)
    }

    /// Lays an object out in the background, if it suits, and nothing else is being laid out.
    pub fn lay_out(&self, object: &Object) {
        let inner = &self.0;
        if !inner.lends.load(Ordering::Relaxed) || inner.pauses() || !self.suits(object) {
            return;
        }
        let Ok(turn) = inner.turn.clone().try_acquire_owned() else {
            return;
        };
        if inner.shelf().has(object.id()) {
            return;
        }
        let (inner, object) = (inner.clone(), object.clone());
        self.0.core.spawn(async move {
            let stop = inner.core.stop.clone();
            tokio::select! {
                done = inner.lay_out(&object) => inner.told(&object, &done),
                () = stop.cancelled() => {}
            }
            drop(turn);
        });
    }

    /// Nobody can be lent anything: the files go.
    pub fn let_go(&self) {
        self.0.shelf().remove(|_| true);
    }
}

impl Inner {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pauses(&self) -> bool {
        let until = *self.pause.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    fn told(&self, object: &Object, done: &Result<(), GivenUp>) {
        let result = match done {
            Ok(()) => "done",
            Err(GivenUp::Gone) => "gone",
            Err(GivenUp::NoRoom) => "no_room",
            Err(GivenUp::Failed(_)) => "failed",
        };
        self.laid_out.get_or_create(&[("result", result)]).inc();
        let size = object.version().size;
        tracing::debug!(key = ?object.pinned.id.key, size, result, "laid out as a plain file");
        if let Err(GivenUp::Failed(error)) = done {
            let folder = self.settings.folder.display();
            tracing::warn!(%folder, %error, "an object cannot be laid out as a plain file");
            let mut pause = self.pause.lock().unwrap_or_else(PoisonError::into_inner);
            *pause = Some(Instant::now() + PAUSE);
        }
    }

    async fn lay_out(&self, object: &Object) -> Result<(), GivenUp> {
        if !self.is_current(object).await || !self.is_cached(object).await {
            return Err(GivenUp::Gone);
        }
        let room = self.room(object).await?;
        let backing = self.copy(object, room).await?;
        // Else it would be nobody's, and stand in the way of others.
        if !self.is_current(object).await {
            return Err(GivenUp::Gone);
        }
        let (version, id) = (object.id(), object.pinned.id.clone());
        self.shelf().put(version, id, backing);
        Ok(())
    }

    /// Whether the object has this version still, as far as is known here.
    async fn is_current(&self, object: &Object) -> bool {
        let known = self.core.meta.load(&object.pinned.id).await;
        matches!(known, Some(Entry::Present(record)) if record.id == object.id())
    }

    async fn is_cached(&self, object: &Object) -> bool {
        let (core, version) = (&self.core, object.id());
        let mut cached = true;
        core.each_chunk(object.version().size, |index| {
            let held = core.chunks.held(&ChunkKey { version, index });
            cached = held.memory || held.disk;
            cached
        })
        .await;
        cached
    }

    /// Room for an object, which others leave for it if need be.
    async fn room(&self, object: &Object) -> Result<Room, GivenUp> {
        let size = object.version().size;
        let wanted = size.saturating_add(self.settings.min_free);
        let lacking = wanted.saturating_sub(self.free().await?);
        let room = self.shelf().admit(object.id(), size, lacking);
        let room = room.ok_or(GivenUp::NoRoom)?;
        self.closer.settled().await;
        // It may be slow to tell, or somebody else took it.
        match lacking == 0 || self.free().await? >= wanted {
            true => Ok(room),
            false => Err(GivenUp::NoRoom),
        }
    }

    async fn free(&self) -> io::Result<u64> {
        let folder = self.settings.folder.clone();
        blocking(move || Ok(Space::of(&folder)?.free)).await
    }

    /// Copies an object from the tiers into a file. One chunk of it is in memory at a time.
    async fn copy(&self, object: &Object, room: Room) -> Result<Backing, GivenUp> {
        let (version, size) = (object.id(), object.version().size);
        let (core, geometry) = (&self.core, self.core.geometry);
        let folder = self.settings.folder.clone();
        let device = self.device.load(Ordering::Relaxed);
        let file = blocking(move || create(&folder, device, size)).await?;
        // From here on it is closed elsewhere, also where it is given up half way.
        let mut backing = Backing::new(file, room, &self.closer);
        let mut dirty = 0;
        for index in 0..geometry.count(size) {
            let (key, range) = (ChunkKey { version, index }, geometry.bytes(index, size));
            let len = usize::try_from(range.len()).map_err(io::Error::other)?;
            self.give_way(&key, len).await;
            let chunk = core.chunks.copy(&key, len).await;
            let chunk = chunk.ok_or(GivenUp::Gone)?;
            dirty += range.len();
            let settle = dirty >= DIRTY || range.end == size;
            backing = blocking(move || write(backing, range.start, &chunk, settle)).await?;
            if settle {
                dirty = 0;
            }
        }
        Ok(backing)
    }

    /// Waits while others read the disk that a chunk lies on, for bounded time.
    async fn give_way(&self, key: &ChunkKey, len: usize) {
        let busy = || {
            let estimate = self.core.chunks.disk_estimate(key, len);
            estimate.is_some_and(|it| !it.is_idle && !it.takes.is_zero())
        };
        for _ in 0..GIVES_WAY {
            if !busy() {
                return;
            }
            sleep(GIVE_WAY).await;
        }
    }

    /// Gives back what the file system is to have free, as far as nobody has it open.
    async fn keep_free(&self) {
        if self.shelf().is_empty() {
            return;
        }
        if let Ok(free) = self.free().await {
            let lacking = self.settings.min_free.saturating_sub(free);
            self.shelf().give(lacking);
            self.closer.settled().await;
        }
    }

    /// The disk is on again, or another one in its place.
    async fn begin_anew(&self) {
        let folder = self.settings.folder.clone();
        match blocking(move || device(&folder)).await {
            Ok(device) => self.device.store(device, Ordering::Relaxed),
            Err(error) => tracing::warn!(%error, "no files can be laid out there"),
        }
    }
}

impl Watch for Inner {
    /// The next open could not find them, for a purge changes the version's identity; the space is
    /// free soon.
    fn purged<'a>(&'a self, origin: OriginId, scope: &'a Scope) -> BoxFuture<'a, ()> {
        self.shelf().remove(|id| {
            let covered = scope.covers(id.key.as_str());
            id.origin == origin && covered
        });
        Box::pin(std::future::ready(()))
    }
}

/// Looks at the disk, and has the file system looked at, for as long as there are files. What the disk does
/// is not waited for here.
async fn keep_watch(inner: Weak<Inner>) {
    let mut was_off = false;
    loop {
        sleep(LOOK).await;
        let Some(inner) = inner.upgrade() else { return };
        let under = (inner.under)();
        inner.lends.store(under == Under::Sound, Ordering::Relaxed);
        if under == Under::Off {
            was_off = true;
            inner.shelf().remove(|_| true);
            continue;
        }
        let Ok(look) = inner.looks.clone().try_acquire_owned() else {
            continue;
        };
        let back = std::mem::take(&mut was_off);
        let stale = inner.shelf().freshen();
        let (core, stop) = (inner.core.clone(), inner.core.stop.clone());
        core.spawn(async move {
            let work = async {
                if back {
                    inner.begin_anew().await;
                }
                inner.keep_free().await;
                // What is lent is read without us: its chunks are used all the same.
                for (version, size) in stale {
                    let touch = |index| {
                        inner.core.chunks.touch(&ChunkKey { version, index });
                        true
                    };
                    inner.core.each_chunk(size, touch).await;
                }
            };
            tokio::select! {
                () = work => {}
                () = stop.cancelled() => {}
            }
            drop(look);
        });
    }
}

/// The file system that a folder is on, in which files can be made; it is made itself where it is missing.
fn device(folder: &Path) -> io::Result<u64> {
    private::make_dir(folder)?;
    Ok(tempfile::tempfile_in(folder)?.metadata()?.dev())
}

/// An empty file with room for `size` bytes; on this file system, for another may be mounted by now, or
/// none any more.
fn create(folder: &Path, device: u64, size: u64) -> io::Result<File> {
    let file = tempfile::tempfile_in(folder)?;
    if file.metadata()?.dev() != device {
        return Err(io::Error::other("another file system is mounted there"));
    }
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size) {
        // It takes space as it is written, then.
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(file),
        Err(error) => Err(error.into()),
    }
}

/// `settle`: waits until everything is on the disk, so that the kernel can let go of it at any time.
fn write(backing: Backing, at: u64, bytes: &Bytes, settle: bool) -> io::Result<Backing> {
    backing.file().write_all_at(bytes, at)?;
    if settle {
        backing.file().sync_data()?;
    }
    Ok(backing)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|panic| Err(io::Error::other(panic)))
}
