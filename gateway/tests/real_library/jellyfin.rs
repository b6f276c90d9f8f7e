//! Jellyfin (jellyfin/jellyfin, bdd010b).

use anyhow::{Result, ensure};

use crate::media;
use crate::shelf::{JELLYFIN, Shelf};

/// Films are put there by their owner; Jellyfin has no upload.
const IMPORT: &str = "
    umask 022
    mkdir -p 'Films/A Film (1999)' 'Films/Second Film (2001)'
    cp \"$given/film.mp4\" 'Films/A Film (1999)/A Film (1999).mp4'
    cp \"$given/film.mp4\" 'Films/Second Film (2001)/Second Film (2001).mp4'";

/// `Emby.Server.Implementations/IO/ManagedFileSystem.cs`: folders are enumerated, each entry's length and times are used.
const SCAN: &str = "find Films -type d | sort; find Films -type f -printf '%s %p\\n' | sort";

/// `MediaBrowser.MediaEncoding/Encoder/MediaEncoder.cs`, `GetMediaInfoInternal`, and a frame as
/// `MediaBrowser.Providers/MediaInfo/VideoImageProvider.cs` takes one to a disk of the server's own.
const PROBE: &str = "
    find Films -name '*.mp4' | sort | while read -r file; do
        ffprobe -v warning -analyzeduration 200M -probesize 1G -threads 0 -print_format json -show_streams \\
            -show_chapters -show_format \"$file\"
        ffmpeg -v error -y -ss 3 -i \"$file\" -frames:v 1 -bitexact \"$given/frame.jpg\" </dev/null
        cksum < \"$given/frame.jpg\"
    done";

/// `MediaBrowser.XbmcMetadata/Savers/BaseNfoSaver.cs` (`SaveToFileAsync`) and
/// `MediaBrowser.Providers/Manager/ImageSaver.cs`: cut to nothing, given its length ahead, written.
const NFO: &str = "
    umask 022
    cd 'Films/A Film (1999)'
    for n in 1 2; do
        text=\"<movie><title>A Film</title><edition>$n</edition></movie>\"
        : > movie.nfo
        fallocate -l ${#text} movie.nfo
        printf %s \"$text\" | dd of=movie.nfo conv=notrunc status=none
        cat movie.nfo
    done
    : > poster.jpg
    fallocate -l $(stat -c %s \"$given/cover.jpg\") poster.jpg
    dd if=\"$given/cover.jpg\" of=poster.jpg conv=notrunc status=none
    cksum < poster.jpg; ls";

/// `MediaBrowser.Providers/Subtitles/SubtitleManager.cs`, `TrySaveToFiles`: a file that must be new.
const SUBTITLES: &str = "
    umask 022
    set -C
    cd 'Films/A Film (1999)'
    printf '1\\n00:00:01,000 --> 00:00:02,000\\nHello.\\n' > 'A Film (1999).en.srt'
    (printf again > 'A Film (1999).en.srt') 2> /dev/null || echo 'it is there'
    cat *.srt";

/// `Jellyfin.Server.Implementations/Trickplay/TrickplayManager.cs`, `MoveContent`: a folder of tiles is made on the
/// server's own disk and moved beside the film.
const TRICKPLAY: &str = "
    umask 022
    tiles=$(mktemp -d)
    mkdir \"$tiles/320 - 10x10\"; for n in 0 1 2; do head -c 30000 /dev/zero | tr '\\0' $n > \"$tiles/320 - 10x10/$n.jpg\"; done
    target='Films/A Film (1999)/A Film (1999).trickplay'
    mkdir -p \"$target\"
    find \"$tiles\" -type f -exec touch {} +
    mv \"$tiles/320 - 10x10\" \"$target/\"
    rmdir \"$tiles\"
    find Films | sort";

/// A renamed folder, and the film in it.
const RENAME: &str = "
    mv 'Films/A Film (1999)' 'Films/The Film (1999)'
    cd 'Films/The Film (1999)'; mv 'A Film (1999).mp4' 'The Film (1999).mp4'; ls";

/// `Emby.Server.Implementations/Library/LibraryManager.cs`, `DeleteItem`: the folder with all that is in it.
const DELETE: &str = "rm -r 'Films/Second Film (2001)'; find Films | sort";

#[tokio::test(flavor = "multi_thread")]
async fn films_with_their_metadata_beside_them() -> Result<()> {
    let mut shelf = Shelf::start(JELLYFIN).await?;
    media::film(&shelf.given)?;
    media::covers(&shelf.given)?;
    for (name, script) in [
        ("import", IMPORT),
        ("scan", SCAN),
        ("probe", PROBE),
        ("nfo and poster", NFO),
        ("subtitles", SUBTITLES),
        ("trickplay", TRICKPLAY),
        ("rename", RENAME),
        ("delete", DELETE),
        ("last scan", SCAN),
    ] {
        shelf.step(name, script).await?;
    }
    for step in ["scan", "probe", "last scan"] {
        let asked = shelf.cost(step);
        ensure!(asked.get + asked.head == 0, "{step}: {asked:?}");
    }
    shelf.finish().await
}
