use http::{HeaderMap, HeaderValue};

use super::*;
use crate::{Access, Rules, Verdict};
use std::time::Duration;
use tidegate_plan::Timestamp;

mod hostile;

const ID: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const HOST: &str = "examplebucket.s3.amazonaws.com";

/// The example of "Authenticating Requests: Using Query Parameters (AWS Signature Version 4)".
const EXAMPLE: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256\
    &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
    &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
    &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";

/// The time of the example, in seconds since 1970.
const BEGIN: u64 = 1_369_353_600;

fn key() -> SigningKey {
    SigningKey::new(ID, SECRET).expect("a key")
}

fn access() -> Access {
    let other = SigningKey::new("k2", "another secret of ours").expect("a key");
    Access::new(Rules {
        keys: vec![other, key()],
        skew: Duration::from_secs(60),
        ..Rules::default()
    })
}

/// A request, as the client sends it.
#[derive(Debug, Clone)]
struct Sent {
    method: Method,
    host: String,
    path: String,
    query: String,
    headers: HeaderMap,
}

impl Sent {
    fn new(path: &str, query: &str) -> Self {
        Self {
            method: Method::GET,
            host: HOST.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: HeaderMap::new(),
        }
    }

    fn example() -> Self {
        Self::new("/test.txt", EXAMPLE)
    }

    /// Returns why it is refused at `now`, asked twice: the second time its verdict may be a remembered one.
    fn refusal(&self, access: &Access, now: u64) -> Option<Refusal> {
        let request = Request {
            method: &self.method,
            host: &self.host,
            path: &self.path,
            below: &self.path[1..],
            query: Some(&self.query),
            headers: &self.headers,
            address: None,
            certificate: &[],
            wants_name: true,
        };
        let time = Timestamp(now.saturating_mul(1000));
        let [first, second] = [(); 2].map(|()| match access.check(&request, time) {
            Verdict::Admitted { below, .. } => {
                assert_eq!(below, request.below);
                None
            }
            Verdict::Refused(refusal) | Verdict::Undecided { refusal, .. } => Some(refusal),
        });
        assert_eq!(first, second);
        first
    }
}

#[test]
fn the_example_of_the_documentation_is_admitted_in_its_time() {
    let access = access();
    let rows = [
        (0, Some(Refusal::Early)),
        (BEGIN - 61, Some(Refusal::Early)),
        (BEGIN - 60, None),
        (BEGIN, None),
        (BEGIN + 86_400, None),
        (BEGIN + 86_459, None),
        (BEGIN + 86_460, Some(Refusal::Expired)),
        (u64::MAX / 1000, Some(Refusal::Expired)),
    ];
    for (now, expected) in rows.into_iter().chain(rows) {
        assert_eq!(Sent::example().refusal(&access, now), expected, "{now}");
    }
}

/// A path may begin like a signed prefix does. What is signed is all of it, and what is served is the rest.
#[test]
fn a_presigned_url_opens_nothing_behind_a_segment() {
    let access = access();
    let segment = "expires=1&key=a&prefix=b&signature=c";
    let path = format!("/{segment}/secret.txt");
    let query = presign(&key(), &Method::GET, (HOST, &path), BEGIN, 600);
    let refusal = Sent::new(&path, &query).refusal(&access, BEGIN);
    assert!(refusal.is_some(), "{refusal:?}");
}

/// URLs that others have made for `https://media.example:8443` and one path, within a minute.
#[test]
fn links_of_the_sdks_are_admitted() {
    /// By the key `A b/ü+(1)'~!.mp4` in the bucket `private`.
    const SDK_PATH: &str = "/private/A%20b/%C3%BC%2B%281%29%27~%21.mp4";
    /// 2026-11-28 00:44:57.
    const SDK_BEGIN: u64 = 1_795_826_697;
    let credential =
        "X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20261128%2Feu-central-1%2Fs3%2Faws4_request";
    let rows = [
        // boto3 1.44.8
        format!(
            "response-content-disposition=attachment%3B%20filename%3D%22a%20b.mp4%22&X-Amz-Algorithm=AWS4-HMAC-SHA256&{credential}\
             &X-Amz-Date=20261128T004457Z&X-Amz-Expires=3600&X-Amz-SignedHeaders=host\
             &X-Amz-Signature=fe1a727d0712eea337a6ca170befb5601910410256b3bdef5aee65d6a0e7f907"
        ),
        // aws s3 presign, of aws-cli 1.46.3
        format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&{credential}&X-Amz-Date=20261128T004459Z&X-Amz-Expires=3600&X-Amz-SignedHeaders=host\
             &X-Amz-Signature=64f87c9175c93d55500ae436771f994e31c865038e79d6a34cde033d14e3b67f"
        ),
        // @aws-sdk/s3-request-presigner for JavaScript, 3.1175.0
        format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD&{credential}&X-Amz-Date=20261128T004508Z\
             &X-Amz-Expires=3600&X-Amz-Signature=4dac1c6f230efbacb7179f66e142538c6839dfa42040152a331ff381846cc99e\
             &X-Amz-SignedHeaders=host&x-amz-checksum-mode=ENABLED&x-id=GetObject"
        ),
        // github.com/aws/aws-sdk-go-v2/service/s3 v1.114.10
        format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&{credential}&X-Amz-Date=20261128T004533Z&X-Amz-Expires=3600&X-Amz-SignedHeaders=host\
             &x-id=GetObject&X-Amz-Signature=7022ef046edc26ba64656d964b2424423bcf53b85bb8ffcbd7e04fb8c8d4abc1"
        ),
        // AWS SDK for PHP 3.319.4, as WP Offload Media Lite 3.2.11 has it; its `start_time` was set to SDK_BEGIN.
        format!(
            "response-content-disposition=attachment%3B%20filename%3D%22a%20b.mp4%22&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD\
             &X-Amz-Algorithm=AWS4-HMAC-SHA256&{credential}&X-Amz-Date=20261128T004457Z&X-Amz-SignedHeaders=host&X-Amz-Expires=3600\
             &X-Amz-Signature=9fe59a703828e42ed03590c63404e734bd0e80c06b156689e148e5533afd00c1"
        ),
    ];
    let access = access();
    for query in rows {
        let mut sent = Sent::new(SDK_PATH, &query);
        sent.host = "media.example:8443".to_owned();
        assert_eq!(sent.refusal(&access, SDK_BEGIN), None, "{query}");
        let late = sent.refusal(&access, SDK_BEGIN + 3700);
        assert_eq!(late, Some(Refusal::Expired), "{query}");
        sent.method = Method::HEAD;
        let other = sent.refusal(&access, SDK_BEGIN);
        assert_eq!(other, Some(Refusal::Signature), "{query}");
    }
}

#[test]
fn another_request_than_the_signed_one_is_refused() {
    let access = access();
    assert_eq!(Sent::example().refusal(&access, BEGIN), None);
    let change = |change: fn(&mut Sent)| {
        let mut sent = Sent::example();
        change(&mut sent);
        sent.refusal(&access, BEGIN)
    };
    let wrong = Some(Refusal::Signature);
    assert_eq!(change(|sent| sent.method = Method::HEAD), wrong);
    assert_eq!(change(|sent| sent.host = "example.org".into()), wrong);
    assert_eq!(change(|sent| sent.host.push_str(":8080")), wrong);
    assert_eq!(change(|sent| sent.path.push('x')), wrong);
    assert_eq!(change(|sent| sent.query.push_str("&v=2")), wrong);
    assert_eq!(change(|sent| sent.query.push('0')), wrong);
    assert_eq!(
        change(|sent| sent.query.truncate(sent.query.len() - 1)),
        wrong
    );
    assert_eq!(
        change(|sent| sent.query = sent.query.replace("86400", "86401")),
        wrong
    );
    assert_eq!(
        change(|sent| sent.query = sent.query.replace("us-east-1", "eu-west-1")),
        wrong
    );
    assert_eq!(
        change(|sent| sent.query = sent.query.replace("7EXAMPLE", "8EXAMPLE")),
        Some(Refusal::Key)
    );
    assert_eq!(change(|sent| sent.query.clear()), Some(Refusal::Missing));
}

#[test]
fn a_path_has_one_meaning_in_any_spelling() {
    let access = access();
    assert_eq!(
        Sent::new("/t%65st%2Etxt", EXAMPLE).refusal(&access, BEGIN),
        None
    );
    let head = Method::HEAD;
    for path in [
        "/a%20b/%C3%BC+(1)",
        "/",
        "//x//",
        "/%00",
        "/100%25",
        "/~a_b-c.d",
        "/bad%zz",
    ] {
        let now = Timestamp::from_secs(1_700_000_000);
        let query = key().presign(&head, ("h:81", path), now, Duration::from_secs(60));
        let mut sent = Sent::new(path, &query);
        (sent.method, sent.host) = (Method::HEAD, "h:81".into());
        assert_eq!(sent.refusal(&access, now.secs()), None, "{path}");
        sent.method = Method::GET;
        assert_eq!(
            sent.refusal(&access, now.secs()),
            Some(Refusal::Signature),
            "{path}"
        );
    }
}

/// A browser writes a host in lower case, and so do signers; a client that sends it as a user has typed it means the same.
#[test]
fn a_host_is_compared_in_lower_case() {
    let access = access();
    let mut sent = Sent::example();
    sent.host = "ExampleBucket.S3.amazonaws.com".into();
    assert_eq!(sent.refusal(&access, BEGIN), None);
    let now = Timestamp::from_secs(1_700_000_000);
    let signed = ("Media.Example:81", "/k");
    let query = key().presign(&Method::GET, signed, now, Duration::from_secs(60));
    let mut sent = Sent::new("/k", &query);
    for (host, expected) in [
        ("media.example:81", None),
        ("Media.Example:81", None),
        ("media.example", Some(Refusal::Signature)),
    ] {
        sent.host = host.into();
        assert_eq!(sent.refusal(&access, now.secs()), expected, "{host}");
    }
}

/// Signs a query with further parameters and headers, as a client does.
fn sign(parameters: &str, (names, lines): (&str, &str)) -> String {
    let query = EXAMPLE.split("&X-Amz-Signature").next().expect("a query");
    let query = format!(
        "{}{parameters}",
        query.replace("=host", &format!("={names}"))
    );
    let read = PresignedUrl::read(&format!("{query}&X-Amz-Signature=0"))
        .expect("whole")
        .parameters
        .iter()
        .map(|(name, value)| (Cow::Owned(name.to_vec()), Cow::Owned(value.to_vec())))
        .collect::<Vec<Parameter<'static>>>();
    let names = names.replace("%3B", ";");
    let canonical = canonical_request(
        &Method::GET,
        "/test.txt",
        &canonical_query(&read),
        (lines, &names),
    );
    let scope = Scope {
        day: "20130524",
        region: "us-east-1",
        service: "s3",
    };
    let signature = signature(&key(), "20130524T000000Z", scope, &canonical);
    format!("{query}&X-Amz-Signature={signature}")
}

#[test]
fn further_parameters_and_headers_are_signed_too() {
    let access = access();
    let host = format!("host:{HOST}\n");
    for parameters in [
        "&x-id=GetObject",
        "&a=b%26c&A",
        "&%C3%BC=%20+&a=2&a=1",
        "&x=%2f",
    ] {
        let sent = Sent::new("/test.txt", &sign(parameters, ("host", &host)));
        assert_eq!(sent.refusal(&access, BEGIN), None, "{parameters}");
    }
    let lines = format!("{host}x-a:1 2,3\n");
    let mut sent = Sent::new("/test.txt", &sign("", ("host%3Bx-a", &lines)));
    assert_eq!(
        sent.refusal(&access, BEGIN),
        Some(Refusal::Signature),
        "no such header"
    );
    sent.headers
        .append("x-a", HeaderValue::from_static("  1   2 "));
    sent.headers.append("x-a", HeaderValue::from_static("3"));
    assert_eq!(sent.refusal(&access, BEGIN), None);
    sent.headers.remove("x-a");
    sent.headers.append("x-a", HeaderValue::from_static("1 2"));
    assert_eq!(
        sent.refusal(&access, BEGIN),
        Some(Refusal::Signature),
        "remembered without it"
    );
}

#[test]
fn the_longest_life_is_a_week() {
    let access = access();
    for (life, seconds) in [(0, 1), (5, 5), (604_800, 604_800), (u64::MAX, 604_800)] {
        let now = Timestamp::from_secs(1_700_000_000);
        let query = key().presign(&Method::GET, ("h", "/k"), now, Duration::from_secs(life));
        assert!(
            query.contains(&format!("X-Amz-Expires={seconds}&")),
            "{query}"
        );
        let mut sent = Sent::new("/k", &query);
        sent.host = "h".into();
        assert_eq!(sent.refusal(&access, now.secs() + seconds + 59), None);
        let late = sent.refusal(&access, now.secs() + seconds + 60);
        assert_eq!(late, Some(Refusal::Expired));
    }
}
