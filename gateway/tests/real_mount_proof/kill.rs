//! kill -9 during background commits: a file whose close has returned is in the bucket in the end, whole.
//!
//! A `tidegate serve` of its own is killed at a moment drawn from a seed, while two writers make and overwrite files
//! through its mount. Then it starts again over its spool.
//!
//! `TIDEGATE_KILLS` sets the number of kills, `TIDEGATE_SEED` their moments.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use http::Method;
use tempfile::TempDir;
use tidegate_origin::Settings;

use crate::bucket::Bucket;
use crate::desk::{PART, is_mounted, stored, until};
use crate::draw::Draw;
use crate::gateway::ask;
use crate::minio::Minio;
use crate::mount::{Folder, blocking, origin};
use crate::ports::free_addr;
use crate::{close, count};

/// Number of names, so small that most files overwrite an earlier one.
const NAMES: u64 = 60;

fn name(number: u64) -> String {
    format!("f/{}", number * 7 % NAMES)
}

/// Returns the content of a file by its number. Most are small; every twentieth has several parts.
fn content(number: u64) -> Vec<u8> {
    let length = match number % 20 {
        19 => PART as u64 + 12_345,
        _ => 1 + number * 7919 % 300_000,
    };
    let word = |at: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at).to_le_bytes();
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(word).collect();
    bytes.truncate(usize::try_from(length).expect("small"));
    bytes
}

/// A step of a writer.
enum Step {
    /// It is about to write this file.
    Begins(u64),
    /// It made a call for it.
    Went,
    /// The close has returned.
    Closed(u64),
}

/// Writes files until a call fails, as it does once the process is dead.
fn write_on(folder: &Path, mut number: u64, stride: u64, told: &Sender<Step>) {
    let write = |number: u64| -> std::io::Result<()> {
        let path = folder.join(name(number));
        // As `cp` does: a file that must be new is published under a condition, which its own object would violate.
        let mut file = match File::create_new(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => File::create(&path)?,
            file => file?,
        };
        for piece in content(number).chunks(64 << 10) {
            file.write_all(piece)?;
            let _ = told.send(Step::Went);
        }
        close(file)
    };
    loop {
        let _ = told.send(Step::Begins(number));
        if write(number).is_err() {
            return;
        }
        let _ = told.send(Step::Closed(number));
        number += stride;
    }
}

/// The possible objects under a name: the one closed last, or one begun after it.
#[derive(Default)]
struct May {
    closed: Option<u64>,
    begun: Vec<u64>,
}

#[derive(Default)]
struct Truth(BTreeMap<String, May>);

impl Truth {
    fn note(&mut self, step: &Step) {
        match *step {
            Step::Begins(number) => self.0.entry(name(number)).or_default().begun.push(number),
            Step::Closed(number) => {
                let may = self.0.get_mut(&name(number)).expect("it was begun");
                may.closed = Some(number);
                may.begun.clear();
            }
            Step::Went => {}
        }
    }
}

impl May {
    fn be(&self, bytes: Option<&[u8]>) -> bool {
        let numbers = || self.closed.iter().chain(&self.begun);
        match bytes {
            Some(bytes) => numbers().any(|&number| bytes == content(number)),
            None => self.closed.is_none(),
        }
    }
}

/// A gateway's configuration, and the state that outlives a kill.
pub(crate) struct House {
    config: PathBuf,
    pub(crate) folder: Folder,
    /// The public listener.
    pub(crate) http: SocketAddr,
    admin: String,
    home: TempDir,
}

impl House {
    pub(crate) fn build(settings: &Settings) -> Self {
        let (folder, home) = (Folder::new(), tempfile::tempdir().expect("a folder"));
        let (http, admin) = (free_addr(), free_addr().to_string());
        let origin =
            origin(settings).replace("[admin]\n", &format!("[admin]\nlisten = \"{admin}\"\n"));
        let toml = format!(
            "{origin}[http]\nlisten = \"{http}\"\n\
             [[mount]]\npath = \"{}\"\nwritable = true\ncommit = \"background\"\n\
             [spool]\npath = \"{}\"\n",
            folder.path().display(),
            home.path().join("spool").display()
        );
        let config = home.path().join("tidegate.toml");
        std::fs::write(&config, toml).expect("written");
        Self {
            config,
            folder,
            http,
            admin,
            home,
        }
    }

    /// Returns the folder of the spool.
    pub(crate) fn spool(&self) -> PathBuf {
        self.home.path().join("spool")
    }

    /// Starts the gateway and waits until it is mounted.
    pub(crate) async fn open(&self) -> Child {
        let log = self.home.path().join("log");
        let log = File::options().append(true).create(true).open(log);
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["serve", "--config"]).arg(&self.config);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(log.expect("a log")).spawn();
        let path = self.folder.path();
        // The mount of the killed process is in the table until the next one has cleared it away.
        until("it is mounted", async || {
            let path = path.clone();
            let there = blocking(move || rustix::fs::statvfs(&path).is_ok()).await;
            // The table is read after that: before it, the dead mount may be in the table while the folder below it
            // answers.
            there && is_mounted(&self.folder.path())
        })
        .await;
        child.expect("tidegate")
    }

    pub(crate) async fn pending(&self) -> String {
        let admin = self.admin.parse().expect("an address");
        ask(admin, Method::GET, "/pending", &[]).await.text()
    }
}

/// Lets writers write, and kills the gateway after `calls` of their calls.
fn kill_amid(mut child: Child, folder: &Path, from: u64, calls: u64, truth: &mut Truth) -> u64 {
    let (tell, told): (_, Receiver<Step>) = channel();
    let mut last = from;
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let tell = tell.clone();
            scope.spawn(move || write_on(folder, from + writer, 2, &tell));
        }
        drop(tell);
        let mut seen = 0;
        for step in told {
            truth.note(&step);
            if let Step::Begins(number) = step {
                last = last.max(number);
            }
            seen += 1;
            if seen == calls {
                child.kill().expect("it runs still");
                child.wait().expect("it is gone");
            }
        }
        assert!(seen >= calls, "the writers ended by themselves");
    });
    last + 1
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_closed_before_a_kill_arrives() {
    let minio = Minio::start().await;
    let bucket = Bucket::create(&minio.settings("media")).await;
    bucket.put("f/", "").await;
    let house = House::build(&minio.settings("media"));
    let (mut draw, mut truth) = (Draw::new(count("TIDEGATE_SEED", 1)), Truth::default());
    let kills = count("TIDEGATE_KILLS", 5);
    let mut from = 0;
    for _ in 0..kills {
        let child = house.open().await;
        let (folder, calls) = (house.folder.path(), 20 + draw.below(600));
        (from, truth) = blocking(move || {
            let from = kill_amid(child, &folder, from, calls, &mut truth);
            (from, truth)
        })
        .await;
    }
    let mut child = house.open().await;
    until("nothing is pending", async || {
        house.pending().await.contains("\"pending\":[]")
    })
    .await;
    for (name, may) in &truth.0 {
        let bytes = stored(&bucket, name).await;
        let size = bytes.as_ref().map(Vec::len);
        let (closed, begun) = (may.closed, &may.begun);
        assert!(
            may.be(bytes.as_deref()),
            "{name}: {size:?} bytes, which are neither file {closed:?} nor one of {begun:?}"
        );
        let path = house.folder.path().join(name);
        let read = blocking(move || std::fs::read(path).ok()).await;
        assert!(read == bytes, "{name} on the mount");
    }
    println!("{from} files closed or begun, {kills} kills: all that was closed is there");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("told");
    let ended = blocking(move || child.wait().expect("it ends")).await;
    assert!(ended.success(), "{ended}");
}
