//! Inode numbers, by which Audiobookshelf finds a moved book (`server/scanner/LibraryScanner.js`).

use anyhow::{Result, ensure};

use crate::compare::numbers;
use crate::media;
use crate::shelf::{AUDIOBOOKSHELF, Shelf};

const BOOKS: &str = "
    mkdir -p 'Ann/One' 'Ann/Two'
    for n in 1 2 3; do cp \"$given/$n.mp3\" 'Ann/One'; cp \"$given/$n.mp3\" 'Ann/Two'; done";

/// Has the kernel forget every name that no program holds.
fn forget() -> Result<()> {
    Ok(std::fs::write("/proc/sys/vm/drop_caches", "2")?)
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_follow_books_over_renames_and_restarts() -> Result<()> {
    let mut shelf = Shelf::start(AUDIOBOOKSHELF).await?;
    media::tracks(&shelf.given)?;
    shelf.step("books", BOOKS).await?;
    let first = numbers(&shelf.mount)?;
    forget()?;
    shelf.gateway.restart()?;
    ensure!(numbers(&shelf.mount)? == first, "a restart changes them");

    // Replaced in place, here and elsewhere, a book keeps its number.
    shelf
        .step("written into", "cat \"$given/4.mp3\" > Ann/One/1.mp3")
        .await?;
    let other = std::fs::read(shelf.given.join("5.mp3"))?;
    shelf
        .bucket
        .put("Ann/One/2.mp3", other.clone().into())
        .await?;
    shelf.write_foreign("Ann/One/2.mp3", &other)?;
    shelf.purge("Ann/One/2.mp3")?;
    forget()?;
    shelf.gateway.restart()?;
    ensure!(
        numbers(&shelf.mount)? == first,
        "a replacement changes them"
    );

    // A renamed folder and a renamed file keep theirs, with all that is in them, also if the kernel knew none of it.
    forget()?;
    shelf
        .step("renamed", "mv Ann Bea; mv Bea/Two/3.mp3 Bea/Two/last.mp3")
        .await?;
    let moved: Vec<_> = first
        .iter()
        .map(|(path, number)| {
            let path = path.replace("Ann", "Bea");
            (path.replace("Two/3.mp3", "Two/last.mp3"), *number)
        })
        .collect();
    let is_moved = |found: std::collections::BTreeMap<String, u64>| {
        moved
            .iter()
            .all(|(path, number)| found.get(path) == Some(number))
    };
    ensure!(is_moved(numbers(&shelf.mount)?), "a rename changes them");
    forget()?;
    ensure!(is_moved(numbers(&shelf.mount)?), "they are forgotten");
    shelf.gateway.restart()?;
    ensure!(is_moved(numbers(&shelf.mount)?), "a restart forgets them");

    // Others that take the old names have numbers of their own, which `numbers` checks, and keep them.
    shelf.step("books again", BOOKS).await?;
    let all = numbers(&shelf.mount)?;
    ensure!(is_moved(all.clone()), "new files take them");
    forget()?;
    shelf.gateway.kill()?;
    shelf.gateway.restart()?;
    ensure!(numbers(&shelf.mount)? == all, "a kill forgets them");
    shelf.finish().await
}

/// A program that saves by renaming a copy over the file gives it the copy's number, as a local disk does.
#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_name_has_the_number_of_what_replaced_it() -> Result<()> {
    let mut shelf = Shelf::start(AUDIOBOOKSHELF).await?;
    let script = "
        echo 0 > book.nfo
        for n in 1 2 3 4 5; do
            echo $n > book.nfo.tmp
            new=$(stat -c %i book.nfo.tmp); old=$(stat -c %i book.nfo)
            test $new != $old
            mv book.nfo.tmp book.nfo
            test $(stat -c %i book.nfo) = $new
        done";
    shelf.step("saved", script).await?;
    let before = numbers(&shelf.mount)?;
    forget()?;
    shelf.gateway.restart()?;
    ensure!(numbers(&shelf.mount)? == before, "a restart changes it");
    shelf.finish().await
}
