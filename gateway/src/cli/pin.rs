//! `tidegate pin`: the pins, which are kept from eviction on disk.

use std::fmt::Write;

use anyhow::{Context, bail};
use http::Method;
use serde_json::{Value, json};

use super::PinArgs;
use super::client::{AdminRequest, Client, check_path, escape_query, run};
use super::stat::plain;
use tidegate_config::{Config, Environment};
use tidegate_plan::ByteSize;

/// Pins, unpins or lists, and returns the result as text.
pub(super) fn pin(config: &Config, env: &Environment, args: &PinArgs) -> anyhow::Result<String> {
    if args.list {
        let client = Client::new(config, "ask");
        let body = run(client.send(AdminRequest {
            method: Method::GET,
            target: "/pins".to_owned(),
            body: None,
        }))?;
        return list(&body);
    }
    let client = Client::with_token(config, env, "pin", "pinned")?;
    let path = args.remove.as_ref().or(args.path.as_ref());
    let path = path.context("say which PATH, or --list, or --remove PATH")?;
    check_path(path)?;
    let ask = match (&args.remove, args.limit) {
        (Some(_), _) => {
            let host = args.host.as_deref().map(escape_query);
            let host = host.map(|host| format!("&host={host}")).unwrap_or_default();
            AdminRequest {
                method: Method::DELETE,
                target: format!("/pins?path={}{host}", escape_query(path)),
                body: None,
            }
        }
        (None, Some(limit)) => AdminRequest {
            method: Method::PUT,
            target: "/pins".to_owned(),
            body: Some(json!({ "path": path, "host": args.host, "limit": limit.0 })),
        },
        (None, None) => bail!("say how much to keep at most: --limit 10GiB"),
    };
    let body = run(client.send(ask))?;
    changed(&body)
}

fn changed(body: &str) -> anyhow::Result<String> {
    let answer: Value = serde_json::from_str(body).context("the gateway answers no JSON")?;
    let mut text = String::new();
    for (word, pin) in [
        ("pinned", &answer["pinned"]),
        ("unpinned", &answer["unpinned"]),
    ] {
        if pin.is_object() {
            writeln!(text, "{word} {}", named(pin))?;
        }
    }
    if let Some(note) = answer["note"].as_str() {
        writeln!(text, "note: {}", plain(note))?;
    }
    Ok(text)
}

fn list(body: &str) -> anyhow::Result<String> {
    let answer: Value = serde_json::from_str(body).context("the gateway answers no JSON")?;
    let mut text = String::new();
    for pin in answer["pins"].as_array().into_iter().flatten() {
        let size = |key: &str| ByteSize(pin[key].as_u64().unwrap_or(0));
        let (used, limit) = (size("used"), size("limit"));
        writeln!(text, "{}  {used} of {limit}", named(pin))?;
    }
    if text.is_empty() {
        text.push_str("nothing is pinned\n");
    }
    Ok(text)
}

/// Returns origin and prefix, as text for people.
fn named(pin: &Value) -> String {
    let origin = pin["origin"].as_str().unwrap_or("(not configured)");
    let prefix = pin["prefix"].as_str().unwrap_or_default();
    format!("{}:{}", plain(origin), plain(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_what_is_pinned() {
        let body = json!({ "pins": [
            { "origin": "media", "prefix": "a\n/", "limit": 1 << 30, "used": 5 << 20 },
            { "origin": null, "prefix": "", "limit": 1000, "used": 0 },
        ] });
        let said = list(&body.to_string()).expect("JSON");
        let expected = "media:a\\n/  5MiB of 1GiB\n(not configured):  0 of 1KB\n";
        assert_eq!(said, expected);
        let none = list("{\"pins\": []}").expect("JSON");
        assert_eq!(none, "nothing is pinned\n");
        let body = json!({ "pinned": { "origin": "m", "prefix": "x/" }, "note": "half" });
        let said = changed(&body.to_string()).expect("JSON");
        assert_eq!(said, "pinned m:x/\nnote: half\n");
    }
}
