//! The engine on a fake bucket and fake stores, under a clock that the test controls.

mod ahead;
mod change;
mod cold;
mod events;
mod fairness;
mod flights;
mod folder_prefetch;
mod freshness;
mod names;
mod parts;
mod purges;
mod reference_model;
mod stress;
#[expect(dead_code, reason = "suites of other crates ask more of it")]
#[path = "../support/engine.rs"]
mod support;
mod tiers;
mod variants;
mod waits;
