//! Drafts and their publication under every identity of a bucket.

use std::sync::Arc;

use tidegate_engine::names::NameKind;
use tidegate_engine::{Error, InvalidationSubscriber, OpenOptions, ReadContext, Scope};
use tidegate_origin::FakeOrigin;
use tidegate_plan::{OriginId, RangeSpec};

use crate::engine::{self, Setup, first, same, sample, secs, settle, valid};
use crate::spool::{Desk, PART, Terms, copy_of, down, put};

/// A subscriber that records the identities of its invalidations.
#[derive(Debug, Default)]
struct Told(std::sync::Mutex<Vec<(OriginId, Scope)>>);

impl InvalidationSubscriber for Told {
    fn purged<'a>(
        &'a self,
        origin: OriginId,
        scope: &'a Scope,
    ) -> futures_util::future::BoxFuture<'a, ()> {
        self.0.lock().expect("told").push((origin, scope.clone()));
        Box::pin(std::future::ready(()))
    }
}

fn seen_as(identities: &[&'static str]) -> Setup {
    let mut setup = Setup::bucket(FakeOrigin::new().with_min_part(1));
    setup.identities = identities.to_vec();
    setup
}

/// A write through a mount reaches the names, the versions and the mounts of every identity.
#[tokio::test(start_paused = true)]
async fn a_draft_that_is_published_is_known_under_every_identity() {
    let mut world = seen_as(&["staff", "audit"]).build();
    let audit = world.seen_by("audit");
    world.source = world.seen_by("staff");
    let bytes = sample(1, 3 * PART);
    world.bucket.put("f/a", sample(2, 100));
    let folder = tempfile::tempdir().expect("a folder");
    let desk = Desk::over(world, folder, &Terms::default());
    let engine = &desk.world.engine;
    let told = Arc::new(Told::default());
    engine.subscribe(Arc::downgrade(
        &(told.clone() as Arc<dyn InvalidationSubscriber>),
    ));

    let size = async |source: &Arc<ReadContext>, key: &str| {
        let found = engine.look_up(source, key, false).await.expect("an answer");
        match found.entry {
            NameKind::File(facts) => Some(facts.size),
            _ => None,
        }
    };
    assert_eq!(size(&audit, "f/a").await, Some(100));
    assert_eq!(size(&audit, "f/b").await, None);
    for key in ["f/a", "f/b"] {
        desk.write(key, &bytes).await;
        assert_eq!(size(&audit, key).await, Some(3 * PART), "{key}");
        let object = engine
            .open(&audit, &valid(key), first(RangeSpec::From(0)))
            .await;
        same(
            &engine::whole(&object.expect("there")).await.expect("whole"),
            &bytes,
        );
    }
    settle().await;
    let heard = |key: &str| {
        let told = told.0.lock().expect("told");
        let scope = Scope::Key(valid(key));
        let ours = |(origin, of): &&(OriginId, Scope)| *origin == audit.origin.id() && *of == scope;
        told.iter().filter(ours).count()
    };
    assert!(heard("f/a") > 0 && heard("f/b") > 0);

    let (from, to) = (valid("f/b"), valid("f/c"));
    let renamed = desk.writers.rename(&desk.world.source, &from, &to).await;
    renamed.expect("renamed");
    assert_eq!(
        (size(&audit, "f/b").await, size(&audit, "f/c").await),
        (None, Some(3 * PART))
    );
    desk.writers
        .remove(&desk.world.source, &to)
        .await
        .expect("removed");
    assert_eq!(size(&audit, "f/c").await, None);
    let gone = engine.open(&audit, &to, OpenOptions::default()).await;
    assert_eq!(gone.map(drop), Err(Error::NotFound));
}

/// A spool from before its origin had an identity.
#[tokio::test(start_paused = true)]
async fn a_draft_finds_its_bucket_when_the_access_is_given_a_name() {
    let terms = Terms::background();
    let desk = Desk::new(Terms::background());
    let bytes = sample(1, 3 * PART + 5);
    desk.bucket().set_faults([down()]);
    desk.write("f/a", &bytes).await;
    let half = desk.create("f/b").await;
    put(&half, 0, &bytes).await;
    half.sync().await.expect("durable");

    let copy = copy_of(&desk.spool);
    let mut world = desk.world.clone();
    desk.world.engine.close(secs(5)).await;
    drop(half);
    world.restart(engine::clock());
    world.source = world.seen_by("staff");
    world.bucket.set_faults([]);
    let again = Desk::over(world, copy, &terms);
    again.writers.settled().await;
    for key in ["f/a", "f/b"] {
        same(&again.object(key).expect("published"), &bytes);
        let read = again.world.read(key).await;
        same(&read.expect("readable"), &bytes);
    }
    assert_eq!(again.writers.spooled().0, 0);
}
