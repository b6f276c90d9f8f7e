//! Every metric, declared once: name, type, labels, help. Components build and register their own from
//! these; [`list`](super::list) has all of them in the order of `docs/METRICS.md`.
//!
//! Names are without the `tidegate_` prefix and without the `_total` suffix, which the registry and
//! the encoder add. Their unit, a base unit, is part of them: `_seconds`, `_bytes`, `_ratio`.

mod engine;
mod frontends;
mod metadata;
mod origin;
mod process;
mod store;
mod write;

pub use engine::*;
pub use frontends::*;
pub use metadata::*;
pub use origin::*;
pub use process::*;
pub use store::*;
pub use write::*;
