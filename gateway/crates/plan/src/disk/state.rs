//! The state of a cache disk.

/// The state of a disk: the operations that it is trusted with now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum DiskState {
    /// Its index is being loaded. The chunks loaded so far are read.
    Loading,
    /// It is read and written.
    Up,
    /// It is written; reads were late or failed.
    Slow,
    /// Writes failed. It is read unless reads fail too.
    Demoted,
    /// It is read; there is no space for more.
    Full,
    /// It was closed in order.
    Closed,
    /// It is switched off.
    Off,
}

impl DiskState {
    /// The states of a disk that is switched on, which `tidegate_store_disk_state` shows.
    pub const SWITCHED_ON: [Self; 6] = [
        Self::Loading,
        Self::Up,
        Self::Slow,
        Self::Demoted,
        Self::Full,
        Self::Closed,
    ];

    /// Returns the state's word in metrics and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Up => "up",
            Self::Slow => "slow",
            Self::Demoted => "demoted",
            Self::Full => "full",
            Self::Closed => "closed",
            Self::Off => "off",
        }
    }

    /// Returns what the gateway does with a disk in this state, in a sentence.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Loading => {
                "Its index is being read: chunks loaded so far are read, and nothing is written."
            }
            Self::Up => "It is read and written.",
            Self::Slow => {
                "Reads were late or failed: nothing is read from it until a probe succeeds. It is still written, unless it is full."
            }
            Self::Demoted => {
                "Writes failed: nothing is written to it until a probe succeeds. It is still read, unless reads fail too."
            }
            Self::Full => {
                "Too little space is left on its file system: it is read, and nothing is written."
            }
            Self::Closed => "It is closed: it is neither read nor written.",
            Self::Off => "An operator has switched it off: it is neither read nor written.",
        }
    }
}
