//! The panes: the figures of one subject each, as a table of text.

use serde_json::Value;

use super::figures::{bytes, number, part_of, rate, share, text, time};
use super::snapshot::Snapshot;
use super::table::{Table, cell, left, part, right, rows, word};

mod connections;
mod details;
mod history;
mod now;
mod objects;
mod settings;

/// A subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Now,
    Streams,
    Objects,
    Tiers,
    Origins,
    Writes,
    Events,
    Hooks,
    Fleet,
    History,
    Settings,
}

impl Pane {
    /// All panes, in the order of their keys.
    pub(super) const ALL: [Self; 11] = [
        Self::Now,
        Self::Streams,
        Self::Objects,
        Self::Tiers,
        Self::Origins,
        Self::Writes,
        Self::Events,
        Self::Hooks,
        Self::Fleet,
        Self::History,
        Self::Settings,
    ];

    /// Returns its name.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Now => "Now",
            Self::Streams => "Streams",
            Self::Objects => "Objects",
            Self::Tiers => "Tiers",
            Self::Origins => "Origins",
            Self::Writes => "Writes",
            Self::Events => "Events",
            Self::Hooks => "Hooks",
            Self::Fleet => "Fleet",
            Self::History => "History",
            Self::Settings => "Settings",
        }
    }

    /// Returns the name of its part of a look.
    fn part(self) -> String {
        self.title().to_lowercase()
    }

    /// Returns its table of a look at the gateway. A part that could not be had is said to be missing.
    pub(super) fn table(self, snapshot: &Snapshot) -> Table {
        let part = snapshot.part(&self.part());
        let time = &snapshot.part("now")["time"];
        match self {
            Self::Now => {
                let warms = &snapshot.part("warms")["warms"];
                now::now(part, snapshot.part("doctor"), warms)
            }
            _ if part["error"].is_string() => Table::missing(self.title(), &text(&part["error"])),
            // Without a folder it has the routes.
            Self::Objects => objects::objects(part, snapshot.part("routes")),
            _ if !part.is_object() => Table::missing(self.title(), "no answer"),
            Self::Streams => streams(&part["streams"]),
            Self::Tiers => tiers(part),
            Self::Origins => origins(&part["origins"]),
            Self::Writes => writes(part),
            Self::Events => connections::events(part, time),
            Self::Hooks => connections::hooks(part),
            Self::Fleet => connections::fleet(part),
            Self::History => history::history(part, time),
            Self::Settings => settings::settings(part),
        }
    }

    /// Returns whether one of its rows is selected: there is more to say of each than its columns do.
    pub(super) fn selects(self) -> bool {
        use Pane::{Objects, Origins, Settings, Streams, Tiers, Writes};
        matches!(
            self,
            Streams | Objects | Tiers | Origins | Writes | Settings
        )
    }

    /// Returns whether there is more to say, of the selected row or of the whole pane.
    pub(super) fn has_detail(self) -> bool {
        self.selects() || matches!(self, Self::Events | Self::Fleet)
    }

    /// Returns the part of a look that a row was made of; `null` for panes that select none.
    pub(super) fn row(self, snapshot: &Snapshot, number: usize) -> &Value {
        let part = snapshot.part(&self.part());
        match self {
            Self::Streams => &part["streams"][number],
            Self::Objects => &objects::list(part, snapshot.part("routes"))[number],
            Self::Tiers => match number {
                0 => &part["memory"],
                1 => &part["budget"],
                disk => &part["disks"][disk - 2],
            },
            Self::Origins => &part["origins"][number],
            Self::Writes => &part["drafts"][number],
            Self::Settings => &part["settings"][number],
            _ => &Value::Null,
        }
    }

    /// Returns a text that tells a row from all others of its pane, also in another look.
    pub(super) fn id(self, snapshot: &Snapshot, number: usize) -> String {
        let row = self.row(snapshot, number);
        let keys: &[&str] = match self {
            Self::Streams => &["id"],
            Self::Objects => &["host", "path", "name"],
            Self::Origins => &["name"],
            Self::Writes => &["id"],
            Self::Settings => &["key"],
            // Disks are in the order of the configuration.
            _ => return number.to_string(),
        };
        Value::from_iter(keys.iter().map(|key| row[key].clone())).to_string()
    }

    /// Returns what there is to say beyond the columns: of the selected row, or of the pane if it selects none.
    pub(super) fn detail(self, snapshot: &Snapshot, selected: Option<usize>) -> String {
        let part = snapshot.part(&self.part());
        let row = match selected {
            Some(number) if self.selects() => self.row(snapshot, number),
            _ if self.selects() => return String::new(),
            _ => part,
        };
        let now = &snapshot.part("now")["time"];
        match self {
            Self::Streams => details::stream(row),
            Self::Objects => objects::detail(row),
            Self::Tiers => details::tier(row, now),
            Self::Origins => details::origin(row),
            Self::Writes => details::write(row, now),
            Self::Events => connections::events_detail(part),
            Self::Fleet => connections::fleet_detail(part),
            Self::Settings => settings::detail(row),
            Self::Now | Self::Hooks | Self::History => String::new(),
        }
    }
}

fn streams(list: &Value) -> Table {
    let row = |stream: &Value| {
        let waits = stream["waiting"] == true;
        vec![
            cell(rate(&stream["rate"]), &stream["rate"]),
            part(&stream["position"], &stream["size"]),
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
            part(&of["used"], &of["capacity"]),
            cell(share(&of["hit_share"]), &of["hit_share"]),
            cell(time(&of["eviction_age"]), &of["eviction_age"]),
            cell(rate(&of["written_per_second"]), &of["written_per_second"]),
            cell(time(&of["read_time"]), &of["read_time"]),
        ]
    };
    let mut rows = vec![row("memory", "up".to_owned(), memory)];
    let mut reserved = row("budget", "up".to_owned(), budget);
    reserved[2] = cell(bytes(&budget["lent"]), &budget["lent"]);
    reserved[4] = part(&budget["lent"], &budget["capacity"]);
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
            part(&draft["sent"], &draft["size"]),
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
