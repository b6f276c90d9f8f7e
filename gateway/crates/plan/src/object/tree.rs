//! The folders in a listing of a tree: all keys from one folder on, in order and without a delimiter.

use std::collections::BTreeMap;

use super::folder::{folders_of, is_name};

/// The first entries of a folder's listing, from a listing of the tree: all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeFolder<T> {
    /// The objects in it and their properties, in order of their keys.
    pub objects: Vec<(String, T)>,
    /// The prefixes of its folders, each with its final `/`, in order.
    pub folders: Vec<String>,
}

impl<T> Default for WholeFolder<T> {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            folders: Vec::new(),
        }
    }
}

/// Returns the key after which a listing begins with the folder of this prefix, and few keys before it.
#[must_use]
pub fn before(prefix: &str) -> String {
    // `.` comes just before `/`.
    format!("{}.{}", prefix.trim_end_matches('/'), char::MAX)
}

/// Returns the folders whose keys are all on a page, by prefix. `first` is the prefix of the folder that the page begins
/// with, [`before`] it; `last` means that no page follows.
///
/// `None`: the keys are out of order, so that the page tells of no folder that it is whole.
#[must_use]
pub fn whole_folders<T>(
    first: &str,
    keys: Vec<(String, T)>,
    last: bool,
) -> Option<BTreeMap<String, WholeFolder<T>>> {
    if !keys.is_sorted_by(|(one, _), (other, _)| one < other) {
        return None;
    }
    let end = keys.last().map(|(key, _)| key.clone());
    let mut whole: BTreeMap<String, WholeFolder<T>> = BTreeMap::new();
    for (key, what) in keys {
        if let Some(prefix) = enter_folders(&mut whole, first, &key) {
            let folder = whole.entry(prefix.to_owned()).or_default();
            folder.objects.push((key, what));
        }
    }
    if let Some(end) = end.filter(|_| !last) {
        whole.retain(|prefix, _| !end.starts_with(&**prefix));
    }
    Some(whole)
}

/// Enters each folder on the path of a key, from `first` on, into the one around it. Returns the prefix of the key's own
/// folder; `None` if that is no such folder.
fn enter_folders<'a, T>(
    whole: &mut BTreeMap<String, WholeFolder<T>>,
    first: &str,
    key: &'a str,
) -> Option<&'a str> {
    let mut prefixes = folders_of(key).filter(|prefix| *prefix >= first);
    let mut innermost = prefixes.next()?;
    for below in prefixes {
        let folders = &mut whole.entry(innermost.to_owned()).or_default().folders;
        if folders.last().is_none_or(|last| last != below) {
            folders.push(below.to_owned());
        }
        if !is_name(below[innermost.len()..].trim_end_matches('/')) {
            return None;
        }
        innermost = below;
    }
    Some(innermost)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn split(first: &str, keys: &[&str], last: bool) -> Vec<(String, usize, usize)> {
        let keys = keys.iter().map(|key| ((*key).to_owned(), ()));
        let whole = whole_folders(first, keys.collect(), last).expect("in order");
        let counts = whole.into_iter().map(|(prefix, of)| {
            let counts = (of.objects.len(), of.folders.len());
            (prefix, counts.0, counts.1)
        });
        counts.collect()
    }

    #[test]
    fn the_folder_at_the_end_of_a_page_is_not_whole() {
        let keys = ["p/a/1", "p/a/b/2", "p/a/b/3", "p/c/4", "p/c/d/5"];
        let whole = |prefix: &str, objects, folders| (prefix.to_owned(), objects, folders);
        let first = [whole("p/a/", 1, 1), whole("p/a/b/", 2, 0)];
        assert_eq!(split("p/a/", &keys, false), first);
        let rest = [whole("p/c/", 1, 1), whole("p/c/d/", 1, 0)];
        assert_eq!(split("p/a/", &keys, true), [first, rest].concat());
    }

    #[test]
    fn what_lies_before_the_first_folder_or_is_no_name_is_left_out() {
        let keys = [
            "p/a.\u{10ffff}x/1",
            "p/a/",
            "p/a/../2",
            "p/a//1",
            "p/a0",
            "p/b/1",
        ];
        let found = split("p/a/", &keys, true);
        assert_eq!(found, [("p/a/".into(), 1, 2), ("p/b/".into(), 1, 0)]);
    }

    #[test]
    fn keys_out_of_order_tell_nothing() {
        let keys = ["p/b/1", "p/a/1"].map(|key| (key.to_owned(), ()));
        assert_eq!(whole_folders("p/a/", keys.to_vec(), true), None);
    }

    proptest! {
        /// Compares with the listings of each folder.
        #[test]
        fn a_whole_folder_has_what_its_own_listing_has(
            keys in prop::collection::btree_set("p(/[ab.]{1,2}){1,4}", 1..40),
            first in "p/[ab]",
            most in 1usize..40,
        ) {
            let first = format!("{first}/");
            let after = before(&first);
            let from = keys.iter().filter(|key| **key > after).cloned();
            let page: Vec<_> = from.clone().take(most).map(|key| (key, ())).collect();
            let last = page.len() == from.count();
            let whole = whole_folders(&first, page, last).expect("in order");
            for (prefix, of) in &whole {
                let below = keys.iter().filter_map(|key| Some((key, key.strip_prefix(&**prefix)?)));
                let (mut objects, mut folders) = (Vec::new(), BTreeSet::new());
                for (key, rest) in below {
                    match rest.split_once('/') {
                        Some((name, _)) => { folders.insert(format!("{prefix}{name}/")); }
                        None => objects.push((key.clone(), ())),
                    }
                }
                prop_assert_eq!(&of.objects, &objects);
                prop_assert_eq!(&of.folders, &folders.into_iter().collect::<Vec<_>>());
            }
            let covered = keys.iter().any(|key| key.starts_with(&*first));
            prop_assert!(!last || !covered || whole.contains_key(&first));
        }
    }
}
