//! The table of phases in SEMANTICS, and the steps that drafts of the tests have taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use super::{Attempt, Content, Phase, Step};
use tidegate_telemetry::locks::Recover as _;

/// The phases before and after a step, by their names in the table.
type Passage = (&'static str, &'static str);

/// The passages from one row of the table to another, each with one step that made it.
static TAKEN: Mutex<BTreeMap<Passage, String>> = Mutex::new(BTreeMap::new());

const SEMANTICS: &str = include_str!("../../../../../docs/SEMANTICS.md");

impl Phase {
    /// Returns its row in the table.
    pub(crate) fn name(&self) -> &'static str {
        match (&self.content, &self.attempt) {
            (Content::Discarded { .. }, _) => "discarded",
            (Content::Published, _) => "published",
            (Content::Lost, _) => "lost",
            (Content::Unpublished, Attempt::Running(_)) => "publishing",
            (Content::Unpublished, Attempt::Failed(_)) if self.is_refused() => "refused",
            (Content::Unpublished, Attempt::Failed(_)) => "failed",
            (Content::Unpublished, Attempt::Idle) if self.is_closed_and_promised() => "closed",
            (Content::Unpublished, Attempt::Idle) => "open",
        }
    }
}

/// Notes a step of a draft.
pub(crate) fn note(before: &Phase, step: &Step, after: &Phase) {
    let passage = (before.name(), after.name());
    if passage.0 != passage.1 {
        let mut taken = TAKEN.lock().recover();
        taken
            .entry(passage)
            .or_insert_with(|| format!("{before:?}, {step:?}, {after:?}"));
    }
}

/// Returns each phase of the table with the ones that may follow it.
pub(crate) fn rows() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let (_, rest) = SEMANTICS
        .split_once("| phase | the next phase |")
        .expect("the table");
    let (table, _) = rest.split_once("\n\n").expect("its end");
    let words = |cell: &'static str| cell.split(',').map(str::trim).filter(|it| !it.is_empty());
    let mut rows = BTreeMap::new();
    for line in table.lines().skip(2) {
        let mut cells = line.trim_matches('|').split('|');
        let (names, next) = (cells.next().expect("a name"), cells.next().expect("a cell"));
        for name in words(names) {
            rows.insert(name, words(next).collect());
        }
    }
    rows
}

/// Fails if a draft of this process has taken a step that the table does not have.
pub(crate) fn check_taken() {
    let (rows, taken) = (rows(), TAKEN.lock().recover().clone());
    for ((before, after), step) in taken {
        let is_there = rows.get(before).is_some_and(|next| next.contains(after));
        assert!(is_there, "{before} to {after}: {step}");
    }
}

#[test]
fn each_phase_leads_to_phases_of_the_table() {
    let rows = rows();
    assert_eq!(rows.len(), 8, "{rows:?}");
    for next in rows.values().flatten() {
        assert!(rows.contains_key(next), "{next}");
    }
}
