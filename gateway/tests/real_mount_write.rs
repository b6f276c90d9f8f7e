//! A real writable mount: programs and system calls, over a real MinIO. The tests need root and
//! /dev/fuse. They compare files byte by byte, in the mount and in the bucket.
#![cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

#[path = "support/bucket.rs"]
#[expect(dead_code, reason = "other suites delete and keep versions as well")]
mod bucket;
#[path = "real_mount_write/closes.rs"]
mod closes;
#[path = "support/desk.rs"]
#[expect(dead_code, reason = "other suites run programs of the store")]
mod desk;
#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "real_mount_write/files.rs"]
mod files;
#[path = "real_mount_write/folders.rs"]
mod folders;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/minio.rs"]
mod minio;
#[path = "support/mount.rs"]
mod mount;
#[path = "real_mount_write/names.rs"]
mod names;
#[path = "support/ports.rs"]
mod ports;

use desk::{Desk, LASTING, MIB, PART, sample, until};
use mount::{blocking, run_in};

fn read_all(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).expect("a file");
    file.read_to_end(&mut bytes).expect("read");
    bytes
}

fn edit(path: &Path) -> File {
    let mut how = OpenOptions::new();
    how.read(true).write(true).open(path).expect("it opens")
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_write_what_the_bucket_then_has() {
    let desk = Desk::start("").await;
    let local = tempfile::tempdir().expect("a folder");
    let from = |name: &str| local.path().join(name).to_str().expect("text").to_owned();
    for (name, size) in [
        ("small", 10),
        ("chunks", 700_000),
        ("parts", 2 * PART + 4711),
    ] {
        let bytes = sample(size, size);
        std::fs::write(from(name), &bytes).expect("written");
        desk.mounted.says(&["cp", &from(name), "."]).await;
        desk.is(name, &bytes).await;
    }
    let parts = sample(2 * PART + 4711, 2 * PART + 4711);
    let dd = format!("if={}", from("parts"));
    desk.mounted.says(&["dd", &dd, "of=dd", "bs=1M"]).await;
    desk.is("dd", &parts).await;
    desk.mounted
        .says(&["dd", &dd, "of=direct", "bs=1M", "oflag=direct", "count=20"])
        .await;
    desk.is("direct", &parts[..20 * MIB]).await;
    desk.mounted
        .says(&[
            "sh",
            "-c",
            "echo one > log && echo two >> log && printf 3 >> log",
        ])
        .await;
    desk.is("log", b"one\ntwo\n3").await;
    desk.mounted.says(&["touch", "empty"]).await;
    until("the empty file is there", async || {
        desk.stored("empty").await.is_some()
    })
    .await;
    desk.is("empty", b"").await;
    for (line, why) in [
        (&["ln", "log", "link"][..], "not permitted"),
        (&["mkfifo", "pipe"], "not permitted"),
        (
            &["setfattr", "-n", "user.x", "-v", "1", "log"],
            "not supported",
        ),
    ] {
        let refused = desk.mounted.run(line).await;
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(why), "{said}");
    }
    desk.mounted.says(&["chmod", "600", "log"]).await;
    desk.mounted.says(&["rm", "log"]).await;
    assert!(!desk.path("log").exists());
    assert_eq!(desk.stored("log").await, None);
    assert_eq!(desk.mounted.gateway.get("/log", &[]).await.status, 404);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_changed_in_its_middle_appended_to_and_cut() {
    let desk = Desk::start("").await;
    let mut truth = sample(1, 3 * PART);
    desk.bucket.put("object", truth.clone()).await;
    let path = desk.path("object");
    let (there, before) = (path.clone(), truth.clone());
    blocking(move || assert!(std::fs::read(there).expect("read") == before)).await;

    let (there, patch) = (path.clone(), sample(9, 100_000));
    truth[PART + 5..PART + 5 + patch.len()].copy_from_slice(&patch);
    let now = truth.clone();
    blocking(move || {
        let mut file = edit(&there);
        file.write_all_at(&patch, PART as u64 + 5).expect("written");
        assert!(read_all(&mut file) == now, "before the close");
        let mut other = File::open(&there).expect("it opens");
        assert!(read_all(&mut other) == now, "through another handle");
    })
    .await;
    desk.is("object", &truth).await;

    let there = path.clone();
    truth.extend(sample(3, 12_345));
    let tail = sample(3, 12_345);
    blocking(move || {
        let mut file = OpenOptions::new()
            .append(true)
            .open(there)
            .expect("it opens");
        file.write_all(&tail).expect("written");
    })
    .await;
    desk.is("object", &truth).await;

    for size in [2 * PART + 7, PART - 1, 100, 5000, PART + 1] {
        let there = path.clone();
        truth.resize(size, 0);
        blocking(move || {
            let file = edit(&there);
            file.set_len(size as u64).expect("cut");
            assert_eq!(file.metadata().expect("open").len(), size as u64);
        })
        .await;
        desk.is("object", &truth).await;
    }
    // Truncates by name, down and up.
    for (size, text) in [(10, "10"), (300_000, "300000"), (0, "0")] {
        desk.mounted.says(&["truncate", "-s", text, "object"]).await;
        truth.resize(size, 0);
        if size > 0 {
            desk.is("object", &truth).await;
        }
    }
    until("the empty file is there", async || {
        desk.stored("object").await.is_some_and(|it| it.is_empty())
    })
    .await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_writes_are_read_back_before_and_after_the_close() {
    let desk = Desk::start("").await;
    let path = desk.path("random");
    let truth = blocking(move || {
        let mut how = OpenOptions::new();
        let file = how.read(true).write(true).create_new(true);
        let file = file.open(&path).expect("created");
        let again = File::open(&path).expect("opened while it is written");
        let (mut truth, mut state) = (Vec::new(), 12_345_u64);
        for round in 0..300 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = (state >> 20) as usize % (PART + 3 * MIB);
            let length = 1 + (state >> 50) as usize % 20_000;
            let bytes = sample(round, length);
            file.write_all_at(&bytes, at as u64).expect("written");
            if truth.len() < at + length {
                truth.resize(at + length, 0);
            }
            truth[at..at + length].copy_from_slice(&bytes);
            let from = at.saturating_sub(5000);
            let mut seen = vec![0; (at + length).min(truth.len()) - from];
            let handle = if round % 2 == 0 { &file } else { &again };
            handle.read_exact_at(&mut seen, from as u64).expect("read");
            assert!(seen == truth[from..from + seen.len()], "round {round}");
            let size = std::fs::metadata(&path).expect("there").len();
            assert_eq!(size, truth.len() as u64, "round {round}");
        }
        truth
    })
    .await;
    desk.is("random", &truth).await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_goes_along_with_what_is_written() {
    let desk = Desk::start("").await;
    desk.bucket.put("file", sample(1, 300_000)).await;
    let path = desk.path("file");
    let after = blocking(move || {
        let mut reader = File::open(&path).expect("it opens");
        assert!(read_all(&mut reader) == sample(1, 300_000));
        for (round, size) in [400_000, 100_000, 300_000].into_iter().enumerate() {
            let bytes = sample(round + 2, size);
            std::fs::write(&path, &bytes).expect("written");
            assert!(read_all(&mut reader) == bytes, "round {round}");
            assert_eq!(reader.metadata().expect("open").len(), size as u64);
            assert!(
                std::fs::read(&path).expect("read") == bytes,
                "round {round}"
            );
        }
        sample(4, 300_000)
    })
    .await;
    desk.is("file", &after).await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_stays_in_the_kernels_pages_and_what_was_filled_does_not() {
    let desk = Desk::start("").await;
    let path = desk.path("file");
    let reads = async || {
        let words = ["fuse_operations", "operation=\"read\""];
        desk.mounted.gateway.metric(&words).await
    };
    let again = |bytes: Vec<u8>| {
        let path = path.clone();
        blocking(move || assert!(std::fs::read(path).expect("read") == bytes))
    };
    // The kernel reports the release after `close` has returned.
    let closed = async || {
        let handles = async || desk.mounted.gateway.metric(&["fuse_open_files"]).await;
        until("every handle is closed", async || handles().await == 0).await;
    };
    let there = path.clone();
    blocking(move || std::fs::write(there, sample(1, 3 * MIB)).expect("written")).await;
    let before = reads().await;
    again(sample(1, 3 * MIB)).await;
    assert_ne!(reads().await, before, "a new file goes past the pages");
    closed().await;
    // Another process may have the kernel drop all pages in between, as some suites do: then once more.
    let mut rounds = 2..;
    until("it need not be read again", async || {
        let bytes = sample(rounds.next().expect("endless"), 3 * MIB);
        let (there, written) = (path.clone(), bytes.clone());
        blocking(move || {
            let file = OpenOptions::new()
                .write(true)
                .open(there)
                .expect("it opens");
            file.write_all_at(&written, 0).expect("written");
        })
        .await;
        let before = reads().await;
        again(bytes).await;
        let after = reads().await;
        closed().await;
        after == before
    })
    .await;
    // A reader that opens a file while it is filled reads its bytes, and so does a later one.
    let there = desk.path("filled");
    blocking(move || {
        let writer = File::create(&there).expect("created");
        for round in 1..6 {
            let bytes = sample(round, 3 * MIB);
            writer.write_all_at(&bytes, 0).expect("written");
            assert!(std::fs::read(&there).expect("read") == bytes, "{round}");
        }
        drop(writer);
        assert!(std::fs::read(&there).expect("read") == sample(5, 3 * MIB));
    })
    .await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_goes_on_after_a_rename_and_a_removal() {
    let desk = Desk::start("").await;
    let bytes = sample(1, 5 * MIB);
    desk.bucket.put("file", bytes.clone()).await;
    desk.bucket.put("other", sample(2, MIB)).await;
    let (from, to, other) = (desk.path("file"), desk.path("moved"), desk.path("other"));
    blocking(move || {
        let mut file = File::open(&from).expect("it opens");
        let mut start = [0; 10];
        file.read_exact_at(&mut start, 0).expect("read");
        std::fs::rename(&from, &to).expect("renamed");
        assert!(
            read_all(&mut file) == bytes,
            "what was not read yet is there"
        );
        let mut gone = File::open(&other).expect("it opens");
        assert!(read_all(&mut gone) == sample(2, MIB));
        std::fs::remove_file(&other).expect("removed");
        std::fs::write(&other, b"another").expect("written");
        assert!(read_all(&mut gone) == sample(2, MIB), "it is another file");
        assert_eq!(std::fs::read(&other).expect("read"), b"another");
    })
    .await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_files_in_a_new_folder_cost_a_request_each() {
    const FILES: u64 = 100;
    let desk = Desk::with("", LASTING).await;
    let folder = desk.path("new");
    let made = folder.clone();
    blocking(move || std::fs::create_dir(made).expect("made")).await;
    let before = desk.requests().await;
    blocking(move || {
        for n in 0..FILES {
            let mut how = OpenOptions::new();
            let how = how.write(true).create_new(n % 2 == 0).create(true);
            let mut file = how.open(folder.join(n.to_string())).expect("created");
            file.write_all(&sample(n as usize, 8000)).expect("written");
        }
    })
    .await;
    assert_eq!(desk.requests().await - before, FILES);
    for n in 0..FILES {
        desk.is(&format!("new/{n}"), &sample(n as usize, 8000))
            .await;
    }
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rsync_finds_nothing_to_do_the_second_time_and_tar_unpacks() {
    let desk = Desk::start("").await;
    let local = tempfile::tempdir().expect("a folder");
    let tree = local.path().join("tree");
    for n in 0..30 {
        let file = tree.join(format!("{}/{n}", n % 4));
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        std::fs::write(&file, sample(n, n * 1000)).expect("written");
        let time = std::time::UNIX_EPOCH + Duration::new(1_600_000_000 + n as u64, 123_456_789);
        let file = File::options().write(true).open(file).expect("it opens");
        file.set_modified(time).expect("dated");
    }
    let from = format!("{}/", tree.display());
    let rsync = ["rsync", "-a", "--itemize-changes", &from, "copy/"];
    let first = desk.mounted.says(&rsync).await;
    assert!(first.contains(">f"), "{first}");
    let same = ["diff", "-r", &from, "copy"];
    desk.mounted.says(&same).await;
    let second = desk.mounted.says(&rsync).await;
    assert!(!second.contains(">f"), "{second}");
    let tar = local.path().join("tree.tar");
    let packed = run_in(local.path(), &["tar", "-cf", "tree.tar", "-C", "tree", "."]).await;
    assert!(packed.status.success(), "{packed:?}");
    desk.mounted.says(&["mkdir", "unpacked"]).await;
    let tar = tar.to_str().expect("text");
    desk.mounted
        .says(&["tar", "-xf", tar, "-C", "unpacked"])
        .await;
    desk.mounted.says(&["diff", "-r", &from, "unpacked"]).await;
    let dated = desk
        .mounted
        .says(&["stat", "-c", "%.Y", "unpacked/0/4"])
        .await;
    assert!(dated.starts_with("1600000004."), "{dated}");
    desk.stop().await;
}

/// More bytes at once than one request carries: the pieces come in order, each appended at the end.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_appended_past_the_pages_keeps_its_order() {
    let desk = Desk::start("").await;
    let local = tempfile::NamedTempFile::new().expect("a file");
    let mut truth = sample(1, 2 * MIB);
    desk.bucket.put("log", truth.clone()).await;
    // In `sample`, every MiB is the same.
    let more: Vec<u8> = (0..16 * MIB).map(|n| (n / MIB) as u8).collect();
    std::fs::write(local.path(), &more).expect("written");
    let from = format!("if={}", local.path().display());
    for _ in 0..4 {
        desk.mounted
            .says(&[
                "dd",
                &from,
                "of=log",
                "bs=16M",
                "oflag=append,direct",
                "conv=notrunc",
            ])
            .await;
        truth.extend_from_slice(&more);
    }
    desk.is("log", &truth).await;
    desk.stop().await;
}
