//! Names: creating and removing folders, removing and renaming files.
//!
//! A change of the bucket runs to its end, even if its caller no longer waits.

use std::ffi::OsString;
use std::sync::Arc;

use fuser::Errno;
use futures_util::FutureExt as _;

use super::attributes::Creator;
use super::{Files, NameErrors, TimedAttr, path_of};
use crate::errno;
use tidegate_engine::names::NameKind;
use tidegate_engine::{Object, OpenOptions, Scope};
use tidegate_plan::ObjectKey;
use tidegate_plan::attributes::FOLDER;
use tidegate_write::{Commit, PathLock, Writers};

impl Files {
    pub(crate) fn writers(&self) -> Result<Writers, Errno> {
        let writable = self.writable.as_ref();
        writable
            .map(|writable| writable.writers.clone())
            .ok_or(Errno::EROFS)
    }

    /// Returns the folder of a name, and the name's path.
    pub(crate) fn path_in(&self, folder: u64, name: &OsString) -> Result<(u64, String), Errno> {
        let folder = self.folder_node(folder)?;
        Ok((folder.ino, path_of(&folder, name, NameErrors::CHANGE)?))
    }

    /// Removes a file.
    pub(crate) async fn unlink(self: &Arc<Self>, folder: u64, name: OsString) -> Result<(), Errno> {
        let (folder, path, used) = self.use_name(&(folder, name)).await?;
        self.remove(path, used).await?;
        self.touch_folder(folder);
        Ok(())
    }

    /// Removes an object, a folder's marker included, and its node. Waits while the file is being published, as long as
    /// that gets on within each deadline, and then for one deadline. A caller that gives up while the file is being
    /// published has removed nothing.
    async fn remove(self: &Arc<Self>, path: String, used: PathLock) -> Result<(), Errno> {
        let (writers, key) = (self.writers()?, key(&path)?);
        if let Some(writer) = writers.find(&self.source, &key) {
            let published = writer.wait_for_publish().map(Ok);
            self.progressing(&writer, published).await?;
        }
        self.bounded(self.remove_now((path, key), used)).await
    }

    async fn remove_now(
        self: &Arc<Self>,
        (path, key): (String, ObjectKey),
        used: PathLock,
    ) -> Result<(), Errno> {
        let writers = self.writers()?;
        let named = self.nodes.hold_names(&[&path]).await;
        let files = self.clone();
        let work = async move {
            let _held = (named, used);
            let removed = writers.remove(&files.source, &key).await;
            // The spool disk may fail once the object is gone.
            if removed.is_ok() || files.engine.is_known_missing(&files.source, &key) {
                files.tell_others(key);
                files.nodes.unlink(&path);
                files.settings.numbers.write_out().await;
            }
            removed.map_err(|error| errno::written(&error, &path))
        };
        run_to_end(work).await
    }

    /// Makes a folder.
    pub(crate) async fn mkdir(
        &self,
        folder: u64,
        name: OsString,
        creator: Creator,
    ) -> Result<TimedAttr, Errno> {
        let (writers, source) = (self.writers()?, self.source.clone());
        let (folder, path, used) = self.use_name(&(folder, name)).await?;
        if self.resolve(&path).await?.entry != NameKind::Missing {
            return Err(Errno::EEXIST);
        }
        let key = key(&format!("{path}/"))?;
        let attributes = self.new_attributes(&creator, folder, FOLDER);
        let attributes = self.keeps_attributes().then_some(attributes);
        let is_behind = self
            .writable
            .as_ref()
            .is_some_and(|writable| writable.commit == Commit::Background);
        let work = async move {
            let _used = used;
            let made = match is_behind {
                true => writers.make_folder_behind(&source, &key, attributes).await,
                false => writers.make_folder(&source, &key, attributes).await,
            };
            made.map_err(|error| errno::written(&error, key.as_str()))
        };
        run_to_end(work).await?;
        self.touch_folder(folder);
        let fresh = self.source.profile.load().ttl;
        let shown = self.tell(folder, &path, &NameKind::Folder, fresh);
        shown.ok_or(Errno::EIO)
    }

    /// Removes an empty folder.
    pub(crate) async fn rmdir(self: &Arc<Self>, folder: u64, name: OsString) -> Result<(), Errno> {
        let writers = self.writers()?;
        let (folder, path, used) = self.use_name(&(folder, name)).await?;
        let prefix = format!("{path}/");
        if writers.holds_below(&self.source, &prefix) {
            return Err(Errno::ENOTEMPTY);
        }
        let empty = self.engine.is_empty(&self.source, &prefix).await;
        if !empty.map_err(|error| errno::logged(&error, &prefix))? {
            return Err(Errno::ENOTEMPTY);
        }
        self.remove(prefix, used).await?;
        self.touch_folder(folder);
        Ok(())
    }

    /// Renames a file or a folder. `keep`: fails if the new name exists.
    pub(crate) async fn rename(
        self: &Arc<Self>,
        from: (u64, OsString),
        to: (u64, OsString),
        keep: bool,
    ) -> Result<(), Errno> {
        self.writers()?;
        let old = self.shown_path(&from, NameErrors::CHANGE).await?;
        let folders = (from.0, to.0);
        match self.bounded(self.resolve(&old)).await?.entry {
            NameKind::Missing => return Err(Errno::ENOENT),
            NameKind::Folder => self.rename_folder(from, to, keep).await?,
            NameKind::File(_) => {
                let key = key(&old)?;
                if !self.writers()?.is_unsent(&self.source, &key) {
                    // That may take long; programs can open the file meanwhile.
                    self.publish_draft(&key).await?;
                }
                self.rename_file(from, to, keep).await?;
            }
        }
        self.touch_folder(folders.0);
        self.touch_folder(folders.1);
        Ok(())
    }

    async fn rename_file(
        self: &Arc<Self>,
        from: (u64, OsString),
        to: (u64, OsString),
        keep: bool,
    ) -> Result<(), Errno> {
        let writers = self.writers()?;
        let ([(_, from), (folder, to)], used) = self.use_names([&from, &to]).await?;
        if keep && self.bounded(self.resolve(&to)).await?.entry != NameKind::Missing {
            return Err(Errno::EEXIST);
        }
        let (old, new) = (key(&from)?, key(&to)?);
        if let Some(over) = writers.find(&self.source, &new) {
            self.progressing(&over, over.wait_for_publish().map(Ok))
                .await?;
        }
        let named = async { Ok(self.nodes.hold_names(&[&from, &to]).await) };
        let named = self.bounded(named).await?;
        let nodes = self.nodes.with_keys(&[&from]);
        let is_open = nodes.values().any(|node| node.pages().is_open());
        let files = self.clone();
        let work = async move {
            let _held = (named, used);
            let unsent = writers.rename_unsent(&files.source, &old, &new, keep).await;
            let unsent = unsent.map_err(|error| errno::written(&error, &from))?;
            if let Some(renamed) = unsent {
                files.tell_others(old);
                files.tell_others(new);
                files.moved(&from, (folder, &to), None).await;
                files.settings.numbers.write_out().await;
                let left = renamed.left.map(|error| errno::written(&error, &from));
                return left.map_or(Ok(()), Err);
            }
            let before = files.current_version(&old, is_open).await;
            let renamed = writers.rename_over(&files.source, &old, &new, keep).await;
            let etag = renamed.map_err(|error| errno::written(&error, &from))?;
            // The known version may be older than the moved one, and has other bytes.
            let before = before.filter(|before| before.version().etag == etag);
            let after = files.current_version(&new, is_open).await;
            files.tell_others(old);
            files.tell_others(new);
            files.moved(&from, (folder, &to), before.zip(after)).await;
            files.settings.numbers.write_out().await;
            Ok(())
        };
        run_to_end(work).await
    }

    /// Publishes the draft of a file, if there is one.
    pub(crate) async fn publish_draft(&self, key: &ObjectKey) -> Result<(), Errno> {
        match self.writers()?.find(&self.source, key) {
            Some(writer) => self.progressing(&writer, writer.publish()).await,
            None => Ok(()),
        }
    }

    /// Gives a file its new name, and its version the new identity.
    async fn moved(
        &self,
        from: &str,
        (folder, to): (u64, &str),
        version: Option<(Object, Object)>,
    ) {
        let nodes = self.nodes.with_keys(&[from, to]);
        let mut turns = Vec::new();
        for node in nodes.values() {
            turns.push(node.turn.lock().await);
        }
        let node = self.nodes.rename(from, to, folder);
        if let (Some(node), Some((before, after))) = (node, version) {
            self.follow_same_bytes(&node, &before).await;
            node.pages().moved(before.id(), after.id(), &after.facts());
            node.file_draft().moved(before.id(), after);
        }
    }

    /// Makes other mounts of the process forget their kernels' knowledge of a key that was changed here.
    pub(crate) fn tell_others(&self, key: ObjectKey) {
        let origin = self.source.origin.id();
        self.engine.report_change(self, origin, Scope::Key(key));
    }

    /// Returns the version that a key has. If the file `is_open`, a version that is no longer fresh is confirmed: a
    /// reader that holds it open for longer must find its bytes under the new key. Else the origin is not asked.
    pub(crate) async fn current_version(&self, key: &ObjectKey, is_open: bool) -> Option<Object> {
        let how = OpenOptions {
            only_if_cached: !is_open,
            ..OpenOptions::default()
        };
        let opened = self.engine.open(&self.source, key, how);
        let in_time = tokio::time::timeout(self.settings.deadline, opened);
        in_time.await.ok()?.ok()
    }
}

/// Parses a path as a key. One that is too long for a bucket gives `ENAMETOOLONG`.
pub(crate) fn key(path: &str) -> Result<ObjectKey, Errno> {
    ObjectKey::new(path).map_err(|_| Errno::ENAMETOOLONG)
}

pub(crate) async fn run_to_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Errno>> + Send + 'static,
) -> Result<T, Errno> {
    tokio::spawn(work).await.unwrap_or(Err(Errno::EIO))
}
