//! The machine is switched off, or the process killed, and started again: the promised objects are there as they were
//! promised, and nothing else.

mod unread;

use bytes::Bytes;
use tidegate_origin::fake::Fault;
use tidegate_plan::ByteRange;
use tidegate_write::{OpenMode, Progress, Settings, SpoolReading, Stage, WritePath, Writers};

use crate::support::engine::{self, same, sample, valid};
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

/// A closed draft waits for the bucket, and a writer opens it to be replaced: a crash finds the closed draft until the
/// writer's own bytes are promised.
#[tokio::test(start_paused = true)]
async fn what_was_closed_is_there_until_what_replaces_it_is_promised() {
    for (length, step) in [100, 5 * PART + 100]
        .into_iter()
        .flat_map(|it| [(it, "cut"), (it, "written"), (it, "synced"), (it, "closed")])
    {
        let desk = Desk::new(Terms::background());
        desk.bucket().put(KEY, "before");
        let (first, second) = (sample(1, length), sample(2, length + 300));
        let writer = desk.create(KEY).await;
        put(&writer, 0, &first).await;
        // Its parts are sent, and aborted in the end.
        until(|| desk.bucket().count("part") as u64 == length / PART).await;
        desk.bucket().set_faults([down()]);
        writer.commit(desk.commit).await.expect("promised");
        drop(writer);
        let writer = desk.create(KEY).await;
        if step != "cut" {
            put(&writer, 0, &second).await;
        }
        match step {
            "synced" => writer.sync().await.expect("durable"),
            "closed" => writer.commit(desk.commit).await.expect("promised"),
            _ => {}
        }
        let again = desk.switched_off([writer], &Terms::background()).await;
        again.bucket().set_faults([]);
        again.writers.settled().await;
        let promised = match step {
            "cut" | "written" => &first,
            _ => &second,
        };
        println!("{length} bytes, {step}");
        same(&again.object(KEY).expect("there"), promised);
        until(|| again.writers.spooled().0 == 0).await;
    }
}

/// The same without a crash: the replacement is published once, and nothing of the earlier draft is left.
#[tokio::test(start_paused = true)]
async fn what_was_replaced_before_it_was_published_is_not() {
    for closes in [true, false] {
        let desk = Desk::new(Terms::background());
        desk.bucket().set_faults([down()]);
        let mut truth = Bytes::new();
        for round in 1..4 {
            truth = sample(round, 3 * PART * u64::from(round == 2) + 100 * round);
            let writer = desk.create(KEY).await;
            put(&writer, 0, &truth).await;
            if closes {
                writer.commit(desk.commit).await.expect("promised");
            } else {
                writer.sync().await.expect("durable");
            }
        }
        desk.bucket().set_faults([]);
        desk.writers.settled().await;
        same(&desk.object(KEY).expect("there"), &truth);
        until(|| desk.writers.spooled().0 == 0).await;
        until(|| desk.bucket().uploads_under_way().is_empty()).await;
        let again = desk.switched_off([], &Terms::background()).await;
        assert!(again.writers.pending().is_empty());
    }
}

/// Unsynced bytes of one process are lost with it: a sync by the next process does not bring them back, as zeros, in
/// place of the object's bytes.
#[tokio::test(start_paused = true)]
async fn what_was_not_synced_stays_gone_over_two_restarts() {
    let base = sample(1, 10 * PART);
    let desk = Desk::new(Terms::background());
    desk.bucket().put(KEY, base.clone());
    let writer = desk.change(KEY).await;
    put(&writer, 5000, &sample(2, 1000)).await;
    writer.sync().await.expect("durable");
    put(&writer, 1000, &sample(3, 1000)).await;
    writer.truncate(9000).await.expect("cut");
    desk.bucket().set_faults([down()]);
    let second = desk.switched_off([writer], &Terms::background()).await;
    let writer = second.writers.find(source(&second), &valid(KEY));
    let writer = writer.expect("it was promised");
    put(&writer, 0, &"second".into()).await;
    writer.sync().await.expect("durable");
    let third = second.switched_off([writer], &Terms::background()).await;
    third.bucket().set_faults([]);
    third.writers.settled().await;
    let mut truth = base.slice(..9000).to_vec();
    truth[5000..6000].copy_from_slice(&sample(2, 1000));
    truth[..6].copy_from_slice(b"second");
    same(&third.object(KEY).expect("there"), &truth.into());
}

/// A file has a length that no sync has made durable, and bytes before it that are not durable either.
#[tokio::test(start_paused = true)]
async fn no_zeros_come_in_place_of_bytes_that_were_not_synced() {
    for (synced, appended, length) in [
        (500, 300, 700),
        (500, 300, 2000),
        (500, 0, 2000),
        (3 * PART, 5 * PART, 7 * PART),
        (2 << 20, 3 << 20, 6 << 20),
    ] {
        let terms = Terms::background();
        let desk = Desk::new(terms);
        desk.bucket().set_faults([down()]);
        let bytes = sample(1, synced);
        let writer = desk.create(KEY).await;
        put(&writer, 0, &bytes).await;
        writer.sync().await.expect("durable");
        put(&writer, synced, &sample(2, appended)).await;
        writer.truncate(length).await.expect("another length");
        let again = desk.switched_off([writer], &Terms::background()).await;
        again.bucket().set_faults([]);
        again.writers.settled().await;
        same(&again.object(KEY).expect("there"), &bytes);
    }
}

/// Zeros at the end that a program has made there are no bytes that were lost.
#[tokio::test(start_paused = true)]
async fn an_end_that_was_made_zero_keeps_the_length() {
    let desk = Desk::new(Terms::background());
    desk.bucket().set_faults([down()]);
    let bytes = sample(1, 500);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &bytes).await;
    writer.sync().await.expect("durable");
    let zeroed = writer.zero(ByteRange::new(400, 500)).await;
    zeroed.expect("zero");
    let again = desk.switched_off([writer], &Terms::background()).await;
    again.bucket().set_faults([]);
    again.writers.settled().await;
    same(
        &again.object(KEY).expect("there"),
        &patched(&bytes, 400, &[0; 100]),
    );
}

/// The disk had kept the journal of a draft that was published: the next draft of its object counts alone, and on its own
/// condition.
#[tokio::test(start_paused = true)]
async fn of_two_drafts_of_one_object_the_later_counts() {
    for (n, how) in (0..16).flat_map(|n| [(n, OpenMode::Create), (n, OpenMode::Change)]) {
        let desk = Desk::new(Terms::background());
        desk.bucket().set_faults([down()]);
        desk.write(KEY, &"first".into()).await;
        let earlier = copy_of(&desk.spool);
        desk.bucket().set_faults([]);
        desk.writers.settled().await;
        let writer = desk.open(KEY, how).await.expect("opened");
        put(&writer, 0, &"SECOND".into()).await;
        put(&writer, 1 << 20, &"end".into()).await;
        desk.bucket().set_faults([down()]);
        writer.commit(desk.commit).await.expect("promised");
        let found = copy_of(&desk.spool);
        for (number, entry) in std::fs::read_dir(&earlier).expect("readable").enumerate() {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|it| it == "journal") {
                // The names decide which is found first.
                let name = format!("{n:08x}{number:08x}.journal");
                std::fs::copy(path, found.path().join(name)).expect("copied");
            }
        }
        if how == OpenMode::Change {
            desk.bucket().put(KEY, "of another");
        }
        let terms = Terms::background();
        let again = desk.started_again(found, [writer], &terms).await;
        again.bucket().set_faults([]);
        again.writers.settled().await;
        let pending = again.writers.pending();
        let refused = Vec::from_iter(pending.iter().map(|it| it.stage));
        match how {
            OpenMode::Change => {
                assert_eq!(again.object(KEY), Some("of another".into()));
                assert_eq!(refused, [Stage::Refused]);
            }
            _ => {
                let bytes = patched(&"SECOND".into(), 1 << 20, b"end");
                same(&again.object(KEY).expect("there"), &bytes);
                assert_eq!(refused, []);
            }
        }
        let third = again.switched_off([], &Terms::background()).await;
        third.writers.settled().await;
        assert_ne!(third.object(KEY), Some("first".into()));
        assert_eq!(third.writers.left_alone(), 0);
    }
}

/// Bytes that were not synced, of a small object that is in its journal alone.
#[tokio::test(start_paused = true)]
async fn a_small_object_outlives_two_restarts() {
    let desk = Desk::new(Terms::background());
    desk.bucket().set_faults([down()]);
    let writer = desk.create(KEY).await;
    writer.sync().await.expect("durable");
    put(&writer, 0, &sample(1, 500)).await;
    let second = desk.switched_off([writer], &Terms::background()).await;
    let writer = second.writers.find(source(&second), &valid(KEY));
    let writer = writer.expect("it was promised");
    put(&writer, 0, &sample(2, 100)).await;
    writer.sync().await.expect("durable");
    let third = second.switched_off([writer], &Terms::background()).await;
    third.bucket().set_faults([]);
    third.writers.settled().await;
    same(&third.object(KEY).expect("there"), &sample(2, 100));
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
