//! Fetching: what is under way for the versions that are read, and what starts it.
//!
//! The plain path reads from the disk that has a chunk, and otherwise sends one request to the origin. Four decorators
//! improve it; [`Assists`] leaves each of them out:
//! - `steer`: a chunk on a slow disk comes from the origin ([`steer::Steering`]);
//! - `race`: if a disk is late, the origin is asked as well ([`race::Race`]);
//! - `rescue`: if the origin fails, a slow disk is asked ([`rescue::Rescue`]);
//! - `hedge`: a late request is sent a second time ([`hedge::HedgedRequest`]).

use std::sync::Arc;

pub(crate) mod cursor;
mod disk;
pub(crate) mod flight;
mod hedge;
pub(crate) mod options;
mod origin;
pub(crate) mod origin_rate;
pub(crate) mod part;
mod race;
mod read_ahead;
mod request;
mod rescue;
pub(crate) mod schedule;
mod steer;
mod task;
pub(crate) mod version_fetches;

use disk::DiskFetch;
use hedge::HedgedRequest;
use origin::OriginFetch;
use race::Race;
use request::{PlainRequest, Request};
use rescue::Rescue;
use steer::{DiskPreference, Steer, Steering};
use task::Bring;

/// The largest part that demand asks for in one request. Measured against MinIO, the SDK is as fast as a bare client
/// with 8 MiB, and 1 MiB cost a quarter of the rate.
pub(crate) const MAX_PART: u64 = 8 << 20;

/// The bytes that an open GET requests before the size is known: pictures and documents come whole in this one request,
/// and a reader that goes on in a large object needs these bytes anyway. ADR 0005 has the figures.
pub(crate) const FIRST_REQUEST: u64 = 1 << 20;

/// The decorators of fetches that are in use.
#[derive(Debug, Clone, Copy)]
pub struct Assists {
    /// Asks the origin as well if a disk is late.
    pub race: bool,
    /// Asks a slow disk if the origin fails.
    pub rescue: bool,
    /// Sends a late request a second time.
    pub hedge: bool,
    /// Chooses between disk and origin by their speeds; otherwise a disk is always preferred.
    pub steer: bool,
}

impl Default for Assists {
    fn default() -> Self {
        Self {
            race: true,
            rescue: true,
            hedge: true,
            steer: true,
        }
    }
}

/// The path of every fetch: the plain one, with the decorators in use.
pub(crate) struct Assembly {
    from_origin: Arc<dyn Bring>,
    from_disk: Arc<dyn Bring>,
    requests: Arc<dyn Request>,
    steer: Arc<dyn Steer>,
}

impl Assembly {
    #[rustfmt::skip]
    pub(crate) fn new(assists: Assists) -> Self {
        let mut from_origin: Arc<dyn Bring> = Arc::new(OriginFetch);
        let mut from_disk: Arc<dyn Bring> = Arc::new(DiskFetch);
        let mut requests: Arc<dyn Request> = Arc::new(PlainRequest);
        let mut steer: Arc<dyn Steer> = Arc::new(DiskPreference);
        let rescued = |bring| -> Arc<dyn Bring> { Arc::new(Rescue(bring)) };
        if assists.race { from_disk = Arc::new(Race(DiskFetch)); }
        if assists.rescue { (from_origin, from_disk) = (rescued(from_origin), rescued(from_disk)); }
        if assists.hedge { requests = Arc::new(HedgedRequest(requests)); }
        if assists.steer { steer = Arc::new(Steering); }
        Self { from_origin, from_disk, requests, steer }
    }
}
