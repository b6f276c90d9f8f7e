//! Objects that are opened while they are renamed, under the old name and under the new one.

use super::*;

/// A PUT over HTTP holds the key. Meanwhile another program wants to rename the object, and a third one writes it: what
/// is written is newer than what was put, and goes with the name.
#[tokio::test(start_paused = true)]
async fn what_is_opened_before_a_rename_has_the_key_is_renamed() {
    let desk = Desk::plain();
    let (old, new) = (valid(KEY), valid("folder/renamed"));
    desk.bucket().put(KEY, "before");
    let late = Fault::Latency(engine::secs(5));
    desk.bucket().fail_from("put", [late], []);
    let over_http = "over HTTP".into();
    let rename = async {
        engine::pass(engine::secs(1)).await;
        desk.writers.rename(source(&desk), &old, &new).await
    };
    let open = async {
        engine::pass(engine::secs(2)).await;
        let writer = desk.create(KEY).await;
        put(&writer, 0, &"of the mount".into()).await;
        writer
    };
    let (received, renamed, writer) = tokio::join!(received(&desk, &over_http), rename, open);
    received.expect("written");
    renamed.expect("renamed");
    assert_eq!(writer.key(), new);
    writer.commit(Commit::Close).await.expect("committed");
    assert_eq!(desk.bucket().keys(), [new.as_str()]);
    assert_eq!(desk.object(new.as_str()), Some("of the mount".into()));
}

/// A program opens the new name while the renamed object is on its way there. It opens that object, and begins no second
/// draft of its key.
#[tokio::test(start_paused = true)]
async fn what_is_opened_under_the_new_name_during_a_rename_is_the_renamed_object() {
    for (is_sent, request) in [(true, "copy"), (false, "put")] {
        let desk = Desk::plain();
        let (old, new) = (valid(KEY), valid("folder/renamed"));
        let first = desk.create(KEY).await;
        put(&first, 0, &"first".into()).await;
        if is_sent {
            first.commit(Commit::Close).await.expect("committed");
        }
        let late = Fault::Latency(engine::secs(5));
        desk.bucket().fail_from(request, [late], []);
        let rename = desk.writers.rename(source(&desk), &old, &new);
        let open = async {
            engine::pass(engine::secs(1)).await;
            desk.create(new.as_str()).await
        };
        let (renamed, second) = tokio::join!(rename, open);
        renamed.expect("renamed");
        put(&second, 0, &"second".into()).await;
        assert_eq!((first.key(), second.key()), (new.clone(), new.clone()));
        // One draft: what one handle writes, the other one publishes.
        first.commit(Commit::Close).await.expect("committed");
        assert_eq!(desk.object(new.as_str()), Some("second".into()));
        assert_eq!(desk.bucket().keys(), [new.as_str()]);
    }
}
