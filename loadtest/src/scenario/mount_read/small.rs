//! 512 KiB in reads of 4 KiB, the first and the second time, without the kernel's pages.

use anyhow::Result;

use super::{OURS, mounted};
use crate::context::{Context, progress};
use crate::file::{PAGES, sequence};
use crate::measure::{median, median_ratio};
use crate::pattern::Pattern;
use crate::peers::Origin;
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::slow_disk::drop_file_cache;

const LEN: u64 = 512 * 1024;
const OBJECTS: u64 = 10;
/// The mounts, others with their caches if they have one.
const ALL: [&str; 4] = [OURS, "mountpoint-s3-cache", "geesefs", "rclone-full"];

pub(super) async fn run(context: &Context, origin: &Origin, report: &mut Report) -> Result<()> {
    progress("512 KiB in steps of 4 KiB");
    let objects: Vec<_> = (0..OBJECTS)
        .map(|seed| (format!("small/{seed:04}"), Pattern { seed, len: LEN }))
        .collect();
    context.bucket.put_all(objects.clone()).await?;
    let mut rows = vec![];
    for name in ALL {
        let Some(mount) = mounted(context, name, origin, report).await? else {
            continue;
        };
        let mut times = [vec![], vec![]];
        for (pass, times) in ["first", "second"].iter().zip(&mut times) {
            drop_file_cache()?;
            for (key, pattern) in &objects {
                let flow = sequence(mount.file(key), *pattern, PAGES).await?;
                times.push(flow.total.as_secs_f64() * 1e3);
            }
            let measure = format!("512 KiB in steps of 4 KiB, {pass}, ms");
            report.series(name, &measure, times);
        }
        let [first, second] = &times;
        let ratio = median_ratio(first, second).unwrap_or(f64::NAN);
        if name == OURS {
            let figure = "512 KiB in steps of 4 KiB: first time over second";
            report.aim(figure, ratio, Target::AtLeast(14.0));
        }
        let medians = [first, second].map(|times| median(times).unwrap_or(f64::NAN));
        let cells = medians.into_iter().chain([ratio]).map(figure);
        rows.push([name.to_owned()].into_iter().chain(cells).collect());
    }
    let title = "512 KiB in steps of 4 KiB, page cache dropped before each pass";
    let columns = ["mount", "first, ms", "second, ms", "first over second"];
    report.table(title, &columns, rows);
    Ok(())
}
