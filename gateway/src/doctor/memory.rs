//! The speed of copying memory: the cost of every byte that is not handed on without a copy.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::Progress;
use tidegate_plan::diagnosis::Rate;

/// The size of the copied block: larger than the caches of most processors.
const COPY_SIZE: usize = 64 << 20;

/// The longest time: copying varies little, so more would not be more precise.
const MAX_COPY_TIME: Duration = Duration::from_millis(500);

/// Measures the rate of one thread.
pub(super) async fn measure(time: Duration, progress: &mut Progress) -> anyhow::Result<Rate> {
    progress.begin("memory: copying");
    let time = time.min(MAX_COPY_TIME);
    let rate = tokio::task::spawn_blocking(move || copy(time)).await;
    Ok(progress.end(rate)?)
}

fn copy(time: Duration) -> Rate {
    let (from, mut to) = (vec![1u8; COPY_SIZE], vec![2u8; COPY_SIZE]);
    let (began, mut bytes) = (Instant::now(), 0);
    while bytes == 0 || began.elapsed() < time {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        bytes += COPY_SIZE as u64;
    }
    Rate::new(bytes, began.elapsed())
}
