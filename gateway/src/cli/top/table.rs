//! Tables of text: sorted by a column, and written for a pipe.

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::Value;

use super::figures::{part_of, ratio};

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Characters; 0: what the others leave.
    pub(super) width: usize,
    /// Numbers stand at the right.
    pub(super) right: bool,
}

/// A cell: what is shown, and what is sorted by.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    pub(super) shown: String,
    key: Option<f64>,
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Cell>>,
}

/// The order of a table's rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sorting {
    /// The column; `None`: as the gateway lists them.
    pub(super) column: Option<usize>,
    /// The smallest first.
    pub(super) ascending: bool,
}

pub(super) const fn left(title: &'static str, width: usize) -> Column {
    Column {
        title,
        width,
        right: false,
    }
}

pub(super) const fn right(title: &'static str, width: usize) -> Column {
    Column {
        title,
        width,
        right: true,
    }
}

pub(super) fn cell(shown: String, value: &Value) -> Cell {
    Cell {
        shown,
        key: value.as_f64(),
    }
}

/// Returns the cell of a part of a whole in per cent.
pub(super) fn part(part: &Value, whole: &Value) -> Cell {
    cell(part_of(part, whole), &ratio(part, whole))
}

pub(super) fn word(shown: impl Into<String>) -> Cell {
    Cell {
        shown: shown.into(),
        key: None,
    }
}

pub(super) fn rows<'v>(list: &'v Value, row: impl Fn(&'v Value) -> Vec<Cell>) -> Vec<Vec<Cell>> {
    list.as_array().into_iter().flatten().map(row).collect()
}

impl Table {
    /// Returns a table without rows.
    pub(super) fn titled(title: String) -> Self {
        Self {
            title,
            columns: vec![left("", 0)],
            rows: Vec::new(),
        }
    }

    /// Stands for a table that could not be had.
    pub(super) fn missing(title: &str, why: &str) -> Self {
        Self::titled(format!("{title}: missing ({why})"))
    }

    /// Returns the numbers of the rows that contain `filter`, in an order; the case of letters does not matter. Figures that
    /// are not known come last; equal rows stay as they were.
    pub(super) fn arranged(&self, sorting: Sorting, filter: &str) -> Vec<usize> {
        let filter = filter.to_lowercase();
        let contains = |cell: &Cell| cell.shown.to_lowercase().contains(&filter);
        let numbers = 0..self.rows.len();
        let mut numbers: Vec<_> = numbers
            .filter(|number| self.rows[*number].iter().any(contains))
            .collect();
        let Some(column) = sorting.column else {
            return numbers;
        };
        numbers.sort_by(|a, b| {
            let (a, b) = (&self.rows[*a][column], &self.rows[*b][column]);
            match (a.key, b.key) {
                (None, None) => order(a.shown.cmp(&b.shown), !sorting.ascending),
                (None, Some(_)) => Ordering::Greater,
                (Some(_), None) => Ordering::Less,
                (Some(a), Some(b)) => order(a.total_cmp(&b), sorting.ascending),
            }
        });
        numbers
    }

    /// Returns it as text for a pipe: columns as wide as their content, the widest text not cut.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        let widths: Vec<_> = (0..self.columns.len())
            .map(|index| {
                let cells = self.rows.iter().map(|row| row[index].shown.chars().count());
                cells
                    .chain([self.columns[index].title.len()])
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let titles = self.columns.iter().map(|column| column.title);
        let has_titles = self.columns.iter().any(|column| !column.title.is_empty());
        if has_titles && !self.rows.is_empty() {
            self.line(&mut text, &widths, titles);
        }
        for row in &self.rows {
            self.line(
                &mut text,
                &widths,
                row.iter().map(|cell| cell.shown.as_str()),
            );
        }
        text
    }

    fn line<'t>(&self, out: &mut String, widths: &[usize], cells: impl Iterator<Item = &'t str>) {
        let start = out.len();
        for ((cell, column), width) in cells.zip(&self.columns).zip(widths) {
            // Writing to a string does not fail.
            let _ = match column.right {
                true => write!(out, "{cell:>width$}  "),
                false => write!(out, "{cell:<width$}  "),
            };
        }
        let end = out[start..].trim_end().len();
        out.truncate(start + end);
        out.push('\n');
    }
}

fn order(ascending: Ordering, keep: bool) -> Ordering {
    if keep { ascending } else { ascending.reverse() }
}
