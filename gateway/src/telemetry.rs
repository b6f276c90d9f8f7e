//! Metrics and logs: names, and how they are set up.
//!
//! Components count for themselves and register from [`names`]; here is what belongs to none of
//! them, and what puts everything together: [`logging`] for standard error, [`exposition`] for
//! `/metrics`.

pub mod amplification;
pub mod exposition;
pub mod list;
pub mod logging;
pub mod names;
pub mod process;

pub use exposition::Exposition;
pub use logging::Logging;
