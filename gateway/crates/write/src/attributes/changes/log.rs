//! The file of changes that are not in the bucket yet.
//!
//! Frames follow each other: a length (4 bytes, little-endian), the xxh3 hash of the rest (8 bytes), and a record as
//! JSON, which spaces may follow. The last record of a key counts. A frame with a wrong hash counts for nothing; after the
//! last whole one the file is cut off. Written frames outlive the process; they are synced within a second, as a local
//! disk does it with attributes. On a full disk a record is replaced in its place (`in_place`).

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Change, MAX_CHANGES};
use tidegate_engine::table_log::{self, TableFile};
use tidegate_plan::attributes::Attributes;
use tidegate_plan::{ETag, ObjectId, ObjectKey, OriginId};

mod in_place;

/// The file's name. Its number is the version of the format.
pub(super) const FILE_NAME: &str = "attributes-1";

/// Bytes of a frame before its record.
const HEAD_BYTES: usize = 12;

/// The maximum length of a record: a key has up to 1,024 bytes, each of which JSON may write as six.
const MAX_RECORD_BYTES: usize = 16 << 10;

/// The length of the file from which it is written anew, if it has many more records than there are changes.
const MAX_FILE_BYTES: u64 = 512 * MAX_CHANGES as u64;

/// The seed of the frames' hashes.
const CHECKSUM_SEED: u64 = 0x6174_7472;

/// The time within which written frames are synced.
const SYNC_DELAY: Duration = Duration::from_secs(1);

/// A change, or the note that there is none any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttributeRecord {
    origin: u64,
    key: String,
    etag: Option<String>,
    /// The headers with the attributes; `None`: the change is in the bucket, or dropped.
    headers: Option<Vec<(String, String)>>,
}

impl AttributeRecord {
    pub(super) fn of(id: &ObjectId, change: &Change) -> Self {
        let mut headers = Vec::new();
        change.attributes.store(&mut headers);
        Self {
            etag: change.etag.as_ref().map(|etag| etag.as_str().to_owned()),
            headers: Some(crate::draft::records::header_pairs(&headers)),
            ..Self::gone(id)
        }
    }

    pub(super) fn gone(id: &ObjectId) -> Self {
        Self {
            origin: id.origin.0,
            key: id.key.as_str().to_owned(),
            etag: None,
            headers: None,
        }
    }

    /// Returns the bucket.
    pub(crate) fn origin(&self) -> OriginId {
        OriginId(self.origin)
    }

    /// Returns the object, its version, and the attributes that it is to have.
    pub(crate) fn change(&self) -> Option<(ObjectId, Option<ETag>, Attributes)> {
        let id = ObjectId {
            origin: self.origin(),
            key: ObjectKey::new(&self.key).ok()?,
        };
        let etag = match &self.etag {
            Some(etag) => Some(ETag::parse(etag)?),
            None => None,
        };
        let headers = crate::draft::records::headers_of(self.headers.as_ref()?);
        Some((id, etag, Attributes::of(&headers)))
    }
}

#[derive(Debug)]
pub(super) struct AttributeLog {
    directory: PathBuf,
    file: Arc<File>,
    length: u64,
    /// Whether a task is about to sync the file.
    is_syncing: Arc<AtomicBool>,
}

impl AttributeLog {
    /// Opens the file in a directory, creates it if it is missing, and returns the changes in it.
    pub(super) fn open(directory: &Path) -> io::Result<(Self, Vec<AttributeRecord>)> {
        let mut file = table_log::open(directory, FILE_NAME)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let (mut end, mut changes) = (0, HashMap::new());
        for (place, record) in places(&bytes) {
            end = place.end;
            let key = (record.origin, record.key.clone());
            match record.headers.is_some() {
                true => changes.insert(key, record),
                false => changes.remove(&key),
            };
        }
        file.set_len(end as u64)?;
        let log = Self {
            directory: directory.to_owned(),
            file: Arc::new(file),
            length: end as u64,
            is_syncing: Arc::default(),
        };
        Ok((log, changes.into_values().collect()))
    }

    /// Syncs the file within [`SYNC_DELAY`], once for all frames that are written by then.
    fn sync_soon(&self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if self.is_syncing.swap(true, Ordering::SeqCst) {
            return;
        }
        let (file, is_syncing) = (self.file.clone(), self.is_syncing.clone());
        runtime.spawn(async move {
            tokio::time::sleep(SYNC_DELAY).await;
            is_syncing.store(false, Ordering::SeqCst);
            let synced = tokio::task::spawn_blocking(move || file.sync_data()).await;
            if let Ok(Err(error)) = synced {
                tracing::warn!(%error, "cannot sync changes of attributes");
            }
        });
    }
}

impl TableFile for AttributeLog {
    type Row = AttributeRecord;

    fn append(
        &mut self,
        records: &[AttributeRecord],
        all: &dyn Fn() -> Vec<AttributeRecord>,
    ) -> io::Result<()> {
        let is_end = records.iter().any(|record| record.headers.is_none());
        if is_end && self.length > 0 && all().is_empty() {
            self.file.set_len(0)?;
            self.length = 0;
            return Ok(());
        }
        let bytes = frames(records);
        if self.length + bytes.len() as u64 > MAX_FILE_BYTES {
            return self.renew(&all());
        }
        (&*self.file).write_all(&bytes)?;
        self.length += bytes.len() as u64;
        self.sync_soon();
        Ok(())
    }

    fn renew(&mut self, all: &[AttributeRecord]) -> io::Result<()> {
        let bytes = frames(all);
        let file = table_log::replace(&self.directory, FILE_NAME, &bytes)?;
        (self.file, self.length) = (Arc::new(file), bytes.len() as u64);
        Ok(())
    }

    /// The next start would carry out a change that a later one has replaced.
    fn forget(&mut self, records: &[AttributeRecord], are_all: bool) -> io::Result<()> {
        in_place::replace(&self.directory.join(FILE_NAME), records, are_all)
    }

    fn sync(&mut self) -> io::Result<()> {
        // A new file may have the name since.
        self.file.sync_data()?;
        File::open(&self.directory)?.sync_all()
    }
}

/// Returns the frames of records.
pub(crate) fn frames<R: Serialize>(records: &[R]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        let body = body(record);
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&hash(&body));
        bytes.extend_from_slice(&body);
    }
    bytes
}

fn body<R: Serialize>(record: &R) -> Vec<u8> {
    serde_json::to_vec(record).expect("records are plain data")
}

fn hash(body: &[u8]) -> [u8; 8] {
    xxh3_64_with_seed(body, CHECKSUM_SEED).to_le_bytes()
}

/// Returns the first record, of at most `most` bytes, and the length of its frame; `None` if it is not whole.
pub(crate) fn read<R: DeserializeOwned>(bytes: &[u8], most: usize) -> Option<(R, usize)> {
    let (record, length) = read_frame(bytes, most)?;
    Some((record?, length))
}

/// Returns the first frame's record, if its hash is right, and its length; `None` if the bytes end before it does.
fn read_frame<R: DeserializeOwned>(bytes: &[u8], most: usize) -> Option<(Option<R>, usize)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let body = rest.get(..length).filter(|_| length <= most)?;
    let is_sound = *sum == hash(body);
    let record = is_sound.then(|| serde_json::from_slice(body).ok());
    Some((record.flatten(), HEAD_BYTES + length))
}

/// Returns the records of a file in their order, and where their frames are.
fn places(bytes: &[u8]) -> Vec<(Range<usize>, AttributeRecord)> {
    let (mut at, mut places) = (0, Vec::new());
    while let Some((record, length)) = read_frame(&bytes[at..], MAX_RECORD_BYTES) {
        let place = at..at + length;
        at = place.end;
        places.extend(record.map(|record| (place, record)));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tidegate_engine::table_log::TableLog;

    fn record(key: &str, mode: Option<u32>) -> AttributeRecord {
        AttributeRecord {
            origin: 7,
            key: key.to_owned(),
            etag: mode.map(|_| "\"1\"".to_owned()),
            headers: mode.map(|mode| vec![("x-amz-meta-mode".to_owned(), format!("0{mode:o}"))]),
        }
    }

    const NEW_NAME: &str = "attributes-1.new";

    fn left(directory: &Path) -> Vec<AttributeRecord> {
        let (_, mut found) = AttributeLog::open(directory).expect("opened");
        found.sort_by(|a, b| a.key.cmp(&b.key));
        found
    }

    #[test]
    fn the_last_record_of_a_key_counts_and_a_torn_end_is_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut log, found) = AttributeLog::open(folder.path()).expect("opened");
        assert!(found.is_empty());
        let all = [
            record("a", Some(0o600)),
            record("b", Some(0o644)),
            record("a", Some(0o700)),
        ];
        log.append(&all, &|| all.to_vec()).expect("written");
        log.append(&[record("b", None)], &|| all[2..].to_vec())
            .expect("written");
        let path = folder.path().join(FILE_NAME);
        let mut bytes = fs::read(&path).expect("there");
        let whole = bytes.len();
        bytes.extend_from_slice(&frames(&[record("c", Some(1))])[..20]);
        fs::write(&path, &bytes).expect("written");
        assert_eq!(left(folder.path()), [all[2].clone()]);
        assert_eq!(fs::metadata(&path).expect("there").len(), whole as u64);
        let (id, etag, attributes) = all[2].change().expect("sound");
        assert_eq!((id.key.as_str(), etag), ("a", ETag::parse("\"1\"")));
        assert_eq!(attributes.mode, Some(0o700));
        assert_eq!(record("b", None).change(), None);
    }

    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("target");
        let bytes = [&frames(&[record("a", Some(1))])[..], b"torn"].concat();
        fs::write(&target, &bytes).expect("written");
        let link = folder.path().join(FILE_NAME);
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        let opened = AttributeLog::open(folder.path()).map(drop);
        for done in [opened, in_place::replace(&link, &[], true)] {
            let text = done.expect_err("a link").to_string();
            assert!(text.contains("is a symbolic link"), "{text}");
            assert_eq!(fs::read(&target).expect("there"), bytes);
        }
    }

    #[test]
    fn it_is_written_anew_before_it_grows_without_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut log, _) = AttributeLog::open(folder.path()).expect("opened");
        log.length = MAX_FILE_BYTES;
        let all = [record("a", Some(1)), record("b", Some(2))];
        log.append(&all[1..], &|| all.to_vec()).expect("written");
        assert_eq!(left(folder.path()), all);
        log.append(&[record("a", None)], &Vec::new)
            .expect("written");
        assert!(left(folder.path()).is_empty());
        assert_eq!(log.length, 0, "without changes it is empty");
    }

    /// Returns a table over a file with these records, whose disk is full from now on.
    fn on_full_disk(folder: &Path, records: &[AttributeRecord]) -> TableLog<AttributeLog> {
        let (mut log, _) = AttributeLog::open(folder).expect("opened");
        log.append(records, &Vec::new).expect("written");
        let full = File::options().append(true).open("/dev/full");
        log.file = Arc::new(full.expect("a full disk"));
        fs::create_dir(folder.join(NEW_NAME)).expect("made");
        let table = TableLog::new("lost");
        table.attach(Ok(log));
        table
    }

    /// Adds a record, and writes it out.
    async fn change(table: &TableLog<AttributeLog>, all: &[AttributeRecord]) {
        table.push(all.last().expect("a record").clone());
        let all = all.to_vec();
        table.write_out(move || all.clone()).await;
    }

    /// Only the end of the file cannot be written.
    #[tokio::test(start_paused = true)]
    async fn a_disk_with_room_for_a_new_file_keeps_all_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let old = [record("a", Some(0o755)), record("b", Some(0o755))];
        let table = on_full_disk(folder.path(), &old);
        fs::remove_dir(folder.path().join(NEW_NAME)).expect("removed");
        let new = [old[1].clone(), record("a", Some(0o600))];
        change(&table, &new).await;
        assert_eq!(left(folder.path()), [new[1].clone(), new[0].clone()]);
    }

    /// The disk is full and takes no new file either, and a start finds what is left.
    #[tokio::test(start_paused = true)]
    async fn a_full_disk_keeps_the_records_of_other_keys_and_no_replaced_one() {
        let (old, other) = (record("a", Some(0o755)), record("b", Some(0o700)));
        let written = [record("a", Some(0o777)), old, other.clone()];
        let longer = AttributeRecord {
            etag: Some("\"another\"".to_owned()),
            ..record("a", Some(0o600))
        };
        for new in [
            record("a", Some(0o600)),
            longer,
            record("a", None),
            record("c", Some(1)),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let table = on_full_disk(folder.path(), &written);
            let all = match new.headers {
                Some(_) => vec![other.clone(), new.clone()],
                None => vec![new.clone()],
            };
            change(&table, &all).await;
            assert!(table.is_behind() && !table.is_stale());
            // `left` cuts the file as a start does.
            let found = left(folder.path());
            let expected = match (new.key.as_str(), new.etag.as_deref()) {
                // It fits in the place of the old one.
                ("a", Some("\"1\"")) => vec![new.clone(), other.clone()],
                ("a", _) => vec![other.clone()],
                _ => vec![written[1].clone(), other.clone()],
            };
            assert_eq!(found, expected, "{new:?}");
            fs::remove_dir(folder.path().join(NEW_NAME)).expect("removed");
            let rows = all.clone();
            table.sync(move || rows.clone()).await.expect("room again");
            let changes = all.iter().filter(|record| record.headers.is_some());
            let mut expected: Vec<_> = changes.cloned().collect();
            expected.sort_by(|a, b| a.key.cmp(&b.key));
            assert_eq!(left(folder.path()), expected);
        }
    }

    /// A new folder was synced, and more is set than its record has room for.
    #[tokio::test(start_paused = true)]
    async fn a_folder_outlives_later_changes_on_a_full_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let of_folder = |mode, more: &[(String, String)]| {
            let mut record = record("d/", Some(mode));
            record.etag = None;
            record
                .headers
                .as_mut()
                .expect("a change")
                .extend_from_slice(more);
            record
        };
        let table = on_full_disk(folder.path(), &[of_folder(0o755, &[])]);
        let time = ("x-amz-meta-mtime".to_owned(), "1".to_owned());
        change(&table, &[of_folder(0o700, &[time])]).await;
        assert_eq!(left(folder.path()), [of_folder(0o700, &[])]);
    }

    /// A process that is killed while it replaces a record leaves the other ones.
    #[test]
    fn a_torn_record_takes_no_other_along() {
        let folder = tempfile::tempdir().expect("a folder");
        let all = [
            record("a", Some(1)),
            record("b", Some(2)),
            record("c", Some(3)),
        ];
        let sound = frames(&all);
        let first = frames(&all[..1]).len();
        let second = first..first + frames(&all[1..2]).len();
        for at in second.start + 4..second.end {
            let mut bytes = sound.clone();
            bytes[at] ^= 0x10;
            fs::write(folder.path().join(FILE_NAME), &bytes).expect("written");
            let found = left(folder.path());
            assert_eq!(found, [all[0].clone(), all[2].clone()], "{at}");
        }
    }
}
