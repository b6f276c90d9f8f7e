//! Measures tidegate beside its peers, in one run, on the reader's own machine.
//!
//! - [`scenario`] is what is done: who reads what, how often, and which figure comes out of it.
//! - [`peers`] are who it is done to: tidegate, nginx, rclone, MinIO, the simulated cloud; each
//!   configured as its own users tune it, started and stopped by process id.
//! - [`client`] reads over HTTP and hands every byte to a check; [`pattern`] knows what each byte
//!   of each object must be, so a wrong one is found wherever it stands.
//! - [`tally`] stands between a peer and the bucket and counts what is asked of it, by kind.
//! - [`wordpress`] is a real WordPress with its database, PHP and nginx, driven as a browser does.
//! - [`measure`] has the instruments: latencies, CPU time and memory of processes, medians.
//! - [`report`] holds the figures against their targets: a table in the terminal, and JSON.
//!
//! Peers are compared only within one run, in alternating rounds, as ratios: absolute figures
//! belong to the machine they were taken on.

pub mod bucket;
pub mod child;
pub mod client;
pub mod context;
pub mod file;
pub mod line;
pub mod measure;
pub mod pattern;
pub mod pausing;
pub mod peers;
pub mod progress;
pub mod random;
pub mod reading;
pub mod report;
pub mod scenario;
pub mod slow_disk;
pub mod tally;
pub mod ways;
pub mod wordpress;
pub mod wrk;
