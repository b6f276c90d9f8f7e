//! The client's address, as the headers of proxies name it, and the networks that it opens.

use tidegate_access::Rules;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{behind_proxy, route};
use crate::gateway::Gateway;

/// Sends a request's target and header lines as they are, and returns the status of the answer.
async fn raw(gateway: &Gateway, target: &str, lines: &[u8]) -> String {
    let mut client = gateway.connect().await;
    let begin = format!("GET {target} HTTP/1.1\r\nconnection: close\r\n");
    let head = [begin.as_bytes(), lines, b"\r\n"].concat();
    client.write_all(&head).await.expect("sent");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.expect("an answer");
    String::from_utf8_lossy(&answer[9..12]).into_owned()
}

#[tokio::test]
async fn an_address_that_cannot_be_read_lends_no_client_that_of_the_proxy() {
    let loopback = Rules {
        networks: vec!["127.0.0.0/8".parse().expect("a network")],
        ..Rules::default()
    };
    let gateway = Gateway::with(vec![route("/private/", loopback)], behind_proxy()).await;
    gateway.origin.put("k", "bytes");
    let rows: [(&[u8], &str); 13] = [
        // A player on the machine of the gateway.
        (b"", "200"),
        (b"x-forwarded-for: 127.0.0.1\r\n", "200"),
        (b"x-forwarded-for: 127.0.0.2:4711\r\n", "200"),
        (b"x-forwarded-for: [::ffff:127.0.0.2]:4711\r\n", "200"),
        (b"x-forwarded-for: 192.0.2.1\r\n", "403"),
        (b"x-forwarded-for: 192.0.2.1\xff\r\n", "403"),
        (b"x-forwarded-for: \xc3\xbc, 192.0.2.1\r\n", "403"),
        (b"x-forwarded-for: \xff\r\n", "403"),
        (b"x-forwarded-for: unknown\r\n", "403"),
        (b"x-forwarded-for:\r\n", "403"),
        (b"forwarded: for=192.0.2.1\r\n", "403"),
        (b"x-real-ip: 192.0.2.1\r\n", "403"),
        (b"via: 1.1 proxy\r\n", "403"),
    ];
    for (lines, expected) in rows {
        let lines = [b"host: a\r\n", lines].concat();
        let found = raw(&gateway, "/private/k", &lines).await;
        assert_eq!(found, expected, "{}", lines.escape_ascii());
    }
    gateway.end().await;
}
