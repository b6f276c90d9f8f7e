//! A scan of a tree that lists every folder, looks up every file, and reads its beginning.

use anyhow::{Result, ensure};

use super::files::Folder;
use super::places::Recipe;
use super::{Play, aim, most, step};
use crate::pattern::Pattern;

/// The file length: more than comes whole with the request that opens it.
const LEN: u64 = 5 << 18;
const BEGINNING: u64 = 64 << 10;
const IN_A_FOLDER: u64 = 20;

pub(super) const SCAN: Play = Play {
    title: "a tree scanned, cold: 20 files of 1.25 MiB a folder",
    recipe: Recipe::Library,
    before: files,
    steps: &[step("find, stat, head", scan), step("once more", scan)],
    after: files,
    targets: &[
        // How far the gateway reads ahead depends on the time that reads take.
        aim(
            "GET a file",
            |run| run.asked.get as f64 / (run.count * 20) as f64,
            1.0,
        ),
        most("HEAD", |run| run.asked.head as f64, 0.0),
        // A folder for 20 files, its parent, and the root.
        most(
            "LIST a folder",
            |run| run.asked.list as f64 / (run.count + 2) as f64,
            1.0,
        ),
    ],
};

fn files(count: u64) -> Vec<(String, Pattern)> {
    let one = |seed| {
        let name = format!("books/{:03}/{seed:05}.m4b", seed / IN_A_FOLDER);
        (name, Pattern { seed, len: LEN })
    };
    (0..count * IN_A_FOLDER).map(one).collect()
}

fn scan(mount: &Folder, count: u64) -> Result<()> {
    let found = mount.walk(".")? as u64;
    ensure!(found == count * IN_A_FOLDER, "{found} files found");
    for (name, pattern) in files(count) {
        mount.stat(&name)?;
        mount.part(&name, pattern, 0, BEGINNING)?;
    }
    Ok(())
}
