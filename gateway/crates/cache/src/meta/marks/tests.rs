//! Marks over a real file, and the meaning of each state of it after a crash.

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn path(folder: &TempDir) -> std::path::PathBuf {
    folder.path().join("marks")
}

/// So long that no flush of a slow machine hangs.
const WRITE_TIMEOUT: Duration = Duration::from_secs(600);

fn start(folder: &TempDir) -> Marks {
    started(folder, WRITE_TIMEOUT)
}

fn started(folder: &TempDir, write_timeout: Duration) -> Marks {
    Marks::start(MarkFile::create(&path(folder)), write_timeout).expect("a thread")
}

fn keys_left(folder: &TempDir) -> Vec<Vec<u8>> {
    let mut left = MarkFile::read_keys(&path(folder)).expect("read");
    left.sort();
    left
}

fn mark(marks: &Marks, key: &str) -> MarkToken {
    let (token, told) = marks.mark(key.into());
    told.blocking_recv().expect("told").expect("durable");
    token
}

/// Waits until the thread has zeroed the unused blocks.
fn idle(marks: &Marks) {
    while !marks.shared.lock().unused.is_empty() {
        thread::yield_now();
    }
    // The thread has taken them, and handles this mark after them.
    let token = mark(marks, "last");
    marks.release([token]);
}

#[test]
fn a_mark_counts_from_its_flush_to_its_release() {
    let folder = folder();
    let marks = start(&folder);
    assert_eq!(keys_left(&folder), Vec::<Vec<u8>>::new());
    let (a, b) = (mark(&marks, "a"), mark(&marks, "b"));
    assert_eq!(keys_left(&folder), [b"a", b"b"]);
    marks.release([a]);
    idle(&marks);
    assert!(!keys_left(&folder).contains(&b"a".to_vec()));
    assert!(keys_left(&folder).contains(&b"b".to_vec()));
    marks.release([b, a]);
    idle(&marks);
    drop(marks);
    assert!(!keys_left(&folder).contains(&b"b".to_vec()));
    drop(start(&folder));
    assert_eq!(
        keys_left(&folder),
        Vec::<Vec<u8>>::new(),
        "a start begins anew"
    );
}

/// Any number of waiting marks: each is durable when it is reported, and the file grows no more
/// than it must.
#[test]
fn marks_that_wait_share_a_flush_and_blocks_are_used_again() {
    let folder = folder();
    let marks = start(&folder);
    for round in 0..20 {
        let waiting: Vec<_> = (0..300)
            .map(|key| marks.mark(format!("{round} {key}").into_bytes()))
            .collect();
        let mut tokens = Vec::new();
        for (token, told) in waiting {
            told.blocking_recv().expect("told").expect("durable");
            tokens.push(token);
        }
        assert_eq!(
            keys_left(&folder)
                .iter()
                .filter(|key| key.starts_with(format!("{round} ").as_bytes()))
                .count(),
            300
        );
        marks.release(tokens);
    }
    let length = std::fs::metadata(path(&folder)).expect("there").len();
    assert!(length <= 16 << 20, "{length}");
    idle(&marks);
    assert!(marks.shared.lock().live.is_empty());
    assert!(marks.shared.lock().tokens.is_empty());
}

#[test]
fn a_mark_without_a_waiter_is_let_go_of() {
    let folder = folder();
    let marks = start(&folder);
    let (token, told) = marks.mark(b"left".to_vec());
    drop(told);
    marks.release([token]);
    idle(&marks);
    assert!(marks.shared.lock().tokens.is_empty());
    assert!(!keys_left(&folder).contains(&b"left".to_vec()));
}

#[test]
fn a_file_that_is_deleted_is_made_again_with_all_that_counts() {
    let folder = folder();
    let marks = start(&folder);
    mark(&marks, "before");
    std::fs::remove_dir_all(folder.path()).expect("deleted");
    mark(&marks, "after");
    assert_eq!(keys_left(&folder), [b"after".to_vec(), b"before".to_vec()]);
}

#[test]
fn a_disk_that_takes_nothing_refuses_and_recovers() {
    let folder = folder();
    let marks = start(&folder);
    let counts = mark(&marks, "counts");
    std::fs::remove_file(path(&folder)).expect("deleted");
    // A folder in its place cannot be opened as a file, not even by root.
    std::fs::create_dir(path(&folder)).expect("made");
    for _ in 0..2 {
        let (token, told) = marks.mark(b"refused".to_vec());
        told.blocking_recv().expect("told").expect_err("no file");
        marks.release([token]);
    }
    std::fs::remove_dir(path(&folder)).expect("deleted");
    mark(&marks, "again");
    assert_eq!(keys_left(&folder), [b"again".to_vec(), b"counts".to_vec()]);
    marks.release([counts]);
}

/// A hanging disk is waited for once; after that time, marks are refused at once.
#[test]
fn a_disk_that_hangs_refuses_at_once() {
    let folder = folder();
    let marks = started(&folder, Duration::ZERO);
    marks.shared.lock().flushing_since = Some(Instant::now());
    let (token, told) = marks.mark(b"a".to_vec());
    told.blocking_recv().expect("told").expect_err("refused");
    marks.release([token]);
    assert!(marks.shared.lock().tokens.is_empty());
}

proptest! {
    #[test]
    fn blocks_hold_what_was_packed_or_nothing(
        keys in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..1033), 1..40),
        cut in 0usize..SIZE_OF_BLOCK,
    ) {
        let blocks = pack(keys.iter().map(Vec::as_slice));
        let mut found = Vec::new();
        for block in &blocks {
            prop_assert!(block.bytes.len() <= SIZE_OF_BLOCK);
            let mut page = block.bytes.clone();
            page.resize(SIZE_OF_BLOCK, 0);
            let unpacked = block::unpack(&page);
            prop_assert_eq!(unpacked.len(), block.marks);
            found.extend(unpacked.clone());
            // A torn block gives all or nothing.
            page[cut..].fill(0);
            let torn = block::unpack(&page);
            prop_assert!(torn.is_empty() || torn == unpacked);
        }
        prop_assert_eq!(found, keys);
    }
}

const SIZE_OF_BLOCK: usize = block::BLOCK_SIZE;

/// Measures a mark beside a plain write of 4 KiB with `fdatasync` on the same disk. `MARKS_FOLDER`
/// sets the folder.
#[test]
#[ignore = "a measurement"]
fn the_cost_of_a_mark() {
    let folder = std::env::var_os("MARKS_FOLDER")
        .map_or_else(folder, |parent| TempDir::new_in(parent).expect("a folder"));
    let marks = start(&folder);
    let plain = std::fs::File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .open(folder.path().join("plain"))
        .expect("a file");
    let page = [7; SIZE_OF_BLOCK];
    let put = |at: u64| {
        std::os::unix::fs::FileExt::write_all_at(&plain, &page, at * 4096).expect("written");
        plain.sync_data().expect("durable");
    };
    (0..64).for_each(put);
    let (mut plainly, mut marked) = (Vec::new(), Vec::new());
    for round in 0..2000 {
        let begun = Instant::now();
        put(round % 64);
        plainly.push(begun.elapsed());
        let begun = Instant::now();
        let token = mark(&marks, "folder/a-key-of-usual-length.jpg");
        marked.push(begun.elapsed());
        if round % 100 == 99 {
            marks.release(token - 99..=token);
        }
    }
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    let (plainly, marked) = (median(plainly), median(marked));
    let ratio = marked.as_secs_f64() / plainly.as_secs_f64();
    println!("a write of 4 KiB and its fdatasync: {plainly:?}; a mark: {marked:?}; {ratio:.2}");
}
