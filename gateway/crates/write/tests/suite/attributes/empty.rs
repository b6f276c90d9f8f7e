//! Empty files whose attributes are changed: no bytes of another program are replaced, and no change is lost.

use tidegate_write::WriteError;

use super::*;

/// This process knows an empty file, and another gateway has put bytes there since. They stay, whatever program changes the
/// file here.
#[tokio::test(start_paused = true)]
async fn a_change_of_an_empty_file_replaces_no_bytes_of_another_program() {
    let theirs: Bytes = "of another program".into();
    let desk = Desk::plain();
    desk.bucket().put(KEY, "");
    change(&desk, 0o100_600).await;
    desk.bucket().put(KEY, theirs.clone());
    assert_eq!(stored(&desk).await.0, None, "chmod");
    assert_eq!(desk.object(KEY), Some(theirs.clone()), "chmod");

    for is_made_here in [false, true] {
        let desk = Desk::plain();
        match is_made_here {
            true => desk.write(KEY, &"".into()).await,
            false => drop(desk.bucket().put(KEY, "")),
        }
        let writer = desk.change(KEY).await;
        desk.bucket().put(KEY, theirs.clone());
        writer.append("more".into()).await.expect("written");
        let closed = writer.commit(Commit::Close).await;
        assert_eq!(closed, Err(WriteError::Changed), "{is_made_here}");
        assert_eq!(desk.object(KEY), Some(theirs.clone()), "{is_made_here}");
    }
}

/// The condition outlives the process, and a file that is opened cut to nothing has none.
#[tokio::test(start_paused = true)]
async fn an_empty_file_that_waits_keeps_its_condition_over_a_restart() {
    for (how, expected) in [(OpenMode::Change, "theirs"), (OpenMode::Create, "ours")] {
        let desk = Desk::new(Terms::background());
        desk.bucket().put(KEY, "");
        let writer = desk.open(KEY, how).await.expect("opened");
        desk.bucket().set_faults([down()]);
        put(&writer, 0, &"ours".into()).await;
        writer.commit(Commit::Background).await.expect("promised");
        desk.bucket().put(KEY, "theirs");
        let again = desk.switched_off([writer], &Terms::background()).await;
        again.bucket().set_faults([]);
        until(|| again.bucket().count("put") > 0).await;
        pass(secs(60)).await;
        assert_eq!(again.object(KEY), Some(expected.into()), "{how:?}");
    }
}

/// A store that does not know the condition is looked at, and then asked without.
#[tokio::test(start_paused = true)]
async fn an_empty_file_is_changed_in_a_store_without_conditions() {
    for is_theirs in [false, true] {
        let desk = Desk::plain();
        desk.bucket().put(KEY, "");
        desk.bucket().set_faults([Fault::RefuseConditions]);
        change(&desk, 0o100_600).await;
        if is_theirs {
            desk.bucket().put(KEY, "theirs");
        }
        let expected = (!is_theirs).then_some(0o100_600);
        assert_eq!(stored(&desk).await.0, expected);
        let bytes = if is_theirs { "theirs" } else { "" };
        assert_eq!(desk.object(KEY), Some(bytes.into()));
    }
}

/// The store has not carried out the request, and says nothing: the empty object that is there has none of the change.
#[tokio::test(start_paused = true)]
async fn a_lost_change_of_an_empty_file_is_sent_again() {
    for fault in [down(), Fault::LoseAnswer] {
        let desk = Desk::plain();
        desk.bucket().put(KEY, "");
        change(&desk, 0o100_600).await;
        desk.bucket().fail_from("put", [fault], []);
        let sent = until(|| desk.bucket().count("put") > 0);
        let (stored, ()) = tokio::join!(stored(&desk), sent);
        assert_eq!(stored, (Some(0o100_600), Some(EARLIER)));
    }
}
