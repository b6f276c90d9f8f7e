//! Drafts whose object is deleted or replaced while they are open: their handles go on, and nothing of them is
//! published.

use bytes::Bytes;
use tidegate_plan::ByteRange;
use tidegate_write::{Commit, OpenMode, WriteError, Writer};

use crate::support::draw::Draw;
use crate::support::engine::{same, sample, valid};
use crate::support::spool::{Desk, PART, Terms, all, down, patched, put, source, until};

async fn remove(desk: &Desk, key: &str) {
    let removed = desk.writers.remove(source(desk), &valid(key)).await;
    removed.expect("removed");
}

/// Every way in which an open draft loses its name.
#[derive(Debug, Clone, Copy)]
enum Loss {
    Removed,
    Replaced,
}

async fn lose(desk: &Desk, key: &str, loss: Loss) {
    match loss {
        Loss::Removed => remove(desk, key).await,
        Loss::Replaced => {
            desk.write("other", &Bytes::from_static(b"another")).await;
            let (from, to) = (valid("other"), valid(key));
            let renamed = desk.writers.rename(source(desk), &from, &to);
            renamed.await.expect("renamed");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_written_is_read_back_until_the_last_close() {
    for loss in [Loss::Removed, Loss::Replaced] {
        for size in [300, 5 * PART + 77] {
            let desk = Desk::plain();
            let bytes = sample(size, size);
            let writer = desk.create("key").await;
            put(&writer, 0, &bytes).await;
            let reader = desk.writers.find(source(&desk), &valid("key"));
            let reader = reader.expect("it is open");
            lose(&desk, "key", loss).await;
            let left = desk.object("key");
            same(&all(&writer).await, &bytes);
            same(&all(&reader).await, &bytes);

            let patch = sample(9, 2 * PART);
            writer
                .write_at(size - 100, patch.clone())
                .await
                .expect("written");
            let now = patched(&bytes, size - 100, &patch);
            same(&all(&reader).await, &now);
            writer.truncate(50).await.expect("cut");
            writer.sync().await.expect("nothing to do");
            writer.commit(Commit::Close).await.expect("nothing to do");
            let closed = writer.commit(Commit::Background).await;
            closed.expect("nothing to do");
            same(&all(&reader).await, &now.slice(..50));

            // Another object of that name is another draft.
            assert!(desk.writers.find(source(&desk), &valid("key")).is_none());
            let next = desk.create("key").await;
            put(&next, 0, &Bytes::from_static(b"next")).await;
            same(&all(&reader).await, &now.slice(..50));
            next.commit(Commit::Close).await.expect("committed");
            drop((writer, reader, next));
            desk.writers.settled().await;
            assert_ne!(left.as_deref(), Some(&*bytes), "{loss:?}");
            assert_eq!(desk.object("key").as_deref(), Some(&b"next"[..]));
            until(|| desk.writers.spooled().0 == 0).await;
            until(|| desk.bucket().uploads_under_way().is_empty()).await;
        }
    }
}

/// The bytes that a program synced are in the journal alone.
#[tokio::test(start_paused = true)]
async fn what_was_promised_is_read_back_and_does_not_return_after_a_crash() {
    for size in [300, 3 * PART] {
        let desk = Desk::new(Terms::background());
        let bytes = sample(size, size);
        let writer = desk.create("key").await;
        put(&writer, 0, &bytes).await;
        writer.sync().await.expect("durable");
        remove(&desk, "key").await;
        same(&all(&writer).await, &bytes);
        writer.write_at(10, sample(3, 100)).await.expect("written");
        same(&all(&writer).await, &patched(&bytes, 10, &sample(3, 100)));
        writer.sync().await.expect("nothing to do");
        let again = desk.switched_off([writer], &Terms::background()).await;
        again.writers.settled().await;
        assert_eq!(again.object("key"), None);
        assert_eq!(again.writers.spooled().0, 0);
    }
}

/// Another program deletes an object that a handle has open, and a second program makes it anew. The first handle takes
/// the name back neither now nor after a crash.
#[tokio::test(start_paused = true)]
async fn what_was_deleted_elsewhere_and_made_anew_is_not_replaced_by_an_old_handle() {
    for how in [
        OpenMode::Create,
        OpenMode::CreateNew,
        OpenMode::CreateMissing,
    ] {
        let desk = Desk::new(Terms::background());
        let old = desk.create("key").await;
        put(&old, 0, &"old".into()).await;
        old.commit(Commit::Close).await.expect("committed");
        desk.bucket().delete("key");
        desk.world.purge("key").await;
        let engine = &desk.world.engine;
        let looked = engine.look_up(source(&desk), "key", false).await;
        looked.map(drop).expect("it is missing");
        assert!(engine.is_known_missing(source(&desk), &valid("key")));
        desk.bucket().set_faults([down()]);
        let next = desk.open("key", how).await.expect("opened");
        put(&next, 0, &"next".into()).await;
        next.commit(Commit::Background).await.expect("promised");
        drop(next);
        put(&old, 0, &"of old".into()).await;
        old.sync().await.expect("nothing to do");
        old.commit(Commit::Background).await.expect("nothing to do");
        assert_eq!(all(&old).await, "of old");
        let again = desk.switched_off([old], &Terms::background()).await;
        again.bucket().set_faults([]);
        again.writers.settled().await;
        assert_eq!(again.object("key"), Some("next".into()), "{how:?}");
        assert_eq!(again.writers.left_alone(), 0);
        until(|| again.writers.spooled().0 == 0).await;
    }
}

/// Bytes of the version that a draft changes are read as long as they are cached.
#[tokio::test(start_paused = true)]
async fn unchanged_bytes_come_from_the_cache_or_not_at_all() {
    let desk = Desk::plain();
    let bytes = sample(1, PART);
    desk.write("key", &bytes).await;
    let writer = desk.change("key").await;
    writer.write_at(5, "!".into()).await.expect("written");
    remove(&desk, "key").await;
    same(&all(&writer).await, &patched(&bytes, 5, b"!"));
    drop(writer);

    desk.bucket().put("foreign", bytes.clone());
    let writer = desk.change("foreign").await;
    writer.write_at(5, "!".into()).await.expect("written");
    remove(&desk, "foreign").await;
    let read = writer.read_at(ByteRange::new(6, PART)).await;
    assert_eq!(read, Err(WriteError::Changed), "never other bytes");
    let written = writer.read_at(ByteRange::new(5, 6)).await;
    assert_eq!(written.expect("in the spool"), "!");
}

/// A draft that is larger than the spool, and in it only in part.
#[tokio::test(start_paused = true)]
async fn what_has_left_the_spool_is_an_error_and_never_other_bytes() {
    let desk = Desk::new(Terms {
        size: 12 * PART,
        ..Terms::default()
    });
    let bytes = sample(1, 40 * PART);
    let writer = desk.create("key").await;
    put(&writer, 0, &bytes).await;
    remove(&desk, "key").await;
    let head = writer.read_at(ByteRange::new(0, PART)).await;
    same(
        &head.expect("it never leaves"),
        &bytes.slice(..PART as usize),
    );
    let middle = ByteRange::new(15 * PART, 16 * PART);
    let read = writer.read_at(middle).await;
    assert!(matches!(read, Err(WriteError::Gone(_))), "{read:?}");
    drop(writer);
    until(|| desk.writers.spooled().0 == 0).await;
    until(|| desk.bucket().uploads_under_way().is_empty()).await;
    assert_eq!(desk.object("key"), None);
}

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
