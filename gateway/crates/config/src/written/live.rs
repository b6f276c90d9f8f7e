//! The keys that a running gateway takes from a configuration that is read again.
//!
//! This is the one table of them: a reload, the console and `docs/CONFIGURATION.md` follow it.

use crate::Config;

/// The sections and keys that are applied while the gateway runs, without the numbers of lists. A section stands for all
/// keys in it.
const LIVE_KEYS: [&str; 16] = [
    "access",
    "admin.listen",
    "admin.token",
    "cache.budget",
    DISKS,
    MEMORY,
    "events",
    "hook",
    "http",
    "limits",
    "log.access",
    "log.level",
    "origin",
    "profile",
    "route",
    "tls",
];

/// The section of the disks. Without `state.path` the metadata lies beside the first one, and cannot move while it is open.
const DISKS: &str = "cache.disk";

/// The size of the memory tier.
const MEMORY: &str = "cache.memory";

/// The place of the metadata.
const STATE_PATH: &str = "state.path";

/// The keys that a reload applies, of one configuration after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveKeys {
    /// Whether the disks change. They do not if another first disk would move the metadata.
    pub disks: bool,
    /// Whether the memory tier takes its size, as it does unless that fails.
    pub memory: bool,
    /// Whether the metadata stays where it is, however `state.path` is written.
    pub state_stays: bool,
}

impl LiveKeys {
    /// Returns the keys that a reload of `old` by `new` applies.
    #[must_use]
    pub fn between(old: &Config, new: &Config) -> Self {
        let state_stays = old.state_path() == new.state_path();
        let is_written = old.state.path.is_some() && new.state.path.is_some();
        Self {
            disks: state_stays || is_written,
            memory: true,
            state_stays,
        }
    }

    /// Returns whether a key is applied.
    #[must_use]
    pub fn has(self, key: &str) -> bool {
        match without_numbers(key) {
            key if key == STATE_PATH => self.state_stays,
            key if is_in(&key, DISKS) => self.disks,
            key if key == MEMORY => self.memory,
            key => LIVE_KEYS.into_iter().any(|live| is_in(&key, live)),
        }
    }
}

/// Returns whether a key is applied while the gateway runs, as a rule: `cache.disk[0].capacity`. Every other one needs a
/// restart.
#[must_use]
pub fn is_live(key: &str) -> bool {
    let rule = LiveKeys {
        disks: true,
        memory: true,
        state_stays: false,
    };
    rule.has(key)
}

/// Returns whether a key is `section`, or one of its keys.
fn is_in(key: &str, section: &str) -> bool {
    let rest = key.strip_prefix(section);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns a key without the numbers of its lists: `cache.disk.capacity`.
fn without_numbers(key: &str) -> String {
    let mut text = String::with_capacity(key.len());
    let mut rest = key;
    while let Some((before, number)) = rest.split_once('[') {
        text.push_str(before);
        rest = number.split_once(']').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests;
