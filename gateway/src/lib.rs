//! Tidegate: an HTTP media gateway with tiered caching in front of S3.
//!
//! The tree is the architecture; imports point one way only (`plan <- origin, store <- engine <- http, fuse, admin <-
//! app`), which `tests/layers.rs` checks.
//!
//! - [`plan`] decides and never acts: no I/O, no clock, no randomness of its own.
//! - [`origin`] asks the bucket, checks its answers, and gives up in bounded time.
//! - [`store`] keeps chunks (memory, SSD) and the metadata of each key.
//! - [`engine`] turns "this key, these bytes" into bytes of exactly one version.
//! - [`http`], `fuse` (the feature of that name, on Linux) and [`admin`] are thin frontends over the engine.
//! - [`socket`] accepts connections for `http` and `admin`, and [`telemetry`] has the metrics and logs of all.
//! - [`app`] is the composition root: the only place that names every part.

pub mod app;
pub mod cli;
#[cfg(feature = "demo")]
pub mod demo;
pub mod doctor;
#[cfg(feature = "demo")]
pub mod embedded;
