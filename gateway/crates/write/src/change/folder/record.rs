//! The durable record of a folder's rename: a file beside the spool, from before the first copy until the rename has
//! ended. A process that finds one goes on with the rename (`resume`).
//!
//! The file is one frame of `attributes::changes::log`. It is replaced as a whole, and its name is synced each time, so that a
//! power cut leaves an old or a new record, and none of a rename that was answered.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::WriteError;
use crate::attributes::changes::log;
use serde::{Deserialize, Serialize};
use tidegate_cache::private_files;
use tidegate_engine::{Core, ReadContext, RenamedFolder, RenamedObject, table_log};
use tidegate_origin::ListedObject;
use tidegate_plan::{ETag, ObjectId, ObjectKey, OriginId};

/// The beginning of the file's name. Its number is the version of the format.
const FILE_NAME: &str = "rename-1-";

/// A rename that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RenameRecord {
    origin: u64,
    pub(super) from: String,
    pub(super) to: String,
    /// The objects under the old name.
    objects: Vec<RecordedObject>,
    /// Whether an empty folder is replaced that has a marker.
    pub(super) replaces: bool,
    /// Whether every copy was answered: nothing but deletions is left.
    pub(super) is_copied: bool,
}

/// An object as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct RecordedObject {
    /// Its key without the folder's.
    rest: String,
    size: u64,
    /// Some stores list none.
    etag: Option<String>,
    /// Milliseconds since 1970.
    modified: Option<u64>,
}

impl RecordedObject {
    fn of(listed: &ListedObject, folder: &str) -> Self {
        Self {
            rest: listed.key[folder.len()..].to_owned(),
            size: listed.size,
            etag: listed.etag.as_ref().map(|etag| etag.as_str().to_owned()),
            modified: listed.last_modified.map(|time| time.0),
        }
    }
}

impl RenameRecord {
    /// Returns the old and the new name of the folder.
    pub(super) fn names(&self) -> (&str, &str) {
        (&self.from, &self.to)
    }

    pub(super) fn new(
        origin: OriginId,
        (from, to): (&str, &str),
        found: &[ListedObject],
        replaces: bool,
    ) -> Self {
        let objects = found.iter().map(|listed| RecordedObject::of(listed, from));
        Self {
            origin: origin.0,
            from: from.to_owned(),
            to: to.to_owned(),
            objects: objects.collect(),
            replaces,
            is_copied: false,
        }
    }

    /// Returns the bucket.
    pub(super) fn origin(&self) -> OriginId {
        OriginId(self.origin)
    }

    /// Returns the number of its objects.
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns all keys, under the old and the new name.
    pub(super) fn keys(&self, source: &ReadContext) -> Vec<ObjectId> {
        let rests = self.objects.iter().map(|object| &object.rest);
        let keys =
            rests.flat_map(|rest| [&self.from, &self.to].map(|folder| format!("{folder}{rest}")));
        let keys = keys.filter_map(|key| ObjectKey::new(&key).ok());
        keys.map(|key| source.object(&key)).collect()
    }

    /// Returns whether these are exactly its objects, as they were.
    pub(super) fn is_of(&self, found: &[ListedObject]) -> bool {
        let names = (&*self.from, &*self.to);
        let now = Self::new(self.origin(), names, found, self.replaces);
        now.objects == self.objects
    }

    /// Returns those of the listed objects that are its own, as they were.
    pub(super) fn own(&self, found: Vec<ListedObject>) -> Vec<ListedObject> {
        let recorded: HashSet<_> = self.objects.iter().collect();
        let is_own =
            |listed: &ListedObject| recorded.contains(&RecordedObject::of(listed, &self.from));
        found.into_iter().filter(is_own).collect()
    }
}

/// A record in its file. If it is dropped before its end, it is removed all the same, for nothing keeps writers out any
/// more; unless the process ends, whose successor goes on.
#[derive(Debug)]
pub(super) struct RecordedRename {
    directory: PathBuf,
    name: String,
    pub(super) record: RenameRecord,
    core: Arc<Core>,
    /// Whether the file may say that every copy was answered.
    may_say_copied: bool,
    has_ended: bool,
}

impl RecordedRename {
    /// Returns a record that has no file yet.
    pub(super) fn new(directory: &Path, record: RenameRecord, core: &Arc<Core>) -> Self {
        let name = format!("{FILE_NAME}{:016x}", crate::random());
        Self::found(directory, name, record, core)
    }

    fn found(directory: &Path, name: String, record: RenameRecord, core: &Arc<Core>) -> Self {
        Self {
            directory: directory.to_owned(),
            name,
            may_say_copied: record.is_copied,
            record,
            core: core.clone(),
            has_ended: false,
        }
    }

    /// Returns the rename as the subscribers are told of it.
    pub(super) fn renamed(&self, is_resumed: bool) -> RenamedFolder {
        let record = &self.record;
        let objects = record.objects.iter().map(|object| RenamedObject {
            rest: object.rest.clone(),
            etag: object.etag.as_deref().and_then(ETag::parse),
        });
        RenamedFolder {
            id: self.name.clone(),
            from: record.from.clone(),
            to: record.to.clone(),
            objects: objects.collect(),
            is_resumed,
        }
    }

    /// Returns whether the file may say that every copy was answered: also if it could not be noted, for the disk may have
    /// it all the same.
    pub(super) fn may_say_copied(&self) -> bool {
        self.may_say_copied
    }

    /// Notes durably that every copy was answered.
    pub(super) async fn note_copied(&mut self) -> Result<(), WriteError> {
        self.may_say_copied = true;
        let copied = RenameRecord {
            is_copied: true,
            ..self.record.clone()
        };
        self.store(&copied).await?;
        self.record = copied;
        Ok(())
    }

    /// Removes the record durably, unless that was done.
    pub(super) async fn remove(&mut self) -> Result<(), WriteError> {
        if self.has_ended {
            return Ok(());
        }
        let (directory, name) = (self.directory.clone(), self.name.clone());
        let removed = move || {
            let path = directory.join(name);
            // A disk that is read-only refuses to remove also a file that is not there.
            if path.try_exists()? {
                fs::remove_file(path)?;
            }
            sync_names(&directory)
        };
        blocking(removed).await?;
        self.has_ended = true;
        Ok(())
    }

    /// Leaves the record to the next process.
    pub(super) fn leave(mut self) {
        self.has_ended = true;
    }

    /// Makes the record durable.
    pub(super) async fn begin(&self) -> Result<(), WriteError> {
        self.store(&self.record).await
    }

    async fn store(&self, record: &RenameRecord) -> Result<(), WriteError> {
        let (directory, name) = (self.directory.clone(), self.name.clone());
        let bytes = log::frames(std::slice::from_ref(record));
        let stored = move || {
            table_log::replace(&directory, &name, &bytes)?;
            sync_names(&directory)
        };
        Ok(blocking(stored).await?)
    }
}

impl Drop for RecordedRename {
    fn drop(&mut self) {
        if !self.has_ended && !self.core.stop.is_cancelled() {
            let _ = fs::remove_file(self.directory.join(&self.name));
        }
    }
}

/// Returns the records that an earlier process left. One that cannot be read stays. Blocks.
pub(super) fn left_in(directory: &Path, core: &Arc<Core>) -> io::Result<Vec<RecordedRename>> {
    let mut left = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with(FILE_NAME) {
            continue;
        }
        if !is_record(&name) {
            // It was not whole when the process ended, and has replaced nothing.
            fs::remove_file(directory.join(&name))?;
            continue;
        }
        let bytes = private_files::read(&directory.join(&name))?;
        match log::read(&bytes, bytes.len()) {
            Some((record, _)) => left.push(RecordedRename::found(directory, name, record, core)),
            None => {
                tracing::error!(
                    name,
                    "the record of a folder's rename cannot be read; it is left as it is"
                );
            }
        }
    }
    Ok(left)
}

/// Returns whether a file beside the spool is a record. One that is just being written is none yet.
pub(crate) fn is_record(name: &str) -> bool {
    let number = name.strip_prefix(FILE_NAME);
    number.is_some_and(|number| u64::from_str_radix(number, 16).is_ok())
}

fn sync_names(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(io::Error::other("a panic")))
}
