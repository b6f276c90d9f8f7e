//! Recipe 1: all sizes of all photos made anew, as `wp media regenerate` does.

use std::fs;

use anyhow::{Result, ensure};
use loadtest::wordpress::photos;

use crate::world::World;

/// Photos, where `TIDEGATE_PHOTOS` says no other figure; `just long-wordpress` has 500.
const PHOTOS: usize = 20;

/// Makes all sizes of the attachments called `again` with one quality, and prints how many.
fn regenerate(world: &World, quality: u8) -> Result<String> {
    world.site.php(&format!(
        "add_filter('wp_editor_set_quality', function () {{ return {quality}; }});\n$done = 0;\n\
         foreach (get_posts(['post_type' => 'attachment', 'numberposts' => -1, 'fields' => 'ids', \
         's' => 'again']) as $id) {{\n\
         $made = wp_generate_attachment_metadata($id, get_attached_file($id));\n\
         count($made['sizes']) >= 3 or die(\"$id has few sizes\");\n\
         wp_update_attachment_metadata($id, $made);\n$done++;\n}}\necho $done;"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_that_are_made_anew_are_seen_at_once() -> Result<()> {
    let asked = std::env::var("TIDEGATE_PHOTOS").map(|text| text.parse());
    let count: usize = asked.unwrap_or(Ok(PHOTOS))?;
    let world = World::start().await;
    let source = world.site.places.dir.join("source.jpg");
    photos::photo(&source, (1024, 768), 1)?;
    let said = world.site.php(&format!(
        "$up = wp_upload_dir();\nfor ($n = 0; $n < {count}; $n++) {{\n\
         $file = \"$up[path]/again-$n.jpg\";\ncopy('{}', $file) or die('copy');\n\
         wp_insert_attachment(['post_mime_type' => 'image/jpeg', 'post_title' => \"again $n\", \
         'post_status' => 'inherit'], $file) or die('insert');\n}}\necho $up['path'];",
        source.display()
    ))?;
    ensure!(regenerate(&world, 90)? == count.to_string(), "not all");
    let below =
        |name: String| format!("{}/{name}", &said[said.find("/wp-content/").unwrap_or(0)..]);
    let names = fs::read_dir(&said)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
    let names: Vec<_> = names
        .filter_map(|name: Result<_>| name.transpose())
        .collect::<Result<_>>()?;
    let paths: Vec<_> = names.into_iter().map(below).collect();
    ensure!(paths.len() >= 4 * count, "few files: {paths:?}");
    let sizes: Vec<_> = paths.iter().filter(|path| path.contains('x')).collect();
    ensure!(sizes.len() == paths.len() - count, "{sizes:?}");
    let before: Vec<_> = sizes.iter().map(|path| world.visit(path).body).collect();
    world.arrives(&paths).await?;
    ensure!(regenerate(&world, 40)? == count.to_string(), "not all");
    world.shows(&paths)?;
    for (path, before) in sizes.iter().zip(before) {
        ensure!(world.visit(path).body != before, "{path}: as it was before");
    }
    world.arrives(&paths).await
}
