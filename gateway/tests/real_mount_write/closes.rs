//! Syncs and closes: what each waits for, promises and reports.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tidegate_origin::Settings;
use tokio::time::{Instant, timeout};

use crate::bucket::Bucket;
use crate::desk::{
    Desk, LASTING, LONG, MIB, PART, behind_a_door, is_mounted, sample, stored, until,
};
use crate::minio::Minio;
use crate::mount::{Folder, Mounted, blocking, origin};

#[tokio::test(flavor = "multi_thread")]
async fn fsync_publishes_nothing_and_close_says_what_is_pending() {
    let desk = Desk::start("").await;
    let path = desk.path("file");
    let file = blocking(move || {
        let mut file = File::create(path).expect("created");
        file.write_all(b"safe").expect("written");
        file.sync_all().expect("synced");
        file
    })
    .await;
    assert_eq!(desk.stored("file").await, None);
    let pending = desk.mounted.gateway.look("/pending").await.text();
    assert!(pending.contains(r#""key":"file""#), "{pending}");
    assert!(pending.contains(r#""stage":"open""#), "{pending}");
    let line = [
        "getfattr",
        "--only-values",
        "-n",
        "user.tidegate.pending",
        "file",
    ];
    assert_eq!(desk.mounted.says(&line).await, "open");
    blocking(move || drop(file)).await;
    desk.is("file", b"safe").await;
    assert_eq!(desk.mounted.says(&line).await, "no");
    desk.stop().await;
}

/// A shell that redirects has two descriptors, and closes one before anything is written: readers have the file as it was
/// until it closes the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_shell_that_redirects_publishes_at_its_last_close() {
    let desk = Desk::start("").await;
    desk.bucket.put("list", "before").await;
    let http = desk.mounted.gateway.http;
    for (program, left) in [
        (format!("curl -s http://{http}/list > list"), "before"),
        (
            format!("{{ curl -s http://{http}/list; echo; }} > list"),
            "before\n",
        ),
        (": > list".to_owned(), ""),
    ] {
        for shell in ["sh", "bash"] {
            desk.bucket.put("list", "before").await;
            let purged = desk.mounted.purge("list").await;
            assert_eq!(purged.status, 200);
            desk.mounted.says(&[shell, "-c", &program]).await;
            let stored = desk.stored("list").await.expect("there");
            assert_eq!(
                String::from_utf8(stored).as_deref(),
                Ok(left),
                "{shell}: {program}"
            );
        }
    }
    desk.stop().await;
}

/// A program in a container, with a gateway that has the host's processes (`pid: host`): what it runs while it writes has
/// the file as well, and publishes nothing when it ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_a_pid_namespace_of_its_own_publishes_by_its_own_close() {
    let desk = Desk::start("").await;
    let http = desk.mounted.gateway.http;
    // A redirection of the shell's own would be a close of its own.
    let ask = format!("curl -s -o /dev/null -w '%{{stderr}}%{{http_code}}' http://{http}/file");
    let program =
        format!("test $$ = 1 && {{ printf half; /bin/true; {ask}; printf ', whole'; }} > file");
    let line = ["unshare", "--pid", "--fork", "--mount-proc"];
    let ran = desk
        .mounted
        .run(&[&line[..], &["sh", "-c", &program]].concat())
        .await;
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(
        String::from_utf8_lossy(&ran.stderr),
        "404",
        "half is published"
    );
    desk.is("file", b"half, whole").await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_background_a_close_waits_for_no_origin() {
    let (_minio, bucket, door, settings) = behind_a_door().await;
    let spool = tempfile::tempdir().expect("a folder");
    let lines = format!(
        "writable = true\ncommit = \"background\"\n[spool]\npath = \"{}\"\n{LASTING}",
        spool.path().display()
    );
    let mounted = Mounted::start(&settings, &lines).await;
    mounted.says(&["mkdir", "f"]).await;
    door.shut();
    let large = sample(7, PART + 4711);
    let (path, bytes) = (mounted.path("f/large"), large.clone());
    blocking(move || std::fs::write(path, bytes).expect("closed")).await;
    let path = mounted.path("f/large");
    let read = blocking(move || std::fs::read(path).expect("read")).await;
    assert!(read == large, "what waits can be read");
    let path = mounted.path("f/large");
    let size = blocking(move || std::fs::metadata(path).expect("there").len()).await;
    assert_eq!(size, large.len() as u64);
    let pending = mounted.gateway.look("/pending").await.text();
    assert!(pending.contains("f/large"), "{pending}");
    door.open();
    until("it arrives", async || {
        stored(&bucket, "f/large")
            .await
            .is_some_and(|it| it == large)
    })
    .await;
    let path = mounted.path("f/large");
    let read = blocking(move || std::fs::read(path).expect("read")).await;
    assert!(read == large, "and as before when it is there");
    mounted.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_fails_in_time_when_the_origin_is_dead() {
    let (_minio, bucket, door, settings) = behind_a_door().await;
    let spool = tempfile::tempdir().expect("a folder");
    let lines = format!(
        "writable = true\ndeadline = \"3s\"\n[spool]\npath = \"{}\"\n{LASTING}",
        spool.path().join("spool").display()
    );
    let mounted = Mounted::start(&settings, &lines).await;
    // The deadline is short, and a store on a slow machine may be slower.
    until("a folder", async || {
        let made = mounted.run(&["mkdir", "-p", "f"]).await;
        made.status.success()
    })
    .await;
    let (local, bytes) = (spool.path().join("local"), sample(1, PART + MIB));
    std::fs::write(&local, &bytes).expect("written");
    door.shut();
    let begun = Instant::now();
    let line = ["cp", local.to_str().expect("text"), "f/file"];
    let closed = timeout(LONG, mounted.run(&line)).await.expect("in time");
    let said = String::from_utf8_lossy(&closed.stderr).into_owned();
    assert!(!closed.status.success(), "the bucket could not be reached");
    assert!(said.contains("failed to close"), "{said}");
    let took = begun.elapsed();
    assert!(took < LONG, "{took:?}");
    door.open();
    // The close promised nothing, and the upload is tried all the same.
    until("it arrives", async || {
        stored(&bucket, "f/file")
            .await
            .is_some_and(|it| it == bytes)
    })
    .await;
    mounted.gateway.stop().await;
}

/// Starts the `mount` command, which runs until it is killed. Its log goes to `log`.
fn command(config: &Path, folder: &Path, log: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("mount").arg(folder).arg("--config").arg(config);
    let log = File::options().append(true).create(true).open(log);
    let log = log.expect("a log");
    command.stdout(log.try_clone().expect("a file")).stderr(log);
    command.stdin(Stdio::null()).spawn().expect("tidegate")
}

/// Writes the configuration of a writable mount, with its spool in `home`.
fn configured(settings: &Settings, folder: &Folder, home: &Path) -> PathBuf {
    let config = home.join("tidegate.toml");
    let toml = format!(
        "{}[[mount]]\npath = \"{}\"\nwritable = true\n[spool]\npath = \"{}\"\n",
        origin(settings),
        folder.path().display(),
        home.join("spool").display()
    );
    std::fs::write(&config, toml).expect("written");
    config
}

async fn ends_in_order(mut mount: Child) {
    let pid = rustix::process::Pid::from_child(&mount);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("told");
    let ended = blocking(move || mount.wait().expect("it ends")).await;
    assert!(ended.success(), "{ended}");
}

/// Programs try a hard link, and go on without one: that is no warning for an operator.
#[tokio::test(flavor = "multi_thread")]
async fn a_hard_link_is_refused_without_a_word_in_the_log() {
    let minio = Minio::start().await;
    let settings = minio.settings("media");
    Bucket::create(&settings).await;
    let (folder, home) = (Folder::new(), tempfile::tempdir().expect("a folder"));
    let config = configured(&settings, &folder, home.path());
    let log = home.path().join("log");
    let mount = command(&config, &folder.path(), &log);
    until("it is mounted", async || is_mounted(&folder.path())).await;
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    blocking(move || {
        std::fs::write(&file, "bytes").expect("written");
        let refused = std::fs::hard_link(&file, &link).expect_err("none is made");
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
        assert!(!link.exists());
    })
    .await;
    ends_in_order(mount).await;
    let log = std::fs::read_to_string(log).expect("a log");
    assert!(
        log.contains("mounted") && !log.contains("Not Implemented"),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_synced_is_whole_after_a_kill() {
    let minio = Minio::start().await;
    let settings = minio.settings("media");
    let bucket = Bucket::create(&settings).await;
    let (folder, home) = (Folder::new(), tempfile::tempdir().expect("a folder"));
    let config = configured(&settings, &folder, home.path());
    let log = home.path().join("log");
    let mut first = command(&config, &folder.path(), &log);
    until("it is mounted", async || is_mounted(&folder.path())).await;
    let (path, bytes) = (folder.path().join("file"), sample(3, PART + 12_345));
    let written = bytes.clone();
    let file = blocking(move || {
        let mut file = File::create(path).expect("created");
        file.write_all(&written).expect("written");
        file.sync_all().expect("synced");
        file
    })
    .await;
    assert_eq!(stored(&bucket, "file").await, None);
    first.kill().expect("killed");
    first.wait().expect("gone");
    drop(file);
    let second = command(&config, &folder.path(), &log);
    until("it is whole", async || {
        stored(&bucket, "file").await.is_some_and(|it| it == bytes)
    })
    .await;
    let path = folder.path().join("file");
    until("it can be read", async || {
        let (path, bytes) = (path.clone(), bytes.clone());
        blocking(move || std::fs::read(path).is_ok_and(|it| it == bytes)).await
    })
    .await;
    ends_in_order(second).await;
}
