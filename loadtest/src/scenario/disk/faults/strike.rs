//! The faults, and how they are mended where they can be.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::slow_disk::volume::Frozen;
use crate::slow_disk::{Limit, Rates, Volume};

/// What is left of a disk that was cut short, in MiB.
const LEFT_MIB: u64 = 48;
/// Bytes in a second at which a read of a chunk takes a minute.
const CRAWL: u64 = 4096;

/// What befalls a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Another program fills it to the last byte.
    Full,
    /// The file system finds an error in itself and turns read-only.
    ReadOnly,
    /// Most of it gives EIO, read and written.
    Broken,
    /// It is unmounted and its device is gone.
    Pulled,
    /// All that writes waits.
    HungWrites,
    /// All that reads waits, and direct writes do too.
    HungReads,
}

impl Fault {
    pub(super) const ALL: [Self; 6] = [
        Self::Full,
        Self::ReadOnly,
        Self::Broken,
        Self::Pulled,
        Self::HungWrites,
        Self::HungReads,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Full => "full to the last byte",
            Self::ReadOnly => "turned read-only",
            Self::Broken => "EIO",
            Self::Pulled => "pulled",
            Self::HungWrites => "writes hang",
            Self::HungReads => "reads and direct writes hang",
        }
    }

    /// The gateway tells a write that hangs from a long one by now, and any other fault sooner.
    pub(super) const fn is_noticed_within(self) -> Duration {
        Duration::from_secs(if matches!(self, Self::HungWrites) {
            13
        } else {
            0
        })
    }

    /// Whether it passes without a new mount, as far as the kernel is concerned.
    pub(super) const fn can_be_mended(self) -> bool {
        matches!(self, Self::Full | Self::HungWrites | Self::HungReads)
    }
}

/// A disk that something has befallen.
#[derive(Debug)]
pub(super) struct Struck {
    fault: Fault,
    filler: Option<PathBuf>,
    frozen: Option<Frozen>,
}

impl Struck {
    /// Strikes the volume whose directory `cache` is in use.
    pub(super) fn now(
        fault: Fault,
        volume: &mut Volume,
        cache: &Path,
        limit: Option<&Limit>,
    ) -> Result<Self> {
        let (mut filler, mut frozen) = (None, None);
        match fault {
            Fault::Full => filler = Some(volume.fill()?),
            Fault::ReadOnly => volume.turn_read_only()?,
            Fault::Broken => volume.cut_short(LEFT_MIB)?,
            Fault::Pulled => volume.pull()?,
            Fault::HungWrites => frozen = Some(volume.freeze()?),
            Fault::HungReads => {
                let rates = Rates {
                    read: Some(CRAWL),
                    write: Some(CRAWL),
                };
                limit.context("no limit")?.hold(volume, rates)?;
            }
        }
        let struck = Self {
            fault,
            filler,
            frozen,
        };
        if fault != Fault::Pulled && fault != Fault::HungWrites {
            // What the kernel still has of these files would hide the fault from readers.
            Volume::forget_cached(cache)?;
        }
        Ok(struck)
    }

    /// Undoes what can be undone.
    pub(super) fn mend(&mut self, volume: &Volume, limit: Option<&Limit>) -> Result<()> {
        self.frozen = None;
        if let Some(filler) = self.filler.take() {
            std::fs::remove_file(filler)?;
        }
        if self.fault == Fault::HungReads {
            limit.context("no limit")?.hold(volume, Rates::default())?;
        }
        Ok(())
    }
}
