//! What every metadata store must do, and what only one with a database can: survive restarts,
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
