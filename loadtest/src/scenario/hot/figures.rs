//! The figures of all starts.

use super::case::Case;
use crate::measure::{median, median_ratio};
use crate::report::terminal::figure;
use crate::report::{Plot, Report};
use crate::wrk::Found;

/// The figures of all peers and cases.
#[derive(Debug, Default)]
pub(super) struct Figures(Vec<Series>);

/// The figures of one peer in one case, in the order of the starts.
#[derive(Debug)]
pub(super) struct Series {
    peer: &'static str,
    case: Case,
    rates: Vec<f64>,
    cpu_micros: Vec<f64>,
}

impl Series {
    /// Returns the median of the ratios of requests a second.
    pub(super) fn rate_over(&self, other: &Self) -> f64 {
        median_ratio(&self.rates, &other.rates).unwrap_or(f64::NAN)
    }

    /// Returns the least of these ratios.
    pub(super) fn worst_rate_over(&self, other: &Self) -> f64 {
        let ratios = self
            .rates
            .iter()
            .zip(&other.rates)
            .map(|(own, other)| own / other);
        ratios.reduce(f64::min).unwrap_or(f64::NAN)
    }

    /// Returns the median of the ratios of CPU time a request.
    pub(super) fn cpu_over(&self, other: &Self) -> f64 {
        median_ratio(&self.cpu_micros, &other.cpu_micros).unwrap_or(f64::NAN)
    }
}

impl Figures {
    pub(super) fn add(&mut self, peer: &'static str, case: &Case, found: Found) {
        let known = |one: &Series| one.peer == peer && one.case == *case;
        let at = self.0.iter().position(known).unwrap_or_else(|| {
            self.0.push(Series {
                peer,
                case: *case,
                rates: vec![],
                cpu_micros: vec![],
            });
            self.0.len() - 1
        });
        self.0[at].rates.push(found.rate);
        self.0[at].cpu_micros.push(found.cpu_micros);
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
            let middle = |values: &[f64]| median(values).map_or_else(|| "-".to_owned(), figure);
            rows.push(vec![
                one.peer.to_owned(),
                middle(&one.rates),
                ratio(Series::rate_over, one),
                ratio(Series::worst_rate_over, one),
                middle(&one.cpu_micros),
                ratio(Series::cpu_over, one),
            ]);
            if let Some(reference) = reference {
                let ratios = one.rates.iter().zip(&reference.rates).enumerate();
                let points = ratios.map(|(start, (own, other))| ((start + 1) as f64, own / other));
                plot.line(one.peer, points.collect());
            }
            report.series(one.peer, &format!("{case}: requests/s"), &one.rates);
            report.series(
                one.peer,
                &format!("{case}: CPU µs a request"),
                &one.cpu_micros,
            );
        }
        let title = format!("{case}, hot: medians of {} starts", rows_of(reference));
        let divided = format!("over {over}");
        let columns = [
            "peer",
            "requests/s",
            &divided,
            "the worst",
            "CPU µs/request",
            &divided,
        ];
        report.table(title, &columns, rows);
        report.plot(plot);
    }
}

fn rows_of(series: Option<&Series>) -> usize {
    series.map_or(0, |series| series.rates.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_one_start_and_the_worst_is_kept() {
        let (mut figures, case) = (Figures::default(), Case::new(35, 64));
        for (own, other) in [(90.0, 100.0), (50.0, 50.0), (30.0, 40.0)] {
            for (peer, rate) in [("tidegate", own), ("nginx", other)] {
                let cpu_micros = 1e6 / rate;
                figures.add(peer, &case, Found { rate, cpu_micros });
            }
        }
        let (own, other) = (figures.of("tidegate", &case), figures.of("nginx", &case));
        let (own, other) = (own.expect("added"), other.expect("added"));
        assert_eq!(own.rate_over(other), 0.9);
        assert_eq!(own.worst_rate_over(other), 0.75);
        assert!(own.cpu_over(other) > 1.1);
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
