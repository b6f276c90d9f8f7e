//! Requests that two programs in a row might cut in different places. Each is refused or cut as RFC 9112 demands, and
//! the body of the first never yields a second answer.

use crate::target::Target;
use crate::wire::{connect, rest, send};

/// A name, a request, and its answers: statuses in order, until the connection closes.
type Row = (&'static str, &'static str, &'static [&'static str]);

const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n";

const ROWS: &[Row] = &[
    (
        "both lengths (RFC 9112, 6.1: may be refused; the connection closes)",
        "GET /small HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        &["200", "400"],
    ),
    (
        "two different lengths",
        "GET /small HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n",
        &["400"],
    ),
    (
        "two lengths in a line",
        "GET /small HTTP/1.1\r\nHost: h\r\nContent-Length: 4, 5\r\n\r\n",
        &["400"],
    ),
    (
        "a signed length",
        "GET /small HTTP/1.1\r\nHost: h\r\nContent-Length: +4\r\n\r\n",
        &["400"],
    ),
    (
        "a length that is none",
        "GET /small HTTP/1.1\r\nHost: h\r\nContent-Length: 4x\r\n\r\n",
        &["400"],
    ),
    (
        "a coding that does not end in chunked",
        "GET /small HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
        &["400"],
    ),
    (
        "a coding with a look-alike",
        "GET /small HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n",
        &["400"],
    ),
    (
        "a space before the colon",
        "GET /small HTTP/1.1\r\nHost: h\r\nContent-Length : 4\r\n\r\n",
        &["400"],
    ),
    (
        "obs-fold",
        "GET /small HTTP/1.1\r\nHost: h\r\nX: a\r\n\tTransfer-Encoding: chunked\r\n\r\n",
        &["400"],
    ),
    (
        "a bare CR in a value",
        "GET /small HTTP/1.1\r\nHost: h\r\nX: a\rContent-Length: 30\r\n\r\n",
        &["400"],
    ),
    (
        "NUL in a value",
        "GET /small HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n",
        &["400"],
    ),
    (
        "two hosts",
        "GET /small HTTP/1.1\r\nHost: h\r\nHost: i\r\nConnection: close\r\n\r\n",
        &["400"],
    ),
    (
        "no host",
        "GET /small HTTP/1.1\r\nConnection: close\r\n\r\n",
        &["400"],
    ),
    (
        "a host with a space and a path",
        "GET /small HTTP/1.1\r\nHost: a b/c\r\nConnection: close\r\n\r\n",
        &["400"],
    ),
    (
        "a host whose port is none",
        "GET /small HTTP/1.1\r\nHost: h:notaport\r\nConnection: close\r\n\r\n",
        &["400"],
    ),
    (
        "a host with half an address",
        "GET /small HTTP/1.1\r\nHost: [::1\r\nConnection: close\r\n\r\n",
        &["400"],
    ),
    (
        "a host with quotes",
        "GET /small HTTP/1.1\r\nHost: \"x\"\r\nConnection: close\r\n\r\n",
        &["400"],
    ),
    (
        "a host with a user",
        "GET /small HTTP/1.1\r\nHost: u@h\r\nConnection: close\r\n\r\n",
        &["400"],
    ),
    (
        "a host beyond ASCII",
        "GET /small HTTP/1.1\r\nHost: m\u{fc}nchen\r\nConnection: close\r\n\r\n",
        &["400"],
    ),
    (
        "a malformed host beside a target that names another",
        "GET http://h/small HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n",
        &["400"],
    ),
    (
        "a chunked body in HTTP/1.0",
        "GET /small HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        &["400", "200"],
    ),
];

/// Invalid chunks. The body has no meaning for GET, and must not become a request.
const CHUNKS: &[&str] = &[
    "zz\r\n",
    "-1\r\n\r\n",
    "0x4\r\nabcd\r\n0\r\n\r\n",
    "ffffffffffffffffff\r\n",
    "4 \rabcd\r\n",
    "4\r\nabcdX\r\n0\r\n\r\n",
    "4;a=\"\r\nabcd\r\n",
];

fn statuses(answer: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(answer);
    let heads = text.split("HTTP/1.").skip(1);
    heads
        .filter_map(|head| head.split(' ').nth(1).map(str::to_owned))
        .collect()
}

async fn answers(target: &Target, request: &str) -> Vec<String> {
    let mut stream = connect(target).await;
    let _ = send(&mut stream, request.as_bytes()).await;
    statuses(&rest(&mut stream).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_hides_in_another() {
    let target = Target::start().await;
    for (what, head, allowed) in ROWS {
        let found = answers(&target, &format!("{head}{HIDDEN}")).await;
        println!("{what}: {found:?}");
        assert_eq!(found.len(), 1, "{what}: {found:?}");
        assert!(allowed.contains(&found[0].as_str()), "{what}: {found:?}");
    }
    for chunk in CHUNKS {
        let head = "GET /small HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        let found = answers(&target, &format!("{head}{chunk}{HIDDEN}")).await;
        println!("{chunk:?}: {found:?}");
        assert!(found.len() <= 1, "{chunk:?}: {found:?}");
    }
    // A bare LF ends a line, for us and for a proxy before us (RFC 9112, 2.2). The length cuts the body.
    let request = "GET /small HTTP/1.1\nHost: h\nContent-Length: 4\nConnection: close\n\nabcd";
    assert_eq!(answers(&target, request).await, ["200"]);
}
