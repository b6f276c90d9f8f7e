//! A reload removes the metrics of the parts that it removes: an alert about them ends.

use serde_json::json;
use tokio::time::Instant;

use crate::ports::free_addr;
use crate::world::World;
use crate::{LONG, configuration, report, serving};

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_of_what_a_reload_takes_away_go_with_it() {
    let world = World::new().await;
    let serving = serving(&world).await;
    let before = serving.look("/metrics").await.text();
    assert!(!before.contains("\"leaving\""));
    let jwks = world.disk().with_file_name("jwks.json");
    let key = "c2hhcmVkLXNlY3JldC1vZi10aGUtaXNzdWVyLTAxMjM0NTY3ODk";
    let keys = json!({ "keys": [{ "kty": "oct", "alg": "HS256", "k": key }] });
    std::fs::write(&jwks, keys.to_string()).expect("written");
    let closed = free_addr();
    let more = format!(
        "[[origin]]\nname = \"leaving\"\nbucket = \"leaving\"\nendpoint = \"http://{closed}\"\n\
         path_style = true\naccess_key_id = \"k\"\nsecret_access_key = \"s\"\n\
         [[route]]\npath = \"/leaving/\"\norigin = \"leaving\"\n\
         [[route]]\npath = \"/private/\"\norigin = \"leaving\"\naccess = \"leaving\"\n\
         [access.leaving]\njwt.jwks = \"{}\"\nauth_request = \"http://{closed}/\"\n\
         [[hook]]\nname = \"leaving\"\norigin = \"leaving\"\nurl = \"http://{closed}/\"\n",
        jwks.display(),
    );
    serving.configure(&configuration(&world, &more));
    let told = report(&serving.post("/reload").await);
    assert_eq!(told["needs_restart"], json!([]), "{told}");
    for word in ["access=\"leaving\"", "hook=\"leaving\""] {
        let metrics = serving.look("/metrics").await.text();
        assert!(metrics.contains(word), "{word}");
    }
    let since = Instant::now();
    let open = ["tidegate_origin_breaker_open{", "\"leaving\""];
    while serving.metric(&open).await == 0 {
        assert!(serving.get("/leaving/1").await.status >= 500);
        assert!(since.elapsed() < LONG, "its breaker stays closed");
    }

    serving.configure(&configuration(&world, ""));
    report(&serving.post("/reload").await);
    let since = Instant::now();
    loop {
        let metrics = serving.look("/metrics").await.text();
        let left: Vec<_> = metrics
            .lines()
            .filter(|line| line.contains("\"leaving\""))
            .collect();
        if left.is_empty() {
            break;
        }
        assert!(since.elapsed() < LONG, "{left:#?}");
    }
}
