//! Renames of folders, and locks that keep the folders of used names.

use std::ffi::OsString;
use std::sync::Arc;

use fuser::Errno;

use super::change::run_to_end;
use super::{Files, NameErrors, key_of, path_of};
use crate::errno;
use crate::nodes::{Node, ROOT_INO};
use tidegate_engine::names::NameKind;
use tidegate_engine::{Object, RenamedFolder, Scope};
use tidegate_plan::ObjectKey;
use tidegate_write::{FolderLock, FolderRename, PathLock};

/// A name in a folder.
pub(crate) type Name = (u64, OsString);

impl Files {
    /// Waits while the folder of a name is renamed, and then blocks such a rename. Returns the folder's number and the
    /// path that the name has then.
    pub(crate) async fn use_name(&self, name: &Name) -> Result<(u64, String, PathLock), Errno> {
        let ([(folder, path)], lock) = self.use_names([name]).await?;
        Ok((folder, path, lock))
    }

    /// Returns the path of a name. If its folder's rename is just deleting the old objects, which are hidden, that is the
    /// path after the rename. A name that no object can have is one of `errors`.
    pub(crate) async fn shown_path(
        &self,
        name: &Name,
        errors: NameErrors,
    ) -> Result<String, Errno> {
        let folder = self.folder_node(name.0)?;
        let path = path_of(&folder, &name.1, errors)?;
        if self.is_writable() && self.engine.is_hidden(&self.source, &folder.key()) {
            // Boxed: look-ups begin on the small stacks of the kernel's threads, and most do not come here.
            let (_, path, _) = Box::pin(self.use_name(name)).await?;
            return Ok(path);
        }
        Ok(path)
    }

    /// Waits while a rename hides a folder, so that it is listed whole.
    pub(crate) async fn wait_until_shown(&self, folder: &Node) -> Result<(), Errno> {
        let path = folder.key();
        let path = path.trim_end_matches('/');
        if self.is_writable() && self.engine.is_hidden(&self.source, path) {
            // Boxed, as in `shown_path`.
            drop(Box::pin(self.use_node(folder)).await?);
        }
        Ok(())
    }

    /// Does what [`Files::use_name`] does for several names.
    pub(crate) async fn use_names<const N: usize>(
        &self,
        names: [&Name; N],
    ) -> Result<([(u64, String); N], PathLock), Errno> {
        let writers = &self.writers()?;
        let lock = |paths: [(u64, String); N]| async move {
            let paths = paths.each_ref().map(|(_, path)| path.as_str());
            writers.use_paths(&self.source, &paths).await
        };
        self.locked(|| self.paths(names), lock).await
    }

    /// Does the same for a file or a folder that has a node.
    pub(crate) async fn use_node(&self, node: &Node) -> Result<PathLock, Errno> {
        let writers = &self.writers()?;
        let find = || match node.is_linked() {
            true => Ok(node.key()),
            false => Err(Errno::ESTALE),
        };
        let lock = |path: Arc<str>| async move { writers.use_paths(&self.source, &[&path]).await };
        let (_, lock) = self.locked(find, lock).await?;
        Ok(lock)
    }

    /// Locks the names that `find` returns. Waits for renames of their folders as long as those get on within each
    /// deadline. If `find` returns other names once the lock is held,
    /// it starts anew, for a folder may have been renamed meanwhile.
    async fn locked<T: PartialEq + Clone, L: Future>(
        &self,
        find: impl Fn() -> Result<T, Errno>,
        lock: impl Fn(T) -> L,
    ) -> Result<(T, L::Output), Errno> {
        let writers = self.writers()?;
        loop {
            let found = find()?;
            let lock = lock(found.clone());
            let locked = async { Ok(lock.await) };
            let locked = self.while_moving(writers.rename_progress(), locked).await?;
            if find()? == found {
                return Ok((found, locked));
            }
        }
    }

    fn paths<const N: usize>(&self, names: [&Name; N]) -> Result<[(u64, String); N], Errno> {
        let mut paths = std::array::from_fn(|_| (0, String::new()));
        for (place, (folder, name)) in paths.iter_mut().zip(names) {
            *place = self.path_in(*folder, name)?;
        }
        Ok(paths)
    }

    /// Renames a folder and all that lies in it, up to the mount's limit. `keep`: fails if the new name exists; else an
    /// existing folder must be empty.
    pub(crate) async fn rename_folder(
        self: &Arc<Self>,
        from: Name,
        to: Name,
        keep: bool,
    ) -> Result<(), Errno> {
        let most = self.writable.as_ref().map_or(0, |it| it.rename_limit);
        let writers = self.writers()?;
        let [(_, old), _] = self.paths([&from, &to])?;
        self.publish_below(&format!("{old}/"), most).await?;
        let ([old, new], lock) = self.lock_folders(&from, &to).await?;
        if new.starts_with(&old) {
            return Err(Errno::EINVAL);
        }
        let target = self
            .bounded(self.resolve(new.trim_end_matches('/')))
            .await?;
        match target.entry {
            NameKind::Missing => {}
            NameKind::File(_) => return Err(Errno::ENOTDIR),
            NameKind::Folder if keep => return Err(Errno::EEXIST),
            NameKind::Folder if writers.holds_below(&self.source, &new) => {
                return Err(Errno::ENOTEMPTY);
            }
            NameKind::Folder => {}
        }
        let named = async { Ok(self.nodes.hold_folder(&old).await) };
        let named = self.bounded(named).await?;
        let files = self.clone();
        let work = async move {
            let (_named, lock) = (named, lock);
            let keys = (old.as_str(), new.as_str());
            let renamed = writers
                .rename_folder(&files.source, keys, most, &lock)
                .await;
            let copied = match renamed.map_err(|error| errno::written(&error, &old))? {
                FolderRename::TooMany => return Err(Errno::EXDEV),
                FolderRename::NotEmpty => return Err(Errno::ENOTEMPTY),
                FolderRename::Copied(copied) => copied,
            };
            let origin = files.source.origin.id();
            for folder in [old.as_str(), &new] {
                let scope = Scope::Prefix(folder.into());
                files.engine.report_change(&*files, origin, scope);
            }
            match copied.left {
                Some(error) => Err(errno::written(&error, &old)),
                None => Ok(()),
            }
        };
        run_to_end(work).await
    }

    /// Publishes the drafts of a folder that is to be renamed, unless it has too many objects for that. That may take long,
    /// and blocks no open.
    async fn publish_below(&self, folder: &str, most: usize) -> Result<(), Errno> {
        let writers = self.writers()?;
        let looked = async {
            let more = writers.has_more(&self.source, folder, most).await;
            more.map_err(|error| errno::written(&error, folder))
        };
        if most == 0 || self.bounded(looked).await? {
            return Ok(());
        }
        for (key, _) in writers.snapshots_below(&self.source, folder) {
            self.publish_draft(&key).await?;
        }
        Ok(())
    }

    /// Waits until no name in both folders is used. Returns the key prefixes of both.
    async fn lock_folders(
        &self,
        from: &Name,
        to: &Name,
    ) -> Result<([String; 2], FolderLock), Errno> {
        let writers = &self.writers()?;
        let find = || {
            let [(_, old), (_, new)] = self.paths([from, to])?;
            Ok([old + "/", new + "/"])
        };
        let lock = |folders: [String; 2]| async move {
            let folders = folders.each_ref().map(String::as_str);
            writers.lock_folders(&self.source, folders).await
        };
        self.locked(find, lock).await
    }

    /// Returns the open files below a folder, each with the version that it is on.
    async fn open_below(&self, folder: &str) -> Vec<(Arc<Node>, Object)> {
        let mut open = Vec::new();
        for node in self.nodes.within(folder).into_values() {
            let is_open = !node.is_folder && node.pages().is_open();
            if let (true, Ok(key)) = (is_open, key_of(&node))
                && let Some(version) = self.version_in_rename(&key).await
            {
                open.push((node, version));
            }
        }
        open
    }

    /// Returns the current version of an open file. The bucket may be asked for it, and programs wait for the rename as long
    /// as it gets on.
    async fn version_in_rename(&self, key: &ObjectKey) -> Option<Object> {
        let version = self.current_version(key, true).await;
        if let Ok(writers) = self.writers() {
            writers.note_rename_progress();
        }
        version
    }

    /// Gives the nodes below a renamed folder their new keys, and open files the identities of their copies. Does not wait
    /// for the kernel, which may hold the folder until the rename is answered.
    pub(super) async fn folder_renamed(&self, folder: &RenamedFolder) {
        let (from, to) = (folder.from.as_str(), folder.to.as_str());
        let root = self.nodes.root().key();
        if !from.starts_with(&*root) || !to.starts_with(&*root) {
            // The mount has only one of both names, which `report_change` covers.
            return;
        }
        let mut successors = Vec::new();
        for (node, before) in self.open_below(from).await {
            let key = node.key();
            let moved = folder
                .objects
                .iter()
                .find(|it| key[from.len()..] == it.rest);
            let etag = moved.and_then(|moved| moved.etag.as_ref());
            if let (Some(moved), Some(true)) = (moved, etag.map(|it| *it == before.version().etag))
                && let Ok(new) = ObjectKey::new(&format!("{to}{}", moved.rest))
                && let Some(after) = self.version_in_rename(&new).await
            {
                successors.push((node, before, after));
            }
        }
        let nodes = self.nodes.within(from);
        let mut turns = Vec::new();
        for node in nodes.values() {
            turns.push(node.turn.lock().await);
        }
        let top = nodes.values().find(|node| *node.key() == *from);
        let name = top.map(|top| (top.parent(), top.name()));
        self.nodes.rename_folder(folder, self.parent_of(to));
        if let Some((parent, name)) = name {
            // Programs that find the rename failed, because an old object is left, look the old name up again.
            self.drop_name_later(parent, name);
        }
        for (node, before, after) in successors {
            self.follow_same_bytes(&node, &before).await;
            node.pages().moved(before.id(), after.id(), &after.facts());
            node.file_draft().moved(before.id(), after);
        }
        self.settings.numbers.write_out().await;
    }

    /// Returns the number of the folder that contains the folder of a prefix.
    fn parent_of(&self, prefix: &str) -> u64 {
        let path = prefix.trim_end_matches('/');
        let parent = &path[..path.rfind('/').map_or(0, |at| at + 1)];
        match *parent == *self.nodes.root().key() {
            true => ROOT_INO,
            false => self.nodes.number_of(parent),
        }
    }
}
