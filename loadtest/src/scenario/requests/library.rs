//! A day of an audiobook library, with the calls of Audiobookshelf 2.36. Books are imported over HTTP, scanned with
//! ffprobe and played, and ffmpeg embeds tags. One book is merged into a single file, one is deleted.

use anyhow::{Result, ensure};

use super::files::Folder;
use super::places::Recipe;
use super::run::Run;
use super::{Play, Step, aim, most, step};
use crate::pattern::Pattern;

const MIB: u64 = 1 << 20;

struct Book {
    folder: &'static str,
    /// Its tracks: number, suffix and length.
    tracks: (u64, &'static str, u64),
    /// A small file of text beside them.
    text: Option<&'static str>,
}

/// The library of 129 MB.
const BOOKS: [Book; 4] = [
    Book {
        folder: "Ann Author/First Book",
        tracks: (1, "m4b", 36 * MIB + 1234),
        text: Some("desc.txt"),
    },
    Book {
        folder: "Ann Author/Second Book",
        tracks: (8, "mp3", 4 * MIB + 777),
        text: Some("metadata.opf"),
    },
    Book {
        folder: "Bob Writer/Third Book",
        tracks: (6, "m4a", 4 * MIB + 4321),
        text: Some("reader.txt"),
    },
    Book {
        folder: "Cy Poet/Fourth Book",
        tracks: (4, "mp3", 7 * MIB - 99),
        text: None,
    },
];
const EMBEDDED: [&Book; 2] = [&BOOKS[0], &BOOKS[1]];
const MERGED: &Book = &BOOKS[2];
const DELETED: &Book = &BOOKS[3];

/// The steps that make names, each with the levels of folders in which they do: the library, an author, a book.
const NAMING_STEPS: [(&str, u64); 3] = [("import", 3), ("embed", 1), ("merge", 1)];
/// The most listings of a day in which none of these steps takes [`NEGATIVE_TTL`].
const MAX_LISTS: f64 = 12.0;
/// The recipe's `negative_ttl` in seconds, as built in.
const NEGATIVE_TTL: f64 = 5.0;

/// A few seconds that a player requests again: offset and length.
const JUMP: (u64, u64) = (1_000_000, 1_000_000);

/// The steps of a library in use.
const SCANNED: Step = step("scan", scan);
const COVERED: Step = step("covers", covers);
const PLAYED: Step = step("play", play);
const SCANNED_AGAIN: Step = step("scan again", walk);

pub(super) const DAY: Play = Play {
    title: "a library day of Audiobookshelf, 129 MB",
    recipe: Recipe::Library,
    before: |_| vec![],
    steps: &[
        step("import", import),
        SCANNED,
        COVERED,
        PLAYED,
        SCANNED_AGAIN,
        step("embed", embed),
        step("merge", merge),
        step("delete", delete),
        step("last scan", walk),
    ],
    after: |_| after(),
    targets: &[
        most(
            "GET, without those for lateness",
            |run| run.late.gets_beyond(run.asked.get) as f64,
            10.0,
        ),
        aim("LIST", |run| run.asked.list as f64, MAX_LISTS),
        most(
            "LIST, without those of a slow machine",
            lists_in_time,
            MAX_LISTS,
        ),
        most(
            "MB fetched, without those for lateness",
            |run| run.late.bytes_beyond(run.asked.bytes) as f64 / 1e6,
            1.0,
        ),
    ],
};

pub(super) const COLD: Play = Play {
    title: "the same library already in the bucket, cold",
    recipe: Recipe::Library,
    before: |_| all(),
    steps: &[SCANNED, COVERED, PLAYED, SCANNED_AGAIN],
    after: |_| all(),
    targets: &[
        aim("GET", |run| run.asked.get as f64, 40.0),
        aim(
            "GET of the scan and the covers",
            |run| (run.of("scan").get + run.of("covers").get) as f64,
            40.0,
        ),
        most("LIST", |run| run.asked.list as f64, 8.0),
    ],
};

/// Returns the listings without those that the time explains. After `negative_ttl` a missing name may be there, and its folder
/// is listed again, if that is one page. One folder of a level is in use at a time: its level is listed once more in that time.
fn lists_in_time(run: &Run) -> f64 {
    let again = |(step, levels): (&str, u64)| {
        let times = (run.seconds_of(step) / NEGATIVE_TTL) as u64;
        times * levels
    };
    let again: u64 = NAMING_STEPS.map(again).iter().sum();
    run.asked.list.saturating_sub(again + run.late.retries) as f64
}

impl Book {
    fn tracks(&self) -> impl Iterator<Item = (String, Pattern)> {
        let (count, suffix, len) = self.tracks;
        let (folder, seed) = (self.folder, len);
        (1..=count).map(move |n| {
            let pattern = Pattern {
                seed: seed * 100 + n,
                len: len + n,
            };
            (format!("{folder}/track {n:02}.{suffix}"), pattern)
        })
    }

    fn cover(&self) -> (String, Pattern) {
        let seed = self.tracks.2 * 100;
        (
            format!("{}/cover.jpg", self.folder),
            Pattern { seed, len: 810_000 },
        )
    }

    fn text(&self) -> Option<(String, Pattern)> {
        let seed = self.tracks.2 * 100 + 99;
        self.text.map(|name| {
            (
                format!("{}/{name}", self.folder),
                Pattern { seed, len: 210 },
            )
        })
    }

    fn files(&self) -> impl Iterator<Item = (String, Pattern)> {
        self.tracks().chain([self.cover()]).chain(self.text())
    }

    /// Tells whether each track has its index at the end.
    fn has_index(&self) -> bool {
        self.tracks.1 != "mp3"
    }
}

fn all() -> Vec<(String, Pattern)> {
    BOOKS.iter().flat_map(Book::files).collect()
}

/// Returns a track with embedded tags.
fn tagged(pattern: Pattern) -> Pattern {
    Pattern {
        seed: pattern.seed + 50,
        len: pattern.len + 810_000,
    }
}

/// Returns the file with all tracks of the merged book.
fn merged() -> (String, Pattern) {
    let len = MERGED.tracks().map(|(_, pattern)| pattern.len).sum();
    (
        format!("{0}/Third Book.m4b", MERGED.folder),
        Pattern { seed: 3, len },
    )
}

fn after() -> Vec<(String, Pattern)> {
    let embedded = EMBEDDED.iter().flat_map(|book| {
        let tracks = book.tracks().map(|(name, pattern)| (name, tagged(pattern)));
        tracks.chain([book.cover()]).chain(book.text())
    });
    let merged = [merged(), MERGED.cover()].into_iter().chain(MERGED.text());
    embedded.chain(merged).collect()
}

fn import(mount: &Folder, _: u64) -> Result<()> {
    for book in &BOOKS {
        mount.mkdir(book.folder)?;
        for (name, pattern) in book.files() {
            mount.write(&name, pattern)?;
        }
    }
    Ok(())
}

/// Walks through all folders and probes each track as ffprobe does. It reads an MP3's head, or an MP4's head, the index
/// at its end, and the head again. The kernel reads ahead of that.
fn scan(mount: &Folder, _: u64) -> Result<()> {
    let files = mount.walk(".")?;
    ensure!(files == all().len(), "{files} files found");
    for book in &BOOKS {
        for (name, pattern) in book.tracks() {
            mount.stat(&name)?;
            match book.has_index() {
                true => mount.probe(&name, pattern, &[0, pattern.len - 22_500, 44])?,
                false => mount.probe(&name, pattern, &[0, 32 << 10])?,
            }
        }
        if let Some((name, pattern)) = book.text() {
            mount.read(&name, pattern)?;
        }
    }
    Ok(())
}

fn walk(mount: &Folder, _: u64) -> Result<()> {
    mount.walk(".").map(drop)
}

fn covers(mount: &Folder, _: u64) -> Result<()> {
    for (name, pattern) in BOOKS.iter().map(Book::cover) {
        mount.read(&name, pattern)?;
        // Once for itself, once for the copy of another size.
        mount.read(&name, pattern)?;
    }
    Ok(())
}

fn play(mount: &Folder, _: u64) -> Result<()> {
    for (name, pattern) in BOOKS.iter().flat_map(Book::tracks) {
        mount.read(&name, pattern)?;
        mount.part(&name, pattern, JUMP.0, JUMP.1)?;
    }
    Ok(())
}

/// Embeds tags as with ffmpeg: it writes a copy beside each track, which then overwrites the track and is deleted.
fn embed(mount: &Folder, _: u64) -> Result<()> {
    for book in EMBEDDED {
        for (name, pattern) in book.tracks() {
            let (copy, tagged) = (format!("{name}.tmp"), tagged(pattern));
            mount.read(&name, pattern)?;
            let (cover, picture) = book.cover();
            mount.read(&cover, picture)?;
            match book.has_index() {
                true => mount.write_and_patch(&copy, tagged)?,
                false => mount.write(&copy, tagged)?,
            }
            mount.read(&copy, tagged)?;
            mount.overwrite(&name, tagged)?;
            mount.unlink(&copy)?;
        }
    }
    Ok(())
}

/// Merges a book: the tracks are read and moved away; the whole book overwrites the first one, which is renamed.
fn merge(mount: &Folder, _: u64) -> Result<()> {
    let probe = format!("{}/accessTest", MERGED.folder);
    mount.write(&probe, Pattern { seed: 0, len: 0 })?;
    mount.unlink(&probe)?;
    for (name, pattern) in MERGED.tracks().chain([MERGED.cover()]) {
        mount.read(&name, pattern)?;
    }
    let tracks: Vec<_> = MERGED.tracks().collect();
    for (name, pattern) in &tracks {
        mount.read(name, *pattern)?;
    }
    for (name, _) in &tracks[1..] {
        mount.unlink(name)?;
    }
    let (book, whole) = merged();
    mount.overwrite(&tracks[0].0, whole)?;
    mount.rename(&tracks[0].0, &book)?;
    mount.walk(MERGED.folder)?;
    mount.probe(&book, whole, &[0, whole.len - 22_500, 44])
}

fn delete(mount: &Folder, _: u64) -> Result<()> {
    mount.remove(DELETED.folder)
}
