//! Readers of the very route that reloads change: each answer is whole, and of one configuration.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use tidegate::embedded::EmbeddedOrigin;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::gateway::{Got, ask};
use crate::serving::Serving;
use crate::world::{World, sample};
use crate::{LONG, SIZE, configuration, report, serving};

/// The reloads under the readers.
const RELOADS: usize = 60;

/// The readers of each kind.
const READERS: usize = 2;

/// The objects of the first bucket have seeds from 0, those of the second from here.
const SECOND: usize = 100;

/// An object that fits neither into the memory tier nor into the buffers of a connection.
const BIG: usize = 48 << 20;

/// The profile that each of the two configurations gives the route, its `Cache-Control`, and the header that names it.
const TURNS: [(&str, &str); 2] = [("even", "max-age=10"), ("odd", "private")];

/// Two buckets with the same keys, and the origin that names one of them at a time.
struct Moving {
    world: World,
    second: EmbeddedOrigin,
}

impl Moving {
    async fn start() -> (Self, Serving) {
        let world = World::new().await;
        let serving = serving(&world).await;
        let second = EmbeddedOrigin::start(&world.folder.path().join("second")).await;
        let second = second.expect("an origin");
        for n in 0..4 {
            let body = sample(SIZE, SECOND + n);
            put(&second, &format!("o/{n}"), body).await;
        }
        (Self { world, second }, serving)
    }

    /// Returns the section of the origin `moving`.
    fn origin(&self, turn: usize) -> String {
        let origin = [&self.world.origin, &self.second][turn];
        let key = origin.credentials();
        format!(
            "[[origin]]\nname = \"moving\"\nbucket = \"{}\"\nendpoint = \"{}\"\npath_style = true\n\
             access_key_id = \"{}\"\nsecret_access_key = \"{}\"\n",
            origin.bucket(),
            origin.endpoint(),
            key.access_key_id,
            key.secret_access_key,
        )
    }

    /// Returns a configuration whose route has another origin, profile, access, lifetime and header in each turn.
    fn text(&self, nth: usize) -> String {
        let turn = nth % 2;
        let (profile, lifetime) = TURNS[turn];
        let access = ["", "access = \"members\"\n"][turn];
        let chunks = ["ttl = \"1h\"", "ttl = \"1s\"\nread_ahead = \"1MiB\""][turn];
        let route = format!(
            "[[route]]\npath = \"/changing/\"\norigin = \"moving\"\nkey_prefix = \"o/\"\n\
             profile = \"{profile}\"\ncache_control = \"{lifetime}\"\nheaders = {{ x-turn = \"{turn}\" }}\n{access}",
        );
        let members = "[access.members]\ntokens = { alice = \"alice has this token\" }\n";
        let profile = format!("[profile.{profile}]\n{chunks}\n");
        let more = format!("{}{route}{members}{profile}", self.origin(turn));
        configuration(&self.world, &more)
    }

    async fn reload(&self, serving: &Serving, nth: usize) {
        serving.configure(&self.text(nth));
        report(&serving.post("/reload").await);
    }
}

async fn put(origin: &EmbeddedOrigin, key: &str, bytes: Vec<u8>) {
    let body = futures_util::stream::iter([std::io::Result::Ok(Bytes::from(bytes))]);
    let put = origin.put(key, "application/x-test", body).await;
    put.expect("written");
}

/// Checks that all of an answer is of one configuration; returns which.
fn turn_of(got: &Got, nth: usize, has_token: bool) -> usize {
    if got.status == 401 {
        assert!(!has_token, "{got:?}");
        return 1;
    }
    assert_eq!(got.status, 200, "{}", got.text());
    let turn = got.header("x-turn").parse::<usize>().expect("a number");
    assert!(turn == 0 || has_token, "it was admitted without its token");
    assert_eq!(got.header("cache-control"), TURNS[turn].1, "{turn}");
    let expected = sample(SIZE, nth + SECOND * turn);
    assert!(got.body == expected, "the bytes of another bucket: {turn}");
    turn
}

/// Reads until it is told to stop; returns how many answers were of each configuration.
async fn read_on(http: SocketAddr, stop: Arc<AtomicBool>, has_token: bool) -> [usize; 2] {
    let headers = [("authorization", "Bearer alice has this token")];
    let headers = if has_token { &headers[..] } else { &[] };
    let mut turns = [0; 2];
    let mut nth = 0;
    while !stop.load(Ordering::Relaxed) {
        let path = format!("/changing/{}", nth % 4);
        let got = ask(http, Method::GET, &path, headers).await;
        turns[turn_of(&got, nth % 4, has_token)] += 1;
        nth += 1;
    }
    turns
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_of_a_route_that_changes_is_of_one_configuration() {
    let (moving, serving) = Moving::start().await;
    moving.reload(&serving, 0).await;
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2 * READERS)
        .map(|n| tokio::spawn(read_on(serving.http, stop.clone(), n % 2 == 0)))
        .collect();
    for nth in 1..=RELOADS {
        moving.reload(&serving, nth).await;
        // A request that begins now is of the new configuration.
        let bearer = [("authorization", "Bearer alice has this token")];
        let got = ask(serving.http, Method::GET, "/changing/1", &bearer).await;
        assert_eq!(turn_of(&got, 1, true), nth % 2);
    }
    stop.store(true, Ordering::Relaxed);
    let mut turns = [0; 2];
    for reader in readers {
        let own = reader.await.expect("no request failed");
        turns = [turns[0] + own[0], turns[1] + own[1]];
    }
    println!("answers of each configuration: {turns:?}");
    assert!(turns.iter().all(|answers| *answers > 0), "{turns:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_body_ends_whole_over_the_reload_that_takes_its_origin_and_route() {
    let (moving, serving) = Moving::start().await;
    let bytes = sample(BIG, 7);
    put(&moving.world.origin, "o/big", bytes.clone()).await;
    moving.reload(&serving, 0).await;

    let answered = async {
        let stream = TcpStream::connect(serving.http).await.expect("listening");
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.expect("a connection");
        let _connection = tokio::spawn(connection);
        let request = Request::get("/changing/big").header("host", "h");
        let request = request.body(Empty::<Bytes>::new()).expect("a request");
        let answer = sender.send_request(request).await.expect("an answer");
        assert_eq!(answer.status(), 200);
        let mut body = answer.into_body();
        let first = body.frame().await.expect("more").expect("a frame");
        let mut read = first.into_data().expect("data").to_vec();

        let received = ["tidegate_origin_received_bytes_total{", "\"moving\""];
        let received = serving.metric(&received).await;
        assert!(received < BIG as u64, "{received} bytes: it is all there");
        // The origin has another bucket, then both it and the route are gone.
        moving.reload(&serving, 1).await;
        serving.configure(&configuration(&moving.world, ""));
        report(&serving.post("/reload").await);
        assert_eq!(serving.get("/changing/big").await.status, 404);
        while let Some(frame) = body.frame().await {
            let frame = frame.expect("the answer is not cut off");
            read.extend_from_slice(&frame.into_data().expect("data"));
        }
        read
    };
    let read = timeout(LONG, answered).await.expect("in time");
    assert!(read == bytes, "{} of {BIG} bytes", read.len());
}
