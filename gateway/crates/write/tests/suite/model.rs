//! Writers against a vector of bytes, with random writes, cuts, reads, evictions, commits and lost answers: a reader of
//! the draft sees the written bytes, and the bucket has the last commit.
//!
//! Everything is drawn from a seed; a failure names it.

use bytes::Bytes;
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_plan::ByteRange;
use tidegate_write::{Commit, OpenMode};
use tidegate_write::{WriteError, Writer};

use crate::support::draw::Draw;
use crate::support::engine::{self, same};
use crate::support::spool::{Desk, PART, Terms, until};

const KEY: &str = "folder/object";
const LARGEST: u64 = 40 * PART;

struct Model {
    desk: Desk,
    draw: Draw,
    truth: Vec<u8>,
    /// The bucket's content, by the last commit.
    committed: Option<Vec<u8>>,
    faults: bool,
    /// Whether bytes that have left the spool can be read back in any order.
    read_back: bool,
}

impl Model {
    fn fault(&mut self) {
        if !self.faults {
            return;
        }
        let fault = match self.draw.below(4) {
            0 => Fault::Refuse(OriginError::Unavailable("down")),
            1 => Fault::LoseAnswer,
            2 => Fault::Damage,
            _ => Fault::Refuse(OriginError::Throttled { retry_after: None }),
        };
        self.desk.bucket().fail_next([fault]);
    }

    async fn write(&mut self, writer: &Writer, in_order: bool) {
        let at = match in_order {
            true => self.truth.len() as u64,
            false => self.draw.below(LARGEST),
        };
        let length = 1 + self.draw.below(3 * PART);
        if at + length > 2 * LARGEST {
            return;
        }
        let bytes = engine::sample(self.draw.below(1 << 40), length);
        let at_once = self.draw.below(2) == 0 && writer.write_now(at, &bytes);
        let written = match at_once {
            true => Ok(()),
            false => writer.write_at(at, bytes.clone()).await,
        };
        match written {
            Ok(()) => {
                let end = (at + length) as usize;
                let longer = self.truth.len().max(end);
                self.truth.resize(longer, 0);
                self.truth[at as usize..end].copy_from_slice(&bytes);
            }
            Err(WriteError::Gone(_)) if !self.read_back => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn cut(&mut self, writer: &Writer) {
        let size = self.draw.below(self.truth.len() as u64 + 2 * PART);
        match writer.truncate(size).await {
            Ok(()) => self.truth.resize(size as usize, 0),
            Err(WriteError::Gone(_)) if !self.read_back => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn read(&mut self, writer: &Writer) {
        assert_eq!(writer.size(), self.truth.len() as u64);
        let at = self.draw.below(self.truth.len() as u64 + 10);
        let end = at + self.draw.below(4 * PART);
        match writer.read_at(ByteRange::new(at, end)).await {
            Ok(bytes) => {
                let end = (end as usize).min(self.truth.len());
                let truth = self.truth.get(at as usize..end).unwrap_or_default();
                assert!(bytes == truth, "{at}..{end}");
            }
            Err(WriteError::Gone(_)) if !self.read_back => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn commit(&mut self, writer: &Writer) {
        match writer.publish().await {
            Ok(()) => self.committed = Some(self.truth.clone()),
            Err(error) => assert!(error.is_passing(), "{error}"),
        }
    }

    async fn step(&mut self, writer: &Writer) {
        match self.draw.below(20) {
            0..8 => self.write(writer, false).await,
            8..11 => self.write(writer, true).await,
            11 => self.cut(writer).await,
            12..16 => self.read(writer).await,
            16 => self.commit(writer).await,
            17 => writer.sync().await.expect("durable"),
            18 => self.fault(),
            _ => engine::pass(std::time::Duration::from_millis(self.draw.below(3000))).await,
        }
    }

    fn check(&self) {
        let object = self.desk.object(KEY);
        match &self.committed {
            Some(bytes) => same(&object.expect("there"), &Bytes::copy_from_slice(bytes)),
            None => assert_eq!(object, None),
        }
    }
}

fn terms(size: u64, commit: Commit) -> Terms {
    Terms {
        size,
        commit,
        ..Terms::default()
    }
}

async fn run(seed: u64, size: u64, faults: bool) {
    // Every other seed.
    let read_back = seed % 2 == 1;
    let mut model = Model {
        desk: Desk::new(Terms {
            read_back,
            ..terms(size, Commit::Close)
        }),
        draw: Draw::new(seed),
        truth: Vec::new(),
        committed: None,
        faults,
        read_back,
    };
    let mut writer = model.desk.create(KEY).await;
    for _ in 0..120 {
        model.step(&writer).await;
        if model.draw.below(30) == 0 {
            // Another handle, beside the first one or after it.
            model.commit(&writer).await;
            if model.committed.as_ref() == Some(&model.truth) {
                writer = model.desk.change(KEY).await;
            }
        }
    }
    model.desk.bucket().set_faults([]);
    while model.committed.as_ref() != Some(&model.truth) || writer.is_dirty() {
        model.commit(&writer).await;
    }
    model.check();
    drop(writer);
    if !faults {
        // An upload whose beginning was never answered is not ours to abort: see SEMANTICS.
        until(|| model.desk.bucket().uploads_under_way().is_empty()).await;
        until(|| model.desk.bucket().keys() == [KEY]).await;
    }
    until(|| model.desk.writers.spooled().0 == 0).await;
}

#[tokio::test(start_paused = true)]
async fn with_room_for_all_of_it() {
    for seed in 0..60 {
        println!("seed {seed}");
        run(seed, 1 << 30, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_spool_that_is_too_small() {
    for seed in 100..160 {
        println!("seed {seed}");
        run(seed, 15 * PART, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn with_an_origin_that_fails() {
    for seed in 200..260 {
        println!("seed {seed}");
        run(seed, 1 << 30, true).await;
    }
}

/// Checks the recovered bytes against the states since the last `fsync`, each of which may be there or not. Each byte
/// is as after some step, and an untouched one as promised.
fn promised(found: &[u8], states: &[Vec<u8>]) {
    let lengths: Vec<_> = states.iter().map(Vec::len).collect();
    assert!(
        lengths.contains(&found.len()),
        "{} of {lengths:?}",
        found.len()
    );
    for (at, byte) in found.iter().enumerate() {
        let was = |state: &Vec<u8>| state.get(at).copied().unwrap_or(0) == *byte;
        assert!(states.iter().any(was), "byte {at} of {}", found.len());
    }
}

/// Switches the machine off at any moment.
#[expect(clippy::too_many_lines, reason = "one story")]
async fn switched_off(seed: u64, size: u64) {
    let mut model = Model {
        desk: Desk::new(terms(size, Commit::Background)),
        draw: Draw::new(seed),
        truth: Vec::new(),
        committed: None,
        faults: false,
        read_back: false,
    };
    let writer = model
        .desk
        .open(KEY, OpenMode::Create)
        .await
        .expect("opened");
    let mut states = vec![];
    for step in 0..40 {
        // Every other object is small at first; once durable, it is in its journal alone.
        let first = if step < 5 && seed.is_multiple_of(2) {
            6
        } else {
            0
        };
        match first + model.draw.below(12 - first) {
            0..6 if seed % 4 < 2 => model.write(&writer, false).await,
            0..8 => model.write(&writer, true).await,
            8 => model.cut(&writer).await,
            9 | 10 => {
                writer.sync().await.expect("durable");
                states.clear();
            }
            _ => engine::settle().await,
        }
        states.push(model.truth.clone());
        if step == 4 {
            writer.sync().await.expect("durable");
            states = states.split_off(states.len() - 1);
        }
    }
    engine::pass(engine::secs(1)).await;
    let terms = terms(size, Commit::Background);
    let again = model.desk.switched_off([writer], &terms).await;
    let mut truth = None;
    if seed.is_multiple_of(3) {
        // A writer continues the object, and leaves a hole.
        let writer = again.change(KEY).await;
        if let Ok(found) = writer.read_at(ByteRange::new(0, writer.size())).await {
            let mut longer = found.to_vec();
            longer.resize(found.len() + 5 * PART as usize, 0);
            longer.extend_from_slice(b"more");
            let end = longer.len() as u64 - 4;
            writer.write_at(end, "more".into()).await.expect("written");
            promised(&found, &states);
            truth = Some(Bytes::from(longer));
        }
    }
    again.writers.settled().await;
    let object = again.object(KEY).expect("there");
    match truth {
        Some(truth) => same(&object, &truth),
        None => promised(&object, &states),
    }
    until(|| again.bucket().uploads_under_way().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn with_a_restart_in_between() {
    for seed in 300..360 {
        println!("seed {seed}");
        switched_off(seed, 1 << 30).await;
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_restart_and_a_spool_that_is_too_small() {
    for seed in 400..460 {
        println!("seed {seed}");
        switched_off(seed, 15 * PART).await;
    }
}
