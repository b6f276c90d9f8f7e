//! Objects that other programs put into either folder meanwhile stay.

use std::collections::BTreeSet;

use super::*;

/// A rename deletes no old object that another gateway overwrites during the deletions.
#[tokio::test(start_paused = true)]
async fn what_is_overwritten_during_the_deletions_stays() {
    let desk = with_a_folder().await;
    let bucket = desk.bucket();
    spread(bucket);
    let listings = bucket.lists() + 4;
    let writes = async {
        while bucket.lists() < listings {
            pass(BETWEEN).await;
        }
        // An answer comes a second after its request at the earliest.
        let looks = bucket.heads();
        for _ in 0..LONG {
            if bucket.heads() > looks {
                break;
            }
            pass(BETWEEN).await;
        }
        bucket.put("old/a", "others");
    };
    let (renamed, ()) = tokio::join!(rename(&desk), writes);
    let Ok(FolderRename::Copied(copied)) = renamed else {
        unreachable!("everything was copied");
    };
    assert_eq!(copied.left, Some(WriteError::Changed));
    assert_eq!(desk.object("old/a"), Some("others".into()));
    assert_eq!(there(bucket, "new/"), FILES);
    assert_eq!(bucket.keys().len(), FILES.len() + 1);
    assert_eq!(desk.records(), 0);
}

/// The next process neither overwrites nor removes an object that another program has put into one of both folders
/// meanwhile. As long as a copy is missing, it renames nothing then, and removes nothing either.
#[tokio::test(start_paused = true)]
async fn what_others_have_changed_since_stays() {
    for changed in ["new/other", "new/a", "old/late", "old/a"] {
        let cuts = Cut::of_both_kinds().await;
        for (cut, whole) in cuts.into_iter().zip(["old/", "new/"]) {
            cut.bucket.put(changed, "others");
            let mut expected: BTreeSet<_> = FILES.map(|file| format!("{whole}{file}")).into();
            if whole == "old/" {
                expected.extend(cut.bucket.keys());
            }
            let desk = cut.start();
            desk.has_ended().await;
            expected.insert(changed.to_owned());
            assert_eq!(desk.bucket().keys(), Vec::from_iter(expected), "{changed}");
            assert_eq!(desk.object(changed), Some("others".into()), "{changed}");
            assert_eq!(desk.records(), 0);
        }
    }
}
