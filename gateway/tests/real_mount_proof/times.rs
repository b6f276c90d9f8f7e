//! Programs that look at times: a file without writers keeps its time.

use std::path::Path;

use tempfile::TempDir;

use crate::bucket::Bucket;
use crate::desk::Desk;
use crate::minio::Minio;
use crate::mount::{Mounted, run_in};

/// Nothing is fresh for longer than a request: each look asks the bucket.
const STRICT: &str = "[[route]]\norigin = \"o\"\nprofile = \"strict\"\n[profile.strict]\n\
                      extends = \"documents\"\nttl = \"0s\"\nstale_while_revalidate = \"0s\"\n";

/// The files of the issue.
const FILES: usize = 150;

/// Every file's name, `mtime` and `ctime`, by its own `stat`.
const STAT: &str = "for n in d/*; do stat -c '%n %.9Y %.9Z' \"$n\"; done";

/// The same after a listing, which has given the kernel its times.
const LISTED: &str = "ls -l d > /dev/null; for n in d/*; do stat -c '%n %.9Y %.9Z' \"$n\"; done";

async fn shell(mounted: &Mounted, script: &str) -> String {
    mounted.says(&["sh", "-ec", script]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_keeps_the_time_that_stat_showed_at_its_close() {
    for (commit, profile) in [("close", ""), ("background", STRICT)] {
        let (minio, spool) = (Minio::start().await, TempDir::new().expect("a folder"));
        let settings = minio.settings("media");
        let _bucket = Bucket::create(&settings).await;
        let lines = format!(
            "writable = true\ncommit = \"{commit}\"\n[spool]\npath = \"{}\"\n{profile}",
            spool.path().display()
        );
        let mounted = Mounted::start(&settings, &lines).await;
        let write = format!(
            "mkdir d; for n in $(seq 1000 {}); do echo $n > d/$n; stat -c '%n %.9Y %.9Z' d/$n; done",
            999 + FILES
        );
        let told = shell(&mounted, &write).await;
        assert_eq!(told.lines().count(), FILES);
        let folder = shell(&mounted, "stat -c '%.9Y %.9Z' d").await;
        assert_eq!(shell(&mounted, LISTED).await, told, "{commit}: listed");
        assert_eq!(shell(&mounted, STAT).await, told, "{commit}: stat");
        shell(&mounted, "cat d/* > /dev/null").await;
        assert_eq!(shell(&mounted, STAT).await, told, "{commit}: read");
        assert_eq!(shell(&mounted, "stat -c '%.9Y %.9Z' d").await, folder);
        mounted.gateway.stop().await;
        drop(mounted.folder);
        let mounted = Mounted::start(&settings, &lines).await;
        assert_eq!(shell(&mounted, STAT).await, told, "{commit}: restarted");
        assert_eq!(
            shell(&mounted, LISTED).await,
            told,
            "{commit}: listed again"
        );
        let later = shell(&mounted, "stat -c '%.9Y %.9Z' d").await;
        let time = |text: &str| text.split(' ').next().expect("a time").parse::<f64>();
        assert!(time(&later).expect("a number") >= time(&folder).expect("a number"));
        mounted.gateway.stop().await;
    }
}

/// Vim checks the time of the file that it wrote before it writes again. If the time has moved, it asks; in a script it
/// then saves nothing and exits with 0.
#[tokio::test(flavor = "multi_thread")]
async fn vim_saves_twice() {
    for profile in ["", STRICT] {
        let desk = Desk::with("", profile).await;
        saved_twice(&desk).await;
        desk.stop().await;
    }
}

async fn saved_twice(desk: &Desk) {
    let local = TempDir::new().expect("a folder");
    for (name, copy) in [("one", "yes"), ("two", "no"), ("three", "auto")] {
        let script = local.path().join("script");
        let text = format!(
            "set backupcopy={copy}\nedit {name}\n\
             call setline(1, 'first')\nwrite\ncall system('ls -l')\n\
             call setline(1, 'second')\nwrite\ncall system('ls -l')\n\
             call setline(2, 'third')\nwrite\nquit\n"
        );
        std::fs::write(&script, text).expect("written");
        let script = script.to_str().expect("text");
        let line = ["vim", "-es", "-u", "NONE", "-N", "-i", "NONE", "-S", script];
        desk.mounted.says(&line).await;
        desk.is(name, b"second\nthird\n").await;
    }
    let names = shell(&desk.mounted, "ls -A").await;
    assert_eq!(names, "one\nthree\ntwo\n", "nothing is left behind");
}

/// Make lists the folder. A source changed within the second in which its target was built counts as newer.
#[tokio::test(flavor = "multi_thread")]
async fn make_builds_again_what_has_changed() {
    let script = "printf 'out: in\\n\\tcp in out\\n' > Makefile\n\
        for n in 1 2 3 4 5 6; do\n\
            echo \"$n a\" > in; make -s; test \"$(cat out)\" = \"$n a\"\n\
            ls -l > /dev/null; make -q\n\
            echo \"$n b\" > in; ls -l > /dev/null; make -s; test \"$(cat out)\" = \"$n b\"\n\
        done";
    for profile in ["", STRICT] {
        let desk = Desk::with("", profile).await;
        shell(&desk.mounted, script).await;
        desk.is("out", b"6 b\n").await;
        desk.stop().await;
    }
}

/// Copies from the mount have the same times as the files there, now and after a listing.
#[tokio::test(flavor = "multi_thread")]
async fn rsync_copies_from_the_mount_once() {
    let desk = Desk::with("", STRICT).await;
    let local = TempDir::new().expect("a folder");
    let write = "mkdir -p d/e; for n in $(seq 60); do echo $n > d/$n; echo $n > d/e/$n; done";
    shell(&desk.mounted, write).await;
    let to = format!("{}/", local.path().display());
    let rsync = ["rsync", "-a", "--itemize-changes", "d/", &to];
    let first = desk.mounted.says(&rsync).await;
    assert_eq!(count(&first), 120, "{first}");
    shell(&desk.mounted, "ls -lR d > /dev/null; cat d/e/* > /dev/null").await;
    let second = desk.mounted.says(&rsync).await;
    assert_eq!(count(&second), 0, "{second}");
    same(local.path(), &desk).await;
    desk.stop().await;
}

/// Returns the number of files that rsync acted on.
fn count(said: &str) -> usize {
    let lines = said.lines();
    lines
        .filter(|line| line.get(1..2) == Some("f") && !line.starts_with("cd"))
        .count()
}

async fn same(local: &Path, desk: &Desk) {
    let mounted = desk.path("d");
    let mounted = mounted.to_str().expect("text");
    let differ = run_in(local, &["diff", "-r", ".", mounted]).await;
    assert!(differ.status.success(), "{differ:?}");
}
