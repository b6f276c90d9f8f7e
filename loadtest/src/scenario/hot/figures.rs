//! The figures of all starts.

use std::collections::BTreeMap;

use super::case::Case;
use crate::measure::median;
use crate::report::terminal::figure;
use crate::report::{Plot, Report};
use crate::wrk::WrkResult;

/// The figures of all peers and cases.
#[derive(Debug, Default)]
pub(super) struct Figures(Vec<Series>);

/// The figures of one peer in one case, by the round of the start. A peer that has given up in a round has none of it.
#[derive(Debug)]
pub(super) struct Series {
    peer: &'static str,
    case: Case,
    rounds: BTreeMap<u32, WrkResult>,
}

impl Series {
    fn all(&self, of: fn(&WrkResult) -> f64) -> Vec<f64> {
        self.rounds.values().map(of).collect()
    }

    /// Returns the ratios of a figure in the rounds that both have.
    fn ratios(&self, other: &Self, of: fn(&WrkResult) -> f64) -> BTreeMap<u32, f64> {
        let ratio = |(round, own): (&u32, &WrkResult)| {
            let other = other.rounds.get(round)?;
            Some((*round, of(own) / of(other)))
        };
        self.rounds.iter().filter_map(ratio).collect()
    }

    /// Returns the median of the ratios of requests a second.
    pub(super) fn rate_over(&self, other: &Self) -> f64 {
        middle(&self.ratios(other, rate))
    }

    /// Returns the least of these ratios.
    pub(super) fn worst_rate_over(&self, other: &Self) -> f64 {
        let ratios = self.ratios(other, rate).into_values();
        ratios.reduce(f64::min).unwrap_or(f64::NAN)
    }

    /// Returns the median of the ratios of CPU time a request.
    pub(super) fn cpu_over(&self, other: &Self) -> f64 {
        middle(&self.ratios(other, cpu))
    }

    /// Returns the largest of these ratios.
    pub(super) fn worst_cpu_over(&self, other: &Self) -> f64 {
        let ratios = self.ratios(other, cpu).into_values();
        ratios.reduce(f64::max).unwrap_or(f64::NAN)
    }
}

fn rate(found: &WrkResult) -> f64 {
    found.rate
}

fn cpu(found: &WrkResult) -> f64 {
    found.cpu_micros
}

fn middle(ratios: &BTreeMap<u32, f64>) -> f64 {
    let ratios: Vec<_> = ratios.values().copied().collect();
    median(&ratios).unwrap_or(f64::NAN)
}

impl Figures {
    pub(super) fn add(
        &mut self,
        peer: &'static str,
        (case, round): (&Case, u32),
        found: WrkResult,
    ) {
        let known = |one: &Series| one.peer == peer && one.case == *case;
        let at = self.0.iter().position(known).unwrap_or_else(|| {
            self.0.push(Series {
                peer,
                case: *case,
                rounds: BTreeMap::new(),
            });
            self.0.len() - 1
        });
        self.0[at].rounds.insert(round, found);
    }

    pub(super) fn of(&self, peer: &str, case: &Case) -> Option<&Series> {
        self.0
            .iter()
            .find(|one| one.peer == peer && one.case == *case)
    }

    /// Adds the table of one case, a picture, and every figure. `over` is the peer that the others are divided by.
    pub(super) fn report(&self, report: &mut Report, case: &Case, peers: &[&str], over: &str) {
        let reference = self.of(over, case);
        let ratio = |of: fn(&Series, &Series) -> f64, one| {
            reference.map_or_else(|| "-".to_owned(), |reference| figure(of(one, reference)))
        };
        let mut plot = Plot::starts(format!("{case}: requests/s over {over}, start by start"));
        let mut rows = vec![];
        for one in peers.iter().filter_map(|peer| self.of(peer, case)) {
            let middle = |of| median(&one.all(of)).map_or_else(|| "-".to_owned(), figure);
            rows.push(vec![
                one.peer.to_owned(),
                middle(rate),
                ratio(Series::rate_over, one),
                ratio(Series::worst_rate_over, one),
                middle(cpu),
                ratio(Series::cpu_over, one),
                ratio(Series::worst_cpu_over, one),
            ]);
            if let Some(reference) = reference {
                let ratios = one.ratios(reference, rate).into_iter();
                let points = ratios.map(|(round, ratio)| (f64::from(round + 1), ratio));
                plot.line(one.peer, points.collect());
            }
            report.series(one.peer, &format!("{case}: requests/s"), &one.all(rate));
            let title = format!("{case}: CPU µs a request");
            report.series(one.peer, &title, &one.all(cpu));
        }
        let starts = reference.map_or(0, |series| series.rounds.len());
        let title = format!("{case}, hot: medians of {starts} starts");
        let divided = format!("over {over}");
        let columns = [
            "peer",
            "requests/s",
            &divided,
            "the worst",
            "CPU µs/request",
            &divided,
            "the worst",
        ];
        report.table(title, &columns, rows);
        report.plot(plot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_one_start_and_the_worst_is_kept() {
        let (mut figures, case) = (Figures::default(), Case::new(35, 64));
        // nginx has given up in the third round.
        let rounds = [
            (90.0, Some(100.0)),
            (50.0, Some(50.0)),
            (1.0, None),
            (30.0, Some(40.0)),
        ];
        for (round, (own, other)) in (0..).zip(rounds) {
            for (peer, rate) in [("tidegate", Some(own)), ("nginx", other)] {
                let Some(rate) = rate else { continue };
                let cpu_micros = 1e6 / rate;
                figures.add(peer, (&case, round), WrkResult { rate, cpu_micros });
            }
        }
        let (own, other) = (figures.of("tidegate", &case), figures.of("nginx", &case));
        let (own, other) = (own.expect("added"), other.expect("added"));
        assert_eq!(own.rate_over(other), 0.9);
        assert_eq!(own.worst_rate_over(other), 0.75);
        assert!(own.cpu_over(other) > 1.1);
        assert!(own.worst_cpu_over(other) > 1.3);
        let mut report = Report::new("hot");
        figures.report(
            &mut report,
            &case,
            &["tidegate", "nginx", "absent"],
            "nginx",
        );
        assert_eq!(report.tables[0].rows.len(), 2);
        assert_eq!(report.plots[0].lines.len(), 2);
    }
}
