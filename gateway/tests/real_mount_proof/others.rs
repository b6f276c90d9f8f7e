//! Changes to a file by others: elsewhere, over HTTP, or through another handle.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::time::Duration;

use crate::desk::Desk;
use crate::gateway;
use crate::mount::blocking;

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_in_over_http_is_seen_at_once() {
    let more =
        "[[route]]\norigin = \"o\"\nwritable = true\nwrite_token = \"let-me-write-for-tests\"\n";
    let desk = Desk::with("", more).await;
    let put = async |bytes: &str| {
        let headers = [("authorization", "Bearer let-me-write-for-tests")];
        let method = http::Method::PUT;
        gateway::send(
            desk.mounted.gateway.http,
            method,
            "/f/file",
            &headers,
            bytes,
        )
        .await
    };
    assert!(!desk.path("f").exists());
    assert!(put("one").await.status < 300);
    desk.is("f/file", b"one").await;
    assert!(put("another one").await.status < 300);
    desk.is("f/file", b"another one").await;
    desk.stop().await;
}

/// The kernel seeks by the size that it believes, and an open does not tell it one.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_is_where_the_bucket_has_it() {
    let desk = Desk::start("").await;
    desk.bucket.put("file", b"12345".to_vec()).await;
    let path = desk.path("file");
    let there = path.clone();
    blocking(move || assert_eq!(std::fs::metadata(there).expect("there").len(), 5)).await;
    desk.bucket.put("file", b"1234567890".to_vec()).await;
    blocking(move || {
        let mut how = OpenOptions::new();
        let mut file = how.write(true).open(&path).expect("it opens");
        assert_eq!(file.seek(SeekFrom::End(0)).expect("a file"), 10);
        file.write_all(b"end").expect("written");
    })
    .await;
    desk.is("file", b"1234567890end").await;
    desk.stop().await;
}

/// Attributes set by name while a writer has the file open wait for its close, and are in the
/// object then.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_written_is_complete_when_its_writer_says_so() {
    let desk = Desk::start("").await;
    let path = desk.path("file");
    let there = path.clone();
    let mut file = blocking(move || {
        let mut file = File::create(there).expect("it opens");
        file.write_all(b"half").expect("written");
        file
    })
    .await;
    desk.mounted
        .says(&["touch", "-d", "@1500000000", "file"])
        .await;
    assert_eq!(desk.stored("file").await, None);
    blocking(move || {
        file.write_all(b" whole").expect("written");
        let time = std::time::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
        file.set_modified(time).expect("set");
    })
    .await;
    desk.is("file", b"half whole").await;
    let times = "stat -c %Y file && cp -p file copy && stat -c %Y copy";
    let times = desk.mounted.says(&["sh", "-c", times]).await;
    assert_eq!(times, "1600000000\n1600000000\n");
    desk.is("copy", b"half whole").await;
    desk.stop().await;
}

/// The mount tells the kernel the names of a listing long after it was made.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_of_a_folder_brings_nothing_old_back() {
    let desk = Desk::start("").await;
    let name = |n: usize| format!("{n:03}{}", "-".repeat(200));
    for n in 0..400 {
        desk.bucket.put(&name(n), b"12345".to_vec()).await;
    }
    let [changed, removed, again] = [399, 398, 397].map(|n| desk.path(&name(n)));
    let root = desk.path("");
    blocking(move || {
        let mut names = std::fs::read_dir(&root).expect("a folder");
        names.next().expect("a name").expect("read");
        let mut file = OpenOptions::new()
            .append(true)
            .open(&changed)
            .expect("it opens");
        file.write_all(b"67890").expect("written");
        drop(file);
        std::fs::remove_file(&removed).expect("removed");
        assert!(names.count() >= 398);
        assert_eq!(std::fs::metadata(&changed).expect("there").len(), 10);
        assert_eq!(std::fs::read(&changed).expect("read"), b"1234567890");
        assert!(!removed.exists());
        let mut folder = rustix::fs::Dir::new(File::open(&root).expect("it opens")).expect("read");
        let before = folder.by_ref().count();
        std::fs::remove_file(&again).expect("removed");
        folder.rewind();
        assert_eq!(folder.count(), before - 1);
    })
    .await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_deleted_elsewhere_is_made_anew() {
    let desk = Desk::start("").await;
    desk.bucket.put("log", b"before".to_vec()).await;
    desk.mounted.says(&["ls", "-l", "log"]).await;
    desk.bucket.delete("log").await;
    desk.mounted.says(&["sh", "-c", "echo after >> log"]).await;
    desk.is("log", b"after\n").await;
    desk.stop().await;
}

/// Has the kernel copy a file (`sendfile`): through the page cache, whatever the handle says.
fn copied(from: &File) -> Vec<u8> {
    let mut to = tempfile::tempfile().expect("a file");
    let mut at = 0;
    while rustix::fs::sendfile(&to, from, Some(&mut at), 1 << 20).expect("copied") > 0 {}
    let mut bytes = Vec::new();
    to.seek(SeekFrom::Start(0)).expect("a file");
    to.read_to_end(&mut bytes).expect("read");
    bytes
}

/// A reader that opens a file while it is filled bypasses the page cache, as its writer does.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_kernel_copies_beside_a_filler_is_of_one_version() {
    const SIZE: usize = 300_000;
    let strict = "[[route]]\norigin = \"o\"\nprofile = \"strict\"\n[profile.strict]\n\
                  extends = \"documents\"\nttl = \"0s\"\nstale_while_revalidate = \"0s\"\n";
    let desk = Desk::with("", strict).await;
    let path = desk.path("file");
    let there = path.clone();
    let joined = blocking(move || {
        let mut filler = File::create(&there).expect("it opens");
        filler.write_all(&[b'1'; SIZE]).expect("written");
        let joined = File::open(&there).expect("it opens");
        // Uncached bytes of a version may be gone.
        assert!(std::fs::read(&there).expect("read") == [b'1'; SIZE]);
        drop(filler);
        joined
    })
    .await;
    desk.is("file", &[b'1'; SIZE]).await;
    let mut joined = joined;
    for (byte, size) in [(b'2', SIZE + 50_000), (b'3', SIZE - 100_000)] {
        desk.bucket.put("file", vec![byte; size]).await;
        let there = path.clone();
        joined = blocking(move || {
            let mut new = File::open(&there).expect("it opens");
            let mut all = vec![0; size / 2];
            new.read_exact(&mut all).expect("read");
            assert!(copied(&joined) == [b'1'; SIZE], "another's bytes");
            new.read_to_end(&mut all).expect("read");
            assert!(all == vec![byte; size], "{}", byte as char);
            joined
        })
        .await;
    }
    drop(joined);
    desk.stop().await;
}
