//! A credential that was admitted, and is remembered for that, is refused once a reload has taken what admitted it away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use serde_json::json;
use tidegate_access::SigningKey;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::gateway::ask;
use crate::serving::Serving;
use crate::world::World;
use crate::{configuration, report, serving};

/// 2100, as in the JWT.
const EXPIRES: u64 = 4_102_444_800;

const SECRETS: [&str; 2] = ["secret-of-the-first-key", "secret-of-the-second-key"];

/// A JWT, which `openssl dgst -sha256 -hmac` has signed with the first of the keys.
const JWT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYXJvbC1vZi10aGUtand0IiwiZXhwIjo0MTAyNDQ0ODAwfQ.tyQB65kp0E7XO3fvnFZH_4puZLtFl3TSbxXU8xH0j1U";
const JWT_KEYS: [&str; 2] = [
    "c2hhcmVkLXNlY3JldC1vZi10aGUtaXNzdWVyLTAxMjM0NTY3ODk",
    "YW5vdGhlci1zZWNyZXQtb2YtdGhlLWlzc3Vlci0xMjM0NTY3ODk",
];

/// A server that is asked who may come in, and whose answers are kept for an hour.
async fn auth_server(admits: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 16 << 10]).await;
            let line = match admits.load(Ordering::Relaxed) {
                true => "204 Here",
                false => "403 Forbidden",
            };
            let answer = format!(
                "HTTP/1.1 {line}\r\ncache-control: max-age=3600\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
            let sent = stream.write_all(answer.as_bytes()).await;
            sent.expect("it listens");
        }
    });
    format!("http://{address}/auth")
}

/// The credentials and addresses that the accesses admit.
struct Admitted {
    /// The keys of links.
    keys: Vec<usize>,
    /// The keys of JWTs.
    jwt_keys: Vec<usize>,
    network: &'static str,
}

fn configure(serving: &Serving, world: &World, server: &str, admitted: &Admitted) {
    let jwks = world.disk().with_file_name("jwks.json");
    let jwt_keys = admitted.jwt_keys.iter();
    let set = jwt_keys.map(|n| json!({ "kty": "oct", "alg": "HS256", "k": JWT_KEYS[*n] }));
    let set = json!({ "keys": set.collect::<Vec<_>>() });
    std::fs::write(&jwks, set.to_string()).expect("written");
    let keys = admitted.keys.iter();
    let keys: Vec<_> = keys
        .map(|n| format!("k{n} = \"{}\"", SECRETS[*n]))
        .collect();
    let routes = ["signed", "jwt", "near", "asked"].map(|name| {
        format!("[[route]]\npath = \"/{name}/\"\norigin = \"media\"\naccess = \"{name}\"\n")
    });
    serving.configure(&configuration(
        world,
        &format!(
            "{}[access.signed]\nsigned = {{ keys = {{ {} }} }}\n[access.jwt]\njwt.jwks = \"{}\"\n\
             [access.near]\nnetworks = [\"{}\"]\n[access.asked]\nauth_request = \"{server}\"\n",
            routes.concat(),
            keys.join(", "),
            jwks.display(),
            admitted.network,
        ),
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_is_remembered_goes_with_what_admitted_it() {
    let world = World::new().await;
    let serving = serving(&world).await;
    let admits = Arc::new(AtomicBool::new(true));
    let server = auth_server(admits.clone()).await;
    let links = [0, 1].map(|n| {
        let key = SigningKey::new(&format!("k{n}"), SECRETS[n]).expect("a key");
        format!("/signed/{}/o/1", key.sign_prefix("/signed/o/", EXPIRES))
    });
    let bearer = format!("Bearer {JWT}");
    let statuses = async || {
        let none = ("accept", "*/*");
        let mut statuses = Vec::new();
        for (path, header) in [
            (&*links[0], none),
            (&*links[1], none),
            ("/jwt/o/1", ("authorization", &*bearer)),
            ("/near/o/1", none),
            ("/asked/o/1", none),
        ] {
            let got = ask(serving.http, Method::GET, path, &[header]).await;
            statuses.push(got.status);
        }
        statuses
    };
    let reload = async |admitted: &Admitted| {
        configure(&serving, &world, &server, admitted);
        report(&serving.post("/reload").await);
    };
    let all = Admitted {
        keys: vec![0, 1],
        jwt_keys: vec![0, 1],
        network: "127.0.0.0/8",
    };
    let fewer = Admitted {
        keys: vec![1],
        jwt_keys: vec![1],
        network: "10.0.0.0/8",
    };
    reload(&all).await;
    assert_eq!(statuses().await, [200; 5]);
    admits.store(false, Ordering::Relaxed);
    assert_eq!(statuses().await, [200; 5], "they are remembered");
    reload(&fewer).await;
    assert_eq!(statuses().await, [403, 200, 401, 403, 403]);
    reload(&all).await;
    assert_eq!(statuses().await, [200, 200, 200, 200, 403]);
}
