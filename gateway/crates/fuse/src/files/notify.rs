//! Notifications of a mount to the kernel, which has not asked: to drop names, and pages with attributes. Each waits for the
//! requests that the kernel would make it wait for (see `unanswered`).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::sync::Arc;

use fuser::Errno;
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use tokio::task::JoinHandle;

use super::Files;
use super::unanswered::{Hold, UnansweredRequest};
use crate::nodes::Node;
use tidegate_engine::Scope;
use tidegate_plan::{ObjectKey, OriginId};

/// Notifications that are sent to the kernel unasked.
pub(crate) trait Kernel: Send + Sync + fmt::Debug {
    /// Drops a node's pages and attributes. Returns whether that was done.
    fn drop_pages(&self, ino: u64) -> bool;
    /// Drops a name in a folder.
    fn drop_name(&self, folder: u64, name: &str);
}

/// A drop of pages that has not ended. If its caller gives up before, the pages are in doubt.
struct UnseenDrop<'n>(Option<&'n Node>);

impl Drop for UnseenDrop<'_> {
    fn drop(&mut self) {
        if let Some(node) = self.0 {
            node.pages().doubt();
        }
    }
}

/// Folders whose names are dropped at the same time.
const MAX_FOLDERS: usize = 64;

/// Makes the kernel forget the names of these nodes, and with `pages` their pages. Blocks.
fn drop_all(kernel: &dyn Kernel, nodes: &[Arc<Node>], pages: bool) {
    for node in nodes {
        if pages {
            kernel.drop_pages(node.ino);
        }
        kernel.drop_name(node.parent(), &node.name());
    }
}

impl Files {
    /// Records a request for which the kernel holds a folder, until the result is dropped.
    pub(crate) fn hold_folder(&self, ino: u64, hold: Hold) -> UnansweredRequest {
        self.in_folders.begin(ino, hold)
    }

    /// Does the same for a change of a name that may be a folder's: the kernel holds that folder as well.
    pub(crate) fn hold_name(&self, parent: u64, name: &OsStr) -> Vec<UnansweredRequest> {
        let mut held = vec![self.hold_folder(parent, Hold::Alone)];
        if let (Some(parent), Some(name)) = (self.nodes.get(parent), name.to_str()) {
            let key = format!("{}{name}/", parent.key());
            let inner = self.nodes.with_keys(&[&key]).into_keys();
            held.extend(inner.map(|ino| self.hold_folder(ino, Hold::Alone)));
        }
        held
    }

    /// Records a request for which the kernel holds pages of a file, until the result is dropped.
    pub(crate) fn hold_pages(&self, ino: u64) -> UnansweredRequest {
        self.reads.begin(ino, Hold::Shared)
    }

    /// Begins to drop pages. The task's result says whether that was done. `None`: there is no kernel.
    fn begin_drop(&self, ino: u64) -> Option<JoinHandle<bool>> {
        let (kernel, reads) = (self.kernel.get().cloned()?, self.reads.clone());
        Some(tokio::spawn(async move {
            reads.until_free(ino).await;
            let told = tokio::task::spawn_blocking(move || kernel.drop_pages(ino));
            told.await.unwrap_or(false)
        }))
    }

    /// Drops pages in the background: while the kernel waits for an answer it may hold them.
    pub(crate) fn drop_pages_later(&self, ino: u64) {
        drop(self.begin_drop(ino));
    }

    /// Drops a name in the background.
    pub(super) fn drop_name_later(&self, parent: u64, name: String) {
        if let Some(kernel) = self.kernel.get().cloned() {
            let in_folders = self.in_folders.clone();
            tokio::spawn(async move {
                in_folders.until_free(parent).await;
                tokio::task::spawn_blocking(move || kernel.drop_name(parent, &name)).await
            });
        }
    }

    /// Drops the pages of a file. Returns whether that was done within half the deadline; if not, it is done later. If the
    /// caller gives up, the next open drops them.
    pub(crate) async fn drop_pages(&self, node: &Node) -> bool {
        let Some(told) = self.begin_drop(node.ino) else {
            return false;
        };
        let mut unseen = UnseenDrop(Some(node));
        let told = tokio::time::timeout(self.settings.deadline / 2, told);
        let told = async { told.await.map_err(|_| Errno::EIO) };
        let dropped = matches!(self.until_stopped(told).await, Ok(Ok(true)));
        unseen.0 = None;
        dropped
    }

    /// Makes the kernel forget the names in `scope`, and with `pages` their pages.
    pub(super) async fn drop_covered(&self, origin: OriginId, scope: &Scope, pages: bool) {
        let Some(kernel) = self.kernel.get().cloned() else {
            return;
        };
        if origin != self.source.origin.id() {
            return;
        }
        let nodes = match scope {
            // Events come by the thousand, and a kernel may know a million nodes.
            Scope::Key(key) => self
                .nodes
                .with_keys(&[key.as_str()])
                .into_values()
                .collect(),
            _ => self.nodes.covered(|key| self.is_covered(scope, key)),
        };
        let mut folders: BTreeMap<u64, Vec<Arc<Node>>> = BTreeMap::new();
        for node in nodes {
            folders.entry(node.parent()).or_default().push(node);
        }
        let (in_folders, reads) = (self.in_folders.clone(), self.reads.clone());
        let drops = folders.into_iter().map(move |(folder, nodes)| {
            let (in_folders, reads, kernel) = (in_folders.clone(), reads.clone(), kernel.clone());
            async move {
                in_folders.until_free(folder).await;
                let is_held = |node: &Arc<Node>| pages && reads.is_held(node.ino);
                let (held, free): (Vec<_>, Vec<_>) = nodes.into_iter().partition(is_held);
                let own = kernel.clone();
                let _ = tokio::task::spawn_blocking(move || drop_all(&*own, &free, pages)).await;
                // A file that is read for long keeps none of the others waiting.
                let late = held.into_iter().map(|node| async {
                    reads.until_free(node.ino).await;
                    in_folders.until_free(folder).await;
                    let own = kernel.clone();
                    let told = move || drop_all(&*own, &[node], pages);
                    let _ = tokio::task::spawn_blocking(told).await;
                });
                join_all(late).await;
            }
        });
        // One folder that is renamed for minutes does not keep the others waiting.
        let told = stream::iter(drops).for_each_concurrent(MAX_FOLDERS, |told| told);
        let told = tokio::spawn(told);
        if tokio::time::timeout(self.settings.deadline, told)
            .await
            .is_err()
        {
            tracing::warn!("the kernel is slow to drop purged pages");
        }
    }

    /// Returns whether a purge may cover a key. A tag's purge covers no folder.
    fn is_covered(&self, scope: &Scope, key: &str) -> bool {
        match (scope, ObjectKey::new(key)) {
            (Scope::Tag(_), Ok(key)) => {
                !key.as_str().ends_with('/') && !self.engine.holds_fresh(&self.source, &key)
            }
            (Scope::Tag(_), Err(_)) => false,
            _ => scope.covers(key),
        }
    }
}
