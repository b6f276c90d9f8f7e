//! Media types: of names, and those that may be guessed for an object that is stored without one.
//!
//! An application may store an upload as `application/octet-stream` for safety: a browser downloads it and runs
//! nothing. A guess by the key's ending must not undo that. So by default only passive types are guessed: a browser
//! shows them and runs no script in them.

/// The types of endings for which the general table is wrong, or has none. All but that of SubStation subtitles, which has
/// no registered one, are in IANA's registry.
const TYPES: [(&str, &str); 16] = [
    ("ass", "text/x-ssa"),
    ("azw3", "application/vnd.amazon.mobi8-ebook"),
    ("cbr", "application/vnd.comicbook-rar"),
    ("cbz", "application/vnd.comicbook+zip"),
    ("eac3", "audio/eac3"),
    ("m2t", "video/mp2t"),
    ("m2ts", "video/mp2t"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4b", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("m4v", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("mts", "video/mp2t"),
    ("ssa", "text/x-ssa"),
    ("ts", "video/mp2t"),
];

/// Types in which a browser runs nothing, though their class could: text that it shows as it is, playlists, subtitles and
/// books.
const OTHER_PASSIVE_TYPES: [&str; 11] = [
    "application/epub+zip",
    "application/pdf",
    "application/vnd.amazon.ebook",
    "application/vnd.amazon.mobi8-ebook",
    "application/vnd.apple.mpegurl",
    "application/x-mobipocket-ebook",
    "application/x-subrip",
    "text/plain",
    "text/vtt",
    "text/x-nfo",
    "text/x-ssa",
];

/// Returns the media type that the ending of a name says, if it is known.
#[must_use]
pub fn of_name(name: &str) -> Option<&'static str> {
    let file = name.rsplit('/').next().unwrap_or(name);
    let ending = file.rsplit_once('.').map(|(_, ending)| ending);
    let is_it =
        |(known, _): &&(&str, &str)| ending.is_some_and(|it| it.eq_ignore_ascii_case(known));
    let own = TYPES.iter().find(is_it).map(|(_, kind)| *kind);
    own.or_else(|| mime_guess::from_path(name).first_raw())
}

/// The types that are guessed from a key's ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)
)]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum GuessTypes {
    // The docs are descriptions in the JSON schema of a configuration. For `Passive` see [`is_passive`].
    /// Types in which browsers run no scripts.
    #[default]
    Passive,
    /// Every type that is known.
    All,
    /// None.
    Off,
}

impl GuessTypes {
    /// Returns whether an object that is stored without a type may be answered as `kind`.
    #[must_use]
    pub fn allows(self, kind: &str) -> bool {
        match self {
            Self::Passive => is_passive(kind),
            Self::All => true,
            Self::Off => false,
        }
    }
}

/// Returns whether a stored type (without parameters) is uninformative: empty, or one of the two octet-streams that
/// stores use as a default.
#[must_use]
pub fn is_uninformative(kind: &str) -> bool {
    kind.is_empty()
        || kind.eq_ignore_ascii_case("application/octet-stream")
        || kind.eq_ignore_ascii_case("binary/octet-stream")
}

/// Returns whether no browser runs scripts in a document of this type: images but SVG, audio, video, playlists, subtitles,
/// fonts, books, plain text. Any XML counts as active.
#[must_use]
pub fn is_passive(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    let Some((class, name)) = kind.split_once('/') else {
        return false;
    };
    match class {
        "image" | "audio" | "video" | "font" => !name.contains("xml") && !name.starts_with("svg"),
        _ => OTHER_PASSIVE_TYPES.contains(&kind.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each with whether it is guessed by default.
    #[test]
    fn names_of_media_have_the_types_that_players_know() {
        let rows = [
            ("hls/0001.ts", "video/mp2t", true),
            ("disc/00001.MTS", "video/mp2t", true),
            ("disc/00001.m2ts", "video/mp2t", true),
            ("hls/index.m3u8", "application/vnd.apple.mpegurl", true),
            ("radio.m3u", "audio/x-mpegurl", true),
            ("song.m4a", "audio/mp4", true),
            ("book.m4b", "audio/mp4", true),
            ("film.m4v", "video/mp4", true),
            ("dash/1.m4s", "video/iso.segment", true),
            ("dash/manifest.mpd", "application/dash+xml", false),
            ("film.mp4", "video/mp4", true),
            ("film.mkv", "video/x-matroska", true),
            ("film.webm", "video/webm", true),
            ("song.mp3", "audio/mpeg", true),
            ("song.flac", "audio/flac", true),
            ("song.opus", "audio/ogg", true),
            ("film.eac3", "audio/eac3", true),
            ("film.vtt", "text/vtt", true),
            ("film.srt", "application/x-subrip", true),
            ("film.de.ass", "text/x-ssa", true),
            ("film.nfo", "text/x-nfo", true),
            ("book.epub", "application/epub+zip", true),
            ("book.azw3", "application/vnd.amazon.mobi8-ebook", true),
            ("book.mobi", "application/x-mobipocket-ebook", true),
            ("comic.cbz", "application/vnd.comicbook+zip", false),
            ("comic.cbr", "application/vnd.comicbook-rar", false),
            ("cover.avif", "image/avif", true),
        ];
        for (name, kind, is_guessed) in rows {
            assert_eq!(of_name(name), Some(kind), "{name}");
            assert_eq!(is_passive(kind), is_guessed, "{name}");
        }
        for name in ["ts", "folder.ts/plain", "m4a.", ".m4b/x", ""] {
            assert_eq!(of_name(name), None, "{name}");
        }
        assert!(TYPES.is_sorted() && OTHER_PASSIVE_TYPES.is_sorted());
    }

    #[test]
    fn passive_is_what_runs_nothing() {
        let passive = [
            "image/jpeg",
            "image/webp",
            "IMAGE/PNG",
            "audio/mpeg",
            "video/mp4",
            "font/woff2",
            "text/plain",
            "application/pdf",
            "application/vnd.apple.mpegurl",
            "text/vtt",
            "application/x-subrip",
            "application/epub+zip",
        ];
        let active = [
            "text/html",
            "application/xhtml+xml",
            "image/svg+xml",
            "image/svg",
            "IMAGE/SVG+XML",
            "audio/xml",
            "text/xml",
            "text/css",
            "text/javascript",
            "application/javascript",
            "application/wasm",
            "application/xml",
            "application/dash+xml",
            "application/ttml+xml",
            "text/x-opml",
            "application/x-shockwave-flash",
            "multipart/related",
            "message/rfc822",
            "",
            "image",
        ];
        for kind in passive {
            assert!(
                is_passive(kind) && GuessTypes::Passive.allows(kind),
                "{kind}"
            );
        }
        for kind in active {
            assert!(
                !is_passive(kind) && !GuessTypes::Passive.allows(kind),
                "{kind}"
            );
            assert!(GuessTypes::All.allows(kind), "{kind}");
        }
        assert!(!GuessTypes::Off.allows("image/jpeg"));
    }
}
