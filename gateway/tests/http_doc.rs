//! The programs that HTTP.md shows make links that are right.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method, Uri};
use tidegate_access::{Access, Request, Rules, SigningKey, Verdict};
use tidegate_plan::Timestamp;

const SECRET: &str = "a secret, as an operator writes it";

/// Returns the program in this language that makes links for a folder, or the one after it, which presigns a URL.
fn program(language: &str, presigns: bool) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("docs/HTTP.md")).expect("the document");
    let begin = format!("```{language}\n");
    let block = text.split(&begin).nth(1 + usize::from(presigns));
    let block = block.and_then(|rest| rest.split("```").next());
    block.expect("its block").to_owned()
}

/// Whether each interpreter, and the SDKs that Debian has, have to be there: CI installs them with the other real parts.
const ALL_ARE_HERE: bool = cfg!(feature = "real-parts");

/// Returns the output of a program; `None` if its interpreter is not installed here.
fn output(command: &[&str], program: &str) -> Option<String> {
    let mut process = Command::new(command[0]);
    process.args(&command[1..]).arg(program);
    process.env("SIGN_K1", SECRET).stdin(Stdio::null());
    let output = process.output().ok()?;
    assert!(output.status.success(), "{command:?}: {output:?}");
    Some(String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn each_program_makes_the_link_of_tidegate_sign() {
    let key = SigningKey::new("k1", SECRET).expect("a key");
    // A path decoded twice, or not encoded at all, is another one.
    let folder = "b\u{fc} c?h#e%25r/+1/";
    for (language, command) in [
        ("php", &["php", "-r"][..]),
        ("python", &["python3", "-c"]),
        ("js", &["node", "-e"]),
        ("sh", &["sh", "-c"]),
    ] {
        let text = program(language, false).replace("books/", folder);
        let text = text.strip_prefix("<?php").unwrap_or(&text);
        let Some(link) = output(command, text) else {
            let may_be_missing = !ALL_ARE_HERE && language != "sh";
            assert!(may_be_missing, "{language} is not installed here");
            eprintln!("{language} is not installed here");
            continue;
        };
        let (_, rest) = link.split_once("expires=").expect("a signature");
        let expires = rest.split('&').next().and_then(|text| text.parse().ok());
        let signed = key.sign_prefix(&format!("/private/{folder}"), expires.expect("a time"));
        let path = link.trim_end().strip_prefix(&format!("/private/{signed}/"));
        let path = path.unwrap_or_else(|| panic!("{language}: {link}"));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~/%".contains(c);
        assert!(path.chars().all(is_plain), "{language}: {link}");
        let decoded = percent_encoding::percent_decode_str(path).decode_utf8();
        assert_eq!(decoded.expect("text"), folder, "{language}: {link}");
    }
}

/// Those of the SDKs that are installed here presign URLs that the gateway admits, for what they name and nothing else.
/// Debian has no SDK for JavaScript and PHP: links that these have made are in the tests of `tidegate-access`.
#[test]
fn each_sdk_presigns_a_url_that_is_admitted() {
    let access = Access::new(Rules {
        keys: vec![SigningKey::new("k1", SECRET).expect("a key")],
        skew: Duration::from_secs(60),
        ..Rules::default()
    });
    let mut tried = BTreeSet::new();
    for (language, command, probe) in [
        ("sh", &["sh", "-c"][..], "aws --version"),
        ("python", &["python3", "-c"], "import boto3"),
        // Debian's, where another comes before it in PATH.
        ("python", &["/usr/bin/python3", "-c"], "import boto3"),
        (
            "js",
            &["node", "-e"],
            "require('@aws-sdk/s3-request-presigner')",
        ),
        ("php", &["php", "-r"], "require 'vendor/autoload.php';"),
    ] {
        let mut probed = Command::new(command[0]);
        probed.args(&command[1..]).arg(probe).stdin(Stdio::null());
        if !probed.output().is_ok_and(|output| output.status.success()) {
            eprintln!("{command:?} has no SDK here");
            continue;
        }
        tried.insert(language);
        let text = program(language, true);
        let text = text.strip_prefix("<?php").unwrap_or(&text);
        let url = output(command, text).expect("it was probed");
        let uri: Uri = url.trim_end().parse().expect("a URL");
        let path = "/private/books/list.m3u8";
        assert_eq!(uri.path(), path, "{language}: {url}");
        let admits = |path: &str| {
            let request = Request {
                method: &Method::GET,
                host: uri.host().expect("a host"),
                path,
                below: path.strip_prefix("/private/").expect("below the route"),
                query: uri.query(),
                headers: &HeaderMap::new(),
                address: None,
                certificate: &[],
                wants_name: false,
            };
            let verdict = access.check(&request, Timestamp::from(SystemTime::now()));
            matches!(verdict, Verdict::Admitted { .. })
        };
        assert!(admits(path), "{language}: {url}");
        assert!(!admits("/private/books/other.m3u8"), "{language}");
    }
    let are_here = BTreeSet::from(["sh", "python"]).is_subset(&tried);
    assert!(are_here || !ALL_ARE_HERE, "only {tried:?} have one here");
}
