//! Metrics, logs and traces: their names and their setup. Locks and random numbers that all crates share.
//!
//! Components count for themselves and register from [`names`]. This module has the metrics of no
//! component, and the parts that put everything together: [`logging`] for standard error,
//! [`exposition`] for `/metrics`.

pub mod amplification;
pub mod exposition;
pub mod locks;
pub mod logging;
pub mod metric;
pub mod names;
pub mod process;
pub mod progress;
pub mod random;
pub mod sharded;
pub mod trace;

pub use exposition::Exposition;
pub use logging::Logging;
pub use metric::{Metric, MetricKind};
