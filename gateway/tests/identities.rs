//! One bucket behind several accesses: none returns an object that only another may see, and a change by one of them
//! reaches all.

use std::time::Duration;

use http::Method;

#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "identities/drafts.rs"]
mod drafts;
#[expect(dead_code, reason = "other suites ask more of it")]
#[path = "../crates/engine/tests/support/engine.rs"]
mod engine;
#[expect(dead_code, reason = "other suites ask more of it")]
#[path = "../crates/origin/tests/support/fake_s3.rs"]
mod fake_s3;
#[path = "support/gateway.rs"]
mod gateway;
#[expect(dead_code, reason = "other suites ask more of it")]
#[path = "../crates/write/tests/support/spool.rs"]
mod spool;
#[expect(dead_code, reason = "other suites take its own configuration")]
#[path = "support/world.rs"]
mod world;

use engine::secs;
use fake_s3::FakeS3;
use gateway::{Got, Whole, ask, send};
use world::World;

const AUTH: (&str, &str) = ("authorization", "Bearer t0ken-of-the-tests");

/// Starts the routes `/public/` (unsigned), `/staff/`, `/desk/` (of the same name as `/staff/`) and `/audit/`, the last
/// three signed with one key, all to one bucket. Objects and missing keys are remembered for an hour.
async fn start(world: &World) -> Whole {
    let key = world.origin.credentials();
    let signed = format!(
        "access_key_id = \"{}\"\nsecret_access_key = \"{}\"",
        key.access_key_id, key.secret_access_key
    );
    let address = world.door.address();
    let mut text = format!(
        "[admin]\ntoken = \"t0ken-of-the-tests\"\n[cache]\nmemory = \"64MiB\"\n\
         [[cache.disk]]\npath = \"{}\"\ncapacity = \"128MiB\"\nmin_free = \"1MiB\"\n\
         [profile.web]\nttl = \"1h\"\nnegative_ttl = \"1h\"\n",
        world.disk().display(),
    );
    for (name, identity, endpoint, access) in [
        (
            "public",
            "public",
            format!("http://{address}"),
            "anonymous = true",
        ),
        ("staff", "staff", format!("http://{address}"), &*signed),
        ("desk", "staff", format!("HTTP://{address}/"), &*signed),
        ("audit", "audit", format!("http://{address}"), &*signed),
    ] {
        text.push_str(&format!(
            "[[origin]]\nname = \"{name}\"\nidentity = \"{identity}\"\nbucket = \"{}\"\nendpoint = \"{endpoint}\"\n\
             path_style = true\n{access}\n\
             [[route]]\npath = \"/{name}/\"\norigin = \"{name}\"\nwritable = true\n\
             write_token = \"t0ken-of-the-tests\"\n",
            world.origin.bucket(),
        ));
    }
    let gateway = Whole::start(&text).await;
    let ready = async {
        // A bucket that refuses an unsigned probe counts as ready.
        while gateway.look("/readyz").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ready = tokio::time::timeout(secs(60), ready).await;
    ready.expect("it comes to be ready");
    gateway
}

/// Reads until memory has the whole object.
async fn hit(gateway: &Whole, path: &str) -> Got {
    let hit = async {
        loop {
            let got = gateway.get(path, &[]).await;
            assert_eq!(got.status, 200, "{path}");
            if got.header("cache-status").contains("hit") {
                return got;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(secs(60), hit)
        .await
        .expect("it is cached")
}

async fn purge(gateway: &Whole, query: &str) {
    let path = format!("/purge?{query}");
    let purged = ask(gateway.admin, Method::POST, &path, &[AUTH]).await;
    assert_eq!(purged.status, 200, "{purged:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_stays_one_when_another_access_has_read_the_object() {
    let world = World::new().await;
    let secret = world::sample(3 << 20, 1);
    world.put("a.bin", &secret).await;

    let refused = async |gateway: &Whole| {
        let rows: [&[(&str, &str)]; 4] = [
            &[],
            &[("range", "bytes=5-9")],
            &[("cache-control", "no-cache")],
            &[("if-none-match", "\"x\"")],
        ];
        for headers in rows {
            let got = gateway.get("/public/a.bin", headers).await;
            assert_eq!(got.status, 403, "{headers:?} {got:?}");
        }
        let head = ask(gateway.http, Method::HEAD, "/public/a.bin", &[]).await;
        assert_eq!(head.status, 403);
        let only = [("cache-control", "only-if-cached")];
        assert_eq!(gateway.get("/public/a.bin", &only).await.status, 504);
    };

    let gateway = start(&world).await;
    refused(&gateway).await;
    assert!(hit(&gateway, "/staff/a.bin").await.body == secret);
    refused(&gateway).await;
    // Equal names share, however the endpoint is spelt.
    let asked = gateway.gets().await;
    let shared = gateway.get("/desk/a.bin", &[]).await;
    assert!(shared.body == secret && shared.header("cache-status").contains("hit"));
    assert_eq!(gateway.gets().await, asked);
    let other = gateway.get("/audit/a.bin", &[]).await;
    assert!(other.body == secret && !other.header("cache-status").contains("hit"));
    gateway.stop().await;

    // The disk and the state keep them apart as well.
    let gateway = start(&world).await;
    refused(&gateway).await;
    let kept = gateway.get("/staff/a.bin", &[]).await;
    assert!(kept.body == secret && kept.header("cache-status").contains("hit"));
    refused(&gateway).await;
    // Nor is it served while the bucket is unreachable.
    world.door.shut();
    assert_eq!(gateway.get("/staff/a.bin", &[]).await.status, 200);
    let away = gateway.get("/public/a.bin", &[]).await;
    assert_ne!(away.status, 200);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_access_writes_all_others_see_at_once() {
    let world = World::new().await;
    let gateway = start(&world).await;
    for path in ["/staff/new.txt", "/audit/new.txt"] {
        assert_eq!(gateway.get(path, &[]).await.status, 404);
    }
    for (body, by) in [("one", "/staff"), ("the second", "/audit"), ("3", "/desk")] {
        let written = send(
            gateway.http,
            Method::PUT,
            &format!("{by}/new.txt"),
            &[AUTH],
            body,
        )
        .await;
        assert!(matches!(written.status, 200 | 201 | 204), "{written:?}");
        for path in ["/staff/new.txt", "/audit/new.txt", "/desk/new.txt"] {
            let got = gateway.get(path, &[]).await;
            assert_eq!(
                (got.status, got.text()),
                (200, body.to_owned()),
                "{by} {path}"
            );
            hit(&gateway, path).await;
        }
    }
    let deleted = ask(gateway.http, Method::DELETE, "/audit/new.txt", &[AUTH]).await;
    assert!(matches!(deleted.status, 200 | 204), "{deleted:?}");
    for path in ["/staff/new.txt", "/audit/new.txt"] {
        assert_eq!(gateway.get(path, &[]).await.status, 404, "{path}");
    }
    // A key without write access changes nothing, and cached objects stay.
    world.put("kept.txt", b"kept").await;
    hit(&gateway, "/staff/kept.txt").await;
    let refused = send(gateway.http, Method::PUT, "/public/kept.txt", &[AUTH], "x").await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(gateway.get("/staff/kept.txt", &[]).await.text(), "kept");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_through_one_access_empties_all() {
    let world = World::new().await;
    let gateway = start(&world).await;
    let paths = ["/staff/f/a.txt", "/audit/f/a.txt"];
    let queries = [
        "path=/audit/f/a.txt",
        "path=/staff/f/&prefix=true",
        "path=/public/f/a.txt",
    ];
    for (number, query) in queries.into_iter().enumerate() {
        world
            .put("f/a.txt", format!("before {number}").as_bytes())
            .await;
        purge(&gateway, "path=/staff/f/a.txt").await;
        for path in paths {
            hit(&gateway, path).await;
        }
        world
            .put("f/a.txt", format!("after {number}").as_bytes())
            .await;
        purge(&gateway, query).await;
        for path in paths {
            let got = gateway.get(path, &[]).await;
            assert_eq!(got.text(), format!("after {number}"), "{query} {path}");
        }
    }
    // This holds after a restart, for chunks that the disk had under the other name.
    for path in paths {
        hit(&gateway, path).await;
    }
    world.put("f/a.txt", b"last").await;
    purge(&gateway, "path=/audit/f/a.txt").await;
    gateway.stop().await;
    let gateway = start(&world).await;
    for path in paths {
        assert_eq!(gateway.get(path, &[]).await.text(), "last", "{path}");
    }
    gateway.stop().await;
}

/// Starts routes by host and by path over two buckets that record their requests.
async fn by_host(one: &FakeS3, other: &FakeS3) -> Whole {
    let origin = |name: &str, s3: &FakeS3, access: &str| {
        let endpoint = s3.settings().endpoint.expect("it has one");
        format!(
            "[[origin]]\nname = \"{name}\"\nbucket = \"{}\"\nendpoint = \"{endpoint}\"\npath_style = true\n\
             {access}\n",
            fake_s3::BUCKET
        )
    };
    let signed = "access_key_id = \"id\"\nsecret_access_key = \"secret\"";
    let route = |host: &str, path: &str, more: &str| {
        format!("[[route]]\nhost = \"{host}\"\npath = \"{path}\"\n{more}\n")
    };
    let text = [
        "[profile.web]\nttl = \"1h\"\n".to_owned(),
        origin("private", one, signed),
        origin("public", other, "anonymous = true"),
        route("private.example", "/", "origin = \"private\""),
        route(
            "private.example",
            "/below/",
            "origin = \"private\"\nkey_prefix = \"f/\"\ncache_control = \"no-store\"\n\
             cors = { origins = [\"https://a.example\", \"https://b.example\"] }",
        ),
        route("public.example", "/", "origin = \"public\""),
    ];
    let gateway = Whole::start(&text.concat()).await;
    gateway.ready().await;
    gateway
}

/// One path on two hosts is two objects, for every spelling of the host and any state of the cache.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_never_given_another_ones_object() {
    let (one, other) = (FakeS3::start().await, FakeS3::start().await);
    one.bucket.put("f/k.txt", "private");
    other.bucket.put("f/k.txt", "public!");
    let gateway = by_host(&one, &other).await;
    for _ in 0..3 {
        for (target, host, body) in [
            ("/f/k.txt", "private.example", "private"),
            ("/f/k.txt", "PUBLIC.example:8080", "public!"),
            ("/f/k.txt", "public.example.", "public!"),
            // The target names the host, whatever `Host` says (RFC 9112, 3.2.2).
            (
                "http://public.example/f/k.txt",
                "private.example",
                "public!",
            ),
            (
                "http://private.example/f/k.txt",
                "public.example",
                "private",
            ),
        ] {
            let got = gateway.get(target, &[("host", host)]).await;
            assert_eq!((got.status, &*got.text()), (200, body), "{target} {host}");
        }
        for (host, status) in [
            ("example", 404),
            ("private.example.evil", 404),
            ("public.example@private.example", 400),
        ] {
            let got = gateway.get("/f/k.txt", &[("host", host)]).await;
            assert_eq!(got.status, status, "{host}");
        }
    }
    gateway.stop().await;
}

/// Two routes to one key share one cached object; each adds its own headers, for each client.
#[tokio::test(flavor = "multi_thread")]
async fn what_routes_say_of_one_object_is_not_mixed() {
    let (one, other) = (FakeS3::start().await, FakeS3::start().await);
    one.bucket.put("f/k.txt", "private");
    let gateway = by_host(&one, &other).await;
    let host = ("host", "private.example");
    let asked = |from: &'static str| [host, ("origin", from)];
    let allow = "access-control-allow-origin";
    for _ in 0..3 {
        for from in [
            "https://a.example",
            "https://b.example",
            "https://c.example",
        ] {
            let got = gateway.get("/below/k.txt", &asked(from)).await;
            assert_eq!(got.text(), "private");
            let wanted = if from == "https://c.example" {
                ""
            } else {
                from
            };
            assert_eq!(
                (got.header(allow), got.header("vary")),
                (wanted, "Origin"),
                "{from}"
            );
            assert_eq!(got.header("cache-control"), "no-store");
            let tag = got.header("etag").to_owned();
            let known = [host, ("origin", from), ("if-none-match", &tag)];
            let known = gateway.get("/below/k.txt", &known).await;
            assert_eq!((known.status, known.header(allow)), (304, wanted));
            assert_eq!(known.header("vary"), "Origin");

            let plain = gateway.get("/f/k.txt", &asked(from)).await;
            assert_eq!((plain.header(allow), plain.header("vary")), ("", ""));
            assert_eq!(plain.header("cache-control"), "");
        }
    }
    assert_eq!(one.bucket.gets(), 1, "both routes have it from one request");
    gateway.stop().await;
}

/// A client's own credentials are for the gateway: they never reach the bucket, and change no answer.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_shows_goes_no_further() {
    let (one, other) = (FakeS3::start().await, FakeS3::start().await);
    other.bucket.put("k.txt", "public!");
    let gateway = by_host(&one, &other).await;
    let shown = [
        ("host", "public.example"),
        ("authorization", "Bearer 0f-the-client"),
        ("cookie", "session=0f-the-client"),
        ("x-amz-security-token", "0f-the-client"),
        ("x-amz-expected-bucket-owner", "0f-the-client"),
        ("x-forwarded-for", "192.0.2.1"),
    ];
    for path in [
        "/k.txt?X-Amz-Signature=0f-the-client",
        "/none.txt?versionId=0f-the-client",
    ] {
        for method in [Method::GET, Method::HEAD] {
            ask(gateway.http, method, path, &shown).await;
        }
    }
    let requests = other.requests();
    assert!(requests.len() > 2, "{requests:?}");
    for request in requests {
        assert!(!request.target.contains("0f-the-client"), "{request:?}");
        let clean = |(name, value): (&String, &String)| {
            name != "authorization" && name != "cookie" && !value.contains("0f-the-client")
        };
        assert!(request.headers.iter().all(clean), "{request:?}");
    }
    // A client without credentials gets the same answer.
    let got = gateway.get("/k.txt", &[("host", "public.example")]).await;
    assert_eq!(got.text(), "public!");
    gateway.stop().await;
}
