//! Errors of a configuration: each names its place, its key and the valid values, and all of them
//! are reported at once.

use tidegate_config::Environment;

mod access;
mod events;
mod hooks;
mod limits;
mod origins;
mod routes;
mod tls;
mod trace;

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

/// Returns the warnings for a text behind [`MEDIA`], which is right.
fn warned(text: &str) -> Vec<String> {
    let text = format!("{MEDIA}{text}");
    let loaded =
        tidegate_config::parse("t.toml", &text, &Environment::default()).expect("it is right");
    loaded.warnings.iter().map(ToString::to_string).collect()
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
                "t.toml:2:1: `http.frobnicate`: there is no such key; there are `listen`, `public_url`, `max_connections`, `header_timeout`, `idle_timeout`, `write_timeout`, `max_header`, `max_uri`, `drain`, `trusted_proxies`, `purge_networks`, `server_timing`",
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
            "[cache]\ntags_header = \"surrogate-key\"\n",
            &[
                "t.toml:2:15: `cache.tags_header`: `surrogate-key` is no header that objects are kept with: say `x-amz-meta-…`",
            ],
        ),
        (
            "[cache]\ntags_header = \"x-amz-meta-a b\"\n",
            &[
                "t.toml:2:15: `cache.tags_header`: `x-amz-meta-a b` is no header that objects are kept with: say `x-amz-meta-…`",
            ],
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
#[expect(clippy::too_many_lines, reason = "one table")]
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
            "TIDEGATE_HTTP__LISTEN__X: `http.listen.x`: unknown field `x`, expected `address` or `tls`",
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
            "TIDEGATE___A: ``: there is no such key; there are `http`, `admin`, `tls`, `log`, `trace`, `cache`, `state`, `spool`, `origin`, `route`, `access`, `limits`, `events`, `fleet`, `mount`, `hook`, `profile`",
        ]
    );
}

#[test]
fn a_fleet_needs_servers_that_can_be_read_and_one_way_to_authenticate() {
    let told = |section: &str| told_with(&format!("[fleet]\n{section}"), &[]);
    let one = |section: &str| {
        let told = told(section);
        assert_eq!(told.len(), 1, "{told:?}");
        told[0].clone()
    };
    let nats = "nats = [\"nats://a:4222\"]\n";
    assert!(one("nats = [\"http://user:s3cret@a\"]\n").contains("must be nats://host:port"));
    assert!(!one("nats = [\"nats://user:s3cret@a\"]\n").contains("s3cret"));
    assert!(one(&format!("{nats}subject = \"a.>\"")).contains("without wildcards"));
    assert!(one(&format!("{nats}subject = \"a..b\"")).contains("without wildcards"));
    assert!(one(&format!("{nats}user = \"u\"")).contains("go together"));
    let both = one(&format!("{nats}token = \"t\"\ncredentials = \"c\""));
    assert!(both.contains("stands beside"), "{both}");
}
