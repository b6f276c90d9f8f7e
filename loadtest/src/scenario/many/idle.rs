//! Idle connections: the memory that each costs a server which keeps it alive.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::ProcessTree;
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::Settings;
use crate::report::terminal::figure;
use crate::report::{Report, Target};

/// The object that each connection reads once.
const PICTURE: Pattern = Pattern {
    seed: 0x1d1e,
    len: 35_000,
};
const KEY: &str = "idle-picture";

/// The most bytes that an idle connection may cost.
const MOST: f64 = 10_240.0;

/// Opens connections to each peer, reads an object over each, and leaves them open.
pub(super) async fn connections(context: &Context, report: &mut Report, count: u64) -> Result<()> {
    context.bucket.put_all([(KEY.to_owned(), PICTURE)]).await?;
    std::fs::write(context.files()?.join(KEY), PICTURE.all())?;
    let mut rows = vec![];
    for name in context.peers(&["tidegate", "nginx", "bare"]) {
        let origin = context.origin();
        // As many connections as `cache.budget` allows, and their first tenth.
        let settings = Settings {
            budget_mib: 512,
            ..Settings::WEB
        };
        let Some(peer) = context
            .start_if_there(name, &origin, settings, report)
            .await?
        else {
            continue;
        };
        let each = one(&peer, count).await?;
        progress(format!("{name}: {each:.0} bytes an idle connection"));
        rows.push(vec![name.to_owned(), figure(each)]);
        if name == "tidegate" {
            let what = format!("{count} idle connections: bytes of memory each");
            report.aim(what, each, Target::AtMost(MOST));
        }
    }
    let title = format!("{count} idle connections, each after one answer of 35 KB");
    report.table(title, &["peer", "bytes of memory each"], rows);
    Ok(())
}

/// Returns the bytes of resident memory that each connection has added.
async fn one(peer: &Peer, count: u64) -> Result<f64> {
    let pid = peer.pid().context("a process of its own")?;
    let (process, path) = (ProcessTree::new(pid), peer.path(KEY));
    // What the first ones cost once is not theirs.
    let mut open = opened(peer, &path, count / 10).await?;
    let before = resident(process, &mut open, &path).await?;
    open.extend(opened(peer, &path, count).await?);
    let after = resident(process, &mut open, &path).await?;
    for connection in open.iter_mut().step_by(97) {
        ensure!(connection.is_open(), "{} closed an idle one", peer.name());
        connection.verify(&path, PICTURE).await?;
    }
    Ok((after as f64 - before as f64) / count as f64)
}

/// Returns the memory of a server once its connections are idle, but for a few clients that go on: an allocator gives
/// pages back while it is used.
async fn resident(process: ProcessTree, open: &mut [Connection], path: &str) -> Result<u64> {
    tokio::time::sleep(IDLE).await;
    for _ in 0..ROUNDS {
        tokio::time::sleep(PAUSE).await;
        for connection in open.iter_mut().take(BUSY) {
            connection.get(path, &[]).await?;
        }
    }
    process.resident_of_all()
}

/// The time after which a connection counts as idle: shorter than any peer's timeout.
const IDLE: Duration = Duration::from_secs(15);

/// Opens connections, and asks once over each.
async fn opened(peer: &Peer, path: &str, count: u64) -> Result<Vec<Connection>> {
    let one = async |_| {
        let mut connection = Connection::open(peer.addr()).await?;
        let (answer, _) = connection.get(path, &[]).await?;
        ensure!(answer.body.len() as u64 == PICTURE.len, "too short");
        Ok(connection)
    };
    let all = stream::iter(0..count).map(one).buffer_unordered(AT_ONCE);
    all.try_collect().await
}

/// The clients that go on, their rounds, and the pause before each.
const BUSY: usize = 64;
const ROUNDS: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Connections that are opened at once.
const AT_ONCE: usize = 64;
