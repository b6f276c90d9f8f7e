//! Attacks on the real program: the cost of a hostile client to it and to another client.
//!
//! The program has `memory` and `budget` of 64 MiB and short deadlines. Each attack is a file in `hostile/`. It runs
//! beside a polite client, one attack at a time, so that each has the machine to itself. Each checks the same three
//! promises: the peak of memory ([`target::PROMISE`]), the latency of the polite client ([`siege::Siege::bore`]), and
//! an end by the deadlines ([`target::Target::quiet`]).
#![cfg(target_os = "linux")]

#[path = "hostile/bystander.rs"]
mod bystander;
#[path = "hostile/compressed.rs"]
mod compressed;
#[path = "../crates/origin/tests/support/fake_s3.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod fake_s3;
#[path = "hostile/floods.rs"]
mod floods;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "hostile/many_connections.rs"]
mod many_connections;
#[path = "hostile/missing_keys.rs"]
mod missing_keys;
#[path = "hostile/multi_range.rs"]
mod multi_range;
#[path = "hostile/multiplexed.rs"]
mod multiplexed;
#[path = "hostile/one_byte_ranges.rs"]
mod one_byte_ranges;
#[path = "support/ports.rs"]
mod ports;
#[path = "hostile/siege.rs"]
mod siege;
#[path = "hostile/slow.rs"]
mod slow;
#[path = "hostile/smuggling.rs"]
mod smuggling;
#[path = "hostile/target.rs"]
mod target;
#[path = "hostile/wire.rs"]
mod wire;
