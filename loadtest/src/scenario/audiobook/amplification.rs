//! The cost at the origin of a sequential read, and of one that ends early.
//!
//! A proxy between the peer and the origin counts the requests. This is a pass of its own, because
//! the proxy takes processor time that the timed passes need.

use anyhow::Result;

use super::{KEY, whole};
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::pattern::Pattern;
use crate::peers::Origin;
use crate::peers::tidegate::Settings;
use crate::reading::Reading;
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::tally::{RequestCounts, Tally};

/// The bytes after which the reader leaves.
const LEAVES_AFTER: u64 = 10_000_000;

/// Adds both figures to the report.
///
/// # Errors
/// If a peer answers wrong bytes.
pub(super) async fn measure(
    context: &Context,
    origin: &Origin,
    pattern: Pattern,
    report: &mut Report,
) -> Result<()> {
    if !context.takes_part("tidegate") {
        return Ok(());
    }
    progress("what the origin is asked");
    let (read, asked) = counted(context, origin, pattern, None).await?;
    let (left, asked_left) = counted(context, origin, pattern, Some(LEAVES_AFTER)).await?;
    let over = |asked: RequestCounts, read: u64| asked.bytes as f64 / read as f64;
    let row = |name: &str, asked: RequestCounts, read: u64| {
        let requests = (asked.get + asked.head + asked.list) as f64;
        vec![name.to_owned(), figure(over(asked, read)), figure(requests)]
    };
    report.table(
        "what tidegate asks the origin",
        &["reader", "fetched over read", "requests"],
        vec![
            row("to the end", asked, read),
            row("leaves after 10 MB", asked_left, left),
        ],
    );
    report.aim(
        "sequential, fetched over read",
        over(asked, read),
        Target::AtMost(1.01),
    );
    report.aim(
        "reader that leaves after 10 MB, fetched over read",
        over(asked_left, left),
        Target::AtMost(3.0),
    );
    Ok(())
}

/// Returns the bytes read, and all requests to the origin until they cease.
async fn counted(
    context: &Context,
    origin: &Origin,
    pattern: Pattern,
    leave_after: Option<u64>,
) -> Result<(u64, RequestCounts)> {
    let tally = Tally::start(origin.addr).await?;
    let behind = context.origin_behind(tally.addr());
    let peer = context.start("tidegate", &behind, Settings::STREAM).await?;
    let before = tally.asked();
    let read = if leave_after.is_some() {
        let mut connection = Connection::open(peer.addr()).await?;
        let path = peer.path(KEY);
        let mut reading = Reading::whole(&path, pattern);
        reading.leave_after = leave_after;
        reading.run(&mut connection).await?.bytes
    } else {
        whole(&peer, pattern).await?.bytes
    };
    Ok((read, tally.settled().await.since(before)))
}
