//! Changes that others overtake: over HTTP, which locks no folder, and by foreign writers.

use tidegate_engine::names::Facts;
use tidegate_plan::Timestamp;
use tidegate_plan::attributes::Attributes;
use tidegate_write::receive::WriteCondition;
use tidegate_write::{Commit, WriteError};

use super::model::http_put;
use super::*;
use crate::support::engine::sample;
use crate::support::spool::{PART, put, source, until};

const FOLDER: &str = "f/";

/// Puts an object over HTTP during a change that the next write of this kind delays.
async fn put_during<T>(desk: &Desk, kind: &'static str, change: impl Future<Output = T>) -> T {
    desk.bucket().fail_from(kind, [Fault::Latency(secs(5))], []);
    let put = async {
        pass(secs(1)).await;
        http_put(desk, "f/x").await;
    };
    let (changed, ()) = tokio::join!(change, put);
    assert!(desk.bucket().keys().contains(&"f/x".to_owned()));
    changed
}

async fn shows_the_put(world: &World) {
    assert!(world.is_there("f").await);
    assert!(world.is_there("f/x").await);
    assert_eq!(world.names(FOLDER).await, ["x"]);
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_is_made_hides_no_object_that_was_put_meanwhile() {
    let desk = Desk::plain();
    assert!(!desk.world.is_there("f").await);
    let (source, key) = (source(&desk), valid(FOLDER));
    let made = desk.writers.make_folder(source, &key, None);
    let made = put_during(&desk, "put", made).await;
    made.expect("made");
    shows_the_put(&desk.world).await;
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_is_removed_hides_no_object_that_was_put_meanwhile() {
    let desk = Desk::plain();
    desk.bucket().put(FOLDER, "");
    let (world, key) = (&desk.world, valid(FOLDER));
    assert!(world.is_there("f").await);
    let is_empty = world.engine.is_empty(&world.source, FOLDER).await;
    assert_eq!(is_empty, Ok(true));
    let removed = desk.writers.remove(&world.source, &key);
    let removed = put_during(&desk, "delete", removed).await;
    removed.expect("removed");
    shows_the_put(world).await;
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_is_renamed_hides_no_object_that_was_put_meanwhile() {
    let desk = Desk::plain();
    for key in ["f/", "f/a", "f/s/b"] {
        desk.bucket().put(key, "1");
    }
    let (world, folders) = (&desk.world, (FOLDER, "g/"));
    let renamed = async {
        let locked = desk
            .writers
            .lock_folders(&world.source, [FOLDER, "g/"])
            .await;
        let renamed = desk
            .writers
            .rename_folder(&world.source, folders, 100, &locked);
        renamed.await.map(drop)
    };
    put_during(&desk, "delete", renamed).await.expect("renamed");
    shows_the_put(world).await;
    let before = world.costs();
    assert!(!world.is_there("f/s").await && !world.is_there("f/a").await);
    assert_eq!(world.since(before), (0, 0, 0));
}

/// Another server's file in a folder that both of them make.
#[tokio::test(start_paused = true)]
async fn others_names_in_a_folder_that_was_made_here_are_found_in_time() {
    let desk = Desk::plain();
    let world = &desk.world;
    assert!(!world.is_there("f").await);
    world.bucket.put("f/a", "of another server");
    let folder = valid(FOLDER);
    let made = desk.writers.make_folder(&world.source, &folder, None);
    made.await.expect("made");
    let before = world.costs();
    for n in 0..5 {
        assert!(!world.is_there(&format!("f/new-{n}")).await);
        desk.write(&format!("f/new-{n}"), &"bytes".into()).await;
    }
    assert_eq!(world.since(before), (0, 0, 0));
    pass(world.source.profile.load().negative_ttl).await;
    assert!(world.is_there("f/a").await);
    assert_eq!(world.since(before), (0, 1, 0));
}

/// A look-up for a change of attributes, during which `meanwhile` runs; returns how the change ends.
async fn change_after(
    desk: &Desk,
    meanwhile: impl Future<Output = ()>,
) -> Result<Timestamp, WriteError> {
    desk.write("f/x", &"own".into()).await;
    let since = desk.world.engine.name_epoch();
    let NameKind::File(facts) = desk.world.entry("f/x").await else {
        panic!("no file");
    };
    meanwhile.await;
    let attributes = Attributes {
        mode: Some(0o100_600),
        ..Attributes::default()
    };
    let (source, key, found): (_, _, (&Facts, _)) = (source(desk), valid("f/x"), (&facts, since));
    let changed = desk
        .writers
        .change_attributes(source, &key, found, attributes);
    changed.await
}

#[tokio::test(start_paused = true)]
async fn a_change_of_attributes_brings_nothing_removed_back() {
    let desk = Desk::plain();
    let removed = async {
        let (path, wanted) = (desk.writers.write_path(), WriteCondition::Anything);
        let deleted = path.delete(source(&desk), &valid("f/x"), &wanted).await;
        deleted.expect("deleted");
    };
    let changed = change_after(&desk, removed).await;
    assert_eq!(changed, Err(WriteError::Changed));
    assert!(!desk.world.is_there("f/x").await);
    assert_eq!(desk.world.names(FOLDER).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_attributes_brings_no_replaced_object_back() {
    let desk = Desk::plain();
    let changed = change_after(&desk, http_put(&desk, "f/x")).await;
    assert_eq!(changed, Err(WriteError::Changed));
    let entry = desk.world.entry("f/x").await;
    assert!(matches!(entry, NameKind::File(facts) if facts.size == 4));
    // Without another change it counts.
    let changed = change_after(&desk, async {}).await;
    assert!(changed.is_ok());
}

/// A commit in parts that another writer replaces before it is confirmed.
#[tokio::test(start_paused = true)]
async fn a_commit_that_is_replaced_shows_no_old_facts() {
    let desk = Desk::plain();
    let writer = desk.create("f/x").await;
    put(&writer, 0, &sample(1, 5 * PART)).await;
    let late = [Fault::Latency(secs(2))];
    desk.bucket().fail_from("complete", [], late);
    let replaced = async {
        until(|| desk.bucket().count("complete") == 1).await;
        pass(secs(1)).await;
        desk.bucket().put("f/x", "other");
    };
    let (committed, ()) = tokio::join!(writer.commit(Commit::Close), replaced);
    committed.expect("committed");
    drop(writer);
    desk.bucket().set_faults([]);
    let entry = desk.world.entry("f/x").await;
    assert!(matches!(entry, NameKind::File(facts) if facts.size == 5));
}

/// A hard purge during a write covers what was written, too: another program may have replaced it before the purge.
#[tokio::test(start_paused = true)]
async fn a_purge_during_a_write_counts_after_it() {
    let desk = Desk::plain();
    let late = [Fault::Latency(secs(5))];
    desk.bucket().fail_from("put", late, []);
    let purged = async {
        pass(secs(1)).await;
        desk.world.purge("f/x").await;
    };
    let bytes = "own".into();
    tokio::join!(desk.write("f/x", &bytes), purged);
    desk.bucket().put("f/x", "other");
    let entry = desk.world.entry("f/x").await;
    assert!(matches!(entry, NameKind::File(facts) if facts.size == 5));
    let read = desk.world.read("f/x").await.expect("read");
    assert_eq!(&read[..], b"other");
}

/// A reader of a folder of several pages in which an object was put over HTTP.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_put_over_http_costs_a_reader_of_its_folder_one_question() {
    let desk = Desk::plain();
    let world = &desk.world;
    for n in 0..2500 {
        world.bucket.put(&format!("f/{n:05}"), "x");
    }
    world.names(FOLDER).await;
    let before = world.costs();
    http_put(&desk, "f/-x").await;
    assert_eq!(world.names(FOLDER).await.len(), 2501);
    assert_eq!(world.since(before), (1, 0, 0));
    // Removed over HTTP, it is known to be gone.
    let (path, wanted) = (desk.writers.write_path(), WriteCondition::Anything);
    let deleted = path.delete(&world.source, &valid("f/-x"), &wanted).await;
    deleted.expect("deleted");
    assert_eq!(world.names(FOLDER).await.len(), 2500);
    assert!(!world.is_there("f/-x").await);
    assert_eq!(world.since(before), (1, 0, 0));
    // More unknown names than pages: those are listed again, after one page of the tree, which tells too little.
    for n in 0..4 {
        http_put(&desk, &format!("f/-x{n}")).await;
    }
    let before = world.costs();
    assert_eq!(world.names(FOLDER).await.len(), 2504);
    assert_eq!(world.since(before), (0, 1 + 3, 0));
}

/// The marker of a folder that has objects, and an object of a folder's name, leave the folder.
#[tokio::test(start_paused = true)]
async fn a_folder_stays_if_an_object_of_its_name_is_deleted_over_http() {
    let desk = Desk::plain();
    let world = &desk.world;
    for key in ["f/", "f/a", "g", "g/a"] {
        world.bucket.put(key, "x");
    }
    assert_eq!(world.names("").await, ["f", "g"]);
    let (path, wanted) = (desk.writers.write_path(), WriteCondition::Anything);
    for key in ["f/", "g"] {
        let deleted = path.delete(&world.source, &valid(key), &wanted).await;
        deleted.expect("deleted");
    }
    assert!(world.is_there("f").await && world.is_there("g").await);
}

/// An open for changes soon after the last write or confirmation asks nothing; the commit is conditional.
#[tokio::test(start_paused = true)]
async fn a_file_that_was_written_just_now_is_changed_without_a_question() {
    let desk = Desk::plain();
    desk.write("f/x", &"own".into()).await;
    let before = desk.world.costs();
    for line in ["1", "2", "3"] {
        let writer = desk.change("f/x").await;
        writer.append(line.into()).await.expect("written");
        writer.commit(Commit::Close).await.expect("committed");
        drop(writer);
        pass(secs(4)).await;
    }
    assert_eq!(desk.object("f/x"), Some("own123".into()));
    assert_eq!(desk.world.since(before), (0, 0, 0));
    // Another program's version is not overwritten.
    let writer = desk.change("f/x").await;
    desk.bucket().put("f/x", "other");
    writer.append("4".into()).await.expect("written");
    let committed = writer.commit(Commit::Close).await;
    assert_eq!(committed, Err(WriteError::Changed));
    assert_eq!(desk.object("f/x"), Some("other".into()));
    drop(writer);
    // Later on the bucket is asked.
    pass(secs(5)).await;
    let before = desk.world.costs();
    drop(desk.change("f/x").await);
    assert_eq!(desk.world.since(before).0, 1);
}
