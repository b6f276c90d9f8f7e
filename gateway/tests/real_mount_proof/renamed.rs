//! kill -9 in the middle of `mv` of a folder: the next process ends the rename, and programs find the whole folder under
//! one name at any time.
//!
//! A gate in front of the bucket holds a certain copy or deletion, so that each kill comes at a step that is known.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command};

use http::Method;
use tokio::sync::watch;

use crate::bucket::Bucket;
use crate::desk::{PART, sample, stored, until};
use crate::gate::{Gate, behind_a_gate};
use crate::gateway::ask;
use crate::kill::House;
use crate::mount::{blocking, run_in};

/// The two names of the folder.
const NAMES: [&str; 2] = ["one", "two"];

/// The files of the folder. Each has a mode and a time of its own.
const FILES: usize = 40;

/// The changes of each kind that a rename makes: one for each file, and for the marker of each of its folders.
const EACH: u64 = FILES as u64 + 2;

/// The first numbers of changes that are held, of which a rename has [`EACH`] copies, then [`EACH`] deletions.
const HELD: [u64; 6] = [1, EACH / 2, EACH, EACH + 1, EACH + EACH / 2, 2 * EACH];

fn name(number: usize) -> String {
    match number % 3 {
        0 => format!("deep/{number}"),
        _ => format!("{number}"),
    }
}

/// Returns the content of a file. One was sent in parts, so that its copy has another tag.
fn content(number: usize) -> Vec<u8> {
    match number {
        7 => sample(number, PART + 12_345),
        _ => sample(number, 1000 + number * 977),
    }
}

/// The attributes of a file that a rename must keep.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    number: u64,
    mode: u32,
    modified: i64,
}

/// Returns everything below a folder by its name there; nothing without the folder.
fn tree(folder: &Path) -> BTreeMap<String, Kept> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        let entries = match std::fs::read_dir(&next) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries.expect("readable"),
        };
        for entry in entries {
            let path = entry.expect("a name").path();
            // It may have been renamed since.
            let Ok(stat) = std::fs::symlink_metadata(&path) else {
                continue;
            };
            if stat.is_dir() {
                folders.push(path.clone());
            }
            let name = path.strip_prefix(folder).expect("below it");
            let kept = Kept {
                number: stat.ino(),
                mode: stat.mode(),
                modified: stat.mtime(),
            };
            found.insert(name.to_string_lossy().into_owned(), kept);
        }
    }
    found
}

/// Lists both folders and the one in each, the old ones first. Returns which of them are there: each with all its names, and
/// the old ones until the new ones are.
fn list_both(root: &Path, [old, new]: [&str; 2]) -> [bool; 4] {
    let deep = FILES.div_ceil(3);
    let is_there = |folder: &str, below: &str, names: usize| {
        let found = match std::fs::read_dir(root.join(folder).join(below)) {
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            entries => entries.expect("readable").count(),
        };
        assert!(
            [0, names].contains(&found),
            "{folder}/{below}: {found} of {names} names"
        );
        found > 0
    };
    let pair = |folder| {
        let in_deep = is_there(folder, "deep", deep);
        [in_deep, is_there(folder, "", FILES - deep + 1)]
    };
    let ([old_deep, old_top], [new_deep, new_top]) = (pair(old), pair(new));
    let found = [old_deep, old_top, new_deep, new_top];
    let switches = (0..=4).map(|at| std::array::from_fn(|read| (read < at) == (read < 2)));
    assert!(
        switches.into_iter().any(|seen: [bool; 4]| seen == found),
        "{old}, {new}: {found:?}"
    );
    found
}

/// Returns the keys that the bucket has below a folder.
async fn keys(bucket: &Bucket, folder: &str) -> Vec<String> {
    let Bucket::S3 { client, name } = bucket else {
        panic!("a real one");
    };
    let list = client.list_objects_v2().bucket(name);
    let listed = list.prefix(format!("{folder}/")).send().await;
    let objects = listed.expect("a page").contents.unwrap_or_default();
    objects.into_iter().filter_map(|it| it.key).collect()
}

/// Makes the folder through the mount, and waits until the bucket has all of it.
async fn fill(house: &House, bucket: &Bucket) {
    let root = house.folder.path();
    let made = move || -> std::io::Result<()> {
        let folder = root.join(NAMES[0]);
        std::fs::create_dir_all(folder.join("deep"))?;
        for number in 0..FILES {
            let path = folder.join(name(number));
            std::fs::write(&path, content(number))?;
            let mut touch = Command::new("touch");
            touch.arg("-d").arg(format!("@{}", 1_500_000_000 + number));
            let mut chmod = Command::new("chmod");
            chmod.arg(format!("6{}4", number % 8));
            for command in [&mut touch, &mut chmod] {
                assert!(command.arg(&path).status()?.success());
            }
        }
        Ok(())
    };
    blocking(made).await.expect("made");
    until("the bucket has it", async || {
        let listed = keys(bucket, NAMES[0]).await;
        listed.len() as u64 == EACH && house.pending().await.contains("\"pending\":[]")
    })
    .await;
}

/// Renames the folder until the gate holds a change, and kills the process then. Readers find the old folder until all copies
/// are there, and then the new one. They read over HTTP: Linux lets no look-up of a new name into a folder in which it renames
/// one.
async fn kill_within(
    mut child: Child,
    house: &House,
    (gate, held): (&Gate, u64),
    [old, new]: [&'static str; 2],
) {
    let root = house.folder.path();
    let renaming = tokio::spawn(async move { run_in(&root, &["mv", old, new]).await });
    gate.holds().await;
    let expected = match held <= EACH {
        true => [200, 404],
        false => [404, 200],
    };
    for number in 0..FILES {
        let statuses = [old, new].map(async |folder| {
            let path = format!("/{folder}/{}", name(number));
            ask(house.http, Method::GET, &path, &[]).await.status
        });
        let found = futures_util::future::join_all(statuses).await;
        assert_eq!(found, expected, "change {held}: file {number}");
    }
    blocking(move || {
        child.kill().expect("it runs still");
        child.wait().expect("it is gone");
    })
    .await;
    let told = renaming.await.expect("no panic");
    assert!(!told.status.success(), "{told:?}");
}

/// Lists both folders again and again, until `end` says so or is dropped. Returns the last result.
async fn observe(house: &House, names: [&'static str; 2], end: watch::Receiver<bool>) -> [bool; 4] {
    let root = house.folder.path();
    blocking(move || {
        loop {
            let is_last = *end.borrow() || end.has_changed().is_err();
            let found = list_both(&root, names);
            if is_last {
                return found;
            }
        }
    })
    .await
}

fn is_recorded(house: &House) -> bool {
    let names = std::fs::read_dir(house.spool()).expect("a folder");
    let mut names = names.map(|entry| entry.expect("a name").file_name());
    names.any(|name| name.to_string_lossy().starts_with("rename-"))
}

/// Checks the bytes of all files in the bucket and on the mount.
async fn is_whole(house: &House, bucket: &Bucket, [old, new]: [&str; 2]) {
    assert_eq!(keys(bucket, old).await, Vec::<String>::new());
    let keys = keys(bucket, new).await;
    assert_eq!(keys.len() as u64, EACH, "{keys:?}");
    for number in 0..FILES {
        let key = format!("{new}/{}", name(number));
        let path = house.folder.path().join(&key);
        let read = blocking(move || std::fs::read(path)).await.expect("read");
        assert!(read == content(number), "{key} on the mount");
        let stored = stored(bucket, &key).await.expect("in the bucket");
        assert!(stored == content(number), "{key} in the bucket");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_whose_rename_was_killed_is_whole_at_any_time() {
    let (_minio, bucket, gate, settings) = behind_a_gate().await;
    let house = House::build(&settings);
    let mut child = house.open().await;
    fill(&house, &bucket).await;
    for (round, held) in HELD.into_iter().enumerate() {
        let names @ [old, new] = [NAMES[round % 2], NAMES[1 - round % 2]];
        let (root, before) = (house.folder.path(), house.folder.path().join(old));
        let before = blocking(move || tree(&before)).await;
        gate.hold_after(held - 1, round % 2 == 1);
        kill_within(child, &house, (&gate, held), names).await;
        assert!(is_recorded(&house), "change {held}: no rename was cut");

        gate.hold_after(0, false);
        child = house.open().await;
        let (end, ended) = watch::channel(false);
        let watched = observe(&house, names, ended);
        let resumed = async {
            gate.open();
            until("the rename has ended", async || !is_recorded(&house)).await;
            end.send_replace(true);
        };
        let (found, ()) = tokio::join!(watched, resumed);
        assert_eq!(found, [false, false, true, true], "change {held}");
        is_whole(&house, &bucket, names).await;
        let after = blocking(move || tree(&root.join(new))).await;
        assert_eq!(after, before, "change {held}");
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("told");
    let ended = blocking(move || child.wait().expect("it ends")).await;
    assert!(ended.success(), "{ended}");
}
