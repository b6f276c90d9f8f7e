//! Recipe 1: the work of plugins in the folder of uploads, run by PHP with WordPress loaded.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use anyhow::{Context as _, Result};
use loadtest::wordpress::Media;

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn plugins_write_beside_pictures_lock_and_touch() -> Result<()> {
    let world = World::start().await;
    let editor = world.site.log_in()?;
    let media = editor.upload(&world.photo("photo.jpg", 1))?;
    work(&world, &media).await
}

/// Does the work of plugins around an upload of `photo.jpg`.
#[expect(clippy::too_many_lines, reason = "one story")]
pub(crate) async fn work(world: &World, media: &Media) -> Result<()> {
    let said = world.site.php(
        r#"
        $up = wp_upload_dir();
        $photo = $up['path'] . '/photo.jpg';
        // A converter's: a .webp beside each size, by way of a temporary file.
        foreach (glob($up['path'] . '/photo*.jpg') as $size) {
            $image = imagecreatefromjpeg($size);
            imagewebp($image, "$size.webp.tmp");
            rename("$size.webp.tmp", "$size.webp") or die('rename');
        }
        // A form's: a folder of its own that is closed to visitors.
        wp_mkdir_p($up['basedir'] . '/forms') or die('mkdir');
        file_put_contents($up['basedir'] . '/forms/index.php', "<?php // Silence is golden.\n");
        file_put_contents($up['basedir'] . '/forms/.htaccess', "Deny from all\n");
        chmod($up['basedir'] . '/forms/index.php', 0640) or die('chmod');
        touch($photo, 1700000000) or die('touch');
        clearstatcache();
        (fileperms($up['basedir'] . '/forms/index.php') & 07777) === 0640 or die('mode');
        filemtime($photo) === 1700000000 or die('mtime');
        // A cache's: a file that is locked, read, and written anew. Another PHP meanwhile does not get the lock.
        $file = $up['basedir'] . '/counter.txt';
        $other = function () use ($file) {
            $code = '$handle = fopen($argv[1], "c+") or die("open");'
                . 'echo flock($handle, LOCK_EX | LOCK_NB, $held) ? "got" : ($held ? "held" : "failed");';
            return exec(PHP_BINARY . ' -r ' . escapeshellarg($code) . ' ' . escapeshellarg($file));
        };
        for ($n = 0; $n < 5; $n++) {
            $handle = fopen($file, 'c+') or die('open');
            flock($handle, LOCK_EX) or die('flock');
            $other() === 'held' or die('two have the lock');
            $count = (int) stream_get_contents($handle);
            ftruncate($handle, 0);
            rewind($handle);
            fwrite($handle, (string) ($count + 1));
            fflush($handle);
            flock($handle, LOCK_UN);
            $other() === 'got' or die('it stays locked');
            fclose($handle);
        }
        // A log's: lines at the end.
        foreach (['one', 'two', 'three'] as $line) {
            file_put_contents($up['basedir'] . '/log.txt', "$line\n", FILE_APPEND | LOCK_EX);
        }
        // A builder's: CSS that is written, and copied.
        wp_mkdir_p($up['basedir'] . '/builder/css');
        file_put_contents($up['basedir'] . '/builder/css/post-1.css', 'body{}');
        copy($up['basedir'] . '/builder/css/post-1.css', $up['basedir'] . '/builder/css/post-2.css') or die('copy');
        // WP_Filesystem moves a file.
        WP_Filesystem();
        global $wp_filesystem;
        $wp_filesystem->move("$up[basedir]/builder/css/post-2.css", "$up[basedir]/builder/css/post-3.css", true) or die('move');
        $wp_filesystem->put_contents("$up[basedir]/builder/css/post-4.css", 'a{}') or die('put');
        unlink("$up[basedir]/builder/css/post-4.css") or die('unlink');
        echo file_get_contents($file), ' ', filesize($file);
        "#,
    )?;
    assert_eq!(said, "5 1");
    world.shows(&media.paths)?;
    let beside: Vec<_> = media
        .paths
        .iter()
        .map(|path| format!("{path}.webp"))
        .collect();
    world.shows(&beside)?;
    world.arrives(&beside).await?;
    let uploads = "/wp-content/uploads";
    let text = |name: &str| {
        let answer = world.visit(&format!("{uploads}/{name}"));
        (answer.status, answer.text())
    };
    assert_eq!(text("log.txt"), (200, "one\ntwo\nthree\n".to_owned()));
    assert_eq!(text("builder/css/post-3.css"), (200, "body{}".to_owned()));
    for gone in ["builder/css/post-2.css", "builder/css/post-4.css"] {
        assert_eq!(text(gone).0, 404, "{gone}");
    }
    // No visitor reads files that are meant for PHP and Apache.
    for hidden in ["forms/index.php", "forms/.htaccess"] {
        assert!(world.file(&format!("{uploads}/{hidden}")).is_file());
        assert_eq!(text(hidden).0, 404, "{hidden}");
    }
    world
        .arrives(&[format!("{uploads}/forms/.htaccess")])
        .await?;
    // What was set stays when the gateway has sent it.
    world.asked().await;
    let photo = media.paths.iter().find(|path| path.ends_with("/photo.jpg"));
    let photo = fs::metadata(world.file(photo.context("the original")?))?;
    let closed = fs::metadata(world.file(&format!("{uploads}/forms/index.php")))?;
    assert_eq!(
        (photo.mtime(), closed.mode() & 0o7777),
        (1_700_000_000, 0o640)
    );
    Ok(())
}

/// PHP's `rename` does not copy: if it fails, WordPress copies file by file.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_renamed() -> Result<()> {
    let world = World::start().await;
    let said = world.site.php(
        r#"
        $up = wp_upload_dir();
        wp_mkdir_p("$up[basedir]/old/deep");
        file_put_contents("$up[basedir]/old/deep/file.txt", 'here');
        rename("$up[basedir]/old", "$up[basedir]/new") or die('rename');
        WP_Filesystem();
        global $wp_filesystem;
        $wp_filesystem->move("$up[basedir]/new", "$up[basedir]/newer") or die('move');
        $wp_filesystem->move("$up[basedir]/newer", "$up[basedir]/new") or die('move back');
        echo 'renamed';
        "#,
    )?;
    assert_eq!(said, "renamed");
    let file = world.file("/wp-content/uploads/new/deep/file.txt");
    assert_eq!(fs::read_to_string(file)?, "here");
    assert!(!world.file("/wp-content/uploads/old").exists());
    assert_eq!(
        world.visit("/wp-content/uploads/new/deep/file.txt").text(),
        "here"
    );
    assert_eq!(
        world.visit("/wp-content/uploads/old/deep/file.txt").status,
        404
    );
    Ok(())
}
