//! How fast memory is copied: what every byte costs that is not handed on as it is.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::Progress;
use tidegate_plan::diagnosis::Rate;

/// Larger than the caches of most processors.
const SIZE: usize = 64 << 20;

/// Copying varies little: longer would not be more precise.
const LONG_ENOUGH: Duration = Duration::from_millis(500);

/// The rate of one thread.
pub(super) async fn measure(time: Duration, progress: &mut Progress) -> anyhow::Result<Rate> {
    progress.begin("memory: copying");
    let time = time.min(LONG_ENOUGH);
    let rate = tokio::task::spawn_blocking(move || copy(time)).await;
    Ok(progress.end(rate)?)
}

fn copy(time: Duration) -> Rate {
    let (from, mut to) = (vec![1u8; SIZE], vec![2u8; SIZE]);
    let (began, mut bytes) = (Instant::now(), 0);
    while bytes == 0 || began.elapsed() < time {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        bytes += SIZE as u64;
    }
    Rate::new(bytes, began.elapsed())
}
