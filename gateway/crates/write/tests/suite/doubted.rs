//! A refusal tells that the bucket has something else than what this process knows. The next open and the next look-up
//! ask the bucket, however fresh that knowledge was.

use std::sync::{Arc, Mutex};

use futures_core::future::BoxFuture;
use tidegate_engine::names::NameKind;
use tidegate_engine::{Error, InvalidationSubscriber, OpenOptions, Scope};
use tidegate_plan::OriginId;
use tidegate_plan::attributes::Attributes;
use tidegate_write::receive::WriteCondition;
use tidegate_write::{OpenMode, WriteError};

use crate::support::engine::{same, valid, whole};
use crate::support::spool::{Desk, Terms, all, put, source, until};

const KEY: &str = "folder/object";
const OTHER: &str = "folder/other";
const THEIRS: &str = "theirs, and longer";

/// A subscriber that remembers the keys.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl InvalidationSubscriber for Told {
    fn purged<'a>(&'a self, _: OriginId, scope: &'a Scope) -> BoxFuture<'a, ()> {
        if let Scope::Key(key) = scope {
            let mut told = self.0.lock().expect("keys");
            told.push(key.as_str().to_owned());
        }
        Box::pin(std::future::ready(()))
    }
}

impl Told {
    fn of(desk: &Desk) -> Arc<Self> {
        let told = Arc::new(Self::default());
        let subscriber: Arc<dyn InvalidationSubscriber> = told.clone();
        desk.world.engine.subscribe(Arc::downgrade(&subscriber));
        told
    }

    async fn hears_of(&self, key: &str) {
        let is_told = || self.0.lock().expect("keys").iter().any(|it| it == key);
        until(is_told).await;
    }
}

/// Returns the size of the file that a look-up finds.
async fn size(desk: &Desk, key: &str) -> Option<u64> {
    let found = desk.world.engine.look_up(source(desk), key, true).await;
    match found.expect("an answer").entry {
        NameKind::File(facts) => Some(facts.size),
        NameKind::Folder | NameKind::Missing => None,
    }
}

/// Readers see what the bucket has, by name and by bytes.
async fn sees(desk: &Desk, key: &str, expected: Option<&str>) {
    let length = expected.map(|bytes| bytes.len() as u64);
    assert_eq!(size(desk, key).await, length, "{key}");
    let opened = desk.world.open(key, OpenOptions::default()).await;
    match expected {
        Some(bytes) => {
            let read = whole(&opened.expect("there")).await;
            same(&read.expect("readable"), &bytes.to_owned().into());
        }
        None => assert_eq!(opened.map(drop), Err(Error::NotFound)),
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_change_shows_their_version() {
    for terms in [Terms::default(), Terms::background()] {
        for is_own in [false, true] {
            let desk = Desk::new(Terms {
                commit: terms.commit,
                ..Terms::default()
            });
            let told = Told::of(&desk);
            match is_own {
                true => desk.write(KEY, &"before".into()).await,
                false => drop(desk.bucket().put(KEY, "before")),
            }
            desk.writers.settled().await;
            sees(&desk, KEY, Some("before")).await;
            let writer = desk.change(KEY).await;
            put(&writer, 6, &"ours".into()).await;
            desk.bucket().put(KEY, THEIRS);
            assert_eq!(writer.publish().await, Err(WriteError::Changed));
            told.hears_of(KEY).await;
            drop(writer);
            sees(&desk, KEY, Some(THEIRS)).await;
            let again = desk.change(KEY).await;
            same(&all(&again).await, &THEIRS.into());
            put(&again, THEIRS.len() as u64, &"!".into()).await;
            again.publish().await.expect("it is based on theirs");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_change_of_a_removed_object_shows_none() {
    let desk = Desk::plain();
    let told = Told::of(&desk);
    desk.bucket().put(KEY, "before");
    sees(&desk, KEY, Some("before")).await;
    let writer = desk.change(KEY).await;
    put(&writer, 6, &"ours".into()).await;
    desk.bucket().delete(KEY);
    assert!(writer.publish().await.is_err());
    drop(writer);
    told.hears_of(KEY).await;
    sees(&desk, KEY, None).await;
    let new = desk.open(KEY, OpenMode::CreateNew).await.expect("free");
    new.publish().await.expect("published");
}

#[tokio::test(start_paused = true)]
async fn a_refused_new_object_shows_theirs() {
    for how in [OpenMode::CreateNew, OpenMode::CreateMissing] {
        let desk = Desk::plain();
        let told = Told::of(&desk);
        sees(&desk, KEY, None).await;
        desk.bucket().put(KEY, THEIRS);
        let writer = desk.open(KEY, how).await.expect("known to be missing");
        put(&writer, 0, &"ours".into()).await;
        assert_eq!(writer.publish().await, Err(WriteError::Changed));
        drop(writer);
        told.hears_of(KEY).await;
        let again = desk.open(KEY, OpenMode::CreateNew).await;
        assert_eq!(again.map(drop).err(), Some(WriteError::Exists));
        sees(&desk, KEY, Some(THEIRS)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_change_of_attributes_shows_their_version() {
    for theirs in [Some(THEIRS), None] {
        let desk = Desk::plain();
        let told = Told::of(&desk);
        desk.bucket().put(KEY, "before");
        sees(&desk, KEY, Some("before")).await;
        let since = desk.world.engine.name_epoch();
        let found = desk.world.engine.look_up(source(&desk), KEY, true).await;
        let NameKind::File(facts) = found.expect("an answer").entry else {
            panic!("no file");
        };
        match theirs {
            Some(theirs) => drop(desk.bucket().put(KEY, theirs)),
            None => desk.bucket().delete(KEY),
        }
        let attributes = Attributes {
            mode: Some(0o100_600),
            ..Attributes::default()
        };
        let (writers, key) = (&desk.writers, valid(KEY));
        let changed = writers.change_attributes(source(&desk), &key, (&facts, since), attributes);
        changed.await.expect("noted");
        writers.settled().await;
        told.hears_of(KEY).await;
        sees(&desk, KEY, theirs).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_rename_shows_what_is_there() {
    let desk = Desk::plain();
    let told = Told::of(&desk);
    desk.bucket().put(KEY, "before");
    sees(&desk, KEY, Some("before")).await;
    sees(&desk, OTHER, None).await;
    desk.bucket().put(OTHER, THEIRS);
    let (writers, from, to) = (&desk.writers, valid(KEY), valid(OTHER));
    let renamed = writers.rename_over(source(&desk), &from, &to, true).await;
    assert_eq!(renamed, Err(WriteError::Exists));
    told.hears_of(OTHER).await;
    sees(&desk, OTHER, Some(THEIRS)).await;
    desk.bucket().delete(KEY);
    let renamed = writers.rename(source(&desk), &from, &to).await;
    assert_eq!(renamed, Err(Error::NotFound.into()));
    told.hears_of(KEY).await;
    sees(&desk, KEY, None).await;
    sees(&desk, OTHER, Some(THEIRS)).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_deletion_shows_their_version() {
    let desk = Desk::plain();
    let told = Told::of(&desk);
    let before = desk.bucket().put(KEY, "before");
    sees(&desk, KEY, Some("before")).await;
    desk.bucket().put(KEY, THEIRS);
    let path = desk.writers.write_path();
    let wanted = WriteCondition::Version(before.etag.clone());
    let deleted = path.delete(source(&desk), &valid(KEY), &wanted).await;
    assert_eq!(deleted, Err(WriteError::Changed));
    told.hears_of(KEY).await;
    sees(&desk, KEY, Some(THEIRS)).await;
}

/// The copy has the source's bytes from the cache; the source is what the bucket has.
#[tokio::test(start_paused = true)]
async fn a_copy_of_a_replaced_object_shows_their_version() {
    let desk = Desk::plain();
    let told = Told::of(&desk);
    desk.bucket().put(KEY, "before");
    sees(&desk, KEY, Some("before")).await;
    let object = desk
        .world
        .open(KEY, OpenOptions::default())
        .await
        .expect("there");
    let writer = desk.create(OTHER).await;
    let range = tidegate_plan::ByteRange::new(0, 6);
    assert_eq!(writer.copy_published(&object, range).await, Ok(true));
    desk.bucket().put(KEY, THEIRS);
    writer.publish().await.expect("its bytes are cached");
    told.hears_of(KEY).await;
    sees(&desk, KEY, Some(THEIRS)).await;
    sees(&desk, OTHER, Some("before")).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_folder_shows_what_is_there() {
    let desk = Desk::plain();
    let told = Told::of(&desk);
    sees(&desk, "folder", None).await;
    desk.bucket().put("folder/", "bytes of another program");
    let (writers, key) = (&desk.writers, valid("folder/"));
    let made = writers.make_folder(source(&desk), &key, None).await;
    assert_eq!(made, Err(WriteError::Exists));
    told.hears_of("folder").await;
    let found = desk.world.engine.look_up(source(&desk), "folder", true);
    assert_eq!(found.await.expect("an answer").entry, NameKind::Folder);
}
