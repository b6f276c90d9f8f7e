//! A load test that measures tidegate beside its peers, in one run, on the reader's own machine.
//!
//! - [`scenario`] defines the work: which peer reads which objects, how often, and the resulting
//!   figure.
//! - [`peers`] are the measured programs: tidegate, nginx, rclone, MinIO, the simulated cloud. Each
//!   is configured as its own users tune it, and started and stopped by process id.
//! - [`client`] reads over HTTP and hands every byte to a check; [`pattern`] knows the right bytes
//!   of each object at any offset.
//! - [`bare`] is a handler with bodies in memory and nothing else: the floor for hits.
//! - [`tally`] is a proxy between a peer and the bucket that counts requests by kind.
//! - [`wordpress`] is a real WordPress with its database, PHP and nginx, used as a browser would.
//! - [`webdriver`] is a headless Chromium; [`players`] play media in it, in mpv and in VLC.
//! - [`measure`] has the instruments: latencies, CPU time and memory of processes, medians.
//! - [`report`] compares the figures with their targets: a table in the terminal, JSON, HTML.
//!
//! Peers are compared only within one run, in alternating rounds, as ratios: absolute figures hold
//! only for the machine that they were taken on.

pub mod bare;
pub mod bucket;
pub mod child;
pub mod client;
pub mod context;
pub mod file;
pub mod late;
pub mod line;
pub mod measure;
pub mod pattern;
pub mod pausing_proxy;
pub mod peers;
pub mod players;
pub mod progress;
pub mod random;
pub mod reading;
pub mod report;
pub mod scenario;
pub mod slow_disk;
pub mod tally;
pub mod ways;
pub mod webdriver;
pub mod wordpress;
pub mod wrk;
