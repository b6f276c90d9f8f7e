//! Drafts that replace an earlier draft of their object: after a crash the one that was promised last counts.

use super::*;

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
