//! Folders of a writable mount: made, filled, removed and renamed.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;

use crate::desk::Desk;
use crate::mount::blocking;
use crate::{edit, read_all};

#[tokio::test(flavor = "multi_thread")]
async fn folders_and_names() {
    let desk = Desk::start("rename_limit = 0\n").await;
    desk.bucket.put("old/file", "old").await;
    let root = desk.mounted.folder.path();
    desk.mounted.says(&["mkdir", "-p", "a/b/c"]).await;
    desk.mounted
        .says(&["sh", "-c", "echo x > a/b/c/file"])
        .await;
    let said = desk.mounted.run(&["rmdir", "a/b/c"]).await;
    assert!(String::from_utf8_lossy(&said.stderr).contains("not empty"));
    assert_eq!(desk.mounted.says(&["ls", "a/b/c"]).await, "file\n");
    desk.mounted.says(&["rm", "a/b/c/file"]).await;
    desk.mounted.says(&["rmdir", "a/b/c"]).await;
    assert!(!desk.path("a/b/c").exists() && desk.path("a/b").is_dir());
    assert_eq!(desk.stored("a/b/c/").await, None);

    // A file that is being written is in its folder.
    let there = desk.path("a/b/new");
    let open = blocking(move || {
        let mut file = File::create(there).expect("created");
        file.write_all(b"12345").expect("written");
        file
    })
    .await;
    let listed = desk.mounted.says(&["ls", "-l", "a/b"]).await;
    assert!(listed.contains(" 5 ") && listed.contains("new"), "{listed}");
    assert_eq!(desk.stored("a/b/new").await, None);
    let busy = desk.mounted.run(&["rmdir", "a/b"]).await;
    assert!(!busy.status.success());
    blocking(move || drop(open)).await;
    desk.is("a/b/new", b"12345").await;

    // A rename keeps the number and the bytes; the replaced file is gone.
    let number = |name: &str| std::fs::metadata(root.join(name)).expect("there").ino();
    let before = number("old/file");
    desk.mounted.says(&["mv", "old/file", "a/moved"]).await;
    assert_eq!(number("a/moved"), before);
    desk.is("a/moved", b"old").await;
    assert_eq!(desk.stored("old/file").await, None);
    assert!(!desk.path("old/file").exists());
    desk.mounted.says(&["mv", "a/b/new", "a/moved"]).await;
    desk.is("a/moved", b"12345").await;
    desk.mounted
        .says(&["sh", "-c", "echo again > a/b/new"])
        .await;
    desk.is("a/b/new", b"again\n").await;
    assert_ne!(number("a/b/new"), number("a/moved"));
    let kept = rustix::fs::renameat_with(
        rustix::fs::CWD,
        desk.path("a/b/new"),
        rustix::fs::CWD,
        desk.path("a/moved"),
        rustix::fs::RenameFlags::NOREPLACE,
    );
    assert_eq!(kept, Err(rustix::io::Errno::EXIST));

    // A folder that may not be renamed is copied file by file.
    let (from, to) = (desk.path("a"), desk.path("z"));
    let refused = blocking(move || std::fs::rename(from, to)).await;
    let refused = refused.expect_err("a bucket has no folders");
    assert_eq!(refused.kind(), ErrorKind::CrossesDevices);
    desk.mounted.says(&["mv", "a", "z"]).await;
    assert!(!desk.path("a").exists());
    desk.is("z/moved", b"12345").await;
    desk.is("z/b/new", b"again\n").await;
    desk.stop().await;
}

/// Two uploads make the folder of a month at once: one of them makes it, and the other finds it and can create files in
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_programs_that_make_a_folder_one_finds_it_made() {
    let desk = Desk::start("").await;
    let root = desk.mounted.folder.path();
    blocking(move || {
        for round in 0..20 {
            let (year, barrier) = (root.join(format!("{round}")), std::sync::Barrier::new(2));
            let make = |name: &str| {
                barrier.wait();
                let (mut made, month) = (0, year.join("11"));
                for folder in [&year, &month] {
                    match std::fs::create_dir(folder) {
                        Ok(()) => made += 1,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
                            assert!(folder.is_dir());
                        }
                    }
                }
                std::fs::write(month.join(name), name).expect("written");
                made
            };
            let made = std::thread::scope(|scope| {
                let other = scope.spawn(|| make("a.jpg"));
                make("b.jpg") + other.join().expect("no panic")
            });
            assert_eq!(made, 2, "each once");
            let names = std::fs::read_dir(year.join("11")).expect("a folder");
            assert_eq!(names.count(), 2);
        }
    })
    .await;
    desk.stop().await;
}

/// Programs that do not copy files themselves rename a folder, and go on with its files.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_renamed_with_its_files() {
    let desk = Desk::start("rename_limit = 60\n").await;
    let root = desk.mounted.folder.path();
    let fill = "mkdir -p old/deep/er && for n in $(seq 50); do echo $n > old/deep/$n; done && echo x > old/deep/er/x";
    desk.mounted.says(&["sh", "-c", fill]).await;
    let numbers = desk
        .mounted
        .says(&["stat", "-c", "%i %Y", "old", "old/deep/7"])
        .await;
    let there = root.clone();
    let (mut reader, mut writer) = blocking(move || {
        let reader = File::open(there.join("old/deep/7")).expect("it opens");
        (reader, edit(&there.join("old/deep/8")))
    })
    .await;
    let rename = ["perl", "-e", "rename($ARGV[0], $ARGV[1]) or die $!"];
    let renamed = async |from, to| {
        let line: Vec<_> = rename.into_iter().chain([from, to]).collect();
        desk.mounted.says(&line).await;
    };
    renamed("old", "new").await;
    assert!(!root.join("old").exists());
    let now = desk
        .mounted
        .says(&["stat", "-c", "%i %Y", "new", "new/deep/7"])
        .await;
    assert_eq!(now.lines().next_back(), numbers.lines().next_back());
    let mut reader = blocking(move || {
        assert_eq!(read_all(&mut reader), b"7\n");
        writer.write_all(b"eight\n").expect("written");
        drop(writer);
        reader
    })
    .await;
    desk.is("new/deep/8", b"eight\n").await;
    desk.is("new/deep/7", b"7\n").await;
    assert_eq!(desk.stored("old/deep/7").await, None);
    assert_eq!(
        desk.mounted.gateway.get("/old/deep/7", &[]).await.status,
        404
    );
    // `mv` into another folder, over an empty one.
    desk.mounted.says(&["mkdir", "-p", "box/new"]).await;
    desk.mounted.says(&["mv", "-T", "new", "box/new"]).await;
    let files = desk
        .mounted
        .says(&["sh", "-c", "find box -type f | wc -l"])
        .await;
    assert_eq!(files.trim(), "51");
    blocking(move || assert_eq!(read_all(&mut reader), b"7\n")).await;
    // `mv` copies a folder that is too large, as between disks.
    let more = "for n in $(seq 20); do echo $n > box/$n; done; mv box large && cat large/new/deep/8 large/20";
    assert_eq!(desk.mounted.says(&["sh", "-c", more]).await, "eight\n20\n");
    assert!(!root.join("box").exists());
    desk.stop().await;
}
