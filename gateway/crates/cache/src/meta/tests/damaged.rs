//! Damaged files. redb panics on some of them, also in destructors, which ends the process: so they are opened in children.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use super::*;

/// The environment variable with the child's folder.
const FOLDER: &str = "DAMAGED_STORE";

/// The signal of a process that aborts.
const ABORT: i32 = 6;

/// Writes a record into the store of a folder, as a gateway does, and closes it.
async fn use_store(folder: &Path) {
    let store = Meta::open(&settings(folder), &mut Registry::default()).expect("opens");
    put(&store, "b", 2, 10).await;
    store.close().await;
}

#[tokio::test]
#[ignore = "the other test starts it"]
async fn the_child_uses_the_store() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        use_store(Path::new(&folder)).await;
    }
}

/// Uses the store in a child; returns whether that has not aborted.
fn is_used_by_a_child(folder: &Path) -> bool {
    let program = std::env::current_exe().expect("known");
    let name = "meta::tests::damaged::the_child_uses_the_store";
    let child = Command::new(program)
        .args([name, "--exact", "--include-ignored"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let status = child.expect("it runs");
    assert!(
        status.success() || status.signal() == Some(ABORT),
        "{status}"
    );
    status.success()
}

#[tokio::test]
async fn a_damaged_file_is_read_or_set_aside_after_three_starts_at_most() {
    let dir = TempDir::new().expect("a folder");
    let store = Meta::open(&settings(dir.path()), &mut Registry::default()).expect("opens");
    for n in 0..300 {
        put(&store, &format!("a/{n}"), n, 10).await;
    }
    store.close().await;
    drop(store);
    let file = dir.path().join(DATABASE_FILE);
    let sound = fs::read(&file).expect("there");
    let mut random = 7_u64;
    let mut draw = |below: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(random >> 33).expect("31 bits") % below
    };
    for nth in 0..150 {
        let mut damaged = sound.clone();
        let len = damaged.len();
        for _ in 0..draw(300) + 1 {
            damaged[draw(len)] = u8::try_from(draw(256)).expect("a byte");
        }
        fs::write(&file, damaged).expect("written");
        let starts = (1..=4).find(|_| is_used_by_a_child(dir.path()));
        assert!(starts.is_some(), "{nth}");
    }
    assert!(set_aside(&dir) > 0);
}

/// A start that a kill has ended is no damage: only the fourth in a row sets the file aside.
#[tokio::test]
async fn three_starts_that_ended_while_they_opened_the_file_set_it_aside() {
    for (ended, aside) in [(0, 0), (2, 0), (3, 1)] {
        let dir = TempDir::new().expect("a folder");
        use_store(dir.path()).await;
        let mark = dir.path().join(DATABASE_FILE).with_extension("opening");
        assert!(!mark.exists(), "the start before it came to its end");
        fs::write(&mark, ".".repeat(ended)).expect("written");
        use_store(dir.path()).await;
        assert_eq!(set_aside(&dir), aside, "{ended}");
        assert!(!mark.exists());
    }
}
