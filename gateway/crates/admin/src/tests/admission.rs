//! Requests from other hosts and without the right token change and show nothing.

use super::*;

/// A name that resolves to this listener today may have been another site's page a moment ago.
#[tokio::test]
async fn only_hosts_of_ours_are_told_of_objects() {
    let t = start(Some("s3cret")).await;
    let lines = [
        "GET /stat?path=/a",
        "GET /pending",
        "GET /cache",
        "GET /pins",
        "GET /routes",
        "POST /purge?path=/a",
        "GET /nothing",
    ];
    for line in lines {
        let foreign = format!("host: evil.example\r\n{TOKEN}");
        assert_eq!(t.status(line, &foreign, "").await, 403, "{line}");
        let page = format!("host: localhost\r\norigin: http://evil.example\r\n{TOKEN}");
        assert_eq!(t.status(line, &page, "").await, 403, "{line}");
        assert_ne!(t.status(line, TOKEN, "").await, 403, "{line}");
    }
    assert_eq!(t.purged().len(), 1);
    for line in ["GET /healthz", "GET /readyz", "GET /metrics"] {
        let status = t.status(line, "host: evil.example\r\n", "").await;
        assert_eq!(status, 200, "{line}");
    }
}

#[tokio::test]
async fn nothing_changes_without_the_right_token() {
    let purge = "POST /purge?path=/a";
    let t = start(None).await;
    assert_eq!(t.status(purge, TOKEN, "").await, 403);
    assert_eq!(t.purged(), []);

    let t = start(Some("s3cret")).await;
    for header in [
        "",
        "authorization: Bearer s3cre\r\n",
        "authorization: Bearer s3crett\r\n",
        "authorization: Bearer \r\n",
        "authorization: Basic s3cret\r\n",
    ] {
        let answer = t.ask(purge, header, "").await;
        assert_eq!(status(&answer), 401, "{header}");
        assert!(
            answer.contains("\r\nwww-authenticate: bearer realm="),
            "{answer}"
        );
    }
    assert_eq!(t.purged(), []);
    assert_eq!(t.status(purge, TOKEN, "").await, 200);
    assert_eq!(t.purged().len(), 1);
}
