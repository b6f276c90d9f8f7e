//! The table by itself: how long answers last, and what makes them old.

use super::*;
use crate::names::answer::{ListedName, ListedPage};
use crate::read_context::EventSpan;
use tidegate_plan::ETag;

const ORIGIN: OriginId = OriginId(1);

fn asked(table: &Table, at: u64) -> NameRequest {
    NameRequest {
        origin: ORIGIN,
        epoch: table.epoch(),
        at: Timestamp(at),
        ttl: Duration::from_millis(100),
        negative_ttl: Duration::from_millis(10),
        stale_if_error: Duration::from_millis(1000),
        events: EventSpan::NONE,
    }
}

fn has(table: &Table, at: u64, path: &str) -> bool {
    table.get(&asked(table, at), path).is_some()
}

#[test]
fn names_live_for_their_time() {
    let table = Table::default();
    table.put(&asked(&table, 0), "f", Meaning::Folder);
    table.put(&asked(&table, 0), "m", Meaning::Missing);
    assert!(has(&table, 9, "f") && has(&table, 9, "m"));
    assert!(has(&table, 99, "f") && !has(&table, 10, "m"));
    assert!(!has(&table, 100, "f"));
}

#[test]
fn a_purge_forgets_what_it_may_have_made_wrong() {
    let table = Table::default();
    for (path, meaning) in [
        ("a", Meaning::Folder),
        ("a/new", Meaning::Missing),
        ("a/old", Meaning::Folder),
        ("b", Meaning::Folder),
    ] {
        table.put(&asked(&table, 0), path, meaning);
    }
    let before = asked(&table, 0);
    table.purge_key(ORIGIN, "a/new/x");
    assert!(!has(&table, 1, "a/new") && has(&table, 1, "a") && has(&table, 1, "a/old"));
    table.put(&before, "a/new", Meaning::Missing);
    assert!(!has(&table, 1, "a/new"));
    table.purge_prefix(ORIGIN, "a/");
    assert!(!has(&table, 1, "a") && !has(&table, 1, "a/old") && has(&table, 1, "b"));
}

#[test]
fn a_listing_brings_nothing_old_back() {
    let table = Table::default();
    let before = asked(&table, 0);
    let list = |asked: &NameRequest| {
        for path in ["f/here", "f/gone", "f/other"] {
            table.put(asked, path, Meaning::Folder);
        }
    };
    let missing = |path| {
        let seen = table.get(&asked(&table, 1), path).expect("known");
        seen.meaning.is_missing()
    };
    table.record_change(ORIGIN, "f/gone", Meaning::Missing, Timestamp(0));
    list(&before);
    assert!(missing("f/gone") && !missing("f/here") && !missing("f/other"));
    list(&asked(&table, 1));
    assert!(!missing("f/gone"), "somebody else has put it there");
    table.purge_key(ORIGIN, "f/here");
    list(&before);
    assert!(!has(&table, 1, "f/here") && has(&table, 1, "f/other"));
}

#[test]
fn all_of_a_folder_that_was_made_is_known() {
    let table = Table::default();
    let missing = |at, path: &str| table.is_missing(&asked(&table, at), path).is_some();
    assert!(!missing(0, "f/a") && !missing(0, "top"));
    table.record_made_folder(ORIGIN, "f", Timestamp(0));
    assert!(has(&table, 1, "f") && missing(9, "f/a") && !missing(1, "f/a/b"));
    table.record_change(ORIGIN, "f/a", Meaning::Folder, Timestamp(5));
    assert!(has(&table, 99, "f/a") && missing(9, "f/b") && !missing(9, "f/a/b"));
    assert!(!missing(10, "f/b"), "it is no longer fresh");
    // A key was added there without the table's knowledge.
    for put in ["g/a/new", "h/b"] {
        let folder = &put[..1];
        table.record_made_folder(ORIGIN, folder, Timestamp(0));
        table.purge_key(ORIGIN, put);
        assert!(!missing(1, &format!("{folder}/c")), "{put}");
    }
    table.record_made_folder(ORIGIN, "i", Timestamp(0));
    table.record_change(ORIGIN, "i", Meaning::Missing, Timestamp(1));
    assert!(!missing(1, "i/c"));
}

/// Of a folder in which this process has put something meanwhile, nothing else is known.
#[test]
fn own_names_are_in_a_folder_that_is_made_or_removed() {
    let table = Table::default();
    let missing = |path: &str| {
        let seen = table.get(&asked(&table, 1), path);
        seen.map(|seen| seen.meaning.is_missing())
    };
    for put in ["f/x", "g/x/y"] {
        let folder = &put[..1];
        table.forget_key(ORIGIN, put);
        table.record_made_folder(ORIGIN, folder, Timestamp(0));
        assert_eq!(missing(folder), Some(false), "{put}");
        assert_eq!((missing(put), missing(&put[..3])), (None, None), "{put}");
        table.record_change(ORIGIN, folder, Meaning::Missing, Timestamp(0));
        assert_eq!(missing(folder), None, "{put}");
        table.record_change(ORIGIN, &put[..3], Meaning::Missing, Timestamp(0));
        table.record_change(ORIGIN, folder, Meaning::Missing, Timestamp(0));
        // `g/x/y` may be there although `g/x` was removed.
        assert_eq!(missing(folder), (put == "f/x").then_some(true), "{put}");
    }
}

#[test]
fn the_files_of_a_folder_come_in_their_order() {
    let table = Table::default();
    let file = |size| {
        Meaning::File(Facts {
            size,
            modified: None,
            attributes: None,
            changed: None,
            etag: None,
            version: None,
        })
    };
    for (path, meaning) in [
        ("f/c", file(3)),
        ("f/a", file(1)),
        ("f/sub/x", file(1)),
        ("f/sub", Meaning::Folder),
        ("f/z", file(9)),
        ("f/b", Meaning::Missing),
        ("f/empty", file(0)),
        ("f/large", file(10)),
        ("g", file(1)),
        ("e/0", file(1)),
    ] {
        table.put(&asked(&table, 0), path, meaning);
    }
    let after = |path: &str, count, tree| {
        let files = table.files_after((ORIGIN, path), (count, 9), tree);
        files
            .iter()
            .map(|(path, size)| format!("{path} {size}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let check = || {
        // The folder's own files, and then those of the next ones.
        assert_eq!(after("f/a", 9, false), "f/c 3, f/z 9, g 1");
        assert_eq!(after("f/a", 1, false), "f/c 3");
        assert_eq!(after("f/z", 9, false), "g 1");
        assert_eq!(after("d", 9, false), "g 1");
        assert_eq!(after("e/0", 2, false), "f/a 1, f/c 3");
        assert_eq!(after("f/c", 9, true), "f/sub/x 1, f/z 9, g 1");
        assert_eq!(after("f/sub/x", 9, true), "f/z 9", "within one parent");
        assert_eq!(table.files_after((OriginId(0), "f/a"), (9, 9), false), []);
    };
    check();
    // Half of them in the old generation.
    {
        let mut names = table.lock();
        let names = &mut *names;
        names.old = names.young.split_off(&(ORIGIN, "f/d".into()));
    }
    check();
}

/// A node of the tree has 11 entries, of which those with six are left behind by names in order.
#[test]
fn a_name_is_charged_with_its_share_of_a_node() {
    let node = 11 * (size_of::<Path>() + size_of::<KnownName>());
    assert!(ENTRY_OVERHEAD >= node / 6 + 2 * 16 + ETAG_BYTES);
    let most = MAX_GENERATION_BYTES / (ENTRY_OVERHEAD + 60);
    assert!((25_000..40_000).contains(&most), "{most}");
}

#[test]
fn it_is_bounded_and_keeps_what_is_asked_for() {
    let table = Table::default();
    table.put(&asked(&table, 0), "kept", Meaning::Folder);
    for n in 0..300_000 {
        table.put(&asked(&table, 0), &format!("folder/{n}"), Meaning::Folder);
        if n % 1000 == 0 {
            assert!(has(&table, 1, "kept"));
        }
    }
    let names = table.lock();
    assert!((names.young.len() + names.old.len()) * ENTRY_OVERHEAD <= 2 * MAX_GENERATION_BYTES);
}

fn land(table: &Table, folder: &str, names: &[&str]) -> NameRequest {
    let epoch = table.begin_listing(ORIGIN, folder);
    let asked = NameRequest {
        epoch,
        ..asked(table, 0)
    };
    let landing = ListedPage {
        folder,
        epoch,
        number: 0,
        names: names
            .iter()
            .map(|name| ListedName {
                name: (*name).to_owned(),
                meaning: Meaning::Folder,
                stored: None,
                asked,
            })
            .collect(),
        odd: false,
        next: None,
    };
    table.record_page(&asked, landing);
    asked
}

#[test]
fn a_folder_is_forgotten_before_any_of_its_names() {
    let table = Table::default();
    // Some names come before, so that the folder's generation ages in the middle of its names.
    for n in 0..60_000 {
        table.put(&asked(&table, 0), &format!("before/{n}"), Meaning::Folder);
    }
    let names: Vec<_> = (0..20_000).map(|n| format!("{n:05}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    land(&table, "f", &names);
    let (mut known, key) = (0, |name: &str| (ORIGIN, format!("f/{name}").into()));
    for n in 0..300_000 {
        if table.is_missing(&asked(&table, 1), "f/none").is_some() {
            known += 1;
            let table = table.lock();
            for name in [names[0], names[9_999], names[19_999]] {
                let key = key(name);
                let has = table.young.contains_key(&key) || table.old.contains_key(&key);
                assert!(has, "{name} after {n}");
            }
        }
        table.put(&asked(&table, 0), &format!("after/{n}"), Meaning::Folder);
    }
    assert!((1..300_000).contains(&known), "{known}");
}

#[test]
fn of_two_listings_the_later_one_counts() {
    let table = Table::default();
    let missing = |path: &str| {
        let seen = table.get(&asked(&table, 1), path);
        seen.map(|seen| seen.meaning.is_missing())
    };
    let early = land(&table, "f", &["a", "b"]);
    let late = land(&table, "f", &["b", "c"]);
    assert_eq!(missing("f/a"), Some(true));
    table.put(&early, "f/a", Meaning::Folder);
    table.put(&early, "f/c", Meaning::Missing);
    assert_eq!((missing("f/a"), missing("f/c")), (Some(true), Some(false)));
    // Also if the missing name's answer is no longer fresh.
    let then = NameRequest {
        at: Timestamp(50),
        ..late
    };
    assert!(table.get(&then, "f/a").is_none());
    assert!(table.get(&then, "f/c").is_some());
    // A change here is later than both.
    table.record_change(ORIGIN, "f/a", Meaning::Folder, Timestamp(0));
    assert_eq!(missing("f/a"), Some(false));
    table.forget_key(ORIGIN, "f/b");
    table.forget_key(ORIGIN, "f/new/x");
    assert_eq!((missing("f/b"), missing("f/new")), (None, None));
    assert_eq!(missing("f/other"), Some(true));
    table.put(&late, "f/b", Meaning::Folder);
    assert_eq!(missing("f/b"), None, "it was asked before");
}

/// A listing begins between the look-up of a file and the change of its attributes.
#[test]
fn a_changed_version_may_be_found_once_more_in_between() {
    let file = |etag: Option<&str>| {
        Meaning::File(Facts {
            size: 1,
            modified: None,
            attributes: None,
            changed: None,
            etag: etag.map(|etag| ETag::parse(etag).expect("a tag")),
            version: None,
        })
    };
    let (mine, other) = (Some("\"a\""), Some("\"b\""));
    for (found, changes) in [(mine, true), (other, false), (None, false)] {
        let table = Table::default();
        table.put(&asked(&table, 0), "f/file", file(mine));
        let looked = asked(&table, 0);
        table.begin_listing(ORIGIN, "f");
        table.put(&asked(&table, 1), "f/file", file(found));
        let changed = table.record_change_of_found(&looked, "f/file", file(mine));
        assert_eq!(changed, changes, "{found:?}");
    }
}

#[test]
fn a_change_ends_what_a_look_into_a_folder_has_found() {
    let table = Table::default();
    let is_empty = |at| {
        let doubted = table.doubted_folders(&asked(&table, at), &["f/a/".into(), "f/b/".into()]);
        assert_eq!(doubted.len(), 1);
        doubted[0].is_empty
    };
    table.doubt_folder(ORIGIN, "f/a");
    let look = asked(&table, 0);
    assert!(!is_empty(0));
    table.note_look(&look, "f/a/", true);
    assert!(is_empty(9) && !is_empty(10));
    table.forget_key(ORIGIN, "f/a/x");
    assert!(!is_empty(0));
    // This look was sent before the change.
    table.note_look(&look, "f/a/", true);
    assert!(!is_empty(0));
    table.note_look(&look, "f/a/", false);
    assert!(!is_empty(0), "still doubted");
    table.note_look(&asked(&table, 0), "f/a/", false);
    let doubted = table.doubted_folders(&asked(&table, 0), &["f/a/".into()]);
    assert_eq!(doubted, []);
}
