//! The media: a spoken hour, and a film, in the forms that libraries hold. ffmpeg makes them once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::child::tools_dir;
use crate::wordpress::must;

/// The seconds that are encoded. They are repeated up to the wanted length.
const ENCODED: u64 = 20;
/// Raised when the same name would mean other files.
const VERSION: u32 = 1;

const SOUND: &str = "anoisesrc=color=pink:amplitude=0.3:seed=1:sample_rate=48000";
const PICTURE: &str = "testsrc2=size=640x360:rate=25,noise=alls=10:allf=t";
/// A key frame every two seconds, as films for streaming have.
const KEY_FRAMES: [&str; 2] = ["-g", "50"];

/// The encoding and the packing of a medium.
struct Recipe {
    name: &'static str,
    is_film: bool,
    encode: &'static [&'static str],
    pack: &'static [&'static str],
}

const AAC: &[&str] = &["-c:a", "aac", "-b:a", "128k"];
const H264: &[&str] = &[
    "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-b:v", "1500k", "-c:a",
    "aac", "-b:a", "128k",
];
const VP8: &[&str] = &[
    "-c:v",
    "libvpx",
    "-deadline",
    "realtime",
    "-cpu-used",
    "8",
    "-b:v",
    "1500k",
    "-c:a",
    "libopus",
    "-b:a",
    "128k",
];
const INDEX_FIRST: &[&str] = &["-movflags", "+faststart"];

const RECIPES: [Recipe; 6] = [
    Recipe {
        name: "book.mp3",
        is_film: false,
        encode: &["-c:a", "libmp3lame", "-b:a", "128k"],
        pack: &[],
    },
    Recipe {
        name: "index-last.m4a",
        is_film: false,
        encode: AAC,
        pack: &[],
    },
    Recipe {
        name: "index-first.m4a",
        is_film: false,
        encode: AAC,
        pack: INDEX_FIRST,
    },
    Recipe {
        name: "film.mp4",
        is_film: true,
        encode: H264,
        pack: INDEX_FIRST,
    },
    Recipe {
        name: "film.webm",
        is_film: true,
        encode: VP8,
        pack: &[],
    },
    Recipe {
        name: "film.m3u8",
        is_film: true,
        encode: H264,
        pack: &["-f", "hls", "-hls_time", "6", "-hls_list_size", "0"],
    },
];

/// A file, or a playlist with its segments beside it.
#[derive(Debug, Clone)]
pub struct Medium {
    /// Its name, which is its key in the bucket too.
    pub name: &'static str,
    /// The file.
    pub file: PathBuf,
    /// The element of HTML that plays it.
    pub tag: &'static str,
    /// Its length in seconds.
    pub seconds: f64,
    /// The bytes of the file, or of all segments.
    pub bytes: u64,
}

impl Medium {
    /// Tells whether it is a playlist.
    #[must_use]
    pub fn is_playlist(&self) -> bool {
        Path::new(self.name)
            .extension()
            .is_some_and(|kind| kind == "m3u8")
    }
}

/// Returns the type of a file of the media.
#[must_use]
pub fn content_type(name: &str) -> &'static str {
    match Path::new(name).extension().and_then(|kind| kind.to_str()) {
        Some("mp3") => "audio/mpeg",
        Some("m4a") => "audio/mp4",
        Some("mp4") => "video/mp4",
        Some("webm") => "video/webm",
        Some("m3u8") => "application/vnd.apple.mpegurl",
        Some("ts") => "video/mp2t",
        _ => "application/octet-stream",
    }
}

/// Returns the folder with all media: sound of `minutes`, and films of a sixth of it. Making them takes a minute, so they
/// are kept beside the tools of `loadtest/setup`.
///
/// # Errors
/// If ffmpeg is missing or fails.
pub fn folder(minutes: u64) -> Result<PathBuf> {
    let said = must(Command::new("ffmpeg").arg("-version"));
    let said = said.context("ffmpeg is missing: apt-get install ffmpeg")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let version = said.split_whitespace().nth(2).context("no version")?;
    let name = format!("media-{VERSION}-ffmpeg-{version}-{minutes}");
    let kept = tools_dir().context("no home directory")?;
    let kept = kept.with_file_name(name);
    if kept.is_dir() {
        return Ok(kept);
    }
    let parent = kept.parent().context("it lies in a folder")?;
    fs::create_dir_all(parent)?;
    let scratch = tempfile::tempdir_in(parent)?;
    let made = scratch.path().join("media");
    fs::create_dir(&made)?;
    for recipe in &RECIPES {
        recipe.make(scratch.path(), &made, minutes)?;
    }
    match fs::rename(&made, &kept) {
        // Another process was faster.
        Err(_) if kept.is_dir() => {}
        renamed => renamed?,
    }
    Ok(kept)
}

/// Returns the media of a folder.
///
/// # Errors
/// If a file is missing, or ffprobe does not understand it.
pub fn all(folder: &Path) -> Result<Vec<Medium>> {
    RECIPES.iter().map(|recipe| recipe.medium(folder)).collect()
}

impl Recipe {
    fn make(&self, scratch: &Path, folder: &Path, minutes: u64) -> Result<()> {
        let kind = match self.name {
            "film.m3u8" => "film.ts",
            name => name,
        };
        let piece = scratch.join(kind);
        let mut encode = ffmpeg();
        if self.is_film {
            encode.args(["-f", "lavfi", "-i", PICTURE]);
        }
        encode.args(["-f", "lavfi", "-i", SOUND, "-ac", "2"]);
        encode.args(["-t", &ENCODED.to_string()]).args(self.encode);
        if self.is_film {
            encode.args(KEY_FRAMES);
        }
        must(encode.arg(&piece))?;
        let seconds = match self.is_film {
            true => minutes * 60 / 6,
            false => minutes * 60,
        };
        let times = seconds.div_ceil(ENCODED).saturating_sub(1);
        let mut pack = ffmpeg();
        pack.args(["-stream_loop", &times.to_string(), "-i"])
            .arg(&piece);
        pack.args(["-c", "copy"]).args(self.pack);
        must(pack.arg(folder.join(self.name))).map(drop)
    }

    fn medium(&self, folder: &Path) -> Result<Medium> {
        let file = folder.join(self.name);
        let mut probe = Command::new("ffprobe");
        probe.args(["-v", "error", "-show_entries", "format=duration"]);
        let said = must(probe.args(["-of", "csv=p=0"]).arg(&file))?;
        let said = String::from_utf8(said.stdout)?;
        let bytes = match self.name {
            "film.m3u8" => fs::read_dir(folder)?
                .filter_map(Result::ok)
                .filter(|found| found.path().extension().is_some_and(|kind| kind == "ts"))
                .filter_map(|found| found.metadata().ok())
                .map(|found| found.len())
                .sum(),
            _ => fs::metadata(&file)?.len(),
        };
        Ok(Medium {
            name: self.name,
            file,
            tag: if self.is_film { "video" } else { "audio" },
            seconds: said.trim().parse().context("no length")?,
            bytes,
        })
    }
}

fn ffmpeg() -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-y"]);
    command
}
