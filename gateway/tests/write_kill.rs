//! kill -9 during background commits and renames of folders: nothing that was promised is lost, and nothing is half there.
//!
//! The child is this very program, told by its environment to write objects into a real S3 (the
//! embedded one, which lives here and survives it) until it is killed. It reports each close that
//! has returned. Every reported object is in the bucket, whole, once the next process has published
//! the spool.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tidegate::embedded::EmbeddedOrigin;
use tidegate_engine::{OpenOptions, ReadContext};
use tidegate_origin::settings::Credentials;
use tidegate_origin::write::{OriginWrite, Write, WriteOutcome};
use tidegate_origin::{Answer, Get, List, Listing, Metrics, Origin, OriginError};
use tidegate_plan::{Bucket, ByteRange, ObjectKey, OriginId, Version};
use tidegate_write::{Commit, FolderRename, OpenMode, WriteError};

#[path = "support/writers.rs"]
mod writers;

use writers::{PART, start, start_over, terms};

const ROOM: u64 = 1 << 30;

const ROUNDS: usize = 50;

const SPOOL: &str = "WRITE_KILL_SPOOL";
const ENDPOINT: &str = "WRITE_KILL_ENDPOINT";
const SECRETS: &str = "WRITE_KILL_SECRETS";
const FROM: &str = "WRITE_KILL_FROM";

fn key(number: u64) -> ObjectKey {
    ObjectKey::new(&format!("folder/{number}")).expect("a key")
}

/// Returns the content of an object. Most are small; every eighth has several parts.
fn content(number: u64) -> Bytes {
    let length = if number % 8 == 7 {
        PART + 12_345
    } else {
        1000 + number * 77 % 50_000
    };
    let word = |at: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at).to_le_bytes();
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(word).collect();
    bytes.truncate(usize::try_from(length).expect("small"));
    bytes.into()
}

fn settings(endpoint: &str, secrets: &str) -> tidegate_origin::Settings {
    let (id, secret) = secrets.split_once(' ').expect("two words");
    let mut settings = tidegate_origin::Settings::new("embedded", "media");
    settings.endpoint = Some(endpoint.to_owned());
    settings.path_style = true;
    settings.credentials = Credentials::Static {
        access_key_id: id.to_owned(),
        secret_access_key: secret.to_owned(),
        session_token: None,
    };
    settings
}

#[tokio::test]
#[ignore = "the other test starts it, to kill it"]
async fn writes_until_it_is_killed() {
    let Some(spool) = std::env::var_os(SPOOL) else {
        return;
    };
    let variable = |name| std::env::var(name).expect("set");
    let settings = settings(&variable(ENDPOINT), &variable(SECRETS));
    let (_engine, source, writers) = start(Path::new(&spool), ROOM, &settings).await;
    let mut number: u64 = variable(FROM).parse().expect("a number");
    loop {
        let key = key(number);
        let open = |how| writers.open(&source, &key, how, Vec::new());
        // A new object is published under a condition, which its own object would violate.
        let writer = match open(OpenMode::CreateNew).await {
            Err(WriteError::Exists) => open(OpenMode::Create).await.expect("opened"),
            writer => writer.expect("opened"),
        };
        let mut rest = content(number);
        let mut offset = 0;
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(128 << 10));
            let length = piece.len() as u64;
            writer.write_at(offset, piece).await.expect("written");
            offset += length;
        }
        writer.commit(Commit::Background).await.expect("promised");
        println!("\nclosed {number}");
        number += 1;
    }
}

/// The folders between which objects are renamed.
const FOLDERS: [&str; 2] = ["one/", "two/"];

/// The objects of the renamed folder. Two of them were sent in parts.
const RENAMED: u64 = 16;

/// Returns which of [`FOLDERS`] has all objects, and checks that the other one has none.
async fn whole_folder(source: &ReadContext) -> usize {
    let mut found = Vec::new();
    for folder in FOLDERS {
        let list = List {
            prefix: folder.to_owned(),
            delimiter: false,
            after: None,
            limit: 1000,
        };
        let page = source.origin.list(list).await.expect("a page");
        found.push(page.objects.len() as u64);
    }
    let whole = found.iter().position(|count| *count == RENAMED);
    assert_eq!(found.iter().sum::<u64>(), RENAMED, "{found:?}");
    whole.unwrap_or_else(|| panic!("{found:?}"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the other test starts it, to kill it"]
async fn renames_until_it_is_killed() {
    let Some(spool) = std::env::var_os(SPOOL) else {
        return;
    };
    let variable = |name| std::env::var(name).expect("set");
    let settings = settings(&variable(ENDPOINT), &variable(SECRETS));
    let held: u64 = variable(FROM).parse().expect("a number");
    let origin = tidegate_origin::connect(&settings, &Metrics::default()).await;
    let origin = Arc::new(Holding {
        origin: origin.expect("valid settings"),
        changes: AtomicU64::new(0),
        held: AtomicU64::new(u64::MAX),
    });
    let (_engine, source, writers) = start_over(terms(Path::new(&spool), ROOM), origin.clone());
    // Ends the rename of the process before.
    writers.settled().await;
    let mut from = whole_folder(&source).await;
    if held > 0 {
        origin.hold(held);
    } else {
        // The steps at which it is killed, somewhere in a rename.
        tokio::spawn(async {
            for step in 0.. {
                println!("\nclosed {step}");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
    loop {
        let (old, new) = (FOLDERS[from], FOLDERS[1 - from]);
        let lock = writers.lock_folders(&source, [old, new]).await;
        let renamed = writers.rename_folder(&source, (old, new), 100, &lock);
        let renamed = renamed.await.expect("renamed");
        assert!(matches!(renamed, FolderRename::Copied(it) if it.left.is_none()));
        from = 1 - from;
    }
}

/// An origin that never answers one change, and reports it, so that the process is killed with a rename under way.
#[derive(Debug)]
struct Holding {
    origin: Arc<dyn Origin>,
    changes: AtomicU64,
    /// The number of the change, counted from 1.
    held: AtomicU64,
}

impl Holding {
    /// Holds the change that comes as number `held` from now on.
    fn hold(&self, held: u64) {
        self.held
            .store(self.changes.load(Ordering::SeqCst) + held, Ordering::SeqCst);
    }
}

impl OriginWrite for Holding {
    /// Of those with an even number, the bucket makes the change.
    fn write(&self, write: Write) -> BoxFuture<'_, Result<WriteOutcome, OriginError>> {
        let change = matches!(write, Write::Copy { .. } | Write::Delete { .. });
        let number = self.changes.fetch_add(u64::from(change), Ordering::SeqCst) + 1;
        Box::pin(async move {
            if !change || number != self.held.load(Ordering::SeqCst) {
                return self.origin.writing().write(write).await;
            }
            if number.is_multiple_of(2) {
                let made = self.origin.writing().write(write).await;
                made.expect("the bucket answers");
            }
            println!("\nclosed {number}");
            std::future::pending().await
        })
    }
}

impl Origin for Holding {
    fn id(&self) -> OriginId {
        self.origin.id()
    }

    fn bucket(&self) -> Bucket {
        self.origin.bucket()
    }

    fn get(&self, request: Get) -> BoxFuture<'_, Result<Answer, OriginError>> {
        self.origin.get(request)
    }

    fn head(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>> {
        self.origin.head(key)
    }

    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>> {
        self.origin.peek(key)
    }

    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>> {
        self.origin.list(request)
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>> {
        self.origin.probe()
    }
}

/// Runs a test as a child until it has closed `count` objects; returns the last number.
fn run_and_kill(
    test: &str,
    spool: &Path,
    (endpoint, secrets): (&str, &str),
    from: u64,
    count: usize,
) -> u64 {
    let program = std::env::current_exe().expect("known");
    let mut child = Command::new(program)
        .args([test, "--exact"])
        .args(["--include-ignored", "--nocapture"])
        .env(SPOOL, spool)
        .env(ENDPOINT, endpoint)
        .env(SECRETS, secrets)
        .env(FROM, from.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let closed = lines.map_while(Result::ok).filter_map(|line| {
        let number: u64 = line.strip_prefix("closed ")?.parse().ok()?;
        Some(number)
    });
    let last = closed.take(count).last().expect("at least one");
    child.kill().expect("runs still");
    child.wait().expect("ends");
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_closed_before_a_kill_is_in_the_bucket_in_the_end() {
    let (folder, spool) = (tempfile::tempdir(), tempfile::tempdir());
    let (folder, spool) = (folder.expect("a folder"), spool.expect("a folder"));
    let embedded = EmbeddedOrigin::start(folder.path()).await.expect("starts");
    let keys = embedded.credentials();
    let secrets = format!("{} {}", keys.access_key_id, keys.secret_access_key);
    let endpoint = embedded.endpoint();
    let (mut from, mut closed) = (0, Vec::new());
    for round in 0..ROUNDS {
        let (path, count) = (spool.path().to_owned(), 1 + round * 7 % 11);
        let (endpoint, secrets) = (endpoint.clone(), secrets.clone());
        let ran = tokio::task::spawn_blocking(move || {
            let test = "writes_until_it_is_killed";
            run_and_kill(test, &path, (&endpoint, &secrets), from, count)
        });
        let last = ran.await.expect("no panic");
        closed.extend(from..=last);
        // An object under way at the kill may be there, and is not written again.
        from = last + 2;
    }
    let settings = settings(&endpoint, &secrets);
    let (engine, source, writers) = start(spool.path(), ROOM, &settings).await;
    writers.settled().await;
    for number in closed {
        let first = OpenOptions {
            first: Some(tidegate_plan::RangeSpec::From(0)),
            ..OpenOptions::default()
        };
        let object = engine.open(&source, &key(number), first).await;
        let object = object.unwrap_or_else(|error| panic!("{number}: {error}"));
        let truth = content(number);
        assert_eq!(object.version().size, truth.len() as u64, "{number}");
        let mut reader = object.read_at(ByteRange::new(0, object.version().size));
        let mut at = 0;
        while let Some(piece) = reader.next().await {
            let piece = piece.expect("readable");
            assert!(truth[at..at + piece.len()] == piece, "{number} at {at}");
            at += piece.len();
        }
    }
    // An upload that has begun is unknown until the journal records it. A kill at that moment
    // leaves it to the bucket's lifecycle rules. There is at most one a kill.
    let mut left = usize::MAX;
    while left > ROUNDS {
        left = 0;
        for number in 0..from {
            let uploads = source.origin.writing().uploads(&key(number)).await;
            left += uploads.expect("a list").len();
        }
    }
    println!("{left} uploads that nobody knows of");
    assert_eq!(writers.spooled().0, 0);
}

/// Wherever a rename is killed, the next process ends it before anything else is done with the folder.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_whose_rename_was_killed_is_whole_under_one_name() {
    let (folder, spool) = (tempfile::tempdir(), tempfile::tempdir());
    let (folder, spool) = (folder.expect("a folder"), spool.expect("a folder"));
    let embedded = EmbeddedOrigin::start(folder.path()).await.expect("starts");
    let keys = embedded.credentials();
    let secrets = format!("{} {}", keys.access_key_id, keys.secret_access_key);
    let endpoint = embedded.endpoint();
    let settings = settings(&endpoint, &secrets);
    let object = |folder, number| ObjectKey::new(&format!("{folder}{number}")).expect("a key");
    {
        let own = tempfile::tempdir().expect("a folder");
        let (_engine, source, writers) = start(own.path(), ROOM, &settings).await;
        for number in 0..RENAMED {
            let key = object(FOLDERS[0], number);
            let writer = writers.open(&source, &key, OpenMode::Create, Vec::new());
            let writer = writer.await.expect("opened");
            writer.write_at(0, content(number)).await.expect("written");
            writer.commit(Commit::Close).await.expect("committed");
        }
    }
    let mut left = 0;
    for round in 0..ROUNDS / 2 {
        let path = spool.path().to_owned();
        // Every other one after some milliseconds. The others in a certain copy or deletion, of which a rename has two
        // an object; the last one may be the rename's end.
        let (held, count) = match round as u64 {
            round if round % 2 == 0 => (0, 1 + round as usize * 13 % 100),
            round => (1 + round * 5 % (2 * RENAMED - 1), 1),
        };
        let (endpoint, secrets) = (endpoint.clone(), secrets.clone());
        let ran = tokio::task::spawn_blocking(move || {
            let test = "renames_until_it_is_killed";
            run_and_kill(test, &path, (&endpoint, &secrets), held, count)
        });
        ran.await.expect("the folder is whole");
        let names = std::fs::read_dir(spool.path()).expect("readable");
        let names = names.map(|entry| entry.expect("readable").file_name());
        let mut names = names.map(|name| name.to_string_lossy().into_owned());
        let is_cut = names.any(|name| name.starts_with("rename-"));
        assert!(
            is_cut || held == 0,
            "no rename was under way at change {held}"
        );
        left += usize::from(is_cut);
    }
    println!("{left} of {} renames were cut", ROUNDS / 2);
    let (_engine, source, writers) = start(spool.path(), ROOM, &settings).await;
    writers.settled().await;
    let whole = FOLDERS[whole_folder(&source).await];
    for number in 0..RENAMED {
        let found = source.origin.head(&object(whole, number)).await;
        let size = found.expect("there").size;
        assert_eq!(size, content(number).len() as u64, "{number}");
    }
}
