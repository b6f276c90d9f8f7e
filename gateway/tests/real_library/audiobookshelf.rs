//! Audiobookshelf (advplyr/audiobookshelf, 1b46d68).

use anyhow::{Result, ensure};

use crate::media;
use crate::shelf::{AUDIOBOOKSHELF, Shelf};

/// `server/controllers/MiscController.js`, `handleUpload`: the folder of author and title is made, and each file that
/// came in is moved into it from a disk of the server's own.
const UPLOAD: &str = "
    umask 022
    mkdir -p 'Ann Author/First Book' 'Ann Author/Second Book'
    for n in 1 2 3 4 5 6; do
        cp \"$given/$n.mp3\" \"$given/moving\"; touch \"$given/moving\"; mv \"$given/moving\" \"Ann Author/First Book/$n.mp3\"
    done
    cp \"$given/book.m4b\" \"$given/moving\"; touch \"$given/moving\"; mv \"$given/moving\" 'Ann Author/Second Book/book.m4b'";

/// `server/utils/fileUtils.js`, `recurseFiles` and `getFileTimestampsWithIno`: all names, then a `stat` of each.
const SCAN: &str = "find . -type d | sort; find . -type f -printf '%s %p\\n' | sort";

/// `server/scanner/AudioFileScanner.js` by way of `server/utils/prober.js`: ffprobe of each book.
const PROBE: &str = "
    find . -name '*.mp3' -o -name '*.m4b' | sort | while read -r file; do
        ffprobe -v error -print_format json -show_format -show_streams -show_chapters \"$file\"
    done";

/// `server/managers/CoverManager.js`, `uploadCover` and `removeOldCovers`: moved in, and the old one removed.
const COVER: &str = "
    umask 022
    cd 'Ann Author/First Book'
    cp \"$given/other.jpg\" \"$given/moving\"; touch \"$given/moving\"; mv \"$given/moving\" cover.png
    cp \"$given/cover.jpg\" \"$given/moving\"; touch \"$given/moving\"; mv \"$given/moving\" cover.jpg
    ls; unlink cover.png; cksum < cover.jpg";

/// `server/models/LibraryItem.js`, `saveMetadataFile`: cut to nothing and written, then read by the next scan; and
/// `server/scanner/NfoFileScanner.js`, which reads what others have put there.
const METADATA: &str = "
    umask 022
    cd 'Ann Author/First Book'
    for n in 1 2 3; do
        printf '{\\n  \"title\": \"First Book\",\\n  \"edition\": %s\\n}' $n > metadata.json
        cat metadata.json
    done
    printf '<nfo/>\\n' > book.nfo; cat book.nfo";

/// `server/utils/fileUtils.js`, `isWritable`: an empty file is made and removed.
const WRITABLE: &str = "cd 'Ann Author'; : > accessTest; rm accessTest; ls";

/// `server/utils/ffmpegHelpers.js`, `addCoverAndMetadataToFile` and `copyToExisting`: ffmpeg writes a copy beside the
/// track, the track is opened cut to nothing, the copy is written into it, and removed.
const EMBED: &str = "
    umask 022
    cd 'Ann Author/First Book'
    printf ';FFMETADATA1\\ntitle=First Book\\nartist=Ann Author\\n' > \"$given/ffmetadata\"
    for n in 1 2 3 4 5 6; do
        ffmpeg -v error -y -i $n.mp3 -i \"$given/ffmetadata\" -i cover.jpg -map 0:a -map_metadata 1 -map_metadata 0 \\
            -map_chapters 1 -c copy -metadata track=$n -id3v2_version 3 -map 2:v -disposition:v:0 attached_pic \\
            -metadata:s:v title=Cover -bitexact $n.tmp.mp3
        cat $n.tmp.mp3 > $n.mp3
        rm $n.tmp.mp3
        ffprobe -v error -show_entries format_tags:stream=codec_name -of json $n.mp3
    done
    cd '../Second Book'
    ffmpeg -v error -y -i book.m4b -i \"$given/ffmetadata\" -map 0:a -map_metadata 1 -map_metadata 0 -map_chapters 1 \\
        -c copy -f mp4 -bitexact book.tmp.m4b
    cat book.tmp.m4b > book.m4b
    rm book.tmp.m4b
    ffprobe -v error -show_entries format_tags:stream=codec_name -of json book.m4b";

/// Taggers that rename their copy over the book, as most do but Audiobookshelf.
const RENAME_OVER: &str = "
    umask 022
    cd 'Ann Author/Second Book'
    ffmpeg -v error -y -i book.m4b -map 0 -c copy -metadata title=Again -f mp4 -bitexact .book.new
    mv -f .book.new book.m4b
    ffprobe -v error -show_entries format_tags:stream=codec_name -of json book.m4b";

/// `server/managers/AbMergeManager.js`: the tracks are merged by ffmpeg, the first one is copied and the others moved to
/// a disk of the server's own, the whole book is written into the first, which takes its name.
const MERGE: &str = "
    umask 022
    cache=$(mktemp -d)
    cd 'Ann Author/First Book'
    for n in 1 2 3 4 5 6; do echo \"file '$PWD/$n.mp3'\" >> \"$cache/files.txt\"; done
    ffmpeg -v error -y -safe 0 -f concat -i \"$cache/files.txt\" -f mp4 -map 0:a -acodec aac -ac 2 -b:a 64k -bitexact \\
        \"$cache/merged.m4b\"
    cp 1.mp3 \"$cache/1.mp3\"
    for n in 2 3 4 5 6; do mv $n.mp3 \"$cache/$n.mp3\"; done
    cat \"$cache/merged.m4b\" > 1.mp3
    mv 1.mp3 'First Book.m4b'
    rm -r \"$cache\"
    ls; ffprobe -v error -show_entries format=nb_streams,format_name:stream=codec_name -of json 'First Book.m4b'";

/// An author is renamed: users rename the folder, and the next scan finds the book by its number
/// (`server/scanner/LibraryScanner.js`, `findLibraryItemByItemToItemInoMatch`).
const RENAME_AUTHOR: &str = "mv 'Ann Author' 'Ann Other'; find . | sort";

/// `server/controllers/LibraryItemController.js`, `delete` with `hard=1`: the item's folder goes with all that is in it.
const DELETE: &str = "rm -r 'Ann Other/Second Book'; find . | sort";

#[tokio::test(flavor = "multi_thread")]
async fn a_year_of_a_library() -> Result<()> {
    let mut shelf = Shelf::start(AUDIOBOOKSHELF).await?;
    media::tracks(&shelf.given)?;
    media::book(&shelf.given)?;
    media::covers(&shelf.given)?;
    for (name, script) in [
        ("upload", UPLOAD),
        ("scan", SCAN),
        ("probe", PROBE),
        ("scan again", SCAN),
        ("cover", COVER),
        ("metadata.json and nfo", METADATA),
        ("is it writable", WRITABLE),
        ("embed", EMBED),
        ("rename over", RENAME_OVER),
        ("merge", MERGE),
        ("rename the author", RENAME_AUTHOR),
        ("delete", DELETE),
        ("last scan", SCAN),
    ] {
        shelf.step(name, script).await?;
    }
    // Own writes are known: scans and probes ask for nothing, and a renamed folder's bytes stay in the bucket.
    for step in ["scan", "probe", "scan again", "last scan"] {
        let asked = shelf.cost(step);
        ensure!(asked.get + asked.head == 0, "{step}: {asked:?}");
    }
    let renamed = shelf.cost("rename the author");
    ensure!(
        renamed.bytes + renamed.sent == 0 && renamed.copy > 0,
        "{renamed:?}"
    );
    shelf.finish().await
}
