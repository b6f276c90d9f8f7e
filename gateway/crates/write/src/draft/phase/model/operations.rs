//! The operations of the model.

use tidegate_engine::Error;
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_plan::ByteRange;

use super::support::engine::{sample, secs, valid};
use super::support::spool::{PART, source};
use super::{KEYS, LARGEST, Model};
use crate::spool::faults;
use crate::{Commit, OpenMode, WriteError};

impl Model {
    /// Reads an object through its handle, if what programs know of it is not certain.
    pub(super) async fn learn(&mut self, key: &'static str) {
        let Some(writer) = self.writers.get(key) else {
            return;
        };
        let range = ByteRange::new(0, writer.size());
        let found = writer.read_at(range).await.map(|bytes| bytes.to_vec());
        let truth = self.truth(key);
        match (found, truth.live.clone()) {
            (Ok(found), Some(Some(live))) => {
                assert!(truth.is_lost || found == live, "{key} reads otherwise");
            }
            (Ok(found), _) => {
                let found = Some(found);
                assert!(truth.allows(&found), "{key} was promised otherwise");
                truth.live = Some(found);
            }
            (Err(_), _) => truth.live = None,
        }
    }

    pub(super) async fn open(&mut self, key: &'static str) {
        let is_there = self.truths[key].live != Some(None);
        let how = match self.draw.below(5) {
            0 => OpenMode::CreateNew,
            1 | 2 if is_there => OpenMode::Change,
            3 => OpenMode::Change,
            _ => OpenMode::Create,
        };
        match self.desk.open(key, how).await {
            Ok(writer) => {
                if how != OpenMode::Change {
                    self.truth(key).begin();
                }
                self.writers.insert(key, writer);
                self.learn(key).await;
            }
            Err(WriteError::Origin(Error::NotFound)) => {
                let truth = self.truth(key);
                assert!(truth.allows(&None), "{key} is not there");
            }
            Err(_) => {}
        }
    }

    pub(super) async fn write(&mut self, key: &'static str) {
        self.learn(key).await;
        let (Some(writer), Some(Some(live))) =
            (self.writers.get(key), self.truths[key].live.clone())
        else {
            return;
        };
        let at = match self.draw.below(3) {
            0 => self.draw.below(LARGEST),
            _ => live.len() as u64,
        };
        let length = 1 + self.draw.below(3 * PART);
        if at + length > 2 * LARGEST {
            return;
        }
        self.version += 1;
        let bytes = sample(self.version, length);
        if writer.write_at(at, bytes.clone()).await.is_ok() {
            let (mut live, at) = (live, at as usize);
            let end = at + bytes.len();
            live.resize(live.len().max(end), 0);
            live[at..end].copy_from_slice(&bytes);
            self.truth(key).write(live);
        }
    }

    pub(super) async fn truncate(&mut self, key: &'static str) {
        self.learn(key).await;
        let (Some(writer), Some(Some(mut live))) =
            (self.writers.get(key), self.truths[key].live.clone())
        else {
            return;
        };
        let size = match self.draw.below(3) {
            0 => 0,
            _ => self.draw.below(live.len() as u64 + PART),
        };
        let cut = writer.truncate(size).await;
        live.resize(size as usize, 0);
        match size {
            0 => self.truth(key).begin(),
            _ => self.truth(key).write(live),
        }
        if cut.is_err() {
            self.truth(key).live = None;
        }
    }

    pub(super) async fn promise(&mut self, key: &'static str) {
        self.learn(key).await;
        let Some(writer) = self.writers.get(key) else {
            return;
        };
        let promised = match self.draw.below(4) {
            0 | 1 => writer.sync().await,
            2 => writer.commit(Commit::Background).await,
            _ => writer.commit(Commit::Close).await,
        };
        if promised.is_ok() {
            self.truth(key).promise();
        }
    }

    /// Closes a handle, after a `close` or without.
    pub(super) async fn close(&mut self, key: &'static str) {
        if self.draw.below(3) > 0 {
            self.promise(key).await;
        }
        if self.writers.remove(key).is_some() {
            // A refused draft that was not promised goes with its last handle.
            self.truth(key).live = None;
        }
    }

    pub(super) async fn unlink(&mut self, key: &'static str) {
        let source = source(&self.desk).clone();
        let removed = self.desk.writers.remove(&source, &valid(key)).await;
        self.writers.remove(key);
        match removed {
            Ok(()) => self.truth(key).remove(),
            Err(_) => self.truth(key).may_be_removed(),
        }
    }

    pub(super) async fn rename(&mut self, from: &'static str, to: &'static str) {
        if from == to {
            return;
        }
        self.learn(from).await;
        let source = source(&self.desk).clone();
        let (old, new) = (valid(from), valid(to));
        let renamed = self.desk.writers.rename(&source, &old, &new).await;
        self.writers.remove(to);
        if let Some(writer) = self.writers.remove(from) {
            let key = if writer.key() == new { to } else { from };
            self.writers.insert(key, writer);
        }
        let moved = self.truths[from].clone();
        match renamed {
            Ok(_) => {
                self.truths.insert(to, moved);
                self.truth(to).promise();
                self.truth(from).remove();
            }
            Err(_) => {
                self.truth(to).may_be(&moved);
                self.truth(from).may_be_removed();
            }
        }
    }

    pub(super) fn fail_bucket(&mut self) {
        let fault = match self.draw.below(7) {
            0 => Fault::Refuse(OriginError::Unavailable("down")),
            1 => Fault::Refuse(OriginError::Changed),
            2 | 3 => Fault::LoseRefusal,
            4 => return self.desk.bucket().forget_uploads(),
            _ => Fault::LoseAnswer,
        };
        for _ in 0..self.draw.below(3) {
            self.desk.bucket().fail_next([]);
        }
        self.desk.bucket().fail_next([fault]);
    }

    pub(super) fn fail_disk(&mut self) {
        let (well, count) = (self.draw.below(4), 1 + self.draw.below(3));
        faults::fail_next(self.desk.spool.path(), well, count);
    }

    pub(super) fn heal(&self) {
        self.desk.bucket().forgive();
        self.desk.bucket().set_faults([]);
        faults::fail_next(self.desk.spool.path(), 0, 0);
    }

    /// Cuts the power, and starts again.
    pub(super) async fn restart(mut self) -> Self {
        self.heal();
        let disk = self.cut_power().await;
        self.desk.world.engine.close(secs(5)).await;
        self.writers.clear();
        self.desk = self.desk.started_again(disk, [], &(self.terms)()).await;
        for key in KEYS {
            self.truth(key).live = None;
            let found = match self.desk.open(key, OpenMode::Change).await {
                Ok(writer) => {
                    let range = ByteRange::new(0, writer.size());
                    writer
                        .read_at(range)
                        .await
                        .map(|bytes| Some(bytes.to_vec()))
                }
                Err(WriteError::Origin(Error::NotFound)) => Ok(None),
                Err(error) => Err(error),
            };
            // Bytes may have left the spool.
            if let Ok(found) = found {
                let truth = self.truth(key);
                assert!(truth.allows(&found), "{key} was promised otherwise");
                truth.find(found);
            }
        }
        self
    }
}
