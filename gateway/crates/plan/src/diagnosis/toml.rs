//! The recommended settings as TOML.

use std::fmt;

use super::{RecommendedProfile, RecommendedSettings};

impl fmt::Display for RecommendedSettings {
    /// Writes sections that are ready to paste over the sections of the same names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[cache]")?;
        writeln!(f, "memory = \"{}\"", self.cache.memory)?;
        writeln!(f, "budget = \"{}\"", self.cache.budget)?;
        writeln!(f, "chunk = \"{}\"", self.cache.chunk)?;
        for disk in &self.disks {
            writeln!(f, "\n[[cache.disk]]")?;
            writeln!(f, "path = {}", quoted(&disk.path))?;
            writeln!(f, "capacity = \"{}\"", disk.capacity)?;
            writeln!(f, "min_free = \"{}\"", disk.min_free)?;
        }
        self.profiles.iter().try_for_each(|profile| profile.fmt(f))
    }
}

impl fmt::Display for RecommendedProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, origin) = (quoted(&self.name), quoted(&self.origin));
        writeln!(
            f,
            "\n# For long reads; in a [[route]] to {origin}: profile = {name}"
        )?;
        writeln!(f, "[profile.{name}]")?;
        writeln!(f, "extends = \"stream\"")?;
        writeln!(f, "read_ahead = \"{}\"", self.read_ahead)?;
        writeln!(f, "streams = {}", self.streams)?;
        writeln!(f, "disk = \"{}\"", self.disk.name())
    }
}

/// Returns a basic string of TOML (1.0.0, "String"), on one line for any text.
fn quoted(text: &str) -> String {
    let escape = |letter: char| match letter {
        '"' | '\\' => format!("\\{letter}"),
        letter if letter.is_control() => format!("\\u{:04X}", u32::from(letter)),
        letter => letter.to_string(),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}
