//! A draft compared with a vector of bytes. After any writes, sends, evictions and truncations, the readable bytes and
//! the final object are the bytes that were written.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const FIRST_SIZE: u64 = 8;
const BASE_SIZE: u64 = 50;
const MAX_COPY: u64 = 40;

#[derive(Debug, Clone)]
enum Step {
    Write(u64, u64),
    Truncate(u64),
    /// Begins to send the next part.
    Send(SendOccasion),
    /// Ends a send under way, with success or failure.
    Sent(bool),
    Evict,
    /// Completes under another key, and goes on from there.
    Publish,
}

fn step() -> impl Strategy<Value = Step> {
    let when = prop_oneof![
        Just(SendOccasion::Writing),
        Just(SendOccasion::Pressed),
        Just(SendOccasion::Closing)
    ];
    prop_oneof![
        6 => (0..150_u64, 1..40_u64).prop_map(|(at, length)| Step::Write(at, length)),
        1 => (0..160_u64).prop_map(Step::Truncate),
        5 => when.prop_map(Step::Send),
        4 => prop::bool::weighted(0.8).prop_map(Step::Sent),
        2 => Just(Step::Evict),
        1 => Just(Step::Publish),
    ]
}

/// A draft, its expected bytes, and the stores around it.
struct World {
    draft: Draft,
    truth: Vec<u8>,
    base: Vec<u8>,
    spool: Vec<u8>,
    sent: HashMap<ETag, Vec<u8>>,
    under_way: Vec<(PartJob, Vec<u8>)>,
    count: u8,
}

impl World {
    fn new(base: u64) -> Self {
        let bytes: Vec<u8> = (0..base).map(|n| 100 + n as u8).collect();
        Self {
            draft: Draft::new(PartSizes::new(FIRST_SIZE).doubling_after(3), base)
                .with_kept_ends(16),
            truth: bytes.clone(),
            base: bytes,
            spool: vec![0; 400],
            sent: HashMap::new(),
            under_way: Vec::new(),
            count: 0,
        }
    }

    fn write(&mut self, at: u64, length: u64) {
        let range = ByteRange::new(at, at + length);
        let growth = self.draft.growth(range);
        if self.draft.begin_write(range).is_err() {
            return;
        }
        self.count = self.count.wrapping_add(1);
        let (start, end) = (at as usize, (at + length) as usize);
        self.spool[start..end].fill(self.count);
        assert_eq!(self.draft.end_write(range), growth);
        if self.truth.len() < end {
            self.truth.resize(end, 0);
        }
        self.truth[start..end].fill(self.count);
    }

    fn truncate(&mut self, size: u64) {
        let before = self.draft.local().bytes();
        if let Ok(gone) = self.draft.truncate(size) {
            assert_eq!(self.draft.local().bytes(), before - gone);
            self.truth.resize(size as usize, 0);
            self.spool[size as usize..].fill(0);
        }
    }

    fn send(&mut self, when: SendOccasion) {
        let Some(job) = self.draft.next_job(when) else {
            return;
        };
        // Of two sends of a part, the store keeps the later.
        let twice = self.under_way.iter().any(|(it, _)| it.index == job.index);
        assert!(!twice, "a part is on its way once at a time");
        self.draft.begin_send(&job);
        for gap in &job.fill {
            let bytes = gap.start as usize..gap.end as usize;
            self.spool[bytes.clone()].copy_from_slice(&self.base[bytes]);
            self.draft.record_fill(*gap);
        }
        let bytes = self.spool[job.range.start as usize..job.range.end as usize].to_vec();
        self.under_way.push((job, bytes));
    }

    fn end_send(&mut self, well: bool) {
        let Some((job, bytes)) = self.under_way.pop() else {
            return;
        };
        self.count = self.count.wrapping_add(1);
        let etag = ETag::parse(&format!("\"{}-{}\"", self.sent.len(), self.count)).expect("a tag");
        if self.draft.end_send(&job, well.then(|| etag.clone())) {
            self.sent.insert(etag, bytes);
        }
    }

    fn evict(&mut self) {
        if let Some((_, range, freed)) = self.draft.evict() {
            assert!(freed <= range.len());
            assert!(range.start >= 16 && range.end + 16 <= self.draft.size());
            self.spool[range.start as usize..range.end as usize].fill(0);
        }
    }

    /// Sends the remaining parts and assembles the object.
    fn finish(&mut self) -> Vec<u8> {
        while !self.under_way.is_empty() {
            self.end_send(true);
        }
        while self.draft.next_job(SendOccasion::Closing).is_some() {
            self.send(SendOccasion::Closing);
            self.end_send(true);
        }
        let (mut bytes, mut last) = (Vec::new(), 0);
        let pieces = self.draft.pieces(MAX_COPY).expect("all is sent");
        if !self.draft.is_one_part() && !self.draft.may_copy() {
            let numbers = pieces.iter().map(|piece| match piece {
                Piece::Sent(number, _) => *number,
                Piece::Copy(..) => panic!("nothing is copied"),
            });
            assert!(numbers.eq(1..=self.draft.sizes().count(self.draft.size())));
        }
        for piece in pieces {
            let number = match &piece {
                Piece::Sent(number, etag) => {
                    bytes.extend_from_slice(&self.sent[etag]);
                    *number
                }
                Piece::Copy(number, range) => {
                    assert!(range.len() <= MAX_COPY && !range.is_empty());
                    bytes.extend_from_slice(&self.base[range.start as usize..range.end as usize]);
                    *number
                }
            };
            assert!(number > last, "ascending");
            last = number;
        }
        bytes
    }

    fn publish(&mut self) {
        self.base = self.finish();
        let sizes = self.draft.sizes();
        self.draft = Draft::new(sizes, self.base.len() as u64).with_kept_ends(16);
        self.spool.fill(0);
    }

    fn check(&self) {
        assert_eq!(self.draft.size(), self.truth.len() as u64);
        let mut at = 0;
        for (range, from) in self.draft.sources(ByteRange::new(0, 1000)) {
            assert_eq!(range.start, at, "no byte is left out");
            at = range.end;
            let bytes = range.start as usize..range.end as usize;
            match from {
                ByteSource::Spool => assert_eq!(self.spool[bytes.clone()], self.truth[bytes]),
                ByteSource::Base => assert_eq!(self.base[bytes.clone()], self.truth[bytes]),
                ByteSource::Zero => assert!(self.truth[bytes].iter().all(|byte| *byte == 0)),
                ByteSource::Gone => assert!(self.draft.has_gone_bytes()),
            }
        }
        assert_eq!(at, self.draft.size());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn is_the_bytes_that_were_written(base in prop_oneof![Just(0), Just(FIRST_SIZE - 1), Just(BASE_SIZE)], steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new(base);
        for step in steps {
            match step {
                Step::Write(at, length) => world.write(at, length),
                Step::Truncate(size) => world.truncate(size),
                Step::Send(when) => world.send(when),
                Step::Sent(well) => world.end_send(well),
                Step::Evict => world.evict(),
                Step::Publish => world.publish(),
            }
            world.check();
        }
        let truth = world.truth.clone();
        prop_assert_eq!(world.finish(), truth);
    }
}

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
    assert!(draft.is_unchanged(100));
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
fn only_an_untouched_draft_of_the_whole_base_is_unchanged() {
    let whole = || Draft::new(PartSizes::new(10), 100).with_kept_ends(20);
    let mut draft = whole();
    assert!(draft.is_unchanged(100));
    assert!(!draft.is_unchanged(101), "the base has more");
    draft.record_fill(ByteRange::new(0, 10));
    assert!(draft.is_unchanged(100), "bytes of the base are no change");
    written(&mut draft, ByteRange::new(51, 53));
    assert!(!draft.is_unchanged(100));
    let mut shorter = whole();
    shorter.truncate(99).expect("nothing is gone");
    assert!(!shorter.is_unchanged(100));
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
