//! A reader's options for its fetches, and the tiers that store what they bring.

use crate::Core;
use tidegate_cache::{Admit, ChunkKey, Lookup, PinId};
use tidegate_plan::profile::DiskUse;
use tidegate_plan::{Client, Profile};
use tidegate_telemetry::locks::Recover as _;

/// A reader's options for its fetches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FetchOptions {
    /// Whether the object may be stored at all.
    pub(crate) storable: bool,
    pub(crate) disk: DiskUse,
    pub(crate) bulk: bool,
    /// No client waits for it: every fetch with a waiting client goes first.
    pub(crate) quiet: bool,
    /// The client for which it is fetched.
    pub(crate) client: Client,
    /// The name of the reader's profile.
    pub(crate) profile: &'static str,
}

impl FetchOptions {
    pub(crate) fn new(profile: &Profile, storable: bool, client: Client) -> Self {
        Self {
            storable,
            disk: profile.disk,
            bulk: profile.bulk,
            quiet: false,
            client,
            profile: profile.name,
        }
    }

    /// Returns the rules of its look-ups of chunks; `patient`: no other source has the chunk.
    pub(crate) fn lookup(&self, patient: bool) -> Lookup {
        Lookup {
            patient,
            bulk: self.bulk,
        }
    }
}

/// Returns the tiers that store a fetched chunk, if any.
pub(crate) fn admission(
    core: &Core,
    key: ChunkKey,
    options: FetchOptions,
    pin: PinId,
) -> Option<Admit> {
    let to_disk = match options.disk {
        DiskUse::Off => false,
        DiskUse::First => true,
        // A pinned object belongs on disk.
        DiskUse::Second if !pin.is_none() => true,
        DiskUse::Second => {
            let index = u64::from(key.index);
            let hash = (key.version.0 as u64).wrapping_add(index.wrapping_mul(GOLDEN_PRIME));
            let mut seen = core.second_use.lock().recover();
            seen.record_use(hash)
        }
    };
    match (options.storable, options.bulk, to_disk) {
        (false, ..) | (true, true, false) => None,
        (true, true, true) => Some(Admit::Disk),
        (true, false, true) => Some(Admit::MemoryAndDisk),
        (true, false, false) if options.disk == DiskUse::Second => Some(Admit::MemoryFirst),
        (true, false, false) => Some(Admit::Memory),
    }
}

/// Spreads chunk numbers over the table of [`AdmissionFilter`](tidegate_plan::admission::AdmissionFilter): the
/// odd number nearest to 2^64 divided by the golden ratio (Knuth, TAOCP 3, 6.4).
const GOLDEN_PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
