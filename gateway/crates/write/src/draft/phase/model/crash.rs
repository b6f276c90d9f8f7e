//! A machine that is switched off: the disk has the durable records of each journal, and as many of the later ones as it
//! got to.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use tidegate_engine::Budget;
use tidegate_origin::FakeOrigin;
use tidegate_plan::upload::ByteSource;
use tidegate_plan::{ByteRange, Timestamp};

use super::support::draw::Draw;
use super::support::engine::slice;
use super::support::spool::copy_of;
use super::truth::Bytes;
use crate::spool::Spool;
use crate::spool::blocks::Memory;
use crate::spool::file::SpoolFile;
use crate::spool::journal::Record;
use crate::spool::journal::ends::records_with_ends;
use crate::spool::reading::SpoolReading;
use crate::spool::replay::ReplayedDraft;

/// Returns what a disk has after the power was cut, each journal up to a record that is drawn.
pub(super) fn disk_after(spool: &TempDir, draw: &mut Draw) -> TempDir {
    let copy = copy_of(spool);
    for entry in fs::read_dir(copy.path()).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|it| it == "journal") {
            cut(&path, draw);
        }
    }
    copy
}

/// Cuts a journal after one of its records. The file is made durable with some of them.
fn cut(path: &Path, draw: &mut Draw) {
    let bytes = fs::read(path).expect("a journal");
    let Some(records) = records_with_ends(&bytes) else {
        return;
    };
    let is_durable = |record: &Record| {
        matches!(
            record,
            Record::Synced | Record::Cut { .. } | Record::Tried { .. } | Record::Anew { .. }
        )
    };
    let durable = records.iter().rposition(|(record, _)| is_durable(record));
    let least = durable.map_or(0, |at| at + 1);
    let count = least + draw.below((records.len() - least) as u64 + 1) as usize;
    let end = match count {
        0 => 0,
        count => records[count - 1].1,
    };
    let file = File::options().write(true).open(path).expect("a journal");
    file.set_len(end).expect("cut");
}

/// Returns the promised objects in a spool by their keys. `None`: the content rests on bytes that neither the spool nor
/// this version of the bucket has.
pub(super) fn promised_in(spool: &Path, bucket: &FakeOrigin) -> BTreeMap<String, Option<Bytes>> {
    let memory = Memory::new(Budget::new(1 << 20), Budget::new(1 << 20));
    let spool = Spool::open(spool, 1 << 30, memory).expect("a spool");
    let found = spool.recover(&SpoolReading::default(), Timestamp::default());
    let found = found.expect("it can be read").into_iter();
    let promised = found.filter(|(_, replayed)| replayed.promised);
    let content = |(file, replayed): (Arc<SpoolFile>, ReplayedDraft)| {
        let content = content(&file, &replayed, bucket);
        (replayed.begin.key, content.map(Some))
    };
    promised.map(content).collect()
}

fn content(file: &SpoolFile, replayed: &ReplayedDraft, bucket: &FakeOrigin) -> Option<Vec<u8>> {
    let draft = &replayed.draft;
    let mut bytes = Vec::new();
    for (range, source) in draft.sources(ByteRange::new(0, draft.size())) {
        let length = usize::try_from(range.len()).expect("short");
        match source {
            ByteSource::Spool => bytes.extend(file.read(range).expect("readable")),
            ByteSource::Zero => bytes.resize(bytes.len() + length, 0),
            ByteSource::Gone => return None,
            ByteSource::Base => {
                let base = replayed.begin.base.as_ref()?;
                let (version, object) = bucket.object(&base.key)?;
                if version.etag.as_str() != base.etag {
                    return None;
                }
                bytes.extend(slice(&object, range));
            }
        }
    }
    Some(bytes)
}
