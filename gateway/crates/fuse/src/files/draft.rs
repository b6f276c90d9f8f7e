//! Drafts, as all programs on this mount see them: how they begin, are read, and end.
//!
//! The order matters. A node first holds its draft, so that all later reads are of the draft; then the kernel drops
//! pages of any other version. All of this, and the end, is done under the node's `turn`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fuser::Errno;
use futures_util::FutureExt as _;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use tokio::sync::watch;

use super::{Files, PINNED_ATTR_TTL, TimedAttr, key_of};
use crate::nodes::Node;
use crate::nodes::file_draft::{HandleEntry, Purpose};
use crate::{WriteSettings, attr, errno};
use tidegate_engine::names::{Answer, Facts, NameKind};
use tidegate_engine::{Error, Object};
use tidegate_plan::attributes::Attributes;
use tidegate_plan::{ObjectKey, media_type};
use tidegate_write::{DraftSnapshot, OpenMode, Stage};
use tidegate_write::{WriteError, Writer};

/// The headers of an object.
pub(crate) type Headers = Vec<(HeaderName, HeaderValue)>;

/// A file of at most this size is opened to be filled.
const MAX_FILL_SIZE: u64 = 1 << 20;

/// An open handle's share in its node, until it is dropped.
#[derive(Debug)]
pub(crate) struct HandleShare {
    pub(crate) node: Arc<Node>,
    pub(crate) entry: HandleEntry,
    /// The kernel has pages of another version, and could not be told in time: the answer to the open tells it to drop
    /// them.
    pub(crate) stale: bool,
}

impl HandleShare {
    /// Counts an opened handle; `follows`: it reads the draft that is there.
    pub(crate) fn new(node: &Arc<Node>, purpose: Purpose, follows: bool) -> Self {
        let entry = node.file_draft().enter(purpose, follows);
        Self {
            node: node.clone(),
            entry,
            stale: false,
        }
    }
}

impl Drop for HandleShare {
    fn drop(&mut self) {
        let writer = self.node.file_draft().leave(self.entry);
        let mut pages = self.node.pages();
        if writer.is_some() && pages.is_draft() {
            pages.settle(None);
        }
    }
}

impl Files {
    /// Returns the attributes of a path that is being written, or waits to be committed. `None` also for a path in a folder
    /// that a rename hides.
    pub(crate) fn drafted(&self, path: &str) -> Option<Answer> {
        let writable = self.shown_writable(path)?;
        let key = ObjectKey::new(path).ok()?;
        let drafted = writable.writers.snapshot(&self.source, &key)?;
        Some(Answer {
            entry: NameKind::File(facts(&drafted)),
            fresh: Duration::ZERO,
        })
    }

    /// Returns whether a draft exists below a path, or the path is a new folder on its way into the bucket. `None` also for
    /// a folder that a rename hides.
    pub(crate) fn draft_below(&self, path: &str) -> Option<Answer> {
        let (writers, prefix) = (&self.shown_writable(path)?.writers, format!("{path}/"));
        let is_there = !writers.markers_below(&self.source, &prefix).is_empty()
            || writers.has_draft_below(&self.source, &prefix);
        is_there.then_some(Answer {
            entry: NameKind::Folder,
            fresh: PINNED_ATTR_TTL,
        })
    }

    fn shown_writable(&self, path: &str) -> Option<&WriteSettings> {
        let writable = self.writable.as_ref()?;
        (!self.engine.is_hidden(&self.source, path)).then_some(writable)
    }

    /// Returns the names of drafts in a folder, and of folders on their way into the bucket, without those of hidden ones.
    pub(crate) fn drafts_in(&self, folder: &str) -> Vec<(String, NameKind)> {
        let Some(writable) = &self.writable else {
            return Vec::new();
        };
        let mut names = BTreeMap::new();
        for key in writable.writers.markers_below(&self.source, folder) {
            let name = key.as_str()[folder.len()..].split('/').next();
            let name = name.unwrap_or_default();
            if !name.is_empty() {
                names.insert(name.to_owned(), NameKind::Folder);
            }
        }
        for (key, drafted) in writable.writers.snapshots_below(&self.source, folder) {
            let rest = &key.as_str()[folder.len()..];
            let (name, entry) = match rest.split_once('/') {
                Some((name, _)) => (name, NameKind::Folder),
                None => (rest, NameKind::File(facts(&drafted))),
            };
            // If a file and a folder have one name, the folder wins.
            let known = names
                .entry(name.to_owned())
                .or_insert_with(|| entry.clone());
            if entry == NameKind::Folder {
                *known = entry;
            }
        }
        let is_shown = |name: &str| {
            let path = format!("{folder}{name}");
            !self.engine.is_hidden(&self.source, &path)
        };
        names.retain(|name, _| is_shown(name));
        names.into_iter().collect()
    }

    /// Returns the attributes that `stat` shows of a file that is being written.
    pub(crate) fn show_draft(&self, node: &Node) -> Option<TimedAttr> {
        let drafted = self.draft_of(node)?;
        node.pages().show_draft(drafted.size);
        let attr = attr::drafted(&self.settings, node.ino, &drafted);
        Some((attr::of_name(node, attr), Duration::ZERO))
    }

    pub(crate) fn draft_of(&self, node: &Node) -> Option<DraftSnapshot> {
        if let Some(writer) = node.draft() {
            return Some(writer.snapshot());
        }
        let writable = self.writable.as_ref()?;
        if !node.is_linked() {
            return node.file_draft().writer().map(|writer| writer.snapshot());
        }
        // Another mount of this process writes it, while a version is held open here.
        if node.pages().pinned().is_some() {
            return None;
        }
        writable.writers.snapshot(&self.source, &key_of(node).ok()?)
    }

    /// Returns whether a file has a name, and the draft that its handles hold is not the one of that name: the name was
    /// given another file elsewhere, or the draft was discarded.
    pub(crate) fn has_lost_draft(&self, node: &Node) -> bool {
        let (Some(held), Some(writable), Ok(key)) = (node.draft(), &self.writable, key_of(node))
        else {
            return false;
        };
        let now = writable.writers.find(&self.source, &key);
        !now.is_some_and(|now| now.is_of_one(&held))
    }

    /// Returns whether a draft has been written to and not closed yet. The close decides that it is complete and goes
    /// into the bucket.
    pub(crate) fn is_unfinished(&self, node: &Node) -> bool {
        let drafted = key_of(node).ok().and_then(|key| {
            let writers = &self.writable.as_ref()?.writers;
            writers.snapshot(&self.source, &key)
        });
        // For a draft that another mount began, nothing more is known.
        let written = node.draft().is_none() || node.file_draft().writers() > 0;
        written && drafted.is_some_and(|drafted| drafted.stage == Stage::Open)
    }

    /// Returns the stage of a file on its way into the bucket.
    pub(crate) fn pending(&self, node: &Node) -> String {
        let drafted = self.draft_of(node).filter(|drafted| drafted.dirty);
        let stage = drafted.map_or("no", |drafted| Stage::as_str(drafted.stage));
        stage.to_owned()
    }

    /// Opens a draft of a file for a handle that writes; one that begins empty has `attributes`. `may_pass`: it can do without the kernel's pages. The caller
    /// holds the path, and must end with [`Files::leave`]. Bounded by the deadline; if the file is just being
    /// published, it waits as long as that makes progress.
    pub(crate) async fn enter(
        &self,
        node: &Arc<Node>,
        (how, attributes): (OpenMode, Attributes),
        may_pass: bool,
    ) -> Result<OpenDraft, Errno> {
        let writable = self.writable.as_ref().ok_or(Errno::EROFS)?;
        let (key, writers) = (key_of(node)?, &writable.writers);
        // That may take long, and must not block a rename of the file.
        if let Some(waiting) = writers
            .find(&self.source, &key)
            .filter(|_| how != OpenMode::Change)
        {
            self.progressing(&waiting, waiting.wait_for_publish().map(Ok))
                .await?;
        }
        let named = async { Ok(node.naming.read().await) };
        let _named = self.bounded(named).await?;
        let waiting = writers.find(&self.source, &key);
        let mut turn = None;
        // A draft that begins empty has content at once, and is published: all steps that may fail come before.
        if how != OpenMode::Change {
            if let Some(waiting) = &waiting {
                self.progressing(waiting, waiting.wait_for_publish().map(Ok))
                    .await?;
            }
            turn = Some(self.turn(node, &key).await?);
            if self.is_another(node, &key, how, waiting.as_ref()).await {
                return Err(self.replaced(node));
            }
            if let Some(waiting) = &waiting {
                self.base_of(node, waiting).await?;
            }
        }
        if let Some(stands) = writable.probe {
            let told = |error: Error| errno::written(&error.into(), key.as_str());
            let asked = async {
                let asked = self.engine.reachable(&self.source, stands).await;
                asked.map_err(told)
            };
            self.bounded(asked).await?;
        }
        let opened = writers.open(&self.source, &key, how, headers_of(&key, attributes));
        let writer = match &waiting {
            Some(waiting) => self.progressing(waiting, opened).await?,
            None => {
                let told = |error| errno::written(&error, key.as_str());
                self.bounded(async { opened.await.map_err(told) }).await?
            }
        };
        writer.announce_commit(writable.commit);
        let _turn = match turn {
            Some(turn) => turn,
            None => self.turn(node, &key).await?,
        };
        let purpose = match may_pass && writer.size() <= MAX_FILL_SIZE {
            true => Purpose::Fill,
            false => Purpose::Write,
        };
        let writer = Arc::new(writer);
        let share = self.begin(node, &writer, purpose).await?;
        Ok(OpenDraft { share, writer })
    }

    /// Takes the turn of a node, if it has this key by then.
    async fn turn<'a>(
        &self,
        node: &'a Node,
        key: &ObjectKey,
    ) -> Result<tokio::sync::MutexGuard<'a, ()>, Errno> {
        let turn = self.bounded(async { Ok(node.turn.lock().await) }).await?;
        match node.is_at(key.as_str()) {
            true => Ok(turn),
            // It was renamed or removed meanwhile: the kernel looks the name up again.
            false => Err(Errno::ESTALE),
        }
    }

    /// Returns whether the file that is about to be created or emptied is another one than that of the node's open handles,
    /// as far as is known: theirs was removed or replaced elsewhere. The turn is held.
    async fn is_another(
        &self,
        node: &Node,
        key: &ObjectKey,
        how: OpenMode,
        waiting: Option<&Writer>,
    ) -> bool {
        if !node.pages().is_open() {
            return false;
        }
        if let Some(waiting) = waiting {
            let is_gone = || self.engine.is_known_missing(&self.source, key);
            return holds_another(node, waiting) || (!waiting.is_dirty() && is_gone());
        }
        if how != OpenMode::Create || self.engine.is_known_missing(&self.source, key) {
            return true;
        }
        let known = self.engine.known(&self.source, key.as_str());
        let tag = known.and_then(|known| match known.entry {
            NameKind::File(facts) => facts.etag,
            NameKind::Folder | NameKind::Missing => None,
        });
        let held = node.pages().held().map(|(_, tag)| tag);
        let Some((held, now)) = held.zip(tag).filter(|(held, now)| held != now) else {
            return false;
        };
        let tags = (&held, &now);
        !self.engine.is_self_copy(&self.source, key, tags).await
    }

    /// Returns the version that a draft is based on, unless handles here are open on another one. The turn is held.
    async fn base_of(&self, node: &Node, writer: &Writer) -> Result<Option<Object>, Errno> {
        let base = writer.base().await;
        if let Some(base) = &base {
            self.follow_same_bytes(node, base).await;
        }
        match &base {
            Some(it) if node.pages().holds_another(&it.version().etag) => Err(self.replaced(node)),
            _ => Ok(base),
        }
    }

    /// Makes all readers read the draft from now on; returns a handle's share in it. The turn is held.
    pub(crate) async fn begin(
        &self,
        node: &Arc<Node>,
        writer: &Arc<Writer>,
        purpose: Purpose,
    ) -> Result<HandleShare, Errno> {
        if !node.is_at(writer.key().as_str()) {
            // Renamed through another mount.
            return Err(Errno::ESTALE);
        }
        if holds_another(node, writer) {
            // The file of its draft has another name, or none, by now.
            return Err(self.replaced(node));
        }
        let base = self.base_of(node, writer).await?;
        let anew = !node.pages().is_draft();
        let another = node.file_draft().hold(writer.clone(), anew);
        // Bytes that were written to it before, past this node, are in none of its pages.
        let base = base.filter(|_| !writer.is_dirty()).map(|base| base.id());
        let stale = node.pages().begin(base, writer.size());
        // Before any wait: a caller that gives up lets go of the draft.
        let mut share = HandleShare::new(node, purpose, true);
        if stale || (another && !anew) {
            share.stale = !self.drop_pages(node).await;
        }
        Ok(share)
    }

    /// Ends a draft that no handle writes any more. If all was committed, pages are of the committed version: those that
    /// lack what other mounts wrote are dropped. Else it is published in the background, if the leaving handle `wrote`, or a
    /// close has failed to. The turn is held. `leaving`: handles that may write, and are being closed.
    pub(crate) async fn settle(&self, node: &Node, leaving: u32, wrote: bool) {
        let Some(writer) = node.draft() else { return };
        if node.file_draft().writers() > leaving {
            return;
        }
        if writer.is_dirty() {
            if wrote || writer.is_left_by_close() {
                // Open readers do not keep it from the bucket.
                writer.publish_behind();
            }
            return;
        }
        let changes = node.file_draft().changes();
        node.file_draft().note_published(changes);
        let base = writer.base().await;
        let drafted = writer.snapshot();
        node.file_draft().settle(base.clone());
        node.pages().settle(base.map(|base| {
            let mut facts = base.facts();
            facts.modified = facts.modified.or(Some(drafted.modified));
            (base.id(), facts)
        }));
        let hidden = node.file_draft().hidden_changes(&writer);
        if let Some(others) = hidden {
            match self.drop_pages(node).await {
                true => node.file_draft().show_changes(others),
                false => node.pages().distrust(),
            }
        }
    }

    /// Closes a handle that writes. `complete`: no other handle has to close its bytes.
    pub(crate) async fn leave(&self, writing: OpenDraft, complete: bool) {
        let node = writing.share.node.clone();
        let _turn = node.turn.lock().await;
        self.settle(&node, 1, complete).await;
        drop(writing);
    }

    /// Waits for a writer's work, as long as a byte moves within each deadline. Ends at once when the mount goes.
    pub(crate) async fn progressing<T>(
        &self,
        writer: &Writer,
        work: impl Future<Output = Result<T, WriteError>>,
    ) -> Result<T, Errno> {
        // By reference: the work is large, and begins on the small stack of a kernel's thread.
        let mut work = std::pin::pin!(work);
        let work = async {
            let done = work.as_mut().await;
            done.map_err(|error| errno::written(&error, writer.key().as_str()))
        };
        self.while_moving(writer.progress(), work).await
    }

    /// Waits for work, as long as `progress` changes within each deadline. Ends at once when the mount goes.
    pub(crate) async fn while_moving<T>(
        &self,
        mut progress: watch::Receiver<()>,
        work: impl Future<Output = Result<T, Errno>>,
    ) -> Result<T, Errno> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.stop.cancelled() => return Err(Errno::EIO),
                moved = tokio::time::timeout(self.settings.deadline, progress.changed()) => {
                    if moved.is_err() {
                        return Err(Errno::EIO);
                    }
                }
            }
        }
    }
}

/// A handle's way to write.
#[derive(Debug)]
pub(crate) struct OpenDraft {
    pub(crate) share: HandleShare,
    pub(crate) writer: Arc<Writer>,
}

/// Returns whether open handles of a node have another draft.
fn holds_another(node: &Node, than: &Writer) -> bool {
    let held = node.file_draft().writer();
    held.is_some_and(|held| !held.is_of_one(than)) && node.pages().is_open()
}

fn facts(drafted: &DraftSnapshot) -> Facts {
    Facts {
        size: drafted.size,
        modified: Some(drafted.modified),
        changed: Some(drafted.changed),
        attributes: Some(drafted.attributes),
        etag: None,
        version: None,
    }
}

/// Returns the headers that a new object is stored with: its content type, guessed from its name, and its attributes.
pub(crate) fn headers_of(key: &ObjectKey, attributes: Attributes) -> Headers {
    let guess = media_type::of_name(key.as_str());
    let value = guess.map(HeaderValue::from_static);
    let header = value.map(|value| (CONTENT_TYPE, value));
    let mut headers = header.into_iter().collect();
    attributes.store(&mut headers);
    headers
}
