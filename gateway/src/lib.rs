//! Tidegate: an HTTP media gateway with tiered caching in front of S3.
//!
//! This package is the binary: [`app`] builds every part from the configuration and ends it in order, [`cli`] is the
//! command line, [`doctor`] measures a machine. The parts are crates of their own, below `gateway/crates/`;
//! `docs/ARCHITECTURE.md` says what each does.

pub mod app;
pub mod cli;
#[cfg(feature = "demo")]
pub mod demo;
pub mod doctor;
#[cfg(feature = "demo")]
pub mod embedded;
mod link;
mod secrets;
mod tls;
