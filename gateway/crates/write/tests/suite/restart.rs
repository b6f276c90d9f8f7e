//! The machine is switched off, or the process killed, and started again: the promised objects are there as they were
//! promised, and nothing else.

mod replaced;
mod unread;
mod unsynced;

use bytes::Bytes;
use tidegate_origin::fake::Fault;
use tidegate_plan::ByteRange;
use tidegate_write::{OpenMode, Progress, Settings, SpoolReading, Stage, WritePath, Writers};

use crate::support::engine::{self, same, sample};
use crate::support::spool::{Desk, PART, Terms, copy_of, down, patched, put, source, until};

const KEY: &str = "folder/object";

/// A small object is in its journal alone, whatever it was before, until it has a file.
#[tokio::test(start_paused = true)]
async fn a_small_object_is_there_after_a_restart_as_it_was_synced_last() {
    let steps = [
        "a", "ab", "aba", "acb", "acab", "adb", "abd", "dab", "eae", "aeb",
    ];
    for (name, goes_on) in steps
        .into_iter()
        .flat_map(|name| [(name, false), (name, true)])
    {
        let desk = Desk::new(Terms::background());
        let writer = desk.create(KEY).await;
        let mut truth = Bytes::new();
        for (seed, step) in (0..).zip(name.chars()) {
            let (at, length) = match step {
                'a' => (0, 300),
                'b' => (truth.len() as u64, 500),
                'd' => (7, 20),
                'e' => (1 << 20, 2 << 20),
                _ => (0, 0),
            };
            if step == 'c' {
                writer.truncate(0).await.expect("cut");
                truth = Bytes::new();
            } else {
                let bytes = sample(seed, length);
                put(&writer, at, &bytes).await;
                truth = patched(&truth, at, &bytes);
            }
            writer.sync().await.expect("durable");
        }
        if goes_on {
            // These bytes are not promised.
            put(&writer, truth.len() as u64, &"more".into()).await;
        }
        let again = desk.switched_off([writer], &Terms::background()).await;
        again.writers.settled().await;
        println!("{name}");
        same(&again.object(KEY).expect("there"), &truth);
        until(|| again.writers.spooled().0 == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_promised_goes_on_after_a_restart_from_the_parts_already_sent() {
    let desk = Desk::new(Terms::background());
    let bytes = sample(1, 10 * PART + 5);
    let synced = desk.create("synced").await;
    put(&synced, 0, &bytes).await;
    until(|| desk.bucket().count("part") == 10).await;
    desk.bucket().set_faults([down()]);
    put(&synced, 2 * PART, &"patch".into()).await;
    synced.sync().await.expect("durable");
    desk.write("closed", &bytes).await;
    let unsynced = desk.create("unsynced").await;
    put(&unsynced, 0, &bytes).await;
    until(|| {
        desk.writers
            .pending()
            .iter()
            .any(|it| it.stage == Stage::Waiting)
    })
    .await;
    let before = desk.bucket().count("part");
    let again = desk
        .switched_off([synced, unsynced], &Terms::background())
        .await;
    again.bucket().set_faults([]);
    again.writers.settled().await;
    let truth = patched(&bytes, 2 * PART, b"patch");
    same(&again.object("synced").expect("there"), &truth);
    same(&again.object("closed").expect("there"), &bytes);
    assert_eq!(again.object("unsynced"), None, "nobody was promised it");
    let sent = again.bucket().count("part") - before;
    assert_eq!(
        sent,
        2 + 11,
        "one changed, one not sent before; and all of the other"
    );
    until(|| again.bucket().uploads_under_way().is_empty()).await;
    until(|| again.writers.spooled().0 == 0).await;
}

/// Each draft is read twice: its journal, and what the journal says of its data.
#[tokio::test(start_paused = true)]
async fn what_is_read_of_the_spool_at_the_start_is_counted() {
    let desk = Desk::new(Terms::background());
    desk.bucket().set_faults([down()]);
    for key in ["a", "b", "c"] {
        desk.write(key, &sample(1, 300)).await;
    }
    let (copy, reading) = (copy_of(&desk.spool), SpoolReading::default());
    let settings = Settings {
        reading: reading.clone(),
        ..Terms::background().settings(copy.path())
    };
    let path = WritePath::new(&desk.world.engine);
    let started = Writers::start(&path, settings, &[source(&desk).clone()]);
    started.expect("a spool");
    // Other files may have no draft in them.
    let Progress { done, of } = reading.progress();
    assert!(of >= 6 && done == of, "{done} of {of}");
}

#[tokio::test(start_paused = true)]
async fn what_was_promised_before_a_restart_is_counted_until_it_is_in_the_bucket() {
    let desk = Desk::new(Terms::background());
    assert_eq!(desk.writers.resumed(), None);
    let new = desk.open("new", OpenMode::CreateNew).await.expect("opened");
    desk.bucket().set_faults([down()]);
    for key in ["a", "b"] {
        desk.write(key, &sample(1, 300)).await;
    }
    new.commit(desk.commit).await.expect("promised");
    assert_eq!(desk.writers.resumed(), None, "they are of this process");
    let again = desk.switched_off([new], &Terms::background()).await;
    again.write("c", &sample(2, 300)).await;
    let all = Progress { done: 0, of: 3 };
    assert_eq!(again.writers.resumed(), Some(all));
    // One of them will be refused.
    again.bucket().put("new", "of another");
    again.bucket().set_faults([]);
    again.writers.settled().await;
    assert_eq!(again.writers.resumed(), None);
    let pending = again.writers.pending();
    assert_eq!((pending.len(), pending[0].stage), (1, Stage::Refused));
}

/// A log that is synced line by line, and stays open for weeks.
#[tokio::test(start_paused = true)]
async fn a_journal_does_not_grow_for_ever() {
    // The spool keeps all sent bytes, or lets them go; the object is new, or extends an earlier one.
    for (size, before) in [(1 << 30, 0), (15 * PART, 0), (1 << 30, 7 * PART + 5)] {
        let terms = || Terms {
            size,
            ..Terms::default()
        };
        let desk = Desk::new(terms());
        let mut truth = sample(1, before);
        if before > 0 {
            desk.bucket().put(KEY, truth.clone());
        }
        let how = if before > 0 {
            OpenMode::Change
        } else {
            OpenMode::Create
        };
        let writer = desk.open(KEY, how).await.expect("opened");
        let mut longest = 0;
        for n in 0..2000 {
            let line = sample(n, 20);
            put(&writer, writer.size(), &line).await;
            truth = [&truth[..], &line].concat().into();
            writer.sync().await.expect("durable");
            let journals = std::fs::read_dir(desk.spool.path()).expect("a folder");
            let journals = journals.map(|it| it.expect("an entry"));
            let journals =
                journals.filter(|it| it.path().extension().is_some_and(|it| it == "journal"));
            let length = journals
                .map(|it| it.metadata().expect("a file").len())
                .max();
            longest = longest.max(length.unwrap_or(0));
        }
        // 2,000 lines would be 200 KB.
        assert!(longest < 40 << 10, "{longest}");
        desk.bucket().set_faults([down()]);
        let again = desk.switched_off([writer], &terms()).await;
        again.bucket().set_faults([]);
        again.writers.settled().await;
        same(&again.object(KEY).expect("there"), &truth);
    }
}

/// A part whose bytes have left the spool is in the store alone. Its replacement is durable here before it is sent: the
/// store may have it although the answer is lost.
#[tokio::test(start_paused = true)]
async fn what_has_gone_is_replaced_by_nothing_that_a_crash_forgets() {
    let terms = || Terms {
        size: 15 * PART,
        ..Terms::background()
    };
    let desk = Desk::new(terms());
    let writer = desk.create(KEY).await;
    let bytes = sample(1, 40 * PART);
    put(&writer, 0, &bytes).await;
    writer.sync().await.expect("durable");
    engine::settle().await;
    let gone = ByteRange::new(10 * PART, 11 * PART);
    assert!(writer.read_at(gone).await.is_err(), "it left the spool");
    desk.bucket().set_faults([Fault::LoseAnswer]);
    // More than the spool holds, so parts are sent a second time.
    let anew = sample(2, PART);
    for part in 5..25 {
        let write = writer.write_at(part * PART, anew.clone());
        if tokio::time::timeout(engine::secs(5), write).await.is_err() {
            break;
        }
    }
    let again = desk.switched_off([writer], &terms()).await;
    again.bucket().set_faults([]);
    let settled = tokio::time::timeout(engine::secs(3600), again.writers.settled());
    settled.await.expect("it can be completed");
    let found = again.object(KEY).expect("there");
    assert_eq!(found.len(), bytes.len());
    let mut replaced = 0;
    for (part, was) in bytes.chunks(PART as usize).enumerate() {
        let is = &found[part * PART as usize..][..PART as usize];
        assert!(is == was || is == anew && (5..25).contains(&part), "{part}");
        replaced += usize::from(is != was);
    }
    assert!(replaced > 0, "none was sent");
}
