//! The public listener, its routes, and mounts.

use super::{tell, tell_behind_media};

#[test]
fn unknown_keys_name_the_nearest_of_routes() {
    tell_behind_media(&[
        (
            r#"[[route]]
orgin = "media""#,
            &["t.toml:5:1: `route[0].orgin`: there is no such key; did you mean `origin`?"],
        ),
        (
            r#"[[route]]
orgin = "media"
origin = "media""#,
            &["t.toml:5:1: `route[0].orgin`: there is no such key; did you mean `origin`?"],
        ),
    ]);
}

#[test]
fn missing_keys_show_how_they_look_of_routes() {
    tell_behind_media(&[
        (
            r#"[[route]]
path = "/a""#,
            &[r#"t.toml:4:1: `route[0].origin`: is missing; for example origin = "media""#],
        ),
        (
            r#"[[route]]
origin = "media"
cors = { }"#,
            &[
                r#"t.toml:6:8: `route[0].cors.origins`: is missing; for example origins = ["https://example.org"]"#,
            ],
        ),
    ]);
}

#[test]
fn the_public_listener() {
    tell(&[
        (
            "[http]\nlisten = []\n",
            &["t.toml:2:10: `http.listen`: names no address"],
        ),
        (
            r#"[http]
listen = "localhost:80""#,
            &[
                "t.toml:2:10: `http.listen`: `localhost:80` is no IP address and port, such as 127.0.0.1:8080, and no unix:/path",
            ],
        ),
        (
            r#"[http]
listen = ["127.0.0.1:80", "0.0.0.0:80", "unix:x", 5]"#,
            &[
                "t.toml:2:27: `http.listen[1]`: `0.0.0.0:80` is listed before",
                "t.toml:2:41: `http.listen[2]`: `unix:x` needs a full path, such as unix:/run/tidegate.sock",
                "t.toml:2:51: `http.listen[3]`: invalid type: integer `5`, expected an address",
            ],
        ),
        (
            r#"[http]
listen = "0.0.0.0:8081""#,
            &["t.toml:2:10: `http.listen`: `0.0.0.0:8081` is the place of `admin.listen` too"],
        ),
        (
            r#"[http]
max_connections = 0
idle_timeout = "0s"
max_header = 10
max_uri = "1MiB"
header_timeout = 30"#,
            &[
                "t.toml:2:19: `http.max_connections`: must be at least 1",
                "t.toml:3:16: `http.idle_timeout`: must not be zero",
                "t.toml:4:14: `http.max_header`: must be from 8KiB to 1MiB",
                "t.toml:5:11: `http.max_uri`: must be from 1KiB to 8KiB",
                "t.toml:6:18: `http.header_timeout`: `30` is no length of time; write a whole number with a unit, such as 60s",
            ],
        ),
        (
            r#"[http]
trusted_proxies = ["nginx", "10.0.0.1/8", "::1"]"#,
            &[
                "t.toml:2:20: `http.trusted_proxies[0]`: `nginx` is no IP address and no network such as 10.0.0.0/8",
                "t.toml:2:29: `http.trusted_proxies[1]`: `10.0.0.1/8` has bits behind its prefix; write 10.0.0.0/8",
            ],
        ),
        (
            "[http]\nmax_connections = -1\n",
            &[
                "t.toml:2:19: `http.max_connections`: invalid value: integer `-1`, expected a whole number from 0 to 4294967295",
            ],
        ),
    ]);
}

#[test]
fn the_public_url() {
    tell(&[
        (
            "[http]\npublic_url = \"https://media.example.org/\"\n",
            &[
                "t.toml:2:14: `http.public_url`: `https://media.example.org/` is no scheme and host such as https://media.example.org",
            ],
        ),
        (
            "[http]\npublic_url = \"ftp://media.example.org\"\n",
            &[
                "t.toml:2:14: `http.public_url`: `ftp://media.example.org` is no scheme and host such as https://media.example.org",
            ],
        ),
        (
            "[http]\npublic_url = \"httpx://media.example.org\"\n",
            &[
                "t.toml:2:14: `http.public_url`: `httpx://media.example.org` is no scheme and host such as https://media.example.org",
            ],
        ),
        (
            "[http]\npublic_url = \"https://me:secret@media.example.org\"\n",
            &["t.toml:2:14: `http.public_url`: has credentials in it"],
        ),
    ]);
}

#[test]
fn routes() {
    tell_behind_media(&[
        (
            r#"[[route]]
origin = "mdeia"
profile = "wbe""#,
            &[
                "t.toml:5:10: `route[0].origin`: there is no origin `mdeia`; did you mean `media`?",
                "t.toml:6:11: `route[0].profile`: there is no profile `wbe`; did you mean `web`?",
            ],
        ),
        (
            r#"[[route]]
origin = "elsewhere""#,
            &["t.toml:5:10: `route[0].origin`: there is no origin `elsewhere`"],
        ),
        (
            r#"[[route]]
origin = "media"
path = "/a"
host="X.org"
[[route]]
origin = "media"
host="x.org"
path = "/a/""#,
            &["t.toml:11:8: `route[1].path`: the same path for host `x.org` as `route[0]`: `/a/`"],
        ),
        (
            r#"[[route]]
origin = "media"
[[route]]
origin = "media""#,
            &["t.toml:6:1: `route[1].path`: the same path as `route[0]`: `/`"],
        ),
        (
            r#"[[route]]
origin = "media"
path = "a"
host = "https://x:1"
key_prefix = "a/../b"
index = """#,
            &[
                "t.toml:6:8: `route[0].path`: `a` does not begin with `/`",
                "t.toml:7:8: `route[0].host`: `https://x:1` is no host name; leave out scheme and port",
                "t.toml:8:14: `route[0].key_prefix`: the key has a dot segment",
                "t.toml:9:9: `route[0].index`: the key is empty",
            ],
        ),
        (
            r#"[[route]]
origin = "media"
path = "/a%20b""#,
            &["t.toml:6:8: `route[0].path`: `/a%20b` is percent-encoded; write it decoded"],
        ),
    ]);
}

#[test]
fn answers_of_routes() {
    tell_behind_media(&[
        (
            r#"[[route]]
origin = "media"
cache_control = "a\nb"
[route.headers]
"a b" = "c"
ETag = "x"
X-A = "a\nb"
Cache-Control = "x"
Access-Control-Allow-Origin = "*"
X-B = 5"#,
            &[
                "t.toml:6:17: `route[0].cache_control`: is no value of a header",
                "t.toml:8:9: `route[0].headers.a b`: `a b` is no name of a header",
                "t.toml:9:8: `route[0].headers.ETag`: says what the answer is, and is set by the gateway alone",
                "t.toml:10:7: `route[0].headers.X-A`: is no value of a header",
                "t.toml:11:17: `route[0].headers.Cache-Control`: use the route's `cache_control` instead",
                "t.toml:12:31: `route[0].headers.Access-Control-Allow-Origin`: use the route's `cors` instead",
                "t.toml:13:7: `route[0].headers.X-B`: invalid type: integer `5`, expected a string",
            ],
        ),
        (
            r#"[[route]]
origin = "media"
cors = { origins = ["*", "example.org"], max_age = "x" }"#,
            &[
                "t.toml:6:21: `route[0].cors.origins[0]`: `*` stands for all; leave out the others",
                "t.toml:6:26: `route[0].cors.origins[1]`: `example.org` is no site such as https://example.org",
                "t.toml:6:52: `route[0].cors.max_age`: `x` is no length of time; write a whole number with a unit, such as 60s",
            ],
        ),
    ]);
}

#[test]
fn a_key_of_an_earlier_version_names_its_successor() {
    tell_behind_media(&[(
        r#"[[mount]]
path = "/mnt"
mtime = "metadata"
attributes = "some"
"#,
        &[
            "t.toml:6:1: `mount[0].mtime`: was replaced by `attributes`: \"kept\" keeps times, modes and owners, \"none\" nothing",
            "t.toml:7:14: `mount[0].attributes`: `some` is none of `kept`, `none`",
        ],
    )]);
}

#[test]
fn mounts_must_have_a_place_and_a_route() {
    tell_behind_media(&[
        (
            r#"[[mount]]
route = "/""#,
            &["t.toml:4:1: `mount[0].path`: is missing; for example path = \"/mnt/media\""],
        ),
        (
            r#"[[mount]]
path = "mnt"
[[mount]]
path = "/mnt/a"
route = "/books"
threads = 0
deadline = "0s"
umask = "99"
rename_limit = 100_001
[[mount]]
path = "/mnt/a"
shared = true
[spool]
size = "1MiB""#,
            &[
                "t.toml:5:8: `mount[0].path`: `mnt` is no absolute path",
                "t.toml:8:9: `mount[1].route`: there is no route `/books`",
                "t.toml:9:11: `mount[1].threads`: must be from 1 to 64",
                "t.toml:10:12: `mount[1].deadline`: must not be zero",
                "t.toml:11:9: `mount[1].umask`: `99` is no umask; write octal digits, such as \"022\"",
                "t.toml:12:16: `mount[1].rename_limit`: must be at most 100000",
                "t.toml:14:8: `mount[2].path`: the same folder as `mount[1]`",
                "t.toml:15:1: `mount[2].shared`: there is no such key; there are `path`, `route`, `host`, `writable`, `commit`, `probe`, `rename_limit`, `uid`, `gid`, `umask`, `allow_other`, `attributes`, `size`, `threads`, `deadline`",
                "t.toml:17:8: `spool.size`: must be from 64MiB to 1024TiB",
            ],
        ),
        (
            r#"[[mount]]
path = "/mnt"
[[cache.disk]]
path = "/mnt/cache"
capacity = "1GiB"
[[mount]]
path = "/srv"
[spool]
path = "/srv/spool"
[[cache.disk]]
path = "/srv/spool"
capacity = "1GiB""#,
            &[
                "t.toml:5:8: `mount[0].path`: /mnt/cache (a `cache.disk`) would lie in the mount",
                "t.toml:10:8: `mount[1].path`: /srv/spool (spool.path) would lie in the mount",
                "t.toml:12:8: `spool.path`: the same folder as `cache.disk[1]`; each locks its own",
            ],
        ),
    ]);
}
