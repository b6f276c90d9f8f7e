//! The table of every call of the spool, and its outcomes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use fuser::Errno;

use crate::sick_fs::{Call, Fate, Moment};

/// A call in words.
pub(crate) type Row = &'static str;

const BEGIN: &str = "<!-- table: written by tests/real_spool_faults with UPDATE=1 -->\n";
const END: &str = "<!-- end of table -->\n";

/// The allowed outcome of a cut.
const KEPT: &str = "as promised";

/// Returns a call in words.
pub(crate) fn label(call: &Call) -> Row {
    let kind = call.name.rsplit('.').next().unwrap_or_default();
    let blank = call.zeros && call.at == 0;
    match (call.what, kind) {
        ("create", "lock") => "make `lock`",
        ("create", "journal") => "make a file for a journal",
        ("create", _) => "make the file of the data",
        ("write", "journal") if blank && call.len > 34 => "fill a file for a journal with zeros",
        ("write", "journal") if blank => "blank the head of a journal",
        ("write", "journal") if call.at == 34 => {
            "write the frames of a journal that is written anew"
        }
        ("write", "journal") if call.at == 0 && call.len == 34 => {
            "write the head of a journal that is written anew"
        }
        ("write", "journal") => "append to a journal",
        ("write", _) => "write data",
        ("fsync", "journal") => "`fdatasync` of a journal",
        ("fsync", _) => "`fdatasync` of data",
        ("fsyncdir", _) => "`fsync` of the folder",
        ("ftruncate", "journal") => "cut a journal",
        ("ftruncate", _) => "cut data",
        ("fallocate", _) => "punch a hole into data",
        ("unlink", "journal") => "take the file of a journal away",
        ("unlink", _) => "take the file of the data away",
        ("read", "journal") => "read a journal",
        ("read", _) => "read data",
        (what, _) => panic!(
            "{what} of {}: a call that the table does not know",
            call.name
        ),
    }
}

/// A fault of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// `EIO`.
    Fails,
    /// `ENOSPC`; some of the bytes may have been written.
    IsFull,
    /// Written bytes are lost between the file cache and the disk, and the next sync reports it.
    Loses,
}

impl Fault {
    pub(crate) const ALL: [Self; 3] = [Self::Fails, Self::IsFull, Self::Loses];

    pub(crate) fn fate(self) -> Fate {
        match self {
            Self::Fails => Fate::Fails(Errno::EIO),
            Self::IsFull => Fate::Fails(Errno::ENOSPC),
            Self::Loses => Fate::IsLost,
        }
    }

    /// Returns whether a call can meet it on a real disk.
    pub(crate) fn can_meet(self, call: &Call) -> bool {
        match self {
            Self::Fails => true,
            Self::IsFull => {
                let needs_room = ["create", "write", "fsync", "fsyncdir", "fallocate"];
                needs_room.contains(&call.what)
            }
            Self::Loses => call.what == "write" && !call.direct,
        }
    }
}

#[derive(Default)]
struct Cells {
    /// A cut before the call, and after it.
    cuts: [bool; 2],
    /// Its outcomes by [`Fault`].
    faults: [BTreeSet<String>; 3],
}

/// The table that the module's head describes.
pub(crate) struct Table {
    known: BTreeMap<String, Cells>,
    seen: BTreeMap<Row, Cells>,
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/SPOOL.md")
}

fn is_update() -> bool {
    std::env::var_os("UPDATE").is_some()
}

fn between(text: &str) -> Option<(&str, &str, &str)> {
    let (head, rest) = text.split_once(BEGIN)?;
    let (table, tail) = rest.split_once(END)?;
    Some((head, table, tail))
}

impl Table {
    /// Reads the table from the documentation.
    pub(crate) fn read() -> Self {
        let text = std::fs::read_to_string(path()).expect("docs/SPOOL.md");
        let (_, table, _) = between(&text).expect("it has a table");
        let rows = table.lines().skip(2).map(|line| {
            let cells = Vec::from_iter(line.trim_matches('|').split('|').map(str::trim));
            let [call, before, after, fails, is_full, loses] = &cells[..] else {
                panic!("{line}: not six cells");
            };
            let outcomes = |cell: &str| {
                let outcomes = cell
                    .split("; or ")
                    .filter(|it| *it != "–" && !it.is_empty());
                outcomes.map(str::to_owned).collect()
            };
            let cells = Cells {
                cuts: [*before == KEPT, *after == KEPT],
                faults: [outcomes(fails), outcomes(is_full), outcomes(loses)],
            };
            ((*call).to_owned(), cells)
        });
        Self {
            known: rows.collect(),
            seen: BTreeMap::new(),
        }
    }

    pub(crate) fn cut(&mut self, row: Row, moment: Moment) {
        let at = usize::from(moment == Moment::After);
        self.seen.entry(row).or_default().cuts[at] = true;
    }

    pub(crate) fn failed(&mut self, row: Row, fault: Fault, outcome: &str) {
        let faults = &mut self.seen.entry(row).or_default().faults;
        faults[fault as usize].insert(outcome.to_owned());
    }

    /// Checks that the calls that were cut and the calls of the table are the same.
    pub(crate) fn agree_on_cuts(self) {
        if is_update() {
            return self.update();
        }
        let known = self
            .known
            .iter()
            .filter(|(_, cells)| cells.cuts != [false; 2]);
        let known = BTreeMap::from_iter(known.map(|(row, cells)| (row.as_str(), cells.cuts)));
        let seen = self.seen.iter().map(|(row, cells)| (*row, cells.cuts));
        assert_eq!(BTreeMap::from_iter(seen), known);
    }

    /// Checks that the outcome of each call is the table's.
    pub(crate) fn agree_on_faults(self) {
        if is_update() {
            return self.update();
        }
        for (row, cells) in &self.seen {
            let known = self
                .known
                .get(*row)
                .unwrap_or_else(|| panic!("no row `{row}`"));
            for (known, seen) in known.faults.iter().zip(&cells.faults) {
                assert!(
                    seen.is_subset(known),
                    "`{row}`: {seen:?}, where the table says {known:?}"
                );
            }
        }
    }

    /// Merges the outcomes seen here with those of other tests.
    fn update(self) {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().expect("sound");
        let mut table = Self::read();
        for (row, cells) in self.seen {
            let known = table.known.entry(row.to_owned()).or_default();
            for (known, seen) in known.cuts.iter_mut().zip(cells.cuts) {
                *known |= seen;
            }
            for (known, seen) in known.faults.iter_mut().zip(cells.faults) {
                known.extend(seen);
            }
        }
        table.write();
    }

    fn write(&self) {
        let text = std::fs::read_to_string(path()).expect("docs/SPOOL.md");
        let (head, _, tail) = between(&text).expect("it has a table");
        let cut = |is_cut| if is_cut { KEPT } else { "–" };
        let fault = |outcomes: &BTreeSet<String>| match outcomes.is_empty() {
            true => "–".to_owned(),
            false => Vec::from_iter(outcomes.iter().cloned()).join("; or "),
        };
        let mut table =
            "| call | power cut before | power cut after | EIO | ENOSPC | lost in write-back |\n\
             | --- | --- | --- | --- | --- | --- |\n"
                .to_owned();
        for (row, Cells { cuts, faults }) in &self.known {
            let cuts = cuts.map(|it| cut(it).to_owned());
            let cells = [&cuts[..], &faults.each_ref().map(fault)].concat();
            table.push_str(&format!("| {row} | {} |\n", cells.join(" | ")));
        }
        let text = [head, BEGIN, &table, END, tail].concat();
        std::fs::write(path(), text).expect("written");
    }
}
