//! Reads that hang, through a whole disk with its threads.

use super::super::{Disk, ReadDeadline};
use super::*;
use crate::tiering::DiskState;

fn opened(files: &FaultyFiles, settings: &DiskSettings) -> Disk {
    let geometry = Geometry::new(CHUNK as u64).expect("a power of two");
    let disk = Disk::open_on(
        settings,
        geometry,
        metrics(),
        &SharedPins::default(),
        Arc::new(files.clone()),
    );
    disk.expect("opens")
}

async fn disk(files: &FaultyFiles, settings: &DiskSettings) -> Disk {
    let disk = opened(files, settings);
    disk.loaded().await;
    disk
}

async fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

async fn filled(files: &FaultyFiles, settings: &DiskSettings) -> Disk {
    let disk = disk(files, settings).await;
    for number in 0..20 {
        disk.insert(key(number), content(number), PinId::NONE)
            .expect("taken");
    }
    eventually("written", || disk.queued() == 0).await;
    disk
}

async fn get(disk: &Disk, number: u32) -> Option<Bytes> {
    disk.get(&key(number), content(number).len(), ReadDeadline::Usual)
        .await
}

const SHORT: Duration = Duration::from_millis(50);

fn settings(dir: &TempDir) -> DiskSettings {
    DiskSettings {
        min_free: 0,
        reads: 2,
        // A slow machine is not late; a read that shall be late hangs.
        late: Duration::from_secs(600),
        ..DiskSettings::new(dir.path(), 4 << 20)
    }
}

#[tokio::test]
async fn a_read_that_hangs_is_left_and_the_disk_is_not_read_until_it_answers() {
    let dir = tempfile::tempdir().expect("a directory");
    let files = FaultyFiles::default();
    let mut disk = filled(&files, &settings(&dir)).await;
    assert_eq!(get(&disk, 1).await, Some(content(1)));
    assert!(disk.estimate(&key(1), CHUNK).is_some());
    assert!(disk.rate().is_some_and(|rate| rate > 0.0));

    let hang = FileFaults {
        hang: true,
        ..FileFaults::default()
    };
    files.set(hang);
    disk.reader.limits.late = SHORT;
    let pair = tokio::join!(get(&disk, 2), get(&disk, 3));
    assert_eq!(pair, (None, None));
    assert_eq!(disk.log.health.state(), DiskState::Slow);
    assert!(!disk.contains(&key(4)) && disk.estimate(&key(4), CHUNK).is_none());
    assert_eq!(disk.rate(), None);
    assert_eq!(get(&disk, 4).await, None, "at once");
    assert!(disk.notes()[0].contains("nothing is read from it"));
    let metrics = disk.log.metrics.clone();
    assert!((1..=2).contains(&metrics.hung.get()));
    disk.insert(key(100), content(100), PinId::NONE)
        .expect("writes go on");

    files.set(FileFaults::default());
    // While every permit hangs, no reader is served.
    eventually("a permit is free", || metrics.hung.get() < 2).await;
    let patient = disk
        .get(&key(4), content(4).len(), ReadDeadline::Longest)
        .await;
    assert_eq!(patient, Some(content(4)), "for who can ask nobody else");
    eventually("the reads return", || metrics.hung.get() == 0).await;
    eventually("a probe succeeds", || disk.log.health.can_read()).await;
    disk.reader.limits.late = Duration::from_secs(600);
    eventually("written", || disk.queued() == 0).await;
    assert!(get(&disk, 100).await.is_some());
    assert_eq!(get(&disk, 2).await, Some(content(2)), "late is not lost");
}

/// If hanging reads hold every permit, other reads do not even wait for the deadline.
#[tokio::test]
async fn where_all_places_hang_the_rest_are_misses_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let files = FaultyFiles::default();
    let mut disk = filled(&files, &settings(&dir)).await;
    disk.reader.limits.late = SHORT;
    files.set(FileFaults {
        hang: true,
        ..FileFaults::default()
    });
    let pair = tokio::join!(get(&disk, 2), get(&disk, 3));
    assert_eq!(pair, (None, None));
    disk.log.health.resume_reads();
    let location = disk.log.index.find(&key(5)).expect("there");
    if disk.log.metrics.hung.get() == 2 {
        let before = disk.log.health.can_read();
        assert_eq!(
            disk.reader
                .read(key(5), location, ReadDeadline::Usual)
                .await,
            None
        );
        assert_eq!(disk.log.health.can_read(), before, "none was begun");
    }
    files.set(FileFaults::default());
}

#[tokio::test]
async fn another_length_is_a_miss_and_drops_the_chunk() {
    let dir = tempfile::tempdir().expect("a directory");
    let files = FaultyFiles::default();
    let disk = filled(&files, &settings(&dir)).await;
    assert_eq!(
        disk.get(&key(2), CHUNK - 1, ReadDeadline::Usual).await,
        None
    );
    assert!(!disk.contains(&key(2)));
    assert_eq!(Fault::Corrupt.name(), "corrupt");
}

#[tokio::test]
async fn a_panic_of_the_writer_thread_is_survived() {
    let dir = tempfile::tempdir().expect("a directory");
    let files = FaultyFiles::default();
    let disk = filled(&files, &settings(&dir)).await;
    files.set(FileFaults {
        panic: true,
        ..FileFaults::default()
    });
    disk.insert(key(50), content(50), PinId::NONE)
        .expect("nobody knows yet");
    eventually("it is noticed", || disk.queued() == 0).await;
    eventually("and over", || {
        disk.insert(key(51), content(51), PinId::NONE).is_ok()
    })
    .await;
    eventually("written", || disk.queued() == 0).await;
    assert_eq!(get(&disk, 1).await, Some(content(1)));
    assert_eq!(get(&disk, 51).await, Some(content(51)));
    disk.close().await;
    assert_eq!(
        disk.insert(key(52), content(52), PinId::NONE),
        Err(Refusal::Closed)
    );
}

/// A gateway is ready without a disk that hangs while its index loads.
#[tokio::test]
async fn a_load_that_hangs_is_a_note_and_no_missing_part() {
    let dir = tempfile::tempdir().expect("a directory");
    let (files, settings) = (FaultyFiles::default(), settings(&dir));
    filled(&files, &settings).await.close().await;
    files.set(FileFaults {
        hang: true,
        ..FileFaults::default()
    });
    let disk = opened(&files, &settings);
    let now = Instant::now();
    let missing = disk.ready_at(now).expect_err("it is being loaded");
    assert!(missing.contains("is still being loaded"), "{missing}");
    let later = || Instant::now() + Duration::from_secs(11);
    eventually("it counts as stuck", || {
        let mut notes = disk.notes_at(later()).into_iter();
        notes.any(|note| note.contains("does not load (0 of 1 segments)"))
    })
    .await;
    assert_eq!(disk.ready_at(later()), Ok(()));
    disk.check_loaded()
        .expect_err("its chunks may still be there");
    // A segment of many is loaded at last.
    let now = Instant::now();
    disk.log.set_step_start(Some(now));
    assert_eq!(disk.ready_at(now), Ok(()), "it stays ready");
    let notes = disk.notes_at(now);
    let slow = notes.iter().any(|note| note.contains("loads slowly"));
    assert!(slow, "{notes:?}");
    files.set(FileFaults::default());
    eventually("it is loaded", || disk.log.ready.initialized()).await;
    disk.loaded().await;
    assert_eq!((disk.ready(), disk.check_loaded()), (Ok(()), Ok(())));
    assert_eq!(disk.notes_at(later()), [""; 0]);
    assert_eq!(get(&disk, 1).await, Some(content(1)));
}
