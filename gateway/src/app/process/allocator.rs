//! The allocator of the process: jemalloc, which gives freed pages back at once, but for a second's small ones on threads
//! that answer clients (ADR 0030).
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

/// The size in bytes from which a piece is no longer small: below a chunk, above the buffers of a connection.
const MIN_LARGE: usize = 128 << 10;
/// How long pages of freed small pieces are kept, in milliseconds.
const KEPT_MILLIS: isize = 1000;

/// Makes this thread's arena keep the pages of small pieces for [`KEPT_MILLIS`]. Called at the start of each thread that
/// answers clients: every connection allocates and frees its own buffers, and each page that goes back to the system
/// interrupts all processors. Pieces from [`MIN_LARGE`] on come from an arena of their own, which keeps nothing.
pub(in crate::app) fn keep_small() {
    let set = || {
        let arena: u32 = "thread.arena\0".name().read()?;
        // First this one: no large piece is kept at any time.
        let large = format!("arena.{arena}.oversize_threshold\0");
        large.name().write(MIN_LARGE)?;
        let decay = format!("arena.{arena}.dirty_decay_ms\0");
        decay.name().write(KEPT_MILLIS)
    };
    if let Err(error) = set() {
        warn!(%error, "a thread gives freed memory back sooner than it should");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_for_clients_keeps_small_pages_and_no_large_ones() {
        let kept = std::thread::spawn(|| {
            keep_small();
            let arena: u32 = "thread.arena\0".name().read()?;
            let large: usize = format!("arena.{arena}.oversize_threshold\0")
                .name()
                .read()?;
            let decay: isize = format!("arena.{arena}.dirty_decay_ms\0").name().read()?;
            Ok::<_, tikv_jemalloc_ctl::Error>((large, decay))
        });
        let kept = kept
            .join()
            .expect("the thread ends")
            .expect("all are known");
        assert_eq!(kept, (MIN_LARGE, KEPT_MILLIS));
    }

    #[test]
    fn freed_pages_are_not_kept() {
        set_up();
        for name in DECAY_SETTINGS {
            let kept: isize = name.name().read().expect("it is known");
            assert_eq!(kept, 0, "{name}");
        }
    }
}
