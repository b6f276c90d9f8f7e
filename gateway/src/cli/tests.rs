use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;

use super::*;
use tidegate_plan::Listen;

/// Records the actions.
#[derive(Default)]
struct Told(RefCell<Vec<String>>);

impl Actions for Told {
    fn rehearse(&self, _: &Config, _: &Environment) -> Vec<anyhow::Error> {
        Vec::new()
    }

    fn serve(&self, loaded: LoadedConfig, _: &Environment) -> anyhow::Result<()> {
        let name = loaded.config.origin[0].name.clone();
        self.0.borrow_mut().push(format!("serve {name}"));
        Ok(())
    }

    fn mount(&self, _: LoadedConfig, _: &Environment, args: &MountArgs) -> anyhow::Result<()> {
        let said = format!("mount {} {:?}", args.path.display(), args.route);
        self.0.borrow_mut().push(said);
        Ok(())
    }

    #[cfg(feature = "demo")]
    fn demo(&self, args: &DemoArgs) -> anyhow::Result<()> {
        self.0.borrow_mut().push(format!("demo {}", args.port));
        anyhow::bail!("no")
    }

    fn doctor(
        &self,
        loaded: LoadedConfig,
        _: &Environment,
        args: &DoctorArgs,
    ) -> anyhow::Result<()> {
        let origins = loaded.config.origin.len();
        let said = format!("doctor {origins} {:?} {}", args.object, args.time);
        self.0.borrow_mut().push(said);
        Ok(())
    }
}

fn ran(line: &[&str], env: &Environment) -> (u8, Vec<String>) {
    let cli = Cli::try_parse_from([&["tidegate"], line].concat()).expect("a right command line");
    let told = Told::default();
    let code = run(&cli, env, &told);
    (code, told.0.into_inner())
}

const FILE: &str = "/nowhere/tidegate.toml";

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_says_its_exit_codes() {
    let mut command = Cli::command();
    for name in [
        "demo", "serve", "mount", "check", "doctor", "purge", "stat", "pin", "warm",
    ] {
        let sub = command.find_subcommand_mut(name).expect(name);
        assert!(sub.render_long_help().to_string().contains("78"), "{name}");
    }
    assert!(command.render_help().to_string().contains("78"));
}

#[test]
fn ends_with_a_code_that_says_what_was_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let good = file(
        "good.toml",
        "[[origin]]\nname = \"media\"\nbucket = \"b\"\n",
    );
    let bad = file("bad.toml", "[[origin]]\nname = 1\n");
    let empty = file("empty.toml", "");
    let env = Environment::default();
    for command in ["serve", "check"] {
        assert_eq!(ran(&["-c", &good, command], &env).0, 0);
        for wrong in [&bad, &empty, &FILE.to_owned()] {
            assert_eq!(
                ran(&[command, "--config", wrong], &env),
                (78, vec![]),
                "{command} {wrong}"
            );
        }
    }
    assert_eq!(ran(&["serve", "-c", &good], &env).1, ["serve media"]);
    let line = ["mount", "-c", &good, "--route", "/a", "/mnt"];
    assert_eq!(ran(&line, &env).1, ["mount /mnt Some(\"/a\")"]);
    assert_eq!(ran(&["mount", "-c", &empty, "/mnt"], &env), (78, vec![]));
    let named = Environment::from_iter([("TIDEGATE_CONFIG", good.as_str())]);
    assert_eq!(ran(&["serve"], &named).1, ["serve media"]);
    assert_eq!(ran(&["serve", "-c", &bad], &named).0, 78);
    assert_eq!(
        ran(&["demo", "--port", "9"], &env),
        (1, vec!["demo 9".to_owned()])
    );
    assert_eq!(ran(&["purge", "/x", "-c", &good], &env).0, 1);
    let line = ["doctor", "-c", &good, "--object", "/a", "--time", "200ms"];
    assert_eq!(
        ran(&line, &env),
        (0, vec!["doctor 1 [\"/a\"] 200ms".to_owned()])
    );
    assert_eq!(ran(&["doctor", "-c", &bad], &env), (78, vec![]));
}

/// Answers one request, and returns it.
fn answering(mut stream: impl Read + Write + Send + 'static, status: &'static str) -> String {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.ends_with(b"}") {
        let count = stream.read(&mut buffer).expect("a request");
        assert_ne!(count, 0, "the request ended early");
        request.extend_from_slice(&buffer[..count]);
    }
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 5\r\n\r\nsaid\n");
    stream.write_all(answer.as_bytes()).expect("answered");
    String::from_utf8(request).expect("text")
}

fn purged(
    listen: String,
    server: JoinHandle<String>,
    path: &str,
) -> (anyhow::Result<String>, String) {
    let env = Environment::from_iter([("TOKEN", "s3cret")]);
    let text = format!("[admin]\nlisten = \"{listen}\"\ntoken = {{ env = \"TOKEN\" }}\n");
    let config = tidegate_config::parse("t.toml", &text, &env)
        .expect("it is right")
        .config;
    let args = PurgeArgs {
        path: Some(path.to_owned()),
        from_list: None,
        prefix: true,
        tag: Vec::new(),
        tags: false,
        key: Vec::new(),
        keys: false,
        origin: None,
        soft: true,
        host: None,
    };
    let answer = purge::purge(&config, &env, &args);
    (answer, server.join().expect("the server answered"))
}

#[test]
fn purges_over_tcp_and_tells_a_refusal() {
    for (status, right) in [("200 OK", true), ("403 Forbidden", false)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let listen = listener.local_addr().expect("an address").to_string();
        let server =
            std::thread::spawn(move || answering(listener.accept().expect("a caller").0, status));
        let (answer, request) = purged(listen, server, "/a%20b/");
        assert!(request.starts_with("POST /purge HTTP/1.1\r\n"), "{request}");
        assert!(
            request.contains("authorization: Bearer s3cret\r\n"),
            "{request}"
        );
        assert!(
            request.contains(r#"{"path":"/a%20b/","prefix":true,"host":null,"soft":true}"#),
            "{request}"
        );
        match answer {
            Ok(said) => assert!(right && said == "said\n"),
            Err(why) => {
                assert!(!right, "{why:#}");
                assert_eq!(why.to_string(), "the gateway answers 403 Forbidden: said");
            }
        }
    }
}

#[test]
fn purges_over_a_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("admin.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let server =
        std::thread::spawn(move || answering(listener.accept().expect("a caller").0, "200 OK"));
    let (answer, _) = purged(format!("unix:{}", path.display()), server, "/");
    assert_eq!(answer.expect("purged"), "said\n");
}

#[test]
fn a_purge_that_cannot_be_asked_for_says_why() {
    let env = Environment::default();
    let args = |path: &str| PurgeArgs {
        path: Some(path.into()),
        from_list: None,
        prefix: false,
        tag: Vec::new(),
        tags: false,
        key: Vec::new(),
        keys: false,
        origin: None,
        soft: false,
        host: None,
    };
    let why = |config: &tidegate_config::Config, path: &str| {
        let error = purge::purge(config, &env, &args(path)).expect_err("nobody listens");
        format!("{error:#}")
    };
    let mut config = tidegate_config::Config::default();
    assert_eq!(
        why(&config, "/a"),
        "`admin.token` is not set, so nothing can be purged"
    );
    config.admin.token = Some(tidegate_config::Secret::Env("TOKEN".into()));
    assert_eq!(
        why(&config, "/a"),
        "`admin.token`: the environment variable TOKEN is not set"
    );
    config.admin.token = Some(tidegate_config::Secret::Literal("s3cret".into()));
    assert_eq!(
        why(&config, "a"),
        "`a` does not begin with `/`: give the path as it stands in the URL"
    );
    // What stands behind it would be no part of the path: another folder would be changed.
    for path in ["/a#b", "/a?b"] {
        assert_eq!(
            why(&config, path),
            format!(
                "`{path}` has a `?` or a `#`: in the path of a URL they are written `%3F` and `%23`"
            )
        );
    }
    config.admin.listen = Listen::Unix("/nowhere/admin.sock".into()).into();
    let said = why(&config, "/a");
    assert!(
        said.starts_with("cannot purge through unix:/nowhere/admin.sock: "),
        "{said}"
    );
    assert!(!said.contains("s3cret"), "{said}");
}
