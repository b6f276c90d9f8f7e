//! Comparison of two folders.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use std::{fmt, fs};

use anyhow::{Context as _, Result, ensure};
use loadtest::wordpress::must;

/// A file, folder or link as `stat` shows it.
#[derive(Debug)]
struct Entry {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    modified: SystemTime,
    /// The target of a link.
    target: Option<PathBuf>,
}

/// How long before a test's begin a time lies that a program must have set. A bucket's times have whole seconds.
const SURELY_SET: Duration = Duration::from_secs(2);

/// Checks that two folders have the same names, types, bytes, targets, modes, owners and set times after a step. Writes
/// come at other times in each folder, so that a time is compared if a program has set it, in one of them at least: it
/// lies before `begun`. The git folder of a repository is left out.
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
        let differing = differing(one, &theirs[name], begun);
        found.extend(differing.map(|what| format!("{name}: {what}")));
    }
    ensure!(found.is_empty(), "{step}: attributes differ: {found:#?}");
    Ok(())
}

/// Returns what differs, as text with both values.
fn differing(local: &Entry, mount: &Entry, begun: SystemTime) -> impl Iterator<Item = String> {
    let text = |what, one: &dyn fmt::Debug, other: &dyn fmt::Debug| {
        format!("{what}: local {one:?}, mount {other:?}")
    };
    let mode = (local.mode != mount.mode).then(|| text("mode", &local.mode, &mount.mode));
    let owner = (local.owner != mount.owner).then(|| text("owner", &local.owner, &mount.owner));
    let target =
        (local.target != mount.target).then(|| text("target", &local.target, &mount.target));
    let is_set = local.modified.min(mount.modified) < begun - SURELY_SET;
    let time = (is_set && local.modified != mount.modified)
        .then(|| text("time", &local.modified, &mount.modified));
    [mode, owner, target, time].into_iter().flatten()
}

/// Returns everything below a folder, by its path there.
fn entries(root: &Path) -> Result<BTreeMap<String, Entry>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.ends_with(".git") {
                continue;
            }
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
                owner: (stat.uid(), stat.gid()),
                modified: stat.modified()?,
                target: (kind == "link").then(|| fs::read_link(&path)).transpose()?,
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

/// Each change of one of two equal folders is a difference, and a time of now is none.
#[test]
fn a_difference_of_each_kind_is_found() -> Result<()> {
    let made = "mkdir f; echo x > f/a; ln -s a f/link; touch -h -d 2001-02-03 f/a f/link f";
    for (change, found) in [
        ("echo y >> f/a; touch -d 2001-02-03 f/a", Some("bytes")),
        ("chmod 600 f/a", Some("mode")),
        ("chmod 700 f", Some("mode")),
        ("chown 1234 f/a", Some("owner")),
        ("chown -h :1234 f/link", Some("owner")),
        ("touch -d '2001-02-03 00:00:00.000000001' f/a", Some("time")),
        ("touch -h f/link", Some("time")),
        ("touch f", Some("time")),
        (
            "ln -sfn b f/link; touch -h -d 2001-02-03 f/link f",
            Some("target"),
        ),
        ("rm f/a; mkdir f/a", Some("only in the mount")),
        ("echo new > new", None),
    ] {
        let (local, mount) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let begun = SystemTime::now();
        for (folder, script) in [(&local, made), (&mount, made), (&mount, change)] {
            must(Command::new("sh").args(["-ec", script]).current_dir(folder))?;
        }
        if found.is_none() {
            fs::write(local.path().join("new"), "new\n")?;
        }
        let same = same("a change", local.path(), mount.path(), begun);
        let said = same.err().map(|error| error.to_string());
        let is_right = said
            .as_deref()
            .map(|said| found.is_some_and(|found| said.contains(found)));
        ensure!(is_right == found.map(|_| true), "{change}: {said:?}");
    }
    Ok(())
}
