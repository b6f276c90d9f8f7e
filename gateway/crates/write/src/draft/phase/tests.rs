use proptest::prelude::*;

use super::*;
use tidegate_engine::Error;

/// A transition, named as in the table, and the columns that it may change.
type Row = (&'static str, [bool; 5], fn(&mut Phase));

const CONTENT: [bool; 5] = [true, false, false, false, false];
const PROMISE: [bool; 5] = [false, true, false, false, false];
const SINCE_CLOSE: [bool; 5] = [false, false, true, false, false];
const QUEUE: [bool; 5] = [false, false, false, true, false];
const ATTEMPT: [bool; 5] = [false, false, false, false, true];

fn passing() -> WriteError {
    WriteError::Origin(Error::Unavailable)
}

/// The table of the module documentation; "crash" replays the journal.
const TABLE: [Row; 21] = [
    ("begin_change", SINCE_CLOSE, Phase::begin_change),
    ("change", [true, true, true, false, false], Phase::change),
    ("replace_all", SINCE_CLOSE, Phase::replace_all),
    ("close", SINCE_CLOSE, Phase::close),
    ("close", SINCE_CLOSE, |phase| {
        assert_eq!(phase.close_for_queue(), Record::Closed);
    }),
    ("begin_sync", PROMISE, Phase::begin_sync),
    ("fail_sync", PROMISE, Phase::fail_sync),
    ("drop_promise", PROMISE, Phase::drop_promise),
    ("request", QUEUE, |phase| {
        let was_queued = phase.is_queued();
        assert_eq!(phase.request(), !was_queued);
    }),
    ("begin_try", QUEUE, Phase::begin_try),
    ("leave_queue", QUEUE, Phase::leave_queue),
    ("begin_attempt", ATTEMPT, Phase::begin_attempt),
    ("end_attempt", ATTEMPT, |phase| phase.end_attempt(None)),
    ("end_attempt", ATTEMPT, |phase| {
        phase.end_attempt(Some(passing()));
    }),
    ("end_attempt", ATTEMPT, |phase| {
        phase.end_attempt(Some(WriteError::Changed));
    }),
    ("end_reading_back", ATTEMPT, Phase::end_reading_back),
    ("lose", [true, false, false, false, true], Phase::lose),
    ("restore", [true, false, false, false, true], |phase| {
        let was_lost = phase.is_lost();
        assert_eq!(phase.restore().is_some(), was_lost);
    }),
    ("begin_edition", [true, true, true, false, true], |phase| {
        phase.begin_edition();
        assert!(!phase.is_lost() && !phase.is_promised() && !phase.is_refused());
    }),
    ("publish", CONTENT, |phase| {
        phase.publish();
        assert!(!phase.is_unpublished());
    }),
    ("discard", [true, true, false, false, false], |phase| {
        phase.discard();
        assert!(phase.is_discarded() && !phase.is_unpublished() && !phase.is_promised());
    }),
];

fn changed(before: &Phase, after: &Phase) -> [bool; 5] {
    [
        before.content != after.content,
        before.promise != after.promise,
        before.since_close != after.since_close,
        before.queue != after.queue,
        before.attempt != after.attempt,
    ]
}

/// Checks the answers that every state must give.
fn holds(phase: &Phase) {
    let is_one = [
        phase.content == Content::Published,
        phase.is_unpublished(),
        phase.is_discarded(),
    ];
    assert_eq!(is_one.into_iter().filter(|it| *it).count(), 1, "{phase:?}");
    assert_eq!(
        phase.is_dirty(),
        phase.is_unpublished() || phase.is_discarded()
    );
    assert!(!phase.is_lost() || phase.is_unpublished() || phase.is_discarded());
    assert!(!phase.is_behind() || phase.is_promised());
    assert!(!phase.is_replaced() || phase.is_unclosed());
    assert!(!phase.is_requested() || phase.is_queued());
    assert!(!phase.is_refused() || phase.trouble().is_some());
    if phase.is_closed_and_promised() {
        assert!(phase.is_promised() && phase.is_unpublished());
        assert!(!phase.is_unclosed() && !phase.is_lost() && !phase.is_discarded());
    }
}

/// Returns the phase after a crash, which only a promise survives.
fn crash(phase: &Phase) -> Phase {
    match phase.is_promised() && !phase.is_discarded() {
        true => Phase::recovered(true),
        false => Phase::default(),
    }
}

proptest! {
    /// Any sequence of transitions stays in the table, and a discarded draft stays discarded.
    #[test]
    fn no_sequence_leaves_the_table(
        is_new: bool,
        steps in prop::collection::vec(prop::option::weighted(0.97, 0..TABLE.len()), 0..60),
    ) {
        let mut phase = match is_new {
            true => Phase::created(),
            false => Phase::default(),
        };
        for step in steps {
            let before = phase.clone();
            let Some(step) = step else {
                phase = crash(&before);
                holds(&phase);
                prop_assert!(!phase.is_discarded() && !phase.is_lost() && !phase.is_publishing());
                prop_assert!(!before.is_closed_and_promised() || phase.is_closed_and_promised());
                continue;
            };
            let (name, columns, transition) = TABLE[step];
            transition(&mut phase);
            holds(&phase);
            for (column, changed) in changed(&before, &phase).into_iter().enumerate() {
                prop_assert!(!changed || columns[column], "{name}: {before:?} {phase:?}");
            }
            prop_assert!(!before.is_discarded() || phase.is_discarded(), "{name}");
        }
    }
}

/// A write, a close, a failed try, and a publish, as a reader of this process sees them.
#[test]
fn a_closed_draft_is_seen_until_it_is_written_to_or_published() {
    let mut phase = Phase::created();
    phase.change();
    assert!(phase.is_unclosed() && !phase.is_closed_and_promised());
    assert_eq!(phase.close_for_queue(), Record::Closed);
    phase.begin_sync();
    assert!(phase.request() && phase.is_closed_and_promised());
    phase.begin_try();
    phase.begin_attempt();
    assert!(phase.is_publishing() && phase.is_closed_and_promised());
    phase.end_attempt(Some(passing()));
    assert!(!phase.is_refused() && phase.is_queued() && phase.is_closed_and_promised());
    phase.change();
    assert!(phase.is_behind() && !phase.is_closed_and_promised());
    phase.close();
    phase.begin_attempt();
    phase.drop_promise();
    phase.publish();
    phase.end_attempt(None);
    assert!(!phase.is_dirty() && !phase.is_promised() && phase.trouble().is_none());
}

/// A draft that lost bytes is refused, also during an attempt, until they are truncated.
#[test]
fn what_is_lost_is_refused_until_it_is_cut_off() {
    let mut phase = Phase::recovered(true);
    phase.begin_attempt();
    phase.lose();
    assert!(phase.is_lost() && phase.is_publishing() && phase.is_refused());
    phase.end_reading_back();
    assert!(phase.is_refused() && !phase.is_closed_and_promised());
    phase.change();
    assert_eq!(phase.restore(), Some(Record::Unsent));
    assert!(phase.restore().is_none() && !phase.is_refused() && phase.is_dirty());
    phase.lose();
    phase.discard();
    assert!(
        phase.is_lost() && !phase.is_unpublished(),
        "writes still fail"
    );
}
