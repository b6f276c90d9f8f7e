//! All sizes of all photos made anew, as `wp media regenerate` does.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::sites::{Kind, Stage};
use super::uploads::Photos;
use crate::context::progress;
use crate::report::terminal::figure;
use crate::report::{Report, Target};

/// Puts `count` copies of a photo into the media library of each site, and has their sizes made.
pub(super) fn run(
    stages: &[Stage],
    photos: &[Photos; 2],
    count: u64,
    report: &mut Report,
) -> Result<()> {
    let mut rows = vec![];
    let mut local = None;
    for stage in stages {
        progress(format!("{count} photos anew, {}", stage.kind.name()));
        fill(stage, &photos[0].files[0], count)?;
        let seconds = regenerate(stage, count)?;
        if stage.kind == Kind::Local {
            local = Some(seconds);
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
    let columns = ["uploads", "s", "over local"];
    report.table(
        format!("{count} photos of 2 megapixels, all sizes anew"),
        &columns,
        rows,
    );
    Ok(())
}

fn fill(stage: &Stage, photo: &Path, count: u64) -> Result<()> {
    let source = stage.site.places.dir.join("source.jpg");
    std::fs::copy(photo, &source)?;
    let said = stage.site.php(&format!(
        "$up = wp_upload_dir();\nfor ($n = 0; $n < {count}; $n++) {{\n\
         $file = \"$up[path]/again-$n.jpg\";\ncopy('{}', $file) or die('copy');\n\
         wp_insert_attachment(['post_mime_type' => 'image/jpeg', 'post_title' => \"again $n\", \
         'post_status' => 'inherit'], $file) or die('insert');\n}}\necho 'done';",
        source.display()
    ))?;
    ensure!(said == "done", "{said}");
    Ok(())
}

fn regenerate(stage: &Stage, count: u64) -> Result<f64> {
    let since = Instant::now();
    let said = stage.site.php(
        "$done = 0;\nforeach (get_posts(['post_type' => 'attachment', 'numberposts' => -1, \
         'fields' => 'ids', 's' => 'again']) as $id) {\n\
         $made = wp_generate_attachment_metadata($id, get_attached_file($id));\n\
         count($made['sizes']) >= 4 or die(\"$id has few sizes\");\n\
         wp_update_attachment_metadata($id, $made);\n$done++;\n}\necho $done;",
    )?;
    let took = since.elapsed().as_secs_f64();
    let done: u64 = said.parse().with_context(|| said.clone())?;
    ensure!(done == count, "{done} photos were made anew");
    Ok(took)
}
