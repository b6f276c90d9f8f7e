//! Hooks that come, change and go.

use http::Method;
use serde_json::json;

use crate::gateway::send;
use crate::receiver::{Manner, Receiver};
use crate::serving::Serving;
use crate::world::World;
use crate::{configuration, other_origin, report, serving};

const WRITE_TOKEN: &str = "a token of the tests";

async fn put(serving: &Serving, path: &str) {
    let bearer = format!("Bearer {WRITE_TOKEN}");
    let headers = [("authorization", bearer.as_str())];
    let got = send(serving.http, Method::PUT, path, &headers, "bytes").await;
    assert!((200..300).contains(&got.status), "{path}: {got:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_comes_changes_and_goes() {
    let world = World::new().await;
    let receiver = Receiver::start(Manner::Ok).await;
    let serving = serving(&world).await;
    let reload = async |hook: &str| {
        let writable = format!("writable = true\nwrite_token = \"{WRITE_TOKEN}\"\n{hook}");
        serving.configure(&configuration(&world, &writable));
        let told = report(&serving.post("/reload").await);
        assert_eq!(told["needs_restart"], json!([]), "{told}");
    };
    let hook = |path: &str, prefix: &str| {
        let address = receiver.address;
        format!(
            "[[hook]]\nname = \"h\"\nurl = \"http://{address}/{path}/{{key}}\"\ndebounce = \"1ms\"\n\
             prefix = \"{prefix}\"\n"
        )
    };
    reload(&hook("first", "w/")).await;
    put(&serving, "/w/1").await;
    assert_eq!(receiver.next().await.line, "POST /first/w/1");
    reload(&hook("second", "v/")).await;
    put(&serving, "/w/2").await;
    put(&serving, "/v/2").await;
    assert_eq!(receiver.next().await.line, "POST /second/v/2");
    reload("").await;
    put(&serving, "/v/3").await;
    reload(&hook("third", "v/")).await;
    put(&serving, "/v/4").await;
    assert_eq!(receiver.next().await.line, "POST /third/v/4");
    assert_eq!(receiver.seen(), 3);
}

/// A gateway of a fleet whose NATS is away calls its own hooks.
#[tokio::test(flavor = "multi_thread")]
async fn an_origin_that_comes_joins_the_fleet() {
    let world = World::new().await;
    let receiver = Receiver::start(Manner::Ok).await;
    let more = format!(
        "[fleet]\nnats = [\"nats://127.0.0.1:9\"]\n\
         [[hook]]\nname = \"h\"\nurl = \"http://{}/{{key}}\"\ndebounce = \"1ms\"\n",
        receiver.address
    );
    let mut serving = Serving::configured(&configuration(&world, &more));
    serving.start().await;
    let file = world.disk().with_file_name("secret");
    std::fs::write(&file, &world.origin.credentials().secret_access_key).expect("written");
    let other = other_origin(&world, &file);
    let writable = format!("{other}writable = true\nwrite_token = \"{WRITE_TOKEN}\"\n{more}");
    serving.configure(&configuration(&world, &writable));
    let told = report(&serving.post("/reload").await);
    assert_eq!(told["needs_restart"], json!([]), "{told}");
    put(&serving, "/other/1").await;
    assert_eq!(receiver.next().await.line, "POST /o/1");
}
