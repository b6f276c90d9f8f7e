//! The headers that an object is stored with, as stores have them.

use tidegate_origin::Origin;
use tidegate_plan::Version;

use super::{bare, content, drain, get, key};
use crate::fake_s3::FakeS3;

/// RFC 9110, 5.5: bytes beyond ASCII are opaque. MinIO returns those that an object was written with.
#[tokio::test]
async fn they_are_passed_on_as_they_came() {
    let rows: [(&str, &[&[u8]]); 7] = [
        (
            "content-disposition",
            &[b"attachment; filename=\"M\xfcller.pdf\""],
        ),
        ("content-type", &[b"text/plain; x=\xff"]),
        ("cache-control", &[b"max-age=60, x=\"\xe4\""]),
        ("content-language", &[b"\xe4"]),
        ("x-amz-meta-name", &[b"M\xfcller", "M\u{fc}ller".as_bytes()]),
        ("cache-control", &[b"max-age=60", b"public"]),
        ("expires", &[b"0"]),
    ];
    let server = FakeS3::start().await;
    let origin = bare(&server).await;
    for (name, values) in rows {
        let mut head = b"HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-length: 2\r\n".to_vec();
        for value in values {
            head.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        head.extend(b"connection: close\r\n\r\n");
        server.answer_next(head.clone());
        let headed = origin.head(&key("k")).await.expect("a version");
        assert_eq!(stored(&headed), values, "{name}");
        server.answer_next([&head[..], b"ab"].concat());
        let got = content(&origin, get("k", None)).await.expect("an object");
        assert_eq!(*got.version, headed);
        assert_eq!(drain(got).await, (b"ab".to_vec(), None));
    }
}

fn stored(version: &Version) -> Vec<&[u8]> {
    let headers = version.headers.iter();
    headers.map(|(_, value)| value.as_bytes()).collect()
}
