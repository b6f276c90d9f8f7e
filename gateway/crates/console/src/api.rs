//! `/api/v1/`: the data of the console, as JSON. Times are in seconds, sizes in bytes, and times of day in seconds since
//! 1970.

pub mod access;
pub mod connections;
pub mod doctor;
pub mod errors;
pub mod links;
pub mod now;
pub mod objects;
pub mod openapi;
pub mod origins;
pub mod settings;
pub mod streams;
pub mod tiers;
pub mod writes;

pub use errors::ApiError;
