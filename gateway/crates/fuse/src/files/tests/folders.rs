//! Renames of folders: all files move, or none.

use super::*;

mod meanwhile;
mod moving;
mod remnants;

const DOWN: Fault = Fault::Refuse(OriginError::Unavailable("down"));
const FILES: [&str; 5] = ["a", "b", "deep/c", "deep/er/d", "e"];
const WRITE: OpenFlags = OpenFlags(1);

fn name(folder: u64, name: &str) -> (u64, OsString) {
    (folder, name.into())
}

impl World {
    /// Returns a folder `old` with files, and one beside it.
    fn with_a_folder() -> Self {
        let world = Self::writable();
        world.bucket.put("p/old/", "");
        for file in FILES {
            world.bucket.put(&format!("p/old/{file}"), file);
        }
        world.bucket.put("p/older", "beside");
        world
    }

    async fn rename_top(&self, from: &str, to: &str) -> Result<(), Errno> {
        let (from, to) = (name(ROOT_INO, from), name(ROOT_INO, to));
        self.files.rename(from, to, false).await
    }

    /// Returns the files that are in the bucket below a folder, each with its bytes.
    fn there(&self, folder: &str) -> Vec<&'static str> {
        let is_there = |file: &&str| {
            let object = self.bucket.object(&format!("p/{folder}/{file}"));
            object.is_some_and(|(_, bytes)| {
                assert_eq!(bytes, *file);
                true
            })
        };
        FILES.into_iter().filter(is_there).collect()
    }

    /// Returns whether no key in the bucket begins with a prefix.
    fn has_no(&self, prefix: &str) -> bool {
        !self.bucket.keys().iter().any(|key| key.starts_with(prefix))
    }

    /// Returns the number of requests to the bucket so far.
    fn asked(&self) -> usize {
        let bucket = &self.bucket;
        let reads = bucket.gets() + bucket.heads() + bucket.lists();
        usize::try_from(reads).expect("few") + bucket.writes().len()
    }

    async fn fill(&self, handle: u64, offset: u64, text: &'static str) {
        let bytes = Bytes::from_static(text.as_bytes());
        let written = self.files.write((handle, 0), offset, bytes, false).await;
        written.expect("written");
    }

    async fn text_of(&self, handle: u64) -> String {
        String::from_utf8(self.read(handle).await.expect("read")).expect("text")
    }
}

#[tokio::test]
async fn a_folder_is_renamed_with_all_that_is_in_it() {
    let world = World::with_a_folder();
    let old = world.walk("old").await.ino.0;
    let (a, c) = (world.walk("old/a").await, world.walk("old/deep/c").await);
    let (reader, _) = world.open(c.ino.0).await;
    let (a_reader, _) = world.open(a.ino.0).await;
    assert_eq!(world.text_of(a_reader).await, "a");
    // One file is being written; one was never closed and is in no bucket.
    let (writer, _) = world
        .files
        .open(world.walk("old/b").await.ino.0, WRITE, BY)
        .await
        .expect("open");
    world.fill(writer, 1, "bb").await;
    let ((_, _), fresh, _) = world
        .files
        .create(old, "fresh".into(), 0, MAKER)
        .await
        .expect("created");
    world.fill(fresh, 0, "new").await;

    assert_eq!(world.look(ROOT_INO, "new").await, Err(Errno::ENOENT));
    let before = world.costs();
    assert_eq!(world.rename_top("old", "new").await, Ok(()));
    // The bytes written into `b` go into the bucket with the byte before them. Each of seven objects is looked at before it
    // is deleted. Both folders are listed before the copies and after them.
    let after = world.costs();
    assert_eq!(after, (before.0 + 7, before.1 + 6, before.2 + 1));
    assert_eq!(world.look(ROOT_INO, "old").await, Err(Errno::ENOENT));
    assert!(world.has_no("p/old/"));
    assert_eq!(world.stored_text("p/older"), "beside");
    // The nodes are the same, and handles go on.
    assert_eq!(world.walk("new").await.ino.0, old);
    assert_eq!(world.walk("new/deep/c").await.ino, c.ino);
    assert_eq!(world.text_of(reader).await, "deep/c");
    world.fill(writer, 3, "bbb").await;
    for handle in [writer, fresh] {
        assert_eq!(world.files.flush(handle, 0).await, Ok(()));
        world.files.close(handle).await;
    }
    assert_eq!(world.stored_text("p/new/b"), "bbbbbb");
    assert_eq!(world.stored_text("p/new/fresh"), "new");
    let mut names = world.scan(old).await;
    names.sort();
    assert_eq!(names, ["a", "b", "deep", "e", "fresh"]);
    // Cached bytes are cached under the new key.
    let before = world.bucket.gets();
    world.files.close(a_reader).await;
    let (again, _) = world.open(world.walk("new/a").await.ino.0).await;
    assert_eq!(world.text_of(again).await, "a");
    assert_eq!(world.bucket.gets(), before);
    // And back, with a reader that has been there all the time.
    assert_eq!(world.rename_top("new", "old").await, Ok(()));
    assert_eq!(world.text_of(reader).await, "deep/c");
    assert_eq!(world.stored_text("p/old/b"), "bbbbbb");
}

impl World {
    fn stored_text(&self, key: &str) -> String {
        let (_, bytes) = self.bucket.object(key).expect(key);
        String::from_utf8(bytes.to_vec()).expect("text")
    }
}

#[tokio::test]
async fn what_posix_refuses_is_refused() {
    let world = World::with_a_folder();
    let old = world.walk("old").await.ino.0;
    world.bucket.put("p/full/x", "x");
    world.bucket.put("p/empty/", "");
    let keys = world.bucket.keys();
    assert_eq!(world.rename_top("old", "full").await, Err(Errno::ENOTEMPTY));
    assert_eq!(world.rename_top("old", "older").await, Err(Errno::ENOTDIR));
    assert_eq!(world.rename_top("none", "new").await, Err(Errno::ENOENT));
    let into = world
        .files
        .rename(name(ROOT_INO, "old"), name(old, "sub"), false)
        .await;
    assert_eq!(into, Err(Errno::EINVAL));
    let kept = world
        .files
        .rename(name(ROOT_INO, "old"), name(ROOT_INO, "empty"), true)
        .await;
    assert_eq!(kept, Err(Errno::EEXIST));
    // A file that is in no bucket yet fills a folder as well.
    let empty = world.walk("empty").await.ino.0;
    let (_, handle, _) = world
        .files
        .create(empty, "draft".into(), 0, MAKER)
        .await
        .expect("created");
    assert_eq!(
        world.rename_top("old", "empty").await,
        Err(Errno::ENOTEMPTY)
    );
    assert_eq!(world.bucket.keys(), keys, "nothing was changed");
    world.files.close(handle).await;
    assert_eq!(world.files.unlink(empty, "draft".into()).await, Ok(()));
    // An empty folder is replaced.
    assert_eq!(world.rename_top("old", "empty").await, Ok(()));
    assert_eq!(world.there("empty"), FILES);
    assert_eq!(world.walk("empty").await.ino.0, old);
    assert!(world.bucket.object("p/empty/").is_some());
}

#[tokio::test]
async fn a_folder_with_more_than_the_limit_is_for_the_program_to_copy() {
    let world = World::writable();
    for n in 0..21 {
        world.bucket.put(&format!("p/old/{n}"), "x");
    }
    assert_eq!(world.rename_top("old", "new").await, Err(Errno::EXDEV));
    // A program that was told to copy would fill the other folder.
    world.bucket.put("p/full/x", "x");
    assert_eq!(world.rename_top("old", "full").await, Err(Errno::ENOTEMPTY));
    assert!(world.bucket.writes().is_empty());
    world.bucket.delete("p/full/x");
    world.bucket.delete("p/old/20");
    assert_eq!(world.rename_top("old", "new").await, Ok(()));
    assert_eq!(world.bucket.keys().len(), 20);
    // A mount that renames no folder keeps the order.
    let no_folder =
        |path: &_, source: &_, folder: &Path| match World::write_access(path, source, folder) {
            Access::Write(writable) => Access::Write(WriteSettings {
                rename_limit: 0,
                ..writable
            }),
            read => read,
        };
    let world = World::build(Profile::web(), |_| {}, no_folder);
    world.bucket.put("p/old/x", "x");
    world.bucket.put("p/full/x", "x");
    assert_eq!(world.rename_top("old", "full").await, Err(Errno::ENOTEMPTY));
    assert_eq!(world.rename_top("old", "new").await, Err(Errno::EXDEV));
}

/// Any request may fail, or be carried out and not answered, alone or from then on: no object is lost, and the mount
/// tells the truth about the names.
#[tokio::test]
async fn a_rename_that_fails_loses_nothing() {
    let mut failed = 0;
    for (fault, lasts) in [(DOWN, false), (Fault::LoseAnswer, false), (DOWN, true)] {
        for n in 0.. {
            let world = World::with_a_folder();
            world.walk("old").await;
            assert_eq!(world.look(ROOT_INO, "new").await, Err(Errno::ENOENT));
            let before = world.asked();
            for _ in 0..n {
                world.bucket.fail_next([]);
            }
            match lasts {
                true => world.bucket.set_faults([fault.clone()]),
                false => world.bucket.fail_next([fault.clone()]),
            }
            let renamed = world.rename_top("old", "new").await;
            let asked = world.asked() - before;
            world.bucket.forgive();
            world.bucket.set_faults([]);
            let (old, new) = (world.there("old"), world.there("new"));
            let case = format!("{fault:?} at {n}, lasts {lasts}: {renamed:?}, {old:?} {new:?}");
            assert!(old == FILES || new == FILES, "{case}");
            match renamed {
                Ok(()) => assert!(old.is_empty() && new == FILES, "{case}"),
                Err(_) if lasts => {}
                // Undone, or all of it is there and some of it twice.
                Err(_) => assert!(new.is_empty() || new == FILES, "{case}"),
            }
            failed += usize::from(renamed.is_err());
            // The mount tells the truth about both folders.
            for (folder, files) in [("old", &old), ("new", &new)] {
                for file in FILES.into_iter().filter(|file| !file.contains('/')) {
                    let key = ObjectKey::new(&format!("p/{folder}/{file}")).expect("a key");
                    let found = world
                        .engine
                        .look_up(&world.source, key.as_str(), false)
                        .await;
                    let is_there = found.expect("found").entry != NameKind::Missing;
                    assert_eq!(is_there, files.contains(&file), "{case}: {folder}/{file}");
                }
            }
            if new.is_empty() {
                assert_eq!(world.rename_top("old", "new").await, Ok(()), "{case}");
                assert_eq!((world.there("old").len(), world.there("new").len()), (0, 5));
            }
            if asked <= n {
                break;
            }
        }
    }
    assert!(failed > 25, "{failed}");
}

/// A folder that a rename hides is hidden also if something in it waits for the bucket: an open file, or a changed mode of a
/// folder.
#[tokio::test]
async fn what_waits_for_the_bucket_shows_no_hidden_folder() {
    let world = World::keeping();
    let folders = ["file", "mode"].map(|name| {
        world.bucket.put(&format!("p/{name}/sub/file"), "bytes");
        name
    });
    let file = world.walk("file/sub/file").await.ino.0;
    let (writer, _) = world.files.open(file, WRITE, BY).await.expect("open");
    world.fill(writer, 0, "B").await;
    let set = SetAttr {
        mode: Some(0o700),
        ..SetAttr::default()
    };
    let sub = world.walk("mode/sub").await.ino.0;
    world.files.setattr(sub, set).await.expect("set");
    for name in folders {
        world.bucket.delete(&format!("p/{name}/sub/file"));
        let (core, origin) = (world.engine.core(), world.source.origin.id());
        let hidden = core.hide_folder(origin, &format!("p/{name}/"), false);
        assert_eq!(world.look(ROOT_INO, name).await, Err(Errno::ENOENT));
        assert!(!world.scan(ROOT_INO).await.contains(&name.to_owned()));
        drop(hidden);
        assert!(world.look(ROOT_INO, name).await.is_ok(), "{name}");
    }
}

/// The bucket is told of a folder's mode some seconds later. No time of the folder changes then: `tar` says of a folder whose
/// time changes that it was changed as it was read.
#[tokio::test(start_paused = true)]
async fn a_folder_whose_mode_is_sent_is_not_changed() {
    let world = World::keeping();
    world.bucket.put("p/folder/file", "bytes");
    let folder = world.walk("folder").await.ino.0;
    let set = SetAttr {
        mode: Some(0o700),
        ..SetAttr::default()
    };
    world.files.setattr(folder, set).await.expect("set");
    let before = world.walk("folder").await;
    world.files.writers().expect("writable").settled().await;
    assert!(world.bucket.object("p/folder/").is_some());
    let after = world.walk("folder").await;
    assert_eq!((after.mtime, after.ctime), (before.mtime, before.ctime));
}
