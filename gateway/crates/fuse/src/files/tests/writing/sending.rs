//! Readers of a closed file that outgrew the spool, and is being sent.

use super::*;
use tidegate_plan::PartSizes;

/// Bytes of a part; the spool has 15 of them and the file 40.
const PART: usize = 1000;

/// A part in the middle of the file: it leaves the spool once it is sent.
const GONE_AT: u64 = 20 * PART as u64;

fn content() -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at / PART * 7 + at) % 251).expect("a byte");
    (0..40 * PART).map(byte).collect()
}

fn small_spool(path: &Arc<WritePath>, source: &Arc<ReadContext>, folder: &Path) -> Access {
    let terms = tidegate_write::Settings {
        // The two files of a draft count as well.
        size: 15 * PART as u64 + (20 << 10),
        parts: PartSizes::new(PART as u64),
        kept: 2 * PART as u64,
        ..tidegate_write::Settings::new(folder.to_owned())
    };
    let sources = std::slice::from_ref(source);
    Access::Write(WriteSettings {
        writers: Writers::start(path, terms, sources).expect("a spool"),
        commit: Commit::Background,
        probe: None,
        rename_limit: 20,
    })
}

impl World {
    fn with_small_spool() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let bucket = FakeOrigin::new().with_min_part(1);
        Self::over((bucket, folder), Profile::web(), |_| {}, small_spool)
    }

    /// Writes the file in order, and returns its number and the handle.
    async fn write_large(&self) -> (u64, u64) {
        let (ino, handle) = self.create("large").await;
        for (at, piece) in (0u64..).step_by(PART).zip(content().chunks(PART)) {
            let piece = Bytes::copy_from_slice(piece);
            let written = self.files.write((handle, US), at, piece, false).await;
            assert_eq!(written, Ok(1000));
        }
        (ino, handle)
    }

    /// Returns a world with the file closed in an outage, its number, and a handle that reads it.
    async fn closed_in_outage() -> (Self, u64, u64) {
        let world = Self::with_small_spool();
        let (ino, handle) = world.write_large().await;
        let down = Fault::Refuse(OriginError::Unavailable("down"));
        world.bucket.set_faults([down]);
        world.done(handle).await;
        let (reader, _) = world.open(ino).await;
        (world, ino, reader)
    }
}

/// Reads a part of the file that has left the spool.
async fn read_gone(files: Arc<Files>, handle: u64) -> Result<Vec<u8>, Errno> {
    let read = files.read(handle, GONE_AT, 1000).await?;
    Ok(read.as_ref().to_vec())
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_a_closed_file_waits_for_the_bytes_that_have_left_the_spool() {
    let world = World::with_small_spool();
    let (ino, handle) = world.write_large().await;
    let early = read_gone(world.files.clone(), handle).await;
    assert_eq!(early, Err(Errno::EIO), "it is not closed");
    world
        .bucket
        .fail_from("complete", [Fault::Latency(Duration::from_secs(20))], []);
    world.done(handle).await;
    let (reader, _) = world.open(ino).await;
    let reading = tokio::spawn(read_gone(world.files.clone(), reader));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!reading.is_finished(), "{:?}", reading.await);
    assert_eq!(world.stored("p/large"), None);
    let at = GONE_AT as usize;
    let read = reading.await.expect("it ends").expect("it is read");
    assert!(read == content()[at..at + PART], "the bytes of the close");
    assert!(world.stored("p/large").is_some_and(|it| *it == content()));
    // It is an object as any other now.
    assert!(world.read(reader).await.expect("it is read") == content());
}

#[tokio::test(start_paused = true)]
async fn a_reader_waits_longer_than_the_deadline_while_parts_are_sent() {
    let world = World::with_small_spool();
    let (ino, handle) = world.write_large().await;
    // The rest of the parts, the completion and the look at its length.
    let slow = Fault::Latency(Duration::from_secs(12));
    world.bucket.set_faults([slow]);
    world.done(handle).await;
    let (reader, _) = world.open(ino).await;
    let since = tokio::time::Instant::now();
    let read = read_gone(world.files.clone(), reader).await;
    let waited = since.elapsed();
    let at = GONE_AT as usize;
    assert!(read.expect("it is read") == content()[at..at + PART]);
    assert!(waited > world.files.settings.deadline, "{waited:?}");
}

/// The tries of the queue are no progress.
#[tokio::test(start_paused = true)]
async fn a_reader_gives_up_after_the_deadline_of_an_outage() {
    let (world, _, reader) = World::closed_in_outage().await;
    // The queue has failed once and tries again all the time.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let since = tokio::time::Instant::now();
    let read = read_gone(world.files.clone(), reader).await;
    assert_eq!(read, Err(Errno::EIO));
    let waited = since.elapsed();
    let deadline = world.files.settings.deadline;
    assert!(
        waited >= deadline && waited < deadline + Duration::from_secs(1),
        "{waited:?}"
    );
    world.bucket.set_faults([]);
    let at = GONE_AT as usize;
    let read = read_gone(world.files.clone(), reader).await;
    let late = read.or(read_gone(world.files.clone(), reader).await);
    assert!(late.expect("it is read") == content()[at..at + PART]);
}

/// The file is another version then, as it is while a program writes to it.
#[tokio::test(start_paused = true)]
async fn a_reader_that_waits_learns_that_the_file_is_written_to_again() {
    let (world, ino, reader) = World::closed_in_outage().await;
    let reading = tokio::spawn(read_gone(world.files.clone(), reader));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!reading.is_finished());
    let (writer, _) = world.files.open(ino, WRITE, BY).await.expect("it opens");
    world.write(writer, 0, "anew").await;
    let read = reading.await.expect("it ends");
    assert_eq!(read, Err(Errno::EIO), "it is not closed any more");
    world.bucket.set_faults([]);
    world.done(writer).await;
    let at = GONE_AT as usize;
    let read = read_gone(world.files.clone(), reader).await.expect("read");
    assert!(read == content()[at..at + PART]);
    let bytes = world.read(reader).await.expect("it is read");
    assert!(bytes.starts_with(b"anew") && bytes[4..] == content()[4..]);
}
