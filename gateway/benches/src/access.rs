//! The judgement of an access: the first one on a link, and the one on a link that is repeated.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion};
use http::header::{AUTHORIZATION, HeaderValue};
use http::{HeaderMap, Method};
use tidegate_access::limits::{LimitRules, Limits, Rate};
use tidegate_access::{Access, NamedToken, Request, Rules, SigningKey};
use tidegate_plan::{Client, Timestamp, Token};

/// The time of each judgement.
const NOW: Timestamp = Timestamp(1_800_000_000_000);

const PATH: &str = "/private/2024/05/IMG-20240512-1536x1024.jpg";

fn key() -> SigningKey {
    SigningKey::new("k1", "the secret of this key").expect("a key")
}

fn access() -> Access {
    Access::new(Rules {
        tokens: vec![NamedToken {
            name: "alice".to_owned(),
            token: Token::new("a token of some length").expect("a token"),
            expires: None,
        }],
        keys: vec![key()],
        skew: Duration::from_secs(60),
        ..Rules::default()
    })
}

fn request<'r>(path: &'r str, query: Option<&'r str>, headers: &'r HeaderMap) -> Request<'r> {
    Request {
        method: &Method::GET,
        host: "media.example.org",
        path,
        below: path.strip_prefix("/private/").expect("below the route"),
        query,
        headers,
        address: None,
        certificate: &[],
        wants_name: false,
    }
}

/// Measures each way in.
pub(crate) fn access_and_limits(c: &mut Criterion) {
    let plain = HeaderMap::new();
    let target = ("media.example.org", PATH);
    let presigned = key().presign(&Method::GET, target, NOW, Duration::from_secs(3600));
    let presigned = request(PATH, Some(&presigned), &plain);
    c.bench_function("presigned URL, first", |b| {
        b.iter_batched_ref(
            access,
            |access| access.check(black_box(&presigned), NOW).is_admitted(),
            BatchSize::LargeInput,
        );
    });
    let shared = access();
    c.bench_function("presigned URL, repeated", |b| {
        b.iter(|| shared.check(black_box(&presigned), NOW));
    });
    let segment = key().sign_prefix("/private/2024/", u64::MAX);
    let path = PATH.replace("/private/", &format!("/private/{segment}/"));
    let prefix = request(&path, None, &plain);
    c.bench_function("signed prefix", |b| {
        b.iter(|| shared.check(black_box(&prefix), NOW));
    });
    let bearer = HeaderValue::from_static("Bearer a token of some length");
    let headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
    let token = request(PATH, None, &headers);
    c.bench_function("token", |b| {
        b.iter(|| shared.check(black_box(&token), NOW));
    });
    let limits = Arc::new(Limits::new(LimitRules {
        requests: Some(Rate {
            requests: u32::MAX.try_into().expect("not zero"),
            time: Duration::from_secs(1),
        }),
        burst: u32::MAX,
        ..LimitRules::default()
    }));
    c.bench_function("limit of requests", |b| {
        b.iter(|| {
            let key = limits.key(black_box(Client::V4(7)), None);
            limits.enter(key, Duration::from_secs(1)).is_ok()
        });
    });
}
