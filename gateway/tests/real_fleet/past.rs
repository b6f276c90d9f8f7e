//! Objects that change past the gateways, so that nothing but a purge brings them before their hour ends.

use aws_sdk_s3::primitives::ByteStream;
use http::Method;
use tokio::time::Instant;

use crate::bucket::Bucket;
use crate::{BUCKETS, LONG, World};

/// The ways in which a purge names and treats an object; those by tag last.
pub(super) const WAYS: [Way; 6] = [
    Way::new(By::Path, false),
    Way::new(By::Path, true),
    Way::new(By::Key, false),
    Way::new(By::Key, true),
    Way::new(By::Tag, false),
    Way::new(By::Tag, true),
];

/// The number of ways that cover every object: a tag covers only one that carries it.
pub(super) const WAYS_FOR_ALL: u64 = 4;

/// One way of a purge.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    by: By,
    soft: bool,
}

/// The name by which a purge means an object.
#[derive(Debug, Clone, Copy)]
enum By {
    Path,
    Key,
    Tag,
}

impl Way {
    const fn new(by: By, soft: bool) -> Self {
        Self { by, soft }
    }

    pub(super) const fn is_soft(self) -> bool {
        self.soft
    }
}

impl World {
    /// Writes an object past the gateways, with a tag of its own. An empty body removes it.
    pub(super) async fn change_past(&self, path: &str, body: &str) {
        let (bucket, key) = path[1..].split_once('/').expect("a bucket and a key");
        let nth = BUCKETS.iter().position(|name| *name == bucket);
        let bucket = &self.buckets[nth.expect("one of the test's")];
        if body.is_empty() {
            return bucket.delete(key).await;
        }
        let Bucket::S3 { client, name } = bucket else {
            panic!("the buckets are MinIO's");
        };
        let put = client.put_object().bucket(name).key(key);
        put.body(ByteStream::from(body.as_bytes().to_vec()))
            .metadata("cache-tags", tag(path))
            .send()
            .await
            .expect("written");
    }

    /// Writes an object past the gateways that only a purge brings: the last of them has it as missing. A gateway that a
    /// busy machine silences makes the others confirm what they know; then another object is tried. Returns its path.
    pub(super) async fn written_past(&self, body: &str) -> String {
        let since = Instant::now();
        let mut number = 0;
        loop {
            let path = format!("/{}/missing-{number}", BUCKETS[1]);
            self.warm(&path).await;
            self.change_past(&path, body).await;
            if self.gateways[2].get(&path, &[]).await.status == 404 {
                return path;
            }
            assert!(since.elapsed() < LONG, "it is confirmed each time");
            number += 1;
        }
    }

    /// Purges an object through one gateway.
    pub(super) async fn purge_one(&self, nth: usize, path: &str, way: Way) {
        let soft = way.soft;
        let (bucket, key) = path[1..].split_once('/').expect("a bucket and a key");
        let names = match way.by {
            By::Path => format!("\"paths\": [\"{path}\"]"),
            By::Key => format!("\"keys\": [\"{key}\"], \"origin\": \"{bucket}\""),
            By::Tag => format!("\"tags\": [\"{}\"]", tag(path)),
        };
        let body = format!("{{{names}, \"soft\": {soft}}}");
        let got = self.operate(nth, Method::POST, "/purge", &body).await;
        assert_eq!(got.status, 200, "{way:?}: {}", got.text());
    }
}

fn tag(path: &str) -> String {
    path[1..].replace('/', "-")
}

/// Each gateway in turn is asked to purge, hard and soft, by path, key and tag: all serve what the bucket has.
#[tokio::test(flavor = "multi_thread")]
async fn a_purge_of_each_kind_reaches_all() {
    let world = World::new().await;
    let paths = BUCKETS.map(|bucket| format!("/{bucket}/past"));
    for path in &paths {
        world.change_past(path, "at first").await;
        world.reads(path, "at first", LONG).await;
    }
    for way in WAYS {
        for nth in 0..3 {
            for path in &paths {
                let body = format!("{way:?} {nth}");
                world.warm(path).await;
                world.change_past(path, &body).await;
                world.purge_one(nth, path, way).await;
                world.reads(path, &body, LONG).await;
            }
        }
    }
    for way in WAYS {
        world.change_past(&paths[0], "again").await;
        world.purge_one(0, &paths[0], WAYS[0]).await;
        world.reads(&paths[0], "again", LONG).await;
        world.warm(&paths[0]).await;
        world.change_past(&paths[0], "").await;
        world.purge_one(1, &paths[0], way).await;
        world.reads(&paths[0], "", LONG).await;
    }
    world.stop().await;
}
