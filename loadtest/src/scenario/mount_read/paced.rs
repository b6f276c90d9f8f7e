//! A reader at 90 MB/s while connections to the origin pause in turn.

use std::time::Duration;

use anyhow::Result;

use super::{KEY, home};
use crate::context::{Context, progress};
use crate::file::{DD, Sequence, sequence};
use crate::pattern::Pattern;
use crate::pausing_proxy::{self, PausingProxy};
use crate::peers::mounts::Mount;
use crate::report::{Report, Target};

/// The pace of a copied film in its best quality.
const PACE: f64 = 90e6;
const SETTLED: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_millis(100);

pub(super) async fn run(context: &Context, pattern: Pattern, report: &mut Report) -> Result<()> {
    context.bucket.put(KEY, pattern.all()).await?;
    let pausing = PausingProxy::start(context.origin().addr, context.options.seed).await?;
    report.peer("pausing origin", pausing_proxy::CONFIG);
    let origin = context.origin_behind(pausing.addr());
    let mount = Mount::tidegate(&home(context, &origin)?).await?;
    let how = Sequence {
        pace: Some(PACE),
        ..DD
    };
    let flow = sequence(mount.file(KEY), pattern, how).await?;
    let gaps = flow.gaps(LONG, SETTLED);
    progress(format!("paced: {:.0} MB/s, {gaps} waits", flow.rate()));
    let figure = "paced at 90 MB/s: waits over 100 ms after the first 3 s";
    report.aim(figure, gaps as f64, Target::AtMost(0.0));
    Ok(())
}
