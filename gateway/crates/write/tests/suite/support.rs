//! Writers over the fake bucket, the engine below them, and numbers drawn from a seed.

#[path = "../../../engine/tests/support/draw.rs"]
pub(crate) mod draw;
#[expect(dead_code, reason = "the suites of the engine ask more of it")]
#[path = "../../../engine/tests/support/engine.rs"]
pub(crate) mod engine;
#[path = "../support/spool.rs"]
pub(crate) mod spool;
