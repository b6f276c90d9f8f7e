//! An operator's decision on a draft that another writer's change has made impossible.

use bytes::Bytes;
use tidegate_cache::fake::Faults;
use tidegate_engine::names::NameKind;
use tidegate_origin::fake::Fault;
use tidegate_plan::ObjectId;
use tidegate_plan::attributes::Attributes;
use tidegate_write::{
    OpenMode, PossibleChoices, RefusedChoice, ResolveError, Stage, WriteError, Writer,
};

use crate::support::engine::{pass, same, sample, secs, valid};
use crate::support::spool::{Desk, PART, Terms, all, patched, put, source, until};

mod meanwhile;

const KEY: &str = "folder/object";
const ASIDE: &str = "beside it";

fn id(desk: &Desk) -> ObjectId {
    source(desk).object(&valid(KEY))
}

/// Returns a desk whose draft was refused, the bytes that the draft has, and theirs. `known` says whether the bytes of
/// its base are cached.
async fn refused(known: bool) -> (Desk, Bytes, Bytes) {
    let desk = Desk::new(Terms::background());
    let before = sample(1, 3 * PART);
    desk.bucket().put(KEY, before.clone());
    let writer = desk.change(KEY).await;
    if known {
        same(&all(&writer).await, &before);
    }
    put(&writer, PART, &"mine".into()).await;
    let theirs: Bytes = "theirs".into();
    desk.bucket().put(KEY, theirs.clone());
    writer.commit(desk.commit).await.expect("promised");
    drop(writer);
    is_refused(&desk).await;
    (desk, patched(&before, PART, b"mine"), theirs)
}

/// Writes an object as a whole, which another writer changes before it is published.
async fn write_and_be_refused(desk: &Desk, ours: &Bytes) {
    let writer = desk.change(KEY).await;
    put(&writer, 0, ours).await;
    desk.bucket().put(KEY, "theirs");
    writer.commit(desk.commit).await.expect("promised");
    drop(writer);
    is_refused(desk).await;
}

async fn is_refused(desk: &Desk) {
    until(|| {
        let pending = desk.writers.pending();
        pending
            .first()
            .is_some_and(|one| one.stage == Stage::Refused)
    })
    .await;
}

/// Returns the choices that are said to be possible.
async fn possible(desk: &Desk) -> (bool, bool) {
    let choices = desk.writers.possible_choices(&id(desk)).await;
    let PossibleChoices {
        keep_ours,
        save_aside,
    } = choices.expect("it answers");
    (keep_ours, save_aside)
}

async fn nothing_is_left(desk: &Desk) {
    until(|| desk.writers.pending().is_empty()).await;
    until(|| desk.writers.spooled().0 == 0).await;
    until(|| desk.bucket().uploads_under_way().is_empty()).await;
}

fn joined(desk: &Desk) -> Option<Writer> {
    desk.writers.find(source(desk), &valid(KEY))
}

#[tokio::test(start_paused = true)]
async fn ours_replaces_theirs_with_every_byte_that_the_draft_has() {
    let (desk, ours, theirs) = refused(true).await;
    assert_eq!(possible(&desk).await, (true, true));
    let seen = desk.writers.theirs(&id(&desk)).await.expect("it answers");
    assert_eq!(seen.map(|version| version.size), Some(theirs.len() as u64));
    let done = desk
        .writers
        .resolve(&id(&desk), RefusedChoice::KeepOurs)
        .await;
    assert_eq!(done, Ok(()));
    same(&desk.object(KEY).expect("there"), &ours);
    nothing_is_left(&desk).await;
    let again = desk
        .writers
        .resolve(&id(&desk), RefusedChoice::KeepOurs)
        .await;
    assert_eq!(again, Err(ResolveError::NotRefused));
}

/// `touch` of a name that another gateway has made meanwhile: nothing is to be decided, and nothing hides their object.
#[tokio::test(start_paused = true)]
async fn an_empty_file_that_another_writer_made_first_is_theirs() {
    for bytes in ["", "mine"] {
        let desk = Desk::new(Terms::background());
        let writer = desk.open(KEY, OpenMode::CreateMissing).await;
        let writer = writer.expect("opened");
        put(&writer, 0, &bytes.into()).await;
        desk.bucket().put(KEY, "theirs");
        drop(writer);
        desk.writers.settled().await;
        match bytes {
            "" => {
                nothing_is_left(&desk).await;
                let reader = desk.change(KEY).await;
                same(&all(&reader).await, &"theirs".into());
            }
            _ => is_refused(&desk).await,
        }
        same(&desk.object(KEY).expect("there"), &"theirs".into());
    }
}

/// A store may refuse a body and close before its answer is heard. The version that it has tells that it was refused.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_never_heard_is_a_refusal() {
    let desk = Desk::new(Terms::background());
    desk.bucket().put(KEY, "before");
    desk.bucket().set_faults([Fault::LoseRefusal]);
    write_and_be_refused(&desk, &"mine, whole".into()).await;
    same(&desk.object(KEY).expect("there"), &"theirs".into());
}

/// Bytes of the version before are in no cache and no bucket any more: nothing of another version takes their place.
#[tokio::test(start_paused = true)]
async fn ours_is_refused_again_if_bytes_of_its_base_are_gone() {
    let (desk, _, theirs) = refused(false).await;
    assert_eq!(possible(&desk).await, (false, false));
    for choice in [
        RefusedChoice::KeepOurs,
        RefusedChoice::SaveAside(valid(ASIDE)),
    ] {
        let done = desk.writers.resolve(&id(&desk), choice).await;
        assert!(matches!(done, Err(ResolveError::Failed(_))), "{done:?}");
        same(&desk.object(KEY).expect("there"), &theirs);
        assert_eq!(desk.object(ASIDE), None);
        is_refused(&desk).await;
    }
}

/// While the index of a disk is being read in, or the disk hangs meanwhile, its chunks are not found. They are not lost.
#[tokio::test(start_paused = true)]
async fn what_a_disk_may_still_have_is_not_called_lost() {
    let (desk, _, _) = refused(false).await;
    for stuck in [false, true] {
        desk.world.store.set(Faults {
            loading: !stuck,
            stuck,
            ..Faults::default()
        });
        let possible = desk.writers.possible_choices(&id(&desk)).await;
        assert!(
            matches!(possible, Err(ResolveError::Failed(_))),
            "{stuck}: {possible:?}"
        );
    }
}

/// A change of attributes waits when a program opens the file, and the file is refused.
#[tokio::test(start_paused = true)]
async fn a_change_of_attributes_has_no_refused_draft_tried_again() {
    let desk = Desk::new(Terms::background());
    desk.write(KEY, &"before".into()).await;
    desk.writers.settled().await;
    change_mode(&desk).await;
    write_and_be_refused(&desk, &"mine, whole".into()).await;
    let puts = desk.bucket().count("put");
    pass(secs(60)).await;
    assert_eq!(desk.bucket().count("put"), puts);
    // An orderly end has nothing to wait for.
    let settled = tokio::time::timeout(secs(5), desk.writers.settled()).await;
    settled.expect("nothing waits");
    let ours = desk
        .writers
        .resolve(&id(&desk), RefusedChoice::KeepOurs)
        .await;
    assert_eq!(ours, Ok(()));
    let (version, bytes) = desk.bucket().object(KEY).expect("there");
    same(&bytes, &"mine, whole".into());
    assert_eq!(Attributes::of(&version.headers).mode, Some(0o100_600));
}

async fn change_mode(desk: &Desk) {
    let since = desk.world.engine.name_epoch();
    let found = desk.world.engine.look_up(source(desk), KEY, true).await;
    let NameKind::File(facts) = found.expect("an answer").entry else {
        panic!("no file");
    };
    let attributes = Attributes {
        mode: Some(0o100_600),
        ..Attributes::default()
    };
    let (writers, key) = (&desk.writers, valid(KEY));
    let changed = writers.change_attributes(source(desk), &key, (&facts, since), attributes);
    changed.await.expect("changed");
}

#[tokio::test(start_paused = true)]
async fn theirs_stays_and_the_draft_goes() {
    let (desk, _, theirs) = refused(true).await;
    let done = desk
        .writers
        .resolve(&id(&desk), RefusedChoice::KeepTheirs)
        .await;
    assert_eq!(done, Ok(()));
    same(&desk.object(KEY).expect("there"), &theirs);
    nothing_is_left(&desk).await;
    assert!(joined(&desk).is_none());
    // The next reader asks the bucket, and finds what is cached of a version: other drafts may have nothing else of it.
    let before = sample(1, 3 * PART);
    desk.bucket().put(KEY, before.clone());
    let gets = desk.bucket().gets();
    let reader = desk.change(KEY).await;
    same(&all(&reader).await, &before);
    assert_eq!(desk.bucket().gets(), gets, "its bytes are still cached");
    drop(reader);
    let desk = desk.switched_off([], &Terms::background()).await;
    assert!(desk.writers.pending().is_empty(), "nothing of it returns");
}

#[tokio::test(start_paused = true)]
async fn a_draft_that_is_saved_aside_leaves_both_versions() {
    let (desk, ours, theirs) = refused(true).await;
    let choice = RefusedChoice::SaveAside(valid(ASIDE));
    assert_eq!(desk.writers.resolve(&id(&desk), choice).await, Ok(()));
    same(&desk.object(KEY).expect("there"), &theirs);
    same(&desk.object(ASIDE).expect("there"), &ours);
    nothing_is_left(&desk).await;
}

#[tokio::test(start_paused = true)]
async fn a_draft_is_saved_aside_only_where_no_object_is() {
    let (desk, _, theirs) = refused(true).await;
    desk.bucket().put(ASIDE, "another");
    let choice = RefusedChoice::SaveAside(valid(ASIDE));
    let done = desk.writers.resolve(&id(&desk), choice).await;
    assert_eq!(done, Err(ResolveError::Failed(WriteError::Exists)));
    assert_eq!(desk.object(ASIDE), Some("another".into()));
    same(&desk.object(KEY).expect("there"), &theirs);
    is_refused(&desk).await;
}

#[tokio::test(start_paused = true)]
async fn a_base_that_the_bucket_has_again_gives_the_choices_back() {
    let (desk, ours, _) = refused(false).await;
    assert_eq!(possible(&desk).await, (false, false));
    desk.bucket().put(KEY, sample(1, 3 * PART));
    assert_eq!(possible(&desk).await, (true, true));
    let choice = RefusedChoice::SaveAside(valid(ASIDE));
    assert_eq!(desk.writers.resolve(&id(&desk), choice).await, Ok(()));
    same(&desk.object(ASIDE).expect("there"), &ours);
}

/// A draft that was written as a whole needs no base.
#[tokio::test(start_paused = true)]
async fn a_whole_draft_has_each_choice_also_if_its_base_is_gone() {
    let desk = Desk::new(Terms::background());
    desk.bucket().put(KEY, sample(1, 3 * PART));
    let ours = sample(2, 3 * PART);
    write_and_be_refused(&desk, &ours).await;
    assert_eq!(possible(&desk).await, (true, true));
    let choice = RefusedChoice::SaveAside(valid(ASIDE));
    assert_eq!(desk.writers.resolve(&id(&desk), choice).await, Ok(()));
    same(&desk.object(ASIDE).expect("there"), &ours);
}

/// Sent parts that have left the spool can become the object, but cannot be read for another one.
#[tokio::test(start_paused = true)]
async fn a_draft_whose_parts_have_left_the_spool_is_not_saved_aside() {
    let terms = Terms {
        size: 6 * PART,
        ..Terms::background()
    };
    let desk = Desk::new(terms);
    desk.bucket().put(KEY, sample(1, PART));
    let ours = sample(2, 20 * PART);
    write_and_be_refused(&desk, &ours).await;
    assert_eq!(possible(&desk).await, (true, false));
    let aside = RefusedChoice::SaveAside(valid(ASIDE));
    let done = desk.writers.resolve(&id(&desk), aside).await;
    assert!(matches!(done, Err(ResolveError::Failed(_))), "{done:?}");
    let ours_stays = RefusedChoice::KeepOurs;
    assert_eq!(desk.writers.resolve(&id(&desk), ours_stays).await, Ok(()));
    same(&desk.object(KEY).expect("there"), &ours);
    nothing_is_left(&desk).await;
}

#[tokio::test(start_paused = true)]
async fn only_a_refused_draft_is_decided_on() {
    let desk = Desk::plain();
    let writer = desk.create(KEY).await;
    put(&writer, 0, &"mine".into()).await;
    for choice in [RefusedChoice::KeepOurs, RefusedChoice::KeepTheirs] {
        let done = desk.writers.resolve(&id(&desk), choice).await;
        assert_eq!(done, Err(ResolveError::NotRefused));
    }
    assert!(desk.writers.theirs(&id(&desk)).await.is_err());
    let choices = desk.writers.possible_choices(&id(&desk)).await;
    assert_eq!(choices, Err(ResolveError::NotRefused));
    writer.commit(desk.commit).await.expect("committed");
    assert_eq!(desk.object(KEY), Some("mine".into()));
}
