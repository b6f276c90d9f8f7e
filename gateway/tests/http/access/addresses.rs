//! The client's address, as the headers of proxies name it, and the networks that it opens.

use http::Method;
use tidegate_access::{Rules, SigningKey};
use tidegate_http::{RouteSettings, Settings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{NOW, behind_proxy, key, route};
use crate::gateway::{Gateway, status};

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

#[tokio::test]
async fn a_link_is_looked_up_on_the_host_of_its_request() {
    let keys = |id: &str| Rules {
        keys: vec![SigningKey::new(id, "the secret of k1").expect("a key")],
        ..Rules::default()
    };
    let own = RouteSettings {
        host: Some("a.example".into()),
        ..route("/private/", keys("k1"))
    };
    let routes = vec![own, route("/private/", keys("k2"))];
    let gateway = Gateway::with(routes, Settings::default()).await;
    gateway.origin.put("k", "bytes");
    let link = format!("/private/{}/k", key().sign_prefix("/private/", NOW + 100));
    let got = gateway
        .ask(Method::GET, &link, &[("host", "a.example")])
        .await;
    assert_eq!(status(&got), 200);
    for authority in ["a.example", "a.example:80", "user@a.example"] {
        let target = format!("http://{authority}{link}");
        let found = raw(&gateway, &target, b"host: a.example\r\n").await;
        assert_eq!(found, "200", "{authority}");
    }
    gateway.end().await;
}
