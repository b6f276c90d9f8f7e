//! Why a disk did not take a chunk, or did not give one.

/// Why a chunk was not taken. Nothing is wrong with any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Refusal {
    /// The index is still being loaded.
    Opening,
    /// Writing failed, and is off until a probe succeeds.
    Demoted,
    /// The store is closed.
    Closed,
    /// The file system has less than `min_free` left, or the capacity has no room.
    Full,
    /// Too much waits to be written already.
    Queue,
    /// It is there already; nothing is written twice.
    Present,
    /// Empty, or longer than a chunk may be.
    Size,
}

impl Refusal {
    /// The word for it in metrics.
    pub(in crate::store) fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Demoted => "demoted",
            Self::Closed => "closed",
            Self::Full => "full",
            Self::Queue => "queue",
            Self::Present => "present",
            Self::Size => "size",
        }
    }

    /// Whether the chunk may be taken when it is offered another time.
    pub(in crate::store) fn passes(self) -> bool {
        !matches!(self, Self::Present | Self::Closed | Self::Size)
    }
}

/// Why a chunk that the index names was not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Fault {
    /// Evicted while it was read, or never on the disk because the power went.
    Lost,
    /// Not the bytes that were put in under this key.
    Corrupt,
    /// The system reported an error.
    Error,
    /// Not there within the deadline.
    Late,
}

impl Fault {
    /// The word for it in metrics.
    pub(in crate::store) fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Corrupt => "corrupt",
            Self::Error => "error",
            Self::Late => "late",
        }
    }
}
