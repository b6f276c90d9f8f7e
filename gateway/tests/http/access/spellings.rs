//! Spellings of a request that say the same: of its path, and over HTTP/2.

use http::Method;
use tidegate_http::RouteSettings;
use tidegate_plan::Token;

use super::{ALICE, Headers, NOW, asked, behind_proxy, key, private, route, rules};
use crate::gateway::{Gateway, status};
use crate::write::TOKEN;

/// MinIO and others leave empty segments out of a key, and would give what the other route protects.
#[tokio::test]
async fn an_empty_segment_leads_past_no_access() {
    let open = |path: &str| RouteSettings {
        path: path.into(),
        write_token: Token::new("s3cret"),
        ..RouteSettings::default()
    };
    let routes = vec![
        open("/"),
        open("/x/"),
        route("/private/", rules()),
        route("/x/private/", rules()),
    ];
    let gateway = Gateway::with(routes, behind_proxy()).await;
    for key in [
        "/private/k",
        "//private/k",
        "private/k",
        "/private//k",
        "private//k",
        "/k",
        "k",
    ] {
        gateway.origin.put(key, "bytes");
    }
    for path in [
        "//private/k",
        "/%2Fprivate/k",
        "///private/k",
        "//%70rivate/k",
        "/%2f%2Fprivate//k",
        "/x//private/k",
        "/x/%2fprivate/k",
    ] {
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE] {
            let got = gateway.ask(method.clone(), path, &[TOKEN]).await;
            assert_eq!(status(&got), 404, "{method} {path}");
        }
    }
    assert_eq!(asked(&gateway), 0);
    let got = gateway.get("/private//k", &[ALICE]).await;
    assert_eq!(
        status(&got),
        404,
        "a key of its own, which begins with a slash"
    );
    let got = gateway.get("/x/private/k", &[]).await;
    assert_eq!(status(&got), 401);
    gateway.end().await;
}

/// Browsers split cookies over HTTP/2 (RFC 9113, 8.2.3), and name the host in `:authority`.
#[tokio::test]
async fn each_way_in_counts_over_http_2() {
    let gateway = private(rules()).await;
    let folder = key().sign_prefix("/private/book/", NOW + 100);
    let mut sender = gateway.connect_h2().await;
    let cookie = format!("tidegate={folder}");
    let path = "/private/book/1.ts";
    let rows: [(&str, Headers<'_>, u16); 5] = [
        (path, &[ALICE], 200),
        (
            path,
            &[("cookie", "a=b"), ("cookie", &cookie), ("cookie", "c=d")],
            200,
        ),
        (&format!("{path}?{folder}"), &[], 200),
        (path, &[("cookie", "a=b")], 401),
        (path, &[("host", "other.example"), ALICE], 200),
    ];
    for (path, headers, expected) in rows {
        let mut request = http::Request::get(format!("http://media.example{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        sender = sender.ready().await.expect("a stream");
        let request = request.body(()).expect("a request");
        let (answer, _) = sender.send_request(request, true).expect("sent");
        let answer = answer.await.expect("an answer");
        assert_eq!(answer.status(), expected, "{path} {headers:?}");
    }
    gateway.end().await;
}
