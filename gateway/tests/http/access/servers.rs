//! Accesses that others decide on: JWTs whose keys are fetched, and a server of the operator's.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use tidegate_access::{Access, JwtRules, Rules};
use tidegate_auth::{AuthServer, AuthSettings, JwksLocation, KeySource, Metrics};
use tidegate_http::{RouteAccess, RouteSettings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{ALICE, Referers, asked, behind_proxy, refused, rules};
use crate::gateway::{Gateway, status};

/// An RSA key, and a token that `openssl dgst -sha256 -sign` has signed: for `/m/`, by `https://id.example`, for `media`.
const RSA_MODULUS: &str = "yViW-8uk3qZJVOdlz3WdfqJ0cwS4gmRmwhwVpZKOV5IIqpYAOl7N0anrPB3PJHsH9uwybmxeaO9FNPf0_cvChSOIWbU6CyC_bauMUS-wtmPpNSV7XnAH4tVY35flXONOvmVsJlrQyFpqf2jLkI6Lp6Jo0-quLkovlrIUZnuswxJW85NnAo-Dx6IHQccczNJZu77AQdqwepJMzb-uDaY4J6y-Fk4LyW1dHE7AZvDBSeh4MAIhO89sBDV6STghd7AStu62Itj2yDP4_BiYpFvDXMUp1xUihw4_03-71JBqvLGGsYKdPeWC17v66MdzHR7iE1n6yORHjMYv9Y91vy8kWw";
const RSA_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InIxIn0.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJtZWRpYSIsInN1YiI6ImFsaWNlIiwiZXhwIjoyMDAwMDAwMDAwLCJwYXRocyI6WyIvbS8iXX0.fDEcczRNE_T5cHeCElGeglb7OLJ21dEO2cDnUyPrLRZYDCIwxpNVeimZHyPtlZNd2fMU-LIWEkQmR-c_7w9eA2ph9ReiNK00-R73jhflzNIATxx8Uo5SSqG51CaoQGdSNZSj6JWo6nBNK7n0xl4jzvijI6nRuiYLsjopZrIFsuNQrLSZym8JG-gHcgvpg6PFdlgRhpqoYxiWf3ANfysGg5SghcYAB2H3yHNBM1CpqAFiCxkYevP4yQe26uX6Rn3BZfie0PON7otpRJs-n4CGC1BuEDpA2VKLBvmxxjERqGlPgTRJCgmxYYx-8dD_xmhUWpiwCZIGktaH_iIIBqNYYw";

/// A server whose answers `answer` makes of the heads of requests.
struct Desk {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Desk {
    async fn start(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let answer = Arc::new(answer);
        let kept = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (kept, answer) = (Arc::clone(&kept), answer.clone());
                tokio::spawn(async move {
                    let mut head = String::new();
                    while let Ok(byte) = stream.read_u8().await {
                        head.push(char::from(byte));
                        if head.ends_with("\r\n\r\n") {
                            let said = answer(&head);
                            kept.lock().expect("whole").push(head);
                            head = String::new();
                            let sent = stream.write_all(said.as_bytes()).await;
                            sent.expect("it listens");
                        }
                    }
                });
            }
        });
        Self { address, seen }
    }

    fn asked(&self) -> usize {
        self.seen.lock().expect("whole").len()
    }
}

/// Answers by the cookie of a request.
fn by_cookie(head: &str) -> String {
    let line = match head {
        _ if head.contains("session=good") => "204 Here\r\ncache-control: max-age=60",
        _ if head.contains("session=bad") => "403 Forbidden",
        _ if head.contains("session=odd") => "302 Found\r\nlocation: /login",
        _ => "401 Unauthorized\r\nwww-authenticate: Basic realm=\"desk\"",
    };
    format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\n\r\n")
}

/// Returns a private route that also asks this server.
fn asking(desk: &Desk, rules: Rules) -> RouteSettings {
    let settings = AuthSettings {
        uri: format!("http://{}/auth", desk.address)
            .parse()
            .expect("a URL"),
        timeout: Duration::from_secs(5),
        entries: 100,
    };
    let server = AuthServer::new("desk", settings, &Metrics::default());
    let rules = Access::new(Rules {
        auth_request: true,
        ..rules
    });
    RouteSettings {
        path: "/private/".into(),
        access: Some(RouteAccess {
            server: Some(Arc::new(server.expect("a client"))),
            ..RouteAccess::new(rules)
        }),
        ..RouteSettings::default()
    }
}

#[tokio::test]
async fn a_server_admits_and_refuses_and_its_challenge_is_passed_on() {
    let desk = Desk::start(by_cookie).await;
    let route = asking(&desk, Rules::default());
    let gateway = Gateway::with(vec![route], behind_proxy()).await;
    gateway.origin.put("k", "bytes");
    for (cookie, expected, reason, challenge) in [
        (None, 401, "denied", "Basic realm=\"desk\""),
        (Some("session=bad"), 403, "denied", ""),
        (Some("session=odd"), 503, "unanswered", ""),
    ] {
        let headers: Vec<_> = cookie
            .map(|cookie| ("cookie", cookie))
            .into_iter()
            .collect();
        let headers = &headers[..];
        for method in [Method::GET, Method::HEAD] {
            let before = (refused(&gateway, reason), desk.asked());
            let got = gateway.ask(method, "/private/k", headers).await;
            assert_eq!(status(&got), expected, "{headers:?}");
            assert_eq!(got.header("www-authenticate"), challenge);
            let detail = format!("tidegate; detail=access-{reason}");
            assert_eq!(got.header("cache-status"), detail);
            assert_eq!(got.header("cache-control"), "no-store");
            assert_eq!(refused(&gateway, reason), before.0 + 1);
            assert_eq!(desk.asked(), before.1 + 1);
        }
    }
    assert_eq!(asked(&gateway), 0);
    let before = desk.asked();
    for _ in 0..3 {
        let got = gateway
            .get("/private/k", &[("cookie", "session=good")])
            .await;
        assert_eq!((status(&got), &got.bytes()[..]), (200, &b"bytes"[..]));
        assert_eq!(got.header("cache-control"), "private");
    }
    assert_eq!((asked(&gateway), desk.asked()), (1, before + 1));
    // The answer was for this path, this address and these credentials.
    for (path, from, cookie) in [
        ("/private/k?a", "192.0.2.1", "session=good"),
        ("/private/k", "192.0.2.2", "session=good"),
        ("/private/k", "192.0.2.1", "session=good; a=b"),
    ] {
        let before = desk.asked();
        let headers = [("x-forwarded-for", from), ("cookie", cookie)];
        assert_eq!(status(&gateway.get(path, &headers).await), 200);
        assert_eq!(desk.asked(), before + 1, "{path} {from} {cookie}");
    }
    assert_eq!(asked(&gateway), 1);
    gateway.end().await;
}

#[tokio::test]
async fn a_server_is_asked_about_what_nothing_else_decides() {
    let desk = Desk::start(by_cookie).await;
    let only = Rules {
        referers: Some(Referers::new(["none"]).expect("rules")),
        ..rules()
    };
    let gateway = Gateway::with(vec![asking(&desk, only)], behind_proxy()).await;
    gateway.origin.put("k", "bytes");
    let good = ("cookie", "session=good");
    for (headers, expected, asks) in [
        (&[ALICE][..], 200, 0),
        (&[("x-forwarded-for", "10.0.0.1")], 200, 0),
        (&[("referer", "https://example.org/"), good], 403, 0),
        (&[("authorization", "Bearer wrong"), good], 200, 1),
        (&[("authorization", "Bearer wrong")], 401, 1),
    ] {
        let before = desk.asked();
        let got = gateway.get("/private/k", headers).await;
        assert_eq!(status(&got), expected, "{headers:?}");
        assert_eq!(desk.asked(), before + asks, "{headers:?}");
    }
    gateway.end().await;
}

/// The path that the server judges is the one that is served: without a segment in the form of a signature.
#[tokio::test]
async fn a_server_is_asked_about_the_path_that_is_served() {
    let desk = Desk::start(|head: &str| {
        let line = match head.contains("x-original-uri: /private/secret/") {
            true => "403 Forbidden",
            false => "204 Here",
        };
        format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\n\r\n")
    })
    .await;
    let gateway = Gateway::with(vec![asking(&desk, rules())], behind_proxy()).await;
    gateway.origin.put("secret/f", "bytes");
    gateway.origin.put("open/f", "bytes");
    let signature = super::key().sign_prefix("/elsewhere/", super::NOW + 100);
    let forged = signature.replace("signature=", "signature=AA");
    for (path, expected) in [
        ("/private/secret/f", 403),
        (&*format!("/private/{signature}/secret/f"), 403),
        (&*format!("/private/{forged}/secret/f?x=y"), 403),
        (&*format!("/private/{signature}/open/f"), 200),
    ] {
        assert_eq!(status(&gateway.get(path, &[]).await), expected, "{path}");
    }
    let seen = desk.seen.lock().expect("whole").concat();
    assert!(
        seen.contains("x-original-uri: /private/open/f\r\n"),
        "{seen}"
    );
    assert!(seen.contains("/private/secret/f?x=y\r\n"), "{seen}");
    gateway.end().await;
}

#[tokio::test]
async fn a_hidden_route_tells_nothing_of_its_server() {
    let desk = Desk::start(by_cookie).await;
    let mut route = asking(&desk, Rules::default());
    if let Some(access) = &mut route.access {
        access.hide = true;
    }
    let gateway = Gateway::with(vec![route], behind_proxy()).await;
    gateway.origin.put("k", "bytes");
    for cookie in ["session=none", "session=bad", "session=odd"] {
        let got = gateway.get("/private/k", &[("cookie", cookie)]).await;
        assert_eq!(status(&got), 404);
        assert_eq!(got.header("www-authenticate"), "");
        assert_eq!(got.header("cache-status"), "");
    }
    let got = gateway
        .get("/private/k", &[("cookie", "session=good")])
        .await;
    assert_eq!(status(&got), 200);
    gateway.end().await;
}

/// Starts a server of a key set with one key.
async fn key_server() -> Desk {
    Desk::start(|_| {
        let key = format!(r#"{{"kty":"RSA","kid":"r1","n":"{RSA_MODULUS}","e":"AQAB"}}"#);
        let set = format!("{{\"keys\":[{key}]}}");
        format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{set}",
            set.len()
        )
    })
    .await
}

/// Returns an access that admits JWTs by the keys of a server.
fn jwt_access(desk: &Desk) -> RouteAccess {
    let uri = format!("http://{}/jwks.json", desk.address);
    let location = JwksLocation::Url(uri.parse().expect("a URL"), Duration::from_secs(300));
    let source = KeySource::new("jwt", location, &Metrics::default()).expect("a client");
    source.apply(source.prepare(None).expect("no file"));
    let rules = Access::new(Rules {
        jwt: Some(JwtRules {
            keys: source.keys(),
            issuer: Some("https://id.example".into()),
            audience: Some("media".into()),
            prefixes: Some("paths".into()),
            cookie: Some("session".into()),
            query: Some("token".into()),
            skew: Duration::from_secs(60),
        }),
        ..Rules::default()
    });
    RouteAccess {
        keys: Some(Arc::new(source)),
        ..RouteAccess::new(rules)
    }
}

#[tokio::test]
async fn a_jwt_admits_with_keys_that_are_fetched() {
    let desk = key_server().await;
    let access = Some(jwt_access(&desk));
    let route = |path: &str| RouteSettings {
        path: path.into(),
        access: access.clone(),
        ..RouteSettings::default()
    };
    let gateway = Gateway::with(vec![route("/m/"), route("/n/")], behind_proxy()).await;
    gateway.origin.put("k", "bytes");
    let bearer = format!("Bearer {RSA_TOKEN}");
    let forged = format!("{bearer}AAAA");
    // {"alg":"RS256","kid":"r2"}
    let unknown = format!(
        "Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6InIyIn0.{}",
        &RSA_TOKEN[36..]
    );
    let cookie = format!("session={RSA_TOKEN}");
    let query = format!("/m/k?token={RSA_TOKEN}");
    for (path, name, value, reason) in [
        ("/m/k", "accept", "*/*", Some("missing")),
        ("/m/k", "authorization", &*bearer, None),
        ("/m/k", "cookie", &*cookie, None),
        (&*query, "accept", "*/*", None),
        ("/m/k", "authorization", &*forged, Some("signature")),
        ("/m/k", "authorization", &*unknown, Some("key")),
        ("/m/k", "authorization", "Bearer x", Some("token")),
        ("/n/k", "authorization", &*bearer, Some("prefix")),
    ] {
        let got = gateway.get(path, &[(name, value)]).await;
        let Some(reason) = reason else {
            assert_eq!(status(&got), 200, "{path} {name}");
            continue;
        };
        assert_eq!(status(&got), 401, "{reason}");
        let detail = format!("tidegate; detail=access-{reason}");
        assert_eq!(got.header("cache-status"), detail);
        assert_eq!(got.header("www-authenticate"), "Bearer realm=\"tidegate\"");
        assert!(refused(&gateway, reason) > 0, "{reason}");
    }
    assert_eq!((asked(&gateway), desk.asked()), (1, 1));
    gateway.later(Duration::from_secs(200_000_060));
    let got = gateway.get("/m/k", &[("authorization", &bearer)]).await;
    assert_eq!(
        got.header("cache-status"),
        "tidegate; detail=access-expired"
    );
    gateway.end().await;
}
