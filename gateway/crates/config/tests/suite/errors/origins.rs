//! Origins, where they are, and profiles.

use super::tell_behind_media;

#[test]
fn profiles() {
    tell_behind_media(&[
        (
            r#"[profile.a]
extends = "b"
[profile.b]
extends = "a""#,
            &[
                "t.toml:5:11: `profile.a.extends`: goes round in a circle: a -> b -> a",
                "t.toml:7:11: `profile.b.extends`: goes round in a circle: b -> a -> b",
            ],
        ),
        (
            r#"[profile.a]
extends = "steam"
streams = 0"#,
            &[
                "t.toml:5:11: `profile.a.extends`: there is no profile `steam`; did you mean `stream`?",
                "t.toml:6:11: `profile.a.streams`: must be at least 1",
            ],
        ),
        (
            r#"[profile.a]
extends = "a""#,
            &["t.toml:5:11: `profile.a.extends`: goes round in a circle: a -> a"],
        ),
        (
            r#"[profile.a]
ttl = "60"
read_ahed = 5
disk = "frist""#,
            &[
                "t.toml:5:7: `profile.a.ttl`: `60` is no length of time; write a whole number with a unit, such as 60s",
                "t.toml:6:1: `profile.a.read_ahed`: there is no such key; did you mean `read_ahead`?",
                "t.toml:7:8: `profile.a.disk`: `frist` is none of `off`, `first`, `second`; did you mean `first`?",
            ],
        ),
        (
            r#"[profile.web]
read_ahead = "1GiB"
[cache]
budget = "512MiB""#,
            &[
                "t.toml:5:14: `profile.web.read_ahead`: `1GiB` is larger than `cache.budget` (512MiB)",
            ],
        ),
    ]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn origins() {
    tell_behind_media(&[
        (
            r#"[[origin]]
name = "media"
bucket = "b""#,
            &[
                "t.toml:1:1: `route`: is missing: with several origins, say which URLs are whose",
                "t.toml:5:8: `origin[1].name`: `media` is already the name of `origin[0]`",
            ],
        ),
        (
            r#"endpoint = "http://a:80/"
[[origin]]
name = "other"
bucket = "media"
endpoint = "https://A"
[[origin]]
name = "third"
bucket = "media"
endpoint = "http://a"
identity = ""
[[route]]
origin = "media""#,
            &[
                "t.toml:7:10: `origin[1].bucket`: is the bucket of `origin[0]` as well, and neither has an \
                 `identity`: what one may see would be given out through the other; name what each may see, alike \
                 only where that is the same",
                "t.toml:13:12: `origin[2].identity`: is empty",
            ],
        ),
        (
            r#"anonymous = true
access_key_id = "a"
secret_access_key = "s3cret""#,
            &[
                "t.toml:5:17: `origin[0].access_key_id`: contradicts `anonymous`, which signs nothing",
                "t.toml:6:21: `origin[0].secret_access_key`: contradicts `anonymous`, which signs nothing",
            ],
        ),
        (
            r#"access_key_id = "a""#,
            &["t.toml:4:17: `origin[0].access_key_id`: needs `secret_access_key` beside it"],
        ),
        (
            r#"secret_access_key = { evn = "X" }"#,
            &[
                r#"t.toml:4:21: `origin[0].secret_access_key`: expected text, { env = "NAME" } or { file = "PATH" }"#,
            ],
        ),
        (
            "secret_access_key = 12345\n",
            &[
                r#"t.toml:4:21: `origin[0].secret_access_key`: expected text, { env = "NAME" } or { file = "PATH" }"#,
            ],
        ),
        (
            r#"secret_access_key = """#,
            &["t.toml:4:21: `origin[0].secret_access_key`: is empty"],
        ),
        (
            r#"secret_access_key = { env = "X" }"#,
            &["t.toml:4:21: `origin[0].secret_access_key`: needs `access_key_id` beside it"],
        ),
        (
            r#"session_token = "s3cret""#,
            &["t.toml:4:17: `origin[0].session_token`: needs `access_key_id` beside it"],
        ),
    ]);
}

#[test]
fn where_origins_are() {
    tell_behind_media(&[
        (
            r#"endpoint = "127.0.0.1:9000""#,
            &[
                "t.toml:4:12: `origin[0].endpoint`: `127.0.0.1:9000` is neither http:// nor https://",
            ],
        ),
        (
            r#"endpoint = "ftp://h""#,
            &["t.toml:4:12: `origin[0].endpoint`: `ftp://h` is neither http:// nor https://"],
        ),
        (
            r#"endpoint = "http://u:s3cret@h""#,
            &[
                "t.toml:4:12: `origin[0].endpoint`: `http://[secret]@h` has credentials in it; use `access_key_id` and `secret_access_key`",
            ],
        ),
        (
            r#"endpoint = "http://h/bucket""#,
            &[
                "t.toml:4:12: `origin[0].endpoint`: `http://h/bucket` has a path; the bucket belongs into `bucket`",
            ],
        ),
        (
            r#"endpoint = "http://h:99999""#,
            &["t.toml:4:12: `origin[0].endpoint`: `http://h:99999` has no port from 1 to 65535"],
        ),
        (
            r#"stall_timeout = "10m"
max_requests = 0
retries = 99
connect_timeout = "0s""#,
            &[
                "t.toml:4:17: `origin[0].stall_timeout`: `10m` is longer than `total_timeout` (5m)",
                "t.toml:5:16: `origin[0].max_requests`: must be at least 1",
                "t.toml:6:11: `origin[0].retries`: must be at most 10",
                "t.toml:7:19: `origin[0].connect_timeout`: must not be zero",
            ],
        ),
        (
            r#"[[origin]]
name = "b"
bucket = "b/c""#,
            &[
                "t.toml:1:1: `route`: is missing: with several origins, say which URLs are whose",
                "t.toml:6:10: `origin[1].bucket`: a bucket's name has letters, digits, `.`, `-` and `_` only; what begins the keys belongs into a route's `key_prefix`",
            ],
        ),
    ]);
}
