//! Whole objects as plain files, for a frontend that has the kernel read them by itself (FUSE
//! passthrough).
//!
//! An object that is cached whole, and had to be read through us all the same, is *laid out*: copied
//! from the tiers into a file, behind everything else, one object at a time. The file has no name
//! (`O_TMPFILE`): it is gone with the process, however that ends, and no other version can be met in
//! it. It is seen by nobody before it is whole. Nothing is asked of any origin for it.
//!
//! What was not used for longest makes room, unless somebody has it open.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use rustix::fs::FallocateFlags;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::core::Core;
use super::watch::{Scope, Watch};
use super::{Engine, Found, Object};
use crate::plan::{ByteRange, OriginId};
use crate::store::ChunkKey;
use crate::telemetry::names;

mod shelf;

pub use shelf::Backing;
use shelf::{Room, Shelf};

/// Smaller objects are not laid out: to open a plain file costs what it saves.
const LEAST: u64 = 1 << 20;

/// How much is written before the disk is waited for.
const DIRTY: u64 = 64 << 20;

/// After a failure nothing is laid out for so long.
const PAUSE: Duration = Duration::from_secs(60);

/// How often the free space is looked at.
const LOOK: Duration = Duration::from_secs(5);

/// While somebody reads a chunk's disk its copying waits, so long at a time and so often.
const GIVE_WAY: Duration = Duration::from_millis(20);
const GIVES_WAY: u32 = 50;

/// Where plain files lie, and how much they may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// A folder; it is made where it is missing.
    pub folder: PathBuf,
    /// Bytes of files at most, those included that were given up while they were open.
    pub size: u64,
    /// Bytes that stay free on the file system, whoever fills it.
    pub min_free: u64,
}

/// Plain files of whole objects. Clones are one.
#[derive(Debug, Clone)]
pub struct Backings(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    core: Arc<Core>,
    settings: Settings,
    shelf: Mutex<Shelf>,
    /// Who lays something out.
    turn: Arc<Semaphore>,
    /// Until then nothing is laid out.
    pause: Mutex<Option<Instant>>,
    laid_out: Family<[(&'static str, &'static str); 1], Counter>,
}

/// Why an object is not laid out after all.
#[derive(Debug)]
enum GivenUp {
    /// A chunk has left the cache.
    Uncached,
    /// There is no room, and all files are open.
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
    pub fn start(engine: &Engine, settings: Settings) -> io::Result<Self> {
        std::fs::create_dir_all(&settings.folder)?;
        drop(tempfile::tempfile_in(&settings.folder)?);
        let inner = Arc::new(Inner {
            core: engine.core.clone(),
            shelf: Mutex::new(Shelf::new(settings.size)),
            settings,
            turn: Arc::new(Semaphore::new(1)),
            pause: Mutex::default(),
            laid_out: Family::default(),
        });
        let watcher: Arc<dyn Watch> = inner.clone();
        engine.watch(Arc::downgrade(&watcher));
        engine
            .core
            .spawn(keep_free(Arc::downgrade(&inner), engine.core.clone()));
        Ok(Self(inner))
    }

    /// Makes what is counted part of what `/metrics` shows.
    pub fn register(&self, registry: &mut Registry) {
        names::PASSTHROUGH_LAID_OUT.register(registry, self.0.laid_out.clone());
        names::PASSTHROUGH_BYTES.register(registry, self.0.shelf().taken());
    }

    /// The plain file of an object's version, if it is laid out, and no cache disk fails: who reads a
    /// file by himself is not helped by the origin.
    #[must_use]
    pub fn of(&self, object: &Object) -> Option<Arc<Backing>> {
        let found = self.0.shelf().take(object.id())?;
        let sound = self.0.core.chunks.notes().is_empty();
        sound.then_some(found)
    }

    /// Whether an object can be laid out as things are: it has the size for it, and is cached whole.
    #[must_use]
    pub fn suits(&self, object: &Object) -> bool {
        let size = object.version().size;
        let whole = ByteRange::new(0, size);
        (LEAST..=self.0.settings.size).contains(&size)
            && matches!(object.locate(whole), Found::All(_))
    }

    /// Lays an object out in the background, if it suits, and nothing else is being laid out.
    pub fn lay_out(&self, object: &Object) {
        let inner = &self.0;
        if inner.pauses() || inner.shelf().has(object.id()) || !self.suits(object) {
            return;
        }
        let Ok(turn) = inner.turn.clone().try_acquire_owned() else {
            return;
        };
        let (inner, object) = (inner.clone(), object.clone());
        self.0.core.spawn(async move {
            let stop = inner.core.stop.clone();
            tokio::select! {
                done = inner.copy(&object) => inner.told(&object, &done),
                () = stop.cancelled() => {}
            }
            drop(turn);
        });
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
            Err(GivenUp::Uncached) => "uncached",
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

    /// Copies an object from the tiers into a file. One chunk of it is in memory at a time.
    async fn copy(&self, object: &Object) -> Result<(), GivenUp> {
        let (version, size) = (object.id(), object.version().size);
        let (core, geometry) = (&self.core, self.core.geometry);
        let room = self.room(size).await?;
        let folder = self.settings.folder.clone();
        let mut file = blocking(move || create(&folder, size)).await?;
        let mut dirty = 0;
        for index in 0..geometry.count(size) {
            let (key, range) = (ChunkKey { version, index }, geometry.bytes(index, size));
            let len = usize::try_from(range.len()).map_err(io::Error::other)?;
            self.give_way(&key, len).await;
            let chunk = core.chunks.copy(&key, len).await;
            let chunk = chunk.ok_or(GivenUp::Uncached)?;
            dirty += range.len();
            let settle = dirty >= DIRTY || range.end == size;
            file = blocking(move || write(file, range.start, &chunk, settle)).await?;
            if settle {
                dirty = 0;
            }
        }
        let id = object.pinned.id.clone();
        self.shelf().put(version, id, Backing::new(file, room));
        Ok(())
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

    /// Room for so many bytes, which others leave for it if need be.
    async fn room(&self, size: u64) -> Result<Room, GivenUp> {
        let wanted = size.saturating_add(self.settings.min_free);
        loop {
            let room = self.shelf().reserve(size);
            if let Some(room) = room {
                let folder = self.settings.folder.clone();
                if blocking(move || free(&folder)).await? >= wanted {
                    return Ok(room);
                }
            }
            if !self.drop_one().await {
                return Err(GivenUp::NoRoom);
            }
        }
    }

    /// Removes the file that was not used for longest. `false`: all are open.
    async fn drop_one(&self) -> bool {
        let Some(idle) = self.shelf().pop_idle() else {
            return false;
        };
        // A large one takes its time.
        let dropped = tokio::task::spawn_blocking(move || drop(idle));
        dropped.await.is_ok()
    }
}

impl Watch for Inner {
    /// The next open could not find them, for a purge changes the version's identity; the space is
    /// free at once.
    fn purged<'a>(&'a self, origin: OriginId, scope: &'a Scope) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let purged = self.shelf().remove(|id| {
                let covered = scope.covers(id.key.as_str());
                id.origin == origin && covered
            });
            if !purged.is_empty() {
                let _ = tokio::task::spawn_blocking(move || drop(purged)).await;
            }
        })
    }
}

/// Removes files while less space is free than is to be.
async fn keep_free(inner: Weak<Inner>, core: Arc<Core>) {
    loop {
        tokio::select! {
            () = sleep(LOOK) => {}
            () = core.stop.cancelled() => return,
        }
        let Some(inner) = inner.upgrade() else { return };
        if inner.shelf().is_empty() {
            continue;
        }
        let (folder, least) = (inner.settings.folder.clone(), inner.settings.min_free);
        let low = move || Ok(free(&folder)? < least);
        while let Ok(true) = blocking(low.clone()).await {
            if !inner.drop_one().await {
                break;
            }
        }
    }
}

/// An empty file with room for `size` bytes.
fn create(folder: &Path, size: u64) -> io::Result<File> {
    let file = tempfile::tempfile_in(folder)?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size) {
        // It takes space as it is written, then.
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(file),
        Err(error) => Err(error.into()),
    }
}

/// `settle`: waits until everything is on the disk, so that the kernel can let go of it at any time.
fn write(file: File, at: u64, bytes: &Bytes, settle: bool) -> io::Result<File> {
    file.write_all_at(bytes, at)?;
    if settle {
        file.sync_data()?;
    }
    Ok(file)
}

fn free(folder: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(folder)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|panic| Err(io::Error::other(panic)))
}
