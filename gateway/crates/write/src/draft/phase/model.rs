//! Random operations on a few objects, with faults of the bucket and of the disk, and power cuts at any record of a
//! journal. After each of them:
//!
//! - every step that a draft has taken is in the table of SEMANTICS, and a reader sees what its row says;
//! - the journal of each draft gives the draft in memory, and each beginning of it can be replayed;
//! - a power cut loses nothing that was promised.
//!
//! Everything is drawn from a seed; a failure names it. `TIDEGATE_DRAFT_SEEDS` sets how many are run.

mod checks;
mod crash;
mod interleaved;
mod operations;
#[expect(dead_code, reason = "the suites ask more of it")]
#[path = "../../../tests/suite/support.rs"]
mod support;
mod truth;

use std::collections::BTreeMap;
use std::time::Duration;

use tempfile::TempDir;

use crate::draft::phase::table;
use crate::spool::faults;
use crate::{RefusedChoice, Stage, WriteError, Writer};
use support::draw::Draw;
use support::engine::{pass, sample, settle, valid};
use support::spool::{Desk, FILES, PART, Terms, source};
use truth::Truth;

const KEYS: [&str; 3] = ["folder/a", "folder/b", "c"];
const LARGEST: u64 = 12 * PART;

struct Model {
    desk: Desk,
    terms: fn() -> Terms,
    draw: Draw,
    truths: BTreeMap<&'static str, Truth>,
    writers: BTreeMap<&'static str, Writer>,
    version: u64,
}

fn roomy() -> Terms {
    Terms::background()
}

fn crowded() -> Terms {
    Terms {
        size: 2 * FILES + 9 * PART,
        ..Terms::background()
    }
}

fn crowded_and_read_back() -> Terms {
    Terms {
        read_back: true,
        ..crowded()
    }
}

impl Model {
    fn new(seed: u64, terms: fn() -> Terms) -> Self {
        Self {
            desk: Desk::new(terms()),
            terms,
            draw: Draw::new(seed),
            truths: KEYS.map(|key| (key, Truth::missing())).into(),
            writers: BTreeMap::new(),
            version: 0,
        }
    }

    fn key(&mut self) -> &'static str {
        KEYS[self.draw.below(KEYS.len() as u64) as usize]
    }

    /// Returns an object that has a handle, most often.
    async fn open_key(&mut self) -> &'static str {
        let mut key = self.key();
        let open = Vec::from_iter(self.writers.keys().copied());
        if !open.is_empty() && self.draw.below(8) > 0 {
            key = open[self.draw.below(open.len() as u64) as usize];
        }
        if !self.writers.contains_key(key) {
            self.open(key).await;
        }
        key
    }

    fn truth(&mut self, key: &'static str) -> &mut Truth {
        self.truths.get_mut(key).expect("one of them")
    }

    async fn step(mut self) -> Self {
        match self.draw.below(40) {
            op @ 0..25 => {
                let key = self.open_key().await;
                match op {
                    0..14 => self.write(key).await,
                    14..16 => self.truncate(key).await,
                    16..22 => self.promise(key).await,
                    _ => self.close(key).await,
                }
            }
            op @ 25..29 => {
                let (key, other) = (self.key(), self.key());
                match op {
                    25 => self.open(key).await,
                    26 => self.unlink(key).await,
                    _ => self.rename(key, other).await,
                }
            }
            29..32 => self.fail_bucket(),
            32 => self.fail_disk(),
            33 | 34 => self.heal(),
            35 | 36 => pass(Duration::from_millis(self.draw.below(3000))).await,
            37 => self = self.restart().await,
            _ => settle().await,
        }
        self.check().await;
        self
    }

    async fn check(&mut self) {
        let drafts = Vec::from_iter(self.desk.writers.0.writings().values().cloned());
        for draft in drafts {
            checks::check(&draft).await;
            let key = draft.id().key;
            let key = KEYS.into_iter().find(|it| *it == key.as_str());
            let key = key.expect("one of them");
            if draft.state().phase().is_lost() {
                let truth = self.truth(key);
                (truth.is_lost, truth.live) = (true, None);
            }
            self.check_reader(key);
        }
        table::check_taken();
        let disk = self.cut_power().await;
        let mut promised = crash::promised_in(disk.path(), self.desk.bucket());
        for key in KEYS {
            let found = match promised.remove(key) {
                Some(found) => found,
                None => Some(self.in_bucket(key)),
            };
            if let Some(found) = found {
                assert!(
                    self.truths[key].allows(&found),
                    "a crash loses {key}: {:?} {:?}",
                    found.as_ref().map(Vec::len),
                    self.truths[key].lengths()
                );
            }
        }
    }

    /// Returns what a disk has after the power was cut.
    async fn cut_power(&mut self) -> TempDir {
        let drafts = Vec::from_iter(self.desk.writers.0.writings().values().cloned());
        // The files are copied one after the other: nothing may change them meanwhile.
        let (mut pages, mut journals) = (Vec::new(), Vec::new());
        for draft in &drafts {
            pages.push(draft.page.clone().write_owned().await);
        }
        for draft in &drafts {
            journals.push(draft.journal.clone().lock_owned().await);
        }
        crash::disk_after(&self.desk.spool, &mut self.draw)
    }

    fn in_bucket(&self, key: &str) -> Option<Vec<u8>> {
        self.desk.object(key).map(|bytes| bytes.to_vec())
    }

    /// Checks that a reader without a handle sees the draft in the phases in which the table says so.
    fn check_reader(&self, key: &str) {
        let (source, key) = (source(&self.desk), valid(key));
        let closed = self.desk.writers.write_path().closed_draft(source, &key);
        let draft = self
            .desk
            .writers
            .0
            .writings()
            .get(&source.object(&key))
            .cloned();
        let Some(draft) = draft else { return };
        let state = draft.state();
        match state.phase().name() {
            "closed" => assert_eq!(closed.is_some(), !state.draft().has_gone_bytes()),
            "open" | "lost" => {
                let is_replaced = state.replaced_closed_edition().is_some();
                assert!(closed.is_none() || is_replaced, "{:?}", state.phase());
            }
            "published" => assert!(closed.is_none(), "{:?}", state.phase()),
            _ => {}
        }
    }

    /// Publishes everything with a healthy bucket, and checks what is there.
    async fn end(mut self) {
        self.heal();
        for key in KEYS {
            self.close(key).await;
        }
        // A journal that could not be synced refuses its draft until then.
        self = self.restart().await;
        self.writers.clear();
        self.desk.writers.settled().await;
        for pending in self.desk.writers.pending() {
            assert_eq!(pending.stage, Stage::Refused, "{pending:?}");
            let ours = self
                .desk
                .writers
                .resolve(&pending.id, RefusedChoice::KeepOurs);
            if let Err(error) = ours.await {
                let is_lost = self.truths[pending.id.key.as_str()].is_lost;
                assert!(
                    is_lost || pending.trouble == Some(WriteError::Lost),
                    "{error} {pending:?}"
                );
                let theirs = RefusedChoice::KeepTheirs;
                let given_up = self.desk.writers.resolve(&pending.id, theirs).await;
                given_up.expect("it was refused");
                continue;
            }
        }
        self.check().await;
        for key in KEYS {
            let found = self.in_bucket(key);
            assert!(self.truths[key].allows(&found), "{key} is lost");
        }
    }
}

/// Returns the seeds of a test, or as many as the environment says.
fn seeds(from: u64) -> std::ops::Range<u64> {
    let set = std::env::var("TIDEGATE_DRAFT_SEEDS").ok();
    from..from + set.and_then(|text| text.parse().ok()).unwrap_or(4)
}

async fn run(terms: fn() -> Terms, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        println!("seed {seed}");
        let mut model = Model::new(seed, terms);
        for _ in 0..80 {
            model = model.step().await;
        }
        model.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn with_room_for_everything() {
    run(roomy, seeds(0)).await;
}

#[tokio::test(start_paused = true)]
async fn with_a_spool_that_is_too_small() {
    run(crowded, seeds(10_000)).await;
}

#[tokio::test(start_paused = true)]
async fn with_bytes_that_are_read_back() {
    run(crowded_and_read_back, seeds(20_000)).await;
}

/// The completion of the staged object has ended: the journal does not have it any more, and neither has memory.
#[tokio::test(start_paused = true)]
async fn a_draft_that_is_read_back_is_as_its_journal_says() {
    let desk = Desk::new(Terms {
        size: 9 * PART,
        ..crowded_and_read_back()
    });
    let writer = desk.create(KEYS[0]).await;
    let bytes = sample(1, LARGEST);
    support::spool::put(&writer, 0, &bytes).await;
    support::spool::until(|| writer.writing.state().draft().has_gone_bytes()).await;
    assert_eq!(support::spool::all(&writer).await, bytes);
    assert!(!writer.writing.state().draft().has_gone_bytes());
    checks::check(&writer.writing).await;
}
/// Without a caller that waits, too, the phase says that the journal lacks something.
#[tokio::test(start_paused = true)]
async fn a_failed_sync_is_known_though_its_caller_has_gone() {
    let desk = Desk::plain();
    let writer = desk.create(KEYS[0]).await;
    support::spool::put(&writer, 0, &sample(1, PART)).await;
    faults::fail_next(desk.spool.path(), 0, 1);
    let polled = futures_util::poll!(std::pin::pin!(writer.sync()));
    assert!(!matches!(polled, std::task::Poll::Ready(Ok(()))));
    checks::check(&writer.writing).await;
    assert!(writer.writing.state().phase().is_behind());
}
