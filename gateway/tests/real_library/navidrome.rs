//! Navidrome (navidrome/navidrome, efb4661): music that it only reads.

use anyhow::{Result, ensure};

use crate::compare::numbers;
use crate::media;
use crate::shelf::{NAVIDROME, Shelf};

/// `scanner/walk_dir_tree.go` and `scanner/folder_hash.go`: names, lengths and times of each folder; what has not changed
/// is not read. `adapters/ffmpeg`: the tags of each track. `core/artwork`: the picture beside them.
const SCAN: &str = "
    find . -type f -printf '%s %p\\n' | sort
    find . -name '*.mp3' | sort | while read -r file; do
        ffprobe -v error -show_entries format_tags:stream=codec_name -of json \"$file\"
    done
    cksum < 'Artist/Album/cover.jpg'";

/// A scan of a library that has not changed.
const SCAN_AGAIN: &str = "find . -type f -printf '%s %T@ %p\\n' | sort > /dev/null; find . | sort";

#[tokio::test(flavor = "multi_thread")]
async fn music_is_scanned_and_nothing_is_written() -> Result<()> {
    let made = tempfile::tempdir()?;
    media::tracks(made.path())?;
    media::covers(made.path())?;
    let names = ["1.mp3", "2.mp3", "3.mp3", "cover.jpg"];
    let objects = names.map(|name| (format!("Artist/Album/{name}"), made.path().join(name)));
    let read = |(key, path): &(String, std::path::PathBuf)| Ok((key.clone(), std::fs::read(path)?));
    let objects = objects.iter().map(read).collect::<Result<Vec<_>>>()?;
    let given: Vec<_> = objects
        .iter()
        .map(|(key, bytes)| (key.as_str(), bytes.clone()))
        .collect();
    let mut shelf = Shelf::with(NAVIDROME, &given).await?;
    for (key, bytes) in &objects {
        shelf.write_foreign(key, bytes)?;
    }
    shelf.step("first scan", SCAN).await?;
    let before = (numbers(&shelf.mount)?, attributes(&shelf)?);
    shelf.step("scan again", SCAN_AGAIN).await?;
    let again = shelf.cost("scan again");
    ensure!(again.requests() == 0, "{again:?}");
    shelf
        .counted("restart", |shelf| shelf.gateway.restart())
        .await?;
    shelf.step("after a restart", SCAN_AGAIN).await?;
    let after = shelf.cost("after a restart");
    ensure!(after.get + after.head == 0 && after.list <= 3, "{after:?}");
    let now = (numbers(&shelf.mount)?, attributes(&shelf)?);
    ensure!(now == before, "{now:?} were {before:?}");
    refused(&shelf)?;
    shelf.finish().await
}

/// Returns the types and times of all files and folders: those of a library that has not changed stay.
fn attributes(shelf: &Shelf) -> Result<String> {
    let printed = shelf.run(&shelf.mount, "find . -printf '%y %T@ %C@ %p\\n' | sort")?;
    ensure!(printed.status.success(), "{printed:?}");
    Ok(String::from_utf8(printed.stdout)?)
}

/// Its data folder does not belong here: a database says at once that it cannot be written.
fn refused(shelf: &Shelf) -> Result<()> {
    for (script, why) in [
        (
            "sqlite3 navidrome.db 'create table t (n)'",
            "unable to open",
        ),
        ("mkdir cache", "Read-only file system"),
        ("echo x > playlist.m3u", "Read-only file system"),
        ("rm Artist/Album/1.mp3", "Read-only file system"),
    ] {
        let output = shelf.run(&shelf.mount, &format!("LC_ALL=C; export LC_ALL; {script}"))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(
            !output.status.success() && said.contains(why),
            "{script}: {said}"
        );
    }
    Ok(())
}
