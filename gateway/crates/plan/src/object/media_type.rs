//! Media types that may be guessed for an object that is stored without one.
//!
//! An application may store an upload as `application/octet-stream` for safety: a browser downloads it and runs
//! nothing. A guess by the key's ending must not undo that. So by default only passive types are guessed: a browser
//! shows them and runs no script in them.

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

/// Returns whether no browser runs scripts in a document of this type: images but SVG, audio, video, PDF, fonts, plain
/// text. Any XML counts as active.
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
