//! Comparison of two folders.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};

/// A property of a file that is compared with the local folder's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Attribute {
    /// The permission bits.
    Mode,
    /// The time of modification, where a program has set one.
    Time,
}

/// A file or folder as `stat` shows it.
#[derive(Debug)]
struct Entry {
    kind: &'static str,
    mode: u32,
    modified: SystemTime,
}

/// Checks that two folders have the same names, types, bytes, modes and set times after a step. A time counts as set by a
/// program if it is before `begun`.
pub(crate) fn same(step: &str, local: &Path, mount: &Path, begun: SystemTime) -> Result<()> {
    let (ours, theirs) = (entries(local)?, entries(mount)?);
    let names = |all: &BTreeMap<String, Entry>| -> BTreeSet<String> {
        let names = all.iter().map(|(name, one)| format!("{} {name}", one.kind));
        names.collect()
    };
    let (here, there) = (names(&ours), names(&theirs));
    ensure!(
        here == there,
        "{step}: only in the local folder {:?}, only in the mount {:?}",
        here.difference(&there).collect::<Vec<_>>(),
        there.difference(&here).collect::<Vec<_>>()
    );
    let mut found = BTreeSet::new();
    for (name, one) in &ours {
        if one.kind == "file" {
            let bytes = fs::read(local.join(name))?;
            let read = fs::read(mount.join(name)).with_context(|| format!("{step}: {name}"))?;
            ensure!(read == bytes, "{step}: {name} has other bytes");
        }
        let other = &theirs[name];
        found.extend(differing(one, other, begun).map(|attribute| (name.clone(), attribute)));
    }
    ensure!(found.is_empty(), "{step}: attributes differ: {found:?}");
    Ok(())
}

fn differing(local: &Entry, mount: &Entry, begun: SystemTime) -> impl Iterator<Item = Attribute> {
    let mode = (local.mode != mount.mode).then_some(Attribute::Mode);
    // Steps run one after the other: times of writes differ. A bucket has whole seconds.
    let second = Duration::from_secs(1);
    let is_set = local.kind == "file" && local.modified < begun - second;
    let apart = |one: SystemTime, other: SystemTime| one.duration_since(other).unwrap_or_default();
    let far = apart(local.modified, mount.modified) >= second
        || apart(mount.modified, local.modified) >= second;
    let time = (is_set && far).then_some(Attribute::Time);
    mode.into_iter().chain(time)
}

/// Returns everything below a folder, by its path there.
fn entries(root: &Path) -> Result<BTreeMap<String, Entry>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let stat = fs::symlink_metadata(&path)?;
            let kind = match stat.file_type() {
                it if it.is_dir() => "folder",
                it if it.is_file() => "file",
                it if it.is_symlink() => "link",
                _ => "other",
            };
            let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
            let entry = Entry {
                kind,
                mode: stat.permissions().mode() & 0o7777,
                modified: stat.modified()?,
            };
            if kind == "folder" {
                folders.push(path);
            }
            found.insert(name, entry);
        }
    }
    Ok(found)
}

/// Returns the inode number of everything below a folder, by its path there. No two have the same.
pub(crate) fn numbers(root: &Path) -> Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    for name in entries(root)?.into_keys() {
        let number = fs::symlink_metadata(root.join(&name))?.ino();
        found.insert(name, number);
    }
    let distinct: BTreeSet<_> = found.values().collect();
    ensure!(
        distinct.len() == found.len(),
        "two have one number: {found:?}"
    );
    Ok(found)
}
