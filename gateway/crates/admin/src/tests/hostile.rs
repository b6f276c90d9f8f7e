//! Requests of a page in the operator's browser, and of a client that guesses the token.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use tidegate_plan::wrong_tokens::{FIRST_DELAY, MAX_DELAY, MAX_WAITING_OF_CLIENT};

/// Counts the reloads.
#[derive(Default)]
struct CountedReload(AtomicUsize);

impl reload::Reload for CountedReload {
    fn reload(
        self: Arc<Self>,
    ) -> BoxFuture<'static, Result<reload::ReloadReport, reload::ReloadError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Arc::new(Reloaded).reload()
    }

    fn set(
        self: Arc<Self>,
        change: reload::OverrideChange,
    ) -> BoxFuture<'static, Result<reload::ReloadReport, reload::ReloadError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Arc::new(Reloaded).set(change)
    }

    fn overridden(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// Method, path, query and body of each change. All but the last are counted by the parts of a test.
const CHANGES: [(&str, &str, &str, &str); 7] = [
    ("POST", "/purge", "path=/a", "{\"path\":\"/a\"}"),
    ("POST", "/reload", "", ""),
    (
        "POST",
        "/overrides",
        "key=log.level&value=debug",
        "{\"key\":\"log.level\",\"value\":\"debug\"}",
    ),
    (
        "PUT",
        "/pins",
        "path=/a&limit=1GiB",
        "{\"path\":\"/a\",\"limit\":\"1GiB\"}",
    ),
    ("DELETE", "/pins", "path=/a", "{\"path\":\"/a\"}"),
    (
        "PUT",
        "/cache/disk",
        "path=/c&enabled=true",
        "{\"path\":\"/c\",\"enabled\":true}",
    ),
    ("POST", "/warm", "path=/a", "{\"path\":\"/a\"}"),
];

/// A GET needs no preflight: a page could send it with what the browser knows. So it must change nothing, even with the
/// token and with what the same path takes in another method.
#[tokio::test]
async fn no_get_changes_anything() {
    let (told, reloads) = (
        Arc::new(Told::default()),
        Arc::new(CountedReload::default()),
    );
    let mut parts = running(Some("s3cret"));
    parts.admin.control = told.clone();
    parts.admin.reload = reloads.clone();
    let token = Some("s3cret");
    let count = || {
        told.purged.lock().expect("purges").len()
            + reloads.0.load(Ordering::Relaxed)
            + parts.pins.asked.lock().expect("pins").len()
            + parts.tiers.told.lock().expect("tiers").len()
    };
    for (_, path, query, body) in CHANGES {
        for method in ["GET", "HEAD"] {
            for target in [path.to_owned(), format!("{path}?{query}")] {
                let line = format!("{method} {target}");
                let (status, _) = asked(&parts.admin, &line, token, body).await;
                assert!([200, 404, 405].contains(&status), "{line}: {status}");
                assert_eq!(count(), 0, "{line}");
            }
        }
    }
    for line in [
        "GET /stat?path=/a",
        "GET /list?path=/a/",
        "GET /cache",
        "GET /routes",
        "GET /pending",
    ] {
        asked(&parts.admin, line, token, "").await;
        assert_eq!(count(), 0, "{line}");
    }
    // In its own method each of them but the last is a change that is counted here.
    for (nth, (method, path, query, body)) in CHANGES[..6].iter().enumerate() {
        let line = match *method {
            "DELETE" => format!("{method} {path}?{query}"),
            _ => format!("{method} {path}"),
        };
        let (status, said) = asked(&parts.admin, &line, token, body).await;
        assert_eq!((status, count()), (200, nth + 1), "{line}: {said}");
    }
}

/// Sends a purge with a token to one router; returns the status, and the time it took.
async fn guess(router: Router, token: &str) -> (u16, Duration) {
    let begun = Instant::now();
    let request = Request::post("/purge?path=/a");
    let request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    let request = request.body(Body::empty()).expect("a request");
    let answer = router.oneshot(request).await.expect("an answer");
    (answer.status().as_u16(), begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn each_wrong_token_waits_longer_and_the_right_one_does_not() {
    let router = running(Some("s3cret")).admin.router();
    let mut expected = FIRST_DELAY;
    for nth in 0..8 {
        let (status, took) = guess(router.clone(), "wrong").await;
        assert_eq!(status, 401);
        // Timers count whole milliseconds.
        let late = took.saturating_sub(expected);
        assert!(
            took >= expected && late < Duration::from_millis(5),
            "{nth}: {took:?}"
        );
        expected = (2 * expected).min(MAX_DELAY);
        let (status, took) = guess(router.clone(), "s3cret").await;
        assert_eq!((status, took.as_millis()), (200, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn guesses_at_once_wait_in_bounded_number() {
    let router = running(Some("s3cret")).admin.router();
    let guesses = (0..100).map(|_| guess(router.clone(), "wrong"));
    let answers = futures_util::future::join_all(guesses).await;
    let at_once = answers.iter().filter(|(status, _)| *status == 429);
    assert_eq!(at_once.count(), 100 - MAX_WAITING_OF_CLIENT);
    let waited = answers.iter().filter(|(status, _)| *status == 401);
    assert!(waited.clone().all(|(_, took)| *took >= FIRST_DELAY));
    assert_eq!(waited.count(), MAX_WAITING_OF_CLIENT);
}
