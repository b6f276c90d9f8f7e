//! Bytes read as they were written, whichever way they went.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use super::*;
use tidegate_engine::Budget;

mod behind;
mod journaled;

const MIB: u64 = 1 << 20;

fn data(directory: &Path, memory: u64) -> Data {
    let path = directory.join("data");
    let _ = std::fs::remove_file(&path);
    let memory = Memory::new(Budget::new(memory), Budget::new(1 << 30));
    Data::new(&path, memory)
}

/// Returns whether blocks are written past the cache here.
fn can_direct(directory: &Path) -> bool {
    let path = directory.join("probe");
    direct::open(OpenOptions::new().write(true).create(true), &path).is_ok()
}

/// Returns a function that writes a journal, for data without a file.
fn journal(directory: &Path) -> impl Fn(ByteRange, &[u8]) -> io::Result<JournaledBytes> {
    let path = directory.join("journal");
    move |range, bytes| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path)?;
        let id = 7;
        file.write_all_at(&journal::raw(id, bytes), 0)?;
        let place = journal::FRAME_HEAD_BYTES as u64;
        Ok(JournaledBytes {
            range,
            file,
            place,
            id,
        })
    }
}

fn no_journal(_: ByteRange, _: &[u8]) -> io::Result<JournaledBytes> {
    panic!("it has a file");
}

fn length(data: &Data) -> Option<u64> {
    let file = data.file.get()?;
    Some(file.metadata().expect("there").size())
}

fn pattern(seed: u64, length: u64) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + seed * 7) as u8).collect()
}

/// Redirects writes to other files.
fn exchange(data: &mut Data, file: Option<File>, direct: Option<File>) {
    data.file = file.map_or_else(OnceLock::new, OnceLock::from);
    data.direct = direct.map_or_else(OnceLock::new, OnceLock::from);
}

/// The bytes that a file should have.
struct Truth<'a>(&'a Data, Vec<u8>);

impl Truth<'_> {
    fn write(&mut self, at: u64, bytes: &[u8]) {
        let (start, end) = (at as usize, at as usize + bytes.len());
        let longer = self.1.len().max(end);
        self.1.resize(longer, 0);
        self.1[start..end].copy_from_slice(bytes);
        // In an aligned buffer like the kernel's, and in others.
        let bytes = match at % 3 {
            1 => bytes.to_vec().into(),
            _ => self.0.memory.copy(bytes),
        };
        if !self.0.take_in(at, &bytes) {
            self.0.write(at, bytes).expect("written");
        }
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.write(at, bytes);
        self.reads();
        let some = ByteRange::new(at / 2 + 1, at / 2 + MIB);
        let found = self.0.first(some).expect("read");
        let known = &self.1[(some.start as usize).min(self.1.len())..];
        let known = &known[..known.len().min(found.len())];
        assert!(!found.is_empty() && found.starts_with(known));
    }

    fn reads(&self) -> ByteRange {
        let all = ByteRange::new(0, self.1.len() as u64);
        assert!(self.0.read(all).expect("read") == self.1);
        all
    }

    fn holds(&self) {
        let all = self.reads();
        let (mut sums, mut at) = (Sums::default(), 0);
        while at < all.end {
            let rest = ByteRange::new(at, all.end);
            let (next, length) = self.0.sums(rest).expect("read");
            sums = sums.joined(next, length);
            at += length;
        }
        assert_eq!(sums, Sums::of(&self.1));
    }
}

/// The bytes are the same whichever way they went, from memory and from the disk.
#[test]
fn reads_what_was_written_past_the_cache_and_through_it() {
    let directory = tempfile::tempdir().expect("a folder");
    for (memory, piece) in [0, MIB, 3 * MIB, 64 * MIB]
        .into_iter()
        .flat_map(|memory| [10_000, 128 << 10, MIB, 3 * MIB].map(|piece| (memory, piece)))
    {
        let data = data(directory.path(), memory.max(MIB));
        let _none_left = (memory == 0).then(|| data.memory.take(MIB));
        let mut truth = Truth(&data, Vec::new());
        for n in 0..(5 * MIB).div_ceil(piece) {
            truth.put(n * piece, &pattern(n, piece));
        }
        // Elsewhere, by pages.
        truth.put(16 * MIB, &pattern(1, MIB));
        truth.put(MIB / 2, &pattern(2, MIB));
        truth.put(12 * MIB, &pattern(3, 100));
        data.sync(no_journal).expect("durable");
        truth.holds();
        truth.put(12 * MIB + 100, &pattern(4, 2 * MIB));
        truth.put(MIB + 5, &pattern(5, 100));
        data.let_go(ByteRange::new(0, MIB));
        truth.put(5 * MIB - 10, &pattern(6, 10));
        data.punch(ByteRange::new(0, MIB)).expect("punched");
        truth.1[..MIB as usize].fill(0);
        data.cut(4 * MIB).expect("cut");
        truth.1[4 * MIB as usize..].fill(0);
        truth.holds();
        // Scattered and sequential writes, as by a program that writes an image.
        for n in 0..40 {
            let at = (n * 1_234_567 + n % 3 * 777) % (6 * MIB);
            let at = if n % 2 == 0 { at - at % 4096 } else { at };
            truth.put(at, &pattern(n, 1 + n * 7001));
            truth.put(6 * MIB + n * 70_000, &pattern(n, 70_000));
        }
        let is_cached = data.end().way == WriteMode::ThroughCache;
        assert_ne!(is_cached, can_direct(directory.path()));
    }
}

#[test]
fn what_is_cut_is_gone_wherever_it_was() {
    let directory = tempfile::tempdir().expect("a folder");
    for size in [0, MIB / 2, MIB, 2 * MIB, 2 * MIB + 100, 3 * MIB] {
        let data = data(directory.path(), 64 * MIB);
        let mut truth = Truth(&data, Vec::new());
        truth.put(0, &pattern(1, 2 * MIB + 5000));
        data.cut(size).expect("cut");
        truth.1.truncate(size as usize);
        truth.1.resize(5 * MIB as usize, 0);
        truth.holds();
        truth.put(size, &pattern(2, MIB));
    }
}

/// A block's checksum does not count once newer bytes of it are in memory, or went through the
/// cache.
#[test]
fn a_checksum_is_of_what_was_written_last() {
    let directory = tempfile::tempdir().expect("a folder");
    let data = data(directory.path(), 64 * MIB);
    let mut truth = Truth(&data, Vec::new());
    truth.put(0, &pattern(1, 3 * MIB));
    truth.holds();
    for (at, length) in [(MIB / 2, 5000), (MIB + 7, 10), (2 * MIB, 3 * MIB / 4)] {
        truth.put(at, &pattern(2, length));
        truth.holds();
    }
    data.cut(MIB - 4096).expect("cut");
    truth.1[MIB as usize - 4096..].fill(0);
    truth.holds();
}

/// Writes past the cache use no more memory than allowed.
#[test]
fn keeps_no_more_than_there_is_memory_for() {
    let directory = tempfile::tempdir().expect("a folder");
    // A quarter is for callers that wait for memory.
    let data = data(directory.path(), 4 * MIB);
    for at in 0..8 {
        let bytes = data.memory.copy(&pattern(at, MIB));
        data.write(at * MIB, bytes).expect("written");
    }
    let kept = (0..8).filter(|at| {
        let range = ByteRange::new(at * MIB, (at + 1) * MIB);
        data.at_hand(range).is_some()
    });
    let most = if can_direct(directory.path()) { 3 } else { 0 };
    assert_eq!(kept.count(), most);
    assert_eq!(length(&data), Some(8 * MIB));
}

/// A full disk does not affect the bytes that it has.
#[test]
fn a_write_that_fails_leaves_what_was_written_before() {
    let directory = tempfile::tempdir().expect("a folder");
    let mut data = data(directory.path(), 64 * MIB);
    if !can_direct(directory.path()) {
        return;
    }
    assert!(data.take_in(0, &pattern(1, 5000).into()));
    let full = OpenOptions::new().write(true).open("/dev/full");
    let full = full.expect("there is one");
    let other = full.try_clone().expect("cloned");
    exchange(&mut data, Some(full), Some(other));
    assert!(data.write(5000, pattern(2, MIB).into()).is_err());
    assert!(data.sync(no_journal).is_err());
    let found = data.at_hand(ByteRange::new(0, 9000)).expect("there");
    assert_eq!(found, pattern(1, 5000));
    exchange(&mut data, None, None);
    let refused = data.sync(|_, _| Err(io::ErrorKind::StorageFull.into()));
    assert!(refused.is_err());
    data.write(5000, pattern(2, MIB).into())
        .expect("there is room again");
    let all = [pattern(1, 5000), pattern(2, MIB)].concat();
    assert!(data.read(ByteRange::new(0, 5000 + MIB)).expect("read") == all);
}

/// A part must not be sent while a sync of its bytes may still fail: the kernel may have dropped them by then.
#[test]
fn a_look_waits_for_a_sync_under_way_and_a_second_sync_does_not_hide_its_failure() {
    let directory = tempfile::tempdir().expect("a folder");
    let data = data(directory.path(), 64 * MIB);
    let (range, other) = (ByteRange::new(0, 5000), ByteRange::new(8192, 9000));
    let written = data.write_to_cache(range, &pattern(1, 5000));
    written.expect("written");
    let turn = data.sync_turn.lock().expect("free");
    data.cached().begin_sync();
    assert!(data.cached().awaits_disk(range));
    assert!(!data.cached().awaits_disk(other));
    std::thread::scope(|scope| {
        let look = scope.spawn(|| data.look(range).and_then(|()| data.sums(range)));
        data.cached().end_sync(false);
        data.end().is_lost = true;
        drop(turn);
        let looked = look.join().expect("it ends");
        assert!(looked.is_err(), "its bytes may be others by now");
    });
    assert!(data.sync_file().is_err(), "the kernel says it only once");
    assert!(data.look(other).is_ok());
}

/// Returns whether this process has a file open that was at a path and was deleted.
fn is_open(path: &Path) -> bool {
    let gone = format!("{} (deleted)", path.display());
    let open = std::fs::read_dir("/proc/self/fd").expect("this process");
    let mut open = open.filter_map(|it| std::fs::read_link(it.expect("an entry").path()).ok());
    open.any(|it| it == Path::new(&gone))
}

/// The close of a large file takes time, in which no task that must not block waits.
#[test]
fn a_file_is_closed_where_blocking_is_allowed() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.max_blocking_threads(1).build().expect("a runtime");
    let directory = tempfile::tempdir().expect("a folder");
    let path = directory.path().join("data");
    runtime.block_on(async {
        let data = data(directory.path(), 64 * MIB);
        data.write(0, pattern(1, 2 * MIB).into()).expect("written");
        data.settle().expect("written");
        std::fs::remove_file(&path).expect("there");
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || wait.recv());
        drop(data);
        assert!(is_open(&path), "the only thread that may is busy");
        drop(go);
        busy.await.expect("it ends").expect_err("nothing came");
        tokio::task::spawn_blocking(|| {}).await.expect("after it");
        assert!(!is_open(&path));
    });
}
