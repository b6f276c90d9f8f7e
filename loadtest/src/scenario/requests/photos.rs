//! Photos, uploaded as WordPress does: it stores and reads the original, makes nine sizes of it, and its plugins look
//! up missing names.

use anyhow::Result;

use super::files::Folder;
use super::places::{Kind, Recipe};
use super::{Play, most, step};
use crate::pattern::Pattern;

/// The folder of the month, which already holds other photos.
const MONTH: &str = "2026/11";
/// The bytes of the original of 2 megapixels; `SIZES` are the files that WordPress makes of it.
const ORIGINAL: u64 = 2_100_000;
const SIZES: [(&str, u64); 9] = [
    ("-scaled", 900_000),
    ("-300x225", 28_000),
    ("-1024x768", 210_000),
    ("-150x150", 11_000),
    ("-768x576", 120_000),
    ("-1536x1152", 430_000),
    ("-2048x1536", 700_000),
    ("-600x400", 70_000),
    ("-100x100", 6_000),
];
/// The step with the targets; the step before it has listed the folder once since the mount's start.
const UPLOADING: &str = "upload";
/// The number of other files: more than two pages of a listing have.
const THERE: u64 = 2_050;
/// The pages of the month.
const PAGES: f64 = 3.0;

pub(super) const UPLOAD: Play = Play {
    title: "photos uploaded to WordPress, 10 files each",
    recipe: Recipe::Uploads,
    before: there,
    steps: &[
        step("first look", |mount, _| mount.walk(MONTH).map(drop)),
        step(UPLOADING, upload),
    ],
    after: |count| there(count).into_iter().chain(made(count)).collect(),
    targets: &[
        most("HEAD", |run| run.of(UPLOADING).head as f64, 0.0).only_for(Kind::Background),
        // More than an answer in each `probe` proves already.
        most(
            "needless probes of the bucket",
            |run| run.of(UPLOADING).bucket_again as f64,
            0.0,
        ),
        most(
            "GET, without those for lateness",
            |run| {
                let (asked, late) = (run.of(UPLOADING), run.late_of(UPLOADING));
                late.gets_beyond(asked.get) as f64
            },
            0.0,
        ),
        most(
            "MB fetched, without those for lateness",
            |run| {
                let (asked, late) = (run.of(UPLOADING), run.late_of(UPLOADING));
                late.bytes_beyond(asked.bytes) as f64 / 1e6
            },
            0.0,
        ),
        most(
            "LIST a photo",
            |run| run.of(UPLOADING).list as f64 / run.count as f64,
            1.0,
        )
        .only_for(Kind::Background),
        // The recipe of `close` forgets after its `negative_ttl` of a second that a name is free: another server may have
        // taken it. Missing names are then asked for by themselves, until that costs as many requests as the month's pages,
        // which are listed instead (ADR 0032).
        most(
            "HEAD and LIST a page of the month and second",
            |run| {
                let asked = run.of(UPLOADING);
                let seconds = 1.0 + run.seconds_of(UPLOADING);
                (asked.head + asked.list) as f64 / (PAGES * seconds)
            },
            2.0,
        ),
        most("COPY", |run| run.of(UPLOADING).copy as f64, 0.0),
        most(
            "PUT a file, without those sent again",
            |run| {
                let (asked, late) = (run.of(UPLOADING), run.late_of(UPLOADING));
                asked.put.saturating_sub(late.retries) as f64 / (run.count * 10) as f64
            },
            1.0,
        ),
    ],
};

fn there(_: u64) -> Vec<(String, Pattern)> {
    let one = |seed| {
        let pattern = Pattern { seed, len: 30_000 };
        (format!("uploads/{MONTH}/other-{seed:04}.jpg"), pattern)
    };
    (0..THERE).map(one).collect()
}

/// Returns a photo's files, as name and content.
fn files(photo: u64) -> impl Iterator<Item = (String, Pattern)> {
    let sizes = SIZES.iter().map(|(suffix, len)| (*suffix, *len));
    (0..)
        .zip([("", ORIGINAL)].into_iter().chain(sizes))
        .map(move |(at, (suffix, len))| {
            let pattern = Pattern {
                seed: 1000 + photo * 100 + at,
                len,
            };
            (format!("{MONTH}/photo-{photo:03}{suffix}.jpg"), pattern)
        })
}

fn made(count: u64) -> impl Iterator<Item = (String, Pattern)> {
    let all = (0..count).flat_map(files);
    all.map(|(name, pattern)| (format!("uploads/{name}"), pattern))
}

fn upload(mount: &Folder, count: u64) -> Result<()> {
    for photo in 0..count {
        let mut files = files(photo);
        let (original, pattern) = files.next().expect("the original is the first");
        // wp_upload_dir, wp_unique_filename.
        mount.mkdir(MONTH)?;
        mount.is_missing(&original)?;
        mount.walk(MONTH)?;
        for suffix in ["webp", "avif"] {
            mount.is_missing(&format!("{MONTH}/photo-{photo:03}.{suffix}"))?;
        }
        // move_uploaded_file, chmod, getimagesize and exif, then the editor.
        mount.write(&original, pattern)?;
        mount.chmod(&original)?;
        mount.part(&original, pattern, 0, 64 << 10)?;
        mount.read(&original, pattern)?;
        for (name, pattern) in files {
            mount.is_missing(&name)?;
            mount.write(&name, pattern)?;
            mount.stat(&name)?;
            mount.chmod(&name)?;
        }
        mount.read(&original, pattern)?;
    }
    for (name, _) in (0..count).flat_map(files) {
        mount.stat(&name)?;
    }
    Ok(())
}
