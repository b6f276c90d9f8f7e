//! Books, films and documents to work on, made by ffmpeg: the same bytes at each run.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use loadtest::wordpress::must;

fn ffmpeg(folder: &Path, words: &[&str]) -> Result<()> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-y"]).args(words);
    must(command.current_dir(folder)).map(drop)
}

/// Makes `1.mp3` to `6.mp3`, the tracks of a book.
pub(crate) fn tracks(folder: &Path) -> Result<()> {
    for n in 1..=6 {
        let sine = format!(
            "sine=frequency={}:duration=3:sample_rate=22050",
            200 + 40 * n
        );
        let (title, name) = (format!("title=Chapter {n}"), format!("{n}.mp3"));
        let sound = ["-f", "lavfi", "-i", &sine, "-b:a", "48k"];
        let tags = ["-metadata", &title, "-bitexact", &name];
        ffmpeg(folder, &[&sound[..], &tags].concat())?;
    }
    Ok(())
}

/// Makes `book.m4b`, a book in one file with its index at the end.
pub(crate) fn book(folder: &Path) -> Result<()> {
    let sound = ["-f", "lavfi", "-i", "sine=frequency=330:duration=20"];
    let how = [
        "-c:a",
        "aac",
        "-b:a",
        "64k",
        "-bitexact",
        "-f",
        "mp4",
        "book.m4b",
    ];
    ffmpeg(folder, &[&sound[..], &how].concat())
}

/// Makes `cover.jpg` and `other.jpg`, two pictures.
pub(crate) fn covers(folder: &Path) -> Result<()> {
    for (name, seed) in [("cover.jpg", "1"), ("other.jpg", "2")] {
        let picture = format!("gradients=size=600x600:seed={seed}:n=4:duration=1:rate=1");
        let how = ["-frames:v", "1", "-q:v", "3", "-bitexact", name];
        ffmpeg(
            folder,
            &[&["-f", "lavfi", "-i", &picture][..], &how].concat(),
        )?;
    }
    Ok(())
}

/// Makes `film.mp4`, a film with sound.
pub(crate) fn film(folder: &Path) -> Result<()> {
    let picture = [
        "-f",
        "lavfi",
        "-i",
        "testsrc2=size=320x180:rate=10:duration=5",
    ];
    let sound = ["-f", "lavfi", "-i", "sine=duration=5"];
    let how = ["-c:v", "mpeg4", "-c:a", "aac", "-bitexact", "film.mp4"];
    ffmpeg(folder, &[&picture[..], &sound, &how].concat())
}
