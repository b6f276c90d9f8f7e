//! Problems of a configuration, and their places.

use std::fmt;
use std::fmt::Write as _;

/// The path to a key: `route[1].origin`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPath(Vec<Step>);

/// One step of a [`KeyPath`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Into a table.
    Key(String),
    /// Into a list.
    Index(usize),
}

impl KeyPath {
    /// Returns the key of a section: `cache.memory`.
    pub fn of(section: &str, key: &str) -> Self {
        Self::default().key(section).key(key)
    }

    /// Returns a table in a list of tables: `route[1]`.
    pub fn nth(section: &str, index: usize) -> Self {
        Self::default().key(section).index(index)
    }

    /// Returns the key `key` of this table.
    pub fn key(&self, key: &str) -> Self {
        self.then(Step::Key(key.to_owned()))
    }

    /// Returns the entry `index` of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    pub(super) fn then(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// Returns this path, then the tables and lists around it, from the inside.
    pub(super) fn with_parents(&self) -> impl Iterator<Item = Self> {
        let lengths = (1..=self.0.len()).rev();
        lengths.map(move |length| Self(self.0[..length].to_vec()))
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.0
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if nth == 0 => write!(f, "{key}")?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// The location of a value. Ordered as a person reads: the file from top to bottom, then overrides and variables.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueLocation {
    /// In a file; line and column count from 1, the column in characters.
    File {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
        /// The file, as it was named.
        name: String,
    },
    /// In an override, by its key.
    Override(String),
    /// In an environment variable.
    Variable(String),
    /// No place: the problem is a missing key, and there is no file.
    Nowhere,
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Its location.
    pub location: ValueLocation,
    /// The key, if there is one.
    pub path: KeyPath,
    /// The problem, and what would be right.
    pub message: String,
}

/// A problem is one line. Control characters of what was written are shown as escapes, so that a file cannot steer the
/// terminal that its problems are read on.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut EscapingWriter(f);
        match &self.location {
            ValueLocation::File { line, column, name } => write!(f, "{name}:{line}:{column}: ")?,
            ValueLocation::Override(key) => write!(f, "the override `{key}`: ")?,
            ValueLocation::Variable(name) => write!(f, "{name}: ")?,
            ValueLocation::Nowhere => {}
        }
        let path = self.path.to_string();
        let is_named = self.location == ValueLocation::Override(path);
        if !self.path.steps().is_empty() && !is_named {
            write!(f, "`{}`: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Writes text with its control characters escaped.
struct EscapingWriter<'f, 'w>(&'f mut fmt::Formatter<'w>);

impl fmt::Write for EscapingWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.split_inclusive(char::is_control) {
            let plain = piece.trim_end_matches(char::is_control);
            self.0.write_str(plain)?;
            write!(self.0, "{}", piece[plain.len()..].escape_debug())?;
        }
        Ok(())
    }
}

/// All problems, one line each, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, problem) in self.0.iter().enumerate() {
            if nth > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Returns `; did you mean …?` if one of the names is close to the written one, else nothing.
pub(super) fn suggestion<'n>(wrong: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    nearest(wrong, names).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Returns the name that is closest to the written one, if any is close enough to be meant.
pub(super) fn nearest<'n>(
    wrong: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Option<&'n str> {
    let wrong = wrong.to_lowercase();
    names
        .into_iter()
        .map(|name| (likeness(&wrong, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

/// Returns the likeness of two names, from 0 to 1. Two swapped letters make a short word too unlike
/// itself for Jaro-Winkler, so a single slip always counts as close.
fn likeness(a: &str, b: &str) -> f64 {
    let slip = a.len() > 2 && strsim::osa_distance(a, b) == 1;
    strsim::jaro_winkler(a, b).max(if slip { 0.9 } else { 0.0 })
}

/// Returns the line and the column of a byte in a text, both from 1 on.
pub(super) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_an_override_names_its_key_once() {
        let problem = |path| Problem {
            location: ValueLocation::Override("cache.memory".to_owned()),
            path,
            message: "it is no size".to_owned(),
        };
        for (path, words) in [
            (
                KeyPath::of("cache", "memory"),
                "the override `cache.memory`: it is no size",
            ),
            (
                KeyPath::of("cache", "budget"),
                "the override `cache.memory`: `cache.budget`: it is no size",
            ),
        ] {
            assert_eq!(problem(path).to_string(), words);
        }
    }
}
