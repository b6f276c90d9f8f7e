//! One writer's steps at a time.

use super::MAX_COPY;
use crate::upload::*;

fn tag() -> Option<ETag> {
    ETag::parse("\"t\"")
}

fn written(draft: &mut Draft, range: ByteRange) {
    draft.begin_write(range).expect("nothing is gone");
    draft.end_write(range);
}

fn sent(draft: &mut Draft, when: SendOccasion) -> Option<u32> {
    let job = draft.next_job(when)?;
    draft.begin_send(&job);
    draft.end_send(&job, tag());
    Some(job.index)
}

fn draft() -> Draft {
    Draft::new(PartSizes::new(10), 0).with_kept_ends(20)
}

#[test]
fn whole_parts_go_out_while_it_is_written_and_changed_ones_at_the_end() {
    let mut draft = draft();
    written(&mut draft, ByteRange::new(0, 25));
    assert_eq!(sent(&mut draft, SendOccasion::Writing), Some(0));
    assert_eq!(sent(&mut draft, SendOccasion::Writing), Some(1));
    assert_eq!(
        draft.next_job(SendOccasion::Writing),
        None,
        "the third is not whole"
    );
    written(&mut draft, ByteRange::new(3, 4));
    assert_eq!(
        draft.next_job(SendOccasion::Writing),
        None,
        "it may change again"
    );
    assert_eq!(
        sent(&mut draft, SendOccasion::Pressed),
        Some(0),
        "unless space is short"
    );
    written(&mut draft, ByteRange::new(3, 4));
    assert_eq!(sent(&mut draft, SendOccasion::Closing), Some(0));
    assert_eq!(sent(&mut draft, SendOccasion::Closing), Some(2));
    assert_eq!(draft.next_job(SendOccasion::Closing), None);
    assert_eq!(draft.pieces(MAX_COPY).expect("all sent").len(), 3);
}

#[test]
fn what_is_written_while_it_is_sent_does_not_count_as_sent() {
    let mut draft = draft();
    written(&mut draft, ByteRange::new(0, 20));
    let job = draft.next_job(SendOccasion::Writing).expect("whole");
    draft.begin_send(&job);
    assert_eq!(sent(&mut draft, SendOccasion::Closing), Some(1));
    assert_eq!(
        draft.next_job(SendOccasion::Closing),
        None,
        "it is under way"
    );
    draft.begin_write(ByteRange::new(5, 6)).expect("there");
    assert!(!draft.end_send(&job, tag()));
    assert_eq!(
        draft.next_job(SendOccasion::Closing),
        None,
        "it is written to"
    );
    draft.end_write(ByteRange::new(5, 6));
    assert_eq!(sent(&mut draft, SendOccasion::Closing), Some(0));
}

#[test]
fn a_part_with_holes_goes_out_once_it_is_left_behind() {
    let mut draft = draft();
    written(&mut draft, ByteRange::new(2, 5));
    written(&mut draft, ByteRange::new(30, 49));
    assert_eq!(sent(&mut draft, SendOccasion::Writing), Some(3));
    assert_eq!(draft.next_job(SendOccasion::Writing), None);
    written(&mut draft, ByteRange::new(49, 51));
    assert_eq!(sent(&mut draft, SendOccasion::Writing), Some(0));
}

/// Writes like the writer of a disk image: a table at the end, its place in the head, the table's data, and the table
/// again when the next one begins.
#[test]
fn where_a_writer_turned_back_a_part_waits_for_being_written_again() {
    let mut draft = draft();
    written(&mut draft, ByteRange::new(0, 33));
    while sent(&mut draft, SendOccasion::Writing).is_some() {}
    written(&mut draft, ByteRange::new(5, 6));
    written(&mut draft, ByteRange::new(33, 62));
    assert_eq!(sent(&mut draft, SendOccasion::Writing), Some(4));
    assert_eq!(sent(&mut draft, SendOccasion::Writing), Some(5));
    assert_eq!(draft.next_job(SendOccasion::Writing), None);
    written(&mut draft, ByteRange::new(30, 33));
    assert_eq!(sent(&mut draft, SendOccasion::Writing), Some(3));
    written(&mut draft, ByteRange::new(62, 75));
    assert_eq!(
        draft.next_job(SendOccasion::Writing),
        None,
        "it turned back from there too"
    );
    assert_eq!(sent(&mut draft, SendOccasion::Pressed), Some(0));
    assert_eq!(
        sent(&mut draft, SendOccasion::Pressed),
        Some(6),
        "unless space is short"
    );
}

#[test]
fn no_more_waits_for_being_written_again_than_is_kept_of_an_end() {
    let mut draft = draft();
    written(&mut draft, ByteRange::new(0, 5));
    for n in 0..=2 {
        written(&mut draft, ByteRange::new(10 * n + 5, 10 * n + 15));
        written(&mut draft, ByteRange::new(0, 1));
    }
    // The first part was written again all the time; the second is one too many.
    let sent = std::iter::from_fn(|| sent(&mut draft, SendOccasion::Writing));
    assert_eq!(Vec::from_iter(sent), [0, 1]);
}

#[test]
fn what_goes_is_the_oldest_that_was_sent_and_never_an_end() {
    let mut draft = draft();
    written(&mut draft, ByteRange::new(0, 100));
    assert_eq!(draft.evict(), None, "nothing was sent");
    while sent(&mut draft, SendOccasion::Writing).is_some() {}
    let gone: Vec<_> = std::iter::from_fn(|| draft.evict())
        .map(|(index, ..)| index)
        .collect();
    assert_eq!(gone, [2, 3, 4, 5, 6, 7]);
    assert_eq!(draft.local().bytes(), 40);
    assert!(draft.is_in_order());
    assert_eq!(draft.begin_write(ByteRange::new(45, 46)), Err(GonePart(4)));
    assert_eq!(draft.truncate(45), Err(GonePart(4)));
    let sources = draft.sources(ByteRange::new(15, 25));
    let found = [
        (ByteRange::new(15, 20), ByteSource::Spool),
        (ByteRange::new(20, 25), ByteSource::Gone),
    ];
    assert_eq!(sources, found);
    // A writer of the whole part needs no gone bytes.
    written(
        &mut draft,
        ByteRange::new(38, 52)
            .intersect(ByteRange::new(40, 50))
            .expect("some"),
    );
    assert_eq!(sent(&mut draft, SendOccasion::Closing), Some(4));
    assert!(!draft.is_in_order());
}

#[test]
fn a_changed_object_copies_what_is_untouched_in_few_requests() {
    let mut draft = Draft::new(PartSizes::new(10), 100).with_kept_ends(20);
    assert_eq!(draft.pieces(40).expect("clean").len(), 3);
    written(&mut draft, ByteRange::new(51, 53));
    let job = draft
        .next_job(SendOccasion::Closing)
        .expect("the changed one");
    let fill = vec![ByteRange::new(50, 51), ByteRange::new(53, 60)];
    assert_eq!((job.index, &job.fill), (5, &fill));
    assert_eq!(sent(&mut draft, SendOccasion::Closing), Some(5));
    let pieces = draft.pieces(40).expect("all sent");
    let copy = |number, start, end| Piece::Copy(number, ByteRange::new(start, end));
    let sent = Piece::Sent(6, tag().expect("a tag"));
    assert_eq!(
        pieces,
        [copy(1, 0, 40), copy(5, 40, 50), sent, copy(7, 60, 100)]
    );
    // An appended byte changes the last part.
    written(&mut draft, ByteRange::new(100, 101));
    assert_eq!(
        draft.next_job(SendOccasion::Closing).map(|job| job.index),
        Some(10)
    );
}

#[test]
fn a_length_may_cut_any_part_that_is_in_the_spool() {
    let mut draft = draft();
    written(&mut draft, ByteRange::new(0, 25));
    assert_eq!(draft.truncate(15), Ok(10));
    assert_eq!(draft.truncate(33), Ok(0));
    assert_eq!((draft.size(), draft.local().bytes()), (33, 15));
}

#[test]
fn what_was_begun_for_another_upload_does_not_count() {
    let mut draft = draft();
    written(&mut draft, ByteRange::new(0, 10));
    let job = draft.next_job(SendOccasion::Closing).expect("a part");
    draft.begin_send(&job);
    draft.forget_sent();
    assert!(!draft.end_send(&job, tag()));
    assert_eq!(sent(&mut draft, SendOccasion::Closing), Some(0));
}

#[test]
fn a_base_shorter_than_a_part_is_never_copied() {
    let draft = |base| Draft::new(PartSizes::new(10), base);
    assert!(!draft(0).may_copy() && !draft(9).may_copy());
    assert!(draft(10).may_copy());
    let mut draft = draft(100);
    written(&mut draft, ByteRange::new(51, 53));
    assert_eq!(draft.copied_ranges(), [], "a part is still to be sent");
    sent(&mut draft, SendOccasion::Closing);
    let around = [ByteRange::new(0, 50), ByteRange::new(60, 100)];
    assert_eq!(draft.copied_ranges(), around);
}

#[test]
fn a_recovered_part_of_another_length_is_sent_again() {
    let mut draft = draft();
    written(&mut draft, ByteRange::new(0, 20));
    draft.recall_sent(0, 10, tag().expect("a tag"));
    draft.recall_sent(1, 7, tag().expect("a tag"));
    draft.end_recall();
    let job = draft.next_job(SendOccasion::Closing);
    assert_eq!(job.map(|job| job.index), Some(1));
}

#[test]
fn an_eighth_of_the_spool_is_kept_for_each_end_and_at_most_64_mib() {
    for (size, kept) in [
        (7, 0),
        (8, 1),
        (15, 1),
        (16, 2),
        ((512 << 20) - 1, (64 << 20) - 1),
        (512 << 20, 64 << 20),
        (u64::MAX, 64 << 20),
    ] {
        assert_eq!(kept_end(size), kept, "{size}");
    }
}

/// The first two parts are a hole, the others were written.
#[test]
fn a_job_of_one_draft_does_not_count_for_the_next() {
    let mut old = draft();
    written(&mut old, ByteRange::new(20, 40));
    let mut jobs = Vec::new();
    while let Some(job) = old.next_job(SendOccasion::Closing) {
        old.begin_send(&job);
        jobs.push(job);
    }
    assert!(jobs.iter().map(|job| job.index).eq(0..4));
    assert!(jobs.iter().all(|job| old.is_current(job)));
    let mut next = old.successor(40);
    assert!(!jobs.iter().any(|job| next.is_current(job)));
    for end in [30, 40, 40] {
        written(&mut next, ByteRange::new(20, end));
        assert!(!jobs.iter().any(|job| next.is_current(job)));
        assert!(!jobs.iter().any(|job| next.end_send(job, tag())));
    }
    assert_eq!(next.sent_parts().count(), 0);
}

#[test]
fn the_next_draft_begins_as_its_base_and_keeps_sizes_and_ends() {
    let mut old = draft();
    written(&mut old, ByteRange::new(0, 100));
    let mut next = old.successor(60);
    assert_eq!(
        (next.base(), next.size(), next.local().bytes()),
        (60, 60, 0)
    );
    assert_eq!(next.truncate(30), Ok(0));
    assert_eq!(next.truncate(50), Ok(0));
    assert_eq!((next.base(), next.size()), (30, 50), "the others are zero");
    written(&mut next, ByteRange::new(0, 100));
    while sent(&mut next, SendOccasion::Writing).is_some() {}
    assert_eq!(next.evict().map(|(index, ..)| index), Some(2));
}

#[test]
fn an_object_is_one_part_up_to_the_size_of_the_first() {
    let draft = |base| Draft::new(PartSizes::new(10), base);
    assert!(draft(0).is_one_part() && draft(10).is_one_part());
    assert!(!draft(11).is_one_part());
}

/// To send such a draft ahead makes no room.
#[test]
fn a_draft_within_its_kept_ends_lets_go_of_nothing() {
    for (size, goes) in [(40, false), (41, false), (50, true)] {
        let mut draft = draft();
        written(&mut draft, ByteRange::new(0, size));
        while sent(&mut draft, SendOccasion::Writing).is_some() {}
        assert_eq!(draft.evict().is_some(), goes, "{size}");
        assert_eq!(draft.is_kept_whole(), size <= 40, "{size}");
    }
}

#[test]
fn a_part_replaces_gone_bytes_from_its_next_write_until_its_own_are_gone() {
    let mut draft = draft();
    written(&mut draft, ByteRange::new(0, 100));
    while sent(&mut draft, SendOccasion::Writing).is_some() {}
    assert!(!draft.has_gone_bytes());
    assert_eq!(draft.evict(), Some((2, ByteRange::new(20, 30), 10)));
    assert!(draft.has_gone_bytes() && !draft.replaces_gone(2));
    written(&mut draft, ByteRange::new(20, 40));
    assert!(!draft.has_gone_bytes() && draft.replaces_gone(2));
    assert!(!draft.replaces_gone(3), "it was in the spool");
    assert!(!draft.replaces_gone(10), "there is no such part");
    while sent(&mut draft, SendOccasion::Closing).is_some() {}
    assert!(draft.replaces_gone(2));
    while draft.evict().is_some() {}
    assert!(draft.has_gone_bytes() && !draft.replaces_gone(2));
}
