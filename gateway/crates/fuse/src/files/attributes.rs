//! Attributes: mode, owner and times, of files and folders.
//!
//! Those of a file that is being written are headers of its draft, and go into the bucket with its bytes. Those of a
//! file that is in the bucket, and of a folder, are handed to the write path, which sends them later.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use fuser::{Errno, FileAttr};

use super::set_attr::{SET_GID, SetAttr, without_set_id};
use super::{Files, TimedAttr};
use crate::attr::{self, FolderFacts};
use crate::errno;
use crate::nodes::Node;
use crate::settings::AttributeUse;
use tidegate_engine::names::{Answer, Facts, NameKind};
use tidegate_plan::ObjectKey;
use tidegate_plan::attributes::{Attributes, FOLDER, MAX_LINK, PERMISSION_BITS, REGULAR};
use tidegate_write::{OpenMode, WriteError, Writer};

/// How often attributes are set if the file changes each time.
const MAX_TRIES: u32 = 3;

/// The user who makes a file, and the mode that it asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Creator {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u32,
    pub(crate) thread: u32,
}

impl Files {
    /// Returns whether attributes are kept.
    pub(crate) fn keeps_attributes(&self) -> bool {
        self.settings.attributes == AttributeUse::Kept
    }

    /// Returns whether an object may be a link, as far as is known.
    pub(super) fn lacks_type(&self, facts: &Facts) -> bool {
        self.keeps_attributes() && facts.attributes.is_none() && facts.size <= MAX_LINK
    }

    /// Returns the attributes of a new file, folder or link. In a folder with the set-group-ID bit it has the folder's
    /// group, and a folder that bit as well.
    pub(super) fn new_attributes(&self, creator: &Creator, folder: u64, kind: u32) -> Attributes {
        if !self.keeps_attributes() {
            return Attributes::default();
        }
        let parent = self.folder_attr(folder);
        let is_shared = u32::from(parent.perm) & SET_GID != 0;
        let bits = creator.mode & PERMISSION_BITS;
        let inherited = if is_shared && kind == FOLDER {
            SET_GID
        } else {
            0
        };
        Attributes {
            mode: Some(kind | bits | inherited),
            uid: Some(creator.uid),
            gid: Some(if is_shared { parent.gid } else { creator.gid }),
            modified: None,
            accessed: None,
        }
    }

    /// Returns the attributes that stay with a file whose content is replaced by user `uid`; those of one that is
    /// changed come with its version.
    pub(super) async fn attributes_of_replaced(
        &self,
        (path, entry): (&str, Option<NameKind>),
        uid: u32,
        how: OpenMode,
    ) -> Result<Attributes, Errno> {
        if !self.keeps_attributes() || how == OpenMode::Change {
            return Ok(Attributes::default());
        }
        let entry = match entry {
            Some(entry) => entry,
            None => self.bounded(self.resolve(path)).await?.entry,
        };
        let stored = match entry {
            NameKind::File(facts) => self.stored_attributes(path, facts).await?,
            NameKind::Folder | NameKind::Missing => Attributes::default(),
        };
        let mode = match (uid, stored.mode) {
            (0, mode) => mode,
            (_, mode) => mode.map(without_set_id),
        };
        Ok(Attributes {
            mode,
            modified: None,
            ..stored
        })
    }

    /// Returns the stored attributes of a file; asks for its headers if they are not known.
    async fn stored_attributes(&self, path: &str, facts: Facts) -> Result<Attributes, Errno> {
        if let Some(known) = facts.attributes {
            return Ok(known);
        }
        match self.bounded(self.ask(path, true)).await?.entry {
            NameKind::File(facts) => Ok(facts.attributes.unwrap_or_default()),
            NameKind::Folder | NameKind::Missing => Ok(Attributes::default()),
        }
    }

    /// Changes attributes, and returns the new ones.
    pub(crate) async fn setattr(&self, ino: u64, set: SetAttr) -> Result<TimedAttr, Errno> {
        let node = self.nodes.get(ino).ok_or(Errno::ESTALE)?;
        if !self.is_writable() {
            return Err(Errno::EROFS);
        }
        if !node.is_linked() {
            self.set_without_name(&node, &set).await?;
            return self.bounded(self.getattr(ino)).await;
        }
        let sets = set.changes_attributes() && self.keeps_attributes();
        match node.is_folder {
            true if set.size.is_some() => return Err(Errno::EISDIR),
            true if sets => self.set_folder(&node, &set).await?,
            false if sets || set.size.is_some() => self.set_file(&node, &set).await?,
            _ => {}
        }
        self.bounded(self.getattr(ino)).await
    }

    /// Changes a file that has no name any more, through the draft that its handles hold. Without a draft only the
    /// handles have its version, and the change ends with them.
    async fn set_without_name(&self, node: &Node, set: &SetAttr) -> Result<(), Errno> {
        let writer = node.file_draft().writer();
        match writer {
            Some(writer) => self.set_drafted(node, &writer, set).await,
            None if set.size.is_some() => Err(Errno::ESTALE),
            None if set.changes_attributes() && self.keeps_attributes() => {
                let mut pages = node.pages();
                if let Some(pinned) = pages.pinned() {
                    let shown = attr::file(&self.settings, node.ino, pinned);
                    let stored = pinned.attributes.unwrap_or_default();
                    let now = SystemTime::now().into();
                    pages.pin_attributes(set.apply(stored, &shown, REGULAR), now);
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    async fn set_file(&self, node: &Arc<Node>, set: &SetAttr) -> Result<(), Errno> {
        let handle = set.handle.and_then(|handle| self.open.get(handle));
        let write_handle = handle.as_ref().and_then(|it| it.write_handle.as_ref());
        if let Some(write_handle) = write_handle {
            if set.size.is_some() {
                write_handle.idle.store(false, Ordering::Relaxed);
            }
            return self.set_drafted(node, &write_handle.writer, set).await;
        }
        if set.size.is_none() {
            let Some(draft) = self.draft_of(node) else {
                return self.set_published(node, set).await;
            };
            let shown = attr::drafted(&self.settings, node.ino, &draft);
            if set.apply(draft.attributes, &shown, REGULAR) == draft.attributes {
                return Ok(());
            }
        }
        let how = match set.size {
            Some(0) => OpenMode::Create,
            _ => OpenMode::Change,
        };
        let used = self.use_node(node).await?;
        let unfinished = self.is_unfinished(node);
        let path = node.key();
        let replaced = self.attributes_of_replaced((&path, None), set.caller, how);
        let writing = self.enter(node, (how, replaced.await?), false).await?;
        drop(used);
        let mut done = self.set_drafted(node, &writing.writer, set).await;
        if done.is_ok() && !unfinished {
            done = self.commit(&writing.writer).await;
        }
        self.leave(writing, !unfinished).await;
        done
    }

    /// Sets the length and the attributes of a draft. If it is just being published, waits as long as that makes
    /// progress.
    async fn set_drafted(&self, node: &Node, writer: &Writer, set: &SetAttr) -> Result<(), Errno> {
        if let Some(size) = set.size {
            if set.caller != 0 {
                self.clear_bits(node, writer).await?;
            }
            self.set_length(node, writer, size).await?;
        }
        if !set.changes_attributes() || !self.keeps_attributes() {
            return Ok(());
        }
        let shown = attr::drafted(&self.settings, node.ino, &writer.snapshot());
        let work = async {
            let change = |stored: &mut Attributes| *stored = set.apply(*stored, &shown, REGULAR);
            writer.set_attributes(change).await;
            Ok(())
        };
        self.progressing(writer, work).await
    }

    /// Sets the attributes of a file that is in the bucket.
    async fn set_published(&self, node: &Arc<Node>, set: &SetAttr) -> Result<(), Errno> {
        let _used = self.use_node(node).await?;
        let path = node.key();
        let key = ObjectKey::new(&path).map_err(|_| Errno::ENOENT)?;
        for _ in 0..MAX_TRIES {
            if self.change_published(node, &key, set).await? {
                return Ok(());
            }
        }
        Err(Errno::ESTALE)
    }

    /// Sets the attributes of an object; `false` if it was changed over HTTP or by another mount meanwhile.
    async fn change_published(
        &self,
        node: &Arc<Node>,
        key: &ObjectKey,
        set: &SetAttr,
    ) -> Result<bool, Errno> {
        let path = key.as_str();
        let since = self.engine.name_epoch();
        let Answer { entry, .. } = self.bounded(self.resolve(path)).await?;
        let NameKind::File(facts) = entry else {
            return Err(Errno::ESTALE);
        };
        let facts = match (&facts.attributes, &facts.etag) {
            (Some(_), Some(_)) => facts,
            _ => match self.bounded(self.ask(path, true)).await?.entry {
                NameKind::File(facts) => facts,
                NameKind::Folder | NameKind::Missing => return Err(Errno::ESTALE),
            },
        };
        let stored = facts.attributes.unwrap_or_default();
        let shown = attr::file(&self.settings, node.ino, &facts);
        let wanted = set.apply(stored, &shown, REGULAR);
        if wanted != stored {
            let writers = self.writers()?;
            let found = (&facts, since);
            let changed = writers.change_attributes(&self.source, key, found, wanted);
            let changed = match changed.await {
                Err(WriteError::Changed) => return Ok(false),
                changed => changed.map_err(|error| errno::written(&error, path))?,
            };
            node.pages().pin_attributes(wanted, changed);
            self.tell_others(key.clone());
        }
        Ok(true)
    }

    async fn set_folder(&self, node: &Arc<Node>, set: &SetAttr) -> Result<(), Errno> {
        self.read_marker(node).await;
        let _used = self.use_node(node).await?;
        let path = node.key();
        let stored = self.folder_facts(node).attributes;
        let shown = self.show_folder(node);
        let wanted = set.apply(stored, &shown, FOLDER);
        if wanted == stored {
            return Ok(());
        }
        let Ok(key) = ObjectKey::new(&path) else {
            self.engine.keep_root(&self.source, wanted);
            return Ok(());
        };
        let changed = self.writers()?;
        let changed = changed.change_folder(&self.source, &key, wanted).await;
        changed.map_err(|error| errno::written(&error, &path))
    }

    /// Asks for the headers of another program's marker of a folder, if a listing has shown one.
    pub(crate) async fn read_marker(&self, node: &Node) {
        let path = node.key();
        let known = self.engine.known_folder(&self.source, &path);
        if self.keeps_attributes() && known.is_some_and(|known| known.is_unread) {
            let read = async {
                self.engine.read_folder(&self.source, &path).await;
                Ok(())
            };
            let _ = self.bounded(read).await;
            // The kernel has the attributes of a folder without a marker.
            self.drop_pages(node).await;
        }
    }

    fn folder_facts(&self, node: &Node) -> FolderFacts {
        if !self.keeps_attributes() {
            return FolderFacts::default();
        }
        let known = self.engine.known_folder(&self.source, &node.key());
        known.map_or_else(FolderFacts::default, |known| FolderFacts {
            modified: known.modified.map(SystemTime::from),
            changed: known.changed.map(SystemTime::from),
            attributes: known.attributes.get().unwrap_or_default(),
        })
    }

    /// Returns the attributes of a folder.
    pub(crate) fn show_folder(&self, node: &Node) -> FileAttr {
        let facts = self.folder_facts(node);
        attr::folder(&self.settings, node.ino, &facts)
    }

    /// Notes that a name in a folder has come or gone.
    pub(super) fn touch_folder(&self, folder: u64) {
        let node = self.nodes.get(folder).filter(|_| self.keeps_attributes());
        if let (Some(writable), Some(node)) = (&self.writable, node) {
            writable.writers.touch_folder(&self.source, &node.key());
        }
    }

    /// Clears the bits that lend rights, because a program without the right to keep them changes the bytes.
    async fn clear_bits(&self, node: &Node, writer: &Writer) -> Result<(), Errno> {
        let mode = writer.snapshot().attributes.mode;
        let cleared = mode.map(without_set_id);
        if !self.keeps_attributes() || cleared == mode {
            return Ok(());
        }
        let set = SetAttr {
            mode: cleared,
            ..SetAttr::default()
        };
        // It sets no length, and so does not come back here.
        Box::pin(self.set_drafted(node, writer, &set)).await
    }

    /// Does the same for a program that writes through a handle.
    pub(crate) async fn clear_bits_of(&self, handle: u64) -> Result<(), Errno> {
        let handle = self.open.get(handle).ok_or(Errno::EBADF)?;
        let write_handle = handle.write_handle.as_ref().ok_or(Errno::EBADF)?;
        self.clear_bits(&handle.share.node, &write_handle.writer)
            .await
    }

    /// Returns whether a listed name is a link, by the present knowledge.
    pub(crate) fn is_link(&self, path: &str, listed: &NameKind) -> bool {
        let is_link = |entry: &NameKind| match entry {
            NameKind::File(facts) => facts.attributes.is_some_and(|it| it.is_link()),
            NameKind::Folder | NameKind::Missing => false,
        };
        if !self.keeps_attributes() {
            return false;
        }
        let drafted = self.drafted(path);
        let known = drafted.or_else(|| self.engine.known(&self.source, path));
        known.map_or_else(|| is_link(listed), |known| is_link(&known.entry))
    }
}
