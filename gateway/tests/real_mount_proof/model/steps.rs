//! The steps of the model: each is taken on the mount or elsewhere, and its outcome is compared.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use super::{Held, KEYS, Model};
use crate::close;
use crate::desk::until;

impl Model {
    async fn create(&mut self, key: usize) {
        let bytes = self.bytes();
        self.note(format!("create {} with {}", KEYS[key], bytes.len()));
        let file = File::create(self.path(key))
            .unwrap_or_else(|error| panic!("{}\n{error}", self.log.join("\n")));
        for (n, piece) in bytes.chunks(100_000).enumerate() {
            file.write_all_at(piece, n as u64 * 100_000)
                .expect("written");
        }
        let empty = bytes.is_empty();
        close(file).unwrap_or_else(|error| panic!("{}\n{error}", self.log.join("\n")));
        if empty {
            // The close of an empty file waits for nothing: see SEMANTICS.
            until("the empty file is there", async || {
                self.desk.stored(KEYS[key]).await == Some(Vec::new())
            })
            .await;
        }
        self.settle().await;
        self.wrote(key, Some(bytes)).await;
    }

    /// Opens a file, reads it, changes it, reads it again, closes it.
    async fn change(&mut self, key: usize) {
        self.note(format!("change {}", KEYS[key]));
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path(key));
        let mut file = match open {
            Ok(file) => file,
            Err(error) => return self.failed(key, &error),
        };
        let mut bytes = match all(&mut file) {
            Ok(bytes) => bytes,
            Err(error) => return self.failed(key, &error),
        };
        self.seen(key, Some(bytes.clone()), "opening");
        let stale = *self.now(key) != Some(bytes.clone());
        let done = self.cut_or_write(&file, &mut bytes);
        let read = done.and_then(|()| all(&mut file));
        if let Ok(read) = &read {
            self.right(*read == bytes, "what was written is not read back");
        }
        match read.and_then(|_| close(file)) {
            Ok(()) if !stale || *self.now(key) == Some(bytes.clone()) => {
                self.settle().await;
                self.wrote(key, Some(bytes)).await;
            }
            // The change needed nothing of the lost version, or the object was not changed.
            Ok(()) => {
                self.settle().await;
                let stored = self.desk.stored(KEYS[key]).await;
                match stored == *self.now(key) {
                    true => {}
                    false => self.wrote(key, Some(bytes)).await,
                }
            }
            Err(error) => {
                self.note(format!("refused: {error}"));
                self.right(stale, "refused without a reason");
                // A refused draft stays as long as a program has it open.
                self.held.retain(|it| it.key != Some(key));
                self.settle().await;
                let stored = self.desk.stored(KEYS[key]).await;
                self.right(stored == *self.now(key), "refused, and the bucket changed");
            }
        }
    }

    /// Gives a file another length, or writes to it; `bytes` are its bytes before and after.
    fn cut_or_write(&mut self, file: &File, bytes: &mut Vec<u8>) -> std::io::Result<()> {
        match self.draw.below(3) {
            0 => {
                let length = self.draw.below(bytes.len() as u64 + 100_000);
                self.note(format!("  {} bytes, cut to {length}", bytes.len()));
                bytes.resize(usize::try_from(length).expect("small"), 0);
                file.set_len(length)
            }
            at => {
                let mut patch = self.bytes();
                patch.truncate(200_000);
                let within = self.draw.below(bytes.len() as u64 + 1);
                let at = if at == 1 { bytes.len() as u64 } else { within };
                let (start, end) = (at as usize, at as usize + patch.len());
                self.note(format!("  {} bytes, written {start} to {end}", bytes.len()));
                bytes.resize(bytes.len().max(end), 0);
                bytes[start..end].copy_from_slice(&patch);
                file.write_all_at(&patch, at)
            }
        }
    }

    async fn rename(&mut self, from: usize, to: usize) {
        self.note(format!("rename {} to {}", KEYS[from], KEYS[to]));
        if let Err(error) = std::fs::rename(self.path(from), self.path(to)) {
            let mut held = self.held.iter();
            if held.any(|it| it.key == Some(from) && it.follows && it.lost) {
                // An open handle is on the bytes written here, and the object has others by now.
                return self.note(format!("  {error}"));
            }
            return self.failed(from, &error);
        }
        let bytes = self.now(from).clone();
        self.right(bytes.is_some(), "what was not there was renamed");
        for held in &mut self.held {
            match held.key {
                Some(key) if key == to => held.key = None,
                Some(key) if key == from => held.key = Some(to),
                _ => {}
            }
        }
        let stored = self.desk.stored(KEYS[to]).await;
        self.right(stored == bytes, "the new name has other bytes");
        self.may[to] = vec![bytes];
        self.wrote(from, None).await;
    }

    /// Copies a file whose state is certain, as `cp` does.
    async fn copy(&mut self, from: usize, to: usize) {
        let Some(bytes) = self.now(from).clone().filter(|_| !self.unsure(from)) else {
            return;
        };
        self.note(format!("copy {} to {}", KEYS[from], KEYS[to]));
        let copied = std::fs::copy(self.path(from), self.path(to));
        let copied = copied.unwrap_or_else(|error| panic!("{}\n{error}", self.log.join("\n")));
        self.right(copied == bytes.len() as u64, "the length of a copy");
        // `copy` ignores what the close says, and an empty file waits for nothing.
        until("the copy is there", async || {
            self.desk.stored(KEYS[to]).await.as_ref() == Some(&bytes)
        })
        .await;
        self.settle().await;
        self.wrote(to, Some(bytes)).await;
    }

    async fn unlink(&mut self, key: usize) {
        self.note(format!("unlink {}", KEYS[key]));
        if let Err(error) = std::fs::remove_file(self.path(key)) {
            return self.failed(key, &error);
        }
        for held in self.held.iter_mut().filter(|it| it.key == Some(key)) {
            held.key = None;
        }
        self.wrote(key, None).await;
    }

    pub(super) fn read(&mut self, key: usize) {
        self.note(format!("read {}", KEYS[key]));
        match std::fs::read(self.path(key)) {
            Ok(bytes) => self.seen(key, Some(bytes), "reading"),
            Err(error) => self.failed(key, &error),
        }
    }

    pub(super) async fn get(&mut self, key: usize) {
        self.note(format!("get {}", KEYS[key]));
        let path = format!("/{}", KEYS[key]);
        let got = self.desk.mounted.gateway.get(&path, &[]).await;
        let found = (got.status == 200).then(|| got.body.to_vec());
        let known = got.status == 200 || got.status == 404;
        self.right(known, &format!("HTTP says {}", got.status));
        self.seen(key, found, "HTTP");
    }

    async fn put(&mut self, key: usize) {
        let bytes = self.bytes();
        self.note(format!("elsewhere: {} is {}", KEYS[key], bytes.len()));
        self.desk.bucket.put(KEYS[key], bytes.clone()).await;
        self.changed(key, Some(bytes));
    }

    async fn delete(&mut self, key: usize) {
        self.note(format!("elsewhere: {} is deleted", KEYS[key]));
        self.desk.bucket.delete(KEYS[key]).await;
        self.changed(key, None);
    }

    pub(super) async fn purge(&mut self, key: usize) {
        self.note(format!("purge {}", KEYS[key]));
        let got = self.desk.mounted.purge(KEYS[key]).await;
        self.right(got.status == 200, &got.text());
        if !self.held.iter().any(|it| it.key == Some(key) && it.follows) {
            let now = self.now(key).clone();
            self.may[key] = vec![now];
        }
    }

    fn hold(&mut self, key: usize) {
        if self.held.len() == 3 {
            return;
        }
        self.note(format!("hold {}", KEYS[key]));
        match File::open(self.path(key)) {
            Ok(file) => {
                let lost = self.unsure(key);
                let follows = self.held.iter().any(|it| it.key == Some(key) && it.follows);
                self.held.push(Held {
                    file,
                    key: Some(key),
                    may: self.may[key].iter().flatten().cloned().collect(),
                    follows,
                    lost,
                });
            }
            Err(error) => self.failed(key, &error),
        }
    }

    /// Reads a piece of a held file, which must always be of the same version.
    fn look(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let which = self.draw.below(self.held.len() as u64) as usize;
        let longest = self.held[which].may.iter().map(Vec::len).max();
        let at = self.draw.below(longest.unwrap_or(0) as u64 + 1);
        let mut piece = vec![0; self.draw.below(400_000) as usize];
        let read = full(&self.held[which].file, &mut piece, at);
        let name = self.held[which].key.map(|key| KEYS[key]);
        self.note(format!("look at held {which} ({name:?}) from {at}"));
        let held = &mut self.held[which];
        match read {
            Ok(length) => {
                let same = |bytes: &Vec<u8>| {
                    let from = bytes.get(at as usize..).unwrap_or_default();
                    from.get(..length) == Some(&piece[..length])
                        && (length == piece.len() || from.len() == length)
                };
                let kept: Vec<_> = held.may.iter().filter(|it| same(it)).cloned().collect();
                let holds = !kept.is_empty();
                if !kept.is_empty() {
                    held.may = kept;
                }
                self.right(
                    holds,
                    &format!("{length} bytes that are of none of its versions"),
                );
            }
            Err(error) => {
                let excused = held.lost || held.key.is_none();
                self.right(excused, &format!("held {which}: {error}"));
            }
        }
    }

    pub(super) async fn step(&mut self) {
        let key = self.draw.below(KEYS.len() as u64) as usize;
        let other = (key + 1 + self.draw.below(3) as usize) % KEYS.len();
        match self.draw.below(26) {
            0..3 => self.create(key).await,
            3..7 => self.change(key).await,
            7 => self.rename(key, other).await,
            8 => self.unlink(key).await,
            9..12 => self.read(key),
            12 => self.get(key).await,
            13..16 => self.put(key).await,
            16 => self.delete(key).await,
            17 => self.purge(key).await,
            18..20 => self.hold(key),
            20..23 => self.look(),
            23..25 => self.copy(key, other).await,
            _ => {
                self.note("let go".to_owned());
                if !self.held.is_empty() {
                    self.held.swap_remove(0);
                }
            }
        }
    }
}

fn all(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads until the piece is full or the file ends.
fn full(file: &File, piece: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut length = 0;
    loop {
        match file.read_at(&mut piece[length..], at + length as u64)? {
            0 => return Ok(length),
            read => length += read,
        }
    }
}
