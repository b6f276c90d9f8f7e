//! Stems of files that this process has newly made in a folder: it makes the names that continue one, too.
//!
//! WordPress makes `photo.jpg`, then for seconds `photo-300x225.jpg` and so on, and looks for each before it makes it.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::{NameGenerations, Table};
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

impl Table {
    /// Returns whether a name continues the stem of a file that was newly made here within the `ttl`.
    pub(in crate::names) fn continues_own(&self, asked: &NameRequest, path: &str) -> bool {
        let (folder, name) = split(path);
        let names = self.lock();
        let folder = names.folders.get(asked.origin, folder);
        folder.is_some_and(|folder| !folder.stems.time_left(asked, name).is_zero())
    }
}

/// Returns whether a name is a stem with another ending, or one that WordPress gives to a size of the picture: `-300x225`,
/// `-scaled` or `-rotated`. Any other mark makes it another file, which may be made on another server: the second photo of one
/// name is `photo-1.jpg`, and an edited one `photo-e1700000000000.jpg`.
fn continues(name: &str, stem: &str) -> bool {
    let Some(rest) = name.strip_prefix(stem) else {
        return false;
    };
    let marks = rest.split('.').next().unwrap_or_default();
    match marks.strip_prefix('-') {
        Some(marks) => marks.split('-').all(is_of_a_size),
        None => marks.is_empty() && !rest.is_empty(),
    }
}

/// Returns whether a part of a name tells the size of a picture.
fn is_of_a_size(mark: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let sides = mark.split_once('x');
    matches!(mark, "scaled" | "rotated")
        || sides.is_some_and(|(width, height)| is_number(width) && is_number(height))
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
    fn a_name_continues_a_stem_with_a_size_or_another_ending() {
        for (name, expected) in [
            ("photo-300x225.jpg", true),
            ("photo-300x225.jpg.webp", true),
            ("photo-scaled.jpg", true),
            ("photo-rotated-300x225", true),
            ("photo.webp", true),
            ("photo.jpg.webp", true),
            ("photo-e1700000000000.jpg", false),
            ("photo-e1700000000000-300x225.jpg", false),
            ("photo-scaled-e1700000000000.jpg", false),
            ("photo-1-100x100.jpg", false),
            ("photo-300x.jpg", false),
            ("photo-.jpg", false),
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
        let mut stems = stems(&["photo", "photo-1x1", "other"]);
        stems.remove("photo-1x1.jpg");
        assert!(!has(&stems, "photo") && !has(&stems, "photo-1x1") && has(&stems, "other"));
    }
}
