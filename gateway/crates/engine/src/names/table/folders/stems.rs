//! Stems of files that this process has newly made in a folder: it makes the names that continue one, too.
//!
//! WordPress makes `photo.jpg`, then for seconds `photo-300x225.jpg` and so on, and looks for each before it makes it.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::NameGenerations;
use crate::names::answer::{NameRequest, split};
use tidegate_plan::{OriginId, Timestamp};

/// The most stems of a folder: programs that upload side by side have one each.
const MAX_STEMS: usize = 16;

/// The latest stems of a folder, the oldest first, each with the time at which its file was made.
#[derive(Debug, Clone, Default)]
pub(super) struct Stems(VecDeque<(Box<str>, Timestamp)>);

impl Stems {
    /// Returns whether one more stem is kept once this one is added.
    fn grows_by(&self, stem: &str) -> bool {
        self.0.len() < MAX_STEMS && self.0.iter().all(|(known, _)| **known != *stem)
    }

    /// Adds the stem of a file. If there are too many, drops the oldest one that continues another one, else the oldest.
    fn add(&mut self, stem: &str, at: Timestamp) {
        self.0.retain(|(known, _)| **known != *stem);
        if self.0.len() == MAX_STEMS {
            let continued = |name: &str| self.0.iter().any(|(stem, _)| continues(name, stem));
            let drops = self.0.iter().position(|(stem, _)| continued(stem));
            self.0.remove(drops.unwrap_or(0));
        }
        self.0.push_back((stem.into(), at));
    }

    /// Drops the stems that a name continues: another program makes such names as well.
    fn remove(&mut self, name: &str) {
        self.0.retain(|(stem, _)| !continues(name, stem));
    }

    /// Returns the time for which a name counts as continuing a stem: until the `ttl` after its file was made.
    pub(super) fn time_left(&self, asked: &NameRequest, name: &str) -> Duration {
        let left = |at: Timestamp| asked.ttl.saturating_sub(asked.at.since(at));
        let all = self.0.iter().filter(|(stem, _)| continues(name, stem));
        all.map(|(_, at)| left(*at)).max().unwrap_or_default()
    }
}

impl NameGenerations {
    /// Records that this process has made a file whose name was missing.
    pub(in super::super) fn note_stem(&mut self, origin: OriginId, path: &str, at: Timestamp) {
        let (folder, name) = split(path);
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let known = self.folders.get(origin, folder);
        let Some(known) = known.filter(|_| !stem.is_empty()) else {
            return;
        };
        if known.stems.grows_by(stem) {
            self.charge(stem);
        }
        if let Some(folder) = self.folders.get_mut(origin, folder) {
            folder.stems.add(stem, at);
        }
    }

    /// Drops the stems that a name continues, whose object another program may have made.
    pub(in super::super) fn forget_stems(&mut self, origin: OriginId, path: &str) {
        let (folder, name) = split(path);
        if let Some(folder) = self.folders.get_mut(origin, folder) {
            folder.stems.remove(name);
        }
    }
}

/// Returns whether a name is a stem followed by `-` or `.`. A number alone after the `-` makes it another file: WordPress
/// calls the second photo of one name `photo-1.jpg`, on whichever server it is uploaded.
fn continues(name: &str, stem: &str) -> bool {
    let is_number = |rest: &str| {
        let rest = rest.split('.').next().unwrap_or_default();
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit())
    };
    match name
        .strip_prefix(stem)
        .and_then(|rest| rest.split_at_checked(1))
    {
        Some(("-", rest)) => !is_number(rest),
        Some((mark, _)) => mark == ".",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::ENTRY_OVERHEAD;
    use super::*;

    fn stems(names: &[&str]) -> Stems {
        let mut stems = Stems::default();
        names.iter().for_each(|name| stems.add(name, Timestamp(0)));
        stems
    }

    fn has(stems: &Stems, stem: &str) -> bool {
        stems.0.iter().any(|(known, _)| **known == *stem)
    }

    #[test]
    fn a_name_continues_a_stem_with_a_dash_or_a_dot() {
        for (name, expected) in [
            ("photo-300x225.jpg", true),
            ("photo-scaled.jpg", true),
            ("photo-1-100x100.jpg", true),
            ("photo-.jpg", true),
            ("photo.webp", true),
            ("photo-1.jpg", false),
            ("photo-20", false),
            ("photo", false),
            ("photo1.jpg", false),
            ("photos-1.jpg", false),
            ("a-photo-1.jpg", false),
        ] {
            assert_eq!(continues(name, "photo"), expected, "{name}");
        }
    }

    #[test]
    fn sizes_make_room_before_photos_do() {
        let mut stems = stems(&["first", "second"]);
        for size in 0..100 {
            stems.add(&format!("first-{size}x1"), Timestamp(0));
        }
        assert!(has(&stems, "first") && has(&stems, "second") && has(&stems, "first-99x1"));
        for other in 0..MAX_STEMS {
            stems.add(&format!("other{other}"), Timestamp(0));
        }
        assert!(!has(&stems, "first") && !has(&stems, "second"));
        assert_eq!(stems.0.len(), MAX_STEMS);
    }

    #[test]
    fn the_table_accounts_for_the_stems_that_a_folder_keeps() {
        let (origin, mut names) = (OriginId(1), NameGenerations::default());
        names.folders.record_made(origin, "a", Timestamp(0), 1);
        for file in 0..100 {
            for at in 0..2 {
                names.note_stem(origin, &format!("a/photo{file:02}.jpg"), Timestamp(at));
            }
        }
        assert_eq!(names.bytes, MAX_STEMS * ("photo00".len() + ENTRY_OVERHEAD));
    }

    #[test]
    fn a_name_of_another_program_drops_the_stems_that_it_continues() {
        let mut stems = stems(&["photo", "photo-a", "other"]);
        stems.remove("photo-a.jpg");
        assert!(!has(&stems, "photo") && !has(&stems, "photo-a") && has(&stems, "other"));
    }
}
