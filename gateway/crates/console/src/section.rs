//! The sections of the console that have a live part.

use serde::Deserialize;

/// The path of the live parts.
pub(crate) const LIVE_PATH: &str = "/console/live";

/// The sections that have a live part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Section {
    Now,
    Streams,
    Objects,
    Tiers,
    Writes,
    Events,
    Doctor,
    /// Sent with `Now`, and as a part of its own because it changes more rarely.
    #[serde(skip)]
    Charts,
}

/// All of them.
pub(crate) const ALL: [Section; 8] = [
    Section::Now,
    Section::Streams,
    Section::Objects,
    Section::Tiers,
    Section::Writes,
    Section::Events,
    Section::Doctor,
    Section::Charts,
];

impl Section {
    /// Returns its name in the address of its live part.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Streams => "streams",
            Self::Objects => "objects",
            Self::Tiers => "tiers",
            Self::Writes => "writes",
            Self::Events => "events",
            Self::Doctor => "doctor",
            Self::Charts => "charts",
        }
    }

    /// Returns the section that a reader of this one gets beside it.
    pub(crate) fn beside(self) -> Option<Self> {
        (self == Self::Now).then_some(Self::Charts)
    }

    /// Returns whether a reader can ask for it by itself.
    pub(crate) fn can_be_asked_for(self) -> bool {
        self != Self::Charts
    }
}
