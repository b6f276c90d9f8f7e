//! Recipe 1: all sizes of all photos made anew, as by `wp media regenerate`.

use std::fs;

use anyhow::{Result, ensure};
use loadtest::wordpress::photos;

use crate::world::World;

/// Number of photos, unless `TIDEGATE_PHOTOS` says otherwise; `just long-wordpress` has 500.
const PHOTOS: u64 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn sizes_that_are_made_anew_are_seen_at_once() -> Result<()> {
    let asked = std::env::var("TIDEGATE_PHOTOS").map(|text| text.parse());
    let count: u64 = asked.unwrap_or(Ok(PHOTOS))?;
    let world = World::start().await;
    let source = world.source("photo.jpg");
    photos::photo(&source, (1024, 768), 1)?;
    let folder = world.site.fill(&source, count)?;
    world.site.regenerate(count, 3, Some(90))?;
    let below = |name: String| {
        format!(
            "{}/{name}",
            &folder[folder.find("/wp-content/").unwrap_or(0)..]
        )
    };
    let names = fs::read_dir(&folder)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
    let names: Vec<_> = names
        .filter_map(|name: Result<_>| name.transpose())
        .collect::<Result<_>>()?;
    let paths: Vec<_> = names.into_iter().map(below).collect();
    let photos = usize::try_from(count)?;
    ensure!(paths.len() >= 4 * photos, "few files: {paths:?}");
    let sizes: Vec<_> = paths.iter().filter(|path| path.contains('x')).collect();
    ensure!(sizes.len() == paths.len() - photos, "{sizes:?}");
    let before: Vec<_> = sizes.iter().map(|path| world.visit(path).body).collect();
    world.arrives(&paths).await?;
    world.site.regenerate(count, 3, Some(40))?;
    world.shows(&paths)?;
    for (path, before) in sizes.iter().zip(before) {
        ensure!(world.visit(path).body != before, "{path}: as it was before");
    }
    world.arrives(&paths).await
}
