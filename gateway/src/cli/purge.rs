//! `tidegate purge`: requests to the admin listener of a running gateway, one for a
//! path, or for each part of a list of paths, tags or keys.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use http::Method;
use serde_json::{Value, json};

use super::PurgeArgs;
use super::client::{AdminRequest, Client, check_path, run};
use super::lines::{lines, open};
use tidegate_config::{Config, Environment};
use tidegate_plan::ObjectKey;
use tidegate_plan::tags::Tag;

/// Paths, prefixes, tags or keys in one request.
const BATCH_SIZE: usize = 1000;

/// Purges, and returns the purged names, or for a list their number.
pub(super) fn purge(
    config: &Config,
    env: &Environment,
    args: &PurgeArgs,
) -> anyhow::Result<String> {
    let client = Client::with_token(config, env, "purge", "purged")?;
    match (&args.path, &args.from_list) {
        (Some(path), None) => {
            check_path(path)?;
            let body = json!({
                "path": path, "prefix": args.prefix, "host": args.host, "soft": args.soft,
            });
            run(client.send(request(body)))
        }
        (None, Some(file)) => purge_list(&client, &read(file, args)?, args),
        (None, None) if !args.tag.is_empty() => {
            check_tags(&args.tag)?;
            purge_list(&client, &args.tag, args)
        }
        (None, None) if !args.key.is_empty() => {
            check_keys(&args.key)?;
            purge_list(&client, &args.key, args)
        }
        _ => bail!("say one of PATH, --tag TAG, --key KEY and --from-list FILE"),
    }
}

fn purge_list(client: &Client<'_>, names: &[String], args: &PurgeArgs) -> anyhow::Result<String> {
    let list = match args {
        _ if args.tags || !args.tag.is_empty() => "tags",
        _ if args.keys || !args.key.is_empty() => "keys",
        _ if args.prefix => "prefixes",
        _ => "paths",
    };
    let (mut purged, mut known, mut no_route) = (0, 0, Vec::new());
    run(async {
        for (nth, part) in names.chunks(BATCH_SIZE).enumerate() {
            let mut body = json!({ list: part, "host": args.host, "soft": args.soft });
            // A gateway of before an upgrade knows no origins here.
            if let Some(origin) = &args.origin {
                body["origin"] = json!(origin);
            }
            let answer = client.send(request(body)).await.and_then(|answer| {
                serde_json::from_str::<Value>(&answer).context("the answer is no JSON")
            });
            let answer = answer.with_context(|| unfinished(names, nth * BATCH_SIZE))?;
            purged += answer["purged"].as_u64().unwrap_or(0);
            known += answer["known"].as_u64().unwrap_or(0);
            let missing = answer["no_route"].as_array().into_iter().flatten();
            no_route.extend(missing.filter_map(Value::as_str).map(str::to_owned));
        }
        Ok(())
    })?;
    let mut text = match list {
        "paths" | "keys" => format!("purged {purged}, known {known}\n"),
        _ => format!("purged {purged}\n"),
    };
    for path in no_route {
        writeln!(text, "no route has {}", path.escape_debug())?;
    }
    Ok(text)
}

/// Says how many names of a list are purged, and where to begin again.
fn unfinished(names: &[String], done: usize) -> String {
    let (all, next) = (names.len(), names[done].escape_debug());
    format!("{done} of {all} are purged, `{next}` and what follows it may not be")
}

fn check_tags(tags: &[String]) -> anyhow::Result<()> {
    for tag in tags {
        Tag::new(tag).with_context(|| format!("`{}`", tag.escape_debug()))?;
    }
    Ok(())
}

fn check_keys(keys: &[String]) -> anyhow::Result<()> {
    for key in keys {
        ObjectKey::new(key).with_context(|| format!("`{}`", key.escape_debug()))?;
    }
    Ok(())
}

fn request(body: Value) -> AdminRequest {
    AdminRequest {
        method: Method::POST,
        target: "/purge".to_owned(),
        body: Some(body),
    }
}

/// Reads a path, a tag or a key a line; empty lines are passed over.
fn read(file: &Path, args: &PurgeArgs) -> anyhow::Result<Vec<String>> {
    let (mut names, mut is_text) = (Vec::new(), true);
    lines(open(file)?, |line| {
        is_text &= matches!(line, Cow::Borrowed(_));
        let path = line.trim();
        if !path.is_empty() {
            names.push(path.to_owned());
        }
    })?;
    ensure!(is_text, "{} is not text", file.display());
    match (args.tags, args.keys) {
        (true, _) => check_tags(&names)?,
        (_, true) => check_keys(&names)?,
        _ => names.iter().try_for_each(|path| check_path(path))?,
    }
    Ok(names)
}
