//! The real program with a private route: links that its own command makes, its log, and what its bucket is sent.

use std::process::Command;
use std::sync::{Arc, Mutex};

#[path = "access/configured.rs"]
mod configured;
#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites shut it")]
mod door;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/mount.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod mount;
#[path = "support/ports.rs"]
mod ports;
#[path = "access/server.rs"]
mod server;
#[path = "support/serving.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod serving;
#[path = "support/world.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod world;

use gateway::{Whole, ask};
use http::Method;
use server::{Server, answer};
use serving::Serving;

const TOKEN: &str = "t0ken-of-alice-here";
const SECRET: &str = "secret-of-the-first-key";

/// The secret of a JWT, and the JWT, which `openssl dgst -sha256 -hmac` has signed.
const JWT_SECRET: &str = "shared-secret-of-the-issuer-0123456789";
const JWT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYXJvbC1vZi10aGUtand0IiwiZXhwIjo0MTAyNDQ0ODAwfQ.tyQB65kp0E7XO3fvnFZH_4puZLtFl3TSbxXU8xH0j1U";

/// The cookie that the server of `auth_request` admits.
const COOKIE: &str = "session=s3ss10n-of-dave";

/// Starts a server that admits [`COOKIE`] alone.
async fn auth_server() -> Server {
    Server::start(|head| match head.contains(COOKIE) {
        true => answer("204 Here", ""),
        false => answer("403 Forbidden", ""),
    })
    .await
}

/// Starts a bucket that is there, has no object, and keeps the head of each request as it came.
async fn bucket() -> (String, Arc<Mutex<String>>) {
    let seen = Arc::new(Mutex::new(String::new()));
    let kept = seen.clone();
    let server = Server::start(move |head| {
        kept.lock().expect("whole").push_str(head);
        match head.starts_with("HEAD /b") {
            true => answer("200 OK", ""),
            false => answer("404 Not Found", "<Error><Code>NoSuchKey</Code></Error>"),
        }
    });
    (server.await.url(""), seen)
}

fn configuration(endpoint: &str, server: &str) -> String {
    format!(
        "[admin]\n[log]\naccess = true\nlevel = \"debug\"\n\
         [[origin]]\nname = \"o\"\nbucket = \"b\"\nendpoint = \"{endpoint}\"\npath_style = true\n\
         access_key_id = \"id\"\nsecret_access_key = \"the bucket's own\"\n\
         [[route]]\norigin = \"o\"\npath = \"/private/\"\naccess = \"members\"\n\
         [access.members]\ntokens = {{ alice = \"{TOKEN}\" }}\nsigned = {{ keys = {{ k1 = \"{SECRET}\" }} }}\n\
         [[route]]\norigin = \"o\"\npath = \"/jwt/\"\naccess = \"jwt\"\n\
         [access.jwt]\njwt = {{ secret = \"{JWT_SECRET}\", cookie = \"jwt\" }}\n\
         [[route]]\norigin = \"o\"\npath = \"/desk/\"\naccess = \"desk\"\n\
         [access.desk]\nauth_request = \"{server}\"\n"
    )
}

/// Returns the lines that `tidegate sign` prints.
fn sign(config: &str, line: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tidegate.toml");
    std::fs::write(&path, config).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["sign", "--expires", "1h", "--config"]);
    let output = command.arg(path).args(line).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(str::to_owned).collect()
}

/// The links that the command makes.
struct Links {
    folder: String,
    cookie: String,
    single: String,
    /// Without scheme and host.
    presigned: String,
}

impl Links {
    fn make(config: &str, url: &str) -> Self {
        let [folder, cookie] = &sign(config, &["--prefix", "/private/book/"])[..] else {
            panic!("a link and a cookie");
        };
        let [single] = &sign(config, &["/private/book/2"])[..] else {
            panic!("a link");
        };
        let line = ["--presigned", "--url", url, "/private/book/3"];
        let [presigned] = &sign(config, &line)[..] else {
            panic!("a link");
        };
        Self {
            folder: folder.clone(),
            cookie: cookie.clone(),
            single: single.clone(),
            presigned: presigned.strip_prefix(url).expect("our host").to_owned(),
        }
    }

    /// Returns their signatures, in digits.
    fn signatures(&self) -> Vec<&str> {
        let links = [&self.cookie, &self.single, &self.presigned];
        let last = links.map(|link| link.rsplit('=').next());
        last.into_iter().flatten().collect()
    }
}

/// Parts of credentials that no log and no bucket may see.
const SECRET_PARTS: [&str; 6] = [
    "signature=",
    "X-Amz-Expires",
    "key=k1",
    TOKEN,
    SECRET,
    JWT_SECRET,
];

#[tokio::test(flavor = "multi_thread")]
async fn credentials_reach_neither_the_log_nor_the_bucket() {
    let (endpoint, seen) = bucket().await;
    let desk = auth_server().await;
    let config = configuration(&endpoint, &desk.url("/auth"));
    let mut serving = Serving::configured(&config);
    serving.start().await;
    let url = format!("http://{}", serving.http);
    let links = Links::make(&config, &url);
    let folder = |name: &str| format!("{}{name}", links.folder);
    let referer = format!("{url}{}", links.single);
    let bearer = format!("Bearer {TOKEN}");
    let cookie = ("cookie", links.cookie.as_str());
    let (jwt, jwt_cookie) = (format!("Bearer {JWT}"), format!("jwt={JWT}"));
    for (path, header, expected) in [
        (folder("1"), ("referer", &*referer), 404),
        (links.single.clone(), ("accept", "*/*"), 404),
        (links.presigned.clone(), ("accept", "*/*"), 404),
        ("/private/book/4".into(), cookie, 404),
        ("/private/book/5".into(), ("authorization", &*bearer), 404),
        ("/private/film/6".into(), cookie, 401),
        (folder("../7"), ("accept", "*/*"), 400),
        ("/private/book/8".into(), ("accept", "*/*"), 401),
        ("/jwt/a".into(), ("authorization", &*jwt), 404),
        ("/jwt/b".into(), ("cookie", &*jwt_cookie), 404),
        (format!("/jwt/c?token={JWT}"), ("accept", "*/*"), 404),
        (format!("/jwt/d?token={JWT}x"), ("accept", "*/*"), 401),
        ("/desk/e".into(), ("cookie", COOKIE), 404),
        ("/desk/f".into(), ("cookie", "session=another"), 403),
    ] {
        let got = ask(serving.http, Method::GET, &path, &[header]).await;
        assert_eq!(got.status, expected, "{path}");
    }
    let refused = serving.metric(&["tidegate_http_access_refused_total"]);
    assert_eq!(refused.await, 4);
    for (sample, expected) in [
        (
            "tidegate_access_auth_requests_total{access=\"desk\",result=\"admitted\"}",
            1,
        ),
        (
            "tidegate_access_auth_requests_total{access=\"desk\",result=\"refused\"}",
            1,
        ),
    ] {
        assert_eq!(serving.metric(&[sample]).await, expected, "{sample}");
    }
    serving.end().await;
    let (log, asked) = (serving.log(), seen.lock().expect("whole").clone());
    only_admitted_requests_ask(&asked);
    for path in ["book/1", "book/2", "book/3", "book/../7"] {
        assert!(log.contains(&format!("/private/{path}")), "{path}\n{log}");
    }
    let own = JWT
        .split('.')
        .chain(["s3ss10n", "session=another", "carol"]);
    let parts = SECRET_PARTS.into_iter().chain(own);
    for secret in links.signatures().into_iter().chain(parts) {
        assert!(!log.contains(secret), "{secret}\n{log}");
        assert!(!asked.contains(secret), "{secret}\n{asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_to_any_name_is_a_url_and_opens_it() {
    let (endpoint, seen) = bucket().await;
    let desk = auth_server().await;
    let config = configuration(&endpoint, &desk.url("/auth"));
    let mut serving = Serving::configured(&config);
    serving.start().await;
    let url = format!("http://{}", serving.http);
    // The path as it is given, the same in the link, and in the bucket.
    for (given, linked, asked) in [
        ("b\u{fc} c", "b%C3%BC%20c", "b%C3%BC%20c"),
        (
            "it's \"a\" <b>",
            "it%27s%20%22a%22%20%3Cb%3E",
            "it%27s%20%22a%22%20%3Cb%3E",
        ),
        ("100% [x]", "100%25%20%5Bx%5D", "100%25%20%5Bx%5D"),
        ("a%3Fb%23c%25d", "a%3Fb%23c%25d", "a%3Fb%23c%25d"),
        ("b%c3%bc&c", "b%c3%bc%26c", "b%C3%BC%26c"),
    ] {
        let path = format!("/private/{given}/2");
        let single = sign(&config, &["--url", &url, &path]).remove(0);
        let presigned = sign(&config, &["--presigned", "--url", &url, &path]).remove(0);
        let folder = format!("/private/{given}/");
        let folder = sign(&config, &["--prefix", "--url", &url, &folder]).remove(0);
        for link in [single, presigned, format!("{folder}2")] {
            let target = link.strip_prefix(&url).expect("our host");
            let bare = target.split('?').next().expect("a path");
            assert!(bare.ends_with(&format!("/{linked}/2")), "{link}");
            let got = ask(serving.http, Method::GET, target, &[]).await;
            assert_eq!(got.status, 404, "{link}: it is admitted");
        }
        // That it is missing is known from then on.
        let asked = format!(" /b/{asked}/2?");
        let seen = std::mem::take(&mut *seen.lock().expect("whole"));
        assert!(seen.contains(&asked), "{asked}\n{seen}");
    }
    serving.end().await;
}

/// Checks that the bucket was asked for what admitted requests mean, and for nothing else.
fn only_admitted_requests_ask(asked: &str) {
    for number in 1..=8 {
        let asks = asked.contains(&format!(" /b/book/{number}?"));
        assert_eq!(asks, number <= 5, "{number}\n{asked}");
    }
    for (key, asks) in [("a", 1), ("b", 1), ("c", 1), ("d", 0), ("e", 1), ("f", 0)] {
        let found = asked.matches(&format!(" /b/{key}?")).count();
        assert_eq!(found, asks, "{key}\n{asked}");
    }
}

/// The bucket has no object: a request that is admitted is answered 404.
#[tokio::test(flavor = "multi_thread")]
async fn server_names_are_the_hosts_of_the_accesss_routes() {
    let (endpoint, _) = bucket().await;
    let gateway = Whole::start(&format!(
        "[[origin]]\nname = \"o\"\nbucket = \"b\"\nendpoint = \"{endpoint}\"\npath_style = true\nanonymous = true\n\
         [access.pages]\nreferers = [\"server_names\"]\n\
         [[route]]\norigin = \"o\"\nhost = \"Shop.example\"\naccess = \"pages\"\n\
         [[route]]\norigin = \"o\"\nhost = \"open.example\"\n"
    ))
    .await;
    for (referer, status) in [
        ("https://shop.example/a", 404),
        ("https://open.example/a", 403),
        ("https://server_names/", 403),
    ] {
        let headers = [("host", "shop.example"), ("referer", referer)];
        let got = ask(gateway.http, Method::GET, "/k", &headers).await;
        assert_eq!(got.status, status, "{referer}");
    }
    gateway.stop().await;
}
