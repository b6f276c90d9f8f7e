use std::fs;

use super::super::journal::{self, JournalContents};
use super::super::replay::replay;
use super::super::slots;
use super::*;
use tidegate_engine::Budget;

fn memory() -> Memory {
    Memory::new(Budget::new(1 << 20), Budget::new(1 << 30))
}

fn folder() -> (tempfile::TempDir, Arc<Slots>) {
    let directory = tempfile::tempdir().expect("a folder");
    let slots = Slots::new(directory.path(), None);
    (directory, slots)
}

fn draft(slots: &Arc<Slots>, id: u64) -> Arc<SpoolFile> {
    Arc::new(SpoolFile::new(
        slots.clone(),
        id,
        Begin::of("key"),
        memory(),
    ))
}

fn wrote(size: u64) -> Record {
    let extents = vec![(0, size)];
    Record::Wrote { size, extents }
}

/// Returns the drafts of all journals in a directory: identity, path, state, and sound bytes.
fn journals(directory: &Path) -> Vec<(u64, PathBuf, ReplayedDraft, u64)> {
    let entries = fs::read_dir(directory).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let paths = paths.filter(|path| super::super::is(path, super::super::JOURNAL_EXTENSION));
    let read = paths.filter_map(
        |path| match journal::read(&fs::read(&path).expect("read")) {
            JournalContents::Journal { id, records, sound } => {
                let replayed = replay(&records).expect("they fit");
                Some((id, path, replayed, sound))
            }
            _ => None,
        },
    );
    read.collect()
}

/// A failed `fsync` may be tried again; it then keeps its promise.
#[test]
fn what_could_not_be_told_is_told_with_the_next() {
    let (directory, slots) = folder();
    let file = draft(&slots, 3);
    file.write(0, vec![7; 5000].into()).expect("written");
    let full = slots.full_disk(&slots.directory().join("full"));
    file.journal().log.write_to(full);
    assert!(file.sync(&[wrote(5000)]).is_err());
    // Nor could it be truncated to its earlier length.
    file.journal()
        .log
        .write_to(slots.take().expect("there is room again"));
    file.sync(&[]).expect("there is room again");
    let [(id, path, found, sound)] = &mut journals(directory.path())[..] else {
        panic!("one journal");
    };
    assert!(found.promised && found.draft.size() == 5000);

    let again = SpoolFile::reopen(slots.clone(), path, (*id, *sound, 0), found, memory());
    let again = again.expect("sound");
    let read = again.read(ByteRange::new(0, 5000)).expect("read");
    assert_eq!(read, [7; 5000][..]);
}

/// The caller has no other copy of the records, one of which may say that bytes are gone.
#[test]
fn what_is_noted_while_the_folder_cannot_be_synced_is_not_forgotten() {
    let (directory, slots) = folder();
    let file = draft(&slots, 3);
    file.write(0, vec![7; 300_000].into()).expect("written");
    file.sync(&[wrote(300_000)]).expect("synced");
    assert!(file.may_differ(), "its data has a file");
    file.journal().is_named = false;
    let elsewhere = tempfile::tempdir().expect("a folder");
    let away = elsewhere.path().join("away");
    fs::rename(directory.path(), &away).expect("moved");
    let cut = file.note_durably(&[Record::Cut { size: 100 }]);
    assert!(cut.is_err(), "the folder is not there");
    fs::rename(&away, directory.path()).expect("moved back");
    file.note_durably(&[]).expect("durable");
    let [(.., found, _)] = &journals(directory.path())[..] else {
        panic!("one journal");
    };
    assert_eq!(found.draft.size(), 100);
}

/// A disk that failed once must not keep an object from being published under a staging key.
#[test]
fn begins_anew_in_another_file_where_its_own_is_lost() {
    let (directory, slots) = folder();
    let file = draft(&slots, 3);
    file.write(0, vec![7; 5000].into()).expect("written");
    file.sync(&[wrote(5000)]).expect("synced");
    let full = slots.full_disk(&slots.directory().join("full"));
    file.journal().log.write_on_to(full);
    assert!(file.note_durably(&[Record::Closed]).is_err());
    file.restart(&Begin::of("another"), true)
        .expect("elsewhere");
    file.write(0, vec![8; 100].into()).expect("written");
    file.sync(&[wrote(100)]).expect("it can promise again");
    let mut found = journals(directory.path());
    let anew = found
        .iter_mut()
        .find(|(.., found, _)| found.begin.key == "another");
    let (id, path, replayed, sound) = anew.expect("a journal");
    assert!(replayed.promised && replayed.draft.size() == 100);
    let again = SpoolFile::reopen(slots.clone(), path, (*id, *sound, 0), replayed, memory());
    let read = again.expect("sound").read(ByteRange::new(0, 100));
    assert_eq!(read.expect("read"), [8; 100][..]);
}

/// Its object is in the bucket; a journal that appears afterwards would publish it again.
#[test]
fn what_was_removed_stays_removed() {
    let (directory, slots) = folder();
    let file = draft(&slots, 3);
    file.write(0, vec![7; 5000].into()).expect("written");
    file.sync(&[wrote(5000)]).expect("synced");
    assert_eq!(journals(directory.path()).len(), 1);
    file.remove();
    file.sync(&[Record::Closed]).expect("nothing to do");
    file.note(&[Record::Closed]).expect("nothing to do");
    assert_eq!(journals(directory.path()).len(), 0);
}

/// A reader of a removed draft still reads its bytes, not those of the next one. Bytes that an
/// earlier draft left in a file belong to no draft.
#[test]
fn files_are_used_again_and_bytes_are_not() {
    let (directory, slots) = folder();
    for id in 1..40 {
        let length = [900, 5000, 300_000][id as usize % 3];
        let byte = u8::try_from(id).expect("a few");
        let file = draft(&slots, id);
        file.write(0, vec![byte; length].into()).expect("written");
        file.sync(&[wrote(length as u64)]).expect("synced");
        let reader = file;
        let writer = reader.clone();
        writer.remove();
        drop(writer);
        let next = draft(&slots, id + 100);
        next.write(0, vec![0xee; 700].into()).expect("written");
        next.sync(&[wrote(700)]).expect("synced");
        let read = reader.read(ByteRange::new(0, length as u64));
        assert_eq!(read.expect("read"), vec![byte; length]);
        let [(found, _, replayed, _)] = &journals(directory.path())[..] else {
            panic!("one journal");
        };
        assert_eq!((*found, replayed.draft.size()), (id + 100, 700));
        next.remove();
    }
    let names = fs::read_dir(directory.path()).expect("a folder").count();
    assert!(names < 20, "{names}");
}

fn remove_all(directory: &Path, extension: &str) {
    for entry in fs::read_dir(directory).expect("a folder") {
        let path = entry.expect("an entry").path();
        if super::super::is(&path, extension) {
            fs::remove_file(path).expect("removed");
        }
    }
}

/// An administrator has removed the files under the running process: a crash would find nothing.
#[test]
fn files_without_their_names_promise_nothing() {
    let (directory, slots) = folder();
    let file = draft(&slots, 7);
    file.write(0, Bytes::from_static(b"small"))
        .expect("written");
    file.sync(&[wrote(5)]).expect("durable");
    remove_all(directory.path(), super::super::JOURNAL_EXTENSION);
    assert!(file.sync(&[]).is_err());
    // It continues under another name.
    file.restart(&Begin::of("key"), true).expect("durable");
    assert_eq!(journals(directory.path()).len(), 1);

    // Files that waited for their next draft have no names either.
    remove_all(directory.path(), super::super::JOURNAL_EXTENSION);
    let next = draft(&slots, 8);
    let bytes = Bytes::from(vec![1; 2 * FRAME_BYTES as usize]);
    let size = bytes.len() as u64;
    next.write(0, bytes.clone()).expect("written");
    next.sync(&[wrote(size)]).expect("durable");
    assert_eq!(journals(directory.path()).len(), 1);
    remove_all(directory.path(), DATA_EXTENSION);
    assert!(next.sync(&[]).is_err());
    // Another file that has its name is not it.
    fs::write(path_of(directory.path(), 8), b"another").expect("written");
    assert!(next.sync(&[]).is_err());
    assert_eq!(next.read(ByteRange::new(0, size)).expect("read"), bytes);
}

/// The journal has bytes of a sync that failed after them. Later ones are in the data file, and count.
#[test]
fn bytes_of_a_failed_sync_do_not_hide_later_ones() {
    let (directory, slots) = folder();
    let file = draft(&slots, 3);
    file.note(&[Record::Closed]).expect("there is room");
    file.write(0, vec![7; 100].into()).expect("written");
    // The records and the bytes are appended, and the record of the sync is not.
    slots::faults::fail_next(directory.path(), 2, 1);
    assert!(file.sync(&[wrote(100)]).is_err());
    file.write(0, vec![8; 300_000].into()).expect("written");
    file.sync(&[wrote(300_000)]).expect("synced");
    let [(id, path, found, sound)] = &mut journals(directory.path())[..] else {
        panic!("one journal");
    };
    let again = SpoolFile::reopen(slots.clone(), path, (*id, *sound, 0), found, memory());
    let again = again.expect("sound");
    let read = again.read(ByteRange::new(0, 300_000)).expect("read");
    assert!(read == vec![8; 300_000], "{:?}", &read[..4]);
}
