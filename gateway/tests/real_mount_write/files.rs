//! Files as POSIX has them: without a name, copied inside the mount, preallocated, and the room that is left.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, copy_file_range, fallocate, statvfs};
use rustix::io::Errno;

use crate::desk::{Desk, MIB, PART, sample, until};
use crate::mount::blocking;
use crate::{edit, read_all};

fn new(path: &Path) -> File {
    let mut how = OpenOptions::new();
    let how = how.read(true).write(true).create_new(true);
    how.open(path).expect("created")
}

/// What players and readers ask for over HTTP has the type that its name on the mount says.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_has_the_type_of_its_name() {
    let desk = Desk::start("").await;
    for (name, kind) in [
        ("hls/index.m3u8", "application/vnd.apple.mpegurl"),
        ("hls/0.ts", "video/mp2t"),
        ("disc.m2ts", "video/mp2t"),
        ("camera.MTS", "video/mp2t"),
        ("dash/0.m4s", "video/iso.segment"),
        ("dash/index.mpd", "application/dash+xml"),
        ("book.m4b", "audio/mp4"),
        ("song.m4a", "audio/mp4"),
        ("song.mp3", "audio/mpeg"),
        ("film.mkv", "video/x-matroska"),
        ("film.vtt", "text/vtt"),
        ("film.srt", "application/x-subrip"),
        ("film.ass", "text/x-ssa"),
        ("film.nfo", "text/x-nfo"),
        ("book.epub", "application/epub+zip"),
        ("book.azw3", "application/vnd.amazon.mobi8-ebook"),
    ] {
        let path = desk.mounted.path(name);
        blocking(move || {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, "bytes").expect("written");
        })
        .await;
        let got = desk.mounted.gateway.get(&format!("/{name}"), &[]).await;
        assert_eq!(
            (got.status, got.header("content-type")),
            (200, kind),
            "{name}"
        );
    }
    desk.stop().await;
}

/// A file without a name is read and written as POSIX says, through each of its handles.
fn lives_on(mut file: File, mut truth: Vec<u8>) {
    let about = file.metadata().expect("it is open");
    assert_eq!((about.nlink(), about.size()), (0, truth.len() as u64));
    assert!(read_all(&mut file) == truth, "what was written");
    let patch = sample(9, 70_000);
    file.write_all_at(&patch, 3000).expect("written");
    truth.resize(truth.len().max(73_000), 0);
    truth[3000..73_000].copy_from_slice(&patch);
    file.seek(SeekFrom::End(0)).expect("a file");
    file.write_all(b"more").expect("written");
    truth.extend_from_slice(b"more");
    assert!(read_all(&mut file) == truth, "what was written later");
    file.set_len(50_000).expect("cut");
    truth.truncate(50_000);
    file.sync_all().expect("nothing to do");
    let mut again = file.try_clone().expect("another descriptor");
    drop(file);
    assert!(read_all(&mut again) == truth);
    assert_eq!(again.metadata().expect("open").size(), 50_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_file_lives_on_without_its_name() {
    for more in ["", "commit = \"background\"\n"] {
        let desk = Desk::start(more).await;
        for size in [5000, 100_000, PART + 4711] {
            let (path, other) = (desk.path("file"), desk.path("other"));
            blocking(move || {
                // Removed while it is written, and while it is open after its close.
                let bytes = sample(size, size);
                let file = new(&path);
                file.write_all_at(&bytes, 0).expect("written");
                std::fs::remove_file(&path).expect("removed");
                assert!(!path.exists());
                lives_on(file, bytes.clone());

                let file = new(&path);
                file.write_all_at(&bytes, 0).expect("written");
                drop(file.try_clone().expect("another descriptor"));
                std::fs::remove_file(&path).expect("removed");
                lives_on(file, bytes.clone());

                // Replaced by a rename.
                let file = new(&path);
                file.write_all_at(&bytes, 0).expect("written");
                std::fs::write(&other, b"another").expect("written");
                std::fs::rename(&other, &path).expect("renamed");
                lives_on(file, bytes);
                assert_eq!(std::fs::read(&path).expect("read"), b"another");
            })
            .await;
            until("it is in the bucket", async || {
                desk.stored("file").await.is_some()
            })
            .await;
            desk.is("file", b"another").await;
            assert_eq!(desk.stored("other").await, None);
            desk.mounted.says(&["rm", "file"]).await;
        }
        desk.stop().await;
    }
}

/// Programs make temporary files so.
#[tokio::test(flavor = "multi_thread")]
async fn a_temporary_file_leaves_nothing() {
    let desk = Desk::start("").await;
    let folder = desk.path("");
    blocking(move || {
        let mut file = tempfile::tempfile_in(folder).expect("made");
        file.write_all(&sample(1, 3 * MIB)).expect("written");
        assert!(read_all(&mut file) == sample(1, 3 * MIB));
    })
    .await;
    assert_eq!(desk.mounted.says(&["ls", "-A"]).await, "");
    desk.stop().await;
}

async fn moved(desk: &Desk) -> u64 {
    let gateway = &desk.mounted.gateway;
    let received = gateway.metric(&["tidegate_origin_received_bytes_total"]);
    let received = received.await;
    received + gateway.metric(&["tidegate_origin_sent_bytes_total"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_inside_the_mount_sends_no_bytes() {
    let desk = Desk::start("").await;
    let bytes = sample(1, 5 * PART + 4711);
    desk.bucket.put("big", bytes.clone()).await;
    desk.bucket.put("small", sample(2, 9000)).await;
    desk.mounted.says(&["stat", "big"]).await;
    let before = moved(&desk).await;
    desk.mounted.says(&["cp", "big", "copy"]).await;
    assert!(moved(&desk).await - before < 2 * MIB as u64);
    desk.is("copy", &bytes).await;
    // Over a file that is there.
    desk.mounted.says(&["cp", "big", "copy"]).await;
    desk.is("copy", &bytes).await;
    desk.mounted.says(&["cp", "-a", "big", "again"]).await;
    desk.is("again", &bytes).await;
    desk.mounted.says(&["cp", "small", "little"]).await;
    desk.is("little", &sample(2, 9000)).await;
    let cloned = desk
        .mounted
        .run(&["cp", "--reflink=always", "big", "no"])
        .await;
    assert!(!cloned.status.success());
    desk.stop().await;
}

/// Copies whole ranges with the system call.
fn copy(from: &File, mut at: u64, to: &File, mut into: u64, length: usize) {
    let mut left = length;
    while left > 0 {
        let done = copy_file_range(from, Some(&mut at), to, Some(&mut into), left);
        let done = done.expect("copied");
        assert!(done > 0, "{left} of {length} bytes are left");
        left -= done;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_ranges_and_of_what_is_not_in_the_bucket_yet() {
    let desk = Desk::start("").await;
    let bytes = sample(1, 2 * PART + 4711);
    desk.bucket.put("big", bytes.clone()).await;
    let (big, made, half): (PathBuf, _, _) =
        (desk.path("big"), desk.path("made"), desk.path("half"));
    let there = bytes.clone();
    let truth = blocking(move || {
        let from = File::open(big).expect("it opens");
        let to = new(&made);
        copy(&from, 0, &to, 0, PART + 5);
        // Changed, copied into, copied over, and from itself.
        to.write_all_at(b"changed", 100).expect("written");
        copy(&from, 5000, &to, 7, 90_000);
        copy(&to, 0, &to, 3 * PART as u64, 200_000);
        let mut truth = there[..PART + 5].to_vec();
        truth[100..107].copy_from_slice(b"changed");
        truth[7..90_007].copy_from_slice(&there[5000..95_000]);
        truth.resize(3 * PART, 0);
        let head = truth[..200_000].to_vec();
        truth.extend_from_slice(&head);
        let mut to = to;
        assert!(read_all(&mut to) == truth);
        // Of a file that is being written.
        let into = new(&half);
        copy(&to, 0, &into, 0, truth.len());
        drop(into);
        assert!(std::fs::read(&half).expect("read") == truth);
        truth
    })
    .await;
    desk.is("made", &truth).await;
    desk.is("half", &truth).await;
    // Cut after the copy, and the source removed before the close.
    let (big, made) = (desk.path("big"), desk.path("cut"));
    blocking(move || {
        let from = File::open(&big).expect("it opens");
        let to = new(&made);
        copy(&from, 0, &to, 0, 2 * PART);
        to.set_len(PART as u64 + 9).expect("cut");
        std::fs::remove_file(big).expect("removed");
        drop(to);
    })
    .await;
    desk.is("cut", &bytes[..PART + 9]).await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn room_is_shown_and_set_aside() {
    let spool = "size = \"64MiB\"\n";
    let desk = Desk::with("", spool).await;
    let (root, path) = (desk.path(""), desk.path("file"));
    blocking(move || {
        let free = || {
            let about = statvfs(&root).expect("mounted");
            (
                about.f_blocks * about.f_frsize,
                about.f_bavail * about.f_frsize,
            )
        };
        assert_eq!(free(), (64 << 20, 64 << 20));
        let file = new(&path);
        let keep = FallocateFlags::KEEP_SIZE;
        fallocate(&file, keep, 0, 40 << 20).expect("set aside");
        assert!(free().1 <= 24 << 20, "{:?}", free());
        assert_eq!(file.metadata().expect("open").len(), 0);
        let refused = fallocate(&file, keep, 0, 100 << 20);
        assert_eq!(refused, Err(Errno::NOSPC));
        file.write_all_at(&sample(1, 3 * MIB), 0).expect("written");
        let hole = FallocateFlags::PUNCH_HOLE | keep;
        fallocate(&file, hole, 5000, MIB as u64).expect("punched");
        fallocate(
            &file,
            FallocateFlags::ZERO_RANGE,
            3 * MIB as u64 - 100,
            1000,
        )
        .expect("zeroed");
        fallocate(&file, FallocateFlags::empty(), 0, 4 * MIB as u64).expect("grown");
        let refused = fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
        assert_eq!(refused, Err(Errno::OPNOTSUPP));
        let mut file = file;
        let read = read_all(&mut file);
        let mut truth = sample(1, 3 * MIB);
        truth[5000..5000 + MIB].fill(0);
        truth[3 * MIB - 100..].fill(0);
        truth.resize(4 * MIB, 0);
        assert!(read == truth);
        drop(file);
        assert!(std::fs::read(&path).expect("read") == truth);
        assert_eq!(edit(&path).metadata().expect("open").len(), 4 << 20);
    })
    .await;
    desk.stop().await;
    let desk = Desk::start("size = \"2TB\"\n").await;
    let root = desk.path("");
    let about = blocking(move || statvfs(&root).expect("mounted")).await;
    assert_eq!(about.f_blocks * about.f_frsize, 2_000_000_000_000);
    desk.stop().await;
}
