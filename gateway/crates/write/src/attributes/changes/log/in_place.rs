//! Changes of a file that a full disk allows: bytes in place of others take no room.
//!
//! A frame's length never changes, so that the frames behind it are found. A process that is killed while it writes a
//! frame leaves one with a wrong hash: it counts for nothing, and the others stay.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::{AttributeRecord, HEAD_BYTES, body, hash, places};
use tidegate_cache::private_files;

/// Bytes of a frame before its hash.
const LENGTH_BYTES: usize = HEAD_BYTES - 8;

type RecordKey<'a> = (u64, &'a str);

/// Puts records in the place of those of the same keys. A file's that has no room there is left out, and the old one does
/// not count any more either. With `are_all`, records of other keys do not count any more. Blocks.
pub(super) fn replace(path: &Path, records: &[AttributeRecord], are_all: bool) -> io::Result<()> {
    let bytes = private_files::read(path)?;
    let wanted: HashMap<RecordKey<'_>, _> = records.iter().map(|it| (key(it), it)).collect();
    let found = places(&bytes);
    let mut by_key: HashMap<RecordKey<'_>, Vec<_>> = HashMap::new();
    for (place, record) in &found {
        by_key.entry(key(record)).or_default().push((place, record));
    }
    let file = private_files::open(private_files::file_options().write(true), path)?;
    for (key, mut of_key) in by_key {
        let wanted = wanted.get(&key).copied();
        if wanted.is_none() && !are_all {
            continue;
        }
        let Some((last, _)) = of_key.pop_if(|(_, record)| wanted != Some(*record)) else {
            continue;
        };
        // In their order: until the last one is replaced, it is the one that counts.
        for (place, _) in of_key {
            spoil(&file, &bytes, place)?;
        }
        let is_put = match wanted.filter(|record| record.headers.is_some()) {
            Some(record) => put(&file, last, record)?,
            None => false,
        };
        if !is_put {
            spoil(&file, &bytes, last)?;
        }
    }
    file.sync_data()
}

fn key(record: &AttributeRecord) -> RecordKey<'_> {
    (record.origin, &record.key)
}

/// Makes a frame one that counts for nothing. One byte is never torn.
fn spoil(file: &File, bytes: &[u8], place: &Range<usize>) -> io::Result<()> {
    let at = place.start + LENGTH_BYTES;
    file.write_all_at(&[!bytes[at]], at as u64)
}

/// Writes a record in the place of another one, and returns whether it fits. A folder's always fits: it may be a new one,
/// which has to outlive a later change, so the last of its attributes are left out where there is no room.
fn put(file: &File, place: &Range<usize>, record: &AttributeRecord) -> io::Result<bool> {
    let room = place.len() - HEAD_BYTES;
    let (mut record, mut bytes) = (record.clone(), body(record));
    while bytes.len() > room {
        let dropped = record.headers.as_mut().and_then(Vec::pop);
        if record.etag.is_some() || dropped.is_none() {
            return Ok(false);
        }
        bytes = body(&record);
    }
    bytes.resize(room, b' ');
    let frame = [&hash(&bytes), &*bytes].concat();
    file.write_all_at(&frame, (place.start + LENGTH_BYTES) as u64)?;
    Ok(true)
}
