//! Carries out the kernel's requests. Uses the engine and the write path, and knows the kernel only as a trait.

use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fuser::{Errno, FileAttr};
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{attr, errno, xattr};
use crate::folder::Folder;
use crate::handles::Handles;
use crate::lookup_backoff::LookupBackoff;
use crate::metrics::Metrics;
use crate::nodes::{Node, Nodes, ROOT_INO};
use crate::settings::{Access, Settings, WriteSettings};
use tidegate_engine::names::{Answer, Facts, NameKind};
use tidegate_engine::{
    Engine, InvalidationSubscriber, Object, OpenOptions, ReadContext, RenamedFolder, Scope,
};
use tidegate_plan::folder::{MAX_NAME, is_name};
use tidegate_plan::{ObjectKey, OriginId};

mod attributes;
mod change;
mod copy;
mod draft;
mod folders;
mod handle;
mod links;
mod look_up;
mod notify;
mod open;
mod read;
mod set_attr;
mod unanswered;
mod write;

pub(crate) use attributes::Creator;
pub(crate) use copy::CopyEnd;
use handle::Handle;
pub(crate) use notify::Kernel;
pub(crate) use set_attr::SetAttr;
pub(crate) use unanswered::Hold;
use unanswered::UnansweredRequests;

/// The time that the kernel may keep the attributes of a file that an open handle pins.
const PINNED_ATTR_TTL: Duration = Duration::from_secs(1);

/// One mount's files.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    /// Makes all waiting requests, and all later ones, fail.
    pub(crate) stop: CancellationToken,
    /// The changes of files that are under way, and the closes.
    pub(crate) changes: TaskTracker,
    engine: Engine,
    source: Arc<ReadContext>,
    /// The way to write, if the mount is writable.
    writable: Option<WriteSettings>,
    nodes: Nodes,
    open: Handles<Handle>,
    folders: Handles<Folder>,
    kernel: OnceLock<Arc<dyn Kernel>>,
    /// The places of reads that wait for a publish.
    publish_waits: Semaphore,
    /// Requests for which the kernel holds a folder, and those for which it holds pages of a file.
    in_folders: Arc<UnansweredRequests>,
    reads: Arc<UnansweredRequests>,
    lookup_backoff: LookupBackoff,
    unread: errno::FailureRate,
    /// Whether files that bypass the kernel's pages can be mapped all the same.
    pub(crate) maps: AtomicBool,
}

/// A node's attributes for the kernel, and how long it may rely on them.
pub(crate) type TimedAttr = (FileAttr, Duration);

impl Files {
    pub(crate) fn new(
        settings: Settings,
        engine: Engine,
        source: Arc<ReadContext>,
        access: Access,
        metrics: Metrics,
    ) -> Self {
        let writable = match access {
            Access::Read => None,
            Access::Write(writable) => Some(writable),
        };
        let nodes = Nodes::new(
            source.origin.id(),
            &settings.prefix,
            settings.numbers.clone(),
        );
        Self {
            settings,
            metrics,
            stop: CancellationToken::new(),
            changes: TaskTracker::new(),
            engine,
            source,
            writable,
            nodes,
            open: Handles::default(),
            folders: Handles::default(),
            kernel: OnceLock::new(),
            publish_waits: Semaphore::new(read::MAX_PUBLISH_WAITS),
            in_folders: Arc::default(),
            reads: Arc::default(),
            lookup_backoff: LookupBackoff::default(),
            unread: errno::FailureRate::default(),
            maps: AtomicBool::new(false),
        }
    }

    /// Sets the receiver of notifications.
    pub(crate) fn attach(&self, kernel: Arc<dyn Kernel>) {
        let _ = self.kernel.set(kernel);
    }

    /// Returns the number of changes of files so far, and whether one is under way.
    pub(crate) fn changes(&self) -> (u64, bool) {
        (self.metrics.changes(), !self.changes.is_empty())
    }

    /// Returns when all changes and closes that the kernel has told of have ended.
    pub(crate) async fn closed(&self) {
        self.changes.close();
        self.changes.wait().await;
    }

    /// Returns whether the mount is writable.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable.is_some()
    }

    /// Returns the size of the mount and its free room, in bytes: those of the spool, as far as its disk has the room, or the
    /// given size without what waits in the spool. What a bucket holds and takes is unknown. A mount that is read has no room.
    pub(crate) async fn space(&self) -> (u64, u64) {
        let Some(writable) = &self.writable else {
            return (self.settings.size.unwrap_or(0), 0);
        };
        let (used, spool) = writable.writers.spooled();
        match self.settings.size {
            Some(size) => (size, size.saturating_sub(used)),
            None => (spool, writable.writers.free_room().await),
        }
    }

    /// Ends at once when the mount goes; `work` bounds its own waits.
    pub(crate) async fn until_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, Errno>>,
    ) -> Result<T, Errno> {
        tokio::select! {
            biased;
            done = work => done,
            () = self.stop.cancelled() => Err(Errno::EIO),
        }
    }

    /// Ends within the deadline, and at once when the mount goes.
    pub(crate) async fn bounded<T>(
        &self,
        work: impl Future<Output = Result<T, Errno>>,
    ) -> Result<T, Errno> {
        tokio::select! {
            biased;
            done = tokio::time::timeout(self.settings.deadline, work) => {
                done.unwrap_or(Err(Errno::EIO))
            }
            () = self.stop.cancelled() => Err(Errno::EIO),
        }
    }

    /// Tells the kernel of a name once more.
    pub(crate) fn tell(
        &self,
        folder: u64,
        path: &str,
        entry: &NameKind,
        fresh: Duration,
    ) -> Option<TimedAttr> {
        Some(match entry {
            NameKind::Missing => return None,
            NameKind::Folder => {
                let node = self.nodes.tell(folder, &format!("{path}/"), true);
                (self.show_folder(&node), fresh)
            }
            NameKind::File(facts) => {
                let node = self.nodes.tell(folder, path, false);
                self.show(&node, facts, fresh)
            }
        })
    }

    /// Does the same for a name that was listed some time ago. The engine's present knowledge goes first; a name that
    /// it does not know must be looked up before it is used.
    pub(crate) fn tell_listed(
        &self,
        folder: u64,
        path: &str,
        listed: &NameKind,
    ) -> Option<TimedAttr> {
        match self.engine.known(&self.source, path) {
            Some(Answer { entry, fresh }) if entry != NameKind::Missing => {
                self.tell(folder, path, &entry, fresh)
            }
            _ => self.tell(folder, path, listed, Duration::ZERO),
        }
    }

    fn show(&self, node: &Node, facts: &Facts, fresh: Duration) -> TimedAttr {
        if let Some(shown) = self.show_draft(node) {
            return shown;
        }
        let (facts, fresh) = node.pages().show(facts, fresh);
        (attr::file(&self.settings, node.ino, &facts), fresh)
    }

    /// Returns the number of a name in a folder; the kernel is not told of it.
    pub(crate) fn number_of(&self, path: &str, is_folder: bool) -> u64 {
        match is_folder {
            true => self.nodes.number_of(&format!("{path}/")),
            false => self.nodes.number_of(path),
        }
    }

    /// Takes back a [`Files::tell`] whose result was not sent to the kernel.
    pub(crate) fn untell(&self, ino: u64) {
        if let Some(node) = self.nodes.get(ino) {
            node.pages().forget_shown();
        }
        self.forget(ino, 1);
    }

    pub(crate) fn forget(&self, ino: u64, times: u64) {
        self.nodes.forget(ino, times);
    }

    pub(crate) async fn getattr(&self, ino: u64) -> Result<TimedAttr, Errno> {
        let node = self.nodes.get(ino).ok_or(Errno::ESTALE)?;
        if node.is_folder {
            let attr = attr::of_name(&node, self.show_folder(&node));
            return Ok((attr, self.source.profile.load().ttl));
        }
        if let Some(shown) = self.show_draft(&node) {
            return Ok(shown);
        }
        // An open file must not depend on the origin.
        if let Some(pinned) = node.pages().pinned() {
            let attr = attr::file(&self.settings, ino, pinned);
            return Ok((attr::of_name(&node, attr), PINNED_ATTR_TTL));
        }
        if !node.is_linked() {
            return Err(Errno::ESTALE);
        }
        let answer = self.resolve(&node.key()).await?;
        match answer.entry {
            NameKind::File(facts) => Ok(self.show(&node, &facts, answer.fresh)),
            // The kernel asks before it opens, too: it is told to look again, as in `open`.
            NameKind::Folder | NameKind::Missing => Err(Errno::ESTALE),
        }
    }

    pub(crate) fn open_folder(&self, ino: u64) -> Result<u64, Errno> {
        let node = self.folder_node(ino)?;
        let folder = Folder::new(node, self.engine.clone(), self.source.clone());
        Ok(self.folders.open(folder))
    }

    pub(crate) fn folder(&self, handle: u64) -> Result<Arc<Folder>, Errno> {
        self.folders.get(handle).ok_or(Errno::EBADF)
    }

    pub(crate) fn close_folder(&self, handle: u64) {
        self.folders.close(handle);
    }

    /// Returns an extended attribute. Asks the origin for the version if it is unknown.
    pub(crate) async fn getxattr(&self, ino: u64, name: OsString) -> Result<String, Errno> {
        let node = self.nodes.get(ino).ok_or(Errno::ESTALE)?;
        let name = name.to_str().filter(|name| xattr::is_ours(name));
        let (Some(name), false) = (name, node.is_folder) else {
            return Err(Errno::ENODATA);
        };
        if name == xattr::PENDING_XATTR {
            return Ok(self.pending(&node));
        }
        let object = match self.object(&node, OpenOptions::default()).await {
            // It is being written, and the bucket has never had it.
            Err(Errno::ENOENT) => return Err(Errno::ENODATA),
            object => object?,
        };
        xattr::value(name, &object).ok_or(Errno::ENODATA)
    }

    async fn object(&self, node: &Node, how: OpenOptions) -> Result<Object, Errno> {
        let key = key_of(node)?;
        let object = self.engine.open(&self.source, &key, how).await;
        object.map_err(|error| errno::logged(&error, key.as_str()))
    }

    fn folder_node(&self, ino: u64) -> Result<Arc<Node>, Errno> {
        let node = self.nodes.get(ino).ok_or(Errno::ESTALE)?;
        match node.is_folder {
            true => Ok(node),
            false => Err(Errno::ENOTDIR),
        }
    }

    fn file_node(&self, ino: u64) -> Result<Arc<Node>, Errno> {
        let node = self.nodes.get(ino).ok_or(Errno::ESTALE)?;
        match node.is_folder {
            true => Err(Errno::EISDIR),
            false => Ok(node),
        }
    }

    /// Returns the numbers of a folder and of its parent, for `.` and `..`.
    pub(crate) fn dots(&self, folder: &Folder) -> [(u64, &'static str); 2] {
        [(folder.node.ino, "."), (folder.node.parent(), "..")]
    }

    pub(crate) fn folder_attr(&self, ino: u64) -> FileAttr {
        let node = self.nodes.get(ino.max(ROOT_INO));
        self.show_folder(&node.unwrap_or_else(|| self.nodes.root()))
    }
}

/// The errors for a name that no object can have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameErrors {
    /// The error for a name that is no UTF-8: keys are text.
    not_text: Errno,
    /// The error for any other one, as that of a hidden object.
    hidden: Errno,
}

impl NameErrors {
    /// Those of a look-up: there is no such file.
    pub(crate) const LOOK_UP: Self = Self {
        not_text: Errno::ENOENT,
        hidden: Errno::ENOENT,
    };

    /// Those of a change.
    pub(crate) const CHANGE: Self = Self {
        not_text: Errno::EILSEQ,
        hidden: Errno::EINVAL,
    };
}

/// Returns the path of a name in a folder.
fn path_of(folder: &Node, name: &OsString, errors: NameErrors) -> Result<String, Errno> {
    if name.len() > MAX_NAME {
        return Err(Errno::ENAMETOOLONG);
    }
    let name = name.to_str().ok_or(errors.not_text)?;
    if !is_name(name) {
        return Err(errors.hidden);
    }
    Ok(format!("{}{name}", folder.key()))
}

/// Returns the key of a file that still has a name.
fn key_of(node: &Node) -> Result<ObjectKey, Errno> {
    if !node.is_linked() {
        return Err(Errno::ESTALE);
    }
    ObjectKey::new(&node.key()).map_err(|_| Errno::ENOENT)
}

impl InvalidationSubscriber for Files {
    /// Makes the kernel forget the purged names before the purge is answered.
    fn purged<'a>(&'a self, origin: OriginId, scope: &'a Scope) -> BoxFuture<'a, ()> {
        Box::pin(self.drop_covered(origin, scope, true))
    }

    /// Makes the kernel ask for the names again. It keeps the pages of a version that is confirmed: an open drops those
    /// of another one.
    fn softened<'a>(&'a self, origin: OriginId, scope: &'a Scope) -> BoxFuture<'a, ()> {
        Box::pin(self.drop_covered(origin, scope, false))
    }

    /// Gives the renamed folder's nodes their new keys.
    fn renamed<'a>(&'a self, origin: OriginId, folder: &'a RenamedFolder) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if origin == self.source.origin.id() {
                self.folder_renamed(folder).await;
            }
        })
    }
}

#[cfg(test)]
mod tests;
