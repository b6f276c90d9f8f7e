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
