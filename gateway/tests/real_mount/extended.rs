//! Extended attributes, by which programs learn what is known of a file.

use std::time::Instant;

use crate::fake_s3::FakeS3;
use crate::mount::Mounted;
use crate::{LONG, asked};

#[tokio::test(flavor = "multi_thread")]
async fn extended_attributes() {
    let store = FakeS3::start().await;
    let headers = [("content-type", "audio/mpeg")];
    let version = store.bucket.put_with("song", "la la", &headers);
    let mounted = Mounted::start(&store.settings(), "").await;
    let get = async |name: &str| {
        let name = format!("user.tidegate.{name}");
        let line = ["getfattr", "--only-values", "-n", &name, "song"];
        mounted.says(&line).await
    };
    assert_eq!(get("etag").await, version.etag.as_str());
    assert_eq!(get("content_type").await, "audio/mpeg");
    assert_eq!(get("cached").await, "none");
    mounted.says(&["cat", "song"]).await;
    let begun = Instant::now();
    // A reader has the last bytes a moment before they are kept.
    while get("cached").await != "memory" {
        assert!(begun.elapsed() < LONG, "it is not kept");
    }
    let heads = asked(&store);
    assert_eq!(mounted.says(&["getfattr", "-d", "song"]).await, "");
    assert_eq!(
        asked(&store),
        heads,
        "what copies all that is listed asks for nothing"
    );
    mounted.gateway.stop().await;
}
