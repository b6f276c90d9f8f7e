//! All sizes of all photos regenerated, as by `wp media regenerate`.

use std::time::Instant;

use anyhow::Result;

use super::sites::{Kind, Stage};
use super::uploads::Photos;
use crate::context::progress;
use crate::report::terminal::figure;
use crate::report::{Report, Target};

/// Puts `count` copies of a photo into each site's media library, and makes their sizes.
pub(super) fn run(
    stages: &[Stage],
    photos: &[Photos; 2],
    count: u64,
    report: &mut Report,
) -> Result<()> {
    let mut rows = vec![];
    let (mut local, mut ours, mut rclone) = (None, None, None);
    for stage in stages {
        progress(format!("{count} photos anew, {}", stage.kind.name()));
        stage.site.fill(&photos[0].files[0], count)?;
        let since = Instant::now();
        stage.site.regenerate(count, 4, None)?;
        let seconds = since.elapsed().as_secs_f64();
        match stage.kind {
            Kind::Local => local = Some(seconds),
            Kind::Background => ours = Some(seconds),
            Kind::Rclone => rclone = Some(seconds),
            Kind::Close => {}
        }
        let over = local.map_or(f64::NAN, |local| seconds / local);
        rows.push(vec![
            stage.kind.name().to_owned(),
            figure(seconds),
            figure(over),
        ]);
        if matches!(stage.kind, Kind::Background) && local.is_some() {
            let what = format!("{count} photos regenerated, over a local folder");
            report.aim(what, over, Target::AtMost(1.3));
        }
    }
    if let (Some(ours), Some(rclone)) = (ours, rclone) {
        let what = format!("{count} photos regenerated, over an rclone mount");
        report.aim(what, ours / rclone, Target::AtMost(1.0));
    }
    let columns = ["uploads", "s", "over local"];
    report.table(
        format!("{count} photos of 2 megapixels, all sizes anew"),
        &columns,
        rows,
    );
    Ok(())
}
