//! Purges of keys, of a prefix and of a tag of which the kernel of a mount knows, and the same ones before it does.
//!
//! A purge returns when the kernel has forgotten what it covers: its part is the difference. What the kernel shows is looked
//! at behind each hard one.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::operator::Operator;
use super::{AT_ONCE, KINDS, LOOKED_AT, OF_KEYS, OF_ONE, is_soft};
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::median;
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::mounts::Mount;
use crate::peers::tidegate::{Home, Settings};
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::slow_disk::need_root;

/// The purges of each kind with and without the kernel, of which the median counts.
const ROUNDS: u64 = 3;
/// The length of a file at first. Each purge follows a change of some of them by which they grow.
const LEN: u64 = 100;
/// The tag of all of them.
const TAG: &str = "mounted";

/// A mount, and the files that its gateway knows.
struct Mounted {
    mount: Mount,
    count: u64,
    /// The changes so far.
    changes: u64,
}

/// The times of purges of one kind, in milliseconds.
#[derive(Default)]
struct KernelTimes {
    /// Of the request, while the kernel knows nothing.
    without: Vec<f64>,
    /// Of the request, while it knows all files.
    with: Vec<f64>,
    /// From the answer until every changed file that is looked at has shown its new size.
    shown: Vec<f64>,
}

/// Measures the kernel's part of purges.
pub(super) async fn run(context: &Context, report: &mut Report) -> Result<()> {
    if let Err(error) = need_root("mounting") {
        report
            .notes
            .push(format!("the purge with a mount is left out: {error:#}"));
        return Ok(());
    }
    let mut mounted = Mounted::start(context).await?;
    let (count, config) = (mounted.count, mounted.mount.config());
    report.peer("tidegate with a mount", config);
    let mut rows = vec![];
    for (what, names, target) in [
        ("its keys", json!({ "paths": mounted.paths() }), OF_KEYS),
        ("their prefix", json!({ "prefixes": ["/mounted/"] }), OF_ONE),
        ("their tag", json!({ "tags": [TAG] }), OF_ONE),
    ] {
        for kind in KINDS {
            let times = mounted
                .times(context, &is_soft(names.clone(), kind))
                .await?;
            let KernelTimes {
                without,
                with,
                shown,
            } = &times;
            let [without, with, shown] = [without, with, shown].map(|all| median(all));
            let without = without.unwrap_or(f64::NAN);
            let with = with.unwrap_or(f64::NAN);
            let shown = shown.map_or_else(|| "–".to_owned(), figure);
            let name = format!("{what}, {kind}");
            let check =
                format!("purge of {count} keys beside a mount whose kernel knows none, {name}, ms");
            report.aim(check, without, Target::AtMost(target));
            let figures = [without, with, with - without].map(figure);
            let row = [name].into_iter().chain(figures).chain([shown]);
            rows.push(row.collect());
        }
    }
    let title = format!("purges of {count} keys beside a mount, p50 of {ROUNDS}, ms");
    let columns = [
        "purge of",
        "the kernel knows none",
        "it knows all",
        "its part",
        "then to the new sizes of some",
    ];
    report.table(title, &columns, rows);
    Ok(())
}

fn key(n: u64) -> String {
    format!("mounted/{n:05}")
}

/// Writes the first files at this length, each with the tag.
async fn put_all(context: &Context, count: u64, len: u64) -> Result<()> {
    let object = |n| (key(n), Pattern { seed: n, len });
    let objects = (0..count).map(object);
    context.bucket.put_all_tagged(TAG, objects).await
}

impl Mounted {
    async fn start(context: &Context) -> Result<Self> {
        let count = (context.count(100 * AT_ONCE) / 100).clamp(1, AT_ONCE);
        progress(format!("{count} files of a mount"));
        put_all(context, count, LEN).await?;
        let settings = Settings {
            profile: "ttl = \"1d\"\n",
            ..Settings::WEB
        };
        let dir = context.new_dir("purge-mounted-")?;
        let state = dir.join("state");
        let mut home = Home::new(dir, context.origin(), settings).patient();
        home.state = Some(state);
        Ok(Self {
            mount: Mount::tidegate(&home).await?,
            count,
            changes: 0,
        })
    }

    fn paths(&self) -> Vec<String> {
        (0..self.count).map(|n| format!("/{}", key(n))).collect()
    }

    /// Purges with and without the kernel's knowledge, in turn.
    async fn times(&mut self, context: &Context, purge: &Value) -> Result<KernelTimes> {
        let mut found = KernelTimes::default();
        let peer = self.mount.gateway().context("it is ours")?;
        let mut operator = Operator::connect(peer).await?;
        let paths = self.paths();
        let files: Vec<_> = (0..self.count).map(|n| self.mount.file(&key(n))).collect();
        for _ in 0..ROUNDS {
            read_all(peer, &paths).await?;
            found.without.push(operator.purge(purge).await?.0);
            read_all(peer, &paths).await?;
            let known = files.clone();
            tokio::task::spawn_blocking(move || know_all(&known)).await??;
            self.changes += 1;
            let (changed, len) = (self.count.min(LOOKED_AT), LEN + self.changes);
            put_all(context, changed, len).await?;
            found.with.push(operator.purge(purge).await?.0);
            // A soft one has the old version served while it is confirmed.
            if purge["soft"] == false {
                let changed = files[..changed as usize].to_vec();
                // Names have no tags: they show the size that the folder's listing had, until a file is read.
                let by_tag = purge.get("tags").is_some();
                let looked = move || show(&changed, len, by_tag);
                found
                    .shown
                    .push(tokio::task::spawn_blocking(looked).await??);
            }
        }
        Ok(found)
    }
}

/// Has the gateway know every key, and no kernel.
async fn read_all(peer: &Peer, paths: &[String]) -> Result<()> {
    let mut connection = Connection::open(peer.addr()).await?;
    for path in paths {
        let (answer, _) = connection.get(path, &[]).await?;
        ensure!(answer.head.status == 200, "{path}: {}", answer.head.status);
    }
    Ok(())
}

/// Has the kernel know every file with its bytes.
fn know_all(files: &[PathBuf]) -> Result<()> {
    for file in files {
        let bytes = std::fs::read(file)?;
        ensure!(bytes.len() as u64 >= LEN, "{}", file.display());
    }
    Ok(())
}

/// Looks at files that were purged, and reads them: the first look of each must show the new size; `by_tag`: the first read
/// must. Returns the milliseconds that this takes, most of which are the bucket's.
fn show(files: &[PathBuf], len: u64, by_tag: bool) -> Result<f64> {
    let since = Instant::now();
    for file in files {
        let name = file.display();
        if !by_tag {
            let shown = file.metadata()?.len();
            ensure!(
                shown == len,
                "{name}: the kernel shows {shown} of {len} bytes"
            );
        }
        let bytes = std::fs::read(file)?.len() as u64;
        ensure!(bytes == len, "{name}: {bytes} bytes are read of {len}");
    }
    Ok(since.elapsed().as_secs_f64() * 1e3)
}
