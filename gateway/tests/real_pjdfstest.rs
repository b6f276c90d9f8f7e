//! pjdfstest, the POSIX suite for file systems, on a real writable mount over a real MinIO. Needs root and /dev/fuse.
//! The program is `$TIDEGATE_PJDFSTEST`, or `pjdfstest` in the path (`cargo install pjdfstest`).
//!
//! `real_pjdfstest/excluded.txt` lists the cases that cannot pass, each group with its reason. Any other case that
//! fails, or is skipped, fails the test; and so does a listed one that passes, or that the suite does not have.
#![cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

#[path = "support/bucket.rs"]
#[expect(dead_code, reason = "other suites delete and keep versions as well")]
mod bucket;
#[path = "support/desk.rs"]
#[expect(dead_code, reason = "other suites look into the bucket")]
mod desk;
#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/minio.rs"]
mod minio;
#[path = "support/mount.rs"]
#[expect(dead_code, reason = "other suites run programs in it")]
mod mount;
#[path = "support/ports.rs"]
mod ports;

use desk::Desk;
use mount::blocking;

const EXCLUDED: &str = include_str!("real_pjdfstest/excluded.txt");

/// The two users are Debian's, each with a group of its number. Times have milliseconds.
const SETTINGS: &str = "
[features]
posix_fallocate = {}
utime_now = {}
utimensat = {}
rename_ctime = {}

[settings]
naptime = 0.01
allow_remount = false

[dummy_auth]
entries = [[\"daemon\", \"daemon\"], [\"games\", \"games\"]]
";

/// The cases that remount it. They have a mount of their own: the kernel finds one busy in which it remembers removed files.
const REMOUNTING: &str = "erofs";

/// `mount` without the helper of FUSE, which would start a file system in place of remounting this one.
const MOUNT: &str = "#!/bin/sh\nPATH=${PATH#*:}; exec mount -i \"$@\"\n";

/// The outcome of one case, with the lines that explain it.
struct Outcome {
    word: &'static str,
    lines: String,
}

/// Reads the output of the suite: a line for each case, with its outcome last, and indented lines that explain it.
fn outcomes(said: &str) -> BTreeMap<String, Outcome> {
    let mut all = BTreeMap::new();
    let mut latest = None;
    for line in said.lines() {
        let (case, word) = line.rsplit_once(' ').unwrap_or_default();
        let word = ["ok", "FAILED", "skipped"]
            .into_iter()
            .find(|known| *known == word);
        match word {
            Some(word) if case.contains("::") && !line.starts_with('\t') => {
                let lines = String::new();
                all.insert(case.trim().to_owned(), Outcome { word, lines });
                latest = Some(case.trim().to_owned());
            }
            _ => {
                let outcome = latest.as_ref().and_then(|case| all.get_mut(case));
                let lines = outcome.map(|outcome| &mut outcome.lines);
                lines.into_iter().for_each(|lines| *lines += line);
            }
        }
    }
    all
}

/// Reads the table: each case, with the reason that its group is headed by.
fn excluded() -> BTreeMap<&'static str, &'static str> {
    let mut all = BTreeMap::new();
    let mut reason = "";
    for line in EXCLUDED.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(heading) => reason = heading,
            None => {
                assert!(!reason.is_empty(), "{line} has no reason");
                assert!(all.insert(line, reason).is_none(), "{line} twice");
            }
        }
    }
    all
}

/// Runs the suite on a mount, or the cases that have one of these parts in their names; these may remount it.
async fn run(commit: &str, cases: Option<&str>) -> String {
    let lines = format!("allow_other = true\numask = \"000\"\ncommit = \"{commit}\"\n");
    let desk = Desk::start(&lines).await;
    let local = tempfile::tempdir().expect("a folder");
    let settings = local.path().join("settings.toml");
    let allowed = format!("allow_remount = {}", cases.is_some());
    let text = SETTINGS.replace("allow_remount = false", &allowed);
    std::fs::write(&settings, text).expect("written");
    let mount = local.path().join("mount");
    std::fs::write(&mount, MOUNT).expect("written");
    std::fs::set_permissions(&mount, Permissions::from_mode(0o755)).expect("a program");
    let path = std::env::var("PATH").unwrap_or_default();
    let program = std::env::var("TIDEGATE_PJDFSTEST").unwrap_or_else(|_| "pjdfstest".to_owned());
    let mut command = Command::new(program);
    command.arg("-c").arg(&settings);
    command.arg("-p").arg(desk.path(""));
    command.arg("-s").arg(local.path());
    if let Some(cases) = cases {
        command.arg("--").args(cases.split(' '));
    }
    command.env("PATH", format!("{}:{path}", local.path().display()));
    command.env("NO_COLOR", "1").env_remove("RUST_BACKTRACE");
    command.stdin(Stdio::null());
    let output = blocking(move || command.output()).await.expect("it runs");
    desk.stop().await;
    let said = String::from_utf8(output.stdout).expect("text");
    let erred = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Summary"), "it did not end: {said}{erred}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn every_case_that_is_not_excluded_passes() {
    judge("close").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_case_passes_with_commits_in_the_background() {
    judge("background").await;
}

/// Runs the suite on a mount with these commits, and compares its outcomes with the table.
async fn judge(commit: &str) {
    // These alone run, chosen by parts of their names.
    let chosen = std::env::var("TIDEGATE_PJDFSTEST_CASES").ok();
    let mut outcomes = outcomes(&run(commit, chosen.as_deref()).await);
    if chosen.is_none() {
        outcomes.extend(self::outcomes(&run(commit, Some(REMOUNTING)).await));
    }
    let excluded = excluded();
    let mut wrong = Vec::new();
    for (case, Outcome { word, lines }) in &outcomes {
        match (*word, excluded.get(case.as_str())) {
            ("ok", None) => {}
            ("ok", Some(reason)) => wrong.push(format!("{case}: passes, excluded for: {reason}")),
            (word, None) => wrong.push(format!("{case}: {word}{lines}")),
            (_, Some(_)) => {}
        }
    }
    let unknown = excluded
        .keys()
        .filter(|case| !outcomes.contains_key(**case));
    if chosen.is_none() {
        wrong.extend(unknown.map(|case| format!("{case}: the suite has no such case")));
    }
    let passed = outcomes.values().filter(|it| it.word == "ok").count();
    println!("{commit}: {passed} of {} cases pass", outcomes.len());
    assert!(wrong.is_empty() && passed > 0, "\n{}", wrong.join("\n"));
}

#[test]
fn the_output_is_read() {
    let said = "chmod::a::regular      ok\nopen::b      FAILED\n\tassertion failed at x::y ok\n\
                rename::c     skipped\n\trequires features: chflags\n\nSummary: 1 failed";
    let read = outcomes(said);
    let words: Vec<_> = read.iter().map(|(case, it)| (&**case, it.word)).collect();
    let expected = [
        ("chmod::a::regular", "ok"),
        ("open::b", "FAILED"),
        ("rename::c", "skipped"),
    ];
    assert_eq!(words, expected);
    assert!(read["open::b"].lines.contains("assertion failed"));
}
