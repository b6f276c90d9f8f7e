//! The mount against a model: files are created, changed, cut, copied, renamed, removed and read on it, some held open
//! meanwhile, and objects are put and deleted behind its back. Reads return only states that SEMANTICS allows.
//!
//! The model keeps the states of each key that a reader may see: the bucket's current one, and the earlier ones since
//! the mount last had to ask. An answer is one of them, whole. After a write through the mount only the written state
//! remains.
//!
//! `TIDEGATE_MODEL_SEEDS` sets the number of sequences, `TIDEGATE_SEED` the first.

use std::fs::File;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::count;
use crate::desk::{Desk, LONG, PART};
use crate::draw::Draw;

#[path = "model/steps.rs"]
mod steps;

const KEYS: [&str; 4] = ["a", "b", "d/one", "d/two"];

const STEPS: u64 = 100;

/// The state of a key: bytes, or nothing.
type Is = Option<Vec<u8>>;

/// A file that is held open to be read.
struct Held {
    file: File,
    /// Its present name; `None` once it has none.
    key: Option<usize>,
    /// The versions that it may turn out to be on.
    may: Vec<Vec<u8>>,
    /// A write through the mount came while this was open, so it reads the written bytes.
    follows: bool,
    /// The object was changed elsewhere: bytes that are not cached are gone.
    lost: bool,
}

struct Model {
    desk: Desk,
    draw: Draw,
    /// Whether names and versions are remembered; otherwise each open asks the bucket.
    remembers: bool,
    /// The states that a reader may see of each key; the last one is the bucket's.
    may: [Vec<Is>; KEYS.len()],
    held: Vec<Held>,
    log: Vec<String>,
}

impl Model {
    async fn new(seed: u64, remembers: bool) -> Self {
        let ttl = if remembers { "1h" } else { "0s" };
        let sections = format!(
            "[[route]]\norigin = \"o\"\nprofile = \"p\"\n\
             [profile.p]\nextends = \"backup\"\nttl = \"{ttl}\"\nnegative_ttl = \"{ttl}\"\n"
        );
        let desk = Desk::with("", &sections).await;
        desk.bucket.put("d/", "").await;
        Self {
            desk,
            draw: Draw::new(seed),
            remembers,
            may: std::array::from_fn(|_| vec![None]),
            held: Vec::new(),
            log: vec![format!("seed {seed}, remembers {remembers}")],
        }
    }

    fn note(&mut self, what: String) {
        self.log.push(what);
    }

    /// Returns bytes that were never there before.
    fn bytes(&mut self) -> Vec<u8> {
        let longest = match self.draw.below(12) {
            0 => PART as u64 + 300_000,
            1 | 2 => 5000,
            _ => 700_000,
        };
        let (length, salt) = (self.draw.below(longest), self.draw.below(u64::MAX));
        let word = |at: u64| (at + 1).wrapping_mul(salt | 1).to_le_bytes();
        let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(word).collect();
        bytes.truncate(usize::try_from(length).expect("small"));
        bytes
    }

    fn path(&self, key: usize) -> PathBuf {
        self.desk.path(KEYS[key])
    }

    fn now(&self, key: usize) -> &Is {
        self.may[key].last().expect("never empty")
    }

    /// Returns whether a reader may see more than one state.
    fn unsure(&self, key: usize) -> bool {
        self.may[key].len() > 1
    }

    /// Records that a reader saw this state of a key; earlier states may not be seen again.
    fn seen(&mut self, key: usize, found: Is, how: &str) {
        let at = self.may[key].iter().position(|it| *it == found);
        let Some(at) = at else {
            let sizes: Vec<_> = self.may[key].iter().map(size).collect();
            let (log, found) = (self.log.join("\n"), size(&found));
            panic!("{log}\n{how} of {}: {found}, none of {sizes:?}", KEYS[key]);
        };
        // An open for writing joins the held draft of a file that was written here, and goes on from it.
        if !self.held.iter().any(|it| it.key == Some(key) && it.follows) {
            self.may[key].drain(..at);
        }
    }

    fn right(&self, holds: bool, what: &str) {
        assert!(holds, "{}\n{what}", self.log.join("\n"));
    }

    /// Waits until no write is pending. Files that are held open are listed as well, as `open`.
    async fn settle(&self) {
        let begun = Instant::now();
        loop {
            let text = self.desk.mounted.gateway.look("/pending").await.text();
            let list: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let mut all = list["pending"].as_array().expect("a list").iter();
            let held = |key: &str| {
                self.held
                    .iter()
                    .any(|it| it.key.is_some_and(|at| KEYS[at] == key))
            };
            if all.all(|one| one["stage"] == "open" && held(one["key"].as_str().expect("text"))) {
                return;
            }
            self.right(begun.elapsed() < LONG, &text);
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Records a write through the mount.
    async fn wrote(&mut self, key: usize, bytes: Is) {
        let stored = self.desk.stored(KEYS[key]).await;
        self.right(
            stored == bytes,
            &format!("the bucket has {}", size(&stored)),
        );
        if let Some(bytes) = &bytes {
            for held in self.held.iter_mut().filter(|it| it.key == Some(key)) {
                // A handle on a version that is gone may have stayed on it: it sees one of both.
                if !held.lost {
                    held.may.clear();
                }
                held.may.push(bytes.clone());
                held.follows = true;
            }
        }
        self.may[key] = vec![bytes];
    }

    /// Records a change elsewhere.
    fn changed(&mut self, key: usize, to: Is) {
        let mut followed = false;
        for held in self.held.iter_mut().filter(|it| it.key == Some(key)) {
            held.lost = true;
            followed |= held.follows;
        }
        if !self.remembers && !followed {
            self.may[key].clear();
        }
        self.may[key].push(to);
    }

    /// Checks that a call on the file was allowed to fail.
    fn failed(&mut self, key: usize, error: &std::io::Error) {
        self.note(format!("  {error}"));
        match error.kind() {
            ErrorKind::NotFound => self.right(self.may[key].contains(&None), "it is there"),
            _ => self.right(self.unsure(key), &format!("an error of {}", KEYS[key])),
        }
    }

    /// Purges, and checks with no open files that readers see the present state of every key.
    async fn end(mut self) {
        self.held.clear();
        self.settle().await;
        for (key, name) in KEYS.into_iter().enumerate() {
            self.purge(key).await;
            self.read(key);
            self.get(key).await;
            let stored = self.desk.stored(name).await;
            self.right(
                stored == *self.now(key),
                "the bucket is not as it should be",
            );
        }
        self.desk.stop().await;
    }
}

fn size(it: &Is) -> String {
    it.as_ref()
        .map_or("nothing".to_owned(), |it| format!("{} bytes", it.len()))
}

async fn sequences(remembers: bool) {
    let first = count("TIDEGATE_SEED", 1);
    for seed in first..first + count("TIDEGATE_MODEL_SEEDS", 3) {
        let mut model = Model::new(seed, remembers).await;
        for _ in 0..STEPS {
            model.step().await;
        }
        model.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_each_open_asks_the_bucket() {
    sequences(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_versions_are_remembered() {
    sequences(true).await;
}
