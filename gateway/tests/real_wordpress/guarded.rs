//! Recipe 1: paths that nginx treats apart, and what browsers may keep of the others.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use anyhow::{Context as _, Result, ensure};
use loadtest::wordpress::recipe::{self, Home};
use loadtest::wordpress::{Answer, Places, Web, open_to_others};
use tempfile::TempDir;

use crate::world::{World, until};

/// A page of a plugin that hands a file out: nginx is told which.
const HANDS_OUT: &str = "<?php\nheader( 'Content-Type: application/zip' );\n\
    header( 'Cache-Control: no-store, private' );\n\
    header( 'X-Accel-Redirect: /wp-content/uploads/' . $_GET['file'] );\n";

/// Files in folders that plugins close, of the first site and of another one of a network.
const CLOSED: [&str; 5] = [
    "woocommerce_uploads/2026/11/book.zip",
    "edd/2026/11/song.zip",
    "wc-logs/fatal-errors.log",
    "elementor/forms/letter.zip",
    "sites/2/woocommerce_uploads/book.zip",
];

/// Writes a file below uploads.
fn write(world: &World, path: &str, text: &str) -> Result<()> {
    let file = world.site.places.uploads().join(path);
    fs::create_dir_all(file.parent().context("a folder")?)?;
    Ok(fs::write(file, text)?)
}

fn status(world: &World, path: &str) -> u16 {
    world.visit(&format!("/wp-content/uploads/{path}")).status
}

/// Returns the answer to a request for a part, once the gateway knows that the object is in the bucket: of a draft it
/// answers the whole.
async fn part(world: &World, page: &str, range: &str) -> Result<Answer> {
    let ask = || world.site.curl().run(page, &["-r", range]);
    until(async || ask().is_ok_and(|answer| answer.status == 206)).await?;
    ask()
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_that_plugins_close_are_had_through_php_alone() -> Result<()> {
    let world = World::start().await;
    fs::write(world.site.places.root.join("hands-out.php"), HANDS_OUT)?;
    for path in CLOSED {
        write(&world, path, "0123456789")?;
        ensure!(status(&world, path) == 404, "{path} is public");
        ensure!(status(&world, &format!("/{path}")) == 404, "//{path}");
        let page = format!("/hands-out.php?file={path}");
        let whole = world.visit(&page);
        ensure!((whole.status, &*whole.text()) == (200, "0123456789"));
        let range = part(&world, &page, "2-4").await?;
        ensure!(range.text() == "234", "{path}");
        for answer in [whole, range] {
            ensure!(!answer.head.contains("public"), "{}", answer.head);
            ensure!(answer.head.contains("no-store"), "{}", answer.head);
        }
    }
    // A name that only begins alike is a folder like others; the plugin closes all but what it shows itself.
    for open in [
        "edda/page.txt",
        "edd/2026/11/cover.jpg",
        "edd/2026/11/sample.mp3",
    ] {
        write(&world, open, "text")?;
        ensure!(status(&world, open) == 200, "{open}");
    }
    write(&world, "edd/cover.jpg.zip", "sold")?;
    ensure!(status(&world, "edd/cover.jpg.zip") == 404);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_are_refused_and_odd_paths_answered() -> Result<()> {
    let world = World::start().await;
    for name in ["a.php", "b.PHP", "c.phtml", "d.pHp5", "e.phar", ".htaccess"] {
        write(&world, name, "<?php echo 'run';")?;
        ensure!(status(&world, name) == 404, "{name}");
    }
    write(&world, "2026/11/früh stück 日本.txt", "0123456789")?;
    let path = "/wp-content/uploads/2026/11/fr%C3%BCh%20st%C3%BCck%20%E6%97%A5%E6%9C%AC.txt";
    let whole = world.visit(path);
    ensure!((whole.status, &*whole.text()) == (200, "0123456789"));
    let range = part(&world, path, "-3").await?;
    ensure!(range.text() == "789");
    ensure!(range.header("content-range") == Some("bytes 7-9/10"));
    ensure!(status(&world, "") == 404, "a folder is no page");
    let bare = world.visit("/wp-content/uploads");
    let to = bare.header("location").unwrap_or_default();
    ensure!(bare.status == 301 && to.ends_with("/wp-content/uploads/"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_asks_again_soon_and_gets_what_replaced_the_picture() -> Result<()> {
    let world = World::start().await;
    let path = "/wp-content/uploads/2026/11/photo.txt";
    write(&world, "2026/11/photo.txt", "old")?;
    // A validator comes with the commit.
    let tag = |answer: &Answer| answer.header("etag").map(str::to_owned);
    until(async || tag(&world.visit(path)).is_some()).await?;
    let first = world.visit(path);
    ensure!(first.header("cache-control") == Some("public, max-age=300"));
    let condition = format!("If-None-Match: {}", tag(&first).context("a tag")?);
    let again = || world.site.curl().run(path, &["-H", &condition]);
    ensure!(again()?.status == 304);
    write(&world, "2026/11/photo.txt", "new")?;
    let seen = again()?;
    ensure!((seen.status, &*seen.text()) == (200, "new"));
    let renewed =
        async || tag(&world.visit(path)) != tag(&first) && tag(&world.visit(path)).is_some();
    until(renewed).await?;
    let seen = again()?;
    ensure!((seen.status, &*seen.text()) == (200, "new"));
    Ok(())
}

/// Connections to the socket of a socket unit whose gateway does not run.
#[tokio::test(flavor = "multi_thread")]
async fn a_visitor_does_not_wait_long_for_a_gateway_that_is_dead() -> Result<()> {
    let dir = TempDir::with_prefix("tidegate-wp-")?;
    let places = Places::lay_out(&dir.path().join("site"))?;
    let home = Home::make(dir.path().join("gateway"))?;
    let _queue = UnixListener::bind(home.socket())?;
    // nginx' workers are another user.
    fs::set_permissions(home.socket(), fs::Permissions::from_mode(0o666))?;
    open_to_others(&home.dir)?;
    for name in ["wordpress-mount.conf", "wordpress-offload.conf"] {
        let http = recipe::nginx(name, &home, &places)?;
        let short = [(
            "proxy_read_timeout 40s;",
            "proxy_read_timeout 1s;".to_owned(),
        )];
        let web = Web::start(&places, &recipe::replaced(&http, &short)?)?;
        for host in ["www.example.org", "media.example.org"] {
            let host = format!("Host: {host}");
            let path = "/wp-content/uploads/photo.jpg";
            let answer = web.curl().run(path, &["-H", &host])?;
            ensure!(answer.status == 504, "{name} {host}: {}", answer.status);
        }
    }
    Ok(())
}
