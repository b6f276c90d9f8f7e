//! A mount that a crash ends during a folder's rename: the next one keeps every inode number.

use super::*;

/// A mount that a crash has ended during a folder's rename, some seconds after its beginning.
struct Cut {
    /// The numbers before the rename.
    before: [u64; 8],
    bucket: FakeOrigin,
    spool: tempfile::TempDir,
}

impl Cut {
    /// Returns the cut; `None`: the rename has ended by then. `loses`: the table of numbers is as it was before.
    async fn after(second: u64, loses: bool) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let table = folder.path().join("numbers-1");
        let world = World::numbered(FakeOrigin::new(), folder);
        world.put_folder();
        // Some numbers are not those of their keys already.
        assert_eq!(world.rename_top("old", "new").await, Ok(()));
        assert_eq!(world.rename_top("new", "old").await, Ok(()));
        let old = world.walk("old").await.ino.0;
        let (file, root) = (name(old, "e"), name(ROOT_INO, "e"));
        let aside = world.files.rename(file, root, false);
        assert_eq!(aside.await, Ok(()));
        world.bucket.put("p/old/e", "e");
        world.bucket.delete("p/e");
        let before = world.numbers("old");
        let written = std::fs::read(table).expect("written");
        for n in 0..100 {
            let late = Duration::from_secs(1 + n % 3);
            world.bucket.fail_next([Fault::Latency(late)]);
        }
        let pause = Duration::from_millis(1000 * second + 500);
        tokio::select! {
            biased;
            renamed = world.rename_top("old", "new") => {
                assert_eq!(renamed, Ok(()));
                None
            }
            () = tokio::time::sleep(pause) => {
                let (bucket, spool) = world.crashed();
                if loses {
                    std::fs::write(spool.path().join("numbers-1"), written).expect("written");
                }
                Some(Self { before, bucket, spool })
            }
        }
    }
}

/// A crash at any moment: as soon as the folder has its new name, its files have their old numbers.
#[tokio::test(start_paused = true)]
async fn a_rename_that_a_crash_has_cut_keeps_every_number() {
    let mut kinds = std::collections::BTreeSet::new();
    for n in 0.. {
        let (second, loses) = (n / 2, n % 2 == 1);
        let Some(cut) = Cut::after(second, loses).await else {
            break;
        };
        let before = cut.before;
        let again = World::numbered(cut.bucket, cut.spool);
        let began = (again.there("old").len(), again.there("new").len());
        let is_shown = again.engine.is_hidden(&again.source, "p/old");
        kinds.insert((began, is_shown));
        if is_shown {
            assert_eq!(again.numbers("new"), before, "{second} {began:?}");
        }
        let ended = async {
            while !again.there("old").is_empty() && !again.there("new").is_empty() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(600), ended);
        assert_eq!(ended.await, Ok(()), "{second}");
        let now = match again.there("new").is_empty() {
            true => "old",
            false => "new",
        };
        assert_eq!(again.there(now), FILES, "{second}");
        assert_eq!(again.numbers(now), before, "{second} {began:?}");
        assert_eq!(again.walked(now).await, before, "{second} {began:?}");
        // And once more after a restart in order.
        let (bucket, spool) = again.crashed();
        drop(again);
        let third = World::numbered(bucket, spool);
        assert_eq!(third.walked(now).await, before, "{second} {began:?}");
    }
    // Before the copies, between and after them, and among the deletions.
    for (old, new) in [(5..6, 0..1), (5..6, 1..5), (5..6, 5..6), (1..5, 5..6)] {
        let is_one = |(olds, news): (usize, usize)| old.contains(&olds) && new.contains(&news);
        let is_there = kinds.iter().any(|(began, _)| is_one(*began));
        assert!(is_there, "{old:?}, {new:?} of {kinds:?}");
    }
    assert!(kinds.contains(&((5, 5), true)), "{kinds:?}");
}
