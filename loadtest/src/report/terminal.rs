//! A report as text with aligned columns.

use std::fmt::Write as _;

use super::{Check, Report, Table, Target, Weight};

/// Renders a report for a terminal: tables, then each figure beside its target.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut out = format!("\n== {} ==\n", report.scenario);
    for table in &report.tables {
        out.push_str(&render_table(table));
    }
    if !report.checks.is_empty() {
        out.push_str(&render_table(&Table {
            title: "targets".to_owned(),
            columns: ["figure", "found", "target", ""]
                .map(str::to_owned)
                .to_vec(),
            rows: report.checks.iter().map(check_row).collect(),
        }));
    }
    for note in &report.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

fn check_row(check: &Check) -> Vec<String> {
    let verdict = match (check.reached(), check.weight) {
        (true, _) => "reached",
        (false, Weight::Speed) => "missed",
        (false, Weight::Correctness) => "WRONG",
    };
    vec![
        check.figure.clone(),
        figure(check.found),
        target(check.target),
        verdict.to_owned(),
    ]
}

/// Returns a target in words.
#[must_use]
pub fn target(target: Target) -> String {
    match target {
        Target::AtMost(most) => format!("at most {}", figure(most)),
        Target::AtLeast(least) => format!("at least {}", figure(least)),
    }
}

/// Formats a figure with a suitable number of digits.
#[must_use]
pub fn figure(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

fn render_table(table: &Table) -> String {
    let width = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        let head = table.columns[column].chars().count();
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
            .max(head)
    };
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let mut out = format!("\n{}\n", table.title);
    for row in std::iter::once(&table.columns).chain(&table.rows) {
        let cells = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| {
                if column == 0 {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
        let line = cells.collect::<Vec<_>>().join("   ");
        let _ = writeln!(out, "  {}", line.trim_end());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_a_wrong_figure_stands_out() {
        let mut report = Report::new("herd");
        report.must("wrong bodies", 3.0, Target::AtMost(0.0));
        report.aim("requests over nginx", 0.912_34, Target::AtLeast(0.8));
        let expected = [
            "",
            "== herd ==",
            "",
            "targets",
            "  figure                found           target",
            "  wrong bodies              3        at most 0     WRONG",
            "  requests over nginx   0.912   at least 0.800   reached",
            "",
        ];
        assert_eq!(render(&report).split('\n').collect::<Vec<_>>(), expected);
    }
}
