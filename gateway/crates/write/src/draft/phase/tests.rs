use proptest::prelude::*;

use super::*;
use tidegate_engine::Error;

/// A step, and the columns that it may change.
type Row = (Step, [bool; 5]);

const CONTENT: [bool; 5] = [true, false, false, false, false];
const PROMISE: [bool; 5] = [false, true, false, false, false];
const SINCE_CLOSE: [bool; 5] = [false, false, true, false, false];
const QUEUE: [bool; 5] = [false, false, false, true, false];
const ATTEMPT: [bool; 5] = [false, false, false, false, true];

fn passing() -> WriteError {
    WriteError::Origin(Error::Unavailable)
}

/// The table of the module documentation; "crash" replays the journal.
fn table() -> [Row; 21] {
    let refused = Some(WriteError::Changed);
    [
        (Step::BeginChange, SINCE_CLOSE),
        (Step::Change, [true, true, true, false, false]),
        (Step::ReplaceAll, SINCE_CLOSE),
        (Step::Close, SINCE_CLOSE),
        (Step::BeginSync, PROMISE),
        (Step::EndSync, PROMISE),
        (Step::FailSync, PROMISE),
        (Step::DropPromise, PROMISE),
        (Step::Request, QUEUE),
        (Step::BeginTry, QUEUE),
        (Step::LeaveQueue, QUEUE),
        (Step::BeginAttempt, ATTEMPT),
        (Step::EndAttempt(None), ATTEMPT),
        (Step::EndAttempt(Some(passing())), ATTEMPT),
        (Step::EndAttempt(refused), ATTEMPT),
        (Step::EndReadingBack, ATTEMPT),
        (Step::Lose, [true, false, false, false, true]),
        (Step::Restore, [true, false, false, false, true]),
        (Step::BeginEdition, [true, true, true, false, true]),
        (Step::Publish, CONTENT),
        (Step::Discard, [true, true, false, false, false]),
    ]
}

/// Checks what a step is for.
fn has_done(step: &Step, phase: &Phase) {
    let done = match step {
        Step::Restore => !phase.is_lost() && !phase.is_refused(),
        Step::BeginEdition => !phase.is_lost() && !phase.is_promised() && !phase.is_refused(),
        Step::Publish => !phase.is_unpublished(),
        Step::Discard => phase.is_discarded() && !phase.is_unpublished(),
        Step::Request => phase.is_requested(),
        Step::BeginAttempt => phase.is_publishing(),
        Step::EndAttempt(error) => {
            let failed = error.as_ref().filter(|_| phase.is_dirty());
            !phase.is_publishing() && phase.trouble() == failed
        }
        Step::Close => !phase.is_unclosed(),
        _ => true,
    };
    assert!(done, "{step:?} {phase:?}");
}

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
    assert!(!phase.is_promised() || !phase.is_discarded(), "{phase:?}");
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
    /// Any sequence of steps stays in the table, and a discarded draft stays discarded.
    #[test]
    fn no_sequence_leaves_the_table(
        is_new: bool,
        steps in prop::collection::vec(prop::option::weighted(0.97, 0..table().len()), 0..60),
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
            let (step, columns) = &table()[step];
            phase = before.after(step);
            holds(&phase);
            has_done(step, &phase);
            for (column, changed) in changed(&before, &phase).into_iter().enumerate() {
                prop_assert!(!changed || columns[column], "{step:?}: {before:?} {phase:?}");
            }
            prop_assert!(!before.is_discarded() || phase.is_discarded(), "{step:?}");
        }
    }
}

fn take(phase: &mut Phase, step: Step) {
    *phase = phase.after(&step);
}

/// A write, a close, a failed try, and a publish, as a reader of this process sees them.
#[test]
fn a_closed_draft_is_seen_until_it_is_written_to_or_published() {
    let mut phase = Phase::created();
    take(&mut phase, Step::Change);
    assert!(phase.is_unclosed() && !phase.is_closed_and_promised());
    take(&mut phase, Step::Close);
    take(&mut phase, Step::BeginSync);
    assert!(phase.is_promised() && !phase.is_closed_and_promised());
    take(&mut phase, Step::EndSync);
    take(&mut phase, Step::Request);
    assert!(phase.is_closed_and_promised());
    take(&mut phase, Step::BeginTry);
    take(&mut phase, Step::BeginAttempt);
    assert!(phase.is_publishing() && phase.is_closed_and_promised());
    take(&mut phase, Step::EndAttempt(Some(passing())));
    assert!(!phase.is_refused() && phase.is_queued() && phase.is_closed_and_promised());
    take(&mut phase, Step::Change);
    assert!(phase.is_behind() && !phase.is_closed_and_promised());
    take(&mut phase, Step::Close);
    take(&mut phase, Step::BeginAttempt);
    take(&mut phase, Step::DropPromise);
    take(&mut phase, Step::Publish);
    take(&mut phase, Step::EndAttempt(None));
    assert!(!phase.is_dirty() && !phase.is_promised() && phase.trouble().is_none());
}

/// A draft that lost bytes is refused, also during an attempt, until they are truncated.
#[test]
fn what_is_lost_is_refused_until_it_is_cut_off() {
    let mut phase = Phase::recovered(true);
    take(&mut phase, Step::BeginAttempt);
    take(&mut phase, Step::Lose);
    assert!(phase.is_lost() && phase.is_publishing() && phase.is_refused());
    take(&mut phase, Step::EndReadingBack);
    assert!(phase.is_refused() && !phase.is_closed_and_promised());
    take(&mut phase, Step::Change);
    take(&mut phase, Step::Restore);
    assert!(!phase.is_lost() && !phase.is_refused() && phase.is_dirty());
    take(&mut phase, Step::Lose);
    take(&mut phase, Step::Discard);
    assert!(
        phase.is_lost() && !phase.is_unpublished(),
        "writes still fail"
    );
}

/// Its files may stay: its writer gets an error, and the next change of it has nothing to do with that.
#[test]
fn what_is_in_the_bucket_has_not_failed() {
    let mut phase = Phase::recovered(true);
    take(&mut phase, Step::BeginAttempt);
    take(&mut phase, Step::Publish);
    take(&mut phase, Step::EndAttempt(Some(passing())));
    take(&mut phase, Step::Change);
    assert!(phase.is_dirty() && phase.trouble().is_none());
}
