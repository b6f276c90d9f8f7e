//! Recipes that only read, in front of a bucket, with names, ports and passwords replaced.

use crate::gateway::Whole;
use crate::read;
use crate::world::{World, sample};

/// Starts a gateway with a recipe.
async fn start(world: &World, file: &str, bucket: &str) -> Whole {
    let key = world.origin.credentials();
    let quoted = |text: &str| format!("\"{text}\"");
    let folder = |name: &str| world.folder.path().join(name).display().to_string();
    let secrets = world.folder.path().join("secrets");
    std::fs::create_dir_all(&secrets).expect("a folder");
    std::fs::write(secrets.join("token"), "t0ken-of-the-tests").expect("written");
    std::fs::write(secrets.join("s3-secret"), &key.secret_access_key).expect("written");
    let mut toml = read(file);
    for (shipped, here) in [
        ("$CREDENTIALS_DIRECTORY", folder("secrets")),
        ("/var/cache/tidegate", folder("cache")),
        ("/var/lib/tidegate", folder("state")),
        (
            "http://127.0.0.1:9000",
            format!("http://{}", world.door.address()),
        ),
        (
            &*format!("bucket = {}", quoted(bucket)),
            format!("bucket = {}", quoted(world.origin.bucket())),
        ),
        (
            "access_key_id = \"tidegate\"",
            format!("access_key_id = {}", quoted(&key.access_key_id)),
        ),
    ] {
        assert!(toml.contains(shipped), "{file}: {shipped}");
        toml = toml.replace(shipped, &here);
    }
    let small = |line: &str| match line.split(' ').next() {
        Some("capacity") => "capacity = \"128MiB\"\n".to_owned(),
        Some("min_free") => "min_free = \"1MiB\"\n".to_owned(),
        _ => format!("{line}\n"),
    };
    let toml: String = toml.lines().map(small).collect();
    Whole::start(&toml).await
}

#[tokio::test(flavor = "multi_thread")]
async fn players_seek_in_books() {
    let world = World::new().await;
    let book = sample(3 << 20, 1);
    world.put("a book/1.m4b", &book).await;
    let gateway = start(&world, "config/audiobookshelf.toml", "audiobooks").await;
    let part = gateway
        .get("/a%20book/1.m4b", &[("range", "bytes=2000000-2000099")])
        .await;
    assert_eq!(
        (part.status, &part.body[..]),
        (206, &book[2_000_000..2_000_100])
    );
    let whole = gateway.get("/a%20book/1.m4b", &[]).await;
    assert!(whole.status == 200 && whole.body[..] == book[..]);
    // Audio is not compressed.
    let asked = gateway
        .get("/a%20book/1.m4b", &[("accept-encoding", "br, gzip")])
        .await;
    assert!(!asked.headers.contains_key("content-encoding"));
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_asked_for_each_time_and_current_when_reloaded() {
    let world = World::new().await;
    world.put("scan.pdf", b"old").await;
    world.put("thumbnails/scan.webp", b"small").await;
    let gateway = start(&world, "config/documents.toml", "documents").await;
    let first = gateway.get("/documents/scan.pdf", &[]).await;
    assert_eq!((first.status, &*first.text()), (200, "old"));
    assert_eq!(first.header("cache-control"), "private, no-cache");
    let tag = first.header("etag").to_owned();
    let again = gateway
        .get("/documents/scan.pdf", &[("if-none-match", &tag)])
        .await;
    assert_eq!(again.status, 304);
    world.put("scan.pdf", b"new").await;
    let reload = [("if-none-match", &*tag), ("cache-control", "no-cache")];
    let seen = gateway.get("/documents/scan.pdf", &reload).await;
    assert_eq!((seen.status, &*seen.text()), (200, "new"));
    let small = gateway.get("/documents/thumbnails/scan.webp", &[]).await;
    assert_eq!((small.status, &*small.text()), (200, "small"));
    gateway.stop().await;
}
