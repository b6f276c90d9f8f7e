//! Drawn writes, commits and losses of one name against a reference, with and without crashes.

use tidegate_write::Writer;

use super::*;
use crate::support::draw::Draw;

/// A draft without a name, and the bytes that it must have.
struct Nameless {
    writer: Writer,
    truth: Vec<u8>,
    /// It was committed once, so bytes of it may have been in the bucket alone.
    was_committed: bool,
}

impl Nameless {
    async fn write(&mut self, draw: &mut Draw) {
        let at = draw.below(self.truth.len() as u64 + PART);
        let bytes = sample(draw.below(1 << 40), 1 + draw.below(3 * PART));
        let written = self.writer.write_at(at, bytes.clone()).await;
        written.expect("written");
        self.truth = patched(&Bytes::from(self.truth.clone()), at, &bytes).to_vec();
    }

    async fn step(&mut self, draw: &mut Draw) {
        let length = self.truth.len() as u64;
        match draw.below(8) {
            0..4 => self.write(draw).await,
            4 => {
                let size = draw.below(length + PART);
                self.writer.truncate(size).await.expect("cut");
                self.truth.resize(size as usize, 0);
            }
            5 => self.writer.sync().await.expect("nothing to do"),
            6 => {
                let how = match draw.below(2) {
                    0 => Commit::Close,
                    _ => Commit::Background,
                };
                self.writer.commit(how).await.expect("nothing to do");
            }
            _ => self.check().await,
        }
    }

    async fn check(&self) {
        let size = self.writer.size();
        assert_eq!(size, self.truth.len() as u64);
        match self.writer.read_at(ByteRange::new(0, size)).await {
            Ok(bytes) => same(&bytes, &Bytes::from(self.truth.clone())),
            Err(error) => {
                assert!(self.was_committed, "{error}");
                assert_eq!(error, WriteError::Changed);
            }
        }
    }
}

/// Objects of one name, of which the last one still has it.
struct Model {
    desk: Desk,
    draw: Draw,
    nameless: Vec<Nameless>,
    current: Option<Nameless>,
    committed: Option<Vec<u8>>,
}

impl Model {
    async fn step(&mut self) {
        let draw = &mut self.draw;
        match (draw.below(10), &mut self.current) {
            (0, _) => {
                let loss = match draw.below(2) {
                    0 => Loss::Removed,
                    _ => Loss::Replaced,
                };
                lose(&self.desk, "key", loss).await;
                self.committed = match loss {
                    Loss::Removed => None,
                    Loss::Replaced => Some(b"another".to_vec()),
                };
                self.nameless.extend(self.current.take());
            }
            (_, None) => {
                let writer = self.desk.open("key", OpenMode::Create).await;
                self.current = Some(Nameless {
                    writer: writer.expect("opened"),
                    truth: Vec::new(),
                    was_committed: false,
                });
            }
            (1, Some(it)) => {
                it.writer.commit(Commit::Close).await.expect("committed");
                it.was_committed = true;
                self.committed = Some(it.truth.clone());
            }
            // A sync or commit of it is one of a name.
            (2..6, Some(it)) => it.write(draw).await,
            _ => {
                for it in &mut self.nameless {
                    it.step(draw).await;
                }
                if self.nameless.len() > 3 {
                    self.nameless.remove(0);
                }
            }
        }
    }
}

/// Objects of one name are written, committed, removed and replaced while their handles go on: each handle reads its
/// own bytes, and the bucket has the last commit of what still had the name.
async fn run(seed: u64, crashes: bool) {
    let mut model = Model {
        desk: Desk::plain(),
        draw: Draw::new(seed),
        nameless: Vec::new(),
        current: None,
        committed: None,
    };
    for _ in 0..80 {
        model.step().await;
    }
    for it in &model.nameless {
        it.check().await;
    }
    if let Some(it) = &model.current {
        it.writer.commit(Commit::Close).await.expect("committed");
        model.committed = Some(it.truth.clone());
    }
    let (mut desk, handles) = (model.desk, (model.nameless, model.current));
    if crashes {
        desk = desk.switched_off([], &Terms::default()).await;
        desk.writers.settled().await;
    }
    drop(handles);
    until(|| desk.writers.spooled().0 == 0).await;
    until(|| desk.bucket().uploads_under_way().is_empty()).await;
    assert_eq!(desk.object("key").map(|it| it.to_vec()), model.committed);
}

#[tokio::test(start_paused = true)]
async fn names_come_and_go() {
    for seed in 0..60 {
        println!("seed {seed}");
        run(seed, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn names_come_and_go_and_the_machine_too() {
    for seed in 100..130 {
        println!("seed {seed}");
        run(seed, true).await;
    }
}
