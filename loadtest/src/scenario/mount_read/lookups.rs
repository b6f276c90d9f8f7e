//! The requests to the origin before a file ten folders deep is open.

use std::fs::File;
use std::path::PathBuf;

use anyhow::Result;

use super::{OURS, mounted};
use crate::context::{Context, progress};
use crate::pattern::Pattern;
use crate::report::{Report, Target};
use crate::tally::{RequestCounts, Tally};

const FOLDER: &str = "deep/b/c/d/e/f/g/h/i/j";
/// The number of names: ten folders, and the file in the last of them.
const NAMES: f64 = 11.0;
const ALL: [&str; 4] = [OURS, "mountpoint-s3", "geesefs", "rclone"];

pub(super) async fn run(context: &Context, report: &mut Report) -> Result<()> {
    progress("look-ups ten folders deep");
    let object = |seed| (format!("{FOLDER}/{seed:03}.jpg"), Pattern { seed, len: 9 });
    context.bucket.put_all((0..100).map(object)).await?;
    let mut rows = vec![];
    for name in ALL {
        let tally = Tally::start(context.origin().addr).await?;
        let origin = context.origin_behind(tally.addr());
        let Some(mount) = mounted(context, name, &origin, report).await? else {
            continue;
        };
        let cases = [
            ("unknown", 10, 2.0 * NAMES),
            ("its folders known", 50, 2.0),
            ("warm", 10, 0.0),
        ];
        for (case, seed, most) in cases {
            let asked = open(&tally, mount.file(&object(seed).0)).await?;
            let sum = asked.requests();
            if name == OURS {
                let figure = format!("requests to open a file ten folders deep, {case}");
                report.must(figure, sum as f64, Target::AtMost(most));
            }
            let counts = [asked.get, asked.head, asked.list, sum].map(|count| count.to_string());
            let row = [name.to_owned(), case.to_owned()];
            rows.push(row.into_iter().chain(counts).collect());
        }
    }
    let title = "requests to open a file ten folders deep (11 names)";
    let columns = ["mount", "case", "GET", "HEAD", "LIST", "in all"];
    report.table(title, &columns, rows);
    Ok(())
}

/// Opens a file, and counts all requests until they cease.
async fn open(tally: &Tally, path: PathBuf) -> Result<RequestCounts> {
    let before = tally.settled().await;
    let file = tokio::task::spawn_blocking(move || File::open(path)).await??;
    let asked = tally.settled().await.since(before);
    drop(file);
    Ok(asked)
}
