//! Instructions of the binary for a hit, on the open route and by each way in.
//!
//! They cover all of a request's work outside the kernel, from the wake-up of a worker to `writev`. One client makes one
//! request after the other over one connection.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::ways::{self, OPEN, Way};
use super::{KEY, LEN, Signer, check_refusals, home};
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::callgrind::{self, Calls};
use crate::measure::median;
use crate::pattern::Pattern;
use crate::peers::tidegate::{StartState, binary};
use crate::peers::{Peer, bare};
use crate::report::{Report, Target};
use crate::ways::Ways;

/// The instructions of a hit on the open route when they were last judged. A change that makes a hit cheaper, or dearer for
/// a good reason, writes the new number.
const ON_RECORD: f64 = 21_500.0;

/// The same for the profile `release`, which `.ci/run` measures: its link optimises nothing across crates.
const ON_RECORD_RELEASE: f64 = 26_850.0;

/// The difference from the number on record that passes, either way: more than what two starts differ by (0.01) and what a
/// thread adds that sleeps once more on a busy machine. A hit that has become cheaper gets a new number too; else the next one
/// could be dearer unseen.
const RECORD_MARGIN: f64 = 1.05;

/// The most allocations of a hit. Ten are made.
const MAX_ALLOCATIONS: f64 = 10.9;

/// The most reads of a clock. Three are ours: the beginning of the request, that of its answer, and the time of day by which
/// the version is judged. hyper dates the answer by one, tokio reads the clock six times to sleep between two requests, more
/// often on a busy machine, and jemalloc at one request in three.
const MAX_CLOCK_READS: f64 = 13.0;

/// The batches of requests by each way. The first one meets what is new; the median is not one of those in which the gateway
/// looked at itself, as it does each second.
const BATCHES: u64 = 15;

/// The requests of a batch: they take a tenth of a second.
const REQUESTS: u64 = 100;

/// The floor: hyper with the bytes in memory, and nothing else.
const BARE: &str = "a bare handler";

/// The header fields of a typical browser.
const BROWSER: [(&str, &str); 4] = [
    (
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    ),
    (
        "accept",
        "image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5",
    ),
    ("accept-language", "en-GB,en;q=0.5"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
];

/// Counts the instructions of hits.
///
/// # Errors
/// If Valgrind is missing, it could not be carried out, or an answer is wrong.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("instructions");
    let pattern = Pattern {
        seed: context.options.seed ^ LEN,
        len: LEN,
    };
    context.bucket.put(KEY, pattern.all()).await?;
    let signer = Signer::new()?;
    let home = home(context, &signer)?.under_callgrind();
    progress("the gateway starts under callgrind");
    let peer = home.start(StartState::Ready).await?;
    report.peer(peer.name(), peer.config());
    let ways = ways::all(&signer, &peer).await?;
    check_refusals(&peer, &ways).await?;
    let open = ways.iter().find(|way| way.name == OPEN);
    let open = open.context("there is an open route")?;
    let mut found = Ways::new("instructions a request");
    let batches = context.count(BATCHES);
    for way in &ways {
        found.add(way.name, count(&peer, way, pattern, batches).await?);
    }
    if cfg!(debug_assertions) {
        let note = "the bare handler is left out: this load test is not optimised";
        report.notes.push(note.to_owned());
    } else {
        found.add(BARE, count_bare(context, open, pattern).await?);
    }
    found.write(&mut report, "hits of 35 KB, outside the kernel");
    let found = found.median(OPEN).unwrap_or(f64::NAN);
    let on_record = match binary()?.parent() {
        Some(folder) if folder.ends_with("release") => ON_RECORD_RELEASE,
        _ => ON_RECORD,
    };
    let [allocations, clock_reads] = count_calls(&peer, &home.dir, open, pattern, batches).await?;
    for (calls, found, most) in [
        ("allocations of a hit", allocations, MAX_ALLOCATIONS),
        ("reads of a clock of a hit", clock_reads, MAX_CLOCK_READS),
    ] {
        report.must(calls, found, Target::AtMost(most));
        // A binary without symbols has no functions.
        report.must(calls, found, Target::AtLeast(1.0));
    }
    let over = format!("instructions of a hit over the {on_record} on record");
    let bounds = [
        Target::AtMost(RECORD_MARGIN),
        Target::AtLeast(1.0 / RECORD_MARGIN),
    ];
    for bound in bounds {
        report.must(&over, found / on_record, bound);
    }
    Ok(report)
}

/// Returns the instructions of one request to the bare handler.
async fn count_bare(context: &Context, way: &Way, pattern: Pattern) -> Result<f64> {
    let (dir, files) = (context.new_dir("bare-")?, context.files()?);
    std::fs::write(files.join(KEY), pattern.all())?;
    let bare = bare::start_under_callgrind(&dir, &files)?;
    count(&bare, way, pattern, context.count(BATCHES)).await
}

/// Returns the instructions of one request.
async fn count(peer: &Peer, way: &Way, pattern: Pattern, batches: u64) -> Result<f64> {
    let pid = peer.pid().context("a process")?;
    let mut connection = Connection::open(peer.addr()).await?;
    let mut found = vec![];
    let mut before = callgrind::instructions(pid)?;
    for _ in 0..batches {
        request_all(&mut connection, way, pattern).await?;
        let after = callgrind::instructions(pid)?;
        found.push((after - before) as f64 / REQUESTS as f64);
        before = after;
    }
    median(&found).context("no batch")
}

/// Makes the requests of a batch.
async fn request_all(connection: &mut Connection, way: &Way, pattern: Pattern) -> Result<()> {
    let headers: Vec<_> = BROWSER.into_iter().chain(way.header()).collect();
    for _ in 0..REQUESTS {
        connection
            .verify_with(&way.target, &headers, pattern)
            .await?;
    }
    Ok(())
}

/// Returns the allocations and the reads of a clock of one request.
async fn count_calls(
    peer: &Peer,
    dir: &Path,
    way: &Way,
    pattern: Pattern,
    batches: u64,
) -> Result<[f64; 2]> {
    let pid = peer.pid().context("a process")?;
    let mut connection = Connection::open(peer.addr()).await?;
    let mut found = [vec![], vec![]];
    Calls::take(pid, dir)?;
    for _ in 0..batches {
        request_all(&mut connection, way, pattern).await?;
        let calls = Calls::take(pid, dir)?;
        for (found, is_it) in found.iter_mut().zip([is_allocation, is_clock_read]) {
            found.push(calls.of(is_it) as f64 / REQUESTS as f64);
        }
    }
    Ok(found.map(|found| median(&found).unwrap_or(f64::NAN)))
}

fn is_allocation(function: &str) -> bool {
    [
        "malloc",
        "calloc",
        "mallocx",
        "realloc",
        "rallocx",
        "aligned_alloc",
    ]
    .iter()
    .any(|name| function.strip_prefix("_rjem_") == Some(name))
}

fn is_clock_read(function: &str) -> bool {
    function.starts_with("clock_gettime")
}
