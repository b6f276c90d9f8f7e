//! Purges by the admin listener and the command line.

use http::Method;
use serde_json::{Value, json};

use crate::gateway::{Whole, send};
use crate::world::{World, sample};
use crate::{AUTH, eventually, read, tidegate, tidegate_reading};

#[tokio::test(flavor = "multi_thread")]
async fn purges_say_what_was_known_and_a_soft_one_serves_what_it_has() {
    let world = World::new().await;
    for n in 0..3 {
        world.put(&format!("s/{n}"), &sample(1000, n)).await;
    }
    let profile = "ttl = \"1h\"\nstale_while_revalidate = \"1h\"";
    let gateway = world.start(profile).await;
    gateway.ready().await;
    let get = async |gateway: &Whole, n: usize| gateway.get(&format!("/s/{n}"), &[]).await.body;
    for n in 0..2 {
        assert_eq!(get(&gateway, n).await, sample(1000, n));
    }
    let purge = async |gateway: &Whole, body: Value| {
        let body = body.to_string();
        send(gateway.admin, Method::POST, "/purge", &[AUTH], &body).await
    };
    world.put("s/0", &sample(1000, 10)).await;
    let paths = json!({ "paths": ["/s/0", "/s/2"], "soft": true });
    let answer = read(&purge(&gateway, paths).await);
    assert_eq!(answer, json!({ "purged": 2, "known": 1, "no_route": [] }));
    assert_eq!(get(&gateway, 0).await, sample(1000, 0), "once more");
    eventually("confirmed", async || {
        get(&gateway, 0).await == sample(1000, 10)
    })
    .await;

    // It holds after a restart.
    let prefix = json!({ "path": "/s/", "prefix": true, "soft": true });
    let answer = read(&purge(&gateway, prefix).await);
    assert_eq!(answer, json!({ "purged": ["s/"], "known": 0 }));
    gateway.stop().await;
    world.put("s/1", &sample(1000, 11)).await;
    let gateway = world.start(profile).await;
    gateway.ready().await;
    assert_eq!(get(&gateway, 1).await, sample(1000, 1), "once more");
    eventually("confirmed", async || {
        get(&gateway, 1).await == sample(1000, 11)
    })
    .await;

    let (code, out, err) = tidegate(&world, &gateway, &["purge", "--tag", "a", "--tag", "b"]);
    assert_eq!((code, out.as_str()), (0, "purged 2\n"), "{err}");
    let (code, out, err) = tidegate(&world, &gateway, &["purge", "--soft", "/s/0"]);
    assert_eq!(
        (code, &*out),
        (0, "{\"known\":1,\"purged\":[\"s/0\"]}\n"),
        "{err}"
    );
    lists_are_purged(&world, &gateway);
    keys_are_purged(&world, &gateway).await;
    let bad = tidegate(&world, &gateway, &["purge", "--tag", "a b"]);
    assert!(bad.0 != 0 && bad.2.contains("visible ASCII"), "{bad:?}");
    wrong_bodies_are_refused(&gateway).await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_come_from_the_header_that_is_configured() {
    let world = World::new().await;
    let config = world.config("ttl = \"1h\"");
    let config = config.replace(
        "[cache]\n",
        "[cache]\ntags_header = \"x-amz-meta-groups\"\n",
    );
    let gateway = Whole::start(&format!(
        "{config}[[route]]\norigin = \"media\"\npath = \"/\"\nwritable = true\nwrite_token = \"t0ken-of-the-tests\"\n"
    ))
    .await;
    gateway.ready().await;
    let objects = [
        ("/own", "x-amz-meta-groups"),
        ("/usual", "x-amz-meta-cache-tags"),
    ];
    for (path, header) in objects {
        let headers = [AUTH, (header, "red blue")];
        let got = send(gateway.http, Method::PUT, path, &headers, "first").await;
        assert_eq!(got.status, 201, "{path}: {}", got.text());
        let got = gateway.get(path, &[]).await;
        assert_eq!((got.header(header), &*got.text()), ("red blue", "first"));
        world.put(&path[1..], b"second").await;
        assert_eq!(gateway.get(path, &[]).await.text(), "first", "{path}");
    }
    let (code, out, err) = tidegate(&world, &gateway, &["purge", "--tag", "blue"]);
    assert_eq!((code, out.as_str()), (0, "purged 1\n"), "{err}");
    assert_eq!(gateway.get("/own", &[]).await.text(), "second");
    assert_eq!(gateway.get("/usual", &[]).await.text(), "first");
    gateway.stop().await;
}

/// Sends bodies that no purge has.
async fn wrong_bodies_are_refused(gateway: &Whole) {
    for (body, why) in [
        (json!({ "tags": vec!["t"; 10_001] }), "10001 paths"),
        (json!({ "tags": ["a\u{7}"] }), "visible ASCII"),
        (json!({ "tags": ["x".repeat(1 << 20)] }), "longer than"),
    ] {
        let got = send(
            gateway.admin,
            Method::POST,
            "/purge",
            &[AUTH],
            &body.to_string(),
        )
        .await;
        assert!(
            got.status == 400 && got.text().contains(why),
            "{}",
            got.text()
        );
    }
}

/// Purges lists of paths, tags and prefixes by the command line.
fn lists_are_purged(world: &World, gateway: &Whole) {
    let list = world.folder.path().join("list");
    let purge_list = |text: &[u8], more: &[&str]| {
        std::fs::write(&list, text).expect("written");
        let file = list.to_str().expect("text");
        let line = [&["purge", "--from-list", file], more].concat();
        tidegate(world, gateway, &line)
    };
    // More than one request takes.
    let many: String = (0..2500).map(|n| format!("/s/{n}\n\n")).collect();
    let (code, out, err) = purge_list(many.as_bytes(), &[]);
    assert_eq!((code, &*out), (0, "purged 2500, known 2\n"), "{err}");
    let (code, out, err) = purge_list(b"a\n  b\n", &["--tags"]);
    assert_eq!((code, &*out), (0, "purged 2\n"), "{err}");
    let (code, out, err) = purge_list(b"/s/\n", &["--prefix", "--soft"]);
    assert_eq!((code, &*out), (0, "purged 1\n"), "{err}");
    for (text, more, why) in [
        (&b"/s/\xff\n"[..], &[][..], "is not text"),
        (b"s/0\n", &[], "s/0"),
        (b"a b\n", &["--tags"], "visible ASCII"),
    ] {
        let bad = purge_list(text, more);
        assert!(bad.0 != 0 && bad.2.contains(why), "{bad:?}");
    }
}

/// Purges objects by the keys of their bucket: by request and by the command line.
async fn keys_are_purged(world: &World, gateway: &Whole) {
    let get = async || gateway.get("/s/2", &[]).await.body;
    let keys = json!({ "keys": ["s/2", "s/none"] });
    for body in [keys.clone(), json!({ "keys": ["s/2"], "origin": "media" })] {
        let before = get().await;
        let seed = usize::from(before == sample(1000, 2)) + 2;
        world.put("s/2", &sample(1000, seed)).await;
        assert_eq!(get().await, before, "it is cached");
        let text = body.to_string();
        let got = send(gateway.admin, Method::POST, "/purge", &[AUTH], &text).await;
        let count = body["keys"].as_array().map(Vec::len);
        let expected = json!({ "purged": count, "known": 1, "no_route": [] });
        assert_eq!(read(&got), expected);
        assert_eq!(get().await, sample(1000, seed), "{body}");
    }
    let other = json!({ "keys": ["s/2"], "origin": "other" }).to_string();
    let got = send(gateway.admin, Method::POST, "/purge", &[AUTH], &other).await;
    assert_eq!(got.status, 404);
    assert!(got.text().contains("no route leads to"), "{}", got.text());
    let line = [
        "purge", "--key", "s/2", "--key", "s/none", "--origin", "media",
    ];
    let (code, out, err) = tidegate(world, gateway, &line);
    assert_eq!((code, &*out), (0, "purged 2, known 1\n"), "{err}");
    get().await;
    let list = world.folder.path().join("keys");
    std::fs::write(&list, "s/2\n").expect("written");
    let file = list.to_str().expect("text");
    let line = ["purge", "--from-list", file, "--keys", "--soft"];
    let (code, out, err) = tidegate(world, gateway, &line);
    assert_eq!((code, &*out), (0, "purged 1, known 1\n"), "{err}");
    let bad = tidegate(world, gateway, &["purge", "--key", "a/../b"]);
    assert!(bad.0 != 0 && bad.2.contains("a/../b"), "{bad:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_any_length_is_purged_or_its_rest_is_named() {
    const COUNT: usize = 12_000;
    let world = World::new().await;
    for n in 0..2 {
        world.put(&format!("s/{n}"), &sample(1000, n)).await;
    }
    let gateway = world.start("ttl = \"1h\"").await;
    gateway.ready().await;
    let read_both = async || {
        for n in 0..2 {
            let got = gateway.get(&format!("/s/{n}"), &[]).await;
            assert_eq!(got.body, sample(1000, n));
        }
    };
    let purge = |lines: &[String]| {
        // Lines may end as on Windows.
        let input = lines.join("\r\n");
        let line = ["purge", "--from-list", "-"];
        tidegate_reading(&world, &gateway, &line, &input)
    };
    let right: Vec<_> = (0..COUNT).map(|n| format!("/s/{n}")).collect();
    read_both().await;
    let (code, out, err) = purge(&right);
    assert_eq!((code, &*out), (0, "purged 12000, known 2\n"), "{err}");

    // A line that is no path is found before anything is purged.
    read_both().await;
    let mut wrong = right.clone();
    wrong[11_000] = "s/11000".to_owned();
    let (code, out, err) = purge(&wrong);
    assert_eq!((code, &*out), (1, ""));
    assert!(err.contains("`s/11000` does not begin with `/`"), "{err}");
    let (_, out, _) = tidegate(&world, &gateway, &["purge", "/s/0"]);
    assert!(out.contains("\"known\":1"), "{out}");

    // One that only the gateway refuses ends the list there.
    read_both().await;
    wrong.clone_from(&right);
    wrong[11_500] = format!("/s/{}", "x".repeat(2000));
    let (code, out, err) = purge(&wrong);
    assert_eq!((code, &*out), (1, ""));
    let said = "11000 of 12000 are purged, `/s/11000` and what follows it may not be";
    assert!(err.contains(said), "{err}");
    let (_, out, _) = tidegate(&world, &gateway, &["purge", "/s/0"]);
    assert!(out.contains("\"known\":0"), "it is purged: {out}");
    gateway.stop().await;
}
