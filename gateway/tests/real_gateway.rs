//! The whole gateway in front of a real MinIO and behind a real nginx: plain, and with nginx's own cache in slices.
//! Clients get the same bytes each way.
#![cfg(feature = "real-parts")]

use std::net::SocketAddr;

use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

#[path = "support/bucket.rs"]
#[expect(dead_code, reason = "other suites delete and keep versions as well")]
mod bucket;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/minio.rs"]
mod minio;
#[path = "support/nginx.rs"]
mod nginx;
#[path = "support/ports.rs"]
mod ports;

use bucket::Bucket;
use gateway::{Got, Whole, ask};
use minio::{Minio, SECRET, USER};
use nginx::Nginx;

const MIB: usize = 1 << 20;

/// Sizes around one chunk, one first request and one part; and names that need encoding.
const OBJECTS: [(&str, usize); 10] = [
    ("empty", 0),
    ("one", 1),
    ("wp-content/uploads/2026/11/photo.jpg", 35_000),
    ("chunk", 256 << 10),
    ("chunk and one", (256 << 10) + 1),
    ("a+b%2F.bin", MIB),
    ("Märchen/Momo – 1.mp3", MIB + 1),
    ("q?mark#.bin", 70_001),
    ("large.bin", 9 * MIB + 12_345),
    ("notes.txt", 5000),
];

struct World {
    gateway: Whole,
    _minio: Minio,
}

impl World {
    async fn new() -> Self {
        Self::with("").await
    }

    /// Starts a gateway with these sections more.
    async fn with(more: &str) -> Self {
        let minio = Minio::start().await;
        let settings = minio.settings("media");
        let bucket = Bucket::create(&settings).await;
        for (key, size) in OBJECTS {
            bucket.put(key, sample(key, size)).await;
        }
        let gateway = Whole::start(&format!(
            "[[origin]]\nname = \"minio\"\nbucket = \"media\"\npath_style = true\n\
             endpoint = \"{}\"\naccess_key_id = \"{USER}\"\n\
             secret_access_key = \"{SECRET}\"\n{more}",
            settings.endpoint.expect("an endpoint"),
        ))
        .await;
        gateway.ready().await;
        Self {
            gateway,
            _minio: minio,
        }
    }
}

/// Returns bytes that differ between objects and between places.
fn sample(key: &str, size: usize) -> Vec<u8> {
    let seed: usize = key.bytes().map(usize::from).sum();
    let byte = |at: usize| (at.wrapping_mul(31) ^ (at >> 9) ^ seed) as u8;
    (0..size).map(byte).collect()
}

/// Characters that a path must encode; the plus stands for itself.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'+');

fn path(key: &str) -> String {
    format!("/{}", utf8_percent_encode(key, ENCODED))
}

async fn get(address: SocketAddr, key: &str, range: Option<&str>) -> Got {
    let header = range.map(|range| ("range", range));
    let headers: Vec<_> = header.into_iter().collect();
    ask(address, Method::GET, &path(key), &headers).await
}

/// Checks every object whole, from its end, and from within, twice.
async fn is_right(address: SocketAddr, objects: &[(&str, usize)]) {
    for &(key, size) in objects.iter().chain(objects) {
        let bytes = sample(key, size);
        let whole = get(address, key, None).await;
        assert_eq!(whole.status, 200, "{key}");
        assert!(whole.body == bytes, "{key}: {} bytes", whole.body.len());
        assert_eq!(whole.header("content-length"), size.to_string(), "{key}");
        for (from, to) in ranges(size) {
            let range = format!("bytes={from}-{}", to - 1);
            let part = get(address, key, Some(&range)).await;
            let expected = format!("bytes {from}-{}/{size}", to - 1);
            assert_eq!(
                (part.status, part.header("content-range")),
                (206, &*expected),
                "{key}"
            );
            assert!(part.body == bytes[from..to], "{key} {range}");
        }
    }
}

fn ranges(size: usize) -> Vec<(usize, usize)> {
    let within = [
        (0, size.min(1)),
        (size / 3, size / 2),
        (size.saturating_sub(500), size),
    ];
    let fits = |(from, to): &(usize, usize)| from < to;
    within.into_iter().filter(fits).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn serves_a_bucket_of_minio() {
    let world = World::new().await;
    let http = world.gateway.http;
    is_right(http, &OBJECTS).await;

    let several = get(http, "large.bin", Some("bytes=0-9,5000000-5000009,-10")).await;
    assert_eq!(several.status, 206);
    let kind = several.header("content-type");
    assert!(
        kind.starts_with("multipart/byteranges; boundary="),
        "{kind}"
    );
    assert_eq!(get(http, "one", Some("bytes=1-")).await.status, 416);
    assert_eq!(get(http, "missing", None).await.status, 404);
    let known = get(http, "one", None).await;
    let tag = known.header("etag");
    let headers = [("if-none-match", tag)];
    assert_eq!(ask(http, Method::GET, "/one", &headers).await.status, 304);
    let head = ask(http, Method::HEAD, "/large.bin", &[]).await;
    assert_eq!(
        head.header("content-length"),
        (9 * MIB + 12_345).to_string()
    );

    let heads = ["tidegate_origin_requests_total{", "kind=\"head\""];
    let heads = world.gateway.metric(&heads).await;
    assert_eq!(heads, 1, "the empty object's, whose 416 has no ETag");
    world.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn serves_the_same_behind_nginx() {
    let world = World::new().await;
    let nginx = Nginx::start(
        &format!(
            "upstream tidegate {{ server {}; keepalive 8; }}",
            world.gateway.http
        ),
        "location / { proxy_pass http://tidegate; proxy_http_version 1.1; \
         proxy_set_header Connection \"\"; proxy_max_temp_file_size 0; }",
    );
    is_right(nginx.addr(), &OBJECTS).await;
    assert_eq!(get(nginx.addr(), "missing", None).await.status, 404);
    world.gateway.stop().await;
}

/// A client without a right to write sends large bodies. To nginx a connection that is reset is a server that has failed, and
/// after one failure of each it asks none of them for 10 s.
#[tokio::test(flavor = "multi_thread")]
async fn refused_uploads_take_no_gateway_out_of_nginx() {
    let world = World::new().await;
    let http = world.gateway.http;
    let servers = format!("upstream gateways {{ server {http}; server {http}; }}\n");
    let nginx = Nginx::start(
        &servers,
        "location / { client_max_body_size 0; proxy_pass http://gateways; }",
    );
    let body = tempfile::NamedTempFile::new().expect("a file");
    body.as_file().set_len(20 << 20).expect("room");
    let url = format!("http://{}/one", nginx.addr());
    for _ in 0..20 {
        let mut curl = std::process::Command::new("curl");
        curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "-T"]);
        let said = curl.arg(body.path()).arg(&url).output().expect("curl");
        assert_eq!(String::from_utf8_lossy(&said.stdout), "405");
    }
    assert_eq!(get(nginx.addr(), "one", None).await.status, 200);
    world.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn serves_the_same_behind_nginx_with_a_cache_of_slices() {
    let world = World::new().await;
    let nginx = Nginx::start(
        "proxy_cache_path {dir}/cache keys_zone=media:1m;",
        &format!(
            "location / {{ slice 1m; proxy_cache media; \
             proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range; \
             proxy_cache_valid 200 206 1h; proxy_http_version 1.1; \
             add_header X-Nginx $upstream_cache_status; proxy_pass http://{}; }}",
            world.gateway.http
        ),
    );
    // An empty object has no first slice: nginx asks for one, and passes the 416 on.
    let (empty, others) = OBJECTS.split_first().expect("not empty");
    assert_eq!(get(nginx.addr(), empty.0, None).await.status, 416);
    is_right(nginx.addr(), others).await;
    let hit = get(nginx.addr(), "large.bin", Some("bytes=0-9")).await;
    assert_eq!((hit.status, hit.header("x-nginx")), (206, "HIT"));
    world.gateway.stop().await;
}

/// nginx before 1.23 reads one line of `Vary` alone, and its cache keeps an answer for the requests that it names.
#[tokio::test(flavor = "multi_thread")]
async fn a_cache_of_nginx_keeps_codings_apart_for_other_sites() {
    let route = "[[route]]\npath = \"/\"\norigin = \"minio\"\ncors = { origins = [\"https://a.example\"] }\n";
    let world = World::with(route).await;
    let nginx = Nginx::start(
        "proxy_cache_path {dir}/cache keys_zone=media:1m;",
        &format!(
            "location / {{ proxy_cache media; proxy_cache_valid 200 1h; proxy_http_version 1.1; \
             add_header X-Nginx $upstream_cache_status; proxy_pass http://{}; }}",
            world.gateway.http
        ),
    );
    for (accepted, expected) in [("br", "br"), ("identity", ""), ("gzip", "gzip")] {
        for found in ["MISS", "HIT"] {
            let headers = [("accept-encoding", accepted)];
            let got = ask(nginx.addr(), Method::GET, "/notes.txt", &headers).await;
            let said = (got.header("x-nginx"), got.header("content-encoding"));
            assert_eq!(said, (found, expected), "{accepted}");
        }
    }
    world.gateway.stop().await;
}

/// Starts a shipped file in front of `gateway`, with the cache in the test's own folder; returns its address, too.
fn shipped(name: &str, gateway: SocketAddr) -> (Nginx, SocketAddr) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/nginx");
    let mut text = std::fs::read_to_string(folder.join(name)).expect("it is shipped");
    let listens = ports::free_addr();
    for (there, here) in [
        ("listen 80;", format!("listen {listens};")),
        ("server 127.0.0.1:8080;", format!("server {gateway};")),
        (
            "server unix:/run/tidegate/http.sock;",
            format!("server {gateway};"),
        ),
        ("/var/cache/nginx/tidegate", "{dir}/cache".into()),
        ("include fastcgi_params;", String::new()),
    ] {
        text = text.replace(there, &here);
    }
    assert!(text.contains(&listens.to_string()) && text.contains(&gateway.to_string()));
    (Nginx::start(&text, ""), listens)
}

/// Requests for other spellings of a path, in any order, leave the object's own answer alone.
#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_cache_of_slices_keeps_each_spelling_of_a_path_apart() {
    let world = World::new().await;
    let (_nginx, nginx) = shipped("slice-cache.conf", world.gateway.http);
    let photo = "/wp-content/uploads/2026/11/photo.jpg";
    let others = [
        "//one",
        "///one?ver=1",
        "/x/../one",
        "/./one",
        "//wp-content/uploads/2026/11/photo.jpg",
        "/wp-content%2Fuploads//2026/11/photo.jpg",
    ];
    for spelling in others {
        let got = ask(nginx, Method::GET, spelling, &[]).await;
        let own = ask(world.gateway.http, Method::GET, spelling, &[]).await;
        assert_eq!(got.status, own.status, "{spelling}");
    }
    for path in ["/one", photo, "/one?ver=2"] {
        let got = ask(nginx, Method::GET, path, &[]).await;
        assert_eq!(got.status, 200, "{path}");
    }
    // An empty object has no first slice.
    is_right(nginx, &OBJECTS[1..]).await;
    world.gateway.stop().await;
}

/// nginx chooses a location by the path as it reads it, and Tidegate gets that very path.
#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_site_sends_on_the_path_that_it_judged() {
    let world = World::new().await;
    let (_nginx, nginx) = shipped("wordpress-offload.conf", world.gateway.http);
    for path in [
        "/wp-content/uploads/2026/11/photo.jpg",
        "//wp-content/uploads//2026/11/photo.jpg",
        "/one/../wp-content/uploads/2026/11/photo.jpg",
        "/one%2F..%2Fwp-content/uploads/2026/11/photo.jpg",
    ] {
        let got = ask(nginx, Method::GET, path, &[]).await;
        assert_eq!((got.status, got.body.len()), (200, 35_000), "{path}");
    }
    world.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_nginx_passes_objects_ranges_and_failures_on() {
    let world = World::new().await;
    let (_nginx, nginx) = shipped("tidegate.conf", world.gateway.http);
    is_right(nginx, &OBJECTS).await;
    assert_eq!(get(nginx, "missing", None).await.status, 404);
    let part = get(nginx, "large.bin", Some("bytes=0-9")).await;
    assert_eq!((part.status, part.body.len()), (206, 10));
    world.gateway.stop().await;
    assert_eq!(get(nginx, "large.bin", None).await.status, 502);
}

/// Nginx Helper of WordPress sends `GET /purge/PATH`, which the shipped file turns into a PURGE.
#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_purges_of_nginx_helper_reach_the_gateway() {
    let networks = "purge_networks = [\"127.0.0.1\"]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    let world = World::with(&format!("[http]\n{networks}")).await;
    let purges = include_str!("../../config/nginx/wordpress-purge.conf");
    let nginx = Nginx::start(
        &format!("upstream tidegate {{ server {}; }}", world.gateway.http),
        &format!("{purges} location / {{ proxy_pass http://tidegate; }}"),
    );
    for (key, size) in OBJECTS {
        let whole = get(world.gateway.http, key, None).await;
        assert_eq!((whole.status, whole.body.len()), (200, size), "{key}");
        let purged = ask(
            nginx.addr(),
            Method::GET,
            &format!("/purge{}", path(key)),
            &[],
        )
        .await;
        assert_eq!(
            (purged.status, &*purged.text()),
            (200, "purged 1\n"),
            "{key}"
        );
        let fetched = get(world.gateway.http, key, None).await;
        let status = fetched.header("cache-status");
        assert!(
            status.contains("fwd="),
            "{key} is asked for again: {status}"
        );
    }
    // A path without an object, as the feeds of a page that the plugin purges as well.
    let none = ask(nginx.addr(), Method::GET, "/purge/page/feed/", &[]).await;
    assert_eq!(none.status, 200, "{}", none.text());
    world.gateway.stop().await;
}
