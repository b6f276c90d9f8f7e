//! Asks others about requests, for an access that cannot decide alone: the keys of JWTs ([`KeySource`]), and a server of
//! the operator's ([`AuthServer`]).
//!
//! Each of them is bounded in time, in bytes, in what it keeps and in how often it is asked. No redirect is followed.

mod client;
#[cfg(test)]
mod fake_server;
mod keys;
mod memo;
mod metrics;
mod server;

pub use client::ClientError;
pub use keys::{FileKeys, JwksLocation, KeyFileError, KeySource, PreparedKeys};
pub use metrics::Metrics;
pub use server::{Answer, AuthServer, AuthSettings, Question, read_answer};
