//! The sections of the console that have a live part.

use serde::Deserialize;

/// The sections that have a live part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Section {
    Now,
    Streams,
    Tiers,
    Writes,
    Events,
    Doctor,
}

/// All of them.
pub(crate) const ALL: [Section; 6] = [
    Section::Now,
    Section::Streams,
    Section::Tiers,
    Section::Writes,
    Section::Events,
    Section::Doctor,
];

impl Section {
    /// Returns its name in the address of its live part.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Streams => "streams",
            Self::Tiers => "tiers",
            Self::Writes => "writes",
            Self::Events => "events",
            Self::Doctor => "doctor",
        }
    }
}
