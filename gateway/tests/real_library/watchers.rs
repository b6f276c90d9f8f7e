//! Watchers: one that polls, as Audiobookshelf's (`server/libs/watcher/watcher_poller.js`), and inotify, which reports
//! what this mount itself changes.

use std::collections::BTreeSet;
use std::fs;
use std::mem::MaybeUninit;
use std::path::Path;

use anyhow::{Result, ensure};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use crate::shelf::{AUDIOBOOKSHELF, Shelf};

/// A watcher that polls: names, lengths and times after each change, and what has come, gone or changed since.
const POLLED: &str = "
    poll() { find . -type f -printf 'f %s %T@ %p\\n' -o -mindepth 1 -printf 'd 0 0 %p\\n' | sort > \"$given/$1\"; }
    told() { diff \"$given/$1\" \"$given/$2\" | sed -n 's/^\\([<>]\\) \\(.\\) .* /\\1 \\2 /p' | grep -v '[.]$' | sort -u; }
    poll a; mkdir book; echo one > book/1.mp3; poll b; echo added; told a b
    echo two >> book/1.mp3; poll c; echo changed; told b c | grep mp3
    mv book/1.mp3 book/2.mp3; poll d; echo renamed; told c d | grep mp3
    rm -r book; poll e; echo removed; told d e";

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_polls_sees_each_change() -> Result<()> {
    let mut shelf = Shelf::start(AUDIOBOOKSHELF).await?;
    let said = shelf.step("polled", POLLED).await?;
    for told in ["> f ./book/1.mp3", "< f ./book/1.mp3", "> f ./book/2.mp3"] {
        ensure!(said.contains(told), "{said}");
    }
    shelf.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn inotify_reports_what_this_mount_changes() -> Result<()> {
    let mut shelf = Shelf::start(AUDIOBOOKSHELF).await?;
    let (local, mount) = (events(&shelf.local)?, events(&shelf.mount)?);
    ensure!(local == mount, "local {local:?}, mount {mount:?}");
    ensure!(local.len() > 5, "{local:?}");
    shelf.step("nothing is left", "ls -A").await?;
    shelf.finish().await
}

/// Changes a folder and the folder `book` in it, and returns what inotify reports of both.
fn events(root: &Path) -> Result<BTreeSet<String>> {
    let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    let wanted = WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVE
        | WatchFlags::MODIFY
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::DELETE_SELF;
    inotify::add_watch(&queue, root, wanted)?;
    let book = root.join("book");
    fs::create_dir(&book)?;
    inotify::add_watch(&queue, &book, wanted)?;
    fs::write(book.join("1.mp3"), "one")?;
    fs::write(book.join("1.mp3"), "another")?;
    fs::rename(book.join("1.mp3"), book.join("2.mp3"))?;
    fs::rename(book.join("2.mp3"), root.join("2.mp3"))?;
    fs::remove_file(root.join("2.mp3"))?;
    fs::remove_dir(&book)?;
    let mut space = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&queue, &mut space);
    let mut found = BTreeSet::new();
    loop {
        match reader.next() {
            Ok(event) => {
                let name = event.file_name().unwrap_or_default().to_string_lossy();
                let kind = event.events() & !ReadFlags::ISDIR;
                found.insert(format!("{} {kind:?} {name}", event.wd()));
            }
            Err(Errno::AGAIN) => return Ok(found),
            Err(error) => return Err(error.into()),
        }
    }
}
