//! Writers over the fake bucket, with small parts and a small spool.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tidegate_engine::ReadContext;
use tidegate_origin::fake::Fault;
use tidegate_origin::write::MAX_COPY;
use tidegate_origin::{FakeOrigin, OriginError};
use tidegate_plan::{ByteRange, PartSizes};
use tidegate_write::{Commit, OpenMode, Settings, WritePath};
use tidegate_write::{WriteError, Writer, Writers};

use super::engine::{self, Setup, World, valid};

/// Bytes of a part; an object of one part is uploaded in one request.
pub(crate) const PART: u64 = 1000;

/// The charge for the two files of a draft, beside the bytes in them.
pub(crate) const FILES: u64 = 20 << 10;

/// An engine with writers.
pub(crate) struct Desk {
    pub(crate) world: World,
    pub(crate) writers: Writers,
    /// The moment at which a close returns.
    pub(crate) commit: Commit,
    pub(crate) spool: TempDir,
}

/// The options that differ between tests.
pub(crate) struct Terms {
    pub(crate) size: u64,
    pub(crate) commit: Commit,
    pub(crate) part: u64,
    pub(crate) read_back: bool,
    pub(crate) max_copy: u64,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            size: 1 << 30,
            commit: Commit::Close,
            part: PART,
            read_back: false,
            max_copy: MAX_COPY,
        }
    }
}

impl Terms {
    /// Returns terms under which a close waits for no origin.
    pub(crate) fn background() -> Self {
        Self {
            commit: Commit::Background,
            ..Self::default()
        }
    }

    pub(crate) fn settings(&self, spool: &Path) -> Settings {
        Settings {
            size: self.size + FILES,
            parts: PartSizes::new(self.part),
            kept: 2 * self.part,
            patience: Duration::from_secs(20),
            read_back: self.read_back,
            max_copy: self.max_copy,
            // The limit is so short that the journal is rewritten all the time.
            journal: 500,
            ..Settings::new(spool.to_owned())
        }
    }
}

impl Desk {
    pub(crate) fn plain() -> Self {
        Self::new(Terms::default())
    }

    pub(crate) fn new(terms: Terms) -> Self {
        let world = Setup::bucket(FakeOrigin::new().with_min_part(1)).build();
        Self::over(world, tempfile::tempdir().expect("a folder"), &terms)
    }

    /// Returns a desk on a bucket that it sees through the first of two accesses, and the bucket as the second sees it.
    pub(crate) fn of_two_accesses(terms: &Terms) -> (Self, Arc<ReadContext>) {
        let mut world = Setup {
            bucket: FakeOrigin::new().with_min_part(1),
            identities: vec!["one", "two"],
            ..Setup::default()
        }
        .build();
        world.source = world.seen_by("one");
        let other = world.seen_by("two");
        let spool = tempfile::tempdir().expect("a folder");
        (Self::over(world, spool, terms), other)
    }

    pub(crate) fn over(world: World, spool: TempDir, terms: &Terms) -> Self {
        let settings = terms.settings(spool.path());
        let sources = std::slice::from_ref(&world.source);
        let writers = Writers::start(&WritePath::new(&world.engine), settings, sources);
        Self {
            writers: writers.expect("a spool"),
            commit: terms.commit,
            world,
            spool,
        }
    }

    /// Commits while the origin is down, and checks the error.
    pub(crate) async fn fails(&self, writer: &Writer) {
        self.bucket().set_faults([down()]);
        let failed = writer.commit(Commit::Close).await;
        assert!(failed.expect_err("nobody answers").is_passing());
        self.bucket().set_faults([]);
    }

    /// Commits so that the write is carried out, its answer is lost, and the bucket cannot be asked about it.
    pub(crate) async fn lose_the_answer(&self, writer: &Writer) {
        engine::settle().await;
        self.bucket().fail_next([Fault::LoseAnswer]);
        self.fails(writer).await;
    }

    /// Switches the machine off now, with its writers, and starts it again with the contents of its disk.
    pub(crate) async fn switched_off<const N: usize>(
        self,
        writing: [Writer; N],
        terms: &Terms,
    ) -> Self {
        let copy = copy_of(&self.spool);
        self.started_again(copy, writing, terms).await
    }

    /// Ends the process, and starts another one over this spool.
    pub(crate) async fn started_again<const N: usize>(
        self,
        copy: TempDir,
        writing: [Writer; N],
        terms: &Terms,
    ) -> Self {
        let mut world = self.world.clone();
        self.world.engine.close(engine::secs(5)).await;
        drop(writing);
        world.restart(engine::clock());
        Self::over(world, copy, terms)
    }

    pub(crate) fn bucket(&self) -> &FakeOrigin {
        &self.world.bucket
    }

    pub(crate) async fn open(&self, key: &str, how: OpenMode) -> Result<Writer, WriteError> {
        let headers = vec![(
            http::header::CONTENT_TYPE,
            "text/x-test".parse().expect("text"),
        )];
        let opened = self
            .writers
            .open(&self.world.source, &valid(key), how, headers)
            .await;
        opened.inspect(|writer| writer.announce_commit(self.commit))
    }

    pub(crate) async fn create(&self, key: &str) -> Writer {
        self.open(key, OpenMode::Create).await.expect("opened")
    }

    pub(crate) async fn change(&self, key: &str) -> Writer {
        self.open(key, OpenMode::Change).await.expect("opened")
    }

    /// Writes a whole object in pieces, and closes it.
    pub(crate) async fn write(&self, key: &str, bytes: &Bytes) {
        let writer = self.create(key).await;
        put(&writer, 0, bytes).await;
        writer.commit(self.commit).await.expect("committed");
    }

    /// Returns the object as it is in the bucket.
    pub(crate) fn object(&self, key: &str) -> Option<Bytes> {
        self.bucket().object(key).map(|(_, bytes)| bytes)
    }
}

/// Returns bytes with others in their place, or behind them.
pub(crate) fn patched(bytes: &Bytes, at: u64, patch: &[u8]) -> Bytes {
    let (mut bytes, at) = (bytes.to_vec(), at as usize);
    let end = at + patch.len();
    bytes.resize(bytes.len().max(end), 0);
    bytes[at..end].copy_from_slice(patch);
    bytes.into()
}

/// Writes in pieces of 300 bytes.
pub(crate) async fn put(writer: &Writer, mut offset: u64, bytes: &Bytes) {
    let mut rest = bytes.clone();
    while !rest.is_empty() {
        let piece = rest.split_to(rest.len().min(300));
        let length = piece.len() as u64;
        writer.write_at(offset, piece).await.expect("written");
        offset += length;
    }
}

/// Sets an owner, and so a header of the object.
pub(crate) async fn set_owner(writer: &Writer, uid: u32) {
    writer.set_attributes(|it| it.uid = Some(uid)).await;
}

pub(crate) async fn all(writer: &Writer) -> Bytes {
    let range = ByteRange::new(0, writer.size());
    writer.read_at(range).await.expect("readable")
}

/// Copies a spool as a machine finds it that was switched off now. Threads that still work in it may rename and remove
/// files: a copy during which the names change is made again.
pub(crate) fn copy_of(spool: impl AsRef<Path>) -> TempDir {
    let spool = spool.as_ref();
    loop {
        let (copy, names) = (tempfile::tempdir().expect("a folder"), names_in(spool));
        let copied = names
            .iter()
            .try_for_each(|name| std::fs::copy(spool.join(name), copy.path().join(name)).map(drop));
        match copied {
            Ok(()) if names_in(spool) == names => return copy,
            Err(error) if error.kind() != ErrorKind::NotFound => panic!("not copied: {error}"),
            _ => {}
        }
    }
}

/// Returns the names of the files in a folder, in order.
fn names_in(folder: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(folder).expect("readable");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("readable").file_name())
        .collect();
    names.sort();
    names
}

/// Returns the fault of an origin that is down.
pub(crate) fn down() -> Fault {
    Fault::Refuse(OriginError::Unavailable("down"))
}

/// Lets the other tasks go on until `condition` holds.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never comes true");
}

/// Returns the source of a desk, for calls without a handle.
pub(crate) fn source(desk: &Desk) -> &Arc<tidegate_engine::ReadContext> {
    &desk.world.source
}
