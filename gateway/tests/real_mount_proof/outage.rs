//! An origin that becomes unreachable under 32 readers and writers, and returns.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::close;
use crate::desk::{LONG, MIB, behind_a_door, sample, stored, until};
use crate::mount::{Mounted, blocking, run_in};

/// Number of readers, and of writers.
const EACH: usize = 16;

/// The `deadline` of the mount.
const DEADLINE: Duration = Duration::from_secs(3);

/// The time in which every wait ends: look-up, open and read or close have a deadline each, and the kernel asks again
/// for the bytes that its read-ahead did not get. Wide, for slow machines: a wait without an end takes for ever.
const BOUND: Duration = LONG;

/// Starts a shell loop, in a process group of its own, that ends with its first failure.
fn on_and_on(folder: &Path, line: &str) -> Child {
    let mut shell = Command::new("sh");
    let script = format!("while {line}; do :; done; exit 1");
    shell.args(["-c", &script]).current_dir(folder);
    shell.stdin(Stdio::null()).stderr(Stdio::null());
    shell.process_group(0).spawn().expect("sh")
}

/// Returns the threads of these process groups in uninterruptible sleep (proc_pid_stat(5)).
fn asleep(groups: &[u32]) -> Vec<String> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").expect("proc").flatten() {
        let Ok(tasks) = std::fs::read_dir(process.path().join("task")) else {
            continue;
        };
        for task in tasks.flatten() {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
            let words: Vec<&str> = rest.split(' ').take(3).collect();
            if let [state, _, group] = words[..]
                && state == "D"
                && groups.iter().any(|one| one.to_string() == group)
            {
                found.push(stat);
            }
        }
    }
    found
}

/// Waits until all have failed, and returns how long that took.
async fn all_fail(children: Vec<Child>) -> Duration {
    let begun = Instant::now();
    let groups: Vec<u32> = children.iter().map(Child::id).collect();
    for mut child in children {
        let ended = async {
            loop {
                if let Some(status) = child.try_wait().expect("our child") {
                    return status;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        let ended = timeout(LONG, ended).await.expect("it ends");
        assert!(!ended.success(), "{ended}");
    }
    let took = begun.elapsed();
    assert!(took < BOUND, "{took:?}");
    assert_eq!(asleep(&groups), Vec::<String>::new());
    took
}

#[expect(clippy::too_many_lines, reason = "one story")]
async fn goes_and_comes_back(hangs: bool) {
    let (_minio, bucket, door, settings) = behind_a_door().await;
    let home = tempfile::tempdir().expect("a folder");
    bucket.put("w/", "").await;
    for n in 0..EACH {
        bucket.put(&format!("r/{n}"), sample(n, MIB + n)).await;
        let local = home.path().join(n.to_string());
        std::fs::write(local, sample(100 + n, MIB + n)).expect("written");
    }
    // Each open confirms the version, so that readers notice the outage.
    let lines = format!(
        "writable = true\ndeadline = \"{}s\"\n[spool]\npath = \"{}\"\n\
         [[route]]\norigin = \"o\"\nprofile = \"strict\"\n\
         [profile.strict]\nextends = \"backup\"\nttl = \"0s\"\n",
        DEADLINE.as_secs(),
        home.path().join("spool").display()
    );
    let mounted = Mounted::start(&settings, &lines).await;
    let folder = mounted.folder.path();
    let local = home.path().display();
    let reads = |n: usize| format!("cat r/{n} > /dev/null");
    let writes = |n: usize| format!("cp {local}/{n} w/{n}");
    let children = (0..EACH).flat_map(|n| [reads(n), writes(n)]);
    let children: Vec<Child> = children.map(|line| on_and_on(&folder, &line)).collect();
    until("all of them are at it", async || {
        let written = (0..EACH).map(async |n| stored(&bucket, &format!("w/{n}")).await.is_some());
        let written = futures_util::future::join_all(written).await;
        let read = mounted
            .gateway
            .metric(&["fuse_operations", "operation=\"open\""]);
        written.into_iter().all(|it| it) && read.await > 3 * EACH as u64
    })
    .await;
    match hangs {
        true => door.stick(),
        false => door.shut(),
    }
    let took = all_fail(children).await;
    println!("hangs: {hangs}; all had failed after {took:?}");
    let failed = ["fuse_operations", "result=\"failed\""];
    assert!(mounted.gateway.metric(&failed).await >= 1, "it is told");
    door.open();
    mounted.gateway.ready().await;
    // Earlier requests may still fail, and then none are sent for a moment.
    until("it is noticed", async || {
        let line = ["sh", "-c", &reads(0)];
        run_in(&folder, &line).await.status.success()
    })
    .await;
    until("nothing is pending", async || {
        let pending = mounted.gateway.look("/pending").await.text();
        pending.contains("\"pending\":[]")
    })
    .await;
    let again = (0..EACH).flat_map(|n| [reads(n), writes(n)]);
    // One after the other. The mount's deadline is short, and a store whose disk is slower makes one fail in truth.
    for line in again {
        until(&line, async || {
            let output = run_in(&folder, &["sh", "-c", &line]).await;
            output.status.success()
        })
        .await;
    }
    for n in 0..EACH {
        for (key, truth) in [
            (format!("r/{n}"), sample(n, MIB + n)),
            (format!("w/{n}"), sample(100 + n, MIB + n)),
        ] {
            let path = mounted.path(&key);
            let read = blocking(move || std::fs::read(path).expect("read")).await;
            assert!(read == truth, "{key} on the mount");
            assert!(stored(&bucket, &key).await == Some(truth), "{key}");
        }
    }
    mounted.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_that_is_down_and_up_again() {
    goes_and_comes_back(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_that_hangs_and_answers_again() {
    goes_and_comes_back(true).await;
}

/// An operator who stops the service waits for no close, and no close reports a false success.
#[tokio::test(flavor = "multi_thread")]
async fn unmounting_while_a_close_waits() {
    let (_minio, _bucket, door, settings) = behind_a_door().await;
    let spool = tempfile::tempdir().expect("a folder");
    let lines = format!(
        "writable = true\ndeadline = \"1h\"\n[spool]\npath = \"{}\"\n\
         [http]\ndrain = \"1s\"\n",
        spool.path().display()
    );
    let mounted = Mounted::start(&settings, &lines).await;
    mounted.says(&["mkdir", "f"]).await;
    let path = mounted.path("f/file");
    let file = blocking(move || {
        let mut file = File::create(path).expect("created");
        file.write_all(b"bytes").expect("written");
        file
    });
    let file = file.await;
    door.stick();
    let closed = blocking(move || close(file));
    let gone = async {
        until("it is on its way", async || {
            let pending = mounted.gateway.look("/pending").await.text();
            pending.contains(r#""stage":"sending""#)
        })
        .await;
        let Mounted { gateway, folder } = mounted;
        gateway.stop().await;
        folder
    };
    let (closed, folder) = timeout(LONG, async { tokio::join!(closed, gone) })
        .await
        .expect("in time");
    assert!(closed.is_err(), "it is not in the bucket: {closed:?}");
    let there = std::fs::read_dir(folder.path()).expect("a plain folder");
    assert_eq!(there.count(), 0);
}
