use futures_util::FutureExt as _;

use super::*;

const HERE: OriginId = OriginId(1);

fn paths(all: &[&str]) -> Vec<String> {
    all.iter().map(|&path| path.to_owned()).collect()
}

#[tokio::test]
async fn a_folder_is_renamed_when_none_of_its_names_is_used() {
    let locks = FolderLocks::default();
    let used = locks.use_paths(HERE, paths(&["a/x", "z"])).await;
    let beside = locks.use_paths(HERE, paths(&["ab"])).await;
    let mut renames = Box::pin(locks.move_folders(HERE, paths(&["a/", "b/"])));
    assert!(renames.as_mut().now_or_never().is_none());
    // From now on no path below can be locked, at any depth; others can.
    for path in ["a", "a/", "a/y/z", "b/x"] {
        let begins = locks.use_paths(HERE, paths(&[path])).now_or_never();
        assert!(begins.is_none(), "{path}");
    }
    for path in ["ab/x", "c", ""] {
        let begins = locks.use_paths(HERE, paths(&[path])).now_or_never();
        assert!(begins.is_some(), "{path}");
    }
    let elsewhere = locks.use_paths(OriginId(2), paths(&["a/y"]));
    assert!(elsewhere.now_or_never().is_some());
    drop(used);
    let lock = renames.await;
    for other in [["a/b/", "c/"], ["d/", "b/"]] {
        let other = locks.move_folders(HERE, paths(&other)).now_or_never();
        assert!(other.is_none());
    }
    let waits = locks.use_paths(HERE, paths(&["b/x"]));
    let mut waits = Box::pin(waits);
    assert!(waits.as_mut().now_or_never().is_none());
    drop(lock);
    drop((waits.await, beside));
    let table = locks.table();
    assert!(table.used.is_empty() && table.moved.is_empty());
}

/// A rename that is cancelled while it waits blocks no others.
#[tokio::test]
async fn a_rename_that_is_given_up_leaves_no_lock() {
    let locks = FolderLocks::default();
    let used = locks.use_paths(HERE, paths(&["a/x"])).await;
    let renames = locks.move_folders(HERE, paths(&["a/", "b/"]));
    assert!(renames.now_or_never().is_none());
    assert!(
        locks
            .use_paths(HERE, paths(&["a/y"]))
            .now_or_never()
            .is_some()
    );
    drop(used);
}
