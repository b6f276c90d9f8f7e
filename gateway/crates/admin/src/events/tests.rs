//! The endpoint over scripted subscriptions: `bucket` has a token, `signed` takes messages of SNS.

use std::sync::Mutex;

use axum::body::Body;
use http_body_util::BodyExt as _;
use tidegate_telemetry::locks::Recover as _;
use tokio::time::Instant;
use tower::ServiceExt as _;

use super::*;
use crate::tests::running;

const TOKEN: &str = "t0ken-of-the-bucket";

/// Records the messages, and answers with the error that stands in them.
#[derive(Default)]
pub(crate) struct Told {
    taken: Mutex<Vec<String>>,
}

impl Told {
    fn take(&self, how: &str, name: &str, message: &Bytes) -> Result<(), EventsError> {
        let text = String::from_utf8_lossy(message).into_owned();
        self.taken.lock().recover().push(format!(
            "{how} {name} {} {}",
            text.len(),
            &text[..text.len().min(8)]
        ));
        match &*text {
            "unreadable" => Err(EventsError::Unreadable(text)),
            "forbidden" => Err(EventsError::Forbidden(text)),
            "unverified" => Err(EventsError::Unverified(text)),
            "not applied" => Err(EventsError::NotApplied(text)),
            _ => Ok(()),
        }
    }
}

impl Events for Told {
    fn token(&self, name: &str) -> Option<Token> {
        (name == "bucket").then(|| Token::new(TOKEN).expect("a token"))
    }

    fn max_signed(&self, name: &str) -> Option<usize> {
        (name == "signed").then_some(100)
    }

    fn deliver<'a>(
        &'a self,
        name: &'a str,
        message: Bytes,
    ) -> BoxFuture<'a, Result<(), EventsError>> {
        Box::pin(std::future::ready(self.take("token", name, &message)))
    }

    fn deliver_signed<'a>(
        &'a self,
        name: &'a str,
        message: Bytes,
    ) -> BoxFuture<'a, Result<(), EventsError>> {
        Box::pin(std::future::ready(self.take("signed", name, &message)))
    }

    fn missed(&self, name: &str) {
        self.taken.lock().recover().push(format!("missed {name}"));
    }
}

struct World {
    admin: Admin,
    told: std::sync::Arc<Told>,
}

impl World {
    /// The listener has no admin token.
    fn new() -> Self {
        let told = std::sync::Arc::new(Told::default());
        let mut admin = running(None).admin;
        admin.events = told.clone();
        Self { admin, told }
    }

    async fn send(&self, target: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> u16 {
        let mut request = Request::post(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).expect("a request");
        let answer = self
            .admin
            .clone()
            .router()
            .oneshot(request)
            .await
            .expect("an answer");
        let status = answer.status().as_u16();
        let body = answer
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes();
        assert!(!String::from_utf8_lossy(&body).contains(TOKEN));
        status
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.told.taken.lock().recover())
    }
}

fn bearer(token: &str) -> (&'static str, String) {
    ("authorization", format!("Bearer {token}"))
}

#[tokio::test]
async fn a_message_with_the_token_is_taken_under_any_host() {
    let world = World::new();
    let (name, value) = bearer(TOKEN);
    for host in [
        "127.0.0.1:8081",
        "gateway:8081",
        "tidegate.media.svc.cluster.local",
    ] {
        let headers = [(name, &*value), ("host", host)];
        assert_eq!(
            world.send("/events/bucket", &headers, "{}").await,
            200,
            "{host}"
        );
    }
    assert_eq!(world.taken(), ["token bucket 2 {}"; 3]);
    for (body, status) in [
        ("unreadable", 400),
        ("forbidden", 403),
        ("not applied", 503),
    ] {
        assert_eq!(
            world.send("/events/bucket", &[(name, &*value)], body).await,
            status,
            "{body}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_right_token_nothing_is_read() {
    let world = World::new();
    for target in ["/events/bucket", "/events/other", "/events/signed"] {
        assert_eq!(world.send(target, &[], "{}").await, 401, "{target}");
        let before = Instant::now();
        let (name, value) = bearer("t0ken-of-the-bukket");
        assert_eq!(
            world.send(target, &[(name, &*value)], "{}").await,
            401,
            "{target}"
        );
        assert!(
            before.elapsed() >= tidegate_plan::wrong_tokens::FIRST_DELAY,
            "a guess is slow"
        );
    }
    let (name, value) = bearer(TOKEN);
    assert_eq!(
        world.send("/events/signed", &[(name, &*value)], "{}").await,
        401
    );
    assert_eq!(world.send("/events/", &[(name, &*value)], "{}").await, 404);
    assert!(world.taken().is_empty());
}

#[tokio::test]
async fn a_message_that_is_too_long_is_not_read_and_counts_as_missed() {
    let world = World::new();
    let (name, value) = bearer(TOKEN);
    let long = (MAX_BODY + 1).to_string();
    // The body would never come: the answer does not wait for it.
    let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    let headers = [(name, &*value), ("content-length", &*long)];
    assert_eq!(world.send("/events/bucket", &headers, never).await, 413);
    let untold = vec![b'x'; MAX_BODY + 1];
    let untold = futures_util::stream::iter([Ok::<_, std::io::Error>(Bytes::from(untold))]);
    let status = world
        .send(
            "/events/bucket",
            &[(name, &*value)],
            Body::from_stream(untold),
        )
        .await;
    assert_eq!(status, 413);
    assert_eq!(world.taken(), ["missed bucket"; 2]);
    let whole = vec![b'x'; MAX_BODY];
    assert_eq!(
        world
            .send("/events/bucket", &[(name, &*value)], whole)
            .await,
        200
    );
}

#[tokio::test]
async fn a_signed_message_is_short_and_goes_to_a_subscription_that_takes_it() {
    let world = World::new();
    let sns = ("x-amz-sns-message-type", "Notification");
    assert_eq!(world.send("/events/signed", &[sns], "{}").await, 200);
    assert_eq!(
        world.send("/events/signed", &[sns], vec![b'x'; 101]).await,
        413
    );
    assert_eq!(world.send("/events/bucket", &[sns], "{}").await, 401);
    assert_eq!(world.taken(), ["signed signed 2 {}"]);
}

#[tokio::test(start_paused = true)]
async fn forged_messages_are_slowed_like_wrong_tokens() {
    let world = World::new();
    let sns = ("x-amz-sns-message-type", "Notification");
    for (body, status) in [("forbidden", 403), ("unverified", 503)] {
        let before = Instant::now();
        assert_eq!(world.send("/events/signed", &[sns], body).await, status);
        let delay = tidegate_plan::wrong_tokens::FIRST_DELAY;
        assert!(before.elapsed() >= delay, "{body}");
    }
    for (body, status) in [("{}", 200), ("not applied", 503)] {
        let before = Instant::now();
        assert_eq!(world.send("/events/signed", &[sns], body).await, status);
        assert_eq!(before.elapsed(), std::time::Duration::ZERO, "{body}");
    }
}
