//! Copies that the store makes.

use std::sync::Arc;

use tidegate_origin::{CopySource, Origin, PartSums, Upload};
use tidegate_plan::{ByteRange, ETag};

use super::{bare, key, raw};
use crate::fake_s3::FakeS3;

/// AWS copies a range only of objects above 5 MiB.
#[tokio::test]
async fn a_part_that_is_a_whole_object_names_no_range() {
    let server = FakeS3::start().await;
    let origin: Arc<dyn Origin> = Arc::new(bare(&server).await);
    let upload = Upload {
        key: key("to"),
        id: "upload".into(),
        sums: PartSums::Crc64,
    };
    let copied = "<CopyPartResult><ETag>&quot;b&quot;</ETag></CopyPartResult>";
    for (range, expected) in [
        (None, None),
        (Some(ByteRange::new(5, 9)), Some("bytes=5-8")),
    ] {
        server.answer_next(raw("200 OK", copied));
        let source = CopySource {
            key: key("from"),
            etag: ETag::parse("\"a\"").expect("a tag"),
        };
        let writing = origin.writing();
        let tag = writing.copy_part(&upload, 1, source, range).await;
        assert_eq!(tag.expect("copied").as_str(), "\"b\"");
        let asked = server.requests().pop().expect("a request");
        let named = asked.headers.get("x-amz-copy-source-range");
        assert_eq!(named.map(String::as_str), expected);
    }
}
