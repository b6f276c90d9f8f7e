//! The faults and their repair.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::slow_disk::volume::FreezeGuard;
use crate::slow_disk::{Limit, Rates, Volume};

/// The rest of a disk that was cut short, in MiB.
const LEFT_MIB: u64 = 48;
/// A rate in bytes per second at which reading a chunk takes a minute.
const CRAWL: u64 = 4096;

/// A fault of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Another program fills the disk to the last byte.
    Full,
    /// The file system finds an error and turns read-only.
    ReadOnly,
    /// Most of the disk gives EIO for reads and writes.
    Broken,
    /// The disk is unmounted and its device is gone.
    Pulled,
    /// All writes wait.
    HungWrites,
    /// All reads wait, and direct writes too.
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

    /// Returns the least length of the fault: the gateway needs up to 13 s to tell a hung write
    /// from a long one.
    pub(super) const fn is_noticed_within(self) -> Duration {
        Duration::from_secs(if matches!(self, Self::HungWrites) {
            13
        } else {
            0
        })
    }

    /// Tells whether the fault can end without a new mount.
    pub(super) const fn can_be_mended(self) -> bool {
        matches!(self, Self::Full | Self::HungWrites | Self::HungReads)
    }
}

/// A disk with a fault.
#[derive(Debug)]
pub(super) struct FaultyDisk {
    fault: Fault,
    filler: Option<PathBuf>,
    frozen: Option<FreezeGuard>,
}

impl FaultyDisk {
    /// Causes the fault on `volume`, whose directory `cache` is in use.
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
            // The kernel's cached pages of these files would hide the fault from readers.
            Volume::forget_cached(cache)?;
        }
        Ok(struck)
    }

    /// Undoes the fault as far as possible.
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
