//! The duties of every metadata store, and those of a store with a database: it survives restarts,
//! damage and unclean stops.

mod changes;
mod conformance;
mod damage;
pub(crate) mod fixture;
mod model;
mod restarts;
