//! Recipe 1 while the bucket or the gateway is down.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::world::{LONG, World, until};

/// Number of sizes that WordPress makes of a photo, with the original.
const SIZES: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_outlives_a_bucket_that_is_down() -> Result<()> {
    let mut world = World::start().await;
    let editor = world.site.log_in()?;
    editor.upload(&world.photo("first.jpg", 1))?;
    // From now on the month's folder was there before the gateway, which has listed it once.
    world.gateway.kill()?;
    world.gateway.restart()?;
    editor.upload(&world.photo("before.jpg", 3))?;
    let photo = world.photo("second.jpg", 2);
    world.door.shut();
    let media = editor.upload(&photo)?;
    assert!(media.paths.len() >= SIZES, "{:?}", media.paths);
    // Visitors see it while it is in the spool alone.
    world.shows(&media.paths)?;
    let seen = world.visit(&media.paths[0]);
    assert_eq!(
        (seen.header("etag"), seen.header("cache-control")),
        (None, Some("no-cache"))
    );
    // The next process serves it as well, and it arrives.
    world.gateway.kill()?;
    world.gateway.restart()?;
    assert_eq!(world.visit(&media.paths[0]).body, seen.body);
    world.door.open();
    world.is_well(&media, SIZES).await
}

#[tokio::test(flavor = "multi_thread")]
async fn with_close_an_upload_fails_in_time_and_leaves_nothing() -> Result<()> {
    let close = |toml: String| {
        assert!(toml.contains("commit = \"background\""));
        toml.replace(
            "commit = \"background\"",
            "commit = \"close\"\nprobe = \"1s\"\ndeadline = \"5s\"",
        )
    };
    let world = World::with(close).await;
    let editor = world.site.log_in()?;
    let media = editor.upload(&world.photo("first.jpg", 1))?;
    world.is_well(&media, SIZES).await?;
    let photo = world.photo("second.jpg", 2);
    world.door.shut();
    // The bucket's last answers count for that long.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let since = Instant::now();
    let answer = editor.try_upload(&photo)?;
    let took = since.elapsed();
    let said = answer.text();
    assert!(
        said.contains("\"success\":false") && said.contains("message"),
        "{said}"
    );
    assert!(took < LONG, "{took:?}");
    // Earlier files are still served.
    world.shows(&media.paths)?;
    world.door.open();
    // Visitors see nothing of it; a plain retry succeeds as soon as the bucket is asked again.
    let mut again = None;
    until(async || {
        again = editor.upload(&photo).ok();
        again.is_some()
    })
    .await?;
    let media = again.expect("uploaded");
    assert!(media.paths[0].contains("/second"), "{:?}", media.paths);
    world.is_well(&media, SIZES).await?;
    let keys: Vec<_> = world.bucket.list("uploads/").await?;
    for (key, size) in keys {
        assert!(size > 0 || key.ends_with('/'), "{key} is half of something");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_gateway_nothing_is_written_and_pages_go_on() -> Result<()> {
    let mut world = World::start().await;
    let editor = world.site.log_in()?;
    let media = editor.upload(&world.photo("first.jpg", 1))?;
    let photo = world.photo("second.jpg", 2);
    for killed in [true, false] {
        match killed {
            true => world.gateway.kill()?,
            // An orderly unmount: programs see the folder below.
            false => world.gateway.stop(),
        }
        let said = editor.try_upload(&photo)?.text();
        assert!(said.contains("\"success\":false"), "{said}");
        assert_eq!(world.visit("/").status, 200, "a page");
        assert_eq!(world.visit(&media.paths[0]).status, 502, "an image");
        if !killed {
            let below = fs::read_dir(world.site.places.uploads())?.count();
            assert_eq!(below, 0, "files beneath the mount point");
        }
        world.gateway.restart()?;
        world.shows(&media.paths)?;
        world.is_well(&editor.upload(&photo)?, SIZES).await?;
    }
    Ok(())
}
