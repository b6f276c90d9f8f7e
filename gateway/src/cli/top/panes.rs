//! The panes: the figures of one subject each, as a table of text.

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::Value;

use super::figures::{bytes, number, part_of, rate, share, text, time};
use super::snapshot::Snapshot;

/// A subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Now,
    Streams,
    Tiers,
    Origins,
    Writes,
}

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

const fn left(title: &'static str, width: usize) -> Column {
    Column {
        title,
        width,
        right: false,
    }
}

const fn right(title: &'static str, width: usize) -> Column {
    Column {
        title,
        width,
        right: true,
    }
}

fn cell(shown: String, value: &Value) -> Cell {
    Cell {
        shown,
        key: value.as_f64(),
    }
}

fn word(shown: impl Into<String>) -> Cell {
    Cell {
        shown: shown.into(),
        key: None,
    }
}

fn rows<'v>(list: &'v Value, row: impl Fn(&'v Value) -> Vec<Cell>) -> Vec<Vec<Cell>> {
    list.as_array().into_iter().flatten().map(row).collect()
}

impl Pane {
    /// All panes, in the order of their keys.
    pub(super) const ALL: [Self; 5] = [
        Self::Now,
        Self::Streams,
        Self::Tiers,
        Self::Origins,
        Self::Writes,
    ];

    /// Returns its name.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Now => "Now",
            Self::Streams => "Streams",
            Self::Tiers => "Tiers",
            Self::Origins => "Origins",
            Self::Writes => "Writes",
        }
    }

    /// Returns its table of a look at the gateway.
    pub(super) fn table(self, snapshot: &Snapshot) -> Table {
        match self {
            Self::Now => now(snapshot.part("now")),
            Self::Streams => streams(&snapshot.part("streams")["streams"]),
            Self::Tiers => tiers(snapshot.part("tiers")),
            Self::Origins => origins(&snapshot.part("origins")["origins"]),
            Self::Writes => writes(snapshot.part("writes")),
        }
    }
}

fn now(now: &Value) -> Table {
    let figures = &now["figures"];
    let quantiles = |of: &Value| {
        let times = ["p50", "p90", "p99"].map(|key| time(&of[key]));
        times.join(" / ")
    };
    let shares = &figures["hit_share"];
    let mut lines = vec![
        (
            "requests",
            format!("{} a second", number(&figures["requests_per_second"])),
        ),
        ("to readers", rate(&figures["bytes_per_second"])),
        ("from buckets", rate(&figures["fetched_bytes_per_second"])),
        (
            "bytes from",
            format!(
                "memory {}, disk {}, bucket {}",
                share(&shares["memory"]),
                share(&shares["disk"]),
                share(&shares["origin"])
            ),
        ),
        ("amplification", number(&figures["amplification"])),
        (
            "first byte",
            format!("{} (p50, p90, p99)", quantiles(&figures["first_byte"])),
        ),
        (
            "stalls, errors",
            format!(
                "{}, {} in {}",
                number(&figures["stalls"]),
                number(&figures["errors"]),
                time(&now["period"])
            ),
        ),
        (
            "under way",
            format!(
                "{} requests, {} connections, {} streams, {} open files",
                number(&now["requests_in_flight"]),
                number(&now["connections"]),
                number(&now["streams"]),
                number(&now["open_files"])
            ),
        ),
        ("memory", bytes(&now["memory"])),
    ];
    lines.extend(troubles(now));
    let row = |(name, value): (&'static str, String)| vec![word(name), word(value)];
    Table {
        title: format!(
            "Tidegate {}, up {}",
            text(&now["version"]),
            time(&now["uptime"])
        ),
        columns: vec![left("", 15), left("", 0)],
        rows: lines.into_iter().map(row).collect(),
    }
}

/// Returns a line for each cause of errors, and for each note of the gateway.
fn troubles(now: &Value) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for cause in now["errors_by_cause"].as_array().into_iter().flatten() {
        lines.push((
            "error",
            format!("{} ({})", text(&cause["cause"]), number(&cause["count"])),
        ));
    }
    for note in now["notes"].as_array().into_iter().flatten() {
        lines.push(("note", text(note)));
    }
    lines
}

fn streams(list: &Value) -> Table {
    let row = |stream: &Value| {
        let waits = stream["waiting"] == true;
        vec![
            cell(rate(&stream["rate"]), &stream["rate"]),
            cell(
                part_of(&stream["position"], &stream["size"]),
                &stream["position"],
            ),
            cell(bytes(&stream["ahead"]), &stream["ahead"]),
            cell(number(&stream["in_flight"]), &stream["in_flight"]),
            word(if waits {
                "waits".to_owned()
            } else {
                text(&stream["tier"])
            }),
            cell(number(&stream["stalls"]), &stream["stalls"]),
            cell(time(&stream["age"]), &stream["age"]),
            word(text(&stream["client"])),
            word(text(&stream["key"])),
        ]
    };
    let rows = rows(list, row);
    Table {
        title: format!("{} streams", rows.len()),
        columns: vec![
            right("RATE", 9),
            right("AT", 5),
            right("AHEAD", 7),
            right("REQ", 3),
            left("FROM", 6),
            right("GAPS", 4),
            right("AGE", 6),
            left("CLIENT", 15),
            left("OBJECT", 0),
        ],
        rows,
    }
}

fn tiers(tiers: &Value) -> Table {
    let (memory, budget) = (&tiers["memory"], &tiers["budget"]);
    let row = |name: &str, state: String, of: &Value| {
        vec![
            word(name),
            word(state),
            cell(bytes(&of["used"]), &of["used"]),
            cell(bytes(&of["capacity"]), &of["capacity"]),
            cell(part_of(&of["used"], &of["capacity"]), &of["used"]),
            cell(share(&of["hit_share"]), &of["hit_share"]),
            cell(time(&of["eviction_age"]), &of["eviction_age"]),
            cell(rate(&of["written_per_second"]), &of["written_per_second"]),
            cell(time(&of["read_time"]), &of["read_time"]),
        ]
    };
    let mut rows = vec![row("memory", "up".to_owned(), memory)];
    let mut reserved = row("budget", "up".to_owned(), budget);
    reserved[2] = cell(bytes(&budget["lent"]), &budget["lent"]);
    reserved[4] = cell(
        part_of(&budget["lent"], &budget["capacity"]),
        &budget["lent"],
    );
    rows.push(reserved);
    for disk in tiers["disks"].as_array().into_iter().flatten() {
        rows.push(row(&text(&disk["path"]), text(&disk["state"]), disk));
    }
    Table {
        title: "Tiers".to_owned(),
        columns: vec![
            left("TIER", 0),
            left("STATE", 7),
            right("USED", 8),
            right("OF", 8),
            right("FILL", 5),
            right("HITS", 5),
            right("EVICTED", 7),
            right("WRITES", 9),
            right("READ", 6),
        ],
        rows,
    }
}

fn origins(list: &Value) -> Table {
    let row = |origin: &Value| {
        let is_open = origin["breaker_open"] == true;
        let median = &origin["first_byte"]["p50"];
        vec![
            word(text(&origin["name"])),
            word(if is_open { "down" } else { "up" }),
            cell(
                number(&origin["requests_per_second"]),
                &origin["requests_per_second"],
            ),
            cell(
                rate(&origin["received_per_second"]),
                &origin["received_per_second"],
            ),
            cell(time(median), median),
            cell(
                time(&origin["first_byte"]["p99"]),
                &origin["first_byte"]["p99"],
            ),
            cell(number(&origin["running"]), &origin["running"]),
            cell(number(&origin["queued"]), &origin["queued"]),
            cell(number(&origin["retries"]), &origin["retries"]),
            cell(number(&origin["cost"]), &origin["cost"]),
        ]
    };
    Table {
        title: "Origins".to_owned(),
        columns: vec![
            left("ORIGIN", 0),
            left("STATE", 5),
            right("REQ/S", 6),
            right("RECEIVED", 9),
            right("P50", 6),
            right("P99", 6),
            right("RUN", 4),
            right("QUEUE", 5),
            right("RETRIES", 7),
            right("COST", 7),
        ],
        rows: rows(list, row),
    }
}

fn writes(writes: &Value) -> Table {
    let row = |draft: &Value| {
        vec![
            word(text(&draft["stage"])),
            cell(bytes(&draft["size"]), &draft["size"]),
            cell(part_of(&draft["sent"], &draft["size"]), &draft["sent"]),
            cell(bytes(&draft["spooled"]), &draft["spooled"]),
            cell(time(&draft["next_try"]), &draft["next_try"]),
            word(text(&draft["key"])),
            word(text(&draft["trouble"])),
        ]
    };
    let spool = &writes["spool"];
    let title = match spool.is_null() {
        true => "Writes: no mount is writable".to_owned(),
        false => format!(
            "Writes: spool {} of {} ({})",
            bytes(&spool["used"]),
            bytes(&spool["size"]),
            part_of(&spool["used"], &spool["size"])
        ),
    };
    Table {
        title,
        columns: vec![
            left("STAGE", 8),
            right("SIZE", 8),
            right("SENT", 5),
            right("SPOOLED", 8),
            right("NEXT", 6),
            left("OBJECT", 0),
            left("TROUBLE", 25),
        ],
        rows: rows(&writes["drafts"], row),
    }
}

impl Table {
    /// Puts the rows into an order. Figures that are not known come last; equal rows stay as they were.
    pub(super) fn sort(&mut self, sorting: Sorting) {
        let Some(column) = sorting.column else { return };
        self.rows.sort_by(|a, b| {
            let (a, b) = (&a[column], &b[column]);
            match (a.key, b.key) {
                (None, None) => order(a.shown.cmp(&b.shown), !sorting.ascending),
                (None, Some(_)) => Ordering::Greater,
                (Some(_), None) => Ordering::Less,
                (Some(a), Some(b)) => order(a.total_cmp(&b), sorting.ascending),
            }
        });
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
