//! The names in a folder, derived from a bucket's ordered keys.
//!
//! A key is a path only by custom: `a` and `a/b` can both be objects, and `a//b` or `a/..` too. In a folder each name
//! stands for one thing, so
//!
//! - if a file and a folder have one name, the folder wins;
//! - a segment that is empty, `.`, `..`, longer than [`MAX_NAME`] or holds a NUL is no name, and neither is that of an
//!   object of our own ([`is_staging_name`]). Keys there or below are hidden.
//!
//! In a listing `a` comes long before `a/` if there are keys like `a-1` between. So a file is held back until the
//! listing is past the folder that could take its name.

/// The longest name, in bytes (`NAME_MAX`, limits.h).
pub const MAX_NAME: usize = 255;

/// The longest name, in bytes, that every store takes. Whether a store takes a longer one is known once it is asked.
const MAX_SURE_NAME: usize = 200;

/// Returns whether every store takes the last name of a key, which may be a folder's.
#[must_use]
pub fn has_sure_name(key: &str) -> bool {
    let name = key.trim_end_matches('/').rsplit('/').next();
    name.is_some_and(|name| name.len() <= MAX_SURE_NAME)
}

/// Returns whether a segment of a key can be a name.
#[must_use]
pub fn is_name(segment: &str) -> bool {
    !matches!(segment, "" | "." | "..")
        && segment.len() <= MAX_NAME
        && !segment.contains(['/', '\0'])
        && !is_staging_name(segment)
}

/// The beginning of the name of a staging object; 32 hexadecimal digits follow.
pub const STAGING_PREFIX: &str = ".tidegate-";

/// Returns whether a name is that of a staging object: one under which a draft is uploaded whose bytes must be read back.
#[must_use]
pub fn is_staging_name(name: &str) -> bool {
    let digits = name.strip_prefix(STAGING_PREFIX).unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the folders that a key proves, outermost first, each with its final `/`.
pub fn folders_of(key: &str) -> impl Iterator<Item = &str> {
    key.match_indices('/').map(|(at, _)| &key[..=at])
}

/// Returns the folder of a key: up to its last slash, which is part of it.
#[must_use]
pub fn folder_of(key: &str) -> &str {
    &key[..key.rfind('/').map_or(0, |slash| slash + 1)]
}

/// Returns the innermost folder that holds both a folder and a key.
#[must_use]
pub fn common_folder<'f>(folder: &'f str, key: &str) -> &'f str {
    let pairs = folder.bytes().zip(key.bytes());
    let common = pairs.take_while(|(one, other)| one == other).count();
    // A slash is never part of another character.
    let slash = folder.as_bytes()[..common].iter().rposition(|b| *b == b'/');
    &folder[..slash.map_or(0, |slash| slash + 1)]
}

/// Returns whether a listing that has reached `reached`, its last key or folder, has no more entries for `name`:
/// neither an object nor a folder. Both are relative to the listed folder.
#[must_use]
pub fn is_listed(reached: &str, name: &str) -> bool {
    let (reached, name) = (reached.as_bytes(), name.as_bytes());
    match reached.strip_prefix(name) {
        // A folder of the name would come at `/`.
        Some(rest) => rest.first().is_some_and(|next| *next >= b'/'),
        None => name < reached,
    }
}

/// Returns the first name for which a listing that has reached `reached` may have more entries. All names before it are
/// finished, whatever they are.
#[must_use]
pub fn first_unlisted(reached: &str) -> &str {
    let inner = reached.bytes().enumerate().skip(1);
    let end = inner.take_while(|(_, byte)| *byte >= b'/').count() + 1;
    reached.get(..end).unwrap_or(reached)
}

/// The thing that a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderEntry<T> {
    /// An object and its known properties.
    File(T),
    /// A common beginning of keys.
    Folder,
}

/// The names of one folder, taken from its listing page by page.
#[derive(Debug, Clone)]
pub struct FolderNames<T> {
    /// Files whose name a later folder may take. Each name is a prefix of the next, so there are few.
    held: Vec<(String, T)>,
}

impl<T> Default for FolderNames<T> {
    fn default() -> Self {
        Self { held: Vec::new() }
    }
}

impl<T> FolderNames<T> {
    /// Takes a page and returns the names that are now certain. `objects` and `folders` are the entries of the listing
    /// below `prefix`, each in order. `last` means that no page follows.
    pub fn page(
        &mut self,
        prefix: &str,
        objects: impl IntoIterator<Item = (String, T)>,
        folders: impl IntoIterator<Item = String>,
        last: bool,
    ) -> Vec<(String, FolderEntry<T>)> {
        let mut names = Vec::new();
        let below = |key: &String| key.get(prefix.len()..).unwrap_or_default().to_owned();
        let mut objects = objects.into_iter().peekable();
        let mut folders = folders.into_iter().peekable();
        loop {
            let folder_first = match (objects.peek(), folders.peek()) {
                (None, None) => break,
                (Some((object, _)), Some(folder)) => folder < object,
                (object, _) => object.is_none(),
            };
            if folder_first && let Some(folder) = folders.next() {
                let below = below(&folder);
                self.held.retain(|(name, _)| below != format!("{name}/"));
                self.release(&below, &mut names);
                let name = below.trim_end_matches('/');
                if below.len() == name.len() + 1 && is_name(name) {
                    names.push((name.to_owned(), FolderEntry::Folder));
                }
            } else if let Some((key, what)) = objects.next() {
                let name = below(&key);
                self.release(&name, &mut names);
                if is_name(&name) {
                    self.held.push((name, what));
                }
            }
        }
        if last {
            let rest = self.held.drain(..);
            names.extend(rest.map(|(name, what)| (name, FolderEntry::File(what))));
        }
        names
    }

    /// Moves the files whose folder would have come before `reached` to `names`.
    fn release(&mut self, reached: &str, names: &mut Vec<(String, FolderEntry<T>)>) {
        let past = |name: &str| *reached > *format!("{name}/");
        let released = self.held.extract_if(.., |(name, _)| past(name));
        names.extend(released.map(|(name, what)| (name, FolderEntry::File(what))));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_proves_every_folder_on_its_path() {
        let folders: Vec<_> = folders_of("a/b//c").collect();
        assert_eq!(folders, ["a/", "a/b/", "a/b//"]);
        assert_eq!(folders_of("a").count(), 0);
    }

    #[test]
    fn the_last_name_of_a_key_is_judged() {
        let (short, long) = ("n".repeat(200), "n".repeat(201));
        for key in [format!("{long}/{short}"), format!("a/{short}/"), short] {
            assert!(has_sure_name(&key), "{key}");
        }
        for key in [format!("a/{long}"), format!("a/{long}/"), long] {
            assert!(!has_sure_name(&key), "{key}");
        }
    }

    #[test]
    fn what_cannot_be_a_name_is_hidden() {
        let long = "n".repeat(256);
        let staged = format!("{STAGING_PREFIX}{}", "0123456789abcdef".repeat(2));
        for bad in ["", ".", "..", "a/b", "a\0", &long, &staged] {
            assert!(!is_name(bad), "{bad:?}");
        }
        for good in [
            "a",
            "...",
            ".a",
            "ü ☃",
            &long[1..],
            STAGING_PREFIX,
            &staged[1..],
        ] {
            assert!(is_name(good), "{good:?}");
        }
        let objects = ["p/", "p/a"].map(|key| (key.to_owned(), ()));
        let folders = ["p//", "p/../", "p/b/"].map(str::to_owned);
        let names = FolderNames::default().page("p/", objects, folders, true);
        let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b"]);
    }

    fn key() -> impl Strategy<Value = String> {
        "[a/.-]{1,6}"
    }

    proptest! {
        /// Compares with all later entries of a listing: any key after the reached one, and any folder after that.
        #[test]
        fn what_is_listed_is_listed_to_the_end(reached in "[ab/.-]{1,5}", name in "[ab.-]{1,4}") {
            let folder = format!("{name}/");
            prop_assert_eq!(is_listed(&reached, &name), folder <= reached);
            let bound = first_unlisted(&reached);
            prop_assert!(name.as_str() >= bound || is_listed(&reached, &name), "{}", bound);
            // The bound itself is not finished either, if it is a name.
            prop_assert!(bound.contains('/') || !is_listed(&reached, bound));
        }

        /// Compares with a folder that is known completely, for any page size.
        #[test]
        fn the_folder_wins_whatever_lies_between(
            keys in prop::collection::btree_set(key(), 0..40),
            size in 1usize..8,
        ) {
            let mut truth = BTreeMap::new();
            let (mut objects, mut folders) = (BTreeSet::new(), BTreeSet::new());
            for key in &keys {
                match key.split_once('/') {
                    Some((name, _)) => {
                        truth.insert(name.to_owned(), FolderEntry::Folder);
                        folders.insert(format!("{name}/"));
                    }
                    None => {
                        truth.entry(key.clone()).or_insert(FolderEntry::File(()));
                        objects.insert(key.clone());
                    }
                }
            }
            truth.retain(|name, _| is_name(name));
            let all: Vec<_> = objects.union(&folders).cloned().collect();
            let mut names = FolderNames::default();
            let mut seen = Vec::new();
            let pages = all.chunks(size).count();
            for (n, page) in all.chunks(size).enumerate() {
                let (some, rest): (Vec<_>, Vec<_>) =
                    page.iter().cloned().partition(|key| folders.contains(key));
                let objects = rest.into_iter().map(|key| (key, ()));
                seen.extend(names.page("", objects, some, n + 1 == pages));
                prop_assert!(names.held.len() <= 6);
            }
            let count = seen.len();
            let seen: BTreeMap<_, _> = seen.into_iter().collect();
            prop_assert_eq!(seen.len(), count);
            prop_assert_eq!(seen, truth);
        }
    }
}
