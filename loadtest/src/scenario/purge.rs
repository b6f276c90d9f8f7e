//! Purges by `POST /purge` of the shipped binary, each durable before its answer: of 10,000 keys, of a prefix over a million
//! keys, of a tag over a tenth of them; and of 10,000 keys of which a kernel knows.
//!
//! The million lies in a bucket that has every key, and the gateway learns of each by a read.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bucket::endless::{BODY, EndlessBucket, TAG, TAGGED};
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::median;
use crate::peers::Peer;
use crate::peers::tidegate::{Home, Settings, StartState};
use crate::report::terminal::figure;
use crate::report::{Report, Target};

mod mounted;
pub(super) mod operator;

use operator::Operator;

/// The keys of one request.
const AT_ONCE: u64 = 10_000;
/// The targets: of that many keys, and of a prefix or a tag, in milliseconds.
const OF_KEYS: f64 = 1000.0;
const OF_ONE: f64 = 10.0;
/// The purges of each kind, of which the median counts.
const ROUNDS: u64 = 9;
/// The connections that read the keys at first.
const READERS: u64 = 64;
/// The keys that are looked at after a purge: it has reached them.
const LOOKED_AT: u64 = 100;

/// The time within which the bucket has been asked for them, and the interval between two looks.
const TIMEOUT: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(5);

const KINDS: [&str; 2] = ["soft", "hard"];

/// The keys that a gateway knows.
struct KnownKeys {
    peer: Peer,
    bucket: EndlessBucket,
    keys: u64,
}

/// The times of purges of one kind, in milliseconds.
struct Times {
    what: &'static str,
    kind: &'static str,
    target: f64,
    millis: Vec<f64>,
}

/// Purges a gateway that knows `--count` keys, and one with a mount of a hundredth of them, at most [`AT_ONCE`].
///
/// # Errors
/// If it could not be carried out, or a purge has not reached what it names.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("purge");
    let known = KnownKeys::start(context, &mut report).await?;
    let mut times = vec![];
    for kind in KINDS {
        times.push(known.keys(kind).await?);
    }
    for (what, names) in [
        ("a tag", json!({ "tags": [TAG] })),
        ("a prefix", json!({ "prefixes": ["/k/"] })),
    ] {
        for kind in KINDS {
            times.push(known.one(what, kind, &names).await?);
        }
    }
    write(&mut report, known.keys, &times);
    drop(known);
    mounted::run(context, &mut report).await?;
    Ok(report)
}

fn path(number: u64) -> String {
    format!("/k/{number:07}")
}

/// Returns the purge of these keys.
fn of_keys(keys: std::ops::Range<u64>) -> Value {
    let paths: Vec<_> = keys.map(path).collect();
    json!({ "paths": paths })
}

fn is_soft(mut names: Value, kind: &str) -> Value {
    names["soft"] = (kind == "soft").into();
    names
}

impl KnownKeys {
    /// Starts a gateway, and has it read every key once.
    async fn start(context: &Context, report: &mut Report) -> Result<Self> {
        let keys = context.count(1_000_000).max(AT_ONCE);
        let bucket = EndlessBucket::start().await?;
        let settings = Settings {
            // The metadata of all of them does not fit; their bytes need not stay.
            memory_mib: 64,
            profile: "ttl = \"1d\"\n",
            ..Settings::WEB
        };
        let dir = context.new_dir("purge-")?;
        let state = dir.join("state");
        // Each purge is durable before its answer, which a slow disk keeps waiting and must not fail.
        let mut home = Home::new(dir, context.origin_behind(bucket.addr()), settings).patient();
        home.state = Some(state);
        let peer = home.start(StartState::Listening).await?;
        report.peer("tidegate", peer.config());
        progress(format!("{keys} keys are read once"));
        let since = Instant::now();
        let readers =
            (0..READERS).map(|reader| read(&peer, (reader..keys).step_by(READERS as usize)));
        try_join_all(readers).await?;
        ensure!(bucket.asked() >= keys, "{} keys are known", bucket.asked());
        let took = since.elapsed().as_secs_f64();
        let note = format!("{keys} keys were read once in {took:.0} s");
        report.notes.push(note);
        Ok(Self { peer, bucket, keys })
    }

    /// Purges [`AT_ONCE`] keys at once, other ones each time as long as there are some.
    async fn keys(&self, kind: &'static str) -> Result<Times> {
        let mut operator = Operator::connect(&self.peer).await?;
        let mut millis = vec![];
        for round in 0..ROUNDS {
            let begin = round * AT_ONCE % (self.keys - AT_ONCE + 1);
            let keys = begin..begin + AT_ONCE;
            let purge = is_soft(of_keys(keys.clone()), kind);
            let (took, answer) = operator.purge(&purge).await?;
            ensure!(answer["purged"] == AT_ONCE, "{answer}");
            // A hard purge forgets them, and another round may name them again.
            let knows_all = kind == "hard" || answer["known"] == AT_ONCE;
            ensure!(knows_all, "{answer}");
            millis.push(took);
            self.look(keys).await?;
        }
        Ok(Times {
            what: "10,000 keys",
            kind,
            target: OF_KEYS,
            millis,
        })
    }

    /// Purges a prefix or a tag again and again. The first one finds all of it.
    async fn one(&self, what: &'static str, kind: &'static str, names: &Value) -> Result<Times> {
        let mut operator = Operator::connect(&self.peer).await?;
        let mut millis = vec![];
        for _ in 0..ROUNDS {
            let (took, answer) = operator.purge(&is_soft(names.clone(), kind)).await?;
            ensure!(answer["purged"] == 1, "{answer}");
            millis.push(took);
            self.look((0..self.keys).step_by(TAGGED as usize)).await?;
        }
        Ok(Times {
            what,
            kind,
            target: OF_ONE,
            millis,
        })
    }

    /// Reads the first keys of those that were purged: the bucket is asked for each of them, of a soft purge perhaps behind
    /// the answer.
    async fn look(&self, keys: impl Iterator<Item = u64>) -> Result<()> {
        let before = self.bucket.asked();
        read(&self.peer, keys.take(LOOKED_AT as usize)).await?;
        let since = Instant::now();
        loop {
            let asked = self.bucket.asked() - before;
            if asked >= LOOKED_AT {
                return Ok(());
            }
            ensure!(
                since.elapsed() < TIMEOUT,
                "{asked} of {LOOKED_AT} keys were purged"
            );
            sleep(POLL).await;
        }
    }
}

/// Reads keys one after the other.
async fn read(peer: &Peer, keys: impl Iterator<Item = u64>) -> Result<()> {
    let mut connection = Connection::open(peer.addr()).await?;
    for number in keys {
        let (answer, _) = connection.get(&path(number), &[]).await?;
        let status = answer.head.status;
        ensure!(status == 200 && answer.body == BODY, "{number}: {status}");
    }
    Ok(())
}

fn write(report: &mut Report, keys: u64, times: &[Times]) {
    let mut rows = vec![];
    for one in times {
        let Times {
            what,
            kind,
            target,
            millis,
        } = one;
        let most = millis.iter().copied().fold(0.0, f64::max);
        let found = median(millis).unwrap_or(f64::NAN);
        let figures = [millis[0], found, most].map(figure);
        let name = format!("{what}, {kind}");
        rows.push([name.clone()].into_iter().chain(figures).collect());
        report.aim(
            format!("purge of {name}, ms"),
            found,
            Target::AtMost(*target),
        );
    }
    let title = format!(
        "purges by POST of a gateway that knows {keys} keys, {} of them with the tag, ms",
        keys.div_ceil(TAGGED)
    );
    report.table(title, &["purge of", "first", "p50", "most"], rows);
}
