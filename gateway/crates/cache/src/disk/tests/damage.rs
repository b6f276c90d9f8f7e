//! Damaged files: whatever is done to them, no byte read is ever wrong.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;

fn flip(path: &Path, dice: &mut Dice) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path);
    let file = file.expect("there");
    let len = usize::try_from(file.metadata().expect("open").len()).expect("small");
    if len == 0 {
        return;
    }
    let at = u64::try_from(dice.roll(len)).expect("small");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("within");
    byte[0] ^= 1 << dice.roll(8);
    file.write_all_at(&byte, at).expect("within");
}

fn cut(path: &Path, dice: &mut Dice) {
    let file = fs::OpenOptions::new()
        .write(true)
        .open(path)
        .expect("there");
    let len = usize::try_from(file.metadata().expect("open").len()).expect("small");
    let len = u64::try_from(dice.roll(len + 1)).expect("small");
    file.set_len(len).expect("cut");
}

#[test]
fn a_thousand_flips_and_cuts_under_a_live_log_give_no_wrong_byte() {
    let mut dice = Dice(0x1234_5678_9abc_def1);
    let mut rig = Rig::new(2 << 20);
    let mut next = 400;
    rig.fill(0..next);
    let mut found = 0;
    for round in 0..1000 {
        let files = rig.data_files();
        if !files.is_empty() {
            let path = &files[dice.roll(files.len())];
            if round % 25 == 24 {
                cut(path, &mut dice);
            } else {
                flip(path, &mut dice);
            }
        }
        for _ in 0..10 {
            found += usize::from(rig.get(u32::try_from(dice.roll(next as usize)).expect("small")));
        }
        if round % 20 == 19 {
            rig.fill(next..next + 16);
            next += 16;
        }
        if round % 100 == 99 {
            rig.reopen();
            found += rig.count(0..next);
        }
    }
    assert!(found > 1000, "the rest is served: {found}");
    assert!(rig.on_disk() <= 2 << 20);
}

#[test]
fn an_index_that_is_torn_ends_there_and_the_rest_goes_on() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..12);
    let index = rig.log.segments.index_path(0);
    let len = fs::metadata(&index).expect("there").len();
    assert_eq!(len, 12 * 48);
    let file = fs::OpenOptions::new()
        .write(true)
        .open(&index)
        .expect("there");
    file.set_len(len - 20).expect("cut");
    rig.reopen();
    assert_eq!(rig.count(0..12), 11);
    assert_eq!(fs::metadata(&index).expect("there").len(), 11 * 48);
    file.write_all_at(&[1], 5 * 48).expect("within");
    rig.reopen();
    assert_eq!(rig.count(0..12), 5);
    // An entry appended behind the tear is read at the next start.
    rig.log.remove(&key(0));
    rig.settle();
    rig.reopen();
    assert_eq!(rig.count(0..12), 4);
}

#[test]
fn swapped_and_missing_files_are_misses_and_leave_nothing_behind() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..640);
    let paths = |number| {
        let segments = &rig.log.segments;
        (segments.data_path(number), segments.index_path(number))
    };
    let swap = |a: &Path, b: &Path| {
        let spare = rig.dir.path().join("spare");
        fs::rename(a, &spare).expect("renamed");
        fs::rename(b, a).expect("renamed");
        fs::rename(&spare, b).expect("renamed");
    };
    swap(&paths(0).0, &paths(1).0);
    swap(&paths(2).1, &paths(3).1);
    fs::remove_file(paths(4).0).expect("deleted");
    fs::remove_file(paths(5).1).expect("deleted");
    rig.reopen();
    let left = rig.count(0..640);
    assert!((200..300).contains(&left), "{left}");
    rig.settle();
    assert_eq!(rig.data_files().len(), 2 * rig.log.segments.len());
    rig.fill(1000..1010);
}

#[test]
fn a_data_file_that_is_too_short_loses_what_it_lacks() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..12);
    let data = rig.log.segments.data_path(0);
    let file = fs::OpenOptions::new()
        .write(true)
        .open(&data)
        .expect("there");
    file.set_len(6 * 4096).expect("cut");
    rig.reopen();
    assert_eq!(rig.log.index.len(), 6);
    assert_eq!(rig.count(0..12), 6);
}

/// The power cut lost a tombstone: the chunk is in the index again, and reads as zeros.
#[test]
fn a_lost_tombstone_is_a_quiet_miss() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..12);
    rig.log.remove(&key(3));
    rig.settle();
    let index = rig.log.segments.index_path(0);
    let file = fs::OpenOptions::new()
        .write(true)
        .open(&index)
        .expect("there");
    file.set_len(12 * 48).expect("cut");
    rig.reopen();
    let location = rig.log.index.find(&key(3)).expect("resurrected");
    let read = rig.log.read(&key(3), &location, false);
    assert_eq!(read, Err(Fault::Lost));
    assert_eq!(rig.count(0..12), 11);
}

#[test]
fn other_files_in_the_directory_are_left_alone() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..12);
    let other = rig.log.dir.join("notes.txt");
    fs::write(&other, "mine").expect("written");
    rig.reopen();
    rig.fill(20..30);
    assert_eq!(fs::read(&other).expect("there"), b"mine");
}
