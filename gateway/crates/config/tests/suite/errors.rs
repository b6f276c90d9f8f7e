//! Errors of a configuration: each names its place, its key and the valid values, and all of them
//! are reported at once.

use tidegate_config::Environment;

/// A bucket, so that the configuration serves something.
const MEDIA: &str = "[[origin]]\nname = \"media\"\nbucket = \"media\"\n";

/// Returns the error lines for a text, with an environment over it.
fn told_with(text: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let env = variables.iter().copied().collect::<Environment>();
    match tidegate_config::parse("t.toml", text, &env) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.to_string().lines().map(str::to_owned).collect(),
    }
}

/// Compares each text's error lines with the expected ones.
#[track_caller]
fn tell(cases: &[(&str, &[&str])]) {
    for (text, lines) in cases {
        assert_eq!(told_with(text, &[]), *lines, "{text}");
    }
}

/// Does the same as [`tell`] for texts behind [`MEDIA`], which is three lines long.
#[track_caller]
fn tell_behind_media(cases: &[(&str, &[&str])]) {
    for (text, lines) in cases {
        assert_eq!(told_with(&format!("{MEDIA}{text}"), &[]), *lines, "{text}");
    }
}

#[test]
fn unknown_keys_name_the_nearest() {
    tell(&[
        (
            r#"[htttp]
listen = "127.0.0.1:1""#,
            &["t.toml:1:2: `htttp`: there is no such key; did you mean `http`?"],
        ),
        (
            r#"[http]
listne = "127.0.0.1:1""#,
            &["t.toml:2:1: `http.listne`: there is no such key; did you mean `listen`?"],
        ),
        (
            "[http]\nfrobnicate = 1\n",
            &[
                "t.toml:2:1: `http.frobnicate`: there is no such key; there are `listen`, `max_connections`, `header_timeout`, `idle_timeout`, `write_timeout`, `max_header`, `max_uri`, `drain`, `trusted_proxies`, `server_timing`",
            ],
        ),
        (
            r#"[http]
# ä
drain = 5
"drän" = 1"#,
            &[
                "t.toml:3:9: `http.drain`: `5` is no length of time; write a whole number with a unit, such as 60s",
                "t.toml:4:1: `http.drän`: there is no such key; did you mean `drain`?",
            ],
        ),
    ]);
}

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
fn sections_are_tables_and_lists_of_tables() {
    tell(&[
        (
            "http = 5\n",
            &["t.toml:1:8: `http`: expected a table, found an integer"],
        ),
        (
            r#"[origin]
name = "a""#,
            &["t.toml:1:1: `origin`: expected a list of tables, each headed [[origin]]"],
        ),
        (
            "origin = 5\n",
            &[
                "t.toml:1:10: `origin`: expected a list of tables, each headed [[origin]], found an integer",
            ],
        ),
        (
            "origin = [5]\n",
            &["t.toml:1:11: `origin[0]`: expected a table, found an integer"],
        ),
    ]);
}

#[test]
fn missing_keys_show_how_they_look() {
    tell(&[
        (
            r#"[[origin]]
name = "a""#,
            &[r#"t.toml:1:1: `origin[0].bucket`: is missing; for example bucket = "media""#],
        ),
        (
            r#"[[cache.disk]]
path = "/d""#,
            &[
                r#"t.toml:1:1: `cache.disk[0].capacity`: is missing; for example capacity = "100GiB""#,
            ],
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
fn logging() {
    tell(&[
        (
            r#"[log]
format = "jsom"
level = "inof"
access = "yes""#,
            &[
                "t.toml:2:10: `log.format`: `jsom` is none of `text`, `json`; did you mean `json`?",
                "t.toml:3:9: `log.level`: `inof` is no level; did you mean `info`?",
                r#"t.toml:4:10: `log.access`: invalid type: string "yes", expected a boolean"#,
            ],
        ),
        (
            "[log]\nformat = 5\nlevel=5\n",
            &[
                "t.toml:2:10: `log.format`: expected one of `text`, `json`, found an integer",
                "t.toml:3:7: `log.level`: invalid type: integer `5`, expected a string",
            ],
        ),
    ]);
}

#[test]
fn sizes_and_disks() {
    tell(&[
        (
            r#"[cache]
memory = "512 potatoes"
budget = -1
chunk = true"#,
            &[
                "t.toml:2:10: `cache.memory`: `512 potatoes` is no size; write a whole number with a unit, such as 256KiB",
                "t.toml:3:10: `cache.budget`: `-1` is no size; it is negative",
                r#"t.toml:4:9: `cache.chunk`: invalid type: boolean `true`, expected a size, such as "256KiB""#,
            ],
        ),
        (
            r#"[cache]
chunk = "300KiB""#,
            &["t.toml:2:9: `cache.chunk`: `300KiB` is no power of two from 4KiB to 16MiB"],
        ),
        (
            r#"[cache]
budget = "1MiB""#,
            &["t.toml:2:10: `cache.budget`: `1MiB` is too little; 16 chunks of 256KiB need 4MiB"],
        ),
        (
            r#"[[cache.disk]]
path = "/d"
capacity = 0"#,
            &[
                "t.toml:3:12: `cache.disk[0].capacity`: a disk without capacity keeps nothing; leave the disk out",
            ],
        ),
        (
            r#"[[cache.disk]]
path = "/d"
capacity = "1GiB"
[[cache.disk]]
path = "/d/"
capacity = "1GiB""#,
            &["t.toml:5:8: `cache.disk[1].path`: the same folder as `cache.disk[0]`"],
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

#[test]
fn syntax() {
    tell(&[
        (
            "[http\nlisten = 5\n[a]\nx = \n",
            &[
                "t.toml:1:6: unclosed table, expected `]`",
                "t.toml:4:5: string values must be quoted, expected literal string",
            ],
        ),
        (
            r#"[http]
drain = "1s"
drain = "2s""#,
            &["t.toml:3:1: the key `drain` is there twice"],
        ),
    ]);
}

#[test]
fn variables_are_named() {
    let told = |variables: &[(&str, &str)]| told_with("[http]\n", variables);
    assert_eq!(
        told(&[("TIDEGATE_CACHE__MEMROY", "1")]),
        [
            "TIDEGATE_CACHE__MEMROY: `cache.memory`: `1B` is too little; 16 chunks of 256KiB need 4MiB",
            "TIDEGATE_CACHE__MEMROY: `cache.memroy`: there is no such key; did you mean `memory`?",
        ]
    );
    assert_eq!(
        told(&[
            ("TIDEGATE_CACHE__MEMORY", "lots"),
            ("TIDEGATE_HTTP__MAX_CONNECTIONS", "many"),
            ("TIDEGATE_HTTP__DRAIN", "5")
        ]),
        [
            "TIDEGATE_CACHE__MEMORY: `cache.memory`: `lots` is no size; write a whole number with a unit, such as 256KiB",
            "TIDEGATE_HTTP__DRAIN: `http.drain`: `5` is no length of time; write a whole number with a unit, such as 60s",
            r#"TIDEGATE_HTTP__MAX_CONNECTIONS: `http.max_connections`: invalid type: string "many", expected a whole number from 0 to 4294967295"#,
        ]
    );
    assert_eq!(
        told(&[("TIDEGATE_ORIGIN__1__NAME", "x")]),
        [
            "TIDEGATE_ORIGIN__1__NAME: `origin[1].name`: the list has 0 entries, and they count from 0",
        ]
    );
    assert_eq!(
        told(&[("TIDEGATE_ORIGIN__NAME", "x")]),
        ["TIDEGATE_ORIGIN__NAME: `origin`: expected a list of tables, each headed [[origin]]",]
    );
    assert_eq!(
        told(&[("TIDEGATE_HTTP__LISTEN__X", "x")]),
        [
            "TIDEGATE_HTTP__LISTEN__X: `http.listen.x`: invalid type: table, expected an address or a list of addresses",
        ]
    );
    assert_eq!(
        told(&[("TIDEGATE_ORIGIN__0__NAME", "x")]),
        [
            r#"TIDEGATE_ORIGIN__0__NAME: `origin[0].bucket`: is missing; for example bucket = "media""#,
        ]
    );
    assert_eq!(
        told(&[("TIDEGATE_ROUTE__0__ORIGIN", "x")]),
        ["TIDEGATE_ROUTE__0__ORIGIN: `route[0].origin`: there is no origin `x`",]
    );
    assert_eq!(
        told(&[("TIDEGATE_HTTP__TRUSTED_PROXIES", r#"["::1", "x"]"#)]),
        [
            "TIDEGATE_HTTP__TRUSTED_PROXIES: `http.trusted_proxies`: `x` is no IP address and no network such as 10.0.0.0/8",
        ]
    );
    assert_eq!(
        told(&[("TIDEGATE_LOG__ACCESS", "yes")]),
        [r#"TIDEGATE_LOG__ACCESS: `log.access`: invalid type: string "yes", expected a boolean"#,]
    );
    assert_eq!(
        told(&[("TIDEGATE___A", "yes"), ("TIDEGATE_0__A", "x")]),
        [
            "TIDEGATE_0__A: `[0].a`: a number where a key belongs",
            "TIDEGATE___A: ``: there is no such key; there are `http`, `admin`, `log`, `cache`, `state`, `spool`, `origin`, `route`, `mount`, `profile`",
        ]
    );
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
                "t.toml:15:1: `mount[2].shared`: there is no such key; there are `path`, `route`, `host`, `writable`, `commit`, `probe`, `rename_limit`, `uid`, `gid`, `umask`, `allow_other`, `mtime`, `threads`, `deadline`",
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
