//! Attributes of files and folders, as they come from the config, listings and metadata.

use super::*;

#[tokio::test]
async fn paths_are_keys_and_stat_shows_what_the_config_says() {
    let world = World::new();
    world.bucket.put("p/a/b/file", "12345");
    let file = world.walk("a/b/file").await;
    assert_eq!(
        (file.size, file.kind, file.perm),
        (5, FileType::RegularFile, 0o640)
    );
    assert_eq!((file.uid, file.gid, file.nlink), (7, 8, 1));
    assert_eq!(file.mtime, std::time::UNIX_EPOCH + Duration::from_secs(1));
    let folder = world.walk("a/b").await;
    assert_eq!((folder.kind, folder.perm), (FileType::Directory, 0o750));
    for name in ["none", "a/b", "..", "a\0"] {
        assert_eq!(
            world.look(ROOT_INO, name).await,
            Err(Errno::ENOENT),
            "{name:?}"
        );
    }
    let long = "n".repeat(256);
    assert_eq!(world.look(ROOT_INO, &long).await, Err(Errno::ENAMETOOLONG));
    assert_eq!(world.look(file.ino.0, "x").await, Err(Errno::ENOTDIR));
    assert_eq!(world.look(4711, "x").await, Err(Errno::ESTALE));
    let opened = world.files.open(folder.ino.0, OpenFlags(0), BY).await;
    assert_eq!(opened, Err(Errno::EISDIR));
    let written = world.files.open(file.ino.0, OpenFlags(1), BY).await;
    assert_eq!(written, Err(Errno::EROFS));
}

#[tokio::test]
async fn attributes_come_from_the_listing() {
    let world = World::new();
    for n in 0..100 {
        world.bucket.put(&format!("p/{n}"), vec![0; n]);
    }
    let handle = world.files.open_folder(ROOT_INO).expect("the root");
    let folder = world.files.folder(handle).expect("open");
    let names = folder.at(0).await.expect("names");
    for (name, entry) in names.from(0) {
        let path = format!("p/{name}");
        let told = world.files.tell_listed(ROOT_INO, &path, entry);
        let (attr, _) = told.expect("it is there");
        assert_eq!(attr.size.to_string(), *name);
        assert_eq!(
            world.look(ROOT_INO, name).await.expect("known").size,
            attr.size
        );
    }
    assert_eq!((world.bucket.heads(), world.bucket.gets()), (0, 0));
    assert_eq!(world.bucket.lists(), 1);
}

#[tokio::test]
async fn times_may_come_from_metadata() {
    let kept = [("x-amz-meta-mtime", "1600000000.5")];
    let world = World::with(Profile::web(), |settings| {
        settings.attributes = AttributeUse::Kept;
    });
    world.bucket.put_with("p/kept", "x", &kept);
    world.bucket.put("p/not", "x");
    let time = Duration::from_millis(1_600_000_000_500);
    assert_eq!(world.walk("kept").await.mtime, std::time::UNIX_EPOCH + time);
    let written = std::time::UNIX_EPOCH + Duration::from_secs(2);
    assert_eq!(world.walk("not").await.mtime, written);
}

#[tokio::test]
async fn extended_attributes_say_what_is_known() {
    let world = World::new();
    let headers = [("content-type", "audio/mpeg")];
    let version = world.bucket.put_with("p/song", "la", &headers);
    let ino = world.walk("song").await.ino.0;
    let get = |name: &'static str| world.files.getxattr(ino, name.into());
    let etag = version.etag.as_str().to_owned();
    assert_eq!(get("user.tidegate.etag").await, Ok(etag));
    assert_eq!(
        get("user.tidegate.content_type").await,
        Ok("audio/mpeg".to_owned())
    );
    assert_eq!(get("user.tidegate.version").await, Err(Errno::ENODATA));
    assert_eq!(get("user.tidegate.cached").await, Ok("none".to_owned()));
    let (handle, _) = world.open(ino).await;
    world.read(handle).await.expect("read");
    assert_eq!(get("user.tidegate.cached").await, Ok("memory".to_owned()));
    let heads = world.bucket.heads();
    assert_eq!(get("security.selinux").await, Err(Errno::ENODATA));
    assert_eq!(world.bucket.heads(), heads);
}
