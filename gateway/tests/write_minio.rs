//! Writers over a real MinIO: writes at any offset, beyond the spool's size, and while it is
//! unreachable.
#![cfg(feature = "real-parts")]

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use tidegate_engine::{Engine, OpenOptions, ReadContext};
use tidegate_origin::{CompletedPart, CopySource, Guard, PartSums, Sums};
use tidegate_plan::{ByteRange, ObjectKey, RangeSpec};
use tidegate_write::{Commit, OpenMode};
use tidegate_write::{Writer, Writers};

#[expect(dead_code, reason = "what is written here goes through writers")]
#[path = "support/bucket.rs"]
mod bucket;
#[path = "support/minio.rs"]
mod minio;
#[path = "support/ports.rs"]
mod ports;
#[path = "support/writers.rs"]
mod writers;

use minio::Minio;
use writers::{PART, start};

struct World {
    engine: Engine,
    source: Arc<ReadContext>,
    writers: Writers,
    _spool: tempfile::TempDir,
    _server: Minio,
}

impl World {
    async fn start(spool_size: u64) -> Self {
        let server = Minio::start().await;
        let settings = server.settings("media");
        bucket::Bucket::create(&settings).await;
        let spool = tempfile::tempdir().expect("a folder");
        let (engine, source, writers) = start(spool.path(), spool_size, &settings).await;
        Self {
            engine,
            source,
            writers,
            _spool: spool,
            _server: server,
        }
    }

    async fn open(&self, name: &str, how: OpenMode) -> Writer {
        let opened = self
            .writers
            .open(&self.source, &key(name), how, Vec::new())
            .await;
        opened.expect("opened")
    }

    async fn read(&self, name: &str) -> Vec<u8> {
        let first = OpenOptions {
            first: Some(RangeSpec::From(0)),
            ..OpenOptions::default()
        };
        let object = self.engine.open(&self.source, &key(name), first).await;
        let object = object.expect("there");
        let mut reader = object.read_at(ByteRange::new(0, object.version().size));
        let mut bytes = Vec::new();
        while let Some(piece) = reader.next().await {
            bytes.extend_from_slice(&piece.expect("readable"));
        }
        bytes
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).expect("a key")
}

fn sample(seed: u64, length: u64) -> Bytes {
    let word = |at: u64| (at ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes();
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(word).collect();
    bytes.truncate(usize::try_from(length).expect("fits into memory"));
    bytes.into()
}

/// Writes in pieces, and into the copy for comparison.
async fn put(writer: &Writer, truth: &mut Vec<u8>, at: u64, bytes: Bytes) {
    let (start, end) = (at as usize, at as usize + bytes.len());
    truth.resize(truth.len().max(end), 0);
    truth[start..end].copy_from_slice(&bytes);
    let (mut rest, mut offset) = (bytes, at);
    while !rest.is_empty() {
        let piece = rest.split_to(rest.len().min(1 << 20));
        let length = piece.len() as u64;
        writer.write_at(offset, piece).await.expect("written");
        offset += length;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_created_changed_appended_to_cut_and_renamed() {
    let world = World::start(1 << 30).await;
    let writer = world.open("folder/a b", OpenMode::Create).await;
    let mut truth = Vec::new();
    put(&writer, &mut truth, 0, sample(1, 6 * PART + 100)).await;
    put(&writer, &mut truth, PART + 5, sample(2, 1000)).await;
    writer.commit(Commit::Close).await.expect("committed");
    assert!(world.read("folder/a b").await == truth);
    drop(writer);
    let writer = world.open("folder/a b", OpenMode::Change).await;
    put(&writer, &mut truth, 4 * PART - 5, sample(3, 10)).await;
    let end = truth.len() as u64;
    put(&writer, &mut truth, end, sample(4, 50)).await;
    writer.commit(Commit::Close).await.expect("committed");
    assert!(world.read("folder/a b").await == truth);
    writer.truncate(2 * PART + 7).await.expect("cut");
    truth.truncate(2 * PART as usize + 7);
    writer.commit(Commit::Close).await.expect("committed");
    assert!(world.read("folder/a b").await == truth);
    let (from, to) = (key("folder/a b"), key("c+d/ü"));
    world
        .writers
        .rename(&world.source, &from, &to)
        .await
        .expect("renamed");
    assert!(world.read("c+d/ü").await == truth);
    assert!(world.source.origin.head(&from).await.is_err());
    world
        .writers
        .remove(&world.source, &to)
        .await
        .expect("removed");
    assert!(world.source.origin.head(&to).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_larger_than_the_spool_is_written_back_and_forth() {
    let world = World::start(8 * PART).await;
    let writer = world.open("large", OpenMode::Create).await;
    let mut truth = Vec::new();
    put(&writer, &mut truth, 0, sample(1, 5 * PART)).await;
    for round in 0..24_u64 {
        let at = round * 5 % 16 * PART + round * 1000;
        put(&writer, &mut truth, at, sample(round, PART / 2)).await;
        let look = ByteRange::new(at, at + PART);
        let read = writer.read_at(look).await.expect("readable");
        let end = truth.len().min(look.end as usize);
        assert!(read == truth[at as usize..end], "round {round}");
    }
    writer.commit(Commit::Close).await.expect("committed");
    assert!(world.read("large").await == truth);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_larger_than_the_spool_is_written_in_order() {
    let world = World::start(8 * PART).await;
    let writer = world.open("large", OpenMode::Create).await;
    let mut truth = Vec::new();
    put(&writer, &mut truth, 0, sample(1, 40 * PART + 3)).await;
    put(&writer, &mut truth, 0, sample(2, 100)).await;
    writer.commit(Commit::Close).await.expect("committed");
    assert!(world.read("large").await == truth);
    let uploads = world.source.origin.writing().uploads(&key("large")).await;
    assert_eq!(uploads, Ok(vec![]));
}

/// An object too large for one copy (5 GiB) is copied by parts.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes 11 GiB: `just long-mount`"]
async fn an_object_too_large_for_one_copy_is_renamed() {
    const GIB: u64 = 1 << 30;
    const SIZE: u64 = 5 * GIB + 5;
    let world = World::start(GIB).await;
    let origin = world.source.origin.writing();
    let put = |name, bytes: Bytes| {
        let (key, bytes) = (key(name), bytes.into());
        async move { origin.put(&key, Vec::new(), bytes, Guard::None).await }
    };
    let written = put("block", sample(1, GIB)).await.expect("written");
    let (from, to) = (key("from"), key("to"));
    let upload = origin
        .begin(&from, Vec::new(), PartSums::Crc64)
        .await
        .expect("begun");
    let mut parts = Vec::new();
    for number in 1..=5 {
        let (key, etag) = (key("block"), written.etag.clone());
        let block = CopySource { key, etag };
        let whole = ByteRange::new(0, GIB);
        let tag = origin.copy_part(&upload, number, block, whole).await;
        parts.push((number, tag.expect("copied")));
    }
    let tail = origin.part(&upload, 6, Bytes::from("tail!").into()).await;
    parts.push((6, tail.expect("a part")));
    let done = origin.complete(&upload, parts, Guard::None).await;
    done.expect("completed");
    let renamed = world.writers.rename(&world.source, &from, &to).await;
    renamed.expect("renamed");
    assert!(world.source.origin.head(&from).await.is_err());
    let open = OpenOptions::default();
    let object = world.engine.open(&world.source, &to, open).await;
    let object = object.expect("there");
    assert_eq!(object.version().size, SIZE);
    let block = sample(1, GIB);
    for at in [0, GIB - 4, 3 * GIB - 7, 5 * GIB - 10] {
        let mut reader = object.read_at(ByteRange::new(at, (at + 15).min(SIZE)));
        let mut bytes = Vec::new();
        while let Some(piece) = reader.next().await {
            bytes.extend_from_slice(&piece.expect("readable"));
        }
        let byte = |at: u64| match at.checked_sub(5 * GIB) {
            Some(at) => b"tail!"[at as usize],
            None => block[(at % GIB) as usize],
        };
        let truth: Vec<_> = (at..(at + 15).min(SIZE)).map(byte).collect();
        assert_eq!(bytes, truth, "from {at}");
    }
}

/// Measures 1 GiB against the same bytes sent bare: as many parts of the same size at once.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: run it alone, in release, with --nocapture"]
async fn how_fast_it_is_beside_bare_parts() {
    const SIZE: u64 = 1 << 30;
    const BARE: u64 = 16 << 20;
    let server = Minio::start().await;
    let settings = server.settings("media");
    bucket::Bucket::create(&settings).await;
    let spool = tempfile::tempdir().expect("a folder");
    let terms = tidegate_write::Settings::new(spool.path().to_owned());
    let (_engine, source, writers) = writers::start_with(terms, &settings).await;
    let bytes = sample(1, SIZE);
    let origin = source.origin.writing();
    for round in 0..5 {
        let began = std::time::Instant::now();
        let upload = origin
            .begin(&key("bare"), Vec::new(), PartSums::Crc32c)
            .await
            .expect("begun");
        let parts = (0..SIZE / BARE).map(|index| {
            let part = bytes.slice((index * BARE) as usize..((index + 1) * BARE) as usize);
            let (number, upload) = (u32::try_from(index + 1).expect("few"), &upload);
            async move {
                let crc32c = Some(Sums::of(&part).crc32c);
                let etag = origin.part(upload, number, part.into()).await;
                let etag = etag.expect("a part");
                CompletedPart {
                    number,
                    etag,
                    crc32c,
                }
            }
        });
        let parts: Vec<_> = futures_util::stream::iter(parts)
            .buffered(16)
            .collect()
            .await;
        let done = origin.complete(&upload, parts, Guard::None).await;
        done.expect("completed");
        let bare = began.elapsed();

        let began = std::time::Instant::now();
        let opened = writers
            .open(&source, &key("written"), OpenMode::Create, Vec::new())
            .await;
        let writer = opened.expect("opened");
        let mut offset = 0;
        let mut rest = bytes.clone();
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(1 << 20));
            let length = piece.len() as u64;
            writer.write_at(offset, piece).await.expect("written");
            offset += length;
        }
        let taken = began.elapsed();
        writer.commit(Commit::Close).await.expect("committed");
        let written = began.elapsed();
        let ratio = written.as_secs_f64() / bare.as_secs_f64();
        println!("{round}: bare {bare:?}, written {written:?} (taken {taken:?}), {ratio:.2} times");
    }
}
