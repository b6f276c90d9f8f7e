//! The parts of an object by tier.

use serde::Serialize;
use utoipa::ToSchema;

/// The most runs of one object.
const MAX_RUNS: usize = 200;

/// A run of bytes in the same tiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Run {
    /// Its first byte.
    pub start: u64,
    /// The end, exclusive.
    pub end: u64,
    /// Whether memory has it.
    pub memory: bool,
    /// Whether a disk has it.
    pub disk: bool,
    /// Whether a pin keeps it.
    pub pinned: bool,
}

/// Joins neighbours until at most [`MAX_RUNS`] are left.
pub(super) fn joined(mut runs: Vec<Run>) -> Vec<Run> {
    let join = |pair: &[Run]| {
        let (first, last) = (pair[0], pair[pair.len() - 1]);
        let longer = match last.end - last.start > first.end - first.start {
            true => last,
            false => first,
        };
        Run {
            start: first.start,
            end: last.end,
            ..longer
        }
    };
    while runs.len() > MAX_RUNS {
        runs = runs.chunks(2).map(join).collect();
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_runs_than_a_bar_shows_still_reach_to_the_end_of_the_object() {
        // Of each 100 bytes 60 are in memory.
        let run = |nth: u64, is_held: bool| Run {
            start: nth * 100 + if is_held { 0 } else { 60 },
            end: nth * 100 + if is_held { 60 } else { 100 },
            memory: is_held,
            disk: false,
            pinned: false,
        };
        let runs: Vec<_> = (0..1000)
            .flat_map(|nth| [run(nth, true), run(nth, false)])
            .collect();
        let shown = joined(runs.clone());
        assert!(shown.len() <= MAX_RUNS && shown.len() > MAX_RUNS / 2);
        assert_eq!((shown[0].start, shown[shown.len() - 1].end), (0, 100_000));
        assert!(shown.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(shown.iter().all(|run| run.memory), "most of each is there");
        assert_eq!(joined(runs[..MAX_RUNS].to_vec()), runs[..MAX_RUNS]);
    }
}
