//! The order, rate and repetition of requests.

mod client;
pub mod lanes;
pub mod pacer;
pub mod retry;

pub use client::Client;
