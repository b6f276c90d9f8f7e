//! `tidegate reload`, `set` and `unset`: one request to the admin listener of a running gateway.

use std::fmt::Write as _;

use anyhow::Context as _;
use http::Method;
use serde_json::{Value, json};

use super::client::{AdminRequest, Client, run};
use tidegate_config::{Config, Environment};

/// Has the gateway read its configuration again, and returns what that has changed.
///
/// # Errors
/// The configuration is wrong, or the gateway cannot be asked. Then nothing has changed.
pub(super) fn reload(config: &Config, env: &Environment) -> anyhow::Result<String> {
    let client = Client::with_token(config, env, "reload", "reloaded")?;
    let answer = run(client.send(AdminRequest {
        method: Method::POST,
        target: "/reload".to_owned(),
        body: None,
    }))?;
    report(&answer)
}

/// Has the gateway set a key (`Some`) or undo that, and returns what that has changed.
///
/// # Errors
/// As [`reload`].
pub(super) fn set(
    config: &Config,
    env: &Environment,
    key: &str,
    value: Option<&str>,
) -> anyhow::Result<String> {
    let client = Client::with_token(config, env, "set a key", "set")?;
    let answer = run(client.send(AdminRequest {
        method: Method::POST,
        target: "/overrides".to_owned(),
        body: Some(json!({ "key": key, "value": value })),
    }))?;
    report(&answer)
}

/// Converts the answer into lines.
fn report(answer: &str) -> anyhow::Result<String> {
    let answer: Value = serde_json::from_str(answer).context("the gateway's answer is no JSON")?;
    let keys = |name: &str| {
        let list = answer[name].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).collect::<Vec<_>>()
    };
    let mut text = String::new();
    for (title, keys) in [
        ("changed", keys("changed")),
        ("needs a restart", keys("needs_restart")),
    ] {
        for key in keys {
            writeln!(text, "{title}: {key}")?;
        }
    }
    if text.is_empty() {
        text.push_str("no key has changed; secrets were read again\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_a_line() {
        let answer = r#"{"changed":["route[0].path"],"needs_restart":["http.listen[0]"]}"#;
        let lines = "changed: route[0].path\nneeds a restart: http.listen[0]\n";
        assert_eq!(report(answer).expect("JSON"), lines);
        let none = r#"{"changed":[],"needs_restart":[]}"#;
        assert_eq!(
            report(none).expect("JSON"),
            "no key has changed; secrets were read again\n"
        );
        assert!(report("x").is_err());
    }
}
