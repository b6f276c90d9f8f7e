use tidegate_access::SigningKey;
use tidegate_config::parse;
use tidegate_plan::Period;

use super::*;

const CONFIG: &str = r#"
[[origin]]
name = "media"
bucket = "media"
[[route]]
origin = "media"
path = "/private"
access = "members"
[[route]]
origin = "media"
path = "/films/"
host = "films.example.org"
access = "two"
[[route]]
origin = "media"
path = "/open/"
[access.members]
signed = { keys = { k1 = { env = "K1" } } }
[access.two]
networks = ["::1"]
signed = { keys = { a = "the first of two secrets", b = "the second of two secrets" } }
"#;

fn args(path: &str) -> SignArgs {
    SignArgs {
        path: path.to_owned(),
        expires: Period::secs(100),
        prefix: false,
        presigned: false,
        head: false,
        url: None,
        key: None,
    }
}

fn made(args: &SignArgs) -> Result<String, String> {
    let env = Environment::from_iter([("K1", "the secret of k1")]);
    let loaded = parse("t.toml", CONFIG, &env).expect("it is right");
    let now = Timestamp::from_secs(1_800_000_000);
    sign_at(&loaded.config, &env, args, now).map_err(|error| format!("{error:#}"))
}

/// From `printf '%s\n%s\n%s' 1800000100 k1 /private/books/ | openssl dgst -sha256 -hmac 'the secret of k1'`.
const BOOKS: &str = "expires=1800000100&key=k1&prefix=L3ByaXZhdGUvYm9va3Mv\
                     &signature=0749560a5f818726196b4130cb60acb8382e5b37e7bc796f3c1e3d271d5dc5d5";

#[test]
fn a_prefix_stands_below_its_route_and_in_a_cookie() {
    let mut args = args("/private/books/");
    assert_eq!(made(&args), Ok(format!("/private/books/?{BOOKS}\n")));
    args.prefix = true;
    let cookie = format!("tidegate={BOOKS}\n");
    assert_eq!(
        made(&args),
        Ok(format!("/private/{BOOKS}/books/\n{cookie}"))
    );
    args.url = Some("https://media.example.org:443/".into());
    let link = format!("https://media.example.org/private/{BOOKS}/books/\n{cookie}");
    assert_eq!(made(&args), Ok(link));
}

#[test]
fn a_path_is_signed_as_it_is_meant() {
    let link = made(&args("/private/b%C3%BC%20cher")).expect("a link");
    let key = SigningKey::new("k1", "the secret of k1").expect("a key");
    let signed = key.sign_prefix("/private/bü cher", 1_800_000_100);
    assert_eq!(link, format!("/private/b%C3%BC%20cher?{signed}\n"));
}

#[test]
fn a_presigned_url_is_for_a_host() {
    let mut args = args("/films/a.mp4");
    args.url = Some("http://films.example.org:8080".into());
    (args.presigned, args.key) = (true, Some("b".into()));
    let key = SigningKey::new("b", "the second of two secrets").expect("a key");
    for (head, method) in [(false, Method::GET), (true, Method::HEAD)] {
        args.head = head;
        let now = Timestamp::from_secs(1_800_000_000);
        let target = ("films.example.org:8080", "/films/a.mp4");
        let query = key.presign(&method, target, now, Duration::from_secs(100));
        let link = format!("http://films.example.org:8080/films/a.mp4?{query}\n");
        assert_eq!(made(&args), Ok(link));
    }
}

fn told(path: &str, change: fn(&mut SignArgs), expected: &str) {
    let mut args = args(path);
    change(&mut args);
    let said = made(&args).expect_err(path);
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn mistakes_of_path_and_route_are_told() {
    for (path, expected) in [
        ("private/a", "`private/a` does not begin with `/`"),
        ("/open/a", "the route `/open/` has no `access`"),
        ("/none/a", "no route has the path `/none/a`"),
        (
            "/films/a",
            "no route has the path `/films/a`; one with a host needs `--url`",
        ),
        ("/private/%2e%2e/a", "the path has a dot segment"),
        ("/private/%FF", "the path is not valid text"),
    ] {
        told(path, |_| (), expected);
    }
    let prefix = |args: &mut SignArgs| args.prefix = true;
    told("/private/a", prefix, "a prefix ends in `/`: `/private/a/`");
}

#[test]
fn mistakes_of_options_are_told() {
    let films = |args: &mut SignArgs| args.url = Some("https://films.example.org".into());
    let several = "access `two`: it has several keys (a, b): name one";
    told("/films/a", films, several);
    let key = |args: &mut SignArgs| args.key = Some("k2".into());
    let unknown = "access `members`: it has no key `k2`; there are k1";
    told("/private/a", key, unknown);
    let zero = |args: &mut SignArgs| args.expires = Period::default();
    told("/private/a", zero, "`--expires` is less than a second");
    let bare = |args: &mut SignArgs| args.url = Some("media".into());
    told("/private/a", bare, "`media` is no URL such as");
    let ftp = |args: &mut SignArgs| args.url = Some("ftp://a".into());
    told("/private/a", ftp, "`ftp://a` is no URL such as");
    let below = |args: &mut SignArgs| args.url = Some("http://a/b".into());
    told("/private/a", below, "`http://a/b` has a path");
    let long = |args: &mut SignArgs| {
        (args.presigned, args.url) = (true, Some("http://a".into()));
        args.expires = Period::secs(604_801);
    };
    told("/private/a", long, "a presigned URL lives for 7 days");
}
