use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::*;
use crate::fake_server::{FakeServer, Says};

mod bounds;

fn question(headers: &HeaderMap) -> Question<'_> {
    Question {
        method: &Method::GET,
        scheme: "https",
        host: "media.example",
        target: "/private/a?b=c",
        client: Some([192, 0, 2, 1].into()),
        headers,
    }
}

fn of(question: &Question<'_>) -> Digest {
    digest(&lines(question).expect("headers"))
}

#[test]
fn each_part_of_a_question_counts() {
    let mut headers = HeaderMap::new();
    headers.append(COOKIE, HeaderValue::from_static("a=b"));
    headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
    headers.append("accept", HeaderValue::from_static("text/html"));
    let asked = question(&headers);
    let none = HeaderMap::new();
    let mut split = HeaderMap::new();
    split.append(COOKIE, HeaderValue::from_static("a=b"));
    split.append(COOKIE, HeaderValue::from_static("c=d"));
    split.append(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
    let others = [
        Question {
            method: &Method::HEAD,
            ..asked
        },
        Question {
            scheme: "http",
            ..asked
        },
        Question {
            host: "media.example:8080",
            ..asked
        },
        Question {
            target: "/private/a?b=d",
            ..asked
        },
        Question {
            client: Some([192, 0, 2, 2].into()),
            ..asked
        },
        Question {
            client: None,
            ..asked
        },
        question(&none),
        question(&split),
    ];
    for other in &others {
        assert_ne!(of(other), of(&asked), "{other:?}");
    }
    headers.insert("accept", HeaderValue::from_static("*/*"));
    assert_eq!(of(&question(&headers)), of(&question(&headers.clone())));
    // As browsers split them over HTTP/2.
    headers.insert(COOKIE, HeaderValue::from_static("a=b; c=d"));
    assert_eq!(of(&question(&headers)), of(&question(&split)));
    let sent = lines(&question(&split)).expect("headers");
    let sent: Vec<_> = sent.iter().filter(|(name, _)| *name == COOKIE).collect();
    assert_eq!(sent, [&(COOKIE, HeaderValue::from_static("a=b; c=d"))]);
    let bad = Question {
        host: "a\r\nb",
        ..question(&headers)
    };
    assert!(lines(&bad).is_none());
}

#[test]
fn an_answer_is_kept_for_as_long_as_it_says() {
    let kept = |lines: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(CACHE_CONTROL, HeaderValue::from_static(line));
        }
        max_age(&headers).map(|time| time.as_secs())
    };
    for (lines, seconds) in [
        (&[][..], None),
        (&["max-age=60"], Some(60)),
        (&["private, Max-Age = 60"], Some(60)),
        (&["max-age=\"60\""], Some(60)),
        (&["max-age=60", "max-age=5"], Some(5)),
        (&["max-age=0"], None),
        (&["max-age=-1"], None),
        (&["max-age=60, no-store"], None),
        (&["no-cache", "max-age=60"], None),
        (&["public"], None),
        (&["max-age=99999999"], Some(3600)),
        (&["max-age=99999999999999999999999"], Some(3600)),
    ] {
        assert_eq!(kept(lines), seconds, "{lines:?}");
    }
}

#[test]
fn an_answer_admits_refuses_or_fails() {
    let judged = |status: u16, challenges: &[&str]| {
        let mut answer = http::Response::new(());
        *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
        for text in challenges {
            let value = HeaderValue::from_str(text).expect("a value");
            answer.headers_mut().append(WWW_AUTHENTICATE, value);
        }
        judge(&answer.into_parts().0)
    };
    for status in [200, 204, 299] {
        assert_eq!(judged(status, &[]), Answer::Admitted);
    }
    for status in [301, 302, 400, 404, 407, 429, 500, 503] {
        assert_eq!(judged(status, &["Basic"]), Answer::Failed, "{status}");
    }
    assert_eq!(judged(403, &["Basic"]), Answer::Forbidden);
    let long = "x".repeat(MAX_CHALLENGES);
    let value = HeaderValue::from_static("Basic realm=\"a\"");
    let basic = "Basic realm=\"a\"";
    assert_eq!(
        judged(401, &[basic, &long]),
        Answer::Unauthorized(vec![value])
    );
    assert_eq!(judged(401, &[]), Answer::Unauthorized(vec![]));
}

/// Returns a client's `Cookie`.
fn cookie(text: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(text))])
}

fn server(fake: &FakeServer) -> Arc<AuthServer> {
    let settings = AuthSettings {
        uri: fake.url("/auth?x=1"),
        timeout: Duration::from_secs(300),
        entries: 16,
    };
    let made = AuthServer::new("members", settings, &Metrics::default());
    let server = Arc::new(made.expect("a client"));
    server.apply();
    server
}

fn counters(server: &AuthServer) -> &Counters {
    server.counters.get().expect("in force")
}

#[tokio::test]
async fn questions_are_counted_from_when_the_server_is_in_force() {
    let (metrics, mut registry) = (Metrics::default(), Registry::default());
    metrics.register(&mut registry);
    let samples = || {
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.map(str::to_owned).collect::<Vec<_>>()
    };
    let fake = FakeServer::start(Says::status("204 No Content")).await;
    let settings = AuthSettings {
        uri: fake.url("/"),
        timeout: Duration::from_secs(300),
        entries: 16,
    };
    let made = AuthServer::new("members", settings, &metrics);
    let server = Arc::new(made.expect("a client"));
    assert_eq!(samples(), [""; 0], "its configuration may be refused");
    server.apply();
    assert_eq!(samples().len(), 5);
    assert_eq!(
        server.ask(&question(&cookie("a=b"))).await,
        Answer::Admitted
    );
    let admitted = r#"auth_requests_total{access="members",result="admitted"} 1"#;
    assert!(
        samples().iter().any(|line| line.ends_with(admitted)),
        "{:?}",
        samples()
    );
    metrics.forget_server("members");
    assert_eq!(
        server.ask(&question(&cookie("c=d"))).await,
        Answer::Admitted
    );
    assert_eq!(samples(), [""; 0]);
}

#[tokio::test]
async fn a_sub_request_has_the_credentials_and_the_request_that_they_came_with() {
    let fake = FakeServer::start(Says::status("204 No Content")).await;
    let mut headers = cookie("session=1");
    headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
    headers.append("range", HeaderValue::from_static("bytes=0-1"));
    let answer = server(&fake).ask(&question(&headers)).await;
    assert_eq!(answer, Answer::Admitted);
    let head = fake.seen().remove(0).to_ascii_lowercase();
    assert!(head.starts_with("get /auth?x=1 http/1.1\r\n"), "{head}");
    for line in [
        &format!("host: {}", fake.url("/").authority().expect("one")),
        "x-original-uri: /private/a?b=c",
        "x-original-url: https://media.example/private/a?b=c",
        "x-original-method: get",
        "x-forwarded-for: 192.0.2.1",
        "x-forwarded-proto: https",
        "x-forwarded-host: media.example",
        "x-forwarded-uri: /private/a?b=c",
        "authorization: bearer x",
        "cookie: session=1",
    ] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}\n{head}");
    }
    assert!(!head.contains("range"), "{head}");
    assert_eq!(head.matches("\r\nhost: ").count(), 1, "{head}");
}

#[tokio::test]
async fn requests_at_the_same_time_share_one_sub_request() {
    let fake = FakeServer::start(Says::status("204 No Content")).await;
    let taken = fake.gate.acquire_many(1000).await.expect("open");
    taken.forget();
    let server = server(&fake);
    let (one, other) = (cookie("a=1"), cookie("a=2"));
    let release = async {
        // All of them are under way once both sub-requests have come.
        while fake.seen().len() < 2 {
            tokio::task::yield_now().await;
        }
        fake.gate.add_permits(2);
    };
    let (one, other) = (question(&one), question(&other));
    let questions = (0..50).map(|nth| server.ask(if nth % 2 == 0 { &one } else { &other }));
    let (answers, ()) =
        futures_util::future::join(futures_util::future::join_all(questions), release).await;
    assert!(answers.iter().all(|answer| *answer == Answer::Admitted));
    assert_eq!(fake.seen().len(), 2);
    assert_eq!(counters(&server).shared.get(), 48);
    // It was not said that they may be kept.
    fake.gate.add_permits(1);
    assert_eq!(server.ask(&one).await, Answer::Admitted);
    assert_eq!(fake.seen().len(), 3);
    assert!(server.flights.lock().recover().is_empty());
}

#[tokio::test]
async fn an_answer_is_kept_for_its_time_and_for_these_credentials() {
    let kept = "\r\ncache-control: private, max-age=60";
    for (status, expected) in [
        ("200 OK", Answer::Admitted),
        ("403 Forbidden", Answer::Forbidden),
        ("401 Unauthorized", Answer::Unauthorized(vec![])),
    ] {
        let fake = FakeServer::start(Says::status(&format!("{status}{kept}"))).await;
        let server = server(&fake);
        let (one, other) = (cookie("a=1"), cookie("a=2"));
        for _ in 0..3 {
            assert_eq!(server.ask(&question(&one)).await, expected);
        }
        assert_eq!(fake.seen().len(), 1, "{status}");
        assert_eq!(server.ask(&question(&other)).await, expected);
        assert_eq!(fake.seen().len(), 2, "{status}");
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(60)).await;
        tokio::time::resume();
        assert_eq!(server.ask(&question(&one)).await, expected);
        assert_eq!(fake.seen().len(), 3, "{status}");
    }
}

#[tokio::test]
async fn an_answer_that_neither_admits_nor_refuses_is_a_failure_and_not_kept() {
    let kept = "\r\ncache-control: max-age=60";
    let inside = FakeServer::start(Says::status("200 OK")).await;
    let redirect = format!("302 Found{kept}\r\nlocation: {}", inside.url("/"));
    for says in [
        Says::status(&redirect),
        Says::status(&format!("500 Oops{kept}")),
        Says::status(&format!("404 Not Found{kept}")),
        Says::Endless("HTTP/1.1 200 OK\r\n", "x-a: b\r\n"),
        Says::Endless("SSH-2.0\r\n", "\r\n"),
    ] {
        let fake = FakeServer::start(says.clone()).await;
        let server = server(&fake);
        let headers = cookie("a=1");
        for asked in 1..=2 {
            let answer = server.ask(&question(&headers)).await;
            assert_eq!(answer, Answer::Failed, "{says:?}");
            assert_eq!(fake.seen().len(), asked, "{says:?}");
        }
        assert_eq!(counters(&server).failed.get(), 2);
    }
    assert_eq!(inside.seen().len(), 0, "no redirect is followed");
}
