//! Origins that die, and mounts that are taken away, left behind or impossible.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tidegate_origin::fake::Fault;
use tokio::time::{Instant, sleep, timeout};

use crate::fake_s3::FakeS3;
use crate::gateway;
use crate::mount::{Folder, Mounted, blocking, origin};
use crate::reading::sample;
use crate::{LONG, MIB};

/// Programs go on in the folder below, so the loss must show in the readiness.
#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_is_taken_away_is_no_longer_ready() {
    let store = FakeS3::start().await;
    store.bucket.put("file", "text");
    let mounted = Mounted::start(&store.settings(), "").await;
    mounted.gateway.ready().await;
    let folder = mounted.folder.path();
    let held = std::fs::File::open(folder.join("file")).expect("it opens");
    rustix::mount::unmount(&folder, rustix::mount::UnmountFlags::DETACH).expect("unmounted");
    let line = format!("mount {}: it is not mounted any more", folder.display());
    let told = async {
        loop {
            let got = mounted.gateway.look("/readyz").await;
            if got.status == 503 && got.text().lines().any(|one| one == line) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, told).await.expect("it is told");
    drop(held);
    assert_eq!(mounted.gateway.get("/file", &[]).await.text(), "text");
    mounted.gateway.stop().await;
}

/// A gateway that is dropped without a stop, as by a signal during its start, unmounts its folder.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_given_up_leaves_no_mount() {
    let store = FakeS3::start().await;
    store.bucket.put("file", "text");
    let Mounted { gateway, folder } = Mounted::start(&store.settings(), "").await;
    let path = folder.path();
    let file = path.join("file");
    let seen = blocking(move || std::fs::read_to_string(file)).await;
    assert_eq!(seen.expect("mounted"), "text");
    drop(gateway);
    let mut names = std::fs::read_dir(path).expect("a folder that answers");
    assert!(names.next().is_none(), "the folder below is empty");
}

/// Returns the state of a process (proc_pid_stat(5)); `None`: it is gone.
fn state(child: &Child) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_that_dies_under_readers_leaves_none_of_them_hanging() {
    let store = FakeS3::start().await;
    for n in 0..32 {
        store.bucket.put(&format!("{n}"), sample(n, 8 * MIB));
    }
    let deadline = "deadline = \"3s\"\n";
    let mounted = Mounted::start(&store.settings(), deadline).await;
    store.bucket.set_faults([Fault::Stall(300_000)]);
    let readers: Vec<_> = (0..32)
        .map(|n| {
            let mut dd = Command::new("dd");
            dd.arg(format!("if={}", mounted.path(&n.to_string()).display()));
            dd.args(["of=/dev/null", "bs=1M"]).stderr(Stdio::null());
            dd.spawn().expect("dd")
        })
        .collect();
    // On a slow machine the first may have failed by its deadline before the last one reads.
    let read = || -> BTreeSet<String> {
        let gets = store.requests().into_iter();
        let gets = gets.filter(|one| one.method == "GET" && !one.target.contains("list-type=2"));
        gets.map(|one| one.target).collect()
    };
    let all_read = async {
        while read().len() < 32 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, all_read).await.expect("all of them read");
    drop(store);
    let begun = Instant::now();
    for mut reader in readers {
        let ended = async {
            loop {
                if let Some(status) = reader.try_wait().expect("our child") {
                    return status;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        let status = timeout(LONG, ended).await;
        assert!(!status.expect("it ends").success());
        assert_ne!(state(&reader), Some('D'));
    }
    // Look-up and open took part of the first deadline; the kernel asks once more for the bytes that its read-ahead did
    // not get. The next deadlines, of the origin and its tries, are minutes.
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
    let gone = timeout(LONG, mounted.run(&["cat", "none"])).await;
    assert!(!gone.expect("in time").status.success());
    mounted.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unmounting_while_reads_wait() {
    let store = FakeS3::start().await;
    store.bucket.put("file", sample(1, 8 * MIB));
    let mounted = Mounted::start(&store.settings(), "deadline = \"1h\"\n").await;
    store.bucket.set_faults([Fault::Stall(1000)]);
    let path = mounted.path("file");
    let reader = tokio::task::spawn_blocking(move || std::fs::read(path));
    let under_way = async {
        while store.bucket.running() == 0 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, under_way).await.expect("it reads");
    let Mounted { gateway, folder } = mounted;
    gateway.stop().await;
    let read = timeout(LONG, reader).await.expect("it ends");
    assert!(read.expect("no panic").is_err());
    let there = std::fs::read_dir(folder.path()).expect("a plain folder");
    assert_eq!(there.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_left_by_a_killed_process_is_cleared_away() {
    let store = FakeS3::start().await;
    store.bucket.put("file", "here");
    let folder = Folder::new();
    let home = tempfile::tempdir().expect("a folder");
    let config = home.path().join("tidegate.toml");
    std::fs::write(&config, origin(&store.settings())).expect("written");
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("mount").arg(folder.path()).arg("--config");
        command.arg(&config).stdin(Stdio::null());
        command.spawn().expect("tidegate")
    };
    let file = folder.path().join("file");
    let readable = async || {
        let begun = Instant::now();
        loop {
            let file = file.clone();
            match blocking(move || std::fs::read_to_string(file)).await {
                Ok(text) => return text,
                Err(error) => assert!(begun.elapsed() < LONG, "{error}"),
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let mut first = start();
    assert_eq!(readable().await, "here");
    first.kill().expect("killed");
    first.wait().expect("gone");
    let stale = rustix::fs::statvfs(folder.path()).map(drop);
    assert_eq!(stale, Err(rustix::io::Errno::NOTCONN));

    let mut second = start();
    assert_eq!(readable().await, "here");
    // Two mounts on one folder would hide one another.
    let mut third = start();
    assert!(!third.wait().expect("it ends").success());
    let pid = rustix::process::Pid::from_child(&second);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("told");
    let ended = blocking(move || second.wait().expect("it ends")).await;
    assert!(ended.success(), "{ended}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("free").count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_cannot_be_is_an_error_at_the_start() {
    let store = FakeS3::start().await;
    let toml = format!(
        "{}[[mount]]\npath = \"/nowhere/at/all\"\n",
        origin(&store.settings())
    );
    let refused = gateway::Whole::try_start(&toml).await;
    let said = refused.expect_err("no folder").to_string();
    assert!(said.contains("cannot mount on /nowhere/at/all"), "{said}");
}
