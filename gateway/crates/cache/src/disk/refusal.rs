//! The reasons why a disk did not take a chunk, or did not return one.

/// The reason why a chunk was not taken. None of them is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The index is still being loaded.
    Opening,
    /// Writing failed, and is off until a probe succeeds.
    Demoted,
    /// The store is closed.
    Closed,
    /// The file system has less than `min_free` left, or the capacity has no room.
    Full,
    /// The queue is full.
    QueueFull,
    /// The chunk is there already; nothing is written twice.
    Present,
    /// The chunk is empty, or longer than allowed.
    Size,
}

impl Refusal {
    /// All of them.
    pub(crate) const ALL: [Self; 7] = [
        Self::Opening,
        Self::Demoted,
        Self::Closed,
        Self::Full,
        Self::QueueFull,
        Self::Present,
        Self::Size,
    ];

    /// Returns the reason's word in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Demoted => "demoted",
            Self::Closed => "closed",
            Self::Full => "full",
            Self::QueueFull => "queue",
            Self::Present => "present",
            Self::Size => "size",
        }
    }

    /// Returns whether the chunk may be taken if it is offered again.
    pub(crate) fn is_transient(self) -> bool {
        !matches!(self, Self::Present | Self::Closed | Self::Size)
    }
}

/// The reason why a chunk in the index was not returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It was evicted during the read, or a power cut lost it.
    Lost,
    /// The bytes are not those that were put in under this key.
    Corrupt,
    /// The system reported an error.
    Error,
    /// It was not there within the deadline.
    Late,
}

impl Fault {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Lost, Self::Corrupt, Self::Error, Self::Late];

    /// Returns the fault's word in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Corrupt => "corrupt",
            Self::Error => "error",
            Self::Late => "late",
        }
    }
}
