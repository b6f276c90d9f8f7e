//! Ranges and conditions.

use crate::gateway::{Gateway, sample, status};

#[tokio::test]
async fn ranges() {
    let gateway = Gateway::start().await;
    let bytes = sample(50_000);
    gateway.origin.put("a.mp3", bytes.clone());
    for (range, start, end) in [
        ("bytes=0-0", 0, 1),
        ("bytes=4000-9000", 4000, 9001),
        ("bytes=49000-", 49_000, 50_000),
        ("bytes=-1000", 49_000, 50_000),
        ("bytes=10-20,21-30", 10, 31),
    ] {
        let got = gateway.get("/a.mp3", &[("range", range)]).await;
        assert_eq!(status(&got), 206, "{range}");
        assert_eq!(got.bytes()[..], bytes[start..end], "{range}");
        let expected = format!("bytes {start}-{}/50000", end - 1);
        assert_eq!(got.header("content-range"), expected);
        assert_eq!(got.header("content-type"), "audio/mpeg");
    }
    for ignored in ["bytes=5-4", "items=0-1", "bytes=x"] {
        let got = gateway.get("/a.mp3", &[("range", ignored)]).await;
        assert_eq!(
            (status(&got), got.bytes().len()),
            (200, 50_000),
            "{ignored}"
        );
    }
    let got = gateway.get("/a.mp3", &[("range", "bytes=50000-")]).await;
    assert_eq!(status(&got), 416);
    assert_eq!(got.header("content-range"), "bytes */50000");
    gateway.end().await;
}

#[tokio::test]
async fn several_ranges_in_one_answer() {
    let gateway = Gateway::start().await;
    let bytes = sample(50_000);
    gateway.origin.put("a.pdf", bytes.clone());
    let got = gateway
        .get("/a.pdf", &[("range", "bytes=40000-44999, 0-99, -1")])
        .await;
    assert_eq!(status(&got), 206);
    assert_eq!(got.header("content-length"), got.bytes().len().to_string());
    assert_eq!(got.header("content-range"), "");
    let kind = got.header("content-type");
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .expect("multipart");
    let mut expected = Vec::new();
    for (start, end) in [(40_000, 45_000), (0, 100), (49_999, 50_000)] {
        let lead = if expected.is_empty() { "" } else { "\r\n" };
        let last = end - 1;
        let head = format!(
            "{lead}--{boundary}\r\nContent-Type: application/pdf\r\n\
             Content-Range: bytes {start}-{last}/50000\r\n\r\n"
        );
        expected.extend_from_slice(head.as_bytes());
        expected.extend_from_slice(&bytes[start..end]);
    }
    expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    assert_eq!(got.bytes()[..], expected);
    gateway.end().await;
}

#[tokio::test]
async fn conditions() {
    let gateway = Gateway::start().await;
    let version = gateway.origin.put("k.png", sample(9000));
    let tag = version.etag.as_str();
    let first = gateway.get("/k.png", &[]).await;
    assert_eq!(first.header("etag"), tag);
    let modified = first.header("last-modified");
    let old = "Thu, 01 Jan 1970 00:00:00 GMT";
    let rows: [(&[(&str, &str)], u16); 9] = [
        (&[("if-none-match", tag)], 304),
        (&[("if-none-match", "\"other\"")], 200),
        (&[("if-modified-since", &modified)], 304),
        (&[("if-modified-since", old)], 200),
        (&[("if-match", "\"other\"")], 412),
        (&[("if-match", tag)], 200),
        (&[("if-unmodified-since", old)], 412),
        (&[("range", "bytes=0-9"), ("if-range", tag)], 206),
        (&[("range", "bytes=0-9"), ("if-range", "\"other\"")], 200),
    ];
    for (headers, expected) in rows {
        let got = gateway.get("/k.png", headers).await;
        assert_eq!(status(&got), expected, "{headers:?}");
        if expected == 304 {
            assert_eq!(got.header("etag"), tag);
            assert_eq!(got.header("content-type"), "");
            assert_eq!(got.header("content-length"), "");
            assert!(got.bytes().is_empty());
        }
    }
    assert_eq!(gateway.origin.gets(), 1);
    gateway.end().await;
}
