//! The command line: the output on each stream, and the exit code.

use std::process::{Command, Output};

/// Runs `tidegate` in an empty folder of its own, without our variables in its environment.
fn tidegate(line: &[&str], config: Option<&str>) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    if let Some(text) = config {
        std::fs::write(folder.path().join("tidegate.toml"), text).expect("written");
    }
    let ours = std::env::vars_os().map(|(name, _)| name);
    let ours = ours.filter(|name| name.to_string_lossy().starts_with("TIDEGATE_"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    for name in ours {
        command.env_remove(name);
    }
    let output = command.args(line).current_dir(folder.path()).output();
    output.expect("it runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it is text")
}

#[test]
fn check_ends_with_78_and_lines_an_editor_understands() {
    let bad = "[http]\nlisten = 5\n[[origin]]\nname = \"a\"\nbukcet = \"b\"\n";
    let output = tidegate(&["check"], Some(bad));
    assert_eq!(output.status.code(), Some(78));
    assert_eq!(text(&output.stdout), "");
    assert_eq!(
        text(&output.stderr),
        "tidegate.toml:2:10: `http.listen`: invalid type: integer `5`, \
         expected an address or a list of addresses\n\
         tidegate.toml:5:1: `origin[0].bukcet`: there is no such key; did you mean `bucket`?\n"
    );
    let nothing = tidegate(&["check"], None);
    assert_eq!(nothing.status.code(), Some(78));
    assert!(text(&nothing.stderr).starts_with("`origin`: there is no origin"));
}

#[test]
fn check_sums_up_what_is_right() {
    let good = "[admin]\ntoken = { env = \"NOT_SET_HERE\" }\n\
                [[origin]]\nname = \"a\"\nbucket = \"b\"\n\
                [[cache.disk]]\npath = \"/d\"\ncapacity = \"1GiB\"\n";
    let output = tidegate(&["check"], Some(good));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        text(&output.stdout),
        "warning: tidegate.toml:2:9: `admin.token`: the environment variable NOT_SET_HERE is not set\n\
         ok: tidegate.toml: 1 origin, 1 route, 1 disk\n\
         http   127.0.0.1:8080, admin 127.0.0.1:8081\n\
         cache  512MiB of memory, 256MiB of budget\n\
         disk   /d up to 1GiB\n\
         state  /d/state\n\
         route  / -> a/, web\n"
    );
}

#[test]
fn prints_what_packagers_need() {
    for (line, part) in [
        (
            &["schema"][..],
            "\"$schema\": \"https://json-schema.org/draft/2020-12/schema\"",
        ),
        (&["config-reference"], "# Configuration\n"),
        (
            &["config-reference", "--toml"],
            "# Every key of tidegate.toml",
        ),
        (&["completions", "bash"], "_tidegate() {"),
        (&["man"], ".ie \\n(.g .ds Aq"),
        (&["--version"], "tidegate 0.1.0"),
    ] {
        let output = tidegate(line, None);
        assert_eq!(output.status.code(), Some(0), "{line:?}");
        assert!(
            text(&output.stdout).contains(part),
            "{line:?}: {}",
            text(&output.stdout)
        );
    }
    assert_eq!(tidegate(&["frobnicate"], None).status.code(), Some(2));
}

/// Short tokens are refused; other tokens that can be guessed or overheard yield a warning.
#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn check_says_what_is_not_safe() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, mode).expect("ours");
        path.display().to_string()
    };
    let long = file("long", "0123456789abcdef\n", 0o644);
    let quiet = file("quiet", "0123456789abcdef\n", 0o640);
    let short = file("short", "0123456789abcde\n", 0o600);
    let config = |token: &str| {
        format!(
            "[http]\nlisten = [\"127.0.0.1:8080\", \"0.0.0.0:8082\"]\n\
             [admin]\ntoken = {{ file = \"{token}\" }}\n\
             [[origin]]\nname = \"a\"\nbucket = \"b\"\nendpoint = \"http://s3.example.org\"\n\
             [[origin]]\nname = \"c\"\nbucket = \"b\"\nendpoint = \"http://[::1]:9000\"\n\
             [[origin]]\nname = \"d\"\nbucket = \"e\"\nendpoint = \"https://s3.example.org\"\n\
             [[route]]\norigin = \"a\"\nkey_prefix = \"pre\"\nwritable = true\n\
             write_token = {{ file = \"{quiet}\" }}\n\
             [[route]]\npath = \"/c/\"\norigin = \"c\"\nkey_prefix = \"pre/\"\n\
             [[hook]]\nurl = \"http://r/\"\nbearer = {{ file = \"{token}\" }}\n"
        )
    };
    let output = tidegate(&["check"], Some(&config(&long)));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said: Vec<_> = text(&output.stdout)
        .lines()
        .filter(|line| line.starts_with("warning: "))
        .collect();
    let expected = [
        "`origin[0].endpoint`: is not encrypted, and not on this machine",
        "`route[0].key_prefix`: `pre` does not end in `/`: `/x` is the key `prex`",
        "`route[0].writable`: the token crosses the network unencrypted: `http.listen` names 0.0.0.0:8082",
        "`admin.token`: every user can read ",
        "`hook[0].bearer`: every user can read ",
    ];
    assert_eq!(said.len(), expected.len(), "{said:#?}");
    for (line, part) in said.iter().zip(expected) {
        assert!(line.contains(part), "{line}");
    }

    let output = tidegate(&["check"], Some(&config(&short)));
    assert_eq!(output.status.code(), Some(78));
    let said = text(&output.stderr);
    assert!(
        said.starts_with("tidegate.toml:4:9: `admin.token`: is shorter than 16 characters"),
        "{said}"
    );
    assert!(!said.contains("0123456789"), "{said}");
    let literal =
        "[admin]\ntoken = \"0123456789abcde\"\n[[origin]]\nname = \"a\"\nbucket = \"b\"\n";
    for command in ["check", "serve"] {
        let output = tidegate(&[command], Some(literal));
        assert_eq!(output.status.code(), Some(78), "{command}");
        let said = text(&output.stderr);
        assert!(
            said.starts_with("tidegate.toml:2:9: `admin.token`: is shorter"),
            "{said}"
        );
    }
    let output = tidegate(&["serve"], Some(&config(&short)));
    assert_eq!(output.status.code(), Some(78));
    let said = text(&output.stderr);
    assert!(
        said.contains("`admin.token`: is shorter than 16 characters"),
        "{said}"
    );
}

/// `serve` ends over the content of files with the words and the exit code of `check`, so that a supervisor does not try it
/// again. A file that is missing may come: `check` warns of it, and `serve` is tried again.
#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn serve_ends_over_files_as_check_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("odd"), "neither a certificate\u{1}nor a key\n").expect("written");
    let acme = "[tls.acme]\nnames = [\"a.example\"]\nterms_agreed = true\npath = \"/acme\"\n";
    let nats = "[[events]]\nname = \"n\"\norigin = \"a\"\nkind = \"nats\"\n\
                servers = [\"nats://127.0.0.1:1\"]\nsubject = \"s\"\n";
    let fleet = "[fleet]\nnats = [\"nats://127.0.0.1:1\"]\n";
    for (section, wrong, missing) in [
        (
            format!("{acme}directory_ca = \"FILE\"\n"),
            "`tls.acme`: FILE has no certificate in PEM",
            "`tls.acme`: cannot read FILE: ",
        ),
        (
            format!("{acme}external_account = {{ key_id = \"k\", key = {{ file = \"FILE\" }} }}\n"),
            "`tls.acme.external_account`: ",
            "`tls.acme.external_account.key`: cannot read the secret in FILE: ",
        ),
        (
            format!("{nats}credentials = {{ file = \"FILE\" }}\n"),
            "events `n`: the credentials are not those of a NATS credentials file",
            "`events[0].credentials`: cannot read the secret in FILE: ",
        ),
        (
            format!("{nats}ca = \"FILE\"\n"),
            "events `n`: the authorities for TLS: FILE has no certificate in PEM",
            "events `n`: the authorities for TLS: cannot read FILE: ",
        ),
        (
            format!("{fleet}credentials = {{ file = \"FILE\" }}\n"),
            "`fleet`: the credentials are not those of a NATS credentials file",
            "`fleet.credentials`: cannot read the secret in FILE: ",
        ),
        (
            format!("{fleet}ca = \"FILE\"\n"),
            "`fleet`: the authorities for TLS: FILE has no certificate in PEM",
            "`fleet`: the authorities for TLS: cannot read FILE: ",
        ),
        (
            "[tls]\nclient_ca = \"FILE\"\n".to_owned(),
            "`tls`: FILE has no certificate of an authority",
            "`tls`: cannot read FILE: ",
        ),
        (
            "[trace]\nendpoint = \"http://127.0.0.1:1\"\nheaders.a = { file = \"FILE\" }\n"
                .to_owned(),
            "`trace.headers`: `a`: is no text that a header can carry",
            "`trace.headers.a`: cannot read the secret in FILE: ",
        ),
    ] {
        let config = |file: &str| {
            format!(
                "[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
                 [[origin]]\nname = \"a\"\nbucket = \"b\"\n{}",
                section.replace("FILE", file)
            )
        };
        let expected = wrong.replace("FILE", &path("odd"));
        for command in ["check", "serve"] {
            let output = tidegate(&[command], Some(&config(&path("odd"))));
            let said = text(&output.stderr);
            assert_eq!(
                output.status.code(),
                Some(78),
                "{command}: {section}: {said}"
            );
            assert!(said.starts_with(&expected), "{command}: {said}");
        }
        let output = tidegate(&["check"], Some(&config(&path("gone"))));
        let warning = missing.replace("FILE", &path("gone"));
        assert_eq!(
            output.status.code(),
            Some(0),
            "{section}: {}",
            text(&output.stderr)
        );
        let said = text(&output.stdout);
        let is_said = |line: &str| line.starts_with("warning: ") && line.contains(&warning);
        assert!(said.lines().any(is_said), "{section}: {said}");
        let output = tidegate(&["serve"], Some(&config(&path("gone"))));
        assert_eq!(output.status.code(), Some(1), "{section}");
    }
}

/// The least capacity follows from the chunks' size.
#[test]
fn a_disk_too_small_for_its_chunks_is_a_mistake_before_the_start() {
    let config = "[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
                  [[origin]]\nname = \"a\"\nbucket = \"b\"\n\
                  [[cache.disk]]\npath = \"disk\"\ncapacity = \"1MiB\"\n";
    for command in ["check", "serve"] {
        let output = tidegate(&[command], Some(config));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{command}: {said}");
        assert!(said.contains("capacity"), "{command}: {said}");
    }
}

/// The secrets of every section are looked at, those of JWTs, events, the fleet, ACME and traces too.
#[test]
fn check_looks_at_every_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let short = folder.path().join("short");
    std::fs::write(&short, "0123456789abcde\n").expect("written");
    let config = |secret: &str| {
        let secret = secret.replace("FILE", &short.display().to_string());
        format!(
            "[fleet]\nnats = [\"nats://127.0.0.1:4222\"]\ntoken = {{ env = \"NOT_SET_HERE\" }}\n\
             [trace]\nendpoint = \"http://127.0.0.1:4318\"\nheaders.a = {{ env = \"NOT_SET_HERE\" }}\n\
             [[origin]]\nname = \"a\"\nbucket = \"b\"\n\
             [tls.acme]\nnames = [\"a.example\"]\nterms_agreed = true\npath = \"/acme\"\n\
             external_account = {{ key_id = \"k\", key = {{ env = \"NOT_SET_HERE\" }} }}\n\
             [[events]]\nname = \"w\"\norigin = \"a\"\ntoken = {secret}\n\
             [access.members]\njwt.secret = {secret}\n"
        )
    };
    let output = tidegate(&["check"], Some(&config("{ env = \"NOT_SET_HERE\" }")));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for (place, key) in [
        ("20:14", "access.members.jwt.secret"),
        ("18:9", "events[0].token"),
        ("3:9", "fleet.token"),
        ("14:42", "tls.acme.external_account.key"),
        ("6:13", "trace.headers.a"),
    ] {
        let line = format!(
            "warning: tidegate.toml:{place}: `{key}`: the environment variable NOT_SET_HERE is not set\n"
        );
        let said = text(&output.stdout);
        assert!(said.contains(&line), "{key}: {said}");
    }
    let output = tidegate(&["check"], Some(&config("{ file = \"FILE\" }")));
    assert_eq!(output.status.code(), Some(78), "{}", text(&output.stdout));
    assert_eq!(
        text(&output.stderr).lines().collect::<Vec<_>>(),
        [
            "tidegate.toml:18:9: `events[0].token`: is shorter than 16 characters; `openssl rand -hex 24` makes one that cannot be guessed",
            "tidegate.toml:20:14: `access.members.jwt.secret`: is shorter than 32 characters; `openssl rand -hex 32` makes one that cannot be guessed",
        ]
    );
}

#[test]
fn check_reads_the_key_sets_of_jwts() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jwks.json");
    let config = format!(
        "[[origin]]\nname = \"a\"\nbucket = \"b\"\n[access.members]\njwt.jwks = \"{}\"\n",
        path.display()
    );
    let key = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    for (set, expected) in [
        (None, ""),
        (Some("{\"keys\":[".to_owned()), "is no JWK set"),
        (Some("{\"keys\":[]}".to_owned()), "has no key for"),
        (Some(format!("{{\"keys\":[{key}]}}")), ""),
    ] {
        if let Some(set) = &set {
            std::fs::write(&path, set).expect("written");
        }
        let output = tidegate(&["check"], Some(&config));
        let said = text(&output.stderr);
        match expected {
            "" => {
                assert_eq!(output.status.code(), Some(0), "{said}");
                let warning = format!("{}: No such file", path.display());
                let is_missing = text(&output.stdout).contains(&warning);
                assert_eq!(is_missing, set.is_none());
            }
            expected => {
                assert_eq!(output.status.code(), Some(78), "{set:?}");
                let start = format!(
                    "tidegate.toml:5:12: `access.members.jwt.jwks`: {}: {expected}",
                    path.display()
                );
                assert!(said.starts_with(&start), "{said}");
            }
        }
    }
}

/// An error's text has its cause. A chain of errors would say it again.
#[test]
fn a_cause_is_told_once() {
    let config = "[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
                  [state]\npath = \"state\"\n[[origin]]\nname = \"a\"\nbucket = \"b\"\n\
                  [[cache.disk]]\npath = \"tidegate.toml/disk\"\ncapacity = \"1GiB\"\n";
    let output = tidegate(&["serve"], Some(config));
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    let cause = "cannot create tidegate.toml/disk: Not a directory";
    assert!(said.contains(cause), "{said}");
    assert_eq!(said.matches("Not a directory").count(), 1, "{said}");
}
