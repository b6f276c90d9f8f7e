//! Servers and clients that take too long or too much: bounded in time and number.

use super::*;

#[tokio::test]
async fn a_body_that_never_ends_does_not_hold_an_answer_up() {
    let chunked = "HTTP/1.1 204 OK\r\nconnection: close\r\n\r\n";
    let endless = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for says in [
        Says::Endless(chunked, "x"),
        Says::Endless(endless, "4\r\n    \r\n"),
    ] {
        let fake = FakeServer::start(says).await;
        let headers = cookie("a=1");
        let answer = server(&fake).ask(&question(&headers)).await;
        assert_eq!(answer, Answer::Admitted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_fails_in_bounded_time_and_for_a_bounded_number() {
    let fake = FakeServer::start(Says::Silence).await;
    let server = server(&fake);
    let began = Instant::now();
    let all: Vec<_> = (0..MAX_WAITING + 10)
        .map(|nth| {
            let value = HeaderValue::try_from(format!("a={nth}")).expect("a value");
            HeaderMap::from_iter([(COOKIE, value)])
        })
        .collect();
    let asks = all.iter().map(|headers| {
        let server = server.clone();
        async move { server.ask(&question(headers)).await }
    });
    let answers = futures_util::future::join_all(asks).await;
    assert!(answers.iter().all(|answer| *answer == Answer::Failed));
    assert!(began.elapsed() <= server.settings.timeout + Duration::from_secs(1));
    assert!(fake.seen().len() <= MAX_REQUESTS);
    assert!(server.flights.lock().recover().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_client_does_not_take_the_places_of_others() {
    let fake = FakeServer::start(Says::Silence).await;
    let server = server(&fake);
    let ask = |nth: usize, client: String| {
        let server = server.clone();
        async move {
            let value = HeaderValue::try_from(format!("a={nth}")).expect("a value");
            let headers = HeaderMap::from_iter([(COOKIE, value)]);
            let client = Some(client.parse().expect("an address"));
            let question = Question {
                client,
                ..question(&headers)
            };
            server.ask(&question).await
        }
    };
    // Each guess comes from another address of one network.
    let guesses = (0..MAX_WAITING).map(|nth| ask(nth, format!("2001:db8::{nth:x}")));
    let guesses = tokio::spawn(futures_util::future::join_all(Vec::from_iter(guesses)));
    while counters(&server).failed.get() < (MAX_WAITING - MAX_OF_CLIENT) as u64 {
        tokio::task::yield_now().await;
    }
    let member = tokio::spawn(ask(MAX_WAITING, "192.0.2.1".to_owned()));
    while server.flights.lock().recover().len() <= MAX_OF_CLIENT {
        assert!(!member.is_finished(), "it waits for an answer");
        tokio::task::yield_now().await;
    }
    guesses.await.expect("no panic");
    assert_eq!(member.await.expect("no panic"), Answer::Failed, "in time");
}
