//! The journal of a draft, compared with the draft in memory.

use std::sync::Arc;

use crate::draft::shared_draft::SharedDraft;
use crate::draft::state::DraftState;
use crate::draft::uncertain::UncertainCommits;
use crate::spool::file::journal_records::{JournalRecords, replayed};
use crate::spool::journal::Record;
use crate::spool::replay::ReplayedDraft;
use tidegate_plan::ETag;
use tidegate_plan::upload::Draft;

/// Checks that the journal of a draft, with the records that wait for it, gives the draft in memory, and that each
/// beginning of it can be replayed.
pub(super) async fn check(draft: &Arc<SharedDraft>) {
    // Nothing is appended meanwhile.
    let _journal = draft.journal.clone().lock_owned().await;
    let state = draft.state();
    let phase = state.phase().clone();
    if phase.is_discarded() {
        return;
    }
    let Some(file) = state.file().cloned() else {
        assert!(!phase.is_promised(), "{phase:?} without a file");
        return;
    };
    let Some(journaled) = file.journaled() else {
        assert!(!phase.is_promised(), "{phase:?} without a journal");
        return;
    };
    check_prefixes(&journaled.written);
    let found = replayed(&journaled.written);
    let is_found = found.as_ref().is_some_and(|found| found.promised);
    assert!(
        phase.is_promised() || !is_found,
        "{phase:?}, and a crash finds it"
    );
    if phase.is_promised() && !phase.is_behind() {
        let found = found.filter(|found| found.promised);
        let found = found.unwrap_or_else(|| panic!("{phase:?}, and a crash does not find it"));
        // Records of parts that are about to leave the spool may wait.
        if state.journal().records().is_empty() && journaled.waiting.is_empty() {
            same_bytes(&found, &state);
        }
    }
    check_whole(journaled, &state);
}

/// Checks that the records of every beginning of a journal fit together, and that they promise something from the first
/// sync on.
fn check_prefixes(written: &[Record]) {
    let mut promised = false;
    for (at, record) in written.iter().enumerate() {
        match record {
            Record::Synced => promised = true,
            Record::Anew {
                promised: is_promised,
                ..
            } => promised = *is_promised,
            _ => {}
        }
        let found = replayed(&written[..=at]);
        let found = found.unwrap_or_else(|| panic!("{:?}", &written[..=at]));
        assert_eq!(found.promised, promised, "{:?}", &written[..=at]);
    }
}

/// Compares what all records say, those that wait included, with the draft in memory.
fn check_whole(journaled: JournalRecords, state: &DraftState) {
    let mut records = [journaled.written, journaled.waiting].concat();
    records.extend(state.journal().lacking(state.draft().size()));
    records.push(Record::Synced);
    let found = replayed(&records).expect("they fit together");
    same_bytes(&found, state);
    let (begin, own) = (&found.begin, state.beginning());
    assert_eq!(begin.key, own.key);
    assert_eq!(begin.headers, own.headers);
    assert_eq!(begin.base, own.base);
    if own.replaces.is_some() {
        assert_eq!(begin.replaces, own.replaces);
    }
    let parts = |draft: &Draft| Vec::from_iter(draft.sent_parts().map(|(index, _)| index));
    let (sent, known) = (parts(state.draft()), parts(&found.draft));
    assert!(
        sent.iter().all(|index| known.contains(index)),
        "{sent:?} {known:?}"
    );
    for index in sent {
        assert_eq!(state.upload().sums_of(index), found.sums.get(&index));
    }
    if let Some(upload) = state.upload().begun() {
        let known = found.upload.expect("an upload");
        assert_eq!(
            (known.key.as_str(), &known.id),
            (upload.key.as_str(), &upload.id)
        );
    }
    if let Some(completion) = state.upload().completion() {
        assert_eq!(
            Some(completion.parts()),
            found.completing.as_deref(),
            "{records:?}"
        );
        assert_eq!(completion.before(), found.before.as_ref());
    }
    let tried = |tags: Vec<ETag>| UncertainCommits::earlier(tags).records();
    let known = tried(found.tried);
    let missing = Vec::from_iter(
        state
            .uncertain()
            .records()
            .into_iter()
            .filter(|it| !known.contains(it)),
    );
    assert_eq!(missing, []);
}

/// Compares the places of the bytes. The journal does not know those that were read from the base beside others.
fn same_bytes(found: &ReplayedDraft, state: &DraftState) {
    let (found, own) = (&found.draft, state.draft());
    assert_eq!(found.size(), own.size());
    let gone = |draft: &Draft| Vec::from_iter(draft.gone_parts());
    assert_eq!(gone(found), gone(own));
    let base = own.base();
    let written = |draft: &Draft| {
        let local = draft.local().iter();
        let written = local.filter(|range| range.end > base);
        Vec::from_iter(written.map(|range| (range.start.max(base), range.end)))
    };
    assert_eq!(written(found), written(own));
    for range in found.local().iter() {
        assert_eq!(own.local().gaps(range), [], "{range:?}");
    }
}
