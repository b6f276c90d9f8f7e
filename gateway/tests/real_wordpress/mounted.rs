//! Recipe 1: the daily work of an editor.

use anyhow::{Context as _, Result};
use loadtest::wordpress::photos::{self, LARGE};
use loadtest::wordpress::{Edit, as_php_user, must, recipe};

use crate::world::World;

/// Number of sizes that WordPress makes of a photo, with the original.
const SIZES: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn pictures_and_documents_are_uploaded_and_seen() -> Result<()> {
    let world = World::start().await;
    let editor = world.site.log_in()?;
    let photo = world.photo("photo.jpg", 1);
    world.is_well(&editor.upload(&photo)?, SIZES).await?;
    world
        .is_well(&editor.upload_rest(&photo, "image/jpeg")?, SIZES)
        .await?;
    // Larger than WordPress shows: it makes a scaled one beside the original.
    let large = world.source("large.jpg");
    photos::photo(&large, LARGE, 2)?;
    world.is_well(&editor.upload(&large)?, SIZES + 1).await?;
    // The document's preview is a picture in several sizes.
    let document = world.source("document.pdf");
    photos::document(&document)?;
    world.is_well(&editor.upload(&document)?, 3).await?;
    Ok(())
}

/// Runs the command of the shipped unit that makes the folders of future months.
pub(crate) fn make_the_months(world: &World) -> Result<()> {
    let unit = recipe::read("systemd/wordpress/wordpress-month.service")?;
    let says = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key));
    let folder = says("WorkingDirectory=/var/www/wordpress/").context("a folder")?;
    let command = says("ExecStart=/bin/sh -c '").context("a command")?;
    let command = command.strip_suffix('\'').context("quoted")?;
    let mut shell = as_php_user("/bin/sh");
    shell.args(["-c", &command.replace("%%", "%")]);
    must(shell.current_dir(world.site.places.root.join(folder))).map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_edited_and_deleted_is_seen_at_once() -> Result<()> {
    let world = World::start().await;
    let editor = world.site.log_in()?;
    let photo = world.photo("photo.jpg", 1);
    let media = editor.upload(&photo)?;
    world.shows(&media.paths)?;
    let edits = [Edit::Rotate(90), Edit::Crop(10, 10, 400, 300)];
    let edited = editor.edit(&media, &edits)?;
    assert_ne!(edited, media.paths);
    world.shows(&edited)?;
    world.arrives(&edited).await?;
    editor.delete(media.id)?;
    for path in media.paths.iter().chain(&edited) {
        assert_eq!(world.visit(path).status, 404, "{path}");
        assert!(!world.file(path).exists(), "{path}");
    }
    // The name is free again, and earlier answers about it are forgotten at once.
    let again = world.photo("photo.jpg", 7);
    let media = editor.upload(&again)?;
    assert!(media.paths[0].contains("photo"), "{:?}", media.paths);
    world.is_well(&media, SIZES).await
}
