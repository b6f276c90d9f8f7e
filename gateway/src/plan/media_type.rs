//! Media types that may be guessed for an object that is stored without one.
//!
//! An application that stores an upload as `application/octet-stream` may do so for safety: a browser
//! downloads it and runs nothing. A guess by the key's ending must not undo that, so by default only
//! passive types are guessed: a browser shows them and runs no script of theirs.

/// The types that are guessed from a key's ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GuessTypes {
    /// Types that no browser runs scripts of, see [`is_passive`].
    #[default]
    Passive,
    /// Every type that is known.
    All,
    /// None.
    Off,
}

impl GuessTypes {
    /// Whether an object that is stored without a type may be answered as `kind`.
    #[must_use]
    pub fn allows(self, kind: &str) -> bool {
        match self {
            Self::Passive => is_passive(kind),
            Self::All => true,
            Self::Off => false,
        }
    }
}

/// Whether a stored type (without parameters) tells nothing of the object: it is empty, or one of the
/// two octet-streams that stores make up.
#[must_use]
pub fn says_nothing(kind: &str) -> bool {
    kind.is_empty()
        || kind.eq_ignore_ascii_case("application/octet-stream")
        || kind.eq_ignore_ascii_case("binary/octet-stream")
}

/// Whether no browser runs scripts of a document of this type: images but SVG, audio, video, PDF, fonts,
/// plain text. Anything in XML is active, whatever it stands for.
#[must_use]
pub fn is_passive(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    let Some((class, name)) = kind.split_once('/') else {
        return false;
    };
    match class {
        "image" | "audio" | "video" | "font" => !name.contains("xml") && !name.starts_with("svg"),
        "text" => name == "plain",
        "application" => name == "pdf",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
