//! `tidegate stat`: the cached state of an object, from the admin listener of a running gateway.

use std::fmt::Write;

use anyhow::{Context, bail};
use http::{Method, Uri};
use serde_json::Value;

use super::StatArgs;
use super::client::{AdminRequest, Client, check_path, escape_query, run};
use tidegate_config::Config;

/// Runs of bytes that are shown to people.
const MAX_SHOWN_RUNS: usize = 20;

/// Asks, and returns the answer as text for people or for programs.
pub(super) fn stat(config: &Config, args: &StatArgs) -> anyhow::Result<String> {
    let (path, host) = path_and_host(&args.object, args.host.as_deref())?;
    let mut target = format!("/stat?path={}", escape_query(&path));
    if let Some(host) = host {
        write!(target, "&host={}", escape_query(&host))?;
    }
    let client = Client::new(config, "ask");
    let body = run(client.send(AdminRequest {
        method: Method::GET,
        target,
        body: None,
    }))?;
    if args.json {
        return Ok(body);
    }
    let answer: Value = serde_json::from_str(&body).context("the gateway answers no JSON")?;
    let mut text = String::new();
    for object in answer["objects"].as_array().into_iter().flatten() {
        write!(text, "{}", ObjectText(object))?;
    }
    Ok(text)
}

/// Returns the path and host of a path or a URL.
fn path_and_host(object: &str, host: Option<&str>) -> anyhow::Result<(String, Option<String>)> {
    let is_url = ["http://", "https://"]
        .iter()
        .any(|scheme| object.starts_with(scheme));
    if !is_url {
        let path = object.split(['?', '#']).next().unwrap_or_default();
        check_path(path)?;
        return Ok((path.to_owned(), host.map(str::to_owned)));
    }
    let bare = object.split('#').next().unwrap_or_default();
    let uri: Uri = bare.parse().with_context(|| format!("`{object}`"))?;
    let Some(of_url) = uri.host() else {
        bail!("`{object}` names no host");
    };
    let host = host.unwrap_or(of_url);
    Ok((uri.path().to_owned(), Some(host.to_owned())))
}

/// An object, as text for people.
struct ObjectText<'a>(&'a Value);

impl std::fmt::Display for ObjectText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = self.0;
        writeln!(f, "{} (origin {})", text(&of["key"]), text(&of["origin"]))?;
        if let Some(host) = of["host"].as_str() {
            writeln!(f, "  host       {}", plain(host))?;
        }
        if let Some(note) = of["note"].as_str() {
            writeln!(f, "  note       {}", plain(note))?;
        }
        self.pending(f)?;
        if of["known"] == false {
            return writeln!(f, "  not cached: nothing is known of it");
        }
        let age = secs(&of["age"]);
        if of["missing"] == true {
            let left = secs(&of["missing_for"]);
            return writeln!(
                f,
                "  the origin said {age} ago that there is none; believed for another {left}"
            );
        }
        let version = &of["version"];
        let words =
            ["etag", "last_modified", "content_type", "version_id"].map(|key| &version[key]);
        let words: Vec<_> = words
            .into_iter()
            .filter_map(Value::as_str)
            .map(plain)
            .collect();
        let size = number(&version["size"]);
        writeln!(f, "  version    {size} bytes, {}", words.join(", "))?;
        writeln!(f, "  confirmed  {age} ago: {}", text(&of["freshness"]))?;
        let bytes = |tier: &str| number(&of["bytes"][tier]);
        writeln!(
            f,
            "  cached     {}: {} bytes in memory, {} on disk ({} pinned), {} in neither",
            text(&of["cached"]),
            bytes("memory"),
            bytes("disk"),
            bytes("pinned"),
            bytes("absent")
        )?;
        if bytes("unseen") > 0 {
            writeln!(
                f,
                "  cut short  the last {} bytes were not looked at",
                bytes("unseen")
            )?;
        }
        self.runs(f)
    }
}

impl ObjectText<'_> {
    /// Writes the state of bytes that are not in the bucket yet.
    fn pending(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pending = &self.0["pending"];
        if let Some(stage) = pending["stage"].as_str() {
            let size = number(&pending["size"]);
            write!(
                f,
                "  pending    {}: {size} bytes were written",
                plain(stage)
            )?;
            match pending["trouble"].as_str() {
                Some(trouble) => writeln!(f, " ({})", plain(trouble))?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }

    fn runs(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let runs = self.0["ranges"].as_array().map_or(&[][..], Vec::as_slice);
        for run in runs.iter().take(MAX_SHOWN_RUNS) {
            let tiers = match (&run["memory"], &run["disk"]) {
                (Value::Bool(true), Value::Bool(true)) => "memory, disk",
                (Value::Bool(true), _) => "memory",
                (_, Value::Bool(true)) => "disk",
                _ => "absent",
            };
            let pinned = if run["pinned"] == true {
                ", pinned"
            } else {
                ""
            };
            let last = number(&run["end"]).saturating_sub(1);
            let range = format!("{}-{last}", number(&run["start"]));
            writeln!(f, "  {range:<24} {tiers}{pinned}")?;
        }
        let left = runs.len().saturating_sub(MAX_SHOWN_RUNS);
        if left > 0 {
            writeln!(f, "  and {left} more (--json lists them)")?;
        }
        Ok(())
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn secs(value: &Value) -> String {
    let time = std::time::Duration::try_from_secs_f64(value.as_f64().unwrap_or(0.0));
    tidegate_plan::RoundedDuration(time.unwrap_or_default()).to_string()
}

fn text(value: &Value) -> String {
    plain(value.as_str().unwrap_or("?"))
}

/// Escapes the control characters of a bucket's text, for a terminal.
pub(super) fn plain(text: &str) -> String {
    let escaped = |c: char| {
        let escape = c.is_control().then(|| c.escape_default().to_string());
        escape.unwrap_or_else(|| c.to_string())
    };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_url_names_path_and_host() {
        let host = |host: &str| Some(host.to_owned());
        for (object, asked, path, of) in [
            ("/a%20b", None, "/a%20b", None),
            ("/a?ver=6", Some("h"), "/a", host("h")),
            (
                "https://h.example:8443/a/b?x=1#y",
                None,
                "/a/b",
                host("h.example"),
            ),
            ("http://h.example", Some("other"), "/", host("other")),
        ] {
            let found = path_and_host(object, asked).expect(object);
            assert_eq!(found, (path.to_owned(), of), "{object}");
        }
        for bad in ["a", "ftp://h/a", "https:///a", "http://h/a b"] {
            assert!(path_and_host(bad, None).is_err(), "{bad}");
        }
    }

    #[test]
    fn people_read_what_is_where() {
        let run = |start: u64, end: u64, memory, disk| json!({ "start": start, "end": end, "memory": memory, "disk": disk });
        let object = json!({
            "key": "a\u{1b}[2Jb", "origin": "media", "host": null, "known": true, "missing": false,
            "note": "the index is still being loaded",
            "version": { "etag": "\"1\"", "size": 300, "last_modified": null,
                         "content_type": "text/plain", "version_id": null },
            "age": 12.4, "state": "fresh", "freshness": "fresh for another 48s",
            "cached": "partly", "bytes": { "memory": 200, "disk": 100, "absent": 100, "pinned": 100 },
            "ranges": [run(0, 100, true, true), run(100, 200, true, false), run(200, 300, false, false)],
            "ranges_left_off": 0,
        });
        assert_eq!(
            ObjectText(&object).to_string(),
            "a\\u{1b}[2Jb (origin media)\n\
             \x20 note       the index is still being loaded\n\
             \x20 version    300 bytes, \"1\", text/plain\n\
             \x20 confirmed  12s ago: fresh for another 48s\n\
             \x20 cached     partly: 200 bytes in memory, 100 on disk (100 pinned), 100 in neither\n\
             \x20 0-99                     memory, disk\n\
             \x20 100-199                  memory\n\
             \x20 200-299                  absent\n"
        );
        let mut unknown = json!({ "key": "a", "origin": "media", "known": false });
        let said = ObjectText(&unknown).to_string();
        assert_eq!(
            said,
            "a (origin media)\n  not cached: nothing is known of it\n"
        );
        unknown["pending"] = json!({ "size": 7, "stage": "waiting", "trouble": "it is down" });
        let said = ObjectText(&unknown).to_string();
        assert_eq!(
            said,
            "a (origin media)\n  pending    waiting: 7 bytes were written (it is down)\n  \
             not cached: nothing is known of it\n"
        );
    }
}
