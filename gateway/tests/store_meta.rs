//! The duties of every metadata store, and those of a store with a database: it survives restarts,
//! damage and unclean stops.

#[path = "store_meta/changes.rs"]
mod changes;
#[path = "store_meta/conformance.rs"]
mod conformance;
#[path = "store_meta/damage.rs"]
mod damage;
#[path = "store_meta/fixture.rs"]
mod fixture;
#[path = "store_meta/model.rs"]
mod model;
#[path = "store_meta/restarts.rs"]
mod restarts;
