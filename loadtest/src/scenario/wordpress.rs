//! A real WordPress whose uploads are a mount. An upload's time is compared with a local folder and
//! an rclone mount; its requests and the waits of visitors are measured too. So is the time to
//! regenerate all sizes of all photos. The bucket is the simulated cloud.

use anyhow::{Context as _, Result};

use crate::context::{Context, progress};
use crate::peers::cloud;
use crate::report::{Report, Target};

mod pages;
mod regenerate;
mod running_server;
mod sites;
mod uploads;

use sites::{Kind, Stage};

/// The photos of each size uploaded to each site in a full run.
const PHOTOS: u64 = 20;

/// Uploads `--count` photos of 2 and of 12 megapixels, loads pages, and regenerates 25 times as
/// many photos.
///
/// # Errors
/// If it could not be carried out, or a picture differs from the written one.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("wordpress");
    report.peer("cloud", cloud::CONFIG);
    let count = context.count(PHOTOS);
    let mut stages = vec![];
    for kind in Kind::ALL {
        if !context.takes_part(kind.name()) {
            continue;
        }
        progress(format!("a site: {}", kind.name()));
        match Stage::start(context, kind).await {
            Ok(stage) => {
                report.peer(kind.name(), stage.config());
                stages.push(stage);
            }
            Err(error) if kind == Kind::Rclone => {
                report.notes.push(format!("rclone left out: {error:#}"));
            }
            Err(error) => return Err(error).context(kind.name()),
        }
    }
    let photos = uploads::photos(context.dir(), count)?;
    let uploaded = uploads::run(&stages, &photos).await?;
    uploaded.judge(&mut report);
    pages::run(context, &mut stages, count, &mut report).await?;
    regenerate::run(&stages, &photos, count * 25, &mut report)?;
    let complaints: Vec<_> = stages.iter().filter_map(Stage::complaint).collect();
    report.must(
        "gateways that complain",
        complaints.len() as f64,
        Target::AtMost(0.0),
    );
    report.notes.extend(complaints);
    Ok(report)
}
