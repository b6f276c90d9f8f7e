//! A draft compared with a vector of bytes. After any writes, sends, evictions and truncations, the readable bytes and
//! the final object are the bytes that were written.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

mod examples;

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
    /// Continues with more of the base's bytes.
    Extend(u64),
    /// Reads the base into the spool, and gives it up.
    ForgetBase,
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
        3 => (0..60_u64).prop_map(Step::Extend),
        1 => Just(Step::ForgetBase),
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
        // The version may have more bytes than the draft takes of it.
        let whole = (0..300).map(|n| 100_u8.wrapping_add(n as u8)).collect();
        Self {
            draft: Draft::new(PartSizes::new(FIRST_SIZE).doubling_after(3), base)
                .with_kept_ends(16),
            truth: bytes,
            base: whole,
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
                    let one = self.draft.sizes().range(*number - 1, self.draft.size());
                    assert!(range.len() <= MAX_COPY || *range == one);
                    assert!(!range.is_empty());
                    bytes.extend_from_slice(&self.base[range.start as usize..range.end as usize]);
                    *number
                }
            };
            assert!(number > last, "ascending");
            last = number;
        }
        bytes
    }

    fn extend(&mut self, by: u64) {
        let start = self.draft.size();
        let end = start + by;
        if end <= self.base.len() as u64 && self.draft.extend_base(end) {
            let more = &self.base[start as usize..end as usize];
            self.truth.extend_from_slice(more);
        }
    }

    fn forget_base(&mut self) {
        let all = ByteRange::new(0, u64::MAX);
        while let Some(gap) = self.draft.first_of_base(all) {
            let bytes = gap.start as usize..gap.end as usize;
            self.spool[bytes.clone()].copy_from_slice(&self.base[bytes]);
            self.draft.record_fill(gap);
        }
        self.draft.forget_base();
    }

    fn publish(&mut self) {
        let made = self.finish();
        let sizes = self.draft.sizes();
        self.draft = Draft::new(sizes, made.len() as u64).with_kept_ends(16);
        self.base = made;
        self.base.extend((0..100).map(|n| n as u8));
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
                Step::Extend(by) => world.extend(by),
                Step::ForgetBase => world.forget_base(),
            }
            world.check();
        }
        let truth = world.truth.clone();
        prop_assert_eq!(world.finish(), truth);
    }
}
