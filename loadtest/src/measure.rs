//! The instruments: latencies, CPU time and memory of processes, medians.

pub mod callgrind;
pub mod flow;
pub mod latency;
pub mod process;

pub use flow::Flow;
pub use latency::Latency;
pub use process::{ProcessTree, Usage};

/// Returns the median; of an even number of figures, the mean of the middle two; `None` if there
/// are no figures.
#[must_use]
pub fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Returns the median of the ratios of figures of the same round: a disturbance of one round
/// affects both sides.
#[must_use]
pub fn median_ratio(figures: &[f64], to: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = figures.iter().zip(to).map(|(a, b)| a / b).collect();
    median(&ratios)
}

/// Returns the order of a round, counted from 0, so that each item comes first in its turn.
#[must_use]
pub fn turns<T: Clone>(all: &[T], round: u32) -> Vec<T> {
    let mut order = all.to_vec();
    if !order.is_empty() {
        order.rotate_left(round as usize % all.len());
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_or_the_mean_of_both_middles() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn each_is_first_in_its_turn() {
        let firsts = (0..4).map(|round| turns(&["a", "b", "c"], round)[0]);
        assert_eq!(firsts.collect::<Vec<_>>(), ["a", "b", "c", "a"]);
        assert!(turns::<u8>(&[], 1).is_empty());
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        assert_eq!(
            median_ratio(&[1.0, 20.0, 3.0], &[2.0, 10.0, 3.0]),
            Some(1.0)
        );
    }
}
