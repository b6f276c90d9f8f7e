//! The cached share of a range.

use crate::Core;
use tidegate_cache::{ChunkKey, Tier};
use tidegate_plan::{ByteRange, VersionId};

/// The cached share of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// All of it; holds the slowest tier in which it lies.
    All(Tier),
    /// Some of it.
    Some,
    /// None of it.
    Nothing,
}

impl Coverage {
    /// Returns the place that the range comes from, in a word: `memory`, `disk` or `origin`.
    #[must_use]
    pub fn place(self) -> &'static str {
        match self {
            Self::All(Tier::Memory) => "memory",
            Self::All(Tier::Disk) => "disk",
            Self::Some | Self::Nothing => "origin",
        }
    }
}

/// The maximum number of chunks looked up to tell whether a range is cached. Beyond them (64 MiB at the default size)
/// the first ones stand for the rest.
const MAX_LOCATED: usize = 256;

/// Tells how much of a range of a version is cached, and in which tier.
pub(crate) fn locate(core: &Core, version: VersionId, range: ByteRange) -> Coverage {
    let (mut found, mut missing, mut tier) = (false, false, Tier::Memory);
    for index in core.geometry.span(range).take(MAX_LOCATED) {
        match core.chunks.locate(&ChunkKey { version, index }) {
            Some(at) => {
                found = true;
                tier = if at == Tier::Disk { at } else { tier };
            }
            None => missing = true,
        }
    }
    match (found, missing) {
        (_, false) => Coverage::All(tier),
        (true, true) => Coverage::Some,
        (false, true) => Coverage::Nothing,
    }
}
