//! The allocator of the process: jemalloc, which gives freed pages back at once (ADR 0030).
//!
//! glibc keeps freed chunks in its arenas between smaller blocks that live, so that the process outgrows `cache.memory`
//! and `cache.budget`. jemalloc by itself keeps them for seconds, with the same outcome: the memory that a flood of
//! cold reads frees meanwhile has no bound.

use tikv_jemalloc_ctl::{Access as _, AsName as _};
use tikv_jemallocator::Jemalloc;
use tracing::warn;

#[global_allocator]
static GLOBAL: Jemalloc = Jemalloc;

/// The settings for the time that freed pages are kept, in milliseconds: of new arenas, and of the existing one.
const DECAY_SETTINGS: [&str; 2] = ["arenas.dirty_decay_ms\0", "arena.0.dirty_decay_ms\0"];

/// Makes freed pages go back to the system at once. Called before there are threads: each arena keeps the setting that
/// it was made with.
pub(in crate::app) fn set_up() {
    for name in DECAY_SETTINGS {
        if let Err(error) = name.name().write(0_isize) {
            warn!(%error, name, "freed memory goes back to the system later than it should");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_pages_are_not_kept() {
        set_up();
        for name in DECAY_SETTINGS {
            let kept: isize = name.name().read().expect("it is known");
            assert_eq!(kept, 0, "{name}");
        }
    }
}
