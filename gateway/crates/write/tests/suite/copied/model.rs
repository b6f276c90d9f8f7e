//! Drawn copies, writes and cuts of one draft against a reference.

use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;

use super::*;
use crate::support::draw::Draw;

struct Model {
    desk: Desk,
    draw: Draw,
    sources: [Bytes; 2],
    truth: Vec<u8>,
    committed: Option<Vec<u8>>,
}

impl Model {
    async fn copy(&mut self, writer: &Writer) {
        let size = self.truth.len() as u64;
        let which = usize::try_from(self.draw.below(2)).expect("few");
        let key = ["folder/0", "folder/1"][which];
        let bytes = self.sources[which].clone();
        let start = match self.draw.below(4) {
            0 => self.draw.below(bytes.len() as u64),
            _ => size.min(bytes.len() as u64),
        };
        let end = (start + 1 + self.draw.below(9 * PART)).min(bytes.len() as u64);
        let from = opened(&self.desk, key).await;
        if start < end && copy(writer, &from, start, end).await {
            assert_eq!(start, size);
            self.truth
                .extend_from_slice(&bytes[start as usize..end as usize]);
        }
    }

    async fn step(&mut self, writer: &Writer) {
        let size = self.truth.len() as u64;
        match self.draw.below(14) {
            0..5 => self.copy(writer).await,
            5..8 => {
                let (at, length) = (self.draw.below(size + PART), 1 + self.draw.below(2 * PART));
                let bytes = sample(self.draw.below(1 << 40), length);
                writer.write_at(at, bytes.clone()).await.expect("written");
                self.truth = patched(&Bytes::from(self.truth.clone()), at, &bytes).to_vec();
            }
            8 => {
                let size = match self.draw.below(3) {
                    0 => 0,
                    _ => self.draw.below(size + PART),
                };
                writer.truncate(size).await.expect("cut");
                self.truth.resize(size as usize, 0);
            }
            9 => writer.sync().await.expect("durable"),
            10 => {
                let fault = match self.draw.below(2) {
                    0 => Fault::Refuse(OriginError::Unavailable("down")),
                    _ => Fault::Damage,
                };
                self.desk.bucket().fail_next([fault]);
                let _ = writer.publish().await;
                self.desk.bucket().set_faults([]);
                writer.publish().await.expect("published");
                self.committed = Some(self.truth.clone());
            }
            11 => {
                writer.publish().await.expect("published");
                self.committed = Some(self.truth.clone());
            }
            12 => {
                // A source changes here.
                let which = usize::try_from(self.draw.below(2)).expect("few");
                let length = self.draw.below(40 * PART);
                let bytes = sample(self.draw.below(1 << 40), length);
                self.desk
                    .write(["folder/0", "folder/1"][which], &bytes)
                    .await;
                self.sources[which] = bytes;
            }
            _ => same(&all(writer).await, &Bytes::from(self.truth.clone())),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn copies_writes_and_cuts_in_any_order() {
    for seed in 0..120 {
        println!("seed {seed}");
        let desk = Desk::plain();
        let sources = [sample(1, 40 * PART), sample(2, 3 * PART)];
        desk.write("folder/0", &sources[0]).await;
        desk.write("folder/1", &sources[1]).await;
        let writer = desk.create(TO).await;
        let mut model = Model {
            desk,
            draw: Draw::new(seed),
            sources,
            truth: Vec::new(),
            committed: None,
        };
        for _ in 0..60 {
            model.step(&writer).await;
        }
        writer.publish().await.expect("published");
        same(
            &model.desk.object(TO).expect("there"),
            &Bytes::from(model.truth),
        );
        drop(writer);
        until(|| model.desk.writers.spooled().0 == 0).await;
        until(|| model.desk.bucket().uploads_under_way().is_empty()).await;
    }
}
