//! The HTTP frontend over sockets, on the real engine and stores with an origin in memory.

mod access;
mod answers;
mod change;
mod draft;
mod early;
mod encoded;
#[expect(dead_code, reason = "other suites ask more of it")]
#[path = "../../crates/engine/tests/support/engine.rs"]
mod engine;
mod gateway;
mod headers;
mod limits;
mod publish;
mod purge;
mod random_ranges;
mod ranges_and_conditions;
mod renamed;
mod variants;
mod write;
