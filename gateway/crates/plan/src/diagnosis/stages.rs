//! The stages from the bucket to a client, and the slowest of them.

use super::{Measurements, Rate};

/// The share of its interface's rate from which an origin has all that the network gives: headers of Ethernet, IP and TCP
/// take 5 % of it, and the measurement varies.
const FULL_NETWORK_SHARE: f64 = 0.85;

/// A stage of the way from the bucket to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// The origin of this name.
    Origin(String),
    /// The network to the origin of this name.
    Network(String),
    /// The disk in this folder.
    Disk(String),
    /// The machine's memory.
    Memory,
    /// The client that was measured, with the network to it.
    Client,
}

/// Returns the stages whose rate is known, from the bucket to the client. Of a disk it is the rate of reads, because no
/// reader waits for its writes.
#[must_use]
pub fn stages(measured: &Measurements) -> Vec<(Stage, Rate)> {
    let origins = measured.origins.iter();
    let origins = origins.map(|origin| (Stage::Origin(origin.name.clone()), origin.best()));
    let networks = measured.networks.iter();
    let networks = networks.filter_map(|one| Some((Stage::Network(one.origin.clone()), one.rate?)));
    let disks = measured.disks.iter();
    let disks = disks.map(|disk| (Stage::Disk(disk.path.clone()), disk.read));
    let memory = (Stage::Memory, measured.memory);
    let client = measured.client.map(|rate| (Stage::Client, rate));
    let stages = origins.chain(networks).chain(disks).chain([memory]);
    stages.chain(client).collect()
}

/// Returns the slowest stage; of equally slow ones the nearest to the client.
///
/// An origin is measured through its network, so it is never faster. Where it takes nearly all of the network's rate, the
/// network is the slowest stage, and not the origin.
pub(super) fn bottleneck(measured: &Measurements) -> (Stage, Rate) {
    let nearest_first = stages(measured).into_iter().rev();
    let slowest = nearest_first.min_by(|one, other| one.1.0.total_cmp(&other.1.0));
    let slowest = slowest.expect("the memory is a stage");
    let Stage::Origin(name) = &slowest.0 else {
        return slowest;
    };
    match measured.network(name).and_then(|network| network.rate) {
        Some(rate) if slowest.1.over(rate) >= FULL_NETWORK_SHARE => {
            (Stage::Network(name.clone()), rate)
        }
        _ => slowest,
    }
}
