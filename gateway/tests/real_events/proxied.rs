//! The shipped nginx between a real MinIO and the admin listener: it passes the bucket's reports on, and nothing else.

use std::net::SocketAddr;

use http::Method;
use tempfile::TempDir;

use crate::gateway::send;
use crate::nginx::Nginx;
use crate::{
    Bucket, TOKEN, Way, free_addr, report_all, start_gateway, start_minio, wait_for_events,
    wait_for_read,
};

/// The operator's token, with which all of the admin listener is open.
const ADMIN_TOKEN: &str = "t0ken-of-the-operator";

/// Starts the shipped file in front of an admin listener, without its TLS; returns its address, too.
fn shipped(admin: SocketAddr) -> (Nginx, SocketAddr) {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/nginx/events.conf");
    let mut text = std::fs::read_to_string(file).expect("it is shipped");
    let listens = free_addr();
    for (there, here) in [
        ("listen 443 ssl;", format!("listen {listens};")),
        ("    ssl_certificate ", "    # ".to_owned()),
        ("    ssl_certificate_key ", "    # ".to_owned()),
        ("127.0.0.1:8081", admin.to_string()),
    ] {
        assert_eq!(text.matches(there).count(), 1, "{there}");
        text = text.replace(there, &here);
    }
    (Nginx::start(&text, ""), listens)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_nginx_passes_events_on_and_nothing_else() {
    let folder = TempDir::new().expect("a folder");
    let (minio_address, unused) = (free_addr().to_string(), free_addr());
    let more = format!("[admin]\ntoken = \"{ADMIN_TOKEN}\"\n");
    let gateway = start_gateway(Way::Webhook, &minio_address, unused, &folder, &more).await;
    let (_nginx, nginx) = shipped(gateway.admin);
    let (servers, queue) = ((nginx, unused), folder.path().join("queue"));
    let minio = start_minio(Way::Webhook, &minio_address, servers, &queue).await;
    let bucket = Bucket::create(&minio.settings("media")).await;
    report_all(&bucket, Way::Webhook).await;
    gateway.ready().await;
    wait_for_events(gateway.admin, 1).await;
    for body in ["first", "second"] {
        bucket.put("a b+c.txt", body).await;
        wait_for_read(gateway.http, "/a%20b+c.txt", (200, body)).await;
    }

    // A message that is longer than nginx takes by itself, and says nothing.
    let [bearer, operator] = [TOKEN, ADMIN_TOKEN].map(|token| format!("Bearer {token}"));
    let headers = [("authorization", &*bearer)];
    let long = " ".repeat(2 << 20);
    let got = send(nginx, Method::POST, "/events/bucket", &headers, &long).await;
    assert_eq!(got.status, 400, "{}", got.text());

    let headers = [("authorization", &*operator)];
    for (method, path) in [
        (Method::GET, "/"),
        (Method::GET, "/metrics"),
        (Method::GET, "//metrics"),
        (Method::GET, "/readyz"),
        (Method::GET, "/events/../metrics"),
        (Method::GET, "/events/..%2fmetrics"),
        (Method::GET, "/events/%2e%2e/metrics"),
        (Method::GET, "/metrics/../events/bucket"),
        (Method::GET, "/events/bucket"),
        (Method::GET, "/api/v1/now"),
        (Method::POST, "/reload"),
        (Method::POST, "/events/../reload"),
        (Method::POST, "/events/..%2Freload"),
        (Method::POST, "/purge?path=/k"),
        (Method::PUT, "/cache/disk"),
        (Method::PUT, "/events/bucket"),
        (Method::DELETE, "/pins?path=/k"),
    ] {
        let got = send(nginx, method.clone(), path, &headers, "").await;
        let is_refused = [403, 404].contains(&got.status);
        let is_of_nginx = got.text().contains("<center>nginx");
        assert!(is_refused && is_of_nginx, "{method} {path}: {got:?}");
    }
    // The gateway gets the path that nginx has judged: this one is a report with a wrong token.
    let path = "/reload/../events/bucket";
    let got = send(nginx, Method::POST, path, &headers, "").await;
    assert_eq!(got.status, 401, "{}", got.text());
    gateway.stop().await;
}
