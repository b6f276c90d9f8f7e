use super::*;
use tidegate_engine::RenamedObject;

/// Returns a renamed folder with these objects.
fn renamed(id: &str, (from, to): (&str, &str), objects: &[&str]) -> RenamedFolder {
    let objects = objects.iter().map(|rest| RenamedObject {
        rest: (*rest).to_owned(),
        etag: None,
    });
    RenamedFolder {
        id: id.to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
        objects: objects.collect(),
        is_resumed: false,
    }
}

fn nodes() -> Nodes {
    Nodes::new(OriginId(7), "p/", Arc::default())
}

#[test]
fn numbers_are_the_same_after_a_restart() {
    let (before, after) = (nodes(), nodes());
    after.tell(ROOT_INO, "p/other", false);
    let ino = before.tell(ROOT_INO, "p/a", false).ino;
    assert_eq!(after.tell(ROOT_INO, "p/a", false).ino, ino);
    assert_eq!(after.number_of("p/a"), ino);
    assert_ne!(after.tell(ROOT_INO, "p/a/", true).ino, ino);
    assert_ne!(
        Nodes::new(OriginId(8), "p/", Arc::default()).number_of("p/a"),
        ino
    );
}

#[test]
fn two_keys_never_share_a_number() {
    let nodes = nodes();
    let number = nodes.number("p/a");
    let other = Arc::new(Node::new(number, ROOT_INO, "p/b".into(), false));
    nodes.known().nodes.insert(number, (other, 1));
    assert_eq!(nodes.number_of("p/a"), number + 1);
    assert_eq!(nodes.tell(ROOT_INO, "p/a", false).ino, number + 1);
    assert_eq!((next(0), next(u64::MAX)), (2, 2));
}

#[test]
fn a_node_lives_until_it_is_forgotten_as_often_as_told() {
    let nodes = nodes();
    let ino = nodes.tell(ROOT_INO, "p/f/a.txt", false).ino;
    let again = nodes.tell(ROOT_INO, "p/f/a.txt", false);
    assert_eq!((again.ino, again.name().as_str()), (ino, "a.txt"));
    nodes.forget(ino, 1);
    assert!(nodes.get(ino).is_some());
    nodes.forget(ino, 1);
    assert!(nodes.get(ino).is_none());
    nodes.forget(ino, 1);
    nodes.forget(ROOT_INO, 99);
    assert_eq!(nodes.get(ROOT_INO).expect("the root").key().as_ref(), "p/");
}

#[test]
fn a_node_keeps_its_number_when_it_is_renamed() {
    let nodes = nodes();
    let old = nodes.tell(ROOT_INO, "p/old", false);
    let over = nodes.tell(ROOT_INO, "p/new", false);
    let renamed = nodes.rename("p/old", "p/new", 9).expect("known");
    assert_eq!((renamed.ino, renamed.parent()), (old.ino, 9));
    assert_eq!(&*old.key(), "p/new");
    assert_eq!(nodes.tell(9, "p/new", false).ino, old.ino);
    assert_eq!(nodes.number_of("p/new"), old.ino);
    assert!(!over.is_linked() && nodes.get(over.ino).is_some());
    // The old key's number is taken as long as the kernel knows the node.
    let again = nodes.tell(ROOT_INO, "p/old", false);
    assert_eq!(again.ino, next(old.ino));
    nodes.forget(old.ino, 2);
    assert_eq!(nodes.number_of("p/old"), again.ino, "it has its number now");
    nodes.forget(over.ino, 1);
    assert_eq!(nodes.number_of("p/new"), old.ino, "for good");
}

#[test]
fn nodes_keep_their_numbers_when_their_folder_is_renamed() {
    let nodes = nodes();
    let old = nodes.tell(ROOT_INO, "p/old/", true);
    let file = nodes.tell(old.ino, "p/old/file", false);
    let deep = nodes.tell(old.ino, "p/old/deep/", true);
    let beside = nodes.tell(ROOT_INO, "p/old-file", false);
    let over = nodes.tell(ROOT_INO, "p/new/", true);
    assert_eq!(nodes.within("p/old/").len(), 3);
    nodes.rename_folder(&renamed("1", ("p/old/", "p/new/"), &[]), 9);
    assert_eq!((&*old.key(), old.parent()), ("p/new/", 9));
    assert_eq!((&*file.key(), file.parent()), ("p/new/file", old.ino));
    assert_eq!(&*beside.key(), "p/old-file");
    assert!(!over.is_linked() && nodes.within("p/old/").is_empty());
    for (key, node) in [
        ("p/new/", &old),
        ("p/new/file", &file),
        ("p/new/deep/", &deep),
    ] {
        assert_eq!(nodes.number_of(key), node.ino, "{key}");
    }
    // And once more, back.
    nodes.rename_folder(&renamed("2", ("p/new/", "p/old/"), &[]), ROOT_INO);
    assert_eq!(nodes.number_of("p/old/file"), file.ino);
    for (node, told) in [(&old, 1), (&file, 1), (&deep, 1), (&over, 1)] {
        nodes.forget(node.ino, told);
    }
    assert!(nodes.known().elsewhere.is_empty());
}

#[test]
fn what_comes_after_a_removed_file_is_another() {
    let nodes = nodes();
    let old = nodes.tell(ROOT_INO, "p/a", false);
    assert_eq!(nodes.unlink("p/a").expect("known").ino, old.ino);
    assert!(nodes.covered(|_| true).is_empty());
    let new = nodes.tell(ROOT_INO, "p/a", false);
    assert_ne!(new.ino, old.ino);
    nodes.forget(old.ino, 1);
    assert_eq!(nodes.number_of("p/a"), new.ino);
    nodes.forget(new.ino, 1);
    assert!(nodes.known().elsewhere.is_empty());
}

#[test]
fn a_late_creator_takes_the_name_from_no_other() {
    let nodes = nodes();
    let old = nodes.tell(ROOT_INO, "p/a", false);
    nodes.unlink_node(&old);
    let new = nodes.tell(ROOT_INO, "p/a", false);
    nodes.unlink_node(&old);
    assert!(!old.is_linked() && new.is_linked());
    assert_eq!(nodes.tell(ROOT_INO, "p/a", false).ino, new.ino);
    nodes.unlink_node(&new);
    assert!(!new.is_linked());
}

#[test]
fn a_renamed_file_keeps_its_number_when_it_was_forgotten_and_after_a_restart() {
    let numbers = Arc::<NumberTable>::default();
    let open = || Nodes::new(OriginId(7), "p/", numbers.clone());
    let nodes = open();
    let old = nodes.tell(ROOT_INO, "p/old", false).ino;
    nodes.rename("p/old", "p/new", ROOT_INO);
    nodes.forget(old, 1);
    assert_eq!(nodes.number_of("p/new"), old);
    assert_eq!(open().tell(ROOT_INO, "p/new", false).ino, old);
    // Another file of the old name has another number, and keeps it when the first one goes.
    let again = nodes.tell(ROOT_INO, "p/old", false).ino;
    assert_ne!(again, old);
    nodes.unlink("p/new");
    let nodes = open();
    assert_eq!(nodes.number_of("p/old"), again);
    assert_ne!(nodes.number_of("p/new"), old);
    nodes.tell(ROOT_INO, "p/old", false);
    nodes.rename("p/old", "p/new", ROOT_INO);
    assert_eq!(open().number_of("p/new"), again);
    assert_eq!(open().number_of("p/old"), old, "free again");
}

#[test]
fn a_name_that_is_replaced_again_and_again_has_few_numbers() {
    let numbers = Arc::<NumberTable>::default();
    let nodes = Nodes::new(OriginId(7), "p/", numbers);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let new = nodes.tell(ROOT_INO, "p/name.tmp", false).ino;
        let old = nodes.number_of("p/name");
        assert_ne!(new, old);
        nodes.rename("p/name.tmp", "p/name", ROOT_INO);
        assert_eq!(nodes.number_of("p/name"), new);
        nodes.forget(new, 1);
        seen.insert(new);
    }
    assert!(seen.len() <= 2, "{seen:?}");
}

#[test]
fn what_lies_in_a_renamed_folder_keeps_its_numbers_known_or_not() {
    let nodes = nodes();
    let keys = [
        "p/old/",
        "p/old/empty/",
        "p/old/book/",
        "p/old/book/1.mp3",
        "p/old/cover.jpg",
    ];
    let before = keys.map(|key| nodes.number_of(key));
    for (key, parent) in [
        (keys[0], ROOT_INO),
        (keys[1], before[0]),
        (keys[2], before[0]),
    ] {
        nodes.tell(parent, key, true);
    }
    // It was removed elsewhere, and the kernel still knows it.
    let stale = nodes.tell(ROOT_INO, "p/new/cover.jpg", false);
    let objects = ["empty/", "book/1.mp3", "cover.jpg"];
    let folder = renamed("1", ("p/old/", "p/new/"), &objects);
    nodes.rename_folder(&folder, ROOT_INO);
    let after = keys.map(|key| nodes.number_of(&key.replace("old", "new")));
    assert_eq!(after, before);
    assert!(!stale.is_linked());
    for known in &before[..3] {
        nodes.forget(*known, 1);
    }
    let after = keys.map(|key| nodes.number_of(&key.replace("old", "new")));
    assert_eq!(after, before, "for good");
    let anew = keys.map(|key| nodes.number_of(key));
    assert!(anew.iter().all(|number| !before.contains(number)));
}
